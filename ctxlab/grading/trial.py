"""One compression under trial: the histories that are given, the summariser, and how a result falls into parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ctxlab.budget import MAX_TOKENS, TRIGGER_RATIO, history_trigger
from ctxlab.grading.asking import Answer, Ask, Serve, short
from ctxlab.grading.draw import Draw
from ctxlab.messages import as_messages
from ctxlab.rounds import pairing
from ctxlab.sandbox import ServiceRaised
from ctxlab.tokens import estimate_tokens

TRIGGER = history_trigger(MAX_TOKENS, TRIGGER_RATIO)

History: TypeAlias = list[dict[str, Any]]


@dataclass(slots=True)
class Summariser:
    """The summariser that a learner's function is given: answers ``text`` or raises, and keeps what it was asked."""

    text: str
    fails: str = ""
    asked: list[list[Any]] = field(default_factory=list)

    def __call__(self, args: list[Any]) -> str:
        self.asked.append(args)
        if self.fails:
            raise ServiceRaised(self.fails, "the summary model is not available")
        return self.text


@dataclass(frozen=True, slots=True)
class Trial:
    """One compression: what was given, what came back, and how the result falls into parts."""

    history: History
    answer: Answer
    summariser: Summariser

    @property
    def result(self) -> History:
        """The answer as the list of messages that it must be."""
        value = self.answer.value
        if not isinstance(value, list):
            self.answer.fail(f"{short(value)} (a {type(value).__name__})", "a list of messages")
        for index, message in enumerate(value):
            if not isinstance(message, dict) or not isinstance(message.get("role"), str):
                self.answer.fail(f"{short(message)} at {index}", "messages: dicts with a role and a content")
            if not isinstance(message.get("content"), str | list | None):
                self.answer.fail(f"{short(message)} at {index}", "a content that is text, None or a list of parts")
            calls = message.get("tool_calls")
            if not (calls is None or (isinstance(calls, list) and all(isinstance(call, dict) for call in calls))):
                self.answer.fail(f"{short(message)} at {index}", "tool_calls that are a list of calls")
        return value

    @property
    def kept(self) -> int:
        """How many messages at the end are those of the history, verbatim (system messages apart)."""
        given, got = spoken(self.history), spoken(self.result)
        same = 0
        while same < min(len(given), len(got)) and given[-1 - same] == got[-1 - same]:
            same += 1
        return same

    @property
    def earlier(self) -> History:
        """The messages that the summary stands for."""
        given = spoken(self.history)
        return given[: len(given) - self.kept]

    def compressed(self) -> None:
        """End the check unless the history became shorter."""
        before, now = estimate_tokens(self.history), tokens(self.result)
        if now >= before:
            self.answer.fail(
                f"{len(self.result)} messages, {now:,} tokens",
                f"fewer than the {before:,} tokens that were given: at {TRIGGER:,} it is time to compress",
            )

    def same(self) -> bool:
        """Whether the history came back as it was."""
        return bool(self.result == self.history)


def spoken(history: Sequence[dict[str, Any]]) -> History:
    """The history without its system messages."""
    return [message for message in history if message["role"] not in ("system", "developer")]


def tokens(history: History) -> int:
    """The tokens of a list that a learner made: whatever it holds, a number."""
    return estimate_tokens([{**message, "content": message.get("content")} for message in history])


def compress(ask: Ask, draw: Draw, history: History, *, text: str | None = None, fails: str = "") -> Trial:
    """Ask for one compression."""
    summariser = Summariser(draw.summary() if text is None else text, fails)
    shown = f"compress_if_needed(history of {len(history)} messages, {estimate_tokens(history):,} tokens, summarize)"
    return Trial(history, ask.call(history, Serve("summarize", summariser), shown=shown), summariser)


def long_history(draw: Draw, tail: Sequence[dict[str, Any]] = (), at_least: int = 8_000) -> History:
    """A history over the trigger, with one more system message early on, that ends in ``tail`` or in plain rounds."""
    history = [draw.system(), *draw.round(1)]
    history.append({"role": "system", "content": f"From now on answer in metric units. Policy {draw.code()}."})
    while estimate_tokens(history) < at_least:
        history += draw.round(draw.number(0, 2), 3)
    history += tail or [*draw.round(0), *draw.round(0), *draw.round(0)]
    return history


def tails(draw: Draw) -> list[History]:
    """Ends of a history that put the place six from the end between a call and its result, among three parallel
    results, on a call, and in plain talk."""
    one, three, plain = draw.calls(1), draw.calls(3), [draw.assistant(1)]
    return [
        [draw.user(1), *one, *plain, *draw.round(0), draw.user(1), draw.assistant(1)],
        [draw.user(1), *three, *plain, *draw.round(0), draw.user(1)],
        [draw.user(1), *draw.calls(3), *plain, draw.user(1), draw.assistant(1)],
        [*draw.round(0), *draw.round(0), *draw.round(0)],
        [draw.user(1), *draw.calls(2), *draw.calls(2), *plain],
    ]


def unpaired(trial: Trial) -> None:
    """End the check where a call has no result, or a result no call, in the result."""
    found = pairing(as_messages(trial.result))
    if found.orphans or found.duplicates:
        index = min((*found.orphans, *found.duplicates))
        name = trial.result[index].get("tool_call_id")
        trial.answer.fail(
            f"message {index} is the result of {name!r}, but its call was summarised away",
            "each result after its call: the API answers 400 \"messages with role 'tool' must be a response to a "
            "preceding message with 'tool_calls'\"",
        )
    if found.open or found.misplaced:
        index = min((*(call.index for call in found.open), *found.misplaced))
        trial.answer.fail(
            f"message {index} ({short(trial.result[index])}) is parted from its call or its result",
            "each call followed by its results: the API answers 400 \"An assistant message with 'tool_calls' must be "
            "followed by tool messages responding to each 'tool_call_id'\"",
        )


def text_of(message: dict[str, Any]) -> str:
    """The text of a message that a learner made."""
    return as_messages([{"role": "user", "content": message.get("content")}])[0].text
