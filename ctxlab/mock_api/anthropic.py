"""The Anthropic shape: ``/v1/messages`` and ``/v1/messages/count_tokens``, with Anthropic's refusals in its words.

Where the texts come from is said in `mock_api.openai`. Tokens are counted with o200k_base: Anthropic's tokenizer is not
public, so the numbers differ from the real ones, while window, usage and overflow agree with each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ctxlab.budget import Budget
from ctxlab.errors import CtxlabError
from ctxlab.mock_api.blocks import KIND, invalid, to_blocks, to_history, to_tools
from ctxlab.mock_api.wire import Refusal, Request, Response, Settings, ask, new_id, parsed, to_bytes
from ctxlab.models import Reply
from ctxlab.providers import validate
from ctxlab.tokens import count_message, count_request

_LONE_SURROGATE = re.compile(
    rb"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F])"
)
_SIZE = 24  # characters of a piece in a stream (picked)

FAULTS = {
    429: ("rate_limit_error", "This request would exceed your rate limit. Please try again later."),
    500: ("api_error", "Internal server error"),
    529: ("overloaded_error", "Overloaded"),
}


def answer(request: Request, settings: Settings) -> Response:
    """The response to one request. Raises `Refusal`."""
    _authorised(request, settings)
    known = {"/v1/messages": "POST", "/v1/messages/count_tokens": "POST", "/v1/models": "GET"}
    if request.path not in known:
        raise Refusal(404, "not_found_error", "Not Found")
    if request.method != known[request.path]:
        raise Refusal(405, KIND, "Method Not Allowed", headers={"allow": known[request.path]})
    if request.path == "/v1/models":
        return _models(settings)
    data = _object(request.body)
    counting = request.path == "/v1/messages/count_tokens"
    limit = 0 if counting else _limit(data, settings)
    _check_model(data, settings)
    history = to_history(data.get("system"), data.get("messages"))
    tools = to_tools(data.get("tools"))
    if broken := validate(history, settings.anthropic):
        raise invalid(broken[0].message, broken[0].rule)
    prompt = _count(history, tools)
    if counting:
        return Response(200, to_bytes({"input_tokens": prompt}), note=f"{prompt} tokens counted")
    error = Budget(settings.window, reserve=limit).api_error("anthropic", prompt)
    if error is not None:
        raise invalid(error.text)
    return _message(data, history, tools, prompt, limit, settings)


def error_body(refusal: Refusal) -> bytes:
    """The refusal as Anthropic's error object."""
    error = {"type": refusal.kind, "message": refusal.text}
    return to_bytes({"type": "error", "error": error, "request_id": new_id("req_")})


def fault(status: int) -> Refusal:
    """An error that the server was told to give."""
    kind, text = FAULTS.get(status, FAULTS[500])
    return Refusal(status, kind, text, headers={"retry-after": "1"} if status == 429 else None)


def too_large(limit: int) -> Refusal:
    """A body over the limit of bytes."""
    return Refusal(413, "request_too_large", "Request exceeds the maximum size")


def _authorised(request: Request, settings: Settings) -> None:
    key = request.headers.get("x-api-key", "").strip()
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if not key and scheme.lower() == "bearer":
        key = token.strip()
    if not key:
        raise Refusal(401, "authentication_error", "x-api-key header is required")
    if settings.key is not None and key != settings.key:
        raise Refusal(401, "authentication_error", "invalid x-api-key")
    if "anthropic-version" not in request.headers:
        raise invalid("anthropic-version: header is required")


def _models(settings: Settings) -> Response:
    created = "2026-01-01T00:00:00Z"
    names = settings.names or (settings.model.name,)
    listed = [{"type": "model", "id": name, "display_name": name, "created_at": created} for name in names]
    return Response(200, to_bytes({"data": listed, "has_more": False, "first_id": names[0], "last_id": names[-1]}))


def _object(body: bytes) -> dict[str, Any]:
    try:
        data = parsed(body)
    except ValueError as error:
        raise invalid(f"The request body is not valid JSON: {error}") from None
    lone = _LONE_SURROGATE.search(body) if b"\\u" in body else None
    if lone is not None:
        at = lone.start(1)
        column = at - body.rfind(b"\n", 0, at)
        place = f"line {body.count(b'%c' % 10, 0, at) + 1} column {column} (char {at})"
        raise invalid(f"The request body is not valid JSON: no low surrogate in string: {place}")
    if not isinstance(data, dict):
        raise invalid("Input should be a valid dictionary")
    return data


def _limit(data: dict[str, Any], settings: Settings) -> int:
    value = data.get("max_tokens")
    if value is None:
        raise invalid("max_tokens: Field required")
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid("max_tokens: Input should be a valid integer")
    if value < 1:
        raise invalid("max_tokens: Input should be greater than or equal to 1")
    if value > settings.max_output:
        name = data.get("model")
        raise invalid(
            f"max_tokens: {value} > {settings.max_output}, which is the maximum allowed number of output tokens for "
            f"{name}"
        )
    return value


def _check_model(data: dict[str, Any], settings: Settings) -> None:
    name = data.get("model")
    if name is None:
        raise invalid("model: Field required")
    if not isinstance(name, str):
        raise invalid("model: Input should be a valid string")
    if settings.names and name not in settings.names:
        raise Refusal(404, "not_found_error", f"model: {name}")


def _count(history: list[dict[str, Any]], tools: list[dict[str, Any]]) -> int:
    try:
        return count_request(history, tools)
    except CtxlabError as error:
        raise invalid(f"tools: {error}") from None


def _message(
    data: dict[str, Any],
    history: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    prompt: int,
    limit: int,
    settings: Settings,
) -> Response:
    choice = data.get("tool_choice")
    no_tools = isinstance(choice, dict) and choice.get("type") == "none"
    reply, cut = ask(settings, history, [] if no_tools else tools, limit)
    stop = "tool_use" if reply.get("tool_calls") else "max_tokens" if cut else "end_turn"
    message = {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": data["model"],
        "content": to_blocks(reply),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": prompt, "output_tokens": count_message(reply)},
    }
    note = f"{prompt} input + {message['usage']['output_tokens']} output tokens, {stop}"
    if data.get("stream") is True:
        return Response(200, _events(message, reply), note=note)
    return Response(200, to_bytes(message), note=note)


def _events(message: dict[str, Any], reply: Reply) -> Iterator[bytes]:
    """The answer as named server-sent events; each block has its own start, deltas and stop."""
    start = message | {"content": [], "stop_reason": None}
    start["usage"] = message["usage"] | {"output_tokens": 1}
    yield _event("message_start", message=start)
    yield _event("ping")
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, kind, key, text = block | {"text": ""}, "text_delta", "text", block["text"]
        else:
            text = json.dumps(block["input"], ensure_ascii=False)
            empty, kind, key = block | {"input": {}}, "input_json_delta", "partial_json"
        yield _event("content_block_start", index=index, content_block=empty)
        for place in range(0, len(text), _SIZE):
            delta = {"type": kind, key: text[place : place + _SIZE]}
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=stop, usage={"output_tokens": message["usage"]["output_tokens"]})
    yield _event("message_stop")


def _event(name: str, **data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + to_bytes({"type": name, **data}) + b"\n\n"
