"""In a notebook: check, hint and solution; in plain Python here, and in a real kernel by nbclient."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import nbclient
import nbformat
import pytest
from variants import ROOT

from ctxlab import check, hint, solution
from ctxlab.errors import UnknownName
from ctxlab.grading import EXERCISES, progress
from ctxlab.grading.judge import unasked
from ctxlab.grading.notebook import NoAttempt, standing
from ctxlab.grading.page import exercise_html
from ctxlab.grading.rebuild import notebook_text, solution_of
from ctxlab.sandbox import Limits


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXLAB_PROGRESS", str(tmp_path / "progress.json"))


def define(name: str, source: str = "") -> object:
    namespace: dict = {"__name__": "learner"}
    exec(compile(source or solution_of(EXERCISES[name], ROOT / "solutions"), "<cell>", "exec"), namespace)
    return namespace[name]


FORK = """
import copy, uuid
from datetime import UTC, datetime
from ctxlab import align_to_turn_start
"""


def test_a_right_function_passes_and_the_progress_is_kept(capsys):
    report = check(define("fork_session", FORK + solution_of(EXERCISES["fork_session"], ROOT / "solutions")))
    assert report.passed
    assert report.score == 3.0
    assert "fork_session: passed, 3 of 3 points" in repr(report)
    assert repr(report) in capsys.readouterr().out
    assert progress.of("fork_session") == progress.Progress(attempts=1, hints=0, best=3.0, passed=True)
    assert "4. fork_session: passed, best 3 of 3 points" in standing()


def test_a_failing_check_teaches_in_text_and_in_html():
    def fork_session(parent, at_index):
        return {**parent, "id": "x", "parent_id": parent["id"], "forked_at": at_index}

    report = check(fork_session)
    assert not report.passed
    assert "Expected: " in repr(report)
    assert "&#x27;" in report.html or "&lt;" in report.html or "Expected" in report.html
    assert "<script" not in report.html
    assert progress.of("fork_session").attempts == 1


def test_what_the_function_breaks_is_broken_in_the_fork_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen: list = []

    def fork_session(parent, at_index):
        seen.append(1)
        os.environ["CTXLAB_BROKEN"] = "1"
        Path("here.txt").write_text("x")
        return {}

    check(fork_session)
    assert seen == []
    assert "CTXLAB_BROKEN" not in os.environ
    assert sorted(path.name for path in tmp_path.iterdir()) == ["progress.json"]


@pytest.mark.parametrize("body", ["while True: pass", "import os; os._exit(0)", "raise SystemExit"])
def test_a_loop_or_an_exit_does_not_take_the_kernel_with_it(body):
    started = time.monotonic()
    report = check(define("fork_session", f"def fork_session(parent, at_index):\n    {body}\n"), limits=Limits(cpu=0))
    assert report.score == 0.0
    assert {one.outcome for one in report.result.checks if one.check.required} == {"error"}
    assert time.monotonic() - started < 60


def test_the_learners_own_count_does_not_decide_the_second_exercise():
    source = solution_of(EXERCISES["compress_if_needed"], ROOT / "solutions")
    given = EXERCISES["compress_if_needed"].given
    function = define("compress_if_needed", f"{given}\n\ndef estimate_tokens(history):\n    return 0\n\n{source}")
    assert check(function).passed
    assert function.__globals__["estimate_tokens"]([{"role": "user", "content": "x"}]) == 0


def test_a_function_of_another_name_is_refused():
    def fork_sesion(parent, at_index):
        return parent

    with pytest.raises(UnknownName) as error:
        check(fork_sesion)
    assert "fork_session" in error.value.hint


def test_a_name_in_quotes_stands_for_the_function_and_is_no_attempt_where_there_is_none(monkeypatch):
    with pytest.raises(UnknownName, match="there is no function fork_session here yet") as caught:
        check("fork_session")
    assert caught.value.hint == "run the cell that defines it, then check(fork_session), without quotes"
    assert progress.of("fork_session").attempts == 0
    function = define("fork_session", FORK + solution_of(EXERCISES["fork_session"], ROOT / "solutions"))
    monkeypatch.setattr(sys.modules["__main__"], "fork_session", function, raising=False)
    assert check("fork_session").passed


def test_what_is_said_of_every_check_is_said_once():
    told = "fork_session is as it was handed out"
    assert exercise_html(unasked(EXERCISES["fork_session"], "not attempted", told)).count(told) == 1


def test_hints_come_one_at_a_time_and_the_solution_after_an_attempt(capsys):
    exercise = EXERCISES["append_message"]
    with pytest.raises(NoAttempt) as refused:
        solution("append_message")
    assert "check(append_message)" in refused.value.hint
    assert [repr(hint("append_message")).count("Hint ") for _ in range(4)] == [1, 2, 3, 3]
    check(define("append_message", "def append_message(path, message):\n    return message\n"))
    assert repr(solution("append_message")) == solution_of(exercise, ROOT / "solutions")


def test_while_a_submission_is_graded_they_do_nothing(monkeypatch):
    monkeypatch.setenv("CTXLAB_WORKER", "1")
    assert check(test_while_a_submission_is_graded_they_do_nothing) is None
    assert hint("fork_session") is None
    assert solution("fork_session") is None


def test_progress_that_cannot_be_kept_costs_the_progress_only(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXLAB_PROGRESS", str(tmp_path / "file" / "progress.json"))
    (tmp_path / "file").write_text("in the way")
    assert hint("fork_session") is not None
    assert progress.of("fork_session") == progress.Progress()
    monkeypatch.setenv("CTXLAB_PROGRESS", str(tmp_path / "junk.json"))
    for junk in ("[", "[]", '{"fork_session": 3}', '{"fork_session": {"hints": "x"}}'):
        (tmp_path / "junk.json").write_text(junk)
        assert progress.of("fork_session") == progress.Progress()


@pytest.mark.parametrize("name", EXERCISES)
def test_each_exercise_runs_in_a_real_kernel_untouched_and_solved(name, tmp_path):
    exercise = EXERCISES[name]
    notebook = nbformat.reads(notebook_text(exercise, ROOT / "solutions"), as_version=4)
    assert "not attempted, 0 of" in checked(notebook, tmp_path)
    blank = next(cell for cell in notebook.cells if cell.id.endswith("blank"))
    blank.source = solution_of(exercise, ROOT / "solutions")
    assert f"{name}: passed, {exercise.max_score:g} of {exercise.max_score:g} points" in checked(notebook, tmp_path)


def checked(notebook, folder) -> str:
    """Run a notebook; what its check cell shows as text, once."""
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    client.execute()
    cell = next(cell for cell in notebook.cells if cell.id.endswith("-check"))
    [output] = cell.outputs
    assert output.output_type == "display_data"
    assert "text/html" in output.data
    return output.data["text/plain"]
