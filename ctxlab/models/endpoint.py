"""A real model: any OpenAI-compatible endpoint, through the official ``openai`` package, imported when first used.

What is added to that client: retries whose waiting can be replaced (a test never waits), a limit over all attempts, a
400 that says which rule of `providers` it broke, and a key that is in no repr, no error, no pickle and no log of ours.
"""

from __future__ import annotations

import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import urlsplit

from ctxlab.errors import ModelError, ModelRefused
from ctxlab.messages import MessageLike, as_messages, to_dicts
from ctxlab.models.base import Model, Piece, Reply, Tools, tool_call
from ctxlab.providers import Violation, validate

_MISSING = "the openai package is not installed"
_WORTH_ANOTHER_TRY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_KEY_LIKE = re.compile(r"\b(?:sk|pk|rk|gsk|xai|AIza)[-_]?[A-Za-z0-9_*.-]{8,}|(?<=Bearer )\S+")
_NOT_SENT = frozenset({"seq", "ts"})  # what a session's log adds to a message


class Secret:
    """A text that shows itself to nobody: not in a repr, not in a format, not in a pickle."""

    __slots__ = ("_get",)

    def __init__(self, value: str) -> None:
        self._get: Callable[[], str] = lambda: value

    def reveal(self) -> str:
        """The text itself."""
        return self._get()

    def __repr__(self) -> str:
        return "'***'"

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not pickled; set OPENAI_API_KEY where it is needed")


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and when to ask again: after 408, 409, 425, 429, 5xx, and where no connection came about.

    ``attempts`` in all; before the n-th repetition ``base * 2**(n - 1)`` seconds (less up to a half, at random), at
    most ``longest``; what a Retry-After header asks for instead is waited for, if it is no longer than ``patience``.
    ``limit``: seconds for all attempts together. All numbers are picked. ``sleep``, ``clock`` and ``chance`` are the
    functions that wait, tell the time and roll the dice.
    """

    attempts: int = 4
    base: float = 0.5
    longest: float = 8.0
    patience: float = 60.0
    limit: float = 180.0
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    def wait(self, tried: int, retry_after: float | None) -> float | None:
        """Seconds before the next attempt, after ``tried`` of them; None for no further one."""
        if tried >= self.attempts:
            return None
        if retry_after is not None:
            return retry_after if retry_after <= self.patience else None
        return min(self.longest, self.base * 2.0 ** (tried - 1)) * (1 - self.chance() / 2)


@dataclass(frozen=True, slots=True)
class _Failure:
    """What went wrong, as plain data: the client's exception holds the request, and the request holds the key."""

    text: str
    status: int | None = None
    code: str | None = None
    retry_after: float | None = None

    @property
    def worth_another_try(self) -> bool:
        if self.code == "insufficient_quota":  # a 429 that no waiting mends
            return False
        return self.status is None or self.status in _WORTH_ANOTHER_TRY


