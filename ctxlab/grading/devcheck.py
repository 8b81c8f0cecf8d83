"""``ctxlab dev check``: the kit checks itself.

An untouched exercise fails every check as not attempted, a solution passes every check, every exercise has its hints
and its lesson, each known mistake (``tests/wrong``) fails exactly the checks that its first line names, each check
catches at least one of them, no other right way (``tests/right``) is refused, the exercises are what the solutions
give, and no stray file lies among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxlab.errors import CtxlabError
from ctxlab.grading.batch import stream
from ctxlab.grading.exercises import EXERCISES
from ctxlab.grading.model import Exercise, ExerciseResult
from ctxlab.grading.rebuild import BadSolution, release
from ctxlab.grading.submissions import Submission

MARK = "# fails: "
LEFT_OVER = ("__pycache__", ".ipynb_checkpoints", ".sessions")  # made by running things, and ignored by git


class NoCheckout(CtxlabError, ValueError):
    """A folder that is no checkout of the kit. ``path``."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the kit: ``where`` (a file or an exercise) and ``what``."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class KitReport:
    """What the kit's check of itself found; ``graded`` files were asked."""

    problems: tuple[Problem, ...]
    graded: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """For ``ctxlab dev check --format json``."""
        problems = [{"where": one.where, "what": one.what} for one in self.problems]
        return {"ok": self.ok, "graded": self.graded, "problems": problems}

    def __str__(self) -> str:
        lines = [str(one) for one in self.problems]
        asked = f"{len(EXERCISES)} exercises, {self.graded} files graded"
        return "\n".join([*lines, f"{len(lines)} problems; {asked}" if lines else f"the kit is sound: {asked}"])


@dataclass(frozen=True, slots=True)
class Case:
    """One file that is graded, on one exercise, and how its verdicts have to be."""

    path: Path
    exercise: Exercise
    problem: Callable[[ExerciseResult], str | None]


def check_kit(
    root: str | Path, *, seed: int = 0, jobs: int = 1, told: Callable[[int, int], None] | None = None
) -> KitReport:
    """Check the checkout at ``root``. Raises `NoCheckout` where a part is not there.

    ``told`` is called with how many files are graded, of how many.
    """
    place = Path(root)
    missing = [part for part in ("exercises", "solutions", "tests/wrong", "tests/right") if not (place / part).is_dir()]
    if missing:
        raise NoCheckout(
            f"{place} is no checkout of the kit: no {', '.join(missing)}",
            hint="run it in a checkout, or name one with --root",
            path=place,
        )
    problems = [*words(place), *built(place), *strays(place)]
    cases = list(_cases(place))
    if told:
        told(0, len(cases))
    for number, (case, result) in enumerate(_graded(cases, seed, jobs), 1):
        what = result.error if result.error and case.problem is not untouched else case.problem(result)
        if what:
            problems.append(Problem(str(case.path.relative_to(place)), what))
        if told:
            told(number, len(cases))
    problems += uncaught(place)
    return KitReport(tuple(sorted(problems, key=str)), len(cases))


def _graded(cases: Sequence[Case], seed: int, jobs: int) -> Iterator[tuple[Case, ExerciseResult]]:
    for name, exercise in EXERCISES.items():
        mine = [case for case in cases if case.exercise.name == name]
        submissions = [Submission(case.path, (case.path,)) for case in mine]
        for number, result in stream(submissions, exercise, seed, jobs):
            yield mine[number], result.exercises[0]


def _cases(place: Path) -> Iterator[Case]:
    for exercise in EXERCISES.values():
        yield Case(place / "exercises" / f"{exercise.file_stem}.ipynb", exercise, untouched)
        yield Case(place / "solutions" / f"{exercise.file_stem}.py", exercise, solved)
    for kind, problem in (("wrong", None), ("right", right)):
        for path in variants(place, kind):
            if exercise_of(path) in EXERCISES:
                yield Case(path, EXERCISES[exercise_of(path)], problem or caught(named(path)))


def untouched(result: ExerciseResult) -> str | None:
    """What is wrong where an untouched exercise is anything but not attempted."""
    others = [one.check.id for one in result.checks if one.outcome != "not attempted"]
    return f"is untouched, but not as not attempted: {', '.join(others)}" if others else None


