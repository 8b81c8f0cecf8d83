"""The server itself: the standard library's, HTTP/1.1 with kept connections, a thread a connection, loopback only.

It reads a request whole (up to a limit of bytes), asks `openai` or `anthropic`, and writes the answer. What goes wrong
on the way is answered in the shape of the API that was meant, which the path and the headers tell.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from ctxlab.errors import CtxlabError
from ctxlab.mock_api import anthropic as anthropic_shape
from ctxlab.mock_api import openai as openai_shape
from ctxlab.mock_api.wire import Refusal, Request, Response, Settings, new_id
from ctxlab.models import Model

HOST = "127.0.0.1"
_IDLE = 60.0  # seconds after which a silent connection is closed (picked)
_KEPT = 1_000  # exchanges that are remembered (picked)
_MALFORMED = (AttributeError, CtxlabError, IndexError, KeyError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request as it was answered. ``rule``: the rule of `ctxlab.providers` that it broke, or ''."""

    method: str
    path: str
    status: int
    rule: str
    note: str

    def __str__(self) -> str:
        rule = f" [{self.rule}]" if self.rule else ""
        return f"{self.method} {self.path} {self.status}{rule} {self.note}".rstrip()


@dataclass(slots=True)
class MockAPI:
    """A running server. ``exchanges``: the last 1,000, oldest first."""

    port: int
    settings: Settings
    exchanges: deque[Exchange] = field(default_factory=lambda: deque(maxlen=_KEPT))

    @property
    def url(self) -> str:
        """Where it listens; the ``anthropic`` client's base_url."""
        return f"http://{HOST}:{self.port}"

    @property
    def anthropic_base_url(self) -> str:
        """The ``anthropic`` client's base_url (ANTHROPIC_BASE_URL)."""
        return self.url

    @property
    def openai_base_url(self) -> str:
        """The ``openai`` client's base_url (OPENAI_BASE_URL)."""
        return f"{self.url}/v1"


