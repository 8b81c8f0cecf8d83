"""OpenAI: chat completions (O1 to O8) and the Responses API (R1 to R6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ctxlab.messages import Message, ToolCall
from ctxlab.providers.rules import Violation, broken

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_ROLES_OF_RESPONSES = ("assistant", "system", "developer", "user")


def check_chat(messages: tuple[Message, ...]) -> Iterator[Violation]:
    """Would ``POST /chat/completions`` refuse these messages?"""
    if not messages:
        yield broken("O3", None, "[] is too short - 'messages'", "Put at least one message into the history.")
    for index, message in enumerate(messages):
        if message.role not in _ROLES:
            yield broken(
                "O8",
                index,
                f"Invalid value: '{message.role}'. Supported values are: 'system', 'assistant', 'user', 'function', "
                "'tool', and 'developer'.",
                "Use one of the supported roles.",
            )
            continue
        yield from _content(index, message)
        yield from _calls(index, message)
    yield from _pairing(messages)


def _content(index: int, message: Message) -> Iterator[Violation]:
    """O4: content is text or a list with something in it, unless the message carries something else."""
    if message.content is None:
        data = message.data
        stands_without = message.role == "assistant" and any(
            data.get(key) for key in ("tool_calls", "function_call", "refusal", "audio")
        )
        if not stands_without:
            yield broken(
                "O4",
                index,
                f"Invalid value for 'content': expected a string, got null. (param: messages.[{index}].content)",
                "Give the message a text (an empty one is allowed), or drop the message.",
            )
    elif message.content == ():
        yield broken(
            "O4",
            index,
            f"Invalid 'messages[{index}].content': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead.",
            "Give the message a text, or drop the message.",
        )


def _calls(index: int, message: Message) -> Iterator[Violation]:
    """O5 and O6: the shape of the calls of one assistant message, and their ids."""
    if message.role != "assistant":
        return
    if message.data.get("tool_calls") == ():
        yield broken(
            "O5",
            index,
            f"Invalid 'messages[{index}].tool_calls': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead.",
            "Leave the key tool_calls out where there is no call.",
        )
    seen: set[str] = set()
    for place, call in enumerate(message.tool_calls):
        flaw = flaw_of_call(call, f"messages[{index}].tool_calls[{place}]")
        if flaw:
            yield broken(
                "O5", index, flaw, "Write the call with id, type, function.name and function.arguments (text)."
            )
        if call.id is not None and call.id in seen:
            yield broken(
                "O6",
                index,
                f"duplicate tool_call_id: {call.id} (messages[{index}].tool_calls[{place}])",
                f'Rename the second call "{call.id}", and its result with it.',
            )
        seen.add(call.id or "")


def flaw_of_call(call: ToolCall, where: str) -> str | None:
    """What the API says of the first field of a call that is absent or not text; None for a whole call."""
    for field in ("id", "type", "function.name", "function.arguments"):
        value: Any = call.data
        for key in field.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is None:
            return f"Missing required parameter: '{where}.{field}'."
        if not isinstance(value, str):
            kind = "an object" if isinstance(value, Mapping) else f"a value of type {type(value).__name__}"
            return f"Invalid type for '{where}.{field}': expected a string, but got {kind} instead."
        if not value and field == "function.name":
            return (
                f"Invalid '{where}.{field}': empty string. Expected a string with minimum length 1, but got an empty "
                "string instead."
            )
        if field == "type" and value != "function":
            return None  # a custom tool has fields of its own, which are not checked here
    return None


@dataclass(slots=True)
class _Block:
    """An assistant message with calls, its place, the ids that it asks for, and the place of each one's result."""

    index: int
    ids: dict[str | None, int | None]


def _pairing(messages: tuple[Message, ...]) -> Iterator[Violation]:
    """O1, O2, O7: a block is an assistant message with calls and the tool messages that directly follow it."""
    block: _Block | None = None
    for index, message in enumerate(messages):
        if message.role == "tool":
            yield from _result(index, message.tool_call_id, block)
            continue
        yield from _unanswered(block)
        calls = message.tool_calls if message.role == "assistant" else ()
        block = _Block(index, {call.id: None for call in calls}) if calls else None
    yield from _unanswered(block)


def _result(index: int, call_id: str | None, block: _Block | None) -> Iterator[Violation]:
    """O1 and O7: one tool message, and the block that is open where it stands."""
    elsewhere = "" if call_id is None else f' "{call_id}"'
    repair = f"Drop the result{elsewhere}, or put it directly after the assistant message that makes the call."
    if block is None:
        yield broken(
            "O1",
            index,
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
            f"'tool_calls'. (param: messages.[{index}].role)",
            repair,
        )
    elif call_id is None:
        yield broken(
            "O1",
            index,
            "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'. "
            f"(param: messages.[{index}].tool_call_id)",
            "Give the result the id of the call that it answers, or drop it.",
        )
    elif call_id not in block.ids:
        yield broken(
            "O1",
            index,
            f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' of previous message. "
            f"(param: messages.[{index}].tool_call_id)",
            repair,
        )
    elif block.ids[call_id] is not None:
        yield broken(
            "O7",
            index,
            f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call_id}', in messages[{block.ids[call_id]}] "
            f"and messages[{index}]. (param: messages.[{index}].tool_call_id)",
            f'Drop the second result of "{call_id}".',
        )
    else:
        block.ids[call_id] = index


