"""What counts as a submission, and that honest accidents cost nothing."""

from __future__ import annotations

import os

import pytest
from accidents import SOLUTION, accident, cell, code, save, solved
from variants import ROOT

from ctxlab.grading import EXERCISES, grade
from ctxlab.grading.submissions import NotASubmission, Piece, find, read
from ctxlab.sandbox import Limits


def test_what_was_passed_over_is_noted(tmp_path):
    [submission] = grade(save(accident("scratch error"), tmp_path / "a.ipynb")).submissions
    assert any("ZeroDivisionError" in note and "cell 4" in note for note in submission.notes)
    path = save(accident("loop in a cell"), tmp_path / "a.ipynb")
    [submission] = grade(path, limits=Limits(load_cpu=1)).submissions
    assert any("left out, the CPU time limit was reached" in note for note in submission.notes)


def test_an_error_in_the_functions_own_cell_is_an_error_and_not_an_attempt_missing(tmp_path):
    notebook = solved()
    cell(notebook, "blank")["source"] = SOLUTION.replace("return {", "return {{")
    [submission] = grade(save(notebook, tmp_path / "a.ipynb")).submissions
    [result] = submission.exercises
    assert "SyntaxError" in (result.error or "")
    assert {one.outcome for one in result.checks} == {"error"}


def test_a_script_is_read_in_pieces_so_one_bad_definition_costs_itself_alone(tmp_path):
    path = tmp_path / "lab.py"
    given = (ROOT / "solutions" / "04_fork_session.py").read_text().replace("# %%", "#")
    path.write_text("def estimate_tokens(history):\n    return len(history\n\n" + given)
    report = grade(path, exercise="fork_session")
    assert report.submissions[0].score == 3.0
    assert grade(path, exercise="estimate_tokens").submissions[0].exercises[0].error is not None


def test_an_older_notebook_is_read_too(tmp_path):
    sheet = {"cells": [{"cell_type": "code", "input": ["import copy\n", "X = 1"], "language": "python", "outputs": []}]}
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [sheet]}
    source = read(save(old, tmp_path / "old.ipynb"))
    assert source.error is None
    assert source.pieces == (Piece("cell 1", 1, "import copy\n"), Piece("cell 1", 2, "X = 1\n"))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"cells": 3}', "\x00\x01"])
def test_a_file_that_is_no_notebook_is_one_result_with_an_error(text, tmp_path):
    path = tmp_path / "04_fork_session.ipynb"
    path.write_text(text)
    report = grade(path)
    [submission] = report.submissions
    assert submission.error is not None
    assert (submission.score, submission.max_score, report.exit_code) == (0.0, 3.0, 2)


def test_which_exercises_a_file_is_graded_on(tmp_path):
    def names(path, **options):
        return [result.exercise.name for result in grade(path, **options).submissions[0].exercises]

    one = tmp_path / "one.py"
    one.write_text("def fork_session(parent, at_index):\n    return parent\n")
    assert names(one) == ["fork_session"]
    assert names(one, exercise="append_message") == ["append_message"]
    nothing = tmp_path / "nothing.py"
    nothing.write_text("x = 1\n")
    assert names(nothing) == list(EXERCISES)
    assert names(save(solved(), tmp_path / "renamed.ipynb")) == ["fork_session"]
    tagged = solved()
    tagged["cells"].append(code("def estimate_tokens(history):\n    return 7\n"))
    assert names(save(tagged, tmp_path / "renamed.ipynb")) == ["estimate_tokens", "fork_session"]


def test_a_function_that_is_not_there_is_not_attempted(tmp_path):
    path = tmp_path / "none.py"
    path.write_text("from ctxlab import fork_session\n")
    [submission] = grade(path).submissions
    assert {one.outcome for result in submission.exercises for one in result.checks} == {"not attempted"}
    assert submission.score == 0.0


def test_in_a_file_with_all_four_the_given_imports_do_not_take_the_place_of_the_learners_own(tmp_path):
    source = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "solutions").glob("*.py")))
    own = source.replace("total = REPLY", "total = 5000 + REPLY")
    (tmp_path / "lab.py").write_text(own)
    [submission] = grade(tmp_path / "lab.py").submissions
    assert [result.passed for result in submission.exercises] == [False, True, True, True]
    (tmp_path / "lab.py").write_text(source)
    assert grade(tmp_path / "lab.py").submissions[0].score == 10.0


def test_a_folder_of_the_exercises_is_one_submission(tmp_path):
    for name in ("01_estimate_tokens.ipynb", "04_fork_session.ipynb"):
        (tmp_path / name).write_bytes((ROOT / "exercises" / name).read_bytes())
    [submission] = find([tmp_path])
    assert [path.name for path in submission.files] == ["01_estimate_tokens.ipynb", "04_fork_session.ipynb"]


def test_a_folder_of_folders_and_files_is_a_class(tmp_path):
    for name in (
        "bob/fork_session.py",
        "alice/a.py",
        "alice/b.py",
        "alice/__pycache__/a.py",
        "alice/.x/y.py",
        "carol.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    found = find([tmp_path])
    assert [one.path.name for one in found] == ["alice", "bob", "carol.py"]
    assert [path.name for path in found[0].files] == ["a.py", "b.py"]


def test_files_for_the_same_exercise_side_by_side_are_submissions_of_their_own(tmp_path):
    for name in ("fork_session__a.py", "fork_session__b.py"):
        (tmp_path / name).write_text("x = 1\n")
    assert [one.path.name for one in find([tmp_path])] == ["fork_session__a.py", "fork_session__b.py"]


def test_of_two_files_with_one_function_the_attempt_is_graded(tmp_path):
    folder = tmp_path / "class" / "alice"
    folder.mkdir(parents=True)
    save(solved(), folder / "1 solved.ipynb")
    (folder / "2 untouched.ipynb").write_bytes((ROOT / "exercises" / "04_fork_session.ipynb").read_bytes())
    [submission] = grade(tmp_path / "class").submissions
    assert submission.score == 3.0


@pytest.mark.parametrize("name", ["missing.py", "notes.txt", "empty"])
def test_a_path_with_nothing_to_grade_is_refused(name, tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotASubmission):
        grade(tmp_path / name)


def test_a_pipe_is_no_submission_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "lab.py")
    with pytest.raises(NotASubmission, match="not a plain file"):
        find([tmp_path / "lab.py"])
