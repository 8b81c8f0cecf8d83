"""Grades every variant once, two at a time, for all the tests that look at the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from variants import VARIANTS, exercise_of

from ctxlab.grading import get_exercise
from ctxlab.grading.batch import grade_submission
from ctxlab.grading.model import ExerciseResult
from ctxlab.grading.submissions import Submission


@pytest.fixture(scope="session")
def verdict() -> Iterator[Callable[[Path], ExerciseResult]]:
    """The verdict on one variant, with seed 0."""

    def one(path: Path) -> ExerciseResult:
        return grade_submission(Submission(path, (path,)), get_exercise(exercise_of(path)), 0).exercises[0]

    pool = ThreadPoolExecutor(2)
    found = {path: pool.submit(one, path) for paths in VARIANTS.values() for path in paths}
    yield lambda path: found[path].result()
    pool.shutdown(cancel_futures=True)  # those that no chosen test asked for
