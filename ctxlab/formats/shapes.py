"""Small pieces of JSON in, small pieces of the normal form out.

The readers (`mapping`, `items`, `string`, `number`) give an empty value for a wrong type, so that a damaged record
costs that record and never raises. The builders (`call`, `result`, `assistant`) are the only places where the normal
form is spelled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ctxlab.formats.conversation import Json, Usage


def mapping(value: Any) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[Json]:
    """The objects in a list."""
    return [item for item in items(value) if isinstance(item, dict)]


def string(value: Any) -> str:
    """The value if it is text, else ''."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> int:
    """The value as a count, 0 where it is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def dump(value: Any) -> str:
    """JSON text without needless spaces, characters as they are.

    >>> dump({"path": "a.txt", "lines": [1, 2]})
    '{"path":"a.txt","lines":[1,2]}'
    """
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return '"[nested too deeply to write]"'


def arguments_text(value: Any) -> str:
    """Call arguments as JSON text: text as it came (it need not parse), anything else written out."""
    if isinstance(value, str):
        return value
    return dump({} if value is None else value)


def call(id: Any, name: Any, arguments: Any) -> Json:
    """One OpenAI-shaped tool call.

    >>> call("c1", "read", {"path": "a"})["function"]["arguments"]
    '{"path":"a"}'
    """
    function = {"name": string(name), "arguments": arguments_text(arguments)}
    return {"id": string(id), "type": "function", "function": function}


def result(id: Any, content: Any, name: Any = None) -> Json:
    """One ``tool`` message."""
    message: Json = {"role": "tool", "tool_call_id": string(id)}
    if isinstance(name, str) and name:
        message["name"] = name
    message["content"] = content
    return message


def assistant(text: str, calls: list[Json], reasoning: str = "") -> Json:
    """One ``assistant`` message; content is None where it only calls tools. Thinking goes to ``reasoning_content``,
    where several vendors keep it (its signature is not kept: it is of use to its own provider alone)."""
    message: Json = {"role": "assistant", "content": text or (None if calls else "")}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    return message


def content_of(parts: list[Json]) -> Any:
    """Content of a user or tool message from OpenAI-shaped parts: plain text where there is one text part or none."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0].get("type") == "text":
        return string(parts[0].get("text"))
    return parts


def text_part(text: str) -> Json:
    """A text part."""
    return {"type": "text", "text": text}


def image_part(media_type: str, data: str) -> Json:
    """An image part from base64 data."""
    return {"type": "image_url", "image_url": {"url": f"data:{media_type or 'image/png'};base64,{data}"}}


def anthropic_part(block: Any) -> Json:
    """An OpenAI-shaped part from an Anthropic (or pi) content block; unknown blocks stay as they are."""
    if isinstance(block, str):
        return text_part(block)
    part = mapping(block)
    if part.get("type") == "text":
        return text_part(string(part.get("text")))
    if part.get("type") == "image":
        source = mapping(part.get("source")) or part
        if source.get("type") == "url":
            return {"type": "image_url", "image_url": {"url": string(source.get("url"))}}
        return image_part(string(source.get("media_type") or source.get("mimeType")), string(source.get("data")))
    return part


def anthropic_content(content: Any) -> Any:
    """User or tool-result content from text, None or a list of Anthropic blocks."""
    if isinstance(content, list):
        return content_of([anthropic_part(block) for block in content])
    return string(content)


def function_tool(tool: Mapping[str, Any]) -> Json:
    """An OpenAI-shaped tool definition from OpenAI's, Anthropic's, Gemini's or the Responses API's.

    >>> function_tool({"name": "f", "description": "d", "input_schema": {"type": "object"}})["function"]["parameters"]
    {'type': 'object'}
    """
    if isinstance(tool.get("function"), dict):
        return dict(tool)
    function: Json = {"name": string(tool.get("name") or tool.get("type"))}
    if tool.get("description"):
        function["description"] = tool["description"]
    schemas = ("input_schema", "parameters", "inputSchema", "parametersJsonSchema")
    schema = next((tool[key] for key in schemas if isinstance(tool.get(key), dict)), None)
    if schema is not None:
        function["parameters"] = schema
    return {"type": "function", "function": function}


def anthropic_usage(usage: Any) -> Usage | None:
    """Usage from Anthropic's: the whole prompt is its three input numbers added."""
    usage = mapping(usage)
    cached = number(usage.get("cache_read_input_tokens"))
    prompt = number(usage.get("input_tokens")) + number(usage.get("cache_creation_input_tokens")) + cached
    output = number(usage.get("output_tokens"))
    return Usage(prompt, output, cached) if prompt or output else None
