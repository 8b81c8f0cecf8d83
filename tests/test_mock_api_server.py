"""The server itself: what is no JSON, no length, no path or no key is answered in the API's own shape."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxlab.errors import CtxlabError, UnknownName, WrongArgument
from ctxlab.mock_api import HOST, Exchange, MockAPI, Settings, run, serve
from ctxlab.mock_api.anthropic import answer as answer_anthropic
from ctxlab.mock_api.openai import answer as answer_openai
from ctxlab.mock_api.wire import Refusal, Request, Response, cut_to
from ctxlab.tokens import count_tokens

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
OPENAI = {"authorization": "Bearer k", "content-type": "application/json"}
ANTHROPIC = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
GOOD = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}).encode()


@pytest.fixture(scope="module")
def api() -> Iterator[MockAPI]:
    with serve(window=8_000, max_body=100_000) as running:
        yield running


def send(api: MockAPI, method: str, path: str, body: bytes = b"", headers: dict | None = None):
    """Status, headers and JSON of one request."""
    connection = http.client.HTTPConnection(HOST, api.port, timeout=10)
    connection.request(method, path, body or None, headers or {})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, dict(response.getheaders()), json.loads(text) if text else None


def raw(api: MockAPI, data: bytes) -> bytes:
    """What comes back for bytes that no client would send."""
    with socket.create_connection((HOST, api.port), timeout=10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def is_openai_error(data: dict) -> bool:
    return set(data) == {"error"} and set(data["error"]) == {"message", "type", "param", "code"}


def is_anthropic_error(data: dict) -> bool:
    return (
        set(data) == {"type", "error", "request_id"}
        and data["type"] == "error"
        and set(data["error"]) == {"type", "message"}
    )


# Bodies


@pytest.mark.parametrize("body", [b"", b"{", b"nonsense", b"[1]", b'{"a": NaN}', b"\xff\xfe", b"[" * 50_000])
def test_what_is_no_json_object_is_a_400_in_both_shapes(api: MockAPI, body: bytes) -> None:
    headers = {"content-length": str(len(body))}
    status, _, data = send(api, "POST", CHAT, body, OPENAI | headers)
    assert status == 400
    assert is_openai_error(data)
    assert data["error"]["message"].startswith("We could not parse the JSON body of your request.")
    status, _, data = send(api, "POST", MESSAGES, body, ANTHROPIC | headers)
    assert status == 400
    assert is_anthropic_error(data)


def test_a_lone_surrogate_is_refused_by_anthropic_with_its_place_and_taken_by_openai(api: MockAPI) -> None:
    body = GOOD.replace(b"hello", rb"a\ud83d\ude00 b\ud83d")
    at = body.index(rb"\ud83d", body.index(b" b"))
    status, _, data = send(api, "POST", MESSAGES, body, ANTHROPIC)
    assert status == 400
    assert data["error"]["message"] == (
        f"The request body is not valid JSON: no low surrogate in string: line 1 column {at + 1} (char {at})"
    )
    assert send(api, "POST", CHAT, body, OPENAI)[0] == 200
    assert send(api, "POST", MESSAGES, GOOD.replace(b"hello", rb"\ud83d\ude00 \\ud83d"), ANTHROPIC)[0] == 200


def test_a_body_over_the_limit_is_413_and_is_not_read(api: MockAPI) -> None:
    status, _, data = send(api, "POST", MESSAGES, b"", ANTHROPIC | {"content-length": "100001"})
    assert (status, data["error"]["type"]) == (413, "request_too_large")
    assert data["error"]["message"] == "Request exceeds the maximum size"
    status, _, data = send(api, "POST", CHAT, b"", OPENAI | {"content-length": "99999999999999999999999"})
    assert status == 411
    assert is_openai_error(data)


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "٣"])
def test_a_length_that_is_none_is_refused(api: MockAPI, length: str) -> None:
    answer = raw(
        api, f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\ncontent-length: {length}\r\n\r\n".encode()
    )
    assert answer.startswith(b"HTTP/1.1 411 ")


def test_a_chunked_body_and_a_missing_length_are_411(api: MockAPI) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\n"
    assert raw(api, f"{head}\r\n".encode()).startswith(b"HTTP/1.1 411 ")
    chunked = f"{head}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
    assert raw(api, chunked.encode()).startswith(b"HTTP/1.1 411 ")


def test_a_body_that_breaks_off_is_a_400(api: MockAPI) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\ncontent-length: 50\r\n\r\n"
    answer = raw(api, head.encode() + b'{"a":')
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"the body ends after 5 of 50 bytes" in answer


@pytest.mark.parametrize("line", [b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"BREW / HTTP/1.1\r\nhost: x\r\n\r\n"])
def test_a_request_line_that_is_none_is_an_error_in_json(api: MockAPI, line: bytes) -> None:
    answer = raw(api, line)
    assert is_openai_error(json.loads(answer.partition(b"\r\n\r\n")[2] or answer))


def test_two_requests_on_one_connection_are_answered_in_order(api: MockAPI) -> None:
    connection = http.client.HTTPConnection(HOST, api.port, timeout=10)
    for path, headers in ((CHAT, OPENAI), (MESSAGES, ANTHROPIC), (CHAT, OPENAI)):
        connection.request("POST", path, GOOD, headers)
        response = connection.getresponse()
        assert response.status == 200
        assert json.loads(response.read())["model"] == "m"
    connection.close()


# Paths, methods, keys


def test_an_unknown_path_is_404_in_the_shape_of_the_api_that_was_meant(api: MockAPI) -> None:
    status, _, data = send(api, "POST", "/v1/nothing", b"{}", OPENAI)
    assert (status, data["error"]["message"]) == (404, "Invalid URL (POST /v1/nothing)")
    assert is_openai_error(data)
    status, _, data = send(api, "POST", "/v1/messages/nothing", b"{}", ANTHROPIC)
    assert (status, data["error"]["type"]) == (404, "not_found_error")
    assert is_anthropic_error(data)


def test_a_wrong_method_is_405_and_says_which_is_right(api: MockAPI) -> None:
    status, headers, data = send(api, "GET", CHAT, b"", OPENAI)
    assert (status, headers["allow"]) == (405, "POST")
    assert "Perhaps you meant to use a different HTTP method?" in data["error"]["message"]
    assert send(api, "DELETE", MESSAGES, b"", ANTHROPIC)[0] == 405
    assert send(api, "HEAD", CHAT, b"", OPENAI)[2] is None


def test_a_missing_key_is_401_in_both_shapes(api: MockAPI) -> None:
    status, _, data = send(api, "POST", CHAT, GOOD)
    assert status == 401
    assert is_openai_error(data)
    status, _, data = send(api, "POST", MESSAGES, GOOD)
    assert (status, data["error"]) == (
        401,
        {"type": "authentication_error", "message": "x-api-key header is required"},
    )
    assert send(api, "POST", CHAT, GOOD, {"authorization": "Basic k"})[0] == 401


def test_a_missing_version_is_anthropics_400(api: MockAPI) -> None:
    status, _, data = send(api, "POST", MESSAGES, GOOD, {"x-api-key": "k"})
    assert (status, data["error"]["message"]) == (400, "anthropic-version: header is required")


@pytest.mark.parametrize(
    ("change", "message", "code"),
    [
        ({"model": None}, "you must provide a model parameter", None),
        ({"messages": None}, "Missing required parameter: 'messages'.", "missing_required_parameter"),
        (
            {"messages": "hi"},
            "Invalid type for 'messages': expected an array of objects, but got a string instead.",
            "invalid_type",
        ),
        (
            {"messages": [{"role": "user", "content": 5}]},
            "Invalid type for 'messages[0].content': expected one of a string or array of objects, but got an integer "
            "instead.",
            "invalid_type",
        ),
        ({"stream": "yes"}, "Invalid type for 'stream': expected a boolean, but got a string instead.", "invalid_type"),
        (
            {"tools": []},
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "empty_array",
        ),
    ],
)
def test_a_parameter_that_is_wrong_is_named(api: MockAPI, change: dict, message: str, code: str | None) -> None:
    status, _, data = send(api, "POST", CHAT, json.dumps(json.loads(GOOD) | change).encode(), OPENAI)
    assert (status, data["error"]["message"], data["error"]["code"]) == (400, message, code)


# Whatever is sent

KEYS = (
    *("role", "content", "type", "text", "tool_calls", "tool_call_id", "id", "function", "name", "arguments", "input"),
    *("tool_use_id", "source", "input_schema", "parameters", "properties", "image_url", "url", "detail", "enum"),
)
JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-3, 9_000), st.floats(), st.sampled_from(["user", "x", "tool", ""])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=12,
)
TYPES = st.sampled_from(["text", "tool_use", "tool_result", "image", "image_url", "thinking", "function"])
PART = st.fixed_dictionaries({"type": TYPES}, optional=dict.fromkeys(KEYS[3:], JSON))
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "robot"])},
    optional={
        "content": st.one_of(JSON, st.lists(st.one_of(PART, JSON), max_size=3)),
        "tool_calls": st.one_of(JSON, st.lists(PART, max_size=2)),
        "tool_call_id": JSON,
        "name": JSON,
    },
)
BODY = st.fixed_dictionaries(
    {
        "model": st.one_of(st.just("m"), JSON),
        "messages": st.one_of(st.lists(st.one_of(MESSAGE, JSON), max_size=4), JSON),
    },
    optional={
        "max_tokens": st.one_of(st.just(5), JSON),
        "tools": st.one_of(JSON, st.lists(st.one_of(PART, JSON), max_size=2)),
        "system": JSON,
        "stream": JSON,
        "tool_choice": JSON,
        "stream_options": JSON,
    },
)


@pytest.mark.parametrize(
    ("answer", "path", "headers"), [(answer_openai, CHAT, OPENAI), (answer_anthropic, MESSAGES, ANTHROPIC)]
)
@given(body=BODY)
def test_every_body_is_answered_or_refused(answer, path, headers, body) -> None:
    request = Request("POST", path, headers, json.dumps(body).replace("NaN", "1").replace("Infinity", "1").encode())
    refusal, response = None, None
    try:
        response = answer(request, Settings(window=8_000, max_output=100))
    except Refusal as error:
        refusal = error
    if refusal is not None:
        assert refusal.status in (400, 404)
        assert refusal.text
        return
    assert isinstance(response, Response)
    assert response.body if isinstance(response.body, bytes) else b"".join(response.body)


# The server's life


def test_faults_come_one_a_request_and_then_it_answers() -> None:
    with serve(faults=[429, "drop", 500]) as api:
        status, headers, data = send(api, "POST", CHAT, GOOD, OPENAI)
        assert (status, headers["retry-after"], data["error"]["code"]) == (429, "1", "rate_limit_exceeded")
        with pytest.raises(http.client.RemoteDisconnected):
            send(api, "POST", CHAT, GOOD, OPENAI)
        assert send(api, "POST", CHAT, GOOD, OPENAI)[0] == 500
        assert send(api, "POST", CHAT, GOOD, OPENAI)[0] == 200


def test_what_was_asked_is_told_with_the_rule_that_was_broken() -> None:
    told: list[Exchange] = []
    with serve(on_exchange=told.append) as api:
        bad = {"model": "m", "messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}]}
        send(api, "POST", CHAT, json.dumps(bad).encode(), OPENAI | {"authorization": "Bearer secret-key"})
        assert [(one.status, one.rule) for one in api.exchanges] == [(400, "O1")]
    assert str(told[0]).startswith("POST /v1/chat/completions 400 [O1] Invalid parameter")
    assert "secret-key" not in str(told)


def test_it_listens_on_loopback_alone_and_frees_its_port(api: MockAPI) -> None:
    with serve() as other:
        assert other.url == f"http://127.0.0.1:{other.port}"
        assert other.openai_base_url == f"{other.url}/v1"
        assert other.port != api.port
        port = other.port
        kept = http.client.HTTPConnection(HOST, port, timeout=10)
        kept.request("GET", "/v1/models", headers=OPENAI)
        kept.getresponse().read()
    with serve(port) as again:
        assert send(again, "GET", "/v1/models", b"", OPENAI)[0] == 200
    kept.close()


def test_leaving_the_block_leaves_no_thread_that_listens() -> None:
    before = threading.active_count()
    for _ in range(3):
        with serve() as api:
            send(api, "GET", "/v1/models", b"", OPENAI)
    for thread in threading.enumerate():
        if "process_request" in thread.name:
            thread.join(5)
    assert threading.active_count() <= before


def test_many_clients_at_once_are_all_answered(api: MockAPI) -> None:
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(send(api, "POST", CHAT, GOOD, OPENAI)[0])) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 20


def test_settings_that_cannot_work_are_refused() -> None:
    for options in ({"window": 0}, {"window": 100, "max_output": 100}, {"max_body": -1}, {"window": 1.5}):
        with pytest.raises(WrongArgument), serve(**options):
            pass
    with pytest.raises(UnknownName), serve(openai="opnai"):
        pass


def test_a_port_that_is_taken_is_said(api: MockAPI) -> None:
    said: list[str] = []
    with pytest.raises(CtxlabError, match=f"cannot listen on 127.0.0.1:{api.port}") as caught:
        run(api.port, echo=said.append)
    assert "--port" in caught.value.hint


def test_run_says_where_it_listens_and_ends_on_ctrl_c() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "from ctxlab.mock_api import run; run(0, window=5000)"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("OPENAI_BASE_URL=http://127.0.0.1:")
    assert process.stderr.readline() == "window 5,000 tokens; Ctrl-C ends it\n"
    os.kill(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[1] == "ended\n"
    assert process.returncode == 0


def test_a_text_is_cut_to_its_tokens() -> None:
    text = "one two three four five six"
    assert cut_to(text, 100) == text
    assert count_tokens(cut_to(text, 3)) == 3
    assert text.startswith(cut_to(text, 3))
    assert cut_to(text, 0) == ""
