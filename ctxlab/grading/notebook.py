"""In a notebook: `check` a function, take a `hint`, look at the `solution`.

`check` asks a fork of the kernel, so that a function that loops, exits or changes its input hurts nothing. It shows the
same verdicts as ``ctxlab grade``, and it is for the learner: the verdict that counts is made where their code does not
run.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ctxlab.errors import CtxlabError, UnknownName
from ctxlab.grading import progress
from ctxlab.grading.asking import Ask
from ctxlab.grading.exercises import EXERCISES, get_exercise
from ctxlab.grading.judge import SERVICES, ask_next, unasked
from ctxlab.grading.model import CheckResult, Exercise, ExerciseResult
from ctxlab.grading.page import exercise_html
from ctxlab.grading.report import exercise_lines
from ctxlab.grading.submissions import is_blank
from ctxlab.kit import folder
from ctxlab.sandbox import Broken, Fork, Here, Limits, Service, beside

DEFAULT_SEED = 0


class NoAttempt(CtxlabError, RuntimeError):
    """The solution of an exercise that was not tried yet. ``exercise``."""


@dataclass(slots=True)
class KernelBench:
    """The kernel's own namespace in a fork, which is made when it is first asked, and anew after it broke."""

    namespace: dict[str, Any]
    services: Mapping[str, str]
    limits: Limits = field(default_factory=Limits)
    _fork: Fork | Here | None = None

    def ask(self, question: Mapping[str, Any], services: Mapping[str, Service] | None = None) -> dict[str, Any]:
        """The answer to one question; raises `Broken`."""
        fork = self._ready()
        try:
            return fork.channel.ask(question, services)
        except Broken:
            self.close()
            raise

    def home(self) -> Path:
        """The fork's folder."""
        return self._ready().home

    def close(self) -> None:
        """End the fork."""
        if self._fork is not None:
            self._fork.close()
            self._fork = None

    def _ready(self) -> Fork | Here:
        if self._fork is None:
            self._fork = beside(self.namespace, self.limits)
            if self.services:
                self._fork.channel.ask({"do": "install", "names": dict(self.services)})
        return self._fork


class Shown:
    """What a cell shows: HTML that also reads as text. Shown once, also where it is the cell's last value."""

    def __init__(self, text: str, html: str = "") -> None:
        self.text, self.html = text, html
        self._handle: Any = None
        self._count: object = None

    def __repr__(self) -> str:
        return self.text

    def show(self) -> None:
        """Show it, or show what it has become since."""
        shell = _shell()
        if shell is None:
            return
        from IPython.display import display

        data = {"text/plain": self.text, **({"text/html": self.html} if self.html else {})}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(data, raw=True)
        self._count = shell.execution_count

    def _ipython_display_(self) -> None:
        shell = _shell()
        if shell is None or self._count != shell.execution_count:
            self._handle = None
            self.show()


class Checked(Shown):
    """The report that `check` shows and returns. ``result`` has the verdicts."""

    def __init__(self, result: ExerciseResult, running: bool = False) -> None:
        super().__init__("")
        self.update(result, running)

    def update(self, result: ExerciseResult, running: bool) -> None:
        """Take a newer result."""
        self.result = result
        lines = exercise_lines(result)
        if running:
            lines[0] = f"{result.exercise.name}: checking, {len(result.checks)} of {len(result.exercise.checks)} done"
        self.text = "\n".join(lines)
        self.html = exercise_html(result, running=running)

    @property
    def passed(self) -> bool:
        """Whether every required check passed."""
        return self.result.passed

    @property
    def score(self) -> float:
        """The points earned."""
        return self.result.score

    def to_json(self) -> dict[str, Any]:
        """The verdicts as in ``ctxlab grade --format json``."""
        return self.result.to_json()


def check(function: Callable[..., Any] | str, seed: int | None = None, limits: Limits | None = None) -> Checked | None:
    """Ask the checks of the exercise that ``function`` answers (by its name); show the report and return it.

    A name in place of the function stands for the notebook's function of that name. In plain Python, without IPython,
    the report is printed. While a submission is graded, this does nothing and returns None: the grader asks by itself.
    Raises `UnknownName` for a function that answers no exercise, and where there is none of that name.
    """
    if os.environ.get("CTXLAB_WORKER"):
        return None
    exercise = get_exercise(str(getattr(function, "__name__", function)))
    if isinstance(function, str):
        function = _of_that_name(function)
    if _untouched(function, exercise):
        text = f"{exercise.name} is as it was handed out: write it in the cell above, run that cell, then this one"
        shown = Checked(unasked(exercise, "not attempted", text))
    else:
        shown = _asked(exercise, function, DEFAULT_SEED if seed is None else seed, limits or Limits())
        before = progress.of(exercise.name)
        progress.save(
            exercise.name,
            replace(
                before,
                attempts=before.attempts + 1,
                best=max(before.best, shown.score),
                passed=before.passed or shown.passed,
            ),
        )
    shown.show()
    if _shell() is None:
        _say(shown.text)
    return shown