def solved(result: ExerciseResult) -> str | None:
    """What is wrong where a solution does not pass every check, those beyond the lesson among them."""
    failed = [f"{one.check.id} ({one.message})" for one in result.checks if not one.passed]
    return f"is the solution, but does not pass {'; '.join(failed)}" if failed else None


def right(result: ExerciseResult) -> str | None:
    """What is wrong where another right way is refused by a required check."""
    failed = [f"{one.check.id} ({one.message})" for one in result.checks if one.check.required and not one.passed]
    return f"is right, but is refused by {'; '.join(failed)}" if failed else None


def caught(expected: Sequence[str]) -> Callable[[ExerciseResult], str | None]:
    """What is wrong where a mistake does not fail exactly the checks that it names."""

    def problem(result: ExerciseResult) -> str | None:
        failed = [one.check.id for one in result.checks if not one.passed]
        missed = [name for name in expected if name not in failed]
        more = [name for name in failed if name not in expected]
        if not expected:
            return f"names no check in its first line ('{MARK}...'); it fails {', '.join(failed) or 'none'}"
        said = [f"is not caught by {', '.join(missed)}"] if missed else []
        said += [f"fails {', '.join(more)} too, which it does not name"] if more else []
        return " and ".join(said) or None

    return problem


def words(place: Path) -> Iterator[Problem]:
    """Exercises without the words that a learner is led by."""
    for exercise in EXERCISES.values():
        if len(exercise.hints) != 3 or not all(hint.strip() for hint in exercise.hints):
            yield Problem(exercise.name, "does not have three hints")
        if not (place / exercise.lesson).is_file():
            yield Problem(exercise.name, f"points to {exercise.lesson}, which is not there")
        for check in exercise.checks:
            if not check.title.strip() or not check.why.strip():
                yield Problem(exercise.name, f"the check {check.id} does not say what it asks, or why")


def built(place: Path) -> Iterator[Problem]:
    """Exercises that are not what the solutions give."""
    try:
        done = release(place / "exercises", place / "solutions", write=False)
    except BadSolution as error:
        yield Problem("solutions", str(error))
        return
    for path in done.changed:
        yield Problem(str(path.relative_to(place)), "is not what its solution gives: run ctxlab release")


def strays(place: Path) -> Iterator[Problem]:
    """Files that belong to no exercise."""
    stems = {exercise.file_stem for exercise in EXERCISES.values()}
    for part, suffix in (("exercises", ".ipynb"), ("solutions", ".py")):
        for path in sorted((place / part).iterdir()):
            if path.name not in LEFT_OVER and not (path.stem in stems and path.suffix == suffix):
                yield Problem(str(path.relative_to(place)), "is a stray file: it belongs to no exercise")
    for kind in ("wrong", "right"):
        for path in sorted((place / "tests" / kind).iterdir()):
            if path.name not in LEFT_OVER and (path.suffix != ".py" or exercise_of(path) not in EXERCISES):
                yield Problem(str(path.relative_to(place)), "is a stray file: name it exercise__mistake.py")


def uncaught(place: Path) -> Iterator[Problem]:
    """Checks that no known mistake names: nobody knows whether they catch anything."""
    for exercise in EXERCISES.values():
        mistakes = [path for path in variants(place, "wrong") if exercise_of(path) == exercise.name]
        seen = {name for path in mistakes for name in named(path)}
        for check in exercise.checks:
            if check.id not in seen:
                yield Problem(exercise.name, f"no mistake in tests/wrong is caught by the check {check.id}")
        for name in sorted(seen - {check.id for check in exercise.checks}):
            yield Problem(exercise.name, f"a mistake in tests/wrong names the check {name}, which does not exist")


def variants(place: Path, kind: str) -> list[Path]:
    """The files of ``tests/wrong`` or ``tests/right``."""
    return sorted((place / "tests" / kind).glob("*.py"))


def exercise_of(path: Path) -> str:
    """``fork_session`` for ``fork_session__slice.py``."""
    return path.stem.split("__")[0]


def named(path: Path) -> list[str]:
    """The checks that a known mistake names in its first line."""
    first = path.read_text("utf-8", errors="replace").partition("\n")[0]
    return [name.strip() for name in first.removeprefix(MARK).split(",")] if first.startswith(MARK) else []
