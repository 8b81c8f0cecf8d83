"""What a model is to the rest of the kit: messages and tools in, one assistant message out, all at once or streamed.

A model never changes the history that it is given. `play_round` is the loop around it: ask, run the tools that the
answer calls, ask again; it appends each message as it is made, and whatever interrupts it, what was appended is valid.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ctxlab.errors import WrongArgument
from ctxlab.messages import MessageLike

Reply: TypeAlias = dict[str, Any]
"""An assistant message: ``role``, ``content`` (text or None), and ``tool_calls`` where the model calls tools."""

Tools: TypeAlias = Sequence[Mapping[str, Any]]
RunTool: TypeAlias = Callable[[Mapping[str, Any]], str]

INTERRUPTED = "The call was interrupted before it had a result. Call the tool again if it is still needed."
MAX_STEPS = 8
"""Model calls in one round (picked): a model that calls tools for ever is stopped there."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer as it is streamed: some ``text``, or some of the ``index``-th tool call.

    ``id`` and ``name`` come once for each call, ``arguments`` in any number of parts.
    """

    text: str = ""
    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Answer:
    """An answer that is being put together from pieces."""

    text: str = ""
    calls: dict[int, dict[str, str]] = field(default_factory=dict)

    def add(self, piece: Piece) -> None:
        """Take in one more piece."""
        self.text += piece.text
        if piece.index is None:
            return
        call = self.calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
        call["id"] = call["id"] or piece.id
        call["name"] = call["name"] or piece.name
        call["arguments"] += piece.arguments

    def message(self) -> Reply:
        """The complete assistant message."""
        message: Reply = {"role": "assistant", "content": self.text or (None if self.calls else "")}
        if self.calls:
            message["tool_calls"] = [tool_call(**call) for _, call in sorted(self.calls.items())]
        return message

    def partial(self) -> Reply | None:
        """What may be kept of an answer that broke off: its text. Calls are dropped, since none of them was run."""
        return {"role": "assistant", "content": self.text} if self.text.strip() else None


class Model(ABC):
    """Someone who answers. A subclass gives `stream`; the other ways to ask follow from it."""

    name: str = "model"

    @abstractmethod
    def stream(self, messages: Iterable[MessageLike], tools: Tools = ()) -> Iterator[Piece]:
        """The answer, piece by piece. ``messages`` are not changed. Raises `ModelError`."""

    def reply(self, messages: Iterable[MessageLike], tools: Tools = ()) -> Reply:
        """The answer as one assistant message."""
        answer = Answer()
        for piece in self.stream(messages, tools):
            answer.add(piece)
        return answer.message()

    async def reply_async(self, messages: Iterable[MessageLike], tools: Tools = ()) -> Reply:
        """`reply` in an event loop, from a thread; one that is cancelled is not waited for."""
        return await asyncio.to_thread(self.reply, messages, tools)


def play_round(
    model: Model,
    history: Sequence[MessageLike],
    tools: Tools = (),
    run_tool: RunTool | None = None,
    append: Callable[[dict[str, Any]], object] | None = None,
    on_text: Callable[[str], object] | None = None,
    max_steps: int = MAX_STEPS,
) -> list[dict[str, Any]]:
    """Answers the last user message of ``history``: asks, runs the called tools, asks again until no tool is called.

    Returns the new messages. ``append`` gets each one as soon as it is made (a session's append, say); ``on_text`` gets
    the text as it streams. ``run_tool`` takes a call and returns the result's text. On an interrupt (Ctrl-C), a broken
    stream or a tool that raises, the text so far is kept, calls that have no result get one that says so, and the
    exception goes on: the history with what was appended is valid, and the conversation can go on from it.
    Raises `ModelError`, and `WrongArgument` where a tool is called and there is no ``run_tool``.
    """
    made: list[dict[str, Any]] = []

    def add(message: dict[str, Any]) -> None:
        made.append(message)
        if append is not None:
            append(message)

    for step in range(max_steps):
        last = step == max_steps - 1
        message = _ask(model, [*history, *made], () if last else tools, add, on_text)
        if not message.get("tool_calls"):
            return made
        _run_calls(message["tool_calls"], run_tool, add)
    return made


def _ask(
    model: Model,
    history: Sequence[MessageLike],
    tools: Tools,
    add: Callable[[dict[str, Any]], None],
    on_text: Callable[[str], object] | None,
) -> Reply:
    answer, whole = Answer(), False
    try:
        for piece in model.stream(history, tools):
            answer.add(piece)
            if piece.text and on_text is not None:
                on_text(piece.text)
        whole = True
    finally:
        kept = answer.message() if whole else answer.partial()
        if kept is not None:
            add(kept)
    return kept or {}


def _run_calls(
    calls: Sequence[Mapping[str, Any]], run_tool: RunTool | None, add: Callable[[dict[str, Any]], None]
) -> None:
    """Runs calls in their order. Whatever stops it, each call has a result afterwards."""
    left = list(calls)
    try:
        while left:
            text = _result_of(left[0], run_tool)
            add({"role": "tool", "tool_call_id": left.pop(0)["id"], "content": text})
    finally:
        for call in left:
            add({"role": "tool", "tool_call_id": call["id"], "content": INTERRUPTED})


def _result_of(call: Mapping[str, Any], run_tool: RunTool | None) -> str:
    if run_tool is None:
        raise WrongArgument(
            f"the model calls {call['function']['name']}, and there is no run_tool",
            hint="pass run_tool, or no tools",
            name="run_tool",
            value=None,
        )
    return run_tool(call)


def tool_call(id: str, name: str, arguments: str) -> dict[str, Any]:
    """A tool call in the shape that an assistant message carries; ``arguments`` is JSON text."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def pieces(message: Mapping[str, Any], size: int = 24) -> Iterator[Piece]:
    """A complete answer cut into pieces of up to ``size`` characters, as if it had been streamed."""
    text = message.get("content") or ""
    for start in range(0, len(text), size):
        yield Piece(text=text[start : start + size])
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        yield Piece(index=index, id=call["id"], name=function["name"])
        for start in range(0, len(function["arguments"]), size):
            yield Piece(index=index, arguments=function["arguments"][start : start + size])
