"""The hands-on lab: `start`, `chat`, `fork`, `show` and `check_lab`, on the learner's own four functions.

`functions` finds and runs what the learner wrote, `sessions` reads back what it wrote to disk, `play` is the lab at
work, `view` shows a session, `criteria` asks the five acceptance criteria in fresh processes. Names load on first use,
so that a command costs no more than what it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctxlab.hands_on.criteria import Verdict, check_lab
    from ctxlab.hands_on.functions import Functions, LearnerError, default_exercises
    from ctxlab.hands_on.places import FOLDER
    from ctxlab.hands_on.play import ROUNDS, Lab, Started, Turn, chat, fork, start
    from ctxlab.hands_on.sessions import Forked, LabSession, Recovered
    from ctxlab.hands_on.view import View, show, visible

_HOME = {
    "FOLDER": "places",
    "ROUNDS": "play",
    "Forked": "sessions",
    "Functions": "functions",
    "Lab": "play",
    "LabSession": "sessions",
    "LearnerError": "functions",
    "Recovered": "sessions",
    "Started": "play",
    "Turn": "play",
    "Verdict": "criteria",
    "View": "view",
    "chat": "play",
    "check_lab": "criteria",
    "default_exercises": "functions",
    "fork": "play",
    "show": "view",
    "start": "play",
    "visible": "view",
}

__all__ = [
    "FOLDER",
    "ROUNDS",
    "Forked",
    "Functions",
    "Lab",
    "LabSession",
    "LearnerError",
    "Recovered",
    "Started",
    "Turn",
    "Verdict",
    "View",
    "chat",
    "check_lab",
    "default_exercises",
    "fork",
    "show",
    "start",
    "visible",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"ctxlab.hands_on.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'ctxlab.hands_on' has no attribute {name!r}")
