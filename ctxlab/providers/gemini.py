"""Gemini ``generateContent`` (G1 to G7).

System messages are lifted out; assistant messages become model turns, tool messages become function response turns.
Adjacent messages of one kind are one turn. Gemini counts calls and responses and looks at which turn follows which;
it pairs by function name, so a response is refused when its name cannot be found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ctxlab.messages import Message, part_text
from ctxlab.providers.rules import Violation, broken

_KINDS = {"user": "user", "assistant": "model", "tool": "function"}


@dataclass(slots=True)
class _Turn:
    """One content of the request: ``kind`` user, model or function; ``at`` are the indices of the given messages."""

    kind: str
    at: list[int]

    def members(self, messages: tuple[Message, ...]) -> Iterator[tuple[int, Message]]:
        return ((index, messages[index]) for index in self.at)

    def calls(self, messages: tuple[Message, ...]) -> list[int]:
        """For each call of a model turn, the index of the message that carries it."""
        if self.kind != "model":
            return []
        return [index for index, message in self.members(messages) for _ in message.tool_calls]


def check(messages: tuple[Message, ...]) -> Iterator[Violation]:
    """Would ``generateContent`` refuse what these messages are converted to?"""
    turns: list[_Turn] = []
    for index, message in enumerate(messages):
        if message.is_system:
            continue
        kind = _KINDS.get(message.role)
        if kind is None:
            yield broken("G7", index, "Please use a valid role: user, model.", "Use the role user or assistant.")
        elif turns and turns[-1].kind == kind:
            turns[-1].at.append(index)
        else:
            turns.append(_Turn(kind, [index]))
    if not turns:
        yield broken(
            "G5",
            None,
            "* GenerateContentRequest.contents: contents is not specified",
            "Put a user message into the history.",
        )
        return
    for place, turn in enumerate(turns):
        previous = turns[place - 1] if place else None
        following = turns[place + 1] if place + 1 < len(turns) else None
        yield from _call_turn(messages, turn, previous, following)
        yield from _response_turn(messages, place, turn, previous)
        yield from _parts(messages, place, turn)
    yield from _end(messages, turns)


def _call_turn(
    messages: tuple[Message, ...], turn: _Turn, previous: _Turn | None, following: _Turn | None
) -> Iterator[Violation]:
    """G1 and G2: what stands around a turn with calls."""
    calls = turn.calls(messages)
    if not calls:
        return
    if previous is None:
        yield broken(
            "G2",
            calls[0],
            "Please ensure that function call turn comes immediately after a user turn or after a function response "
            "turn.",
            "Put a user message (a summary of what was cut, for instance) before the call.",
        )
    responses = following.at if following and following.kind == "function" else []
    if len(responses) != len(calls):
        answered = {messages[index].tool_call_id for index in responses}
        open_at = [i for i, message in turn.members(messages) for c in message.tool_calls if c.id not in answered]
        yield broken(
            "G1",
            open_at[0] if open_at else calls[-1],
            "Please ensure that the number of function response parts is equal to the number of function call parts "
            "of the function call turn.",
            f"Let exactly {len(calls)} tool message(s) follow message {calls[-1]} directly; now {len(responses)} do.",
        )


def _response_turn(
    messages: tuple[Message, ...], place: int, turn: _Turn, previous: _Turn | None
) -> Iterator[Violation]:
    """G3 and G6: what stands before a turn of responses, and whether each finds its function's name."""
    if turn.kind != "function":
        return
    if previous is None or not previous.calls(messages):
        yield broken(
            "G3",
            turn.at[0],
            "Please ensure that function response turn comes immediately after a function call turn.",
            "Drop the result, or put it directly after the assistant message that makes the call.",
        )
        return
    names = {call.id: call.name for _, message in previous.members(messages) for call in message.tool_calls}
    for part, (index, message) in enumerate(turn.members(messages)):
        if not message.name and not names.get(message.tool_call_id):
            yield broken(
                "G6",
                index,
                f"* GenerateContentRequest.contents[{place}].parts[{part}].function_response.name: Name cannot be "
                "empty.",
                "Give the result the id of a call of the turn before it, or drop it.",
                pairing=message.tool_call_id not in names,
            )


def _parts(messages: tuple[Message, ...], place: int, turn: _Turn) -> Iterator[Violation]:
    """G5 and G6: a turn has parts, and its calls have names."""
    if turn.kind == "function":
        return
    part = 0
    for index, message in turn.members(messages):
        contents = (message.content,) if isinstance(message.content, str) else message.content or ()
        part += sum(1 for item in contents if part_text(item) != "")
        for call in message.tool_calls if turn.kind == "model" else ():
            if not call.name:
                yield broken(
                    "G6",
                    index,
                    f"* GenerateContentRequest.contents[{place}].parts[{part}].function_call.name: Name cannot be "
                    "empty.",
                    "Give the call the name of its function.",
                    pairing=False,
                )
            part += 1
    if not part:
        yield broken(
            "G5",
            turn.at[0],
            f"* GenerateContentRequest.contents[{place}].parts: contents.parts must not be empty.",
            "Give the message a text, or drop it.",
        )


def _end(messages: tuple[Message, ...], turns: list[_Turn]) -> Iterator[Violation]:
    """G4. A last message with open calls is G1's business: answering them mends both."""
    last = turns[-1].at[-1]
    if turns[-1].kind != "model" or messages[last].tool_calls:
        return
    text = "Requests ending with a model turn are not supported."
    yield broken("G4", last, text, "End the history with a user message or a tool result.")
