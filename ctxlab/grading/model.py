"""What an exercise is, what a check is, and what a verdict is: plain values, no judging.

A check's outcome is one of four, never mixed: *passed*, *failed* (an answer came and was wrong), *not attempted* (the
function is not there, or is the blank as it was handed out) and *error* (the learner's code broke, or, with ``grader``
set, ctxlab did: then the submission is to be graded again). A check that builds on one that did not pass is not asked:
it takes that one's part, *failed* or *error*, and says that it was skipped. Points stand on required checks alone, so
that the checks beyond the lesson's text never decide a score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from ctxlab.grading.asking import Ask
    from ctxlab.grading.draw import Draw

Outcome: TypeAlias = Literal["passed", "failed", "not attempted", "error"]
Asking: TypeAlias = "Callable[[Ask, Draw], None]"


@dataclass(frozen=True, slots=True)
class Check:
    """One question about a learner's function.

    ``run(ask, draw)`` asks with fresh values and returns, or raises `Failed`. ``why`` says why the answer matters and
    stands in every message of a failure. ``points`` is 0 for a check that is not required. ``builds_on``: ids of checks
    before it without which this one cannot be asked sensibly; where one of them did not pass, it is skipped.
    """

    id: str
    title: str
    why: str
    run: Asking
    points: float = 0.0
    required: bool = True
    builds_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise: its task, its checks, its hints, its blank. Everything that shows an exercise reads it from here.

    ``blank`` is the function as it is handed out: it runs and is visibly wrong. ``given`` is the code above it in the
    exercise's notebook. ``may_await``: an ``async def`` is as good as a ``def``. ``services`` names functions of the
    submission that are answered by the judge while this exercise is asked, so that a slip in one exercise does not
    cost another. ``withheld``: the library's own answers (module -> names), which a submission cannot borrow.
    """

    name: str
    number: int
    title: str
    lesson: str
    task: str
    given: str
    blank: str
    incomplete: str
    hints: tuple[str, str, str]
    checks: tuple[Check, ...]
    may_await: bool = False
    services: Mapping[str, str] = field(default_factory=dict)
    withheld: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def max_score(self) -> float:
        """The points of all checks together."""
        return sum(check.points for check in self.checks)

    @property
    def file_stem(self) -> str:
        """The name of its files: ``04_fork_session``."""
        return f"{self.number:02d}_{self.name}"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The verdict of one check.

    ``grader``: the error is ctxlab's own and no fault of the submission's, which is to be graded again. ``skipped``: it
    builds on a check that did not pass, and counts as that one does.
    """

    check: Check
    outcome: Outcome
    message: str = ""
    grader: bool = False
    skipped: bool = False

    @property
    def passed(self) -> bool:
        """Whether the answer was right."""
        return self.outcome == "passed"

    def to_json(self) -> dict[str, Any]:
        """As in ``ctxlab grade --format json``."""
        return {
            "id": self.check.id,
            "title": self.check.title,
            "passed": self.passed,
            "outcome": self.outcome,
            "points": self.check.points,
            "required": self.check.required,
            "message": self.message,
            **({"grader": True, "graders_fault": True} if self.grader else {}),
            **({"skipped": True} if self.skipped else {}),
        }


@dataclass(frozen=True, slots=True)
class ExerciseResult:
    """The verdicts on one exercise. ``error`` says what kept the function from being asked at all, if something did."""

    exercise: Exercise
    checks: tuple[CheckResult, ...]
    error: str | None = None
    where: str = ""

    @property
    def score(self) -> float:
        """The points of the checks that passed."""
        return sum(result.check.points for result in self.checks if result.passed)

    @property
    def passed(self) -> bool:
        """Whether every required check passed."""
        return all(result.passed for result in self.checks if result.check.required)

    @property
    def attempted(self) -> bool:
        """Whether there was anything to judge."""
        return not self.checks or any(result.outcome != "not attempted" for result in self.checks)

    def to_json(self) -> dict[str, Any]:
        """As in ``ctxlab grade --format json``."""
        return {
            "name": self.exercise.name,
            "title": self.exercise.title,
            "score": self.score,
            "max_score": self.exercise.max_score,
            "passed": self.passed,
            "attempted": self.attempted,
            "error": self.error,
            "checks": [result.to_json() for result in self.checks],
        }


@dataclass(frozen=True, slots=True)
class SubmissionResult:
    """One submission's verdicts: exactly one for every submission, whatever happened to it.

    ``notes`` says what was passed over on the way (a cell that broke, a magic), ``error`` why nothing could be read.
    """

    path: str
    exercises: tuple[ExerciseResult, ...]
    notes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def score(self) -> float:
        """The points earned."""
        return sum(result.score for result in self.exercises)

    @property
    def max_score(self) -> float:
        """The points that could be earned."""
        return sum(result.exercise.max_score for result in self.exercises)

    @property
    def regrade(self) -> bool:
        """Whether the grader itself failed somewhere, so that this result is no verdict and has to be made again."""
        return any(check.grader for result in self.exercises for check in result.checks)

    @property
    def passed(self) -> bool:
        """Whether every required check of every exercise passed."""
        return self.error is None and all(result.passed for result in self.exercises)

    def to_json(self) -> dict[str, Any]:
        """As in ``ctxlab grade --format json``."""
        return {
            "path": self.path,
            "score": self.score,
            "max_score": self.max_score,
            "passed": self.passed,
            "error": self.error,
            "notes": list(self.notes),
            **({"regrade": True} if self.regrade else {}),
            "exercises": [result.to_json() for result in self.exercises],
        }
