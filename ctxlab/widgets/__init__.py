"""Pictures that a person can push, for Jupyter: anywidgets, and plotly figures for what one reads.

Needs the ``lab`` extra. Every name here is loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "BudgetView": "budget_view",
    "CutStepper": "cut_stepper",
    "RepairStepper": "repair_stepper",
    "MemorySorter": "memory_sorter",
    "Question": "question",
    "ThresholdExplorer": "threshold_explorer",
    "threshold_figure": "thresholds",
    "threshold_chart": "thresholds",
    "MessagePath": "message_path",
    "BankQuestion": "bank_question",
    "Checklist": "checklist",
    "growth_figure": "growth",
    "growth_chart": "growth",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ctxlab.widgets' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"ctxlab.widgets.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name in ("anywidget", "ipywidgets", "traitlets", "plotly"):
            raise ImportError(f"{name} needs {error.name}: pip install 'ctxlab[lab]'", name=error.name) from error
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
