"""Compress a history: one summary in place of its early messages, the recent ones verbatim.

What is decided here: whether to compress at all, where the cut lands, what is kept beside the summary, and whether
the summary is good enough. The summariser is a plain callable that gets the early messages and returns text; who
writes the summary, and where the log of it lives, is left to others. Every outcome has a type and a reason, and
unless it is `Compressed` its messages are those that came in.

The result is, in this order: the system prompt; the summary as a user message; system messages of the summarised
stretch (after the summary, which now stands for what they referred to); the current request where the cut parts it
from its round; the recent messages. Two user messages in a row are avoided, since strict providers refuse them: the
pair-safe cut moves back to the assistant's turn before, and where it cannot, a short assistant message stands between.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from ctxlab.budget import KEEP_RECENT, MAX_TOKENS, TRIGGER_RATIO, history_trigger
from ctxlab.errors import WrongArgument, unknown_name
from ctxlab.messages import FrozenDict, Message, MessageLike, as_messages, to_dicts
from ctxlab.pruning import PRUNE_LIMIT, explain_prune, prune_history, prune_tool_result
from ctxlab.rounds import CUT_RULES, Step, align_to_turn_start, explain_cut
from ctxlab.tokens import estimate_tokens

__all__ = [
    "DEFAULT_POLICY",
    "SUMMARY_MARKER",
    "Compressed",
    "Failed",
    "Outcome",
    "Policy",
    "Refused",
    "Summarizer",
    "Unchanged",
    "compress",
    "compress_async",
    "compress_if_needed",
    "explain_compress",
    "explain_prune",
    "is_summary",
    "prune_history",
    "prune_tool_result",
]

SUMMARY_MARKER = "[Summary of the conversation so far]"
"""How a summary's text begins: a second compression knows the first one by it and folds it in."""

_BRIDGE = Message.of({"role": "assistant", "content": "Understood. I go on from this summary."})
_LEAST_SHARE = 0.125  # picked: what an early stretch must hold of the history where no summary can reach the goal

