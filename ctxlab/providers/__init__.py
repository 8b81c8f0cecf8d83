"""Would this history be answered with a 400? One rule set per provider.

`validate` takes OpenAI-shaped messages, works out what each provider's request would look like, and lists every rule
that it breaks, with the text that a person would see. Rules that changed over time have a provider name of their own
(``anthropic_2024``, ``mistral_api_2025``, ...). Calls and results are paired by place, never by id over the whole
conversation: ids repeat. Mending is left to `repairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from ctxlab.errors import unknown_name
from ctxlab.messages import Message, MessageLike, as_messages
from ctxlab.providers import anthropic, gemini, mistral, openai
from ctxlab.providers.rules import PAIRING_RULES, RULES, Rule, Severity, Violation

__all__ = ["OLDER_MISTRAL", "PAIRING_RULES", "PROVIDERS", "RULES", "Rule", "Severity", "Violation", "validate"]

_CHECKS: dict[str, Callable[[tuple[Message, ...]], Iterator[Violation]]] = {
    "openai": openai.check_chat,
    "openai_responses": openai.check_responses,
    "anthropic": anthropic.check,
    "anthropic_2024": partial(anthropic.check, version="2024"),
    "anthropic_no_prefill": partial(anthropic.check, version="no_prefill"),
    "gemini": gemini.check,
    "mistral": mistral.check,
    "mistral_api_2025": partial(mistral.check, user_after_tool=False),
    "mistral_v3": partial(mistral.check, version=3),
    "mistral_v7": partial(mistral.check, version=7),
    "mistral_v11": partial(mistral.check, version=11),
}

OLDER_MISTRAL: tuple[str, ...] = ("mistral_v3", "mistral_v7", "mistral_v11")
"""Earlier versions of Mistral's rules that `validate` takes as well."""

PROVIDERS: tuple[str, ...] = tuple(name for name in _CHECKS if name not in OLDER_MISTRAL)
"""The names that `validate` takes, one for each set of rules in use."""


def validate(messages: Iterable[MessageLike], provider: str = "openai", warnings: bool = False) -> list[Violation]:
    """The reasons for which ``provider`` would refuse this history, by message index; [] = it would be accepted.

    ``messages`` are OpenAI-shaped dicts or `Message` objects. With ``warnings`` the list also holds what only some
    models or older versions refuse, and what was reported too rarely to be called an error. Cost: linear in the number
    of messages. Raises `MalformedMessage` for what is not a list of messages, `UnknownName` for a provider that does
    not exist.

    >>> call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    >>> history = [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    >>> [(found.rule, found.index) for found in validate(history)]
    [('O2', 1)]
    >>> validate([*history, {"role": "tool", "tool_call_id": "c1", "content": "done"}])
    []
    """
    check = _CHECKS.get(provider) if isinstance(provider, str) else None
    if check is None:
        raise unknown_name("provider", provider, list(_CHECKS))
    found = [one for one in check(as_messages(messages)) if warnings or one.severity == "error"]
    return sorted(found, key=lambda one: -1 if one.index is None else one.index)
