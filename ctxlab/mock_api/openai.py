"""The OpenAI shape: ``/v1/chat/completions`` and ``/v1/models``, with OpenAI's refusals in OpenAI's words.

The texts of the history's rules are those of `ctxlab.providers`, the overflow's those of `ctxlab.budget`, both with
their public sources there. The other texts are from public reports or from memory (404, 405, 413, 429, 5xx);
none was checked against the live API.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from ctxlab.budget import Budget
from ctxlab.errors import BudgetError, CtxlabError
from ctxlab.mock_api.wire import Refusal, Request, Response, Settings, ask, kind_of, new_id, parsed, to_bytes
from ctxlab.models import Reply, pieces
from ctxlab.providers import Violation, validate
from ctxlab.tokens import count_message, count_request, count_tools

_KIND = "invalid_request_error"
_PARAM = re.compile(r" \(param: (\S+)\)$")
_QUOTED = re.compile(r"'((?:messages|tools)\b[^']*)'")
_NAME = re.compile(r"[a-zA-Z0-9_-]+")

NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
    "(i.e. Authorization: Bearer YOUR_KEY), or as the password field (with blank username) if you're accessing the API "
    "from your browser and are prompted for a username and password. You can obtain an API key from "
    "https://platform.openai.com/account/api-keys."
)
BAD_JSON = (
    "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library "
    "correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON. If you have trouble "
    "figuring out how to fix this, please contact us through our help center at help.openai.com.)"
)
FAULTS = {
    429: ("requests", "Rate limit reached for requests. Please try again later.", "rate_limit_exceeded"),
    500: ("server_error", "The server had an error while processing your request. Sorry about that!", None),
    503: ("server_error", "The engine is currently overloaded, please try again later", None),
}


def answer(request: Request, settings: Settings) -> Response:
    """The response to one request. Raises `Refusal`."""
    _authorised(request, settings)
    if request.path == "/v1/chat/completions":
        _method(request, "POST")
        return _complete(request, settings)
    if request.path == "/v1/models" or request.path.startswith("/v1/models/"):
        _method(request, "GET")
        return _models(request, settings)
    raise Refusal(404, _KIND, f"Invalid URL ({request.method} {request.path})")


def error_body(refusal: Refusal) -> bytes:
    """The refusal as OpenAI's error object."""
    error = {"message": refusal.text, "type": refusal.kind, "param": refusal.param, "code": refusal.code}
    return to_bytes({"error": error})


def fault(status: int) -> Refusal:
    """An error that the server was told to give."""
    kind, text, code = FAULTS.get(status, FAULTS[500])
    return Refusal(status, kind, text, code=code, headers={"retry-after": "1"} if status == 429 else None)


def too_large(limit: int) -> Refusal:
    """A body over the limit of bytes. The words are ours: no report of OpenAI's was found."""
    return Refusal(413, _KIND, f"The request body is larger than the maximum of {limit} bytes.")


def _authorised(request: Request, settings: Settings) -> None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        raise Refusal(401, _KIND, NO_KEY)
    if settings.key is not None and key != settings.key:
        shown = f"{key[:3]}{'*' * 8}{key[-4:]}" if len(key) > 12 else "*" * len(key)
        text = (
            f"Incorrect API key provided: {shown}. You can find your API key at "
            "https://platform.openai.com/account/api-keys."
        )
        raise Refusal(401, _KIND, text, code="invalid_api_key")


def _method(request: Request, allowed: str) -> None:
    if request.method != allowed:
        text = (
            f"Not allowed to {request.method} on {request.path}. (HINT: Perhaps you meant to use a different HTTP "
            "method?)"
        )
        raise Refusal(405, _KIND, text, code="method_not_supported", headers={"allow": allowed})


def _models(request: Request, settings: Settings) -> Response:
    listed = [
        {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "ctxlab"}
        for name in settings.names or (settings.model.name,)
    ]
    if request.path == "/v1/models":
        return Response(200, to_bytes({"object": "list", "data": listed}))
    name = request.path.removeprefix("/v1/models/")
    found = next((one for one in listed if one["id"] == name), None)
    if found is None:
        raise _unknown_model(name)
    return Response(200, to_bytes(found))


