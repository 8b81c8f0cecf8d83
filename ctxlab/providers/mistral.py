"""Mistral (M1 to M8), after the validator of the public package mistral-common 1.13.1 in its *serving* mode.

The rules changed with the tokenizer's version. ``mistral`` is v13, the newest whose rules for a history differ;
``mistral_v3``, ``mistral_v7`` and ``mistral_v11`` are the earlier ones. ``mistral_api_2025`` is the hosted API as it
was reported in 2025: a user message right after a result is refused; ids of another form are a warning there, since
its models were on different versions. Text content only: which version takes which image or audio chunk is not
checked. v15 judges such a history as v13 does.

The library stops at its first finding; here all are listed, so one orphan result may appear as M1 and as M3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from ctxlab.messages import Message, ToolCall
from ctxlab.providers.rules import Violation, broken

Version: TypeAlias = Literal[3, 7, 11, 13]

_AFTER = {
    "system": ("user", "assistant", "system"),
    "user": ("assistant", "system", "user"),
    "assistant": ("assistant", "user", "tool"),
    "tool": ("assistant", "tool", "user"),
}
_ID = re.compile(r"^[a-zA-Z0-9]{9}$")
_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
_NO_ID = "null"  # what the library puts where a call has no id


def check(messages: tuple[Message, ...], version: Version = 13, user_after_tool: bool = True) -> Iterator[Violation]:
    """Would the validator of this version refuse these messages, as a request to be served?"""
    roles = ["system" if message.role == "developer" else message.role for message in messages]
    yield from _ends(messages, roles)
    yield from _order(roles, user_after_tool)
    yield from (_by_id(messages, roles) if version >= 11 else _by_count(messages, roles))
    for index, message in enumerate(messages):
        yield from _fields(index, message, roles[index], last=index == len(messages) - 1)
        if roles[index] == "assistant":
            yield from _assistant(index, message, version)
        elif roles[index] == "tool":
            yield from _id(index, message.tool_call_id, version, missing="Tool call id has to be defined.")


def _ends(messages: tuple[Message, ...], roles: list[str]) -> Iterator[Violation]:
    """M4 and M7: the first and the last message."""
    if not roles:
        yield broken(
            "M7", None, "Conversation must have at least one message", "Put at least one message into the history."
        )
    elif len(roles) == 1:
        if roles[0] not in ("user", "system"):
            yield broken(
                "M7",
                0,
                "Conversation must start with a user message or system message",
                "Put a user message before it.",
            )
    else:
        if roles[0] == "tool":
            yield broken("M7", 0, "Unexpected role 'tool' as first message", "Drop the result.", "warning")
        if roles[-1] == "assistant" and messages[-1].data.get("prefix") is not True:
            yield broken(
                "M4",
                len(roles) - 1,
                "Expected last role User or Tool (or Assistant with prefix) for serving but got assistant",
                "End the history with a user message or a tool result, or set prefix: true to have it continued.",
            )


def _order(roles: list[str], user_after_tool: bool) -> Iterator[Violation]:
    """M1: which role may follow which."""
    for index in range(1, len(roles)):
        before, role = roles[index - 1], roles[index]
        allowed = _AFTER.get(before)
        if allowed is None or role not in _AFTER:
            continue  # an unknown role is M8's
        if role not in allowed or (before == "tool" and role == "user" and not user_after_tool):
            text = f"Unexpected role '{role}' after role '{before}'"
            yield broken("M1", index, text, _order_repair(before, role), pairing=role == "tool")


def _order_repair(before: str, role: str) -> str:
    if role == "tool":
        return "Drop the result, or put it directly after the assistant message that makes the call."
    if role == "user":
        return "Put an assistant message between the result and the user message."
    return f"Move the {role} message to the front, or say it in a user message; it may not follow {before}."


def _by_count(messages: tuple[Message, ...], roles: list[str]) -> Iterator[Violation]:
    """M2 of v3 to v7: only the numbers are compared. As in the library, the first message is not looked at."""
    expected, owner = 0, 0
    for index in range(1, len(roles)):
        if roles[index] == "tool":
            expected -= 1
            if expected == -1:
                owner = index
        elif roles[index] == "assistant":
            yield from _count(expected, owner)
            expected, owner = len(messages[index].tool_calls), index
    yield from _count(expected, owner)


def _count(expected: int, owner: int) -> Iterator[Violation]:
    if expected:
        repair = (
            f"Add {expected} tool message(s) after message {owner}, or drop the unanswered call(s)."
            if expected > 0
            else f"Drop {-expected} tool message(s) from message {owner} on; no call is left for them."
        )
        yield broken("M2", owner, "Not the same number of function calls and responses", repair)


def _by_id(messages: tuple[Message, ...], roles: list[str]) -> Iterator[Violation]:
    """M2 and M3 from v11 on: the ids are compared. As in the library, the first message is not looked at."""
    expected: set[str] = set()
    observed: set[str] = set()
    owner = 0
    for index in range(1, len(roles)):
        message = messages[index]
        if roles[index] == "tool":
            call_id = message.tool_call_id or ""
            if call_id in observed:
                text = f"Duplicate tool call id {call_id} in tool results"
                yield broken("M3", index, text, f'Drop the second result of "{call_id}".')
            elif call_id not in expected:
                text = f"Unexpected tool call id {call_id} in tool results"
                yield broken("M3", index, text, f'Drop the result "{call_id}": no open call before it has that id.')
            else:
                observed.add(call_id)
        elif roles[index] == "assistant":
            yield from _open_calls(expected - observed, owner)
            expected, observed, owner = set(), set(), index
            for call in message.tool_calls:
                name = _call_id(call)
                if name in expected:
                    text = f"Duplicate tool call id {name} in assistant message"
                    yield broken("M3", index, text, f'Rename the second call "{name}", and its result with it.')
                expected.add(name)
    yield from _open_calls(expected - observed, owner)


def _open_calls(open_ids: set[str], owner: int) -> Iterator[Violation]:
    if open_ids:
        yield broken(
            "M2",
            owner,
            "Not the same number of function calls and responses",
            f"Add a tool message for {', '.join(sorted(open_ids))} after message {owner}, or drop the call.",
        )


def _call_id(call: ToolCall) -> str:
    return _NO_ID if call.id is None else call.id


def _fields(index: int, message: Message, role: str, last: bool) -> Iterator[Violation]:
    """M8: what the library's own message models refuse, and names."""
    if role not in _AFTER:
        yield broken("M8", index, f"Unknown message role: {role}", "Use system, user, assistant or tool.")
        return
    if message.content is None and role != "assistant":
        yield broken(
            "M8", index, f"{role} message: content must be a string or a list", "Give the message a text, or drop it."
        )
    if role == "assistant" and message.data.get("prefix") is True and not last:
        text = "Assistant message with prefix True must be last message"
        yield broken("M8", index, text, "Drop the key prefix.")
    if role == "tool" and message.name is not None and not _NAME.match(message.name):
        yield _bad_name(index, message.name)


