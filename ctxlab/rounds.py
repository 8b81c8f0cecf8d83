"""Rounds, which result answers which call, and where a cut may land.

A **round** is a user message and all up to the next one. A **call** is answered by the nearest tool message that can
be its result: ids repeat inside real conversations, so a result belongs to the nearest still open call *before* it
with that id. This module reads and explains; mending is `repairs`', and whether a provider would refuse is
`providers`'.

Two rules say where a cut may land. *pair-safe*: never between a call and its result, which lands on the assistant
message that carries the calls. *round-start*: at the round's user message, which is pair-safe too and keeps the
round in one piece.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import SupportsIndex

from ctxlab.errors import CutIndexError, unknown_name
from ctxlab.messages import FrozenDict, Message, MessageLike, as_messages

CUT_RULES = ("pair-safe", "round-start")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an explanation: what a stepper draws, a terminal prints and a test reads.

    ``action`` is one word for the step, ``index`` the message it is about (in the list that was given, None where it
    is about no single message), ``why`` a sentence, ``rule`` the rule behind it (may be empty), ``data`` its numbers.
    """

    action: str
    index: int | None
    why: str
    rule: str = ""
    data: FrozenDict = field(default_factory=lambda: FrozenDict({}))


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call and its result, by place.

    ``index`` is the assistant message's place in the history, ``position`` the call's place in its batch, ``id`` its
    id (None where it has no usable one), ``result`` the place of the tool message that answers it, or None.
    """

    index: int
    position: int
    id: str | None
    result: int | None


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which result answers which call. All numbers are places in the history.

    ``calls`` are all calls in order; ``orphans`` results that follow no call with their id; ``duplicates`` results
    whose call was answered before them; ``misplaced`` real results that do not stand in the run of tool messages
    directly after their call's message (a user message between the two is enough for a 400).
    """

    calls: tuple[Call, ...]
    orphans: tuple[int, ...]
    duplicates: tuple[int, ...]
    misplaced: tuple[int, ...]

    @property
    def open(self) -> tuple[Call, ...]:
        """The dangling calls: those without a result anywhere after them."""
        return tuple(call for call in self.calls if call.result is None)

    @property
    def call_of(self) -> dict[int, Call]:
        """Result's place -> the call that it answers."""
        return {call.result: call for call in self.calls if call.result is not None}


def pairing(messages: Iterable[MessageLike]) -> Pairing:
    """Pair each result with its call: the nearest message before it with an open call of that id, in call order.

    Within one message that repeats an id the first result answers the first call. A missing or empty id is a name
    like any other: it pairs with a call that has none. Raises `MalformedMessage`.

    >>> call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    >>> pairing([{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c"}]).calls
    (Call(index=0, position=0, id='c', result=1),)
    """
    history = as_messages(messages)
    found: list[tuple[int, int, str | None]] = []
    results: dict[int, int] = {}
    # id -> one list for each message with open calls of that id, newest last; inside a list the calls in their order
    waiting: dict[str | None, list[list[int]]] = {}
    seen: set[str | None] = set()
    orphans: list[int] = []
    duplicates: list[int] = []
    for index, message in enumerate(history):
        if message.role == "assistant":
            batch: dict[str | None, list[int]] = {}
            for position, call in enumerate(message.tool_calls):
                batch.setdefault(call.id or None, []).append(len(found))
                found.append((index, position, call.id or None))
            for name, numbers in batch.items():
                waiting.setdefault(name, []).append(numbers)
                seen.add(name)
        elif message.role == "tool":
            name = message.tool_call_id or None
            if stack := waiting.get(name):
                results[stack[-1].pop(0)] = index
                if not stack[-1]:
                    stack.pop()
            else:
                (duplicates if name in seen else orphans).append(index)
    calls = tuple(Call(*where, results.get(number)) for number, where in enumerate(found))
    return Pairing(calls, tuple(orphans), tuple(duplicates), _misplaced(history, calls))


def _misplaced(history: Sequence[Message], calls: Sequence[Call]) -> tuple[int, ...]:
    """The results before which, back to their call's message, stands anything but tool messages."""
    owner: list[int] = []  # for each message, the last one up to it that is not a tool message
    for index, message in enumerate(history):
        owner.append(owner[-1] if message.role == "tool" and owner else index)
    return tuple(sorted(c.result for c in calls if c.result is not None and owner[c.result] != c.index))


def split_rounds(messages: Iterable[MessageLike]) -> list[range]:
    """The rounds as ranges of places. What stands before the first user message is a range of its own.

    >>> split_rounds([{"role": r, "content": ""} for r in ("system", "user", "assistant", "user")])
    [range(0, 1), range(1, 3), range(3, 4)]
    """
    history = as_messages(messages)
    starts = [index for index, message in enumerate(history) if message.role == "user" or index == 0]
    return [range(start, stop) for start, stop in pairwise([*starts, len(history)])]


