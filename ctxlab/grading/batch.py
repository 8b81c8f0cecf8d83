"""Grade submissions: which files, which exercises of each, one after another or several at once.

`grade` holds all results in memory and gives them back; `grade_class` writes each to disk as it comes, takes up a run
that was killed, and needs the memory of a few submissions however large the class.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from ctxlab.grading.exercises import EXERCISES, get_exercise
from ctxlab.grading.judge import FileBench, judge
from ctxlab.grading.model import CheckResult, Exercise, ExerciseResult, SubmissionResult
from ctxlab.grading.report import Report
from ctxlab.grading.results import Results, key_of
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
    graded = dict(stream(found, chosen, number, jobs, limits))
    return Report(tuple(graded[place] for place in range(len(found))), isolation=isolation(), seed=number)


def grade_class(
    paths: Iterable[str | Path],
    results: Results,
    exercise: str | None = None,
    seed: int | None = None,
    jobs: int = 1,
    limits: Limits | None = None,
    told: Callable[[int, int], None] | None = None,
    scheduler: str | None = None,
) -> Report:
    """Grade what is under ``paths`` into ``results``, which may hold some of it already; as `grade` in all else.

    A submission whose files, seed, exercise, limits or kit changed since is graded anew, and so is one at which the
    grader itself failed. ``told`` is called with how many are done, of how many. ``scheduler``: grade on a Dask
    cluster, see `cluster`. The report reads from ``results``, which must stay open.
    """
    chosen = None if exercise is None else get_exercise(exercise)
    found = list({submission.path.absolute(): submission for submission in find(paths)}.values())
    number = DEFAULT_SEED if seed is None else seed
    used = limits or Limits()
    keys = {str(one.path): key_of(one, number, exercise, used) for one in found}
    missing = [one for one in found if not results.holds(str(one.path), keys[str(one.path)])]
    done = len(found) - len(missing)
    if told:
        told(done, len(found))
    if scheduler is None:
        coming = stream(missing, chosen, number, jobs, used)
    else:
        from ctxlab.grading.cluster import stream_on_cluster

        coming = stream_on_cluster(missing, exercise, number, scheduler, jobs, used)
    for _, result in coming:
        results.add(result, keys[result.path])
        done += 1
        if told:
            told(done, len(found))
    return Report(results.of(keys), isolation=isolation(), seed=number)


def stream(
    submissions: Sequence[Submission], chosen: Exercise | None, seed: int, jobs: int = 1, limits: Limits | None = None
) -> Iterator[tuple[int, SubmissionResult]]:
    """Each submission's place and its one result, as they come; at most twice ``jobs`` are under way."""
    if jobs <= 1:
        for place, submission in enumerate(submissions):
            yield place, grade_one(submission, chosen, seed, limits)
        return
    # Threads are enough: a judge mostly waits for its worker, which is a process.
    pool = ThreadPoolExecutor(jobs)
    coming = iter(enumerate(submissions))
    waiting: dict[Future[SubmissionResult], int] = {}
    try:
        while True:
            for place, submission in itertools.islice(coming, 2 * jobs - len(waiting)):
                waiting[pool.submit(grade_one, submission, chosen, seed, limits)] = place
            if not waiting:
                return
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield waiting.pop(future), future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def grade_one(
    submission: Submission, chosen: Exercise | None, seed: int, limits: Limits | None = None
) -> SubmissionResult:
    """The one result of one submission, whatever happens: where the grader itself fails, the result says so."""
    try:
        return grade_submission(submission, chosen, seed, limits)
    except Exception as error:  # noqa: BLE001 - whatever happens, there is a result, and the next one is graded
        return ungraded(submission, chosen, error)


def ungraded(submission: Submission, chosen: Exercise | None, error: Exception) -> SubmissionResult:
    """The result where the grader itself failed."""
    text = f"the grader itself failed ({type(error).__name__}: {error}); this is not the submission's fault"
    exercises = [chosen] if chosen else list(EXERCISES.values())
    results = [
        ExerciseResult(one, tuple(CheckResult(check, "error", text, grader=True) for check in one.checks), error=text)
        for one in exercises
    ]
    return SubmissionResult(str(submission.path), tuple(results), error=text)


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
