"""Anthropic's content blocks as OpenAI-shaped messages and back: what `providers` and the model read.

The checks here are those of the request's form, in the words of that API; the rules of the history (which result
answers which call) are left to `ctxlab.providers`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ctxlab.mock_api.wire import Refusal
from ctxlab.models import Reply
from ctxlab.models.base import tool_call

KIND = "invalid_request_error"
BLOCKS = (
    "document",
    "image",
    "redacted_thinking",
    "search_result",
    "server_tool_use",
    "text",
    "thinking",
    "tool_result",
    "tool_use",
    "web_search_tool_result",
)


def invalid(text: str, rule: str = "") -> Refusal:
    """A 400 of the request's form."""
    return Refusal(400, KIND, text, rule=rule)


def to_history(system: Any, messages: Any) -> list[dict[str, Any]]:
    """The request's system prompt and messages as an OpenAI-shaped history. Raises `Refusal`."""
    history = []
    if system is not None:
        history.append({"role": "system", "content": _system(system)})
    if messages is None:
        raise invalid("messages: Field required")
    if not isinstance(messages, list):
        raise invalid("messages: Input should be a valid list")
    for index, message in enumerate(messages):
        history += _message(message, f"messages.{index}")
    return history


def to_tools(tools: Any) -> list[dict[str, Any]]:
    """Tool definitions, OpenAI-shaped. Tools that run on the server's side (they have a ``type``) are left out."""
    if tools is None:
        return []
    if not isinstance(tools, list):
        raise invalid("tools: Input should be a valid list")
    made = []
    for index, tool in enumerate(tools):
        if not isinstance(tool, dict):
            raise invalid(f"tools.{index}: Input should be a valid dictionary")
        if tool.get("type") not in (None, "custom"):
            continue
        for key, kind, expected in (("name", str, "string"), ("input_schema", dict, "dictionary")):
            if key not in tool:
                raise invalid(f"tools.{index}.custom.{key}: Field required")
            if not isinstance(tool[key], kind):
                raise invalid(f"tools.{index}.custom.{key}: Input should be a valid {expected}")
        function = {"name": tool["name"], "parameters": tool["input_schema"]}
        if isinstance(tool.get("description"), str):
            function["description"] = tool["description"]
        made.append({"type": "function", "function": function})
    return made


def to_blocks(reply: Reply) -> list[dict[str, Any]]:
    """An answer as content blocks: the text, then the calls with their input as an object."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply["content"]}] if reply.get("content") else []
    for call in reply.get("tool_calls") or ():
        function = call["function"]
        blocks.append(
            {"type": "tool_use", "id": call["id"], "name": function["name"], "input": _input(function["arguments"])}
        )
    return blocks


def _input(arguments: str) -> dict[str, Any]:
    try:
        value = json.loads(arguments)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _system(system: Any) -> str:
    if isinstance(system, str):
        return system
    if isinstance(system, list) and all(isinstance(b, dict) and isinstance(b.get("text"), str) for b in system):
        return "\n".join(block["text"] for block in system)
    raise invalid("system: Input should be a valid string")


def _message(message: Any, where: str) -> Iterator[dict[str, Any]]:
    """One message as those that it becomes: each tool result is a message of its own."""
    if not isinstance(message, dict):
        raise invalid(f"{where}: Input should be a valid dictionary")
    role = message.get("role")
    if role is None:
        raise invalid(f"{where}.role: Field required")
    if role == "system":
        raise invalid(
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system" '
            "as an input message role.",
            "A10",
        )
    if role not in ("user", "assistant"):
        raise invalid(f'messages: Unexpected role "{role}". Allowed roles are "user" or "assistant".', "A10")
    if "content" not in message:
        raise invalid(f"{where}.content: Field required")
    content = message["content"]
    if isinstance(content, str):
        return iter([{"role": role, "content": content}])
    if not isinstance(content, list):
        raise invalid(f"{where}.content: Input should be a valid list")
    for place, block in enumerate(content):
        _check(block, f"{where}.content.{place}", role)
    return _of_assistant(content) if role == "assistant" else _of_user(content)


def _of_assistant(content: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    calls = [
        tool_call(block["id"], block["name"], json.dumps(block["input"], ensure_ascii=False))
        for block in content
        if block["type"] == "tool_use"
    ]
    parts = [_part(block) for block in content if block["type"] != "tool_use"]
    message: dict[str, Any] = {"role": "assistant", "content": parts or (None if calls else "")}
    if calls:
        message["tool_calls"] = calls
    yield message


def _of_user(content: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in content:
        if block["type"] != "tool_result":
            parts.append(_part(block))
            continue
        if parts:
            yield {"role": "user", "content": parts}
            parts = []
        yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": _result(block.get("content"))}
    if parts or not content:
        yield {"role": "user", "content": parts or ""}


def _part(block: dict[str, Any]) -> dict[str, Any]:
    """A block as a content part; what only Anthropic has stays as it is, and counts as what it is."""
    return {"type": "text", "text": block["text"]} if block["type"] == "text" else block


def _result(content: Any) -> str:
    """A tool result as text; images in it are named, not shown."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(
        block["text"] if isinstance(block, dict) and isinstance(block.get("text"), str) else "[not text]"
        for block in parts
    )


_FIELDS = {
    "text": (("text", str, "string"),),
    "tool_use": (("id", str, "string"), ("name", str, "string"), ("input", dict, "dictionary")),
    "tool_result": (("tool_use_id", str, "string"),),
    "image": (("source", dict, "dictionary"),),
    "document": (("source", dict, "dictionary"),),
    "thinking": (("thinking", str, "string"), ("signature", str, "string")),
}


def _check(block: Any, where: str, role: str) -> None:
    """The form of one content block."""
    if not isinstance(block, dict):
        raise invalid(f"{where}: Input should be a valid dictionary")
    kind = block.get("type")
    if kind is None:
        raise invalid(f"{where}.type: Field required")
    if kind not in BLOCKS:
        tags = ", ".join(f"'{name}'" for name in BLOCKS)
        raise invalid(f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}")
    for key, expected, name in _FIELDS.get(kind, ()):
        if key not in block:
            raise invalid(f"{where}.{kind}.{key}: Field required")
        if not isinstance(block[key], expected):
            raise invalid(f"{where}.{kind}.{key}: Input should be a valid {name}")
    for misplaced, owner in (("tool_use", "assistant"), ("tool_result", "user")):
        if kind == misplaced and role != owner:
            raise invalid(f"{where}: `{kind}` blocks can only be in `{owner}` messages")
