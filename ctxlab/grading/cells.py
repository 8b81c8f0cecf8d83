"""One check of an exercise as an assertion: what a test cell of nbgrader or of otter runs.

The check is asked in the learner's own kernel, since these graders know no other place. It is the same check as
``ctxlab grade`` asks, with the same message, but no proof: code beside it can reach it. For grades that count, run
``ctxlab grade`` on the same notebooks; it reads them as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ctxlab.errors import unknown_name
from ctxlab.grading.asking import Ask
from ctxlab.grading.exercises import get_exercise
from ctxlab.grading.judge import SERVICES, ask_one
from ctxlab.grading.notebook import KernelBench, _untouched
from ctxlab.sandbox import Limits


def require(function: Callable[..., Any], check: str, seed: int = 0) -> None:
    """Ask one check of the exercise that ``function`` answers (by its name).

    Raises AssertionError, with the check's message, where it does not pass, and `UnknownName` for a check that does not
    exist. The function runs in a fork: what it changes, prints or breaks stays there.
    """
    exercise = get_exercise(str(getattr(function, "__name__", function)))
    known = {one.id: one for one in exercise.checks}
    if check not in known:
        raise unknown_name("check", check, list(known))
    if str(getattr(function, "__module__", "")).split(".")[0] == "ctxlab":
        raise AssertionError(f"{exercise.name} is the library's own: write it yourself")
    if _untouched(function, exercise):
        raise AssertionError(f"{exercise.name} is as it was handed out")
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    if namespace.get(exercise.name) is not function:
        namespace = {**namespace, exercise.name: function}
    bench = KernelBench(namespace, exercise.services, Limits())
    try:
        verdict = ask_one(exercise, known[check], Ask(exercise, bench, SERVICES), seed)
    finally:
        bench.close()
    if not verdict.passed:
        raise AssertionError(f"{verdict.check.title}: {verdict.message}")