class OpenAIModel(Model):
    """A model behind an OpenAI-compatible endpoint.

    ``model``: its name there. ``base_url``: None for OpenAI's own. ``timeout``: seconds without a byte after which a
    request is given up. ``parameters``: more of the request, such as ``max_tokens`` or ``temperature``. Raises
    `ModelError` where the ``openai`` package is missing, or no key is given.
    """

    def __init__(
        self,
        model: str,
        api_key: str,
        base_url: str | None = None,
        *,
        timeout: float = 60.0,
        retries: Retries | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        if not api_key:
            raise ModelError("no API key", hint="set OPENAI_API_KEY (any text for a local server), or MOCK=1")
        self.name = model
        self.base_url = base_url
        self.timeout = timeout
        self.retries = retries or Retries()
        self.parameters = dict(parameters or {})
        self._key = Secret(api_key)
        self._connection: Any = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, **options: Any) -> OpenAIModel:
        """The model that OPENAI_BASE_URL, OPENAI_API_KEY and CTXLAB_MODEL name. ``options`` as in the constructor.

        Raises `ModelError` with what to set, where the key or the model is missing.
        """
        values = os.environ if environ is None else environ
        missing = [name for name in ("OPENAI_API_KEY", "CTXLAB_MODEL") if not values.get(name)]
        if missing:
            raise ModelError(
                f"no model to talk to: {' and '.join(missing)} not set",
                hint="export OPENAI_API_KEY, CTXLAB_MODEL and, for another server, OPENAI_BASE_URL; or MOCK=1 for the "
                "scripted model",
            )
        return cls(values["CTXLAB_MODEL"], values["OPENAI_API_KEY"], values.get("OPENAI_BASE_URL") or None, **options)

    def __repr__(self) -> str:
        return f"OpenAIModel({self.name!r}, base_url={_without_login(self.base_url)!r})"

    def reply(self, messages: Iterable[MessageLike], tools: Tools = ()) -> Reply:
        """The answer in one request, not streamed. Raises `ModelError`, `ModelRefused`."""
        sent = _to_send(messages)
        response = self._ask(sent, tools, stream=False)
        if not response.choices:
            raise ModelError("the endpoint answered without a choice", hint="is it OpenAI-compatible?", attempts=1)
        message = response.choices[0].message
        reply: Reply = {"role": "assistant", "content": message.content}
        calls = [call for call in message.tool_calls or () if call.type == "function"]
        if calls:
            made = [(call.id, call.function.name, call.function.arguments) for call in calls]
            reply["tool_calls"] = [
                tool_call(id or _id_for(place, len(sent)), name, arguments or "{}")
                for place, (id, name, arguments) in enumerate(made)
            ]
        elif reply["content"] is None:
            reply["content"] = message.refusal or ""
        return reply

    def stream(self, messages: Iterable[MessageLike], tools: Tools = ()) -> Iterator[Piece]:
        """The answer as it comes. A stream that breaks in the middle is not asked for again: its text was shown.

        Raises `ModelError` (``partial``: the text so far), `ModelRefused`. Closing the iterator, or an interrupt,
        closes the connection.
        """
        sent = _to_send(messages)
        response = self._ask(sent, tools, stream=True)
        failure: _Failure | None = None
        shown = ""
        named: set[int] = set()
        try:
            for chunk in response:
                for piece in _pieces_of(chunk, named, len(sent)):
                    shown += piece.text
                    yield piece
        except self._errors() as error:
            failure = _failure(error)
        finally:
            response.close()
        if failure is not None:
            self._give_up(failure, 1, [], partial=shown)

    def _ask(self, messages: list[dict[str, Any]], tools: Tools, stream: bool) -> Any:
        """The response, or its open stream, after as many attempts as `Retries` allows."""
        request: dict[str, Any] = {"model": self.name, "messages": messages, "stream": stream, **self.parameters}
        if tools:
            request["tools"] = [dict(tool) for tool in tools]
        client = self._client()
        start, tried = self.retries.clock(), 0
        while True:
            tried += 1
            try:
                return client.chat.completions.create(**request)
            except self._errors() as error:
                failure = _failure(error)
            # Outside of the except: an error raised in there would carry the client's own, and the key with it.
            wait = self.retries.wait(tried, failure.retry_after) if failure.worth_another_try else None
            if wait is None or self.retries.clock() - start + wait > self.retries.limit:
                self._give_up(failure, tried, messages)
            self.retries.sleep(wait)

    def _give_up(
        self, failure: _Failure, tried: int, messages: list[dict[str, Any]], partial: str | None = None
    ) -> NoReturn:
        text = self._clean(failure.text)
        facts = {"status": failure.status, "code": failure.code, "attempts": tried, "partial": partial, "text": text}
        if failure.status is None or failure.worth_another_try:
            times = f" ({tried} attempts)" if tried > 1 else ""
            raise ModelError(f"{self.name} did not answer{times}: {text}", hint=_hint(failure.status), **facts)
        broken = validate(messages, "openai") if failure.status in (400, 422) and messages else []
        said = "".join(f"\nrule {one.rule}, message {one.index}: {one.repair}" for one in broken)
        raise ModelRefused(
            f"{self.name} refused the request ({failure.status}): {text}{said}",
            hint=_hint_of_refusal(failure, broken),
            violations=broken,
            **facts,
        )

    def _clean(self, text: str) -> str:
        """A text without the key, and without what looks like one."""
        return _KEY_LIKE.sub("***", text.replace(self._key.reveal(), "***"))[:2000]

    def _client(self) -> Any:
        if self._connection is None:
            try:
                import openai
            except ImportError:
                raise ModelError(_MISSING, hint="pip install 'ctxlab[openai]', or MOCK=1") from None
            self._connection = openai.OpenAI(
                api_key=self._key.reveal(), base_url=self.base_url, timeout=self.timeout, max_retries=0
            )
        return self._connection

    def _errors(self) -> tuple[type[Exception], ...]:
        """What the client raises when a request fails: its own errors, and those of the connection below a stream."""
        import openai

        kinds: list[type[Exception]] = [openai.APIError, OSError]
        for name in ("httpx", "httpx2"):  # the client uses one or the other, by its version
            transport = getattr(sys.modules.get(name), "TransportError", None)
            if isinstance(transport, type):
                kinds.append(transport)
        return tuple(kinds)


