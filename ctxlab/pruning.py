"""Shorten what tools said, without a model: the head, the tail, and a marker that says how much went.

Head and tail, since choosing the middle would need a model. Only the list that is sent gets shorter; the complete
result stays in the log. In some real logs the call *arguments* are two thirds and more of the text, so those can be
pruned as well, string by string, so that they stay the JSON that they were.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from ctxlab.errors import WrongArgument
from ctxlab.messages import FrozenDict, Message, MessageLike, as_messages, to_dicts
from ctxlab.rounds import Step

PRUNE_LIMIT = 8192
PRUNE_HEAD = 4096
PRUNE_TAIL = 1024
"""Characters. The three numbers are picked; nobody has published a corpus behind them."""

_MARKER = re.compile(r"\n\[\.\.\. [\d,]+ of [\d,]+ characters pruned \.\.\.\]\n")
_LONGEST_JOIN = 16  # picked: how far a cut moves outwards, at most, so that it parts no composed character
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_JSON_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def prune_tool_result(text: str, limit: int = PRUNE_LIMIT, head: int = PRUNE_HEAD, tail: int = PRUNE_TAIL) -> str:
    """A text over ``limit`` characters with its first ``head`` and last ``tail`` left, and a marker between them.

    Characters are Python's (code points). A composed character at the edge is kept whole, so up to 16 characters more
    may stay on each side. The result is never longer than the input, and pruning twice changes nothing. Raises
    `WrongArgument` (a ValueError) for negative numbers, or where head and tail together exceed the limit.

    >>> prune_tool_result("x" * 500, limit=100, head=4, tail=2)
    'xxxx\\n[... 494 of 500 characters pruned ...]\\nxx'
    """
    _check(limit, head, tail)
    if not isinstance(text, str):
        raise WrongArgument(f"a {type(text).__name__} where text was expected", name="text", value=text)
    if len(text) <= limit:
        return text
    start = _outwards(text, head, +1)
    stop = _outwards(text, len(text) - tail, -1)
    gone = stop - start
    pruned = f"{text[:start]}\n[... {gone:,} of {len(text):,} characters pruned ...]\n{text[stop:]}"
    if len(pruned) >= len(text) or _MARKER.fullmatch(text, start, stop):
        return text
    return pruned


def prune_history(
    history: Iterable[MessageLike],
    *,
    limit: int = PRUNE_LIMIT,
    head: int = PRUNE_HEAD,
    tail: int = PRUNE_TAIL,
    arguments: bool = False,
) -> list[dict[str, Any]]:
    """The history with every long tool result pruned, and with ``arguments`` every long string in a call's arguments.

    Of a result made of parts each text part is pruned on its own. Arguments that parse as JSON still do, with all
    their keys; those that do not are left as they are. Nothing else changes. Raises as `prune_tool_result` does.
    """
    _check(limit, head, tail)
    return to_dicts([_pruned(m, limit, head, tail, arguments) for m in as_messages(history)])


def explain_prune(
    history: Iterable[MessageLike],
    *,
    limit: int = PRUNE_LIMIT,
    head: int = PRUNE_HEAD,
    tail: int = PRUNE_TAIL,
    arguments: bool = False,
) -> list[Step]:
    """One step for each message that `prune_history` would shorten, with the characters before and after."""
    _check(limit, head, tail)
    steps = []
    for index, message in enumerate(as_messages(history)):
        pruned = _pruned(message, limit, head, tail, arguments)
        if pruned != message:
            what = "tool result" if message.role == "tool" else "call arguments"
            before, after = _size(message), _size(pruned)
            why = f"message {index}: {what} of {before:,} characters, over {limit:,}; {after:,} stay"
            steps.append(Step("prune", index, why, "prune", FrozenDict({"before": before, "after": after})))
    return steps


def _size(message: Message) -> int:
    return len(message.text) + sum(len(call.arguments or "") for call in message.tool_calls)


def _pruned(message: Message, limit: int, head: int, tail: int, arguments: bool) -> Message:
    if message.role == "tool" and message.content:
        content = message.content
        new: Any = (
            prune_tool_result(content, limit, head, tail)
            if isinstance(content, str)
            else tuple(_pruned_part(part, limit, head, tail) for part in content)
        )
        return message if new == content else message.replace(content=new)
    if arguments and any(len(call.arguments or "") > limit for call in message.tool_calls):
        calls = [_pruned_call(call.data, limit, head, tail) for call in message.tool_calls]
        return message.replace(tool_calls=calls)
    return message


def _pruned_part(part: Any, limit: int, head: int, tail: int) -> Any:
    if isinstance(part, str):
        return prune_tool_result(part, limit, head, tail)
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return FrozenDict({**part, "text": prune_tool_result(part["text"], limit, head, tail)})
    return part


def _pruned_call(call: Mapping[str, Any], limit: int, head: int, tail: int) -> Mapping[str, Any]:
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    pruned = _pruned_json(function["arguments"], limit, head, tail)
    return {**call, "function": {**function, "arguments": pruned}}


def _pruned_json(text: str, limit: int, head: int, tail: int) -> str:
    """JSON with its long string values pruned; every other byte (numbers, spacing, keys) stays."""
    if len(text) <= limit:
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text

    def shorter(match: re.Match[str]) -> str:
        raw = match.group()
        if len(raw) <= limit or _is_key(text, match.end()):
            return raw
        value = json.loads(raw)
        pruned = prune_tool_result(value, limit, head, tail)
        # Escapes stay escapes: a half of a surrogate pair must not appear in a text that held none.
        written = _HALF_PAIR.sub(_escaped, json.dumps(pruned, ensure_ascii=raw.isascii()))
        return raw if pruned == value or len(written) >= len(raw) else written

    return _JSON_STRING.sub(shorter, text)


def _is_key(text: str, end: int) -> bool:
    while end < len(text) and text[end] in " \t\r\n":
        end += 1
    return text[end : end + 1] == ":"


def _escaped(half: re.Match[str]) -> str:
    return f"\\u{ord(half.group()):04x}"


def _outwards(text: str, place: int, direction: int) -> int:
    """``place`` moved outwards (so that more stays) while it stands inside a composed character."""
    for moved in range(_LONGEST_JOIN + 1):
        here = place + direction * moved
        if not 0 < here < len(text) or not _joined(text[here - 1], text[here]):
            return here
    return place


def _joined(before: str, after: str) -> bool:
    """Whether two characters are drawn as one (a close approximation of the grapheme rules, without their tables)."""
    if before in "\r\n":  # nothing joins a line's end, so what stands beside a marker does not join it either
        return False
    if "\u200d" in (before, after) or unicodedata.category(after) in ("Mn", "Mc", "Me"):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff":  # skin tones
        return True
    if "\U0001f1e6" <= before <= "\U0001f1ff" and "\U0001f1e6" <= after <= "\U0001f1ff":  # flags are pairs of these
        return True
    return "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"


def _check(limit: int, head: int, tail: int) -> None:
    for name, value in (("limit", limit), ("head", head), ("tail", tail)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise WrongArgument(f"{name}={value!r}; expected a number of characters, 0 or more", name=name, value=value)
    if head + tail > limit:
        raise WrongArgument(
            f"head {head:,} and tail {tail:,} are {head + tail:,} characters together, more than the limit {limit:,}",
            hint="raise limit, or lower head or tail; otherwise what was pruned would be over the limit again",
            name="limit",
            value=limit,
        )
