"""Who answers: the scripted model, or any OpenAI-compatible endpoint. One interface, `Model`.

`MockModel` needs the standard library alone, has no state, and answers from the messages that it is given and from
nothing else. `OpenAIModel` talks to a real endpoint through the official ``openai`` package (the extra ``openai``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ctxlab.models.base import INTERRUPTED, Answer, Model, Piece, Reply, RunTool, Tools, pieces, play_round
from ctxlab.models.conversations import ROUND_TOKENS, conversation, rounds_of
from ctxlab.models.endpoint import OpenAIModel, Retries
from ctxlab.models.facts import Fact, asked_about, facts_in
from ctxlab.models.scripted import MockModel
from ctxlab.models.shop import SHOP_TOOLS, Shop, run_tool
from ctxlab.models.summaries import summarise, summarise_carelessly

__all__ = [
    "INTERRUPTED",
    "ROUND_TOKENS",
    "SHOP_TOOLS",
    "Answer",
    "Fact",
    "MockModel",
    "Model",
    "OpenAIModel",
    "Piece",
    "Reply",
    "Retries",
    "RunTool",
    "Shop",
    "Tools",
    "asked_about",
    "conversation",
    "facts_in",
    "model_from_environment",
    "pieces",
    "play_round",
    "rounds_of",
    "run_tool",
    "summarise",
    "summarise_carelessly",
]


def model_from_environment(environ: Mapping[str, str] | None = None) -> Model:
    """The scripted model where ``MOCK`` is set (to anything but 0, no or false), else the endpoint of the environment.

    Raises `ModelError` where neither is there, with what to set.
    """
    values = os.environ if environ is None else environ
    if values.get("MOCK", "").strip().lower() not in ("", "0", "no", "false"):
        return MockModel()
    return OpenAIModel.from_environment(values)
