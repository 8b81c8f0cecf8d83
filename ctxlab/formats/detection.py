"""Which format a file is in.

A JSONL file is known by its first line that some format claims; a file that is one JSON value by its keys. The order
of the questions matters only where one format's shape contains another's, and there the narrower one comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from ctxlab.formats import anthropic, claude_code, codex, dsh, gemini, langchain, openai_chat, pi, session
from ctxlab.formats.conversation import Draft, Json
from ctxlab.formats.lines import json_type
from ctxlab.formats.shapes import mapping, objects, string

FORMATS = ("openai_chat", "anthropic", "claude_code", "codex", "gemini", "langchain", "pi", "dsh", "ctxlab")

Reading = Callable[[], Draft]


class Importer(Protocol):
    """Reads a JSONL log: every line goes to ``feed``, then ``finish`` gives the conversations."""

    draft: Draft

    def feed(self, record: Json, line: int) -> None:
        """Take in one line."""

    def finish(self) -> list[Draft]:
        """The conversations that were read."""


def importer_for(record: Json) -> Importer | None:
    """The importer of the format that claims a line, or None."""
    if dsh.claims(record):
        return dsh.Lines()
    if session.claims(record):
        return session.Lines()
    if pi.claims(record):
        return pi.Lines()
    if codex.claims(record):
        return codex.Lines()
    if claude_code.claims(record):
        return claude_code.Lines()
    if _is_chat_line(record):
        return openai_chat.Lines()
    return None


def _is_chat_line(record: Json) -> bool:
    messages = record.get("messages")
    if isinstance(messages, list):
        return bool(messages) and openai_chat.is_message(messages[0]) and not anthropic.is_body(record)
    return openai_chat.is_message(record) and not anthropic.has_blocks([record])


def conversations_in(value: Any, depth: int = 0) -> list[Reading] | None:
    """The conversations of one JSON value, each as a function that reads it; None where the shape is not known.

    ``depth`` counts the lists around the value: a list of conversations is looked into, no list of lists of them.
    """
    if isinstance(value, list):
        return _from_list(value, depth) if depth < 2 else None
    if isinstance(value, dict):
        return _from_object(value)
    return None


def _from_list(values: list[Any], depth: int) -> list[Reading] | None:
    first = values[0] if values else None
    if isinstance(first, list):  # a list of conversations
        return _each(values, depth)
    if not isinstance(first, dict):
        return None
    if langchain.is_list(values):
        return [partial(langchain.from_messages, values)]
    if gemini.is_contents(values):
        return [partial(gemini.from_contents, values)]
    if "role" in first and anthropic.has_blocks(values):
        return [partial(anthropic.from_body, {"messages": values})]
    if openai_chat.is_message(first) and not any(codex.is_item(value) for value in values):
        return [partial(openai_chat.from_messages, values)]
    if any(codex.is_item(value) for value in values):
        return [partial(codex.from_items, values)]
    if "request" in first and "response" in first:
        return [partial(_from_exchanges, objects(values))]
    return _each(values, depth)


def _each(values: list[Any], depth: int) -> list[Reading] | None:
    """The conversations of all values; None unless every value holds at least one."""
    found: list[Reading] = []
    for value in values:
        inner = conversations_in(value, depth + 1)
        if not inner:
            return None
        found += inner
    return found or None


def _from_object(value: Json) -> list[Reading] | None:
    if isinstance(value.get("traj"), list):
        return [partial(openai_chat.from_tau_bench, value)]
    if isinstance(value.get("interactions"), list):
        return [partial(_from_exchanges, objects(value["interactions"]), string(value.get("cassette")))]
    if isinstance(value.get("history"), list) and "trajectory" in value:
        return [partial(openai_chat.from_swe_agent, value)]
    if gemini.is_session(value):
        return [partial(gemini.from_session, value)]
    if langchain.find_messages(value) is not None:
        return [partial(langchain.from_state, value)]
    if isinstance(value.get("contents"), list):
        return [partial(gemini.from_body, value)]
    if isinstance(value.get("messages"), list) and all(isinstance(one, dict) for one in value["messages"]):
        body = anthropic.from_body if anthropic.is_body(value) else openai_chat.from_body
        return [partial(body, value)]
    if isinstance(value.get("input"), list) and any(map(codex.is_item, value["input"])):
        return [partial(codex.from_body, value)]
    if isinstance(value.get("request"), dict):
        return [partial(_from_exchanges, [value])]
    return None


def _from_exchanges(exchanges: list[Json], title: str = "") -> Draft:
    """Recorded requests and responses of one conversation, Anthropic's or OpenAI's."""
    last = exchanges[-1] if exchanges else {}
    request, response = mapping(last.get("request")), mapping(last.get("response"))
    if "choices" in response or (objects(request.get("tools")) and not anthropic.is_body(request)):
        draft = openai_chat.from_exchange(request, response)
        draft.title = title
        return draft
    return anthropic.from_exchanges(exchanges, title)


def describe(value: Any) -> str:
    """What a JSON value is, in a few words, for an error.

    >>> describe({"a": 1, "b": 2})
    "an object with the keys 'a', 'b'"
    """
    if isinstance(value, dict):
        keys = [repr(key) for key in list(value)[:6]]
        more = f" and {len(value) - 6} more" if len(value) > 6 else ""
        kind = f" of type {value['type']!r}" if isinstance(value.get("type"), str) else ""
        return f"an object{kind} with the keys {', '.join(keys)}{more}" if keys else "an empty object"
    if isinstance(value, list):
        if not value:
            return "an empty list"
        first = f"a list of {len(value[0])}" if isinstance(value[0], list) else describe(value[0])
        return f"a list of {len(value)}, its first item {first}"
    return f"a {json_type(value)}"
