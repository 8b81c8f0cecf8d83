"""The scripted summaries: a careful one, which keeps what the user stated, and a careless one, which loses it.

Both are summarisers as `compress` takes them: the early messages in, text out. An earlier summary among the messages is
folded in, not nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ctxlab.messages import Message, MessageLike, as_messages
from ctxlab.models.answers import line_of, read
from ctxlab.models.facts import facts_in

KEPT_LINES = 28
"""Orders that a summary still names (picked: with what the user stated, about 600 tokens)."""

_HEAD = re.compile(
    r"^\W{0,3}(?:summary\b|conversation summary|earlier (?:in this )?conversation|总结|摘要|tóm tắt)", re.I
)
_FACTS = "What the user stated:"
_WORK = "What was done:"


def is_summary_text(text: str) -> bool:
    """Whether a text says in its first words that it is a summary of what came before."""
    return bool(_HEAD.match(text.lstrip()))


def summarise(messages: Iterable[MessageLike]) -> str:
    """A summary that keeps every fact the user stated, and the latest state of the last 28 orders.

    >>> summarise([{"role": "user", "content": "I live in Shanghai, please note that."}]).splitlines()[1]
    '- The user lives in Shanghai.'
    """
    history = as_messages(messages)
    facts = [f"- {fact}" for fact in facts_in(history)] or ["- Nothing that has to be remembered."]
    return "\n".join([_FACTS, *facts, *_work(history)])


def summarise_carelessly(messages: Iterable[MessageLike]) -> str:
    """A summary that reads well and lost everything the user stated: what a compression must be checked for."""
    return "\n".join(["The conversation was about orders, and it was friendly.", *_work(as_messages(messages))])


def _work(history: tuple[Message, ...]) -> list[str]:
    """The lines about what was done: those of an earlier summary first, then new ones; the latest of each order."""
    lines: dict[str, str] = {}
    calls: dict[str, tuple[str, dict[str, Any]]] = {}
    for message in history:
        if is_summary_text(message.text) and _WORK in message.text:
            for line in message.text.split(_WORK, 1)[1].splitlines():
                if line.startswith("- "):
                    _put(lines, line[2:])
        for call in message.tool_calls:
            calls[call.id or ""] = (call.name or "", read(call.arguments or ""))
        if message.role == "tool" and message.tool_call_id in calls:
            _put(lines, line_of(*calls[message.tool_call_id], message.text))
    return [_WORK, *(f"- {line}" for line in list(lines.values())[-KEPT_LINES:])] if lines else []


def _put(lines: dict[str, str], line: str) -> None:
    if line:
        subject = line.split(":", 1)[0]
        lines.pop(subject, None)
        lines[subject] = line
