"""Codex rollout JSONL (and the Responses API's items, which it records).

Only ``response_item`` lines are model context; ``event_msg`` lines mirror them for the screen, and reading both would
count every message twice. Replies have no wrapper: consecutive assistant text and calls, up to the first output or
user message, are one reply. ``compacted`` replaces the surface; searches at the provider have no result and need none.
"""

from __future__ import annotations

from typing import Any

from ctxlab.formats.conversation import Draft, Json, Usage
from ctxlab.formats.shapes import (
    anthropic_content,
    arguments_text,
    assistant,
    call,
    content_of,
    function_tool,
    items,
    mapping,
    number,
    objects,
    result,
    string,
    text_part,
)

FORMAT = "codex"
LINES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
SERVER_CALLS = frozenset({"web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call"})
ITEMS = OUTPUTS | SERVER_CALLS | {"function_call", "custom_tool_call", "local_shell_call", "reasoning"}


def claims(record: Json) -> bool:
    """Whether a line is a rollout's: an envelope with a payload, or (older files) a bare Responses item."""
    if "payload" in record:
        return string(record.get("type")) in LINES
    return is_item(record)


def is_item(value: Any) -> bool:
    """Whether a value is an item of the Responses API that no other format has."""
    value = mapping(value)
    if value.get("type") == "message":
        kinds = {part.get("type") for part in parts_of(value) if isinstance(part.get("type"), str)}
        return bool(kinds & {"input_text", "output_text", "input_image"})
    return string(value.get("type")) in ITEMS


def parts_of(item: Json) -> list[Json]:
    """The content parts of a message item."""
    return objects(item.get("content"))


