"""Anthropic messages (A1 to A11): today, as in 2024, and for models without prefill.

The request is not the list that was given. System messages are lifted out into a field of their own, a run of tool
messages becomes one user message of ``tool_result`` blocks, and a user message that directly follows joins it (an
OpenAI-shaped list has no other way to say text beside results). Today the API also combines consecutive messages of
one role. The indices in the texts (``messages.1.content.0``) are those of the converted request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias

from ctxlab.messages import Message, part_text
from ctxlab.providers.rules import Severity, Violation, broken

Version: TypeAlias = Literal["now", "2024", "no_prefill"]

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_LONGEST_ID = 64


@dataclass(slots=True)
class _Block:
    """One content block: ``kind`` text, tool_use, tool_result or other; ``index`` is the given message it came from."""

    kind: str
    index: int
    text: str = ""
    id: str | None = None
    name: str | None = None


@dataclass(slots=True)
class _Turn:
    """One message of the converted request. ``index``: the first given message in it."""

    role: str
    index: int
    blocks: list[_Block] = field(default_factory=list)
    last: int = 0

    def absorb(self, other: _Turn) -> None:
        """Take the blocks of the turn that follows."""
        self.blocks += other.blocks
        self.last = other.last


def check(messages: tuple[Message, ...], version: Version = "now") -> Iterator[Violation]:
    """Would ``POST /v1/messages`` refuse what these messages are converted to?"""
    for index, message in enumerate(messages):
        if not message.is_system and message.role not in ("user", "assistant", "tool"):
            yield broken(
                "A10",
                index,
                f'messages: Unexpected role "{message.role}". Allowed roles are "user" or "assistant".',
                "Use the role user or assistant.",
            )
    turns = _convert(messages)
    if not turns:
        yield broken("A9", None, "messages: at least one message is required", "Put a user message into the history.")
        return
    yield from _order(turns, "error" if version == "2024" else "warning")
    if version != "2024":
        turns = _combine(turns)
    yield from _pairing(turns, version)
    yield from _ids(turns)
    yield from _empty(turns)
    yield from _end(turns[-1], "error" if version == "no_prefill" else "warning")


def _end(turn: _Turn, severity: Severity) -> Iterator[Violation]:
    """A6 and A11: a last message of the assistant is a prefill, which the model goes on from."""
    if turn.role != "assistant":
        return
    yield broken(
        "A6",
        turn.last,
        "This model does not support assistant message prefill. The conversation must end with a user message.",
        "End the history with a user message or a tool result.",
        severity,
    )
    last = turn.blocks[-1] if turn.blocks else None
    if last is not None and last.kind == "text" and last.text != last.text.rstrip():
        yield broken(
            "A11",
            turn.last,
            "messages: final assistant content cannot end with trailing whitespace",
            "Strip the white space from the end of the last message, or end with a user message.",
        )


def _convert(messages: tuple[Message, ...]) -> list[_Turn]:
    """The request's messages before the API combines any: results in a row are one, with the user text after them."""
    turns: list[_Turn] = []
    after_tool = False
    for index, message in enumerate(messages):
        if message.is_system or message.role not in ("user", "assistant", "tool"):
            continue
        turn = _turn(index, message)
        if after_tool and turn.role == "user":
            turns[-1].absorb(turn)
        else:
            turns.append(turn)
        after_tool = message.role == "tool"
    return turns


def _turn(index: int, message: Message) -> _Turn:
    turn = _Turn("assistant" if message.role == "assistant" else "user", index, last=index)
    if message.role == "tool":
        turn.blocks.append(_Block("tool_result", index, id=message.tool_call_id))
        return turn
    parts = (message.content,) if isinstance(message.content, str) else message.content or ()
    calls = message.tool_calls if message.role == "assistant" else ()
    for part in parts:
        text = part_text(part)
        if text == "" and calls:
            continue  # converters leave an empty text beside calls out
        turn.blocks.append(_Block("other", index) if text is None else _Block("text", index, text))
    turn.blocks += [_Block("tool_use", index, id=call.id, name=call.name) for call in calls]
    return turn


def _combine(turns: list[_Turn]) -> list[_Turn]:
    """Consecutive messages of one role as one, as the API does it by now."""
    combined: list[_Turn] = []
    for turn in turns:
        if combined and combined[-1].role == turn.role:
            combined[-1].absorb(turn)
        else:
            combined.append(turn)
    return combined


def _order(turns: list[_Turn], severity: Severity) -> Iterator[Violation]:
    """A7 on the messages as they are sent, before anything is combined."""
    if turns[0].role != "user":
        yield broken(
            "A7",
            turns[0].index,
            'messages: first message must use the "user" role',
            "Put a user message (a summary of what was cut, for instance) before it.",
            severity,
        )
    for previous, turn in pairwise(turns):
        if previous.role == turn.role:
            yield broken(
                "A7",
                turn.index,
                f'messages: roles must alternate between "user" and "assistant", but found multiple "{turn.role}" '
                "roles in a row",
                f"Join it with message {previous.last}.",
                severity,
            )