def _complete(request: Request, settings: Settings) -> Response:
    data = _object(request.body)
    limit = _limit(data, settings)
    if data.get("model") is None:
        raise Refusal(400, _KIND, "you must provide a model parameter")
    _typed(data, "model", str, "a string")
    if settings.names and data["model"] not in settings.names:
        raise _unknown_model(data["model"])
    _typed(data, "stream", bool, "a boolean")
    messages = _messages(data)
    tools = _tools(data)
    if broken := validate(messages, settings.openai):
        raise _of(broken[0], messages)
    choice = data.get("tool_choice")
    prompt = count_request(messages, tools, choice if isinstance(choice, (str, dict)) else None)
    _fits(settings, prompt, tools, limit)
    room = min(limit or settings.max_output, settings.window - prompt)
    reply, cut = ask(settings, messages, [] if choice == "none" else tools, room)
    usage = _usage(prompt, reply)
    finish = "tool_calls" if reply.get("tool_calls") else "length" if cut else "stop"
    note = f"{prompt} prompt + {usage['completion_tokens']} completion tokens, {finish}"
    head = {"id": new_id("chatcmpl-"), "created": int(time.time()), "model": data["model"]}
    if data.get("stream"):
        options = data.get("stream_options")
        with_usage = isinstance(options, dict) and options.get("include_usage") is True
        return Response(200, _events(head, reply, finish, usage if with_usage else None), note=note)
    message = {"role": "assistant", "content": reply.get("content"), "refusal": None}
    if reply.get("tool_calls"):
        message["tool_calls"] = reply["tool_calls"]
    choices = [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}]
    return Response(200, to_bytes({**head, "object": "chat.completion", "choices": choices, "usage": usage}), note=note)


def _events(head: dict[str, Any], reply: Reply, finish: str, usage: dict[str, int] | None) -> Iterator[bytes]:
    """The answer as server-sent events; the pieces of parallel calls carry the call's index."""

    def event(delta: dict[str, Any], reason: str | None = None) -> bytes:
        chunk = {**head, "object": "chat.completion.chunk"}
        chunk["choices"] = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]
        return b"data: " + to_bytes(chunk | ({"usage": None} if usage else {})) + b"\n\n"

    yield event({"role": "assistant", "content": "" if reply.get("content") else None})
    for piece in pieces(reply):
        if piece.index is None:
            yield event({"content": piece.text})
            continue
        call: dict[str, Any] = {"index": piece.index, "function": {"arguments": piece.arguments}}
        if piece.id:
            call |= {"id": piece.id, "type": "function", "function": {"name": piece.name, "arguments": ""}}
        yield event({"tool_calls": [call]})
    yield event({}, finish)
    if usage:
        last = {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}
        yield b"data: " + to_bytes(last) + b"\n\n"
    yield b"data: [DONE]\n\n"


def _usage(prompt: int, reply: Reply) -> dict[str, int]:
    completion = count_message(reply)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _object(body: bytes) -> dict[str, Any]:
    try:
        data = parsed(body)
    except ValueError:
        raise Refusal(400, _KIND, BAD_JSON) from None
    if not isinstance(data, dict):
        raise Refusal(400, _KIND, BAD_JSON)
    return data


def _missing(param: str) -> Refusal:
    text = f"Missing required parameter: '{param}'."
    return Refusal(400, _KIND, text, code="missing_required_parameter", param=param)


def _wrong_type(param: str, expected: str, value: Any) -> Refusal:
    text = f"Invalid type for '{param}': expected {expected}, but got {kind_of(value)} instead."
    return Refusal(400, _KIND, text, code="invalid_type", param=param)


def _typed(data: dict[str, Any], key: str, kind: type, expected: str) -> None:
    value = data.get(key)
    if value is not None and not isinstance(value, kind):
        raise _wrong_type(key, expected, value)


def _unknown_model(name: str) -> Refusal:
    text = f"The model `{name}` does not exist or you do not have access to it."
    return Refusal(404, _KIND, text, code="model_not_found")


def _limit(data: dict[str, Any], settings: Settings) -> int | None:
    """The most completion tokens that the request asks for."""
    for key in ("max_completion_tokens", "max_tokens"):
        value = data.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong_type(key, "an integer", value)
        if value < 1:
            text = f"Invalid '{key}': integer below minimum value. Expected a value >= 1, but got {value} instead."
            raise Refusal(400, _KIND, text, code="integer_below_min_value", param=key)
        if value > settings.max_output:
            text = (
                f"{key} is too large: {value}. This model supports at most {settings.max_output} completion tokens, "
                f"whereas you provided {value}."
            )
            raise Refusal(400, _KIND, text, code="invalid_value", param=key)
        return value
    return None