class Turns:
    """Items in, messages out: puts consecutive assistant items together."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.open: int | None = None  # index of the reply that is still being put together

    def item(self, item: Json, line: int | None = None) -> None:
        """Take in one Responses item."""
        kind = string(item.get("type")) or ("message" if "role" in item else "")
        if kind == "message":
            self._message(item, line)
        elif kind == "function_call":
            self._call(call(item.get("call_id"), item.get("name"), item.get("arguments")), line)
        elif kind == "custom_tool_call":
            # Its input is free text and not JSON: the normal form holds it as the one argument "input".
            self._call(call(item.get("call_id"), item.get("name"), {"input": item.get("input")}), line)
        elif kind == "local_shell_call":
            id = item.get("call_id") or item.get("id")
            self._call(call(id, "local_shell", mapping(item.get("action"))), line)
        elif kind in OUTPUTS:
            self.open = None
            self.draft.add(result(item.get("call_id"), _output(item.get("output"))), line)
        elif kind == "reasoning":
            self._reasoning(item, line)
        elif kind in SERVER_CALLS:
            query = string(mapping(item.get("action")).get("query"))
            text = f"{kind} {query!r} ran at the provider"
            self.draft.report("server_call", text, index=len(self.draft.messages) - (self.open is not None), line=line)
        elif kind in ("compaction", "compaction_summary"):
            text = "the provider compacted here; its summary is encrypted"
            self.draft.report("compaction", text, index=len(self.draft.messages), line=line)
        else:
            self.draft.skipped[kind or "without a type"] += 1

    def _message(self, item: Json, line: int | None) -> None:
        role = item.get("role")
        if role == "assistant":
            text = "".join(string(part.get("text") or part.get("refusal")) for part in parts_of(item))
            text = text or string(item.get("content"))
            reply = self._reply(line)
            reply["content"] = f"{reply['content']}\n\n{text}" if reply["content"] else text
        elif role in ("user", "system", "developer"):
            self.open = None
            content = item.get("content")
            self.draft.add({"role": role, "content": _content(content)}, line)
        else:
            self.draft.report("bad_record", f"a message item with role {role!r}", line=line)

    def _reply(self, line: int | None) -> Json:
        if self.open is None:
            self.open = self.draft.add(assistant("", []), line)
        return self.draft.messages[self.open]

    def _call(self, one: Json, line: int | None) -> None:
        reply = self._reply(line)
        reply.setdefault("tool_calls", []).append(one)
        reply["content"] = reply["content"] or None

    def _reasoning(self, item: Json, line: int | None) -> None:
        parts = [*items(item.get("summary")), *items(item.get("content"))]
        text = "\n\n".join(filter(None, (string(mapping(part).get("text")) for part in parts)))
        if text:
            reply = self._reply(line)
            reply["reasoning_content"] = "\n\n".join(filter(None, (reply.get("reasoning_content"), text)))


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return string(content)
    parts = []
    for part in objects(content):
        if part.get("type") == "input_image":
            parts.append({"type": "image_url", "image_url": {"url": string(part.get("image_url"))}})
        elif "text" in part:
            parts.append(text_part(string(part.get("text"))))
        else:
            parts.append(part)
    return content_of(parts)


def _output(output: Any) -> Any:
    if isinstance(output, list):
        return _content(output)
    if isinstance(output, dict):  # older files: {"content": text, "success": bool}
        return anthropic_content(output.get("content")) if "content" in output else arguments_text(output)
    return string(output)


def from_body(body: Json) -> Draft:
    """A draft from a Responses request body: ``input``, ``instructions``, ``tools``."""
    draft = from_items(items(body.get("input")))
    draft.system = string(body.get("instructions"))
    draft.tools = [function_tool(tool) for tool in objects(body.get("tools"))]
    draft.model = string(body.get("model"))
    return draft


def from_items(values: list[Any]) -> Draft:
    """A draft from a list of Responses items."""
    turns = Turns(Draft(FORMAT))
    for value in objects(values):
        turns.item(value)
    return turns.draft


class Lines:
    """Collects the lines of one rollout."""

    def __init__(self) -> None:
        self.draft = Draft(FORMAT)
        self.turns = Turns(self.draft)

    def feed(self, record: Json, line: int) -> None:
        """Take in one line."""
        kind = string(record.get("type"))
        payload = mapping(record.get("payload"))
        draft = self.draft
        if "payload" not in record:
            self.turns.item(record, line)
        elif kind == "response_item":
            self.turns.item(payload, line)
        elif kind == "session_meta":
            draft.id = draft.id or string(payload.get("id"))
            instructions = payload.get("base_instructions") or payload.get("instructions")
            draft.system = string(mapping(instructions).get("text")) or string(instructions)
        elif kind == "turn_context":
            draft.model = string(payload.get("model")) or draft.model
            draft.skipped[kind] += 1
        elif kind == "compacted":
            self._compacted(payload, line)
        else:
            if payload.get("type") == "token_count":
                self._tokens(mapping(mapping(payload.get("info")).get("last_token_usage")))
            elif payload.get("type") == "turn_aborted":
                draft.report("interrupted", f"the turn was aborted ({string(payload.get('reason'))})", line=line)
            elif payload.get("type") == "error":
                draft.report("recorded_error", string(payload.get("message")), line=line)
            draft.skipped[kind or "without a type"] += 1

    def _tokens(self, last: Json) -> None:
        """The provider's count comes after the reply it belongs to and before its outputs."""
        messages = self.draft.messages
        index = len(messages) - 1
        if last and index >= 0 and messages[index]["role"] == "assistant":
            cached = number(last.get("cached_input_tokens"))
            self.draft.usage[index] = Usage(number(last.get("input_tokens")), number(last.get("output_tokens")), cached)

    def _compacted(self, payload: Json, line: int) -> None:
        summary = string(payload.get("message"))
        if isinstance(payload.get("replacement_history"), list):
            surface = from_items(payload["replacement_history"]).messages
        else:
            surface = [{"role": "user", "content": summary}]
        self.turns.open = None
        self.draft.summarise(surface)
        index = len(self.draft.messages)
        text = f"compaction: {len(surface)} message(s) stand for the {index} before"
        self.draft.report("compaction", text, index=index, line=line)

    def finish(self) -> list[Draft]:
        """The conversation that was read."""
        return [self.draft]
