"""What is wrong with a history as it stands: pairing by place, repeated ids, arguments that do not parse.

`rounds.pairing` decides which result answers which call; here its answer becomes sentences. The check runs on the
normal form, so it is the same for every format, and it looks at the whole history and not at its tail alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ctxlab.formats.conversation import PROBLEM_KINDS, Json, Problem
from ctxlab.formats.lines import parse
from ctxlab.messages import FrozenDict, Message
from ctxlab.rounds import Call, Pairing, pairing


def defects(messages: Sequence[Json], lines: Sequence[int | None]) -> list[Problem]:
    """The defects of a history in the normal form, in order of message."""
    found = [*_pairing(messages), *_repeated_ids(messages), *_arguments(messages)]
    return [
        Problem(kind, index, lines[index], text, PROBLEM_KINDS[kind][0])
        for index, kind, text in sorted(found, key=lambda item: item[0])
    ]


def _pairing(messages: Sequence[Json]) -> Iterator[tuple[int, str, str]]:
    pairs = pairing(_skeleton(message) for message in messages)
    for call in pairs.open:
        what = _name(messages, call)
        yield call.index, "dangling_call", f"message {call.index}: {what} has no result"
    for index in pairs.orphans:
        text = f"message {index}: tool result for {_id(messages, index)}, but no call with that id comes before it"
        yield index, "orphan_result", text
    for index in pairs.duplicates:
        text = f"message {index}: tool result for {_id(messages, index)}, but each such call before it has its result"
        yield index, "duplicate_result", text
    for index in pairs.misplaced:
        yield index, "misplaced_result", _parted(messages, pairs, index)


def _parted(messages: Sequence[Json], pairs: Pairing, index: int) -> str:
    call = pairs.call_of[index]
    between = next(at for at in range(index - 1, call.index, -1) if messages[at].get("role") != "tool")
    role = messages[between].get("role")
    return f"message {index}: the {role} message {between} parts this result from its call in message {call.index}"


_PLAIN = {role: Message.of({"role": role}) for role in ("system", "developer", "user", "assistant")}


def _skeleton(message: Json) -> Message:
    """What pairing looks at, without the text: freezing that would cost more than parsing the file."""
    role = message["role"]
    if role == "tool":
        return Message(FrozenDict({"role": role, "tool_call_id": message.get("tool_call_id")}))
    calls = message.get("tool_calls")
    if calls:
        return Message(FrozenDict({"role": role, "tool_calls": tuple(FrozenDict({"id": c.get("id")}) for c in calls)}))
    return _PLAIN[role]


def _name(messages: Sequence[Json], call: Call) -> str:
    function = messages[call.index]["tool_calls"][call.position].get("function") or {}
    return f"call {call.id!r} ({function.get('name')})"


def _id(messages: Sequence[Json], index: int) -> str:
    return repr(messages[index].get("tool_call_id"))


def _repeated_ids(messages: Sequence[Json]) -> Iterator[tuple[int, str, str]]:
    """Each use of a call id after its first."""
    first: dict[str, int] = {}
    for index, message in enumerate(messages):
        for call in message.get("tool_calls") or ():
            id = call.get("id")
            if not isinstance(id, str) or not id:
                continue
            if id in first:
                yield index, "repeated_id", f"message {index}: call id {id!r} again, first in message {first[id]}"
            else:
                first[id] = index


def _arguments(messages: Sequence[Json]) -> Iterator[tuple[int, str, str]]:
    for index, message in enumerate(messages):
        for call in message.get("tool_calls") or ():
            arguments = call["function"].get("arguments") if isinstance(call.get("function"), dict) else None
            why = _unreadable(arguments)
            if why:
                yield index, "bad_arguments", f"message {index}: arguments of call {call.get('id')!r}: {why}"


def _unreadable(arguments: object) -> str:
    """Why arguments are not the JSON text of an object; '' where they are. Blank text is read as no arguments."""
    if not isinstance(arguments, str):
        return "missing"
    if not arguments.strip():
        return ""
    try:
        value = parse(arguments.encode("utf-8", errors="surrogatepass"))
    except UnicodeDecodeError:
        return ""  # a lone surrogate inside: text that JSON's grammar does allow
    except ValueError as error:
        return f"not JSON ({error})"
    return "" if isinstance(value, dict) else "not an object"
