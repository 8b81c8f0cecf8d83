"""What both shapes share: a request, a response, a refusal, and what the server was told to be."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ctxlab.errors import WrongArgument
from ctxlab.models import MockModel, Model, Reply
from ctxlab.providers import validate
from ctxlab.tokens import count_tokens

Shape: TypeAlias = Literal["openai", "anthropic"]
Headers: TypeAlias = Mapping[str, str]

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the server was told to be.

    ``window`` and ``max_output``: tokens. ``model`` answers. ``names``: the models that exist; () = any name. ``key``:
    the only one that is let in; None = any. ``max_body``: bytes of a request. ``openai`` and ``anthropic``: which rules
    of `ctxlab.providers` are held.
    """

    window: int = 128_000
    max_output: int = 16_384
    model: Model = field(default_factory=MockModel)
    names: tuple[str, ...] = ()
    key: str | None = field(default=None, repr=False)
    max_body: int = 32 * 1024 * 1024
    openai: str = "openai"
    anthropic: str = "anthropic"

    def __post_init__(self) -> None:
        for name, value in (("window", self.window), ("max_output", self.max_output), ("max_body", self.max_body)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise WrongArgument(f"{name}={value!r}; expected a whole number from 1 on", name=name, value=value)
        if self.max_output >= self.window:
            raise WrongArgument(
                f"max_output={self.max_output:,} leaves nothing of a window of {self.window:,} tokens",
                hint=f"lower max_output to {self.window // 2:,}, say",
                name="max_output",
                value=self.max_output,
            )
        for name in (self.openai, self.anthropic):
            validate([{"role": "user", "content": "-"}], name)  # raises for a set of rules that does not exist


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was read completely. ``headers``: names in lower case. ``path``: without the query."""

    method: str
    path: str
    headers: Headers
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """``body``: bytes, or the events of a stream. ``note``: one line about it for the person who runs the server."""

    status: int
    body: bytes | Iterator[bytes]
    headers: Headers = field(default_factory=dict)
    note: str = ""


class Refusal(Exception):
    """A request that is answered with an error. ``rule``: the rule of `ctxlab.providers` that it broke, or ''."""

    def __init__(
        self,
        status: int,
        kind: str,
        text: str,
        *,
        code: str | None = None,
        param: str | None = None,
        rule: str = "",
        headers: Headers | None = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.kind = kind
        self.text = text
        self.code = code
        self.param = param
        self.rule = rule
        self.headers = dict(headers or {})


def parsed(body: bytes) -> Any:
    """The body as JSON. Raises ValueError, with the place, for what is none: NaN and Infinity are none either."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"invalid UTF-8 at byte {error.start}") from None
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"unexpected token: {name}")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def to_bytes(data: Any) -> bytes:
    """Data as a JSON body; what is not ASCII is escaped, so that a lone surrogate passes too."""
    return json.dumps(data, separators=(",", ":")).encode("ascii")


def new_id(prefix: str) -> str:
    """An id of this process: ids only have to differ."""
    return f"{prefix}{next(_numbers):024x}"


def ask(
    settings: Settings, messages: list[dict[str, Any]], tools: list[dict[str, Any]], limit: int
) -> tuple[Reply, bool]:
    """The model's answer, and whether its text was cut at ``limit`` tokens."""
    reply = settings.model.reply(messages, tools)
    text = reply.get("content") or ""
    short = cut_to(text, limit)
    return ({**reply, "content": short}, True) if short != text else (reply, False)


def cut_to(text: str, limit: int) -> str:
    """The longest start of a text that has at most ``limit`` tokens, give or take the token at its end."""
    if len(text) <= limit or count_tokens(text) <= limit:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_tokens(text[:middle]) <= limit else (low, middle - 1)
    return text[:low]


def kind_of(value: Any) -> str:
    """What JSON calls a value, with its article, as the error texts do."""
    if isinstance(value, bool):
        return "a boolean"
    names = {str: "a string", int: "an integer", float: "a decimal", list: "an array", dict: "an object"}
    return "null" if value is None else names.get(type(value), "another type")
