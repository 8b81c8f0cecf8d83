"""Grade submissions: which files, which exercises of each, one after another or several at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ctxlab.grading.exercises import EXERCISES, get_exercise
from ctxlab.grading.judge import FileBench, judge
from ctxlab.grading.model import Exercise, ExerciseResult, SubmissionResult
from ctxlab.grading.report import Report
from ctxlab.grading.submissions import Source, Submission, find, read
from ctxlab.sandbox import Limits, isolation

DEFAULT_SEED = 0


def grade(
    paths: str | Path | Iterable[str | Path],
    exercise: str | None = None,
    seed: int | None = None,
    jobs: int = 1,
    limits: Limits | None = None,
) -> Report:
    """Grade what is under ``paths`` (see `submissions.find` for how a folder counts).

    Without ``exercise``, a submission is graded on the exercise that its files are tagged or named for and on those
    whose functions it defines; one with none of them on all four, as not attempted. With it, on exactly that one.
    The verdicts depend on ``seed`` (0 where it is None) and on nothing else. ``jobs`` workers run at once.

    Raises `UnknownName` for an exercise that does not exist and `NotASubmission` for a path with nothing to grade.
    """
    chosen = None if exercise is None else get_exercise(exercise)
    found = find([paths] if isinstance(paths, str | Path) else paths)
    number = DEFAULT_SEED if seed is None else seed
    used = limits or Limits()

    def one(submission: Submission) -> SubmissionResult:
        return grade_submission(submission, chosen, number, used)

    if jobs <= 1:
        results = [one(submission) for submission in found]
    else:
        # Threads are enough: a judge mostly waits for its worker, which is a process.
        with ThreadPoolExecutor(jobs) as pool:
            results = list(pool.map(one, found))
    return Report(tuple(results), isolation=isolation(), seed=number)


def grade_submission(
    submission: Submission, chosen: Exercise | None, seed: int, limits: Limits | None = None
) -> SubmissionResult:
    """The one result of one submission."""
    sources = [read(path) for path in submission.files]
    wanted = [chosen] if chosen else exercises_of(sources)
    results: dict[str, ExerciseResult] = {}
    notes: list[str] = []
    for source in sources:
        mine = [one for one in wanted if best(one, sources) is source]
        with FileBench(source, limits or Limits()) as bench:
            for one in mine:
                results[one.name] = judge(one, source, bench, seed)
            notes += [_noted(note, source, sources) for note in (*source.notes, *bench.notes)]
    for one in wanted:
        several = [source.path.name for source in sources if source.defines(one.name) == "attempted"]
        if len(several) > 1:
            notes.append(f"{one.name} is written in {', '.join(several)}: the last of them was graded")
    errors = [f"{source.path.name}: {source.error}" for source in sources if source.error is not None]
    error = "; ".join(errors) if errors and len(errors) == len(sources) else None
    notes += errors if error is None else []
    return SubmissionResult(str(submission.path), tuple(results[one.name] for one in wanted), tuple(notes), error)


def exercises_of(sources: Sequence[Source]) -> list[Exercise]:
    """The exercises that a submission is evidently for; all of them where it is for none."""
    names = {source.tag for source in sources} | {name for source in sources for name in source.status or {}}
    return [one for one in EXERCISES.values() if one.name in names] or list(EXERCISES.values())


def best(exercise: Exercise, sources: Sequence[Source]) -> Source:
    """The file that is graded for an exercise: one with an attempt before a blank before none, the last by name."""
    rank = {"attempted": 3, "blank": 2, "missing": 0}

    def worth(place: int) -> tuple[int, int]:
        source = sources[place]
        return max(rank[source.defines(exercise.name)], int(source.tag == exercise.name)), place

    return sources[max(range(len(sources)), key=worth)]


def _noted(note: str, source: Source, sources: Sequence[Source]) -> str:
    return note if len(sources) == 1 else f"{source.path.name}, {note}"
