"""Make a broken history valid: every call answered, directly after it, exactly once.

Two modes. *append* keeps every call and answers the open ones with a tool message that says what is known: the
execution was interrupted. *discard* drops the incomplete batch instead. Both move real results back to their call,
drop results that answer nothing, and give a call whose id another call has a name of its own. One plan yields the
repaired history and the steps that explain it, so the two cannot differ.

What counts as valid, and is never touched: what no provider's pairing rule refuses, with unique call ids (Anthropic,
A3), a user turn before the first call (Gemini, G2) and whole reasoning pairs (Responses, R3) counted among them.
What no pairing can mend stays: an empty history, or a last assistant turn where the provider wants a user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ctxlab.errors import unknown_name
from ctxlab.messages import FrozenDict, Message, MessageLike, ToolCall, as_messages, to_dicts
from ctxlab.rounds import Call, Pairing, Step, pairing, split_rounds

REPAIR_MODES = ("append", "discard")

OUTCOME_UNKNOWN = (
    "[interrupted] The execution of this call was interrupted and no result was recorded. The outcome is unknown: "
    "check whether it took effect before you call again."
)
"""The answer to a call that may have run. The default, since a log alone cannot tell."""

NEVER_STARTED = "[interrupted] This call was interrupted before its execution started. Nothing was done: call again."
"""The answer to a call of which the caller knows that it did not run."""

OPENING = "[The conversation before this point is not part of this history.]"
"""The user message that goes before a history which begins with a call."""

Text: TypeAlias = str | Callable[[ToolCall], str]

_LONGEST_ID = 64  # Anthropic's limit, see rule A8
_MISTRAL_ID = 9  # Mistral's older rule M5: exactly nine letters or digits


def repair(
    messages: Iterable[MessageLike], mode: str = "append", *, text: Text = OUTCOME_UNKNOWN, unique_ids: bool = True
) -> list[dict[str, Any]]:
    """The history with every pairing rule of every provider kept; a valid one comes back equal.

    ``mode`` "append" puts a tool message with ``text`` (or ``text(call)``) directly after the batch of each open call.
    "discard" drops the batch with its partial results; in the last round also the assistant and tool messages that
    follow it. User and system messages are never dropped, and no real result is lost that has a call to go to (except
    with what discard drops). ``unique_ids=False`` leaves ids alone that repeat in *different* messages, which only
    Anthropic refuses. Repairing twice changes nothing. Raises `UnknownName` for another mode, `MalformedMessage`.

    >>> call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    >>> broken = [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    >>> [message["role"] for message in repair(broken)], [message["role"] for message in repair(broken, "discard")]
    (['user', 'assistant', 'tool'], ['user'])
    """
    return to_dicts(_plan(as_messages(messages), mode, text, unique_ids).messages)


def explain_repair(
    messages: Iterable[MessageLike], mode: str = "append", *, text: Text = OUTCOME_UNKNOWN, unique_ids: bool = True
) -> list[Step]:
    """The steps that `repair` takes with the same arguments; [] where there is nothing to mend.

    Actions: ``insert`` (an answer to an open call), ``move`` (a result to its call), ``drop`` (a result without a
    call, or a second one), ``rename`` (a repeated or missing id), ``discard``, ``open`` (a user message before a
    leading call), ``strip`` (a reasoning id without its item). ``index`` counts in the list that was given.
    """
    return _plan(as_messages(messages), mode, text, unique_ids).steps


@dataclass(slots=True)
class _Plan:
    """The repaired messages, each with the place it had (None for a new one), and the steps that led there."""

    placed: list[tuple[int | None, Message]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def messages(self) -> list[Message]:
        return [message for _, message in self.placed]

    def step(self, action: str, index: int | None, rule: str, why: str, **data: Any) -> None:
        self.steps.append(Step(action, index, why, rule, FrozenDict(data)))


def _plan(history: Sequence[Message], mode: str, text: Text, unique_ids: bool) -> _Plan:
    if mode not in REPAIR_MODES:
        raise unknown_name("repair mode", mode, list(REPAIR_MODES))
    pairs = pairing(history)
    gone = _discarded(history, pairs) if mode == "discard" else set()
    names = _names(history, [call for call in pairs.calls if call.index not in gone], unique_ids)
    batches: dict[int, list[Call]] = {}
    for call in pairs.calls:
        batches.setdefault(call.index, []).append(call)
    plan = _Plan()
    for index, message in enumerate(history):
        if index in gone:
            _explain_discard(plan, message, batches.get(index, []), index)
        elif message.role != "tool":  # a result goes where its call goes, one without a call nowhere
            _place(plan, history, index, batches.get(index, []), names, text)
    _explain_results(plan, history, pairs, gone)
    _open_before_a_call(plan)
    _mend_reasoning(plan)
    plan.steps.sort(key=lambda step: -1 if step.index is None else step.index)
    return plan


def _place(
    plan: _Plan, history: Sequence[Message], index: int, batch: list[Call], names: dict[Call, str], text: Text
) -> None:
    """Put one message that is not a result, and after it the results of its calls: the real ones, then the new."""
    message = history[index]
    for call in batch:
        if call in names:
            rule = "A3" if call.id else "O5"
            reason = f"the id {call.id!r} is taken by an earlier call" if call.id else "the call has no id"
            plan.step(
                "rename",
                index,
                rule,
                f"message {index}: {reason}; it and its result are named {names[call]!r}",
                old=call.id,
                new=names[call],
                result=call.result,
            )
    if any(call in names for call in batch):
        calls = [
            {**tool_call.data, "id": names.get(call, call.id)}
            for call, tool_call in zip(batch, message.tool_calls, strict=True)
        ]
        message = message.replace(tool_calls=calls)
    plan.placed.append((index, message))
    answered = sorted((call.result, call) for call in batch if call.result is not None)
    for place, call in answered:
        result = history[place]
        plan.placed.append((place, result.replace(tool_call_id=names[call]) if call in names else result))
    for call, tool_call in zip(batch, message.tool_calls, strict=True) if batch else ():
        if call.result is None:
            content = text if isinstance(text, str) else text(tool_call)
            answer = {"role": "tool", "tool_call_id": names.get(call, call.id), "content": content}
            plan.placed.append((None, Message.of(answer)))
            plan.step(
                "insert",
                index,
                "O2",
                f"message {index}: call {answer['tool_call_id']!r} has no result; a tool message directly after the "
                "batch says that it was interrupted",
                id=answer["tool_call_id"],
                name=tool_call.name,
            )


def _explain_results(plan: _Plan, history: Sequence[Message], pairs: Pairing, gone: set[int]) -> None:
    for index in pairs.orphans:
        name = history[index].tool_call_id
        why = f"message {index}: tool result for {name!r}, but no call {name!r} comes before it; dropped"
        plan.step("drop", index, "O1", why, id=name)
    for index in pairs.duplicates:
        name = history[index].tool_call_id
        why = f"message {index}: a further result for {name!r}, whose call has its result already; dropped"
        plan.step("drop", index, "O7", why, id=name)
    call_of = pairs.call_of
    for index in pairs.misplaced:
        if index not in gone:
            name, to = history[index].tool_call_id, call_of[index].index
            why = f"message {index}: the result for {name!r} does not follow its call directly; moved to message {to}"
            plan.step("move", index, "O1", why, id=name, call=to)


def _explain_discard(plan: _Plan, message: Message, batch: list[Call], index: int) -> None:
    missing = [call.id for call in batch if call.result is None]
    if missing:
        why = f"message {index}: {len(missing)} of {len(batch)} calls have no result; the batch is dropped"
    elif message.role == "tool":
        why = f"message {index}: the result for {message.tool_call_id!r} goes with its batch"
    else:
        why = f"message {index}: comes after an incomplete batch in the last round, or led to it; dropped with it"
    plan.step("discard", index, "O2", why, missing=tuple(missing), calls=len(batch))


def _discarded(history: Sequence[Message], pairs: Pairing) -> set[int]:
    """The places that discard drops: incomplete batches with their results; in the last round, all that follows too."""
    broken = {call.index for call in pairs.open}
    if not broken:
        return set()
    last = split_rounds(history)[-1]
    first = min((index for index in broken if index in last), default=len(history))
    gone = broken | {index for index in range(first, len(history)) if history[index].role == "assistant"}
    for index in sorted(gone):
        while index and history[index - 1].data.get("type") == "reasoning" and history[index - 1].role != "user":
            index -= 1
            gone.add(index)
    return gone | {call.result for call in pairs.calls if call.index in gone and call.result is not None}


def _names(history: Sequence[Message], calls: Sequence[Call], unique_ids: bool) -> dict[Call, str]:
    """New ids for the calls that need one: none of their own, or one that an earlier call has."""
    taken = {call.id for message in history for call in message.tool_calls} | {m.tool_call_id for m in history}
    counters: dict[str, int] = {}
    used: set[tuple[int, str]] = set()
    names: dict[Call, str] = {}
    for call in calls:
        scope = 0 if unique_ids else call.index
        if call.id is not None and (scope, call.id) not in used:
            used.add((scope, call.id))
            continue
        base = call.id or "call"
        number = counters.get(base, 1)
        while True:
            number += 1
            if (name := _variant(base, number)) not in taken:
                break
        counters[base] = number
        taken.add(name)
        names[call] = name
    return names


def _variant(base: str, number: int) -> str:
    """``call_0-2`` for ``call_0``; an id in Mistral's form stays in that form, a long one within Anthropic's limit."""
    if len(base) == _MISTRAL_ID and base.isascii() and base.isalnum():
        return f"{base[: _MISTRAL_ID - len(str(number))]}{number}"
    tail = f"-{number}"
    return f"{base[: max(1, _LONGEST_ID - len(tail))]}{tail}"


def _open_before_a_call(plan: _Plan) -> None:
    """G2: where the first turn is the assistant's and carries a call, a user message goes before it."""
    start = None
    for position, (_, message) in enumerate(plan.placed):
        if message.role in ("user", "tool"):
            return
        if message.role != "assistant":
            continue
        start = position if start is None else start
        if message.tool_calls:
            place = plan.placed[start][0]
            why = f"message {place}: the history begins with the assistant's call; a user message goes before it"
            plan.step("open", place, "G2", why)
            plan.placed.insert(start, (None, Message.of({"role": "user", "content": OPENING})))
            return


def _mend_reasoning(plan: _Plan) -> None:
    """R3: a reasoning item goes with the item that it led to; where one is lost, the other loses its tie to it."""
    kept: list[tuple[int | None, Message]] = []
    waiting: list[tuple[int | None, Message]] = []
    for place, message in plan.placed:
        if message.data.get("type") == "reasoning" and message.role not in ("user", "tool") and not message.is_system:
            waiting.append((place, message))
            continue
        if message.role == "assistant":
            message = _without_lost_reasoning(plan, place, message, {item.data.get("id") for _, item in waiting})
            kept += waiting
        else:
            _explain_lone_reasoning(plan, waiting)
        waiting = []
        kept.append((place, message))
    _explain_lone_reasoning(plan, waiting)
    plan.placed = kept


def _without_lost_reasoning(plan: _Plan, place: int | None, message: Message, at_hand: set[Any]) -> Message:
    required, own = message.data.get("requires"), message.data.get("id")
    if not isinstance(required, str) or not isinstance(own, str) or required in at_hand:
        return message
    why = f"message {place}: the reasoning item {required!r} is not there; the message loses its id {own!r}"
    plan.step("strip", place, "R3", why, id=own, requires=required)
    return Message.of({key: value for key, value in message.data.items() if key not in ("id", "requires")})


def _explain_lone_reasoning(plan: _Plan, items: list[tuple[int | None, Message]]) -> None:
    for place, item in items:
        name = item.data.get("id")
        why = f"message {place}: the reasoning item {name!r} without the item that it led to; dropped"
        plan.step("drop", place, "R3", why, id=name)