@contextmanager
def serve(
    port: int = 0,
    *,
    window: int = 128_000,
    max_output: int | None = None,
    model: Model | None = None,
    names: Sequence[str] = (),
    key: str | None = None,
    max_body: int = 32 * 1024 * 1024,
    openai: str = "openai",
    anthropic: str = "anthropic",
    faults: Sequence[int | str] = (),
    on_exchange: Callable[[Exchange], object] | None = None,
) -> Iterator[MockAPI]:
    """Runs the server in a thread of this process, on loopback, until the block is left.

    ``port``: 0 takes a free one. ``window`` and ``max_output`` in tokens (None: an eighth of the window, at most
    16,384). ``model``: who answers, by default the scripted one. ``names``: the models that exist; none named: any.
    ``key``: the only API key that is let in; None: any. ``max_body``: bytes. ``openai`` and ``anthropic``: the rule
    sets of `ctxlab.validate` to hold. ``faults``: what the next requests get instead of an answer, one each: a status
    such as 429, 500 or 529, or "drop" (the connection closes without a word) or "cut" (in the middle of the answer).
    ``on_exchange`` is called for each request, before its answer is sent, from its thread. Raises `WrongArgument`,
    `UnknownName`, and `OSError` where the port is taken.

    >>> with serve(window=8_000) as api:
    ...     api.openai_base_url.endswith("/v1")
    True
    """
    default = max(1, min(16_384, window // 8)) if isinstance(window, int) else 1
    chosen = {"model": model} if model is not None else {}
    settings = Settings(
        window=window,
        max_output=default if max_output is None else max_output,
        names=tuple(names),
        key=key,
        max_body=max_body,
        openai=openai,
        anthropic=anthropic,
        **chosen,
    )
    server = _Server((HOST, port), settings, deque(faults), on_exchange)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.api
    finally:
        server.shutdown()
        server.close_connections()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        settings: Settings,
        faults: deque[int | str],
        on_exchange: Callable[[Exchange], object] | None,
    ) -> None:
        self.faults = faults
        self.on_exchange = on_exchange
        self.open: set[socket.socket] = set()
        super().__init__(address, _Handler)
        self.api = MockAPI(self.server_address[1], settings)

    def server_bind(self) -> None:
        """As usual, but without asking a name server who we are."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HOST, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for the connection, which is remembered so that it can be closed."""
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """The connection is over."""
        self.open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """Ends the kept connections, whose threads wait for a next request."""
        for connection in list(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it was closed on the other side
                pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "ctxlab-mock-api"
    sys_version = ""
    timeout = _IDLE
    wbufsize = 64 * 1024
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: `Exchange` tells what happened, and no header with a key in it is ever written."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class finds wrong with a request line or a header, as JSON."""
        self.close_connection = True
        refusal = Refusal(int(code), "invalid_request_error", message or "Bad Request")
        self._write(Response(refusal.status, openai_shape.error_body(refusal)))

    def handle(self) -> None:
        """The requests of one connection; a client that goes away ends it."""
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True

    def finish(self) -> None:
        """As usual, where the other side may be gone already."""
        try:
            super().finish()
        except OSError:
            pass

    def _serve(self) -> None:
        path = urlsplit(self.path).path.rstrip("/") or "/"
        headers = {name.lower(): value for name, value in self.headers.items()}
        shape = _shape(path, headers)
        fault: int | str | None = None
        rule = ""
        try:
            body = self._body(shape, headers)
            fault = self.server.faults.popleft() if self.server.faults else None
            if fault == "drop":
                self.close_connection = True
                return
            if isinstance(fault, int):
                raise shape.fault(fault)
            response: Response = shape.answer(Request(self.command, path, headers, body), self.server.api.settings)
        except Refusal as refusal:
            rule = refusal.rule
            response = Response(refusal.status, shape.error_body(refusal), refusal.headers, refusal.text)
        except _MALFORMED as error:  # nothing that a client sends may take the server down
            response = Response(500, shape.error_body(shape.fault(500)), note=f"{type(error).__name__}: {error}")
        self._tell(Exchange(self.command, path, response.status, rule, response.note))  # before the client goes on
        self._write(response, "request-id" if shape is anthropic_shape else "x-request-id", rule, cut=fault == "cut")

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = _serve

    def _body(self, shape: ModuleType, headers: dict[str, str]) -> bytes:
        """The request's body, whole. A length that is missing, wrong or too large ends the connection."""
        length = headers.get("content-length")
        if length is None and self.command in ("GET", "HEAD", "OPTIONS", "DELETE") and not self._chunked(headers):
            return b""
        size = int(length) if length is not None and length.isascii() and length.isdigit() and len(length) < 16 else -1
        if size < 0 or self._chunked(headers):
            self.close_connection = True
            raise Refusal(411, "invalid_request_error", "Length Required: send a Content-Length")
        limit = self.server.api.settings.max_body
        if size > limit:
            self.close_connection = True
            raise shape.too_large(limit)
        body = self.rfile.read(size)
        if len(body) < size:
            self.close_connection = True
            raise Refusal(400, "invalid_request_error", f"the body ends after {len(body)} of {size} bytes")
        return body

    @staticmethod
    def _chunked(headers: dict[str, str]) -> bool:
        return "transfer-encoding" in headers

    def _write(self, response: Response, id_header: str = "x-request-id", rule: str = "", cut: bool = False) -> None:
        stream = None if isinstance(response.body, bytes) else response.body
        self.send_response(response.status)
        self.send_header("content-type", "application/json" if stream is None else "text/event-stream; charset=utf-8")
        self.send_header(id_header, new_id("req_"))
        if rule:
            self.send_header("x-ctxlab-rule", rule)
        for name, value in response.headers.items():
            self.send_header(name, value)
        if self.close_connection or cut:
            self.close_connection = True
            self.send_header("connection", "close")
        if isinstance(response.body, bytes):
            self.send_header("content-length", str(len(response.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(response.body[: len(response.body) // 2] if cut else response.body)
            self.wfile.flush()
            return
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(response.body):
            if cut and number == 3:
                self.wfile.flush()
                return
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _tell(self, exchange: Exchange) -> None:
        self.server.api.exchanges.append(exchange)
        if self.server.on_exchange is not None:
            self.server.on_exchange(exchange)


def _shape(path: str, headers: dict[str, str]) -> ModuleType:
    """Whose API a request means: `anthropic` or `openai`."""
    if path.startswith("/v1/chat/"):
        return openai_shape
    meant = path.startswith("/v1/messages") or "x-api-key" in headers or "anthropic-version" in headers
    return anthropic_shape if meant else openai_shape
