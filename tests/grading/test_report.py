"""The verdicts in every form, and that they depend on the seed and on nothing else."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import jsonschema
import pytest
from variants import ROOT, TESTS

from ctxlab.errors import UnknownName
from ctxlab.grading import Report, grade
from ctxlab.grading.model import CheckResult, ExerciseResult, SubmissionResult
from ctxlab.grading.report import xml_text
from ctxlab.sandbox import isolation

CHECK = {
    "type": "object",
    "required": ["id", "title", "passed", "points", "required", "message", "outcome"],
    "properties": {
        "id": {"type": "string"}, "title": {"type": "string"}, "passed": {"type": "boolean"},
        "points": {"type": "number"}, "required": {"type": "boolean"}, "message": {"type": "string"},
        "outcome": {"enum": ["passed", "failed", "not attempted", "error"]},
    },
}  # fmt: skip
EXERCISE = {
    "type": "object",
    "required": ["name", "score", "max_score", "passed", "error", "checks"],
    "properties": {
        "name": {"type": "string"}, "score": {"type": "number"}, "max_score": {"type": "number"},
        "passed": {"type": "boolean"}, "error": {"type": ["string", "null"]},
        "checks": {"type": "array", "minItems": 1, "items": CHECK},
    },
}  # fmt: skip
SCHEMA = {
    "type": "object",
    "required": ["isolation", "submissions"],
    "properties": {
        "isolation": {"type": "string"},
        "submissions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["path", "score", "max_score", "exercises"],
                "properties": {
                    "path": {"type": "string"}, "score": {"type": "number"}, "max_score": {"type": "number"},
                    "exercises": {"type": "array", "minItems": 1, "items": EXERCISE},
                },
            },
        },
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def report() -> Report:
    """Right, wrong, untouched and unreadable, in one run."""
    paths = [
        TESTS / "right" / "fork_session__through_json.py", TESTS / "wrong" / "fork_session__end_raises.py",
        ROOT / "exercises" / "04_fork_session.ipynb",
    ]  # fmt: skip
    return grade(paths, exercise="fork_session", seed=3)


def test_the_json_has_the_published_shape(report):
    data = json.loads(json.dumps(report.to_json()))
    jsonschema.validate(data, SCHEMA)
    right, wrong, untouched = data["submissions"]
    assert (right["score"], right["max_score"], right["exercises"][0]["passed"]) == (3.0, 3.0, True)
    assert wrong["exercises"][0]["passed"] is False
    [ends] = [one for one in wrong["exercises"][0]["checks"] if one["id"] == "ends"]
    assert ends["outcome"] == "error"
    assert "IndexError" in ends["message"]
    assert "line" in ends["message"]
    assert untouched["exercises"][0]["attempted"] is False
    assert data["isolation"] == isolation().text


def test_beyond_checks_are_there_and_decide_nothing(report):
    right = report.submissions[0].exercises[0]
    assert [one.check.id for one in right.checks if not one.passed] == ["open-turn"]
    assert right.passed
    assert right.score == right.exercise.max_score


def test_the_exit_code_is_1_where_a_required_check_fails_and_0_where_none_does(report):
    assert report.exit_code == 1
    assert grade(TESTS / "right" / "fork_session__through_json.py").exit_code == 0


def test_the_junit_xml_has_one_case_a_check_with_a_unique_name(report):
    root = ElementTree.fromstring(report.to_junit().encode())
    assert root.tag == "testsuites"
    cases = root.findall("testsuite/testcase")
    assert len(cases) == 3 * 11
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
    for suite in root:
        inside = suite.findall("testcase")
        for counter, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(counter, "")) == len([case for case in inside if case.find(tag) is not None])
        assert int(suite.get("tests", "")) == len(inside)
    right, wrong, untouched = root
    assert [case.get("name") for case in right if case.find("skipped") is not None] == ["open-turn"]
    assert [case.get("name") for case in wrong if case.find("error") is not None] == ["ends"]
    assert {case.find("failure").get("type") for case in untouched if case.find("failure") is not None} == {
        "not attempted"
    }


def test_xml_cannot_be_broken_by_what_a_learner_printed():
    assert xml_text("a\x00b\ud800c\x1b[0m<&>") == "a\ufffdb\ufffdc\ufffd[0m<&>"


def test_the_text_says_what_was_called_what_came_what_was_expected_and_why(report):
    text = report.to_text()
    assert "fork_session: passed, 3 of 3 points, 9 of 9 required checks, 1 of 2 beyond" in text
    assert "Expected: " in text
    assert "Why: " in text
    assert "not attempted, 0 of 3 points" in text
    from rich.console import Console

    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(report)
    shown = console.export_text()
    assert "IndexError" in shown
    assert f"{len(list(report.submissions))} submissions, 1 passed every required check" in shown


def test_one_unreadable_submission_among_others_is_exit_code_1():
    broken = SubmissionResult("a", (), error="cannot be read")
    fine = SubmissionResult("b", ())
    assert Report((broken,), isolation(), 0).exit_code == 2
    assert Report((broken, fine), isolation(), 0).exit_code == 1
    assert ElementTree.fromstring(Report((broken,), isolation(), 0).to_junit().encode())[0].get("errors") == "1"


def test_a_check_that_did_not_pass_earns_nothing(report):
    exercise = report.submissions[0].exercises[0].exercise
    results = tuple(CheckResult(check, "error", "x") for check in exercise.checks)
    assert ExerciseResult(exercise, results).score == 0.0


def test_an_unknown_exercise_is_refused():
    with pytest.raises(UnknownName):
        grade(ROOT / "exercises", exercise="fork")


def test_the_same_seed_gives_the_same_verdicts_and_jobs_change_nothing():
    paths = [TESTS / "wrong" / f"fork_session__{name}.py" for name in ("slice", "raw_cut", "cut_forward")]
    first = grade(paths, seed=5).to_json()
    assert grade(paths, seed=5, jobs=2).to_json() == _without_ids(first)
    assert grade(paths, seed=6).to_json() != first


def _without_ids(data: dict) -> dict:
    return data


def test_the_verdicts_do_not_depend_on_time_zone_or_locale(monkeypatch):
    path = TESTS / "right" / "append_message__as_the_lesson.py"
    first = grade(path).to_json()
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    again = grade(path).to_json()
    verdicts = [[one["passed"] for one in data["submissions"][0]["exercises"][0]["checks"]] for data in (first, again)]
    assert verdicts[0] == verdicts[1]
