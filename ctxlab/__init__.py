"""ctxlab: what goes into an LLM's fixed context window.

Every public name is importable from here and loaded on first use, so that ``import ctxlab`` costs nothing but this
table. The table is the one list of the public names.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    # errors
    "CtxlabError": "errors",
    # messages
    "Message": "messages",
    # tokens
    "get_encoding": "tokens",
    "count_tokens": "tokens",
    "estimate_tokens": "tokens",
    "count_tools": "tokens",
    "heuristic_tokens": "tokens",
    "count_message": "tokens",
    "count_request": "tokens",
    "estimate": "tokens",
    "TokenMeter": "tokens",
    "harmony_tokens": "harmony",
    # budget
    "Budget": "budget",
    "history_trigger": "budget",
    "pressure_trigger": "budget",
    "crossing": "budget",
    "billed_tokens": "budget",
    "MAX_TOKENS": "budget",
    "TRIGGER_RATIO": "budget",
    "KEEP_RECENT": "budget",
    # rounds
    "Step": "rounds",
    "pairing": "rounds",
    "split_rounds": "rounds",
    "align_to_turn_start": "rounds",
    "align_to_round_start": "rounds",
    "explain_cut": "rounds",
    # providers
    "PROVIDERS": "providers",
    "RULES": "providers",
    "Violation": "providers",
    "validate": "providers",
    # repairs
    "repair": "repairs",
    "explain_repair": "repairs",
    # compress
    "compress_if_needed": "compress",
    "compress_async": "compress",
    "explain_compress": "compress",
    "Policy": "compress",
    "Compressed": "compress",
    "Unchanged": "compress",
    "Refused": "compress",
    "Failed": "compress",
    # pruning
    "prune_tool_result": "pruning",
    "prune_history": "pruning",
    # formats
    "Conversation": "formats",
    "load": "formats",
    "load_all": "formats",
    # transcript
    "append_message": "transcript",
    "last_seq": "transcript",
    "fork_session": "transcript",
    # store, session
    "open_store": "store",
    "Session": "session",
    "CompactionPolicy": "compaction",
    # memory
    "place": "memory",
    "MemoryStore": "memory",
    "inject": "memory",
    "inject_all": "memory",
    # models, rlm
    "Model": "models",
    "MockModel": "models",
    "OpenAIModel": "models",
    "play_round": "models",
    "run_rlm": "rlm",
    "compare_ways": "rlm",
    # grading
    "grade": "grading",
    "check": "grading",
    "hint": "grading",
    "solution": "grading",
    # widgets
    "BudgetView": "widgets",
    "CutStepper": "widgets",
    "RepairStepper": "widgets",
    "ThresholdExplorer": "widgets",
    "MessagePath": "widgets",
    "MemorySorter": "widgets",
    # inspection
    "inspect_conversation": "inspection",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"ctxlab.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'ctxlab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