def _pairing(turns: list[_Turn], version: Version) -> Iterator[Violation]:
    """A1, A2, A4: results stand at the beginning of the very next message."""
    for place, turn in enumerate(turns):
        following = turns[place + 1] if place + 1 < len(turns) else None
        yield from _calls_answered(place, turn, following, version)
        calls = {block.id for block in turns[place - 1].blocks if block.kind == "tool_use"} if place else set()
        seen: set[str | None] = set()
        for position, block in enumerate(turn.blocks):
            if block.kind != "tool_result":
                continue
            where = f"messages.{place}.content.{position}"
            if block.id is None:
                text = f"{where}.tool_result.tool_use_id: Field required"
                yield broken("A2", block.index, text, "Give the result the id of the call that it answers, or drop it.")
            elif block.id not in calls:
                yield broken(
                    "A2",
                    block.index,
                    f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {block.id}. Each `tool_result` "
                    "block must have a corresponding `tool_use` block in the previous message.",
                    f'Drop the result "{block.id}", or put it directly after the message that makes the call.',
                )
            elif block.id in seen:
                yield broken(
                    "A4",
                    block.index,
                    f"{where}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
                    f"{block.id}",
                    f'Drop the second result of "{block.id}".',
                )
            seen.add(block.id)


def _calls_answered(place: int, turn: _Turn, following: _Turn | None, version: Version) -> Iterator[Violation]:
    """A1, in today's words or in those of 2024, which blame the message that follows."""
    calls = {block.id: block.index for block in turn.blocks if block.kind == "tool_use" and block.id is not None}
    if not calls:
        return
    answered: set[str | None] = set()
    for block in following.blocks if following else ():
        if block.kind != "tool_result":
            break
        answered.add(block.id)
    missing = [name for name in calls if name not in answered]
    if not missing:
        return
    ids = ", ".join(missing)
    text = (
        f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message."
    )
    if version == "2024" and following:
        text = (
            f"messages.{place + 1}: Did not find {len(calls)} `tool_result` block(s) at the beginning of this message. "
            "Messages following `tool_use` blocks must begin with a matching number of `tool_result` blocks."
        )
    repair = f"Put a tool message for {ids} directly after the calls (before any text), or drop the call."
    yield broken("A1", calls[missing[0]], text, repair)


def _ids(turns: list[_Turn]) -> Iterator[Violation]:
    """A3 and A8: ids of calls over the whole request."""
    seen: set[str] = set()
    for place, turn in enumerate(turns):
        for position, block in enumerate(turn.blocks):
            if block.kind != "tool_use":
                continue
            where = f"messages.{place}.content.{position}"
            if block.id is None or not block.name:
                lacking = "id" if block.id is None else "name"
                text = f"{where}.tool_use.{lacking}: Field required"
                yield broken("A8", block.index, text, f"Give the call its {lacking}.")
            elif not _ID.fullmatch(block.id):
                yield broken(
                    "A8",
                    block.index,
                    f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
                    f'Rename the call "{block.id}" and its result: letters, digits, _ and - only.',
                )
            elif len(block.id) > _LONGEST_ID:
                yield broken(
                    "A8",
                    block.index,
                    f"{where}.tool_use.id: String should have at most {_LONGEST_ID} characters",
                    f"Shorten the id of the call and of its result to {_LONGEST_ID} characters.",
                    "warning",
                )
            if block.id is not None and block.id in seen:
                yield broken(
                    "A3",
                    block.index,
                    f"{where}: `tool_use` ids must be unique",
                    f'Rename the later call "{block.id}", and its result with it.',
                )
            seen.add(block.id or "")


def _empty(turns: list[_Turn]) -> Iterator[Violation]:
    """A5: empty messages and empty text blocks; the optional final assistant message may be empty.

    White space alone is refused only where it is all that a message says (LibreChat-AI/agents PR#124 tried them).
    """
    for place, turn in enumerate(turns):
        if not any(block.text or block.kind != "text" for block in turn.blocks):
            if not (turn.role == "assistant" and place == len(turns) - 1):
                yield broken(
                    "A5",
                    turn.index,
                    f"messages.{place}: all messages must have non-empty content except for the optional final "
                    "assistant message",
                    "Give the message a text, or drop it.",
                )
            continue
        for index in dict.fromkeys(block.index for block in turn.blocks if block.kind == "text" and not block.text):
            text = "messages: text content blocks must be non-empty"
            yield broken("A5", index, text, "Drop the empty text, or the message.")
        if not any(block.text.strip() or block.kind != "text" for block in turn.blocks):
            text = "messages: text content blocks must contain non-whitespace text"
            yield broken("A5", turn.index, text, "Give the message a text, or drop it.")
