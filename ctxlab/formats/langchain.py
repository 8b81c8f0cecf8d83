"""LangChain messages in their three spellings, and LangGraph thread states.

``model_dump``: ``{"type": "ai", "content": ...}``; ``messages_to_dict``: ``{"type": "ai", "data": {...}}``;
``dumpd``: ``{"lc": 1, "id": [..., "AIMessage"], "kwargs": {...}}``. Neighbouring ``ai`` messages are put together where
a result that follows both answers the first one: they are one reply, and providers want it as one.
"""

from __future__ import annotations

from typing import Any

from ctxlab.formats.anthropic import BLOCKS
from ctxlab.formats.conversation import Draft, Json, Usage
from ctxlab.formats.openai_chat import finish
from ctxlab.formats.shapes import (
    anthropic_content,
    anthropic_part,
    assistant,
    call,
    content_of,
    mapping,
    number,
    objects,
    result,
    string,
    text_part,
)

FORMAT = "langchain"
TYPES = frozenset({"human", "ai", "tool", "system", "function", "chat", "remove", "developer"})
# What providers put into an ai message's content beside its text; the calls are in ``tool_calls`` already.
_NOT_TEXT = BLOCKS | {"input_json_delta", "function_call", "reasoning"}


def kind_of(message: Any) -> str:
    """human, ai, tool, ... for a message in any of the three spellings; '' for anything else."""
    message = mapping(message)
    if message.get("lc") == 1 and isinstance(message.get("id"), list):
        name = string(message["id"][-1]) if message["id"] else ""
        kind = name.removesuffix("Chunk").removesuffix("Message").lower()
    elif "content" in message or isinstance(message.get("data"), dict):
        name = string(message.get("type"))
        kind = name.removesuffix("Chunk").removesuffix("Message").lower()
    else:
        kind = ""
    return kind if kind in TYPES else ""


def is_list(messages: Any) -> bool:
    """Whether a list holds LangChain messages."""
    return isinstance(messages, list) and bool(messages) and bool(kind_of(messages[0])) and "role" not in messages[0]


def find_messages(state: Json) -> list[Any] | None:
    """The message list of a thread state, a checkpoint or a bare ``{"messages": [...]}``; None if there is none."""
    for holder in (state, mapping(state.get("values")), mapping(state.get("channel_values"))):
        if is_list(holder.get("messages")):
            return list(holder["messages"])
    return None


def from_state(state: Json) -> Draft:
    """A draft from a LangGraph thread state."""
    draft = from_messages(find_messages(state) or [])
    checkpoint, metadata = mapping(state.get("checkpoint")), mapping(state.get("metadata"))
    draft.id = string(checkpoint.get("thread_id"))
    draft.title = string(mapping(state.get("values")).get("title"))
    draft.model = draft.model or string(metadata.get("model_name"))
    return draft


def from_messages(messages: list[Any]) -> Draft:
    """A draft from a list of LangChain messages."""
    draft = Draft(FORMAT)
    for place, message in enumerate(messages):
        kind = kind_of(message)
        body = mapping(message.get("kwargs") or message.get("data") or message) if kind else {}
        if kind == "ai":
            _reply(draft, body)
        elif kind in ("tool", "function"):
            content = anthropic_content(body.get("content"))
            draft.add(result(body.get("tool_call_id"), content, body.get("name")))
        elif kind in ("human", "system", "developer", "chat"):
            role = {"human": "user", "chat": string(body.get("role")) or "user"}.get(kind, kind)
            draft.add({"role": role, "content": anthropic_content(body.get("content"))})
        elif kind == "remove":
            draft.skipped["remove"] += 1
        else:
            draft.report("bad_record", f"message {place}: not a LangChain message")
    _merge(draft)
    finish(draft)
    return draft


def _reply(draft: Draft, body: Json) -> None:
    extra = mapping(body.get("additional_kwargs"))
    calls = [call(one.get("id"), one.get("name"), one.get("args")) for one in objects(body.get("tool_calls"))]
    calls += [call(one.get("id"), one.get("name"), one.get("args")) for one in objects(body.get("invalid_tool_calls"))]
    if not calls:
        calls = objects(extra.get("tool_calls"))
    content = body.get("content")
    reasoning = string(extra.get("reasoning_content"))
    if isinstance(content, list):
        parts = [anthropic_part(part) for part in content if string(mapping(part).get("type")) not in _NOT_TEXT]
        reasoning = reasoning or "".join(string(mapping(part).get("thinking")) for part in content)
        text = content_of(parts)
    else:
        text = string(content)
    index = draft.add(assistant(text, calls, reasoning))
    usage = mapping(body.get("usage_metadata"))
    if usage:
        cached = number(mapping(usage.get("input_token_details")).get("cache_read"))
        draft.usage[index] = Usage(number(usage.get("input_tokens")), number(usage.get("output_tokens")), cached)
    draft.model = string(mapping(body.get("response_metadata")).get("model_name")) or draft.model


def _merge(draft: Draft) -> None:
    """Put an ``ai`` message with calls and the ``ai`` messages after it together, where the results show one reply."""
    old = draft.messages
    merged: dict[int, int] = {}
    at = 0
    while at < len(old):
        end = at + 1
        while end < len(old) and old[end]["role"] == "assistant" and old[at]["role"] == "assistant":
            end += 1
        results = set()
        after = end
        while after < len(old) and old[after]["role"] == "tool":
            results.add(old[after]["tool_call_id"])
            after += 1
        first = next(
            (i for i in range(at, end - 1) if results & {one.get("id") for one in old[i].get("tool_calls", ())}), None
        )
        if first is not None:
            merged.update(dict.fromkeys(range(first + 1, end), first))
        at = end
    if merged:
        _apply(draft, merged)


def _apply(draft: Draft, merged: dict[int, int]) -> None:
    new = Draft(FORMAT)
    place: dict[int, int] = {}
    for index, message in enumerate(draft.messages):
        if index not in merged:
            place[index] = new.add(message)
            continue
        target = place[index] = place[merged[index]]
        reply = new.messages[target]
        reply["tool_calls"] = [*reply.get("tool_calls", ()), *message.get("tool_calls", ())]
        reply["content"] = _joined(reply["content"], message["content"]) or None
        new.report(
            "merged_reply", "two neighbouring ai messages, one reply: the results after both answer both", index=target
        )
    draft.usage = {place[index]: usage for index, usage in draft.usage.items()}
    draft.messages, draft.lines, draft.surface = new.messages, new.lines, new.surface
    draft.problems += new.problems


def _joined(first: Any, second: Any) -> Any:
    """Two contents as one: text as two paragraphs, anything else as a list of parts."""
    if not first or not second or (isinstance(first, str) and isinstance(second, str)):
        return f"{first}\n\n{second}" if first and second else first or second
    return [
        *([text_part(first)] if isinstance(first, str) else first),
        *([text_part(second)] if isinstance(second, str) else second),
    ]
