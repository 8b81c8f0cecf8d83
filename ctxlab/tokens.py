"""How many tokens a message, a history and a request have.

Text is counted by `texts`, offline; tool definitions by `tools`; images and other parts by `media`. This module
knows what a message costs beyond its text, keeps a running count, and says how wide the error is where nobody has
published an exact rule.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctxlab.media import content_tokens, json_tokens
from ctxlab.messages import Message, MessageLike, check_history
from ctxlab.ranks import ENCODINGS, get_encoding
from ctxlab.texts import Counter, count_tokens, counter, forget_texts, heuristic_tokens
from ctxlab.tools import count_tools, render_tools

__all__ = [
    "ENCODINGS",
    "Estimate",
    "TokenMeter",
    "count_message",
    "count_request",
    "count_tokens",
    "count_tools",
    "estimate",
    "estimate_tokens",
    "forget",
    "get_encoding",
    "heuristic_tokens",
    "render_tools",
]

PER_MESSAGE = 3
PER_NAME = 1
REPLY_PRIMING = 3
"""What surrounds a message, a name, and the reply to come (OpenAI cookbook, How to count tokens with tiktoken)."""

FUNCTION_RESULT = -2
FUNCTION_CALL = 3
"""The older ``function`` role and ``function_call`` (hmarr/openai-chat-tokens, held against billed counts)."""

TOOL_CALL = 7
PARALLEL_CALLS = 13
"""For each tool call, and once for a message with several: the middle of the published totals, see `estimate`."""

TEXT_FIELDS = ("refusal", "reasoning_content", "reasoning", "thinking")
"""Texts beside the content that some APIs send back to the model. They count where they are text; every other key
(``tool_call_id``, ``id``, ``seq``, ``ts``, a log's own notes) is book-keeping and does not."""

WATCHED_FROM = 64
"""Messages from which a list is remembered as a whole (picked: below it counting message by message is as fast)."""

WATCHED_CHARACTERS = 32_000_000
"""Text that the remembered lists together may keep alive (picked); what is beyond is counted message by message."""


def count_message(message: MessageLike, encoding: str = "o200k_base") -> int:
    """Tokens of one message with what surrounds it, without the reply's priming.

    3 + role + content + (1 + name) + for each tool call (7 + name + arguments) + the texts of `TEXT_FIELDS`; a tool
    result is its content. Exact for text messages (held against billed totals); see `estimate` for tool calls and
    `media` for images. Raises `MalformedMessage`, `UnknownName`.

    >>> count_message({"role": "user", "content": "hello world"})
    6
    """
    return _message(message, counter(encoding))


def estimate_tokens(history: Iterable[MessageLike], encoding: str = "o200k_base") -> int:
    """Tokens of a history as a request sends it: its messages and 3 for the reply's priming; 0 for an empty one.

    A list that was counted before and has grown at its end costs the new messages and one comparison with what was
    counted (about 0.1 us a message: a message changed in place is noticed). A `TokenMeter` does not even compare.
    Raises `MalformedMessage` with the index of the first that is not a message, and `UnknownName`.

    >>> estimate_tokens([{"role": "user", "content": "hello world"}]), estimate_tokens([])
    (9, 0)
    """
    if type(history) is list and len(history) >= WATCHED_FROM:
        return _watched(history, encoding) + REPLY_PRIMING
    total = _sum(history, counter(encoding))
    return total + REPLY_PRIMING if total else 0


def count_request(
    history: Sequence[MessageLike],
    tools: Iterable[Mapping[str, Any]] | None = None,
    tool_choice: str | Mapping[str, Any] | None = None,
    encoding: str = "o200k_base",
) -> int:
    """Tokens of a whole request: history, tool definitions and what they change in each other.

    With tools, the first system message gains a line break and saves 4 tokens, since the definitions would otherwise
    bring a system message of their own. ``tool_choice``: ``"none"`` costs 1; a function named in the ``tools`` form
    7 + its name, in the older form ``{"name": ...}`` 4 + its name (hmarr/openai-chat-tokens and
    pamelafox/openai-messages-token-helper, held against billed counts).
    """
    count = counter(encoding)
    total = estimate_tokens(history, encoding)
    definitions = count_tools(tools, encoding)
    if not definitions:
        return total
    system = next((data for data in map(_data, history) if data.get("role") == "system"), None)
    if system is not None:
        total -= 4
        content = system.get("content")
        total += count(content + "\n") - count(content) if isinstance(content, str) else 0
    if tool_choice == "none":
        total += 1
    elif isinstance(tool_choice, Mapping):
        function = tool_choice.get("function")
        named, extra = (function, 7) if isinstance(function, Mapping) else (tool_choice, 4)
        total += extra + count(str(named.get("name") or ""))
    return total + definitions


@dataclass(frozen=True, slots=True)
class Estimate:
    """A count with the range in which published totals fell: ``low <= tokens <= high``."""

    low: int
    tokens: int
    high: int


def estimate(history: Iterable[MessageLike], encoding: str = "o200k_base") -> Estimate:
    """`estimate_tokens` with its error band, which comes from the tool calls in the history.

    What a model sees of a call is not documented. Beyond 3 a message, roles, names, arguments and results, 15 requests
    whose billed totals were published (chrisdinn/tokens ``counter_test.go``, GPT-4; OpenAI forum topic 538914,
    GPT-3.5) took 3 to 11 tokens more with one call, 19 to 37 with two parallel calls, 46 with three and 55 with four.
    So a message with one call is 7 +- 4, and one with n parallel calls 13 + 7n, less 8 or more by 6 + 2n. Outside
    the band: results of parallel calls in other scripts than Latin were seen billed as JSON escapes, up to 12 times
    their tokens (OpenAI forum topic 1375117). For gpt-oss, `harmony.harmony_tokens` is exact.

    >>> call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    >>> estimate([{"role": "assistant", "content": None, "tool_calls": [call]}])
    Estimate(low=12, tokens=16, high=20)
    """
    messages = list(history)
    tokens = estimate_tokens(messages, encoding)
    low = high = tokens
    for message in messages:
        calls = len(_data(message).get("tool_calls") or ())
        low -= 0 if not calls else 4 if calls == 1 else 8
        high += 0 if not calls else 4 if calls == 1 else 6 + 2 * calls
    return Estimate(low, tokens, high)


class TokenMeter:
    """A running count: an append costs the message that is appended, however long the history is.

    ``total`` is what `estimate_tokens` gives for all that was appended. Not for several threads at once.

    >>> meter = TokenMeter()
    >>> meter.append({"role": "user", "content": "hello world"}), meter.total
    (6, 9)
    """

    __slots__ = ("_count", "_sum", "encoding", "messages")

    def __init__(self, history: Iterable[MessageLike] = (), encoding: str = "o200k_base") -> None:
        self.encoding = encoding
        self.messages = 0
        self._count = counter(encoding)
        self._sum = 0
        self.extend(history)

    @property
    def total(self) -> int:
        """Tokens of the history so far with the reply's priming; 0 while it is empty."""
        return self._sum + REPLY_PRIMING if self.messages else 0

    def append(self, message: MessageLike) -> int:
        """Counts one more message and returns its tokens. Raises `MalformedMessage`, and then counts nothing."""
        tokens = _message(message, self._count, self.messages)
        self._sum += tokens
        self.messages += 1
        return tokens

    def extend(self, history: Iterable[MessageLike]) -> int:
        """Counts more messages and returns their tokens together."""
        return sum([self.append(message) for message in history])


def _message(message: MessageLike, count: Counter, index: int | None = None) -> int:
    """Tokens of one message. The plain shapes come first: this is the inner loop of every count."""
    data = message if type(message) is dict else _data(message, index)
    role, content = data.get("role"), data.get("content")
    if type(content) is str and role in _ROLES:
        total = _ROLE_MESSAGE + count(content)
    elif content is None and role in _ROLES:
        total = _ROLE_MESSAGE
    else:
        if not isinstance(role, str) or not (content is None or isinstance(content, (str, list, tuple))):
            Message.of(message, index)  # raises, and says why
        total = PER_MESSAGE + count(str(role)) + content_tokens(content, count)
        total += FUNCTION_RESULT if role == "function" else 0
    if not _EXTRAS.isdisjoint(data):
        for key in _EXTRAS.intersection(data):
            value = data[key]
            if value:
                total += _calls(message, value, count, index) if key == "tool_calls" else _extra(key, value, count)
    return total


def _data(message: MessageLike, index: int | None = None) -> Mapping[str, Any]:
    """The mapping behind a message. Raises `MalformedMessage`."""
    if isinstance(message, Message):
        return message.data
    return message if isinstance(message, Mapping) else Message.of(message, index).data


_ROLES = ("user", "assistant", "tool", "system", "developer")
_ROLE_MESSAGE = PER_MESSAGE + 1  # each of these roles is one token in every encoding
_EXTRAS = frozenset({"name", "tool_calls", "function_call", *TEXT_FIELDS})


def _extra(key: str, value: Any, count: Counter) -> int:
    """What a key beside role, content and tool calls adds: a name, the older function call, a text."""
    if key == "function_call":
        return FUNCTION_CALL + _function(value, count) if isinstance(value, Mapping) else 0
    if not isinstance(value, str):
        return 0
    return count(value) + (PER_NAME if key == "name" else 0)


def _calls(message: MessageLike, calls: Any, count: Counter, index: int | None) -> int:
    if not isinstance(calls, (list, tuple)):
        Message.of(message, index)  # raises, and says why
    total = PARALLEL_CALLS if len(calls) > 1 else 0
    for call in calls:
        if type(call) is not dict and not isinstance(call, Mapping):
            Message.of(message, index)  # raises, and says why
        function = call.get("function") or call.get("custom") or call
        total += TOOL_CALL + _function(function, count)
    return total


def _function(function: Any, count: Counter) -> int:
    """Name and arguments of a call; arguments that are not text count as their JSON."""
    if type(function) is not dict and not isinstance(function, Mapping):
        return json_tokens(function, count)
    name = function.get("name")
    arguments = function.get("arguments", function.get("input"))
    tokens = count(name) if isinstance(name, str) else 0
    if isinstance(arguments, str):
        return tokens + count(arguments)
    return tokens if arguments is None else tokens + json_tokens(arguments, count)


def _sum(history: Iterable[MessageLike], count: Counter) -> int:
    check_history(history)
    return sum([_message(message, count, index) for index, message in enumerate(history)])


class _Watched:
    """A list that was counted: what it held then, so that a change in place is noticed, and its tokens."""

    __slots__ = ("characters", "copies", "encoding", "total")

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self.copies: list[Any] = []
        self.total = self.characters = 0

    def extend(self, messages: list[Any], tokens: list[int]) -> None:
        """Takes up the messages up to the first that cannot be watched or is too much text."""
        for message, count in zip(messages, tokens, strict=True):
            copy, characters = _copy(message)
            if copy is None or self.characters + characters > WATCHED_CHARACTERS:
                return
            self.copies.append(copy)
            self.characters += characters
            self.total += count


_lock = threading.Lock()
_watching: list[_Watched] = []


def _watched(history: list[MessageLike], encoding: str) -> int:
    """The sum of a list's messages, by what is remembered of the last four lists that were counted (picked)."""
    count = counter(encoding)
    with _lock:
        matches = [w for w in _watching if w.encoding == encoding and _begins_with(history, w.copies)]
        seen = max(matches, key=lambda w: len(w.copies), default=None)
        known, total = (len(seen.copies), seen.total) if seen else (0, 0)
    fresh = history[known:]
    tokens = [_message(message, count, known + index) for index, message in enumerate(fresh)]
    with _lock:
        if seen is None:
            seen = _Watched(encoding)
        if len(seen.copies) == known:  # else another thread was first
            seen.extend(fresh, tokens)
        if seen.copies:
            _keep(seen)
    return total + sum(tokens)


def _keep(seen: _Watched) -> None:
    """Puts a list first among those that are remembered, and drops the last while they are too many or too large."""
    if seen in _watching:
        _watching.remove(seen)
    _watching.insert(0, seen)
    while len(_watching) > 4 or (len(_watching) > 1 and sum(w.characters for w in _watching) > WATCHED_CHARACTERS):
        _watching.pop()


def forget() -> None:
    """Drops all that is remembered, of texts and of lists (a benchmark's cold start)."""
    forget_texts()
    with _lock:
        _watching.clear()


def _begins_with(history: list[Any], copies: list[Any]) -> bool:
    return len(copies) <= len(history) and history[: len(copies)] == copies


def _copy(value: Any, key: str = "", depth: int = 0) -> tuple[Any, int]:
    """A deep copy of plain JSON data and the length of its texts; (None, 0) for what cannot be watched.

    Numbers below the message's own keys are refused, but for a call's ``index``: 1 equals True, and where they are
    part of what is counted, their JSON does not have the same length.
    """
    if isinstance(value, Message):
        return value, len(value.text)
    if isinstance(value, str):
        return value, len(value)
    if value is None or (isinstance(value, (bool, int, float)) and (depth == 1 or key == "index")):
        return value, 0
    if depth > 8 or type(value) not in (dict, list):
        return None, 0
    pairs = list(value.items() if type(value) is dict else enumerate(value))
    copied = [(name, inner, *_copy(inner, name, depth + 1)) for name, inner in pairs]
    if any(copy is None and inner is not None for _, inner, copy, _ in copied):
        return None, 0
    characters = sum(length for *_, length in copied)
    if type(value) is dict:
        return {name: copy for name, _, copy, _ in copied}, characters
    return [copy for _, _, copy, _ in copied], characters