Summarizer: TypeAlias = Callable[[list[dict[str, Any]]], str | Awaitable[str]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Policy:
    """When to compress, and what to keep. All defaults are the lab's, and picked.

    ``trigger``: tokens of the history (its system messages not counted, nothing can be gained from them) at which it
    fires; 0 fires always. ``keep_recent``: messages at the end that stay verbatim, at least. ``rule``: where the cut
    may land, pair-safe or round-start. ``facts``: texts that must still be there afterwards, in the summary or
    verbatim (case aside); a summary that loses one is refused. ``timeout``: seconds for an async summariser, None for
    no limit. ``count``: the tokens of a list of messages. Raises `WrongArgument` (a ValueError) and `UnknownName`.
    """

    trigger: int = history_trigger(MAX_TOKENS, TRIGGER_RATIO)
    keep_recent: int = KEEP_RECENT
    rule: str = "pair-safe"
    facts: tuple[str, ...] = ()
    timeout: float | None = None
    count: Callable[[Sequence[Message]], int] = estimate_tokens

    def __post_init__(self) -> None:
        if self.rule not in CUT_RULES:
            raise unknown_name("cut rule", self.rule, list(CUT_RULES))
        for name, value in (("trigger", self.trigger), ("keep_recent", self.keep_recent)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise WrongArgument(f"{name}={value!r}; expected a whole number, 0 or more", name=name, value=value)


DEFAULT_POLICY = Policy()


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What all outcomes have: the messages to go on with, a sentence, the steps, the tokens before and after."""

    history: tuple[Message, ...] = field(repr=False)
    why: str
    tokens_before: int
    tokens_after: int
    steps: tuple[Step, ...] = field(repr=False)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages to go on with, as fresh dicts; the history as it was unless this is `Compressed`."""
        return to_dicts(self.history)


@dataclass(frozen=True, slots=True)
class Compressed(_Outcome):
    """Shorter now. ``summary``: its text. ``cut``: messages before it were replaced. ``kept``: the places that stay."""

    summary: str
    cut: int
    kept: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unchanged(_Outcome):
    """Nothing to do, or nothing to gain; the summariser was not called."""


@dataclass(frozen=True, slots=True)
class Refused(_Outcome):
    """The summariser answered, and its answer would have made things worse. ``summary``: what it returned."""

    summary: object


@dataclass(frozen=True, slots=True)
class Failed(_Outcome):
    """The summariser raised or timed out. ``error``: what it raised."""

    error: Exception


Outcome: TypeAlias = Compressed | Unchanged | Refused | Failed


def compress(history: Iterable[MessageLike], summarize: Summarizer, policy: Policy = DEFAULT_POLICY) -> Outcome:
    """Compress ``history`` by ``policy``. An async ``summarize`` is run to its end; inside a running event loop that
    raises `WrongArgument`: await `compress_async` there.

    ``summarize`` is called at most once, with the early messages in order, as dicts of their own. What it raises is in
    the outcome (`Failed`), except for a cancellation, an interrupt and an exit, which go through. The input is never
    changed. A summariser's input is not split: one that is too large for the summarising model fails there.
    """
    plan = _plan(as_messages(history), policy)
    if isinstance(plan, Unchanged):
        return plan
    answer = _called(summarize, plan.early)
    if inspect.isawaitable(answer):
        answer = _run(answer, policy.timeout)
    return _judge(plan, answer)


async def compress_async(
    history: Iterable[MessageLike], summarize: Summarizer, policy: Policy = DEFAULT_POLICY
) -> Outcome:
    """`compress` in an event loop, with a sync or an async ``summarize``; ``policy.timeout`` holds for the latter."""
    plan = _plan(as_messages(history), policy)
    if isinstance(plan, Unchanged):
        return plan
    answer = _called(summarize, plan.early)
    if inspect.isawaitable(answer):
        answer = await _awaited(answer, policy.timeout)
    return _judge(plan, answer)


async def compress_if_needed(history: Iterable[MessageLike], summarize: Summarizer) -> list[dict[str, Any]]:
    """The lab's rule: from 0.7 of 8,000 tokens on, one summary and at least the last 6 messages verbatim.

    Below the threshold the same history comes back and ``summarize`` is not called. Where nothing can be gained, or
    the summary fails or is refused, the history comes back as it was, and a warning in the log of ``ctxlab.compress``
    says why. The worked example: 30 rounds of 4 messages, about 30,000 tokens, become one summary of about 600 and the
    last 6 messages of about 1,500: about 2,100, a fourteenth.
    """
    outcome = await compress_async(history, summarize)
    if not isinstance(outcome, Compressed) and outcome.tokens_before >= DEFAULT_POLICY.trigger:
        _log.warning("history not compressed: %s", outcome.why)
    return outcome.messages


def explain_compress(history: Iterable[MessageLike], policy: Policy = DEFAULT_POLICY) -> list[Step]:
    """The steps up to the summariser's call: the count, the cut and its walk back, what stays, what would be replaced.

    Actions: ``count``, then those of `explain_cut`, ``yield`` (the cut goes back to the assistant's turn), ``request``,
    ``system``, ``bridge``, ``replace``; or ``stop`` where there is nothing to do. An outcome's ``.steps`` begin with
    the same ones.
    """
    return list(_plan(as_messages(history), policy).steps)


def is_summary(message: MessageLike) -> bool:
    """Whether a message is the summary of an earlier compression."""
    message = Message.of(message)
    return message.role == "user" and message.text.startswith(SUMMARY_MARKER)


@dataclass(frozen=True, slots=True)
class _Plan:
    """All that is known before the summariser is called. ``lead``, ``inner``, ``request`` are places;
    ``counted`` are the tokens that the trigger counts."""

    history: tuple[Message, ...]
    policy: Policy
    cut: int
    lead: tuple[int, ...]
    inner: tuple[int, ...]
    request: tuple[int, ...]
    bridge: bool
    counted: int
    steps: list[Step]

    @property
    def early(self) -> list[dict[str, Any]]:
        return to_dicts([message for message in self.history[: self.cut] if not message.is_system])

    @property
    def kept(self) -> tuple[int, ...]:
        return (*self.lead, *self.inner, *self.request, *range(self.cut, len(self.history)))

    def with_summary(self, text: str) -> tuple[Message, ...]:
        at = self.history
        summary = Message.of({"role": "user", "content": f"{SUMMARY_MARKER}\n{text}"})
        bridge = (_BRIDGE,) if self.bridge else ()
        lead, inner, request = ([at[i] for i in places] for places in (self.lead, self.inner, self.request))
        return (*lead, summary, *inner, *bridge, *request, *at[self.cut :])


def _plan(history: tuple[Message, ...], policy: Policy) -> _Plan | Unchanged:
    counted = policy.count(_talk(history))
    side = "below" if counted < policy.trigger else "at or over"
    why = f"{counted:,} tokens without system messages, {side} the trigger of {policy.trigger:,}"
    steps = [_step("count", None, why, tokens=counted, trigger=policy.trigger)]
    if counted < policy.trigger:
        return _unchanged(history, counted, steps, why)
    cut = _cut(history, policy, steps)
    request = _request(history, cut)
    start = next((i for i, message in enumerate(history) if not message.is_system), len(history))
    inner = tuple(i for i in range(start, cut) if history[i].is_system)
    then = _talk([*(history[i] for i in request), *history[cut:]])
    bridge = bool(then) and then[0].role == "user" and not _users_in_a_row(history)
    plan = _Plan(history, policy, cut, tuple(range(start)), inner, request, bridge, counted, steps)
    if futile := _futile(plan, policy.count(then)):
        return _unchanged(history, counted, steps, futile + _offer(history, policy, counted))
    _explain(plan)
    return plan


def _futile(plan: _Plan, stays: int) -> str:
    """Why no summary could help, or ''. ``stays``: tokens of what stays verbatim, system messages aside."""
    history, trigger = plan.history, plan.policy.trigger
    old = [m for m in _talk(history[: plan.cut]) if is_summary(m) or m == _BRIDGE]
    if len(_talk(history[: plan.cut])) - len(old) - len(plan.request) <= 0:
        return f"nothing new stands before the cut at {plan.cut}, so a summary has nothing to replace"
    if 0 < trigger <= stays and plan.counted - stays < _LEAST_SHARE * plan.counted:
        return (
            f"what stays verbatim is {stays:,} of {plan.counted:,} tokens and reaches the trigger of {trigger:,} by "
            "itself: hardly anything would be gained, and every later round would pay for another summary"
        )
    if plan.policy.count(plan.with_summary("")) >= plan.policy.count(history):
        return "the messages before the cut are no longer than an empty summary, so nothing can be gained"
    return ""


def _unchanged(history: tuple[Message, ...], counted: int, steps: Sequence[Step], why: str) -> Unchanged:
    return Unchanged(history, why, counted, counted, (*steps, _step("stop", None, why)))


def _cut(history: tuple[Message, ...], policy: Policy, steps: list[Step]) -> int:
    """The cut by the policy's rule; pair-safe, it goes back once more rather than leave two user messages in a row."""
    walk = explain_cut(history, max(0, len(history) - policy.keep_recent), policy.rule)
    steps += walk
    cut = walk[-1].index or 0
    first = next((i for i in range(cut, len(history)) if not history[i].is_system), None)
    before = next((i for i in range(cut - 1, -1, -1) if not history[i].is_system), None)
    if policy.rule != "pair-safe" or first is None or before is None or history[first].role != "user":
        return cut
    back = align_to_turn_start(history, before)
    early, less = (policy.count(_talk(history[:place])) for place in (cut, back))
    if history[back].role != "assistant" or not less or 2 * less < early:  # half: picked
        return cut
    why = f"message {first} is the user's, and so is the summary: the assistant's turn from {back} on stays between"
    steps.append(_step("yield", back, why, cut=back, raw=cut))
    return back


def _request(history: tuple[Message, ...], cut: int) -> tuple[int, ...]:
    """The user message(s) that the model is at work on, where the cut parts them from their round; else ()."""
    kept, talk = _talk(history[cut:]), _talk(history)
    if any(message.role == "user" for message in kept):
        return ()
    if not kept and talk and talk[-1].role == "assistant" and not talk[-1].tool_calls:
        return ()  # the round is over, its request answered
    end = next((i for i in range(cut - 1, -1, -1) if history[i].role == "user"), -1)
    start = end
    while start >= 0 and history[start].role == "user" and not is_summary(history[start]):
        start -= 1
    return tuple(range(start + 1, end + 1))


def _explain(plan: _Plan) -> None:
    """The steps for what stays beside the summary, and for what it replaces."""
    for index in plan.request:
        why = f"message {index} is the current request; it stays verbatim, after the summary"
        plan.steps.append(_step("request", index, why))
    for index in plan.inner:
        why = (
            f"message {index} ({plan.history[index].role}) stays verbatim; it moves behind the summary, which stands "
            "for what came before it, and for what came between it and the cut"
        )
        plan.steps.append(_step("system", index, why))
    if plan.bridge:
        why = "a user message follows the summary: a short assistant message goes between, for strict providers"
        plan.steps.append(_step("bridge", None, why))
    replaced = tuple(i for i in range(plan.cut) if not plan.history[i].is_system and i not in plan.request)
    why = f"{len(replaced)} messages before the cut at {plan.cut} become one summary"
    plan.steps.append(_step("replace", None, why, cut=plan.cut, replaced=replaced))


def _judge(plan: _Plan, answer: object) -> Compressed | Refused | Failed:
    """What becomes of the summariser's answer."""
    before = plan.counted
    if isinstance(answer, _Raised):
        error = answer.error
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        why = f"the summariser failed ({text}); the history is as it was"
        return Failed(plan.history, why, before, before, (*plan.steps, _step("stop", None, why)), error)

    def refused(why: str) -> Refused:
        return Refused(plan.history, why, before, before, (*plan.steps, _step("stop", None, why)), answer)

    if not isinstance(answer, str):
        return refused(f"the summariser returned a {type(answer).__name__}, not text; the history is as it was")
    text = answer
    while text.lstrip().startswith(SUMMARY_MARKER):  # an answer that echoes the earlier summary's first line
        text = text.lstrip().removeprefix(SUMMARY_MARKER).lstrip()
    if not text.strip():
        return refused("the summary is empty: it would wipe the past; the history is as it was")
    shorter = plan.with_summary(text)
    whole, left = plan.policy.count(plan.history), plan.policy.count(shorter)
    if left >= whole:
        return refused(f"the summary makes the history {left:,} tokens and it is {whole:,}: not smaller, refused")
    if lost := _lost(shorter, plan.policy.facts):
        return refused(f"the summary loses what has to stay: {'; '.join(lost)}; the history is as it was")
    after = plan.policy.count(_talk(shorter))
    why = f"{before:,} tokens became {after:,}: {plan.cut} messages before the cut are one summary"
    if after >= plan.policy.trigger:
        why += f". Still at or over the trigger of {plan.policy.trigger:,}" + _offer(shorter, plan.policy, after)
    done = _step("summary", None, why, before=before, after=after)
    return Compressed(shorter, why, before, after, (*plan.steps, done), text, plan.cut, plan.kept)


def _lost(messages: Iterable[Message], facts: Iterable[str]) -> list[str]:
    there = "\n".join(message.text for message in messages).casefold()
    return [fact for fact in facts if fact.casefold() not in there]


def _offer(history: Sequence[Message], policy: Policy, counted: int) -> str:
    """What pruning could do where compressing cannot: a half sentence."""
    for arguments, what in ((False, "tool results"), (True, "tool results and call arguments")):
        pruned = policy.count(_talk(as_messages(prune_history(history, arguments=arguments))))
        if pruned < counted:
            return f"; pruning {what} over {PRUNE_LIMIT:,} characters (prune_history) would bring it to {pruned:,}"
    return f"; pruning cannot help either, no tool result is over {PRUNE_LIMIT:,} characters: keep fewer messages"


def _talk(messages: Iterable[Message]) -> list[Message]:
    """The messages without the application's instructions, which are not history."""
    return [message for message in messages if not message.is_system]


def _users_in_a_row(history: Iterable[Message]) -> bool:
    talk = _talk(history)
    return any(a.role == b.role == "user" for a, b in pairwise(talk))


def _step(action: str, index: int | None, why: str, **data: Any) -> Step:
    return Step(action, index, why, "compress", FrozenDict(data))


@dataclass(frozen=True, slots=True)
class _Raised:
    error: Exception


def _called(summarize: Summarizer, early: list[dict[str, Any]]) -> object:
    try:
        return summarize(early)
    except Exception as error:  # noqa: BLE001 (somebody else's code: whatever it raises is the outcome)
        return _Raised(error)


async def _awaited(answer: Awaitable[object], timeout: float | None) -> object:
    try:
        async with asyncio.timeout(timeout):
            return await answer
    except Exception as error:  # noqa: BLE001 (as above)
        return _Raised(error)


def _run(answer: Awaitable[object], timeout: float | None) -> object:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_awaited(answer, timeout))
    if inspect.iscoroutine(answer):
        answer.close()
    raise WrongArgument(
        "an async summariser, called from inside a running event loop",
        hint="await compress_async(history, summarize) there",
        name="summarize",
        value=None,
    )