def align_to_turn_start(messages: Iterable[MessageLike], index: int) -> int:
    """The nearest pair-safe cut at or before ``index``: ``messages[:cut]`` and ``messages[cut:]`` part no call from
    its result.

    Lands on the assistant message that carries the calls. ``index == len(messages)`` (nothing is cut off, a fork of
    the whole) is legal. Raises `CutIndexError` (an IndexError) outside ``0 <= index <= len(messages)``.
    """
    return _last(_walk(as_messages(messages), index, "pair-safe"))


def align_to_round_start(messages: Iterable[MessageLike], index: int) -> int:
    """The nearest cut at or before ``index`` that is pair-safe and stands before a user message.

    Where no user message comes before, it is 0; ``index == len(messages)`` stays. Raises `CutIndexError`.
    """
    return _last(_walk(as_messages(messages), index, "round-start"))


def explain_cut(messages: Iterable[MessageLike], index: int, rule: str = "pair-safe") -> list[Step]:
    """Every step from the raw cut to the cut that holds, and why.

    The first step is ``raw``, then one ``back`` for each move, the last is ``cut``; each step's ``index`` is where the
    cut stands after it. Raises `CutIndexError`, and `UnknownName` for a rule other than pair-safe or round-start.
    """
    return list(_walk(as_messages(messages), index, rule))


def _last(steps: Iterator[Step]) -> int:
    cut = 0
    for step in steps:
        cut = step.index or 0
    return cut


def _walk(history: Sequence[Message], index: int, rule: str) -> Iterator[Step]:
    """The walk back that all three functions above share."""
    if rule not in CUT_RULES:
        raise unknown_name("cut rule", rule, list(CUT_RULES))
    cut = raw = _checked(index, len(history))
    yield Step(
        "raw", cut, f"asked for: {cut} messages before the cut, {len(history) - cut} after it", rule, _facts(cut)
    )
    earliest = _earliest_calls(history)
    while 0 < cut < len(history):
        message = history[cut]
        call = earliest[cut]
        if message.role == "tool":
            to = cut - 1
            why = f"message {cut} is the tool result for {message.tool_call_id!r}; it may not part from its call"
        elif call < cut:
            to = call
            why = f"a call in message {call} has its result after the cut; the call goes with it"
        elif history[cut - 1].data.get("type") == "reasoning":
            to = cut - 1
            why = f"message {to} is the reasoning that led to message {cut}; the two are one unit"
        elif rule == "round-start" and message.role != "user":
            to = cut - 1
            why = f"message {cut} ({message.role}) is inside a round; a round starts at its user message"
        else:
            break
        yield Step("back", to, why, rule, FrozenDict({"from": cut, "to": to, "role": message.role}))
        cut = to
    yield Step("cut", cut, _landed(history, cut), rule, _facts(cut, raw))


def _landed(history: Sequence[Message], cut: int) -> str:
    if cut == len(history):
        return f"the cut is {cut}, the end: nothing comes after it"
    message = history[cut]
    carries = f" that carries {len(message.tool_calls)} call(s)" if message.tool_calls else ""
    return f"the cut is {cut}, before the {message.role} message{carries}; no call is parted from its result"


def _facts(cut: int, raw: int | None = None) -> FrozenDict:
    return FrozenDict({"cut": cut} if raw is None else {"cut": cut, "raw": raw, "moved": raw - cut})


def _earliest_calls(history: Sequence[Message]) -> list[int]:
    """For each place, the first message with a call whose result stands at or after that place (else the end)."""
    end = len(history)
    earliest = [end] * (end + 1)
    for result, call in pairing(history).call_of.items():
        earliest[result] = call.index
    for place in range(end - 1, -1, -1):
        earliest[place] = min(earliest[place], earliest[place + 1])
    return earliest


def _checked(index: object, length: int) -> int:
    if isinstance(index, bool) or not isinstance(index, SupportsIndex):
        raise CutIndexError(
            f"a cut at {index!r}, which is of type {type(index).__name__}; expected a whole number",
            hint=f"0 to {length} are legal; {length} is the end",
            index=index,
            length=length,
        )
    place = operator.index(index)
    if not 0 <= place <= length:
        raise CutIndexError(
            f"a cut at {place} in a history of {length} messages; 0 <= index <= {length}",
            hint="count from the end yourself: len(messages) - k" if place < 0 else f"{length} is the end",
            index=place,
            length=length,
        )
    return place
