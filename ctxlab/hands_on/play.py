"""The lab at work: a scripted conversation (`start`), one turn (`chat`), a fork (`fork`), on the learner's functions.

Each request is the system prompt of today, assembled fresh and never stored, and the history after the learner's
compress_if_needed. Each message goes through the learner's append_message as soon as it is made.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ctxlab.budget import MAX_TOKENS, TRIGGER_RATIO, history_trigger
from ctxlab.errors import ModelError
from ctxlab.hands_on.functions import Functions, LearnerError
from ctxlab.hands_on.sessions import Forked, LabSession, Recovered, make_fork, shared_messages
from ctxlab.models import SHOP_TOOLS, Model, Shop, play_round, rounds_of
from ctxlab.providers import validate
from ctxlab.tokens import estimate_tokens

ROUNDS = 12
"""Rounds of `start` (picked): about 12,000 tokens, over the threshold by any count that exercise 1 accepts."""

FORK_AT = 4  # messages; where start forks in memory, and what the lesson forks at

ASK_SUMMARY = (
    "Write a summary of the conversation above, in at most 300 words. Keep every fact and every wish that the customer "
    "stated, word for word, and the latest state of each order."
)

Say = Callable[[str], object]


@dataclass(slots=True)
class Lab:
    """The learner's functions, and who answers. ``note`` gets remarks, a line each."""

    functions: Functions
    model: Model
    note: Say

    def session(self, name: str) -> LabSession:
        """The session of that name."""
        return LabSession(name, self.functions)

    def compressed(self, history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The history after the learner's compress_if_needed; as it was, with a note, where no summary came."""
        try:
            return self.functions.compress(history, self._summarize)
        except LearnerError as error:
            if not isinstance(error.__cause__, ModelError):
                raise
            self.note(f"no summary ({error.__cause__}): the whole history is sent")
            return copy.deepcopy([dict(message) for message in history])

    def context(self, history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What is sent: the system prompt of this moment, and the history after compression."""
        sent = [system_prompt(), *self.compressed(history)]
        if broken := validate(sent, "openai"):
            self.note(f"this request would be a 400: {broken[0].message} (message {broken[0].index})")
        return sent

    def answer(self, session: LabSession, text: str, shop: Shop, on_text: Say | None = None) -> list[dict[str, Any]]:
        """One round: the user's text, appended before anything is asked, and what follows from it."""
        session.append({"role": "user", "content": text})
        context = self.context(session.messages)
        return play_round(self.model, context, SHOP_TOOLS, shop.run_tool, session.append, on_text)

    def _summarize(self, messages: Sequence[Mapping[str, Any]]) -> str:
        reply = self.model.reply([*messages, {"role": "user", "content": ASK_SUMMARY}])
        return str(reply.get("content") or "")


def system_prompt() -> dict[str, Any]:
    """The system prompt of this moment: it holds the time, so it is never stored."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = f"You look after the orders of a small shop, with its tools, in a few sentences each time. It is {now}."
    return {"role": "system", "content": text}


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of `chat`: what was read back first, and the messages that the turn made after the user's."""

    recovered: Recovered
    made: tuple[dict[str, Any], ...]

    @property
    def reply(self) -> str:
        """The answer's text."""
        return str(self.made[-1].get("content") or "") if self.made else ""


def chat(lab: Lab, text: str, name: str, say: Say, on_text: Say | None = None) -> Turn:
    """Loads a session, says what was recovered, and answers ``text`` in it. Raises `LearnerError`, `ModelError`."""
    session = lab.session(name)
    with session.held() as recovered:
        say(str(recovered))
        return Turn(recovered, tuple(lab.answer(session, text, Shop(), on_text)))


def fork(lab: Lab, at_index: int, name: str) -> tuple[Recovered, Forked]:
    """Forks a session after its first ``at_index`` messages."""
    session = lab.session(name)
    with session.held() as recovered:
        return recovered, make_fork(session, lab.functions, at_index)


@dataclass(frozen=True, slots=True)
class Size:
    """A history's size: messages, tokens by the real counter, and tokens by the learner's estimate_tokens."""

    messages: int
    tokens: int
    estimate: int

    def to_json(self) -> dict[str, int]:
        """As a dict."""
        return {"messages": self.messages, "tokens": self.tokens, "estimate": self.estimate}


@dataclass(frozen=True, slots=True)
class Started:
    """What `start` found: the history before and after compression, what a restart reads, what a fork does."""

    session: str
    recovered: Recovered
    rounds: int
    appended: int
    before: Size
    after: Size
    violations: tuple[str, ...]
    on_disk: int
    forked_at: int
    contaminated: bool

    @property
    def lines(self) -> list[str]:
        """What a learner is shown at the end."""
        before, after = self.before, self.after
        line = (
            f"comparison: {before.messages} messages, {before.tokens:,} tokens -> {after.messages} messages, "
            f"{after.tokens:,} tokens"
        )
        if after.tokens < before.tokens:
            line += f", {before.tokens / max(1, after.tokens):.1f} times shorter"
        else:
            line += ": the history did not get shorter"
        total = self.recovered.messages + self.recovered.mended + self.appended
        fork = "changed with it: the fork contaminated it" if self.contaminated else "is as it was"
        return [
            line,
            f"            by your estimate_tokens: {before.estimate:,} -> {after.estimate:,} tokens",
            *(f"            the shorter history would be a 400: {one}" for one in self.violations),
            f"restart:    {self.on_disk} of {total} messages are read back from {self.recovered.path}",
            f"fork:       at message {self.forked_at}; then the fork was changed, and its parent {fork}",
        ]

    def to_json(self) -> dict[str, Any]:
        """All of it, for machines."""
        return {
            "session": self.session,
            "file": str(self.recovered.path),
            "recovered": self.recovered.messages,
            "rounds": self.rounds,
            "appended": self.appended,
            "threshold": THRESHOLD,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "violations": list(self.violations),
            "on_disk": self.on_disk,
            "fork": {"at": self.forked_at, "parent_changed": self.contaminated},
        }


THRESHOLD = history_trigger(MAX_TOKENS, TRIGGER_RATIO)
"""Tokens of the history at which it is time to compress: 5,600."""


def start(lab: Lab, name: str, rounds: int, say: Say) -> Started:
    """Plays a scripted customer for some rounds, then compresses, reads back and forks. Raises `LearnerError`."""
    lab.functions.tell_incomplete()
    session = lab.session(name)
    with session.held() as recovered:
        say(str(recovered))
        first, shop, passed = len(session.messages), Shop(), False
        # One round, in the middle, calls two tools at once; the others one at a time, as in the worked example.
        for number, one in enumerate(rounds_of(rounds, seed=first, parallel_every=rounds // 2 + 1), 1):
            lab.answer(session, one[0]["content"], shop)
            tokens = estimate_tokens(session.messages)
            if tokens >= THRESHOLD and not passed:
                passed = True
                say(f"round {number}: {tokens:,} tokens, the threshold of {THRESHOLD:,} is passed")
        history = session.messages
        shorter = lab.compressed(history)
        before, after = (_size(lab.functions, one) for one in (history, shorter))
        broken = tuple(f"{one.message} (message {one.index})" for one in validate([system_prompt(), *shorter]))
        at, contaminated = _fork_in_memory(lab.functions, name, history)
        appended = len(history) - first
        return Started(name, recovered, rounds, appended, before, after, broken, session.on_disk(), at, contaminated)


def _size(functions: Functions, history: list[dict[str, Any]]) -> Size:
    return Size(len(history), estimate_tokens(history), functions.estimate(history))


def _fork_in_memory(functions: Functions, name: str, history: list[dict[str, Any]]) -> tuple[int, bool]:
    """Forks a copy of the history, adds a message to the fork and changes one in it; whether the parent changed."""
    parent = {"id": name, "messages": copy.deepcopy(history)}
    child = functions.fork(parent, min(FORK_AT, len(history)))
    shared = shared_messages(parent["messages"], child["messages"])
    child["messages"].append({"role": "user", "content": "Only the fork has this."})
    return child["forked_at"], bool(shared) or parent["messages"] != history