def _of_that_name(name: str) -> Callable[..., Any]:
    """The notebook's function of that name. Raises `UnknownName`."""
    shell = _shell()
    space = vars(sys.modules["__main__"]) if shell is None else shell.user_ns
    found = space.get(name)
    if not callable(found):
        raise UnknownName(
            f"there is no function {name} here yet",
            hint=f"run the cell that defines it, then check({name}), without quotes",
            name=name,
            known=[],
        )
    function: Callable[..., Any] = found
    return function


def _asked(exercise: Exercise, function: Callable[..., Any], seed: int, limits: Limits) -> Checked:
    """Ask one check after another, the report growing on the screen."""
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    bench = KernelBench({**namespace, exercise.name: function}, exercise.services, limits)
    if isinstance(namespace, dict) and namespace:
        # The function reads its globals from this very dict: what stands in the fork must be put into it there.
        bench.namespace = namespace
        missing = namespace.get(exercise.name, exercise)
        namespace[exercise.name] = function
    ask = Ask(exercise, bench, SERVICES, budget=limits.check)
    shown = Checked(ExerciseResult(exercise, ()), running=True)
    done: list[CheckResult] = []
    try:
        for one in exercise.checks:
            done.append(ask_next(exercise, one, done, ask, seed))
            shown.update(ExerciseResult(exercise, tuple(done)), running=len(done) < len(exercise.checks))
            shown.show()
    finally:
        bench.close()
        if bench.namespace is namespace:
            if missing is exercise:
                del namespace[exercise.name]
            else:
                namespace[exercise.name] = missing
    return shown


def hint(name: str | Callable[..., Any]) -> Shown | None:
    """One more hint on an exercise each time, up to three; shows those that were given before, too."""
    if os.environ.get("CTXLAB_WORKER"):
        return None
    exercise = get_exercise(_name(name))
    before = progress.of(exercise.name)
    given = min(before.hints + 1, len(exercise.hints))
    progress.save(exercise.name, replace(before, hints=given))
    lines = [f"Hint {number} of {len(exercise.hints)}: {text}" for number, text in enumerate(exercise.hints[:given], 1)]
    if given == len(exercise.hints):
        lines.append(f'These are all. After an attempt, solution("{exercise.name}") shows one way to do it.')
    return _told("\n".join(textwrap.fill(line, 110) for line in lines))


def solution(name: str | Callable[..., Any]) -> Shown | None:
    """One way to solve an exercise, once it was attempted (checked with something other than the blank).

    Raises `NoAttempt` before that.
    """
    if os.environ.get("CTXLAB_WORKER"):
        return None
    from ctxlab.grading.rebuild import solution_of

    exercise = get_exercise(_name(name))
    if not progress.of(exercise.name).attempts:
        raise NoAttempt(
            f"{exercise.name} was not attempted yet",
            hint=f"write it, run check({exercise.name}), and look here afterwards; hint({exercise.name!r}) helps on",
            exercise=exercise.name,
        )
    return _told(solution_of(exercise, folder("solutions")))


def _name(name: str | Callable[..., Any]) -> str:
    return name if isinstance(name, str) else str(getattr(name, "__name__", name))


def _told(text: str) -> Shown:
    shown = Shown(text)
    shown.show()
    if _shell() is None:
        _say(text)
    return shown


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _shell() -> Any:
    """The IPython shell that this runs in, or None."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    return get_ipython()


def _untouched(function: Callable[..., Any], exercise: Exercise) -> bool:
    """Whether the function's source is the blank's; False where its source is not to be had."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return False
    node = body[0] if body else None
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_blank(node, exercise)


def standing() -> str:
    """One line an exercise: what has passed, what was tried."""
    lines = []
    for exercise in EXERCISES.values():
        so_far = progress.of(exercise.name)
        state = "passed" if so_far.passed else f"{so_far.attempts} attempts" if so_far.attempts else "not begun"
        lines.append(
            f"{exercise.number}. {exercise.name}: {state}, best {so_far.best:g} of {exercise.max_score:g} points"
        )
    return "\n".join(lines)
