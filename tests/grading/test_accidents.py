"""Honest accidents cost nothing: the thirteen kinds that graders are known to punish, as notebooks, and some more."""

from __future__ import annotations

import pytest
from accidents import ACCIDENTS, FORK, SOLUTION, accident, cell, code, save, solved
from variants import ROOT

from ctxlab.grading import EXERCISES, grade
from ctxlab.grading.rebuild import solution_of
from ctxlab.sandbox import Limits

# The known kinds, by the name of what happened; a syntax error in another function has a test of its own below, too.
THIRTEEN = (
    "copied check cell", "copied solution cell", "split cell", "renamed file", "prints to stderr", "warns",
    "check cell deleted", "syntax error elsewhere", "changed to markdown", "scratch error", "waits for input",
    "20 MB of output", "odd kernel", "missing import",
)  # fmt: skip


@pytest.mark.parametrize("name", ACCIDENTS)
def test_an_honest_accident_costs_nothing(name, tmp_path):
    path = save(accident(name), tmp_path / "ps1 (1).ipynb")
    report = grade(path, limits=Limits(load_cpu=0))
    [submission] = report.submissions
    assert (submission.score, submission.max_score) == (3.0, 3.0), report.to_text()
    assert report.exit_code == 0


def test_each_of_the_known_kinds_is_among_them():
    assert set(THIRTEEN) - {"renamed file"} <= set(ACCIDENTS)  # all of them are in a renamed file


def test_a_syntax_error_in_one_function_costs_that_function_alone(tmp_path):
    notebook = solved()
    notebook["cells"].append(code("def estimate_tokens(history):\n    return len(history\n"))
    [submission] = grade(save(notebook, tmp_path / "lab.ipynb")).submissions
    scores = {result.exercise.name: result.score for result in submission.exercises}
    assert scores["fork_session"] == 3.0


def test_a_function_that_changes_its_input_costs_its_own_marks_alone(tmp_path):
    notebook = solved()
    cell(notebook, "blank")["source"] = SOLUTION.replace(
        "    messages =", "    parent.setdefault('forks', []).append(at_index)\n    messages ="
    )
    [submission] = grade(save(notebook, tmp_path / "lab.ipynb")).submissions
    assert [one.check.id for one in submission.exercises[0].checks if not one.passed] == ["parent-unchanged"]
    assert submission.score == FORK.max_score - 0.25


def test_a_slip_in_one_exercise_does_not_cost_another(tmp_path):
    both = solved(EXERCISES["compress_if_needed"])
    both["cells"].insert(0, code("def estimate_tokens(history):\n    return 0\n"))
    cell(both, "blank")["source"] = solution_of(EXERCISES["compress_if_needed"], ROOT / "solutions")
    [result] = grade(save(both, tmp_path / "lab.ipynb"), exercise="compress_if_needed").submissions[0].exercises
    assert result.passed