def _bad_name(index: int, name: str) -> Violation:
    return broken(
        "M8",
        index,
        f"Function name was {name} but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum "
        "length of 64.",
        "Rename the function.",
    )


def _assistant(index: int, message: Message, version: Version) -> Iterator[Violation]:
    """M5, M6 and M8 of an assistant message."""
    if version == 3 and bool(message.content) == bool(message.tool_calls):
        yield broken(
            "M6",
            index,
            "Assistant message must have either content or tool_calls, but not both.",
            "Split it in two: the text, then the calls." if message.content else "Give the message a text, or drop it.",
        )
    for call in message.tool_calls:
        function = call.data.get("function")
        arguments = function.get("arguments", 0) if isinstance(function, Mapping) else None
        if call.name is None or not (arguments is None or isinstance(arguments, (str, Mapping))):
            text = "tool_calls: a call must have a function with a name and arguments"
            yield broken("M8", index, text, "Write the call with id, function.name and function.arguments.")
        elif call.data.get("type", "function") != "function":
            text = f"tool_calls: type must be 'function', not {call.data['type']!r}"
            yield broken("M8", index, text, "Write the call with type: function.")
        elif not _NAME.match(call.name):
            yield _bad_name(index, call.name)
        call_id = None if call.id == _NO_ID else call.id
        yield from _id(index, call_id, version, missing="Tool call id has to be defined in serving mode.")


def _id(index: int, call_id: str | None, version: Version, missing: str) -> Iterator[Violation]:
    """M5: nine letters or digits up to v11; from v13 on any id that is there, with a warning."""
    repair = "Give the call and its result an id of nine letters or digits."
    if version >= 13 and (not call_id or call_id == _NO_ID):
        text = "Tool call id must be a non-empty string other than 'null' for tokenizer version 13 or newer."
        yield broken("M5", index, text, repair)
    elif call_id is None:
        yield broken("M5", index, missing, repair)
    elif not _ID.match(call_id):
        text = f"Tool call id was {call_id} but must be a-z, A-Z, 0-9, with a length of 9."
        yield broken("M5", index, text, repair, "warning" if version >= 13 else "error")
