"""Known mistakes fail exactly the checks that they name; other right ways pass; each check catches something."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from variants import ROOT, VARIANTS, exercise_of

from ctxlab.grading import EXERCISES
from ctxlab.grading.judge import FileBench, judge
from ctxlab.grading.model import SubmissionResult
from ctxlab.grading.submissions import read
from ctxlab.sandbox import Limits


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
        if not one.passed:
            taught = ("skipped: it builds on",) if one.skipped else (". Expected: ", ". Why: ")
            assert all(part in one.message for part in (*taught, f"See {EXERCISES[exercise_of(path)].lesson}."))


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


def test_each_check_builds_on_checks_that_are_asked_before_it():
    for exercise in EXERCISES.values():
        for place, check in enumerate(exercise.checks):
            assert set(check.builds_on) <= {one.id for one in exercise.checks[:place]}


def test_a_check_that_builds_on_a_failed_one_is_skipped_and_says_so(verdict):
    [path] = [path for path in VARIANTS["wrong"] if path.stem == "fork_session__one_more"]
    skipped = [one for one in verdict(path).checks if one.skipped]
    assert [one.check.id for one in skipped] == ["deep-copy", "ends", "walks-back"]
    for one in skipped:
        assert one.outcome == "failed"
        assert one.message.startswith("skipped: it builds on “Exactly the first messages”, which did not pass")
        assert one.to_json()["skipped"] is True


def test_a_fault_of_the_graders_is_marked_and_flagged_and_skips_nothing():
    def broken(ask, draw):
        raise ZeroDivisionError("of the grader's")

    fork = EXERCISES["fork_session"]
    checks = tuple(replace(one, run=broken) if one.id == "prefix" else one for one in fork.checks)
    path = ROOT / "tests" / "right" / "fork_session__through_json.py"
    exercise = replace(fork, checks=checks)
    with FileBench(read(path)) as bench:
        result = judge(exercise, read(path), bench, 0)
    whole = SubmissionResult(str(path), (result,)).to_json()
    assert whole["regrade"] is True
    [fault] = [one for one in whole["exercises"][0]["checks"] if one["outcome"] == "error"]
    assert (fault["id"], fault["graders_fault"]) == ("prefix", True)
    assert "not the submission's fault" in fault["message"]
    assert not any(one.skipped for one in result.checks)
    assert [one.check.id for one in result.checks if not one.passed and one.check.required] == ["prefix"]


def test_the_time_budgets_end_a_check_and_a_submission_and_what_passed_counts():
    path = ROOT / "tests" / "right" / "fork_session__through_json.py"
    for limits, words in (
        (Limits(check=0.0), "time budget of this check (0 seconds"),
        (Limits(submission=0.0), "time budget of the whole submission (0 seconds)"),
    ):
        with FileBench(read(path), limits) as bench:
            result = judge(EXERCISES["fork_session"], read(path), bench, 0)
        assert {one.outcome for one in result.checks} == {"error"}
        assert any(words in one.message for one in result.checks) or words in (result.error or "")


def test_there_are_enough_variants_of_each():
    for kind, least in (("wrong", 10), ("right", 4)):
        counted = Counter(exercise_of(path) for path in VARIANTS[kind])
        assert set(counted) == set(EXERCISES)
        assert min(counted.values()) >= least
