"""The exercises themselves: points, hints, blanks, and that one source gives all forms."""

from __future__ import annotations

import ast
import asyncio
import inspect

import pytest
from variants import ROOT

import ctxlab
from ctxlab.errors import UnknownName
from ctxlab.grading import EXERCISES, get_exercise, grade
from ctxlab.grading.rebuild import solution_of
from ctxlab.grading.submissions import is_blank

ALL = pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda one: one.name)


def function_in(source: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    found = [node for node in ast.parse(source).body if getattr(node, "name", None) == name]
    assert isinstance(found[-1], ast.FunctionDef | ast.AsyncFunctionDef)
    return found[-1]


def run(source: str, name: str):
    namespace: dict = {}
    exec(source, namespace)  # the kit's own blank
    return namespace[name]


def test_the_four_exercises_are_worth_ten_points():
    assert list(EXERCISES) == ["estimate_tokens", "compress_if_needed", "append_message", "fork_session"]
    assert sum(one.max_score for one in EXERCISES.values()) == 10.0


@ALL
def test_points_stand_on_required_checks_alone(exercise):
    for check in exercise.checks:
        assert (check.points > 0) == check.required
    assert len({check.id for check in exercise.checks}) == len(exercise.checks)


@ALL
def test_each_exercise_has_three_hints_a_task_and_a_lesson_that_is_there(exercise):
    assert len(exercise.hints) == 3
    assert all(len(hint) > 60 for hint in exercise.hints)
    assert f"`{exercise.name}(" in exercise.task
    assert (ROOT / exercise.lesson).is_file()


@ALL
def test_the_blank_has_the_solutions_signature_and_docstring(exercise):
    blank = function_in(exercise.blank, exercise.name)
    solved = function_in(solution_of(exercise, ROOT / "solutions"), exercise.name)
    assert type(blank) is type(solved)
    assert ast.dump(blank.args) == ast.dump(solved.args)
    assert ast.get_docstring(blank) == ast.get_docstring(solved)
    assert is_blank(blank, exercise)
    assert not is_blank(solved, exercise)


@pytest.mark.parametrize(
    "body", ["pass", "...", "return", "return None", "raise NotImplementedError", "raise NotImplementedError('x')"]
)
def test_a_function_that_does_nothing_is_a_blank_too(body):
    source = f'def fork_session(parent, at):\n    """Its docstring."""\n    print("here")\n    {body}\n'
    assert is_blank(function_in(source, "fork_session"), get_exercise("fork_session"))


def test_a_blank_with_one_changed_value_is_an_attempt():
    source = EXERCISES["estimate_tokens"].blank.replace("return 0", "return 1")
    assert not is_blank(function_in(source, "estimate_tokens"), get_exercise("estimate_tokens"))


def test_the_blanks_run_are_visibly_wrong_and_say_so(capsys, tmp_path):
    history = [{"role": "user", "content": "hello"}] * 9
    blank = {name: run(one.blank, name) for name, one in EXERCISES.items()}
    assert blank["estimate_tokens"](history) == 0
    assert asyncio.run(blank["compress_if_needed"](history, None)) == history
    path = tmp_path / "main.jsonl"
    blank["append_message"](str(path), history[0])
    assert ctxlab.last_seq(path) == 0
    parent = {"id": "s-1", "messages": list(history)}
    blank["fork_session"](parent, 1)["messages"].append("contaminated")
    assert parent["messages"][-1] == "contaminated"
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith(one.incomplete) for line, one in zip(lines, EXERCISES.values(), strict=True)] == [True] * 4


def test_an_unknown_exercise_gets_the_closest_name():
    with pytest.raises(UnknownName) as error:
        get_exercise("fork_sesion")
    assert "did you mean 'fork_session'?" in error.value.hint


@pytest.mark.parametrize("seed", [0, 1, 20260904])
def test_the_solutions_pass_every_check_with_any_seed(seed):
    report = grade(ROOT / "solutions", seed=seed, jobs=2)
    [submission] = report.submissions
    assert [one.message for result in submission.exercises for one in result.checks if not one.passed] == []
    assert (submission.score, submission.max_score, report.exit_code) == (10.0, 10.0, 0)


def test_the_untouched_exercises_fail_every_check_as_not_attempted():
    report = grade(ROOT / "exercises")
    [submission] = report.submissions
    assert {one.outcome for result in submission.exercises for one in result.checks} == {"not attempted"}
    assert [result.exercise.name for result in submission.exercises] == list(EXERCISES)
    assert (submission.score, report.exit_code) == (0.0, 1)


@ALL
def test_the_library_passes_its_own_required_checks(exercise, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXLAB_PROGRESS", str(tmp_path / "progress.json"))
    report = ctxlab.check(getattr(ctxlab, exercise.name))
    assert report.passed, repr(report)


def test_every_check_is_a_function_with_a_sentence_of_why():
    for exercise in EXERCISES.values():
        for check in exercise.checks:
            assert inspect.isfunction(check.run)
            assert len(check.why) > 20
