"""Gemini: Gemini CLI's session snapshots, and the API's own ``contents``.

In a session file call and result are one object, so a dangling call is one without ``result``. In ``contents`` ids
are optional: calls get one made of their place, and a response answers the oldest open call of its name.
"""

from __future__ import annotations

from typing import Any

from ctxlab.formats.conversation import Draft, Json, Usage
from ctxlab.formats.shapes import (
    assistant,
    call,
    content_of,
    dump,
    function_tool,
    image_part,
    items,
    mapping,
    number,
    objects,
    result,
    string,
    text_part,
)

FORMAT = "gemini"


def is_session(value: Any) -> bool:
    """Whether a JSON value is a Gemini CLI session."""
    value = mapping(value)
    return "messages" in value and "sessionId" in value and ("projectHash" in value or "startTime" in value)


def is_contents(values: Any) -> bool:
    """Whether a list is the API's ``contents``."""
    return isinstance(values, list) and bool(values) and isinstance(mapping(values[0]).get("parts"), list)


def from_session(session: Json) -> Draft:
    """A draft from a Gemini CLI session."""
    draft = Draft(FORMAT)
    draft.id = string(session.get("sessionId"))
    draft.title = string(session.get("summary"))
    for place, message in enumerate(items(session.get("messages"))):
        message = mapping(message)
        kind = message.get("type")
        if kind == "user":
            draft.add({"role": "user", "content": _parts(message.get("content"))})
        elif kind == "gemini":
            _session_reply(draft, message)
        elif kind == "error":
            draft.report("recorded_error", string(message.get("content")), index=len(draft.messages))
        elif kind in ("info", "warning"):
            draft.skipped[kind] += 1
        else:
            draft.report("bad_record", f"message {place}: type {kind!r}, expected user or gemini")
    return draft


def _session_reply(draft: Draft, message: Json) -> None:
    made = objects(message.get("toolCalls"))
    calls = [call(one.get("id"), one.get("name"), one.get("args")) for one in made]
    content = _parts(message.get("content"))
    thoughts = [
        f"{string(thought.get('subject'))}: {string(thought.get('description'))}"
        for thought in objects(message.get("thoughts"))
    ]
    index = draft.add(assistant(content, calls, "\n".join(thoughts)))
    tokens = mapping(message.get("tokens"))
    if tokens:
        output = number(tokens.get("output")) + number(tokens.get("thoughts"))
        draft.usage[index] = Usage(number(tokens.get("input")), output, number(tokens.get("cached")))
    draft.model = string(message.get("model")) or draft.model
    for one in made:
        responses = [
            mapping(part.get("functionResponse")) for part in _list(one.get("result")) if "functionResponse" in part
        ]
        if responses:
            content = "\n".join(_response(response.get("response")) for response in responses)
            draft.add(result(one.get("id"), content, one.get("name")))


def _list(value: Any) -> list[Json]:
    return objects(value) if isinstance(value, list) else objects([value])


def _parts(content: Any) -> Any:
    """Content from text, one part or a list of parts."""
    if isinstance(content, str):
        return content
    parts = [{"text": part} if isinstance(part, str) else mapping(part) for part in _flat(content)]
    return content_of([_part(part) for part in parts])


def _flat(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [] if content is None else [content]


def _part(part: Json) -> Json:
    if isinstance(part.get("text"), str):
        return text_part(part["text"])
    data = mapping(part.get("inlineData") or part.get("inline_data"))
    if data:
        return image_part(string(data.get("mimeType") or data.get("mime_type")), string(data.get("data")))
    return part


def _response(response: Any) -> str:
    """The text of a function response: its ``output``, ``error`` or ``result`` where it has nothing else."""
    if isinstance(response, dict) and len(response) == 1:
        (key, value), *_ = response.items()
        if key in ("output", "error", "result", "content"):
            return value if isinstance(value, str) else dump(value)
    return response if isinstance(response, str) else dump(response)


def from_body(body: Json) -> Draft:
    """A draft from an API request: ``contents``, ``systemInstruction``, ``tools``."""
    draft = from_contents(items(body.get("contents")))
    config = mapping(body.get("config"))
    system = next((body[key] for key in ("systemInstruction", "system_instruction") if body.get(key)), None)
    system = system or config.get("systemInstruction")
    text = _parts(mapping(system).get("parts") if isinstance(system, dict) else system)
    draft.system = text if isinstance(text, str) else "\n\n".join(string(part.get("text")) for part in text)
    for tool in objects(body.get("tools") or config.get("tools")):
        declared = tool.get("functionDeclarations") or tool.get("function_declarations")
        draft.tools += [function_tool(one) for one in objects(declared)]
    draft.model = string(body.get("model"))
    return draft


def from_contents(contents: list[Any]) -> Draft:
    """A draft from the API's ``contents``."""
    draft = Draft(FORMAT)
    waiting: list[Json] = []  # calls that no response has answered yet, oldest first
    for place, content in enumerate(contents):
        content = mapping(content)
        parts = objects(content.get("parts"))
        if content.get("role") == "model":
            waiting += _model_turn(draft, parts)
        elif content.get("role") in ("user", "function", "tool", None):
            _user_turn(draft, parts, waiting)
        else:
            draft.report("bad_record", f"contents {place}: role {content.get('role')!r}, expected user or model")
    return draft


def _model_turn(draft: Draft, parts: list[Json]) -> list[Json]:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Json] = []
    for part in parts:
        made = mapping(part.get("functionCall") or part.get("function_call"))
        if made:
            id = string(made.get("id")) or f"call_{len(draft.messages)}_{len(calls)}"
            calls.append(call(id, made.get("name"), made.get("args")))
        elif part.get("thought") is True:
            thoughts.append(string(part.get("text")))
        else:
            texts.append(string(part.get("text")))
    draft.add(assistant("".join(texts), calls, "".join(thoughts)))
    return calls


def _user_turn(draft: Draft, parts: list[Json], waiting: list[Json]) -> None:
    rest: list[Json] = []
    for part in parts:
        answer = mapping(part.get("functionResponse") or part.get("function_response"))
        if not answer:
            rest.append(_part(part))
            continue
        if rest:  # text before a response stays before it
            draft.add({"role": "user", "content": content_of(rest)})
            rest = []
        name, id = string(answer.get("name")), string(answer.get("id"))
        match = next((one for one in waiting if (one["id"] == id if id else one["function"]["name"] == name)), None)
        if match is not None:
            waiting.remove(match)
        draft.add(result(match["id"] if match else id, _response(answer.get("response")), name))
    if rest or not parts:
        draft.add({"role": "user", "content": content_of(rest)})
