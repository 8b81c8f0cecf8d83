"""Anthropic Messages: request bodies and recorded request/response pairs.

System is not a message there, and the results of one reply are blocks of one user message. Each ``tool_result`` block
becomes a ``tool`` message, the other blocks of a user message a ``user`` message, in the order of the blocks: results
that do not come first stay where they are, since that is a defect of the log and not of the reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ctxlab.formats.conversation import Draft, Json
from ctxlab.formats.shapes import (
    anthropic_content,
    anthropic_part,
    anthropic_usage,
    assistant,
    call,
    content_of,
    function_tool,
    items,
    mapping,
    objects,
    result,
    string,
)

FORMAT = "anthropic"
BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "compaction", "server_tool_use"})


def has_blocks(messages: Iterable[Any]) -> bool:
    """Whether any message has content blocks that only Anthropic's API knows."""
    return any(
        string(mapping(block).get("type")) in BLOCKS
        for message in messages
        for block in items(mapping(message).get("content"))
    )


def is_body(body: Json) -> bool:
    """Whether a request body with ``messages`` is Anthropic's: a top-level system, its tools' schema, its blocks."""
    tools = objects(body.get("tools"))
    return (
        "system" in body
        or "anthropic_version" in body
        or any("input_schema" in tool for tool in tools)
        or has_blocks(items(body.get("messages")))
    )


def from_body(body: Json) -> Draft:
    """A draft from a request body."""
    draft, _ = _from_body(body)
    return draft


def _from_body(body: Json) -> tuple[Draft, list[int]]:
    """The draft, and for each message of the body the index of its first message in the draft."""
    draft = Draft(FORMAT)
    draft.system = system_text(body.get("system"))
    draft.tools = [function_tool(tool) for tool in objects(body.get("tools"))]
    draft.model = string(body.get("model"))
    starts = []
    for place, message in enumerate(items(body.get("messages"))):
        starts.append(len(draft.messages))
        message = mapping(message)
        if message.get("role") == "assistant":
            add_reply(draft, items_or_text(message.get("content")))
        elif message.get("role") == "user":
            add_user(draft, message.get("content"))
        elif message.get("role") in ("system", "developer"):
            draft.add({"role": message["role"], "content": anthropic_content(message.get("content"))})
        else:
            draft.report("bad_record", f"message {place}: role {message.get('role')!r}, expected user or assistant")
    return draft, starts


def from_exchanges(exchanges: list[Json], title: str = "") -> Draft:
    """A draft from the recorded requests and responses of one conversation: the longest request and its response."""
    if not exchanges:
        return Draft(FORMAT)
    last = max(range(len(exchanges)), key=lambda i: len(items(mapping(exchanges[i].get("request")).get("messages"))))
    draft, starts = _from_body(mapping(exchanges[last].get("request")))
    draft.title = title
    for exchange in exchanges:
        response = mapping(exchange.get("response"))
        if response.get("type") == "error" or "error" in response:
            message = string(mapping(response.get("error")).get("message"))
            draft.report("recorded_error", f"the provider answered: {message}", index=len(draft.messages) or None)
    response = mapping(exchanges[last].get("response"))
    if response.get("role") == "assistant":
        starts.append(len(draft.messages))
        add_reply(draft, items_or_text(response.get("content")))
    for exchange in exchanges:
        place = len(items(mapping(exchange.get("request")).get("messages")))
        usage = anthropic_usage(mapping(exchange.get("response")).get("usage"))
        if usage and place < len(starts) and starts[place] < len(draft.messages):
            draft.usage[starts[place]] = usage
    draft.model = string(response.get("model")) or draft.model
    return draft


def system_text(system: Any) -> str:
    """The system prompt from text or a list of text blocks."""
    if isinstance(system, list):
        return "\n\n".join(string(mapping(block).get("text")) for block in system)
    return string(system)


def items_or_text(content: Any) -> list[Any]:
    """Content as a list of blocks; text becomes one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return items(content)


def reply_of(blocks: Iterable[Any]) -> tuple[Json, list[str], str]:
    """An assistant message from its blocks, the tools that ran at the provider, and the text of a compaction block."""
    text: list[str] = []
    thinking: list[str] = []
    calls: list[Json] = []
    server: list[str] = []
    summary = ""
    for block in blocks:
        block = {"type": "text", "text": block} if isinstance(block, str) else mapping(block)
        kind = string(block.get("type"))
        if kind == "text":
            text.append(string(block.get("text")))
        elif kind == "thinking":
            thinking.append(string(block.get("thinking")))
        elif kind == "tool_use":
            calls.append(call(block.get("id"), block.get("name"), block.get("input")))
        elif kind == "compaction":
            summary = string(block.get("content"))
        elif kind in ("server_tool_use", "mcp_tool_use"):
            server.append(string(block.get("name")))
    return assistant("".join(text), calls, "\n\n".join(filter(None, thinking))), server, summary


def add_reply(draft: Draft, blocks: Iterable[Any], line: int | None = None) -> int:
    """Append an assistant message made of content blocks; returns its index."""
    message, server, summary = reply_of(blocks)
    index = draft.add(message, line)
    for name in server:
        draft.report("server_call", f"{name} ran at the provider", index=index)
    if summary:
        draft.summarise([{"role": "user", "content": summary}], [index])
        draft.report(
            "compaction",
            f"compaction: the provider put a summary of {len(summary):,} characters in place of all before this reply",
            index=index,
        )
    return index


def add_user(draft: Draft, content: Any, line: int | None = None) -> None:
    """Append a user message's blocks: a ``tool`` message for each result, a ``user`` message for what is between."""
    if not isinstance(content, list):
        draft.add({"role": "user", "content": string(content)}, line)
        return
    waiting: list[Json] = []

    def flush() -> None:
        if waiting:
            draft.add({"role": "user", "content": content_of(list(waiting))}, line)
            waiting.clear()

    for block in content:
        if mapping(block).get("type") == "tool_result":
            flush()
            draft.add(result(block.get("tool_use_id"), anthropic_content(block.get("content"))), line)
        else:
            waiting.append(anthropic_part(block))
    flush()
    if not content:
        draft.add({"role": "user", "content": ""}, line)
