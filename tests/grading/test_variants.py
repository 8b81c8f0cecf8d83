"""Known mistakes fail exactly the checks that they name; other right ways pass; each check catches something."""

from __future__ import annotations

from collections import Counter

import pytest
from variants import VARIANTS, exercise_of

from ctxlab.grading import EXERCISES


def named(path) -> list[str]:
    """The checks that a wrong variant names in its first line."""
    first = path.read_text("utf-8").splitlines()[0]
    assert first.startswith("# fails: ")
    return first.removeprefix("# fails: ").split(", ")


@pytest.mark.parametrize("path", VARIANTS["wrong"], ids=lambda path: path.stem)
def test_a_mistake_fails_exactly_the_checks_that_it_names(path, verdict):
    result = verdict(path)
    assert result.error is None
    assert [one.check.id for one in result.checks if not one.passed] == named(path)
    assert not [one.message for one in result.checks if one.grader]
    for one in result.checks:
        assert one.passed or (one.message and EXERCISES[exercise_of(path)].lesson in one.message)


@pytest.mark.parametrize("path", VARIANTS["right"], ids=lambda path: path.stem)
def test_another_right_way_passes_every_required_check(path, verdict):
    result = verdict(path)
    assert [one.message for one in result.checks if one.check.required and not one.passed] == []
    assert result.passed
    assert result.score == result.exercise.max_score


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda one: one.name)
def test_each_check_catches_at_least_one_mistake(exercise):
    caught = {name for path in VARIANTS["wrong"] if exercise_of(path) == exercise.name for name in named(path)}
    assert caught == {check.id for check in exercise.checks}


def test_there_are_enough_variants_of_each():
    for kind, least in (("wrong", 10), ("right", 4)):
        counted = Counter(exercise_of(path) for path in VARIANTS[kind])
        assert set(counted) == set(EXERCISES)
        assert min(counted.values()) >= least