def _to_send(messages: Iterable[MessageLike]) -> list[dict[str, Any]]:
    """The messages without what a log adds to them."""
    return [{k: v for k, v in one.items() if k not in _NOT_SENT} for one in to_dicts(list(as_messages(messages)))]


def _pieces_of(chunk: Any, named: set[int], length: int) -> Iterator[Piece]:
    """The pieces in one chunk of a stream. ``named``: the calls that have their id already."""
    for choice in chunk.choices[:1]:
        delta = choice.delta
        if delta is None:
            continue
        if delta.content or getattr(delta, "refusal", None):
            yield Piece(text=delta.content or delta.refusal)
        for call in delta.tool_calls or ():
            function = call.function
            name, arguments = (function.name or "", function.arguments or "") if function else ("", "")
            fallback = "" if call.index in named else _id_for(call.index, length)
            named.add(call.index)
            yield Piece(index=call.index, id=call.id or fallback, name=name, arguments=arguments)


def _id_for(place: int, length: int) -> str:
    """An id for a call that came without one, as some servers send them: it must have one to be answered."""
    return f"call{length:04}{place % 10}"


def _failure(error: Exception) -> _Failure:
    """The client's exception as plain data."""
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    text = body.get("message") if isinstance(body, dict) else None
    headers = getattr(getattr(error, "response", None), "headers", {})
    return _Failure(
        str(text or error) or type(error).__name__,
        status if isinstance(status, int) else None,
        getattr(error, "code", None),
        _seconds(headers.get("retry-after")),
    )


def _seconds(value: str | None) -> float | None:
    """A Retry-After header in seconds; its other form, a date, is left to the backoff."""
    return float(value) if value and re.fullmatch(r"\d+(\.\d+)?", value) else None


def _hint(status: int | None) -> str:
    if status is None:
        return "is OPENAI_BASE_URL right, and does the server run? MOCK=1 needs none"
    return "wait a little and ask again: nothing was added to the history"


def _hint_of_refusal(failure: _Failure, broken: list[Violation]) -> str:
    if failure.code == "context_length_exceeded":
        return "the request is over the window: compress the history, or send fewer tools"
    if failure.status in (401, 403):
        return "check OPENAI_API_KEY (and that it belongs to OPENAI_BASE_URL)"
    if failure.status == 404:
        return "check CTXLAB_MODEL and OPENAI_BASE_URL (it usually ends in /v1)"
    if broken:
        return "ctxlab.repair(history) mends what can be mended"
    return "no rule that ctxlab knows is broken: the text says what this server minds"


def _without_login(url: str | None) -> str | None:
    """A URL without a user and a password, and without a query (some servers take a key there)."""
    if url is None:
        return None
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