def _unanswered(block: _Block | None) -> Iterator[Violation]:
    """O2: what is still open where a block ends. A call without an id is O5's."""
    missing = [name for name, at in block.ids.items() if name is not None and at is None] if block else []
    if block and missing:
        ids = ", ".join(missing)
        yield broken(
            "O2",
            block.index,
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {ids}",
            f"Put a tool message for {ids} directly after message {block.index} (before any other role), or drop the "
            "call.",
        )


def check_responses(messages: tuple[Message, ...]) -> Iterator[Violation]:
    """Would ``POST /responses`` refuse the items that these messages become?

    Calls and outputs are items of their own there and pair by call_id: an output answers the nearest open call before
    it with that id, whatever stands between (a warning, R6, since compatible servers do mind).

    A message that came from that API may carry ``id`` and ``requires`` (the id of the reasoning item that led to it).
    The reasoning item itself is a message of ``type`` "reasoning" with an ``id``, before it in the same turn.
    """
    if not messages:
        yield broken(
            "R4",
            None,
            "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' must be provided.",
            "Put at least one message into the history.",
        )
    yield from _items(messages)
    yield from _outputs(messages)
    yield from _reasoning(messages)


def _items(messages: tuple[Message, ...]) -> Iterator[Violation]:
    """R5. ``item`` counts the items of the request: one for a text, one for each call, one for an output."""
    item = 0
    for index, message in enumerate(messages):
        if message.role not in (*_ROLES_OF_RESPONSES, "tool"):
            supported = "Supported values are: 'assistant', 'system', 'developer', and 'user'."
            text = f"Invalid value: '{message.role}'. {supported}"
            yield broken("R5", index, text, "Use one of the supported roles.")
        calls = message.tool_calls if message.role == "assistant" else ()
        is_reasoning = message.data.get("type") == "reasoning"
        if message.content is None and not calls and not is_reasoning:
            field = "output" if message.role == "tool" else "content"
            expected = "expected one of an array of objects or string, but got null instead."
            text = f"Invalid type for 'input[{item}].{field}': {expected}"
            yield broken("R5", index, text, "Give the message a text (an empty one is allowed), or drop the message.")
        item += not calls or bool(message.content)
        for call in calls:
            for field, value in (("call_id", call.id), ("name", call.name)):
                if value is None and call.data.get("type", "function") == "function":
                    text = f"Missing required parameter: 'input[{item}].{field}'."
                    yield broken("R5", index, text, "Write the call with id, function.name and function.arguments.")
            item += 1


def _outputs(messages: tuple[Message, ...]) -> Iterator[Violation]:
    """R1, R2 and R6: which output answers which call."""
    waiting: defaultdict[str, list[int]] = defaultdict(list)
    last = -1  # the last message that is not an output
    for index, message in enumerate(messages):
        if message.role != "tool":
            last = index
            for call in message.tool_calls if message.role == "assistant" else ():
                waiting[call.id or ""].append(index)
            continue
        call_id = message.tool_call_id or ""
        if not waiting[call_id]:
            text = f"No tool call found for function call output with call_id {call_id}."
            yield broken("R1", index, text, f'Drop the output "{call_id}", or bring back the call before it.')
        elif waiting[call_id].pop() != last:
            text = f"No tool output found for tool call {call_id}"
            yield broken("R6", index, text, f'Move the output "{call_id}" directly after the message with its call.')
    for call_id, places in waiting.items():
        for index in places:
            text = f"No tool output found for function call {call_id}."
            yield broken("R2", index, text, f'Add the output of "{call_id}" after message {index}, or drop the call.')


def _reasoning(messages: tuple[Message, ...]) -> Iterator[Violation]:
    """R3, both ways: an item without its reasoning item, and a reasoning item without the item that follows it.

    One reasoning item may lead to several items (a text, calls), so it counts until the next user or system message.
    """
    turn: set[str] = set()
    just_before: list[tuple[int, str]] = []
    for index, message in enumerate(messages):
        own_id = message.data.get("id")
        if message.data.get("type") == "reasoning":
            turn.add(str(own_id))
            just_before.append((index, str(own_id)))
            continue
        if message.role != "assistant":
            yield from _reasoning_alone(just_before)
            turn = turn if message.role == "tool" else set()
        just_before = []
        required = message.data.get("requires")
        if isinstance(own_id, str) and isinstance(required, str) and required not in turn:
            kind = "function_call" if message.tool_calls and not message.content else "message"
            yield broken(
                "R3",
                index,
                f"Item '{own_id}' of type '{kind}' was provided without its required 'reasoning' item: '{required}'.",
                f"Bring back the reasoning item '{required}' before it, or strip the id '{own_id}'.",
            )
    yield from _reasoning_alone(just_before)


def _reasoning_alone(before: list[tuple[int, str]]) -> Iterator[Violation]:
    for index, name in before:
        yield broken(
            "R3",
            index,
            f"Item '{name}' of type 'reasoning' was provided without its required following item.",
            f"Bring back the item that followed '{name}', or drop the reasoning item.",
        )