def _messages(data: dict[str, Any]) -> list[dict[str, Any]]:
    messages = data.get("messages")
    if messages is None:
        raise _missing("messages")
    if not isinstance(messages, list):
        raise _wrong_type("messages", "an array of objects", messages)
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict):
            raise _wrong_type(where, "an object", message)
        if message.get("role") is None:
            raise _missing(f"{where}.role")
        if not isinstance(message["role"], str):
            raise _wrong_type(f"{where}.role", "a string", message["role"])
        content = message.get("content")
        if content is not None and not isinstance(content, (str, list)):
            raise _wrong_type(f"{where}.content", "one of a string or array of objects", content)
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if not isinstance(part, dict):
                raise _wrong_type(f"{where}.content[{place}]", "an object", part)
            if part.get("type") is None:
                raise _missing(f"{where}.content[{place}].type")
        calls = message.get("tool_calls")
        if calls is not None and not isinstance(calls, list):
            raise _wrong_type(f"{where}.tool_calls", "an array of objects", calls)
        for place, call in enumerate(calls or ()):
            if not isinstance(call, dict):
                raise _wrong_type(f"{where}.tool_calls[{place}]", "an object", call)
    return messages


def _tools(data: dict[str, Any]) -> list[dict[str, Any]]:
    tools = data.get("tools")
    if tools is None:
        return []
    if not isinstance(tools, list):
        raise _wrong_type("tools", "an array of objects", tools)
    if not tools:
        text = "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
        raise Refusal(400, _KIND, text, code="empty_array", param="tools")
    for index, tool in enumerate(tools):
        _tool(tool, f"tools[{index}]")
    try:
        count_tools(tools)
    except CtxlabError as error:
        raise Refusal(400, _KIND, f"Invalid 'tools': {error}", code="invalid_value", param="tools") from None
    return tools


def _tool(tool: Any, where: str) -> None:
    if not isinstance(tool, dict):
        raise _wrong_type(where, "an object", tool)
    if tool.get("type") is None:
        raise _missing(f"{where}.type")
    function = tool.get("function")
    if function is None:
        raise _missing(f"{where}.function")
    if not isinstance(function, dict):
        raise _wrong_type(f"{where}.function", "an object", function)
    name = function.get("name")
    if name is None:
        raise _missing(f"{where}.function.name")
    if not isinstance(name, str):
        raise _wrong_type(f"{where}.function.name", "a string", name)
    if not _NAME.fullmatch(name):
        text = (
            f"Invalid '{where}.function.name': string does not match pattern. Expected a string that matches the "
            "pattern '^[a-zA-Z0-9_-]+$'."
        )
        raise Refusal(400, _KIND, text, code="invalid_value", param=f"{where}.function.name")


def _of(broken: Violation, messages: list[dict[str, Any]]) -> Refusal:
    """A broken rule as an error object: its parameter stands in the text, or is the place in the list."""
    text, param, code = broken.message, None, None
    if tail := _PARAM.search(text):
        text, param = text[: tail.start()], tail[1]
    elif (quoted := _QUOTED.search(text)) and broken.index is not None:
        param = quoted[1]
    if broken.rule == "O2" and broken.index is not None:
        param = f"messages.[{_after_results(messages, broken.index)}].role"
    for start, name in (
        ("Missing required parameter", "missing_required_parameter"),
        ("Invalid type for", "invalid_type"),
        ("Invalid value: ", "invalid_value"),
    ):
        code = name if text.startswith(start) else code
    if "empty array" in text:
        code = "empty_array"
    if broken.rule == "O8":
        param = f"messages[{broken.index}].role"
    return Refusal(400, _KIND, text, code=code, param=param, rule=broken.rule)


def _after_results(messages: list[dict[str, Any]], index: int) -> int:
    """Where the missing result was looked for: the first message after the calls and their results; picked, since the
    reports (sdcb/chats PR#132) name a place and not what it is counted from."""
    place = index + 1
    while place < len(messages) and messages[place].get("role") == "tool":
        place += 1
    return place if place < len(messages) else index


def _fits(settings: Settings, prompt: int, tools: list[dict[str, Any]], limit: int | None) -> None:
    """Refuses a prompt that does not fit into the window, together with the completion that was asked for."""
    reserve, size = limit or 0, count_tools(tools)
    if prompt + reserve <= settings.window:
        return
    try:
        budget = Budget(settings.window, tools=size, reserve=reserve)
    except BudgetError:  # tools and completion alone are over the window: they are told as part of the messages
        size, budget = 0, Budget(settings.window, reserve=reserve)
    error = budget.api_error("openai", prompt - size)
    if error is not None:
        raise Refusal(error.status, _KIND, error.text, code=error.code, param="messages")
