"""The exercises and their grading: `grade` for files, `check` in a notebook.

A check asks a learner's function in a process apart and compares the answers itself; see `judge`. Names load on first
use, so that ``from ctxlab import check`` costs a notebook nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "EXERCISES": "exercises",
    "Report": "report",
    "check": "notebook",
    "get_exercise": "exercises",
    "grade": "batch",
    "hint": "notebook",
    "release": "rebuild",
    "solution": "notebook",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"ctxlab.grading.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'ctxlab.grading' has no attribute {name!r}")
