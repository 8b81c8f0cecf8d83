"""The four exercises as one assignment for nbgrader and for otter-grader, with the kit's own checks as their tests.

Both want one notebook with the solutions in it, from which they make the learners' own: nbgrader by cell metadata
(version 3) and ``### BEGIN SOLUTION``, otter by raw cells and ``# BEGIN SOLUTION``. Points and checks are those of the
exercises; what is beyond the lesson is left out, since neither knows a test that decides nothing.
"""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ctxlab.grading.exercises import EXERCISES
from ctxlab.grading.model import Check, Exercise
from ctxlab.grading.rebuild import BadSolution, solution_cells

NAME = "ctxlab"
Cell = dict[str, Any]
OPENING = (
    "# What goes into a context window\n\nFour functions, ten points. The lessons that go with them are ctxlab's; "
    "`hint(...)` helps on."
)


def nbgrader_notebook(solutions: Path) -> str:
    """The source notebook of an nbgrader assignment, as the text of its file. Raises `BadSolution`."""
    cells = [_locked(_cell("markdown", "opening", OPENING)), _locked(_cell("code", "tools", TOOLS))]
    for one in EXERCISES.values():
        parts = solution_cells(one, solutions)
        cells += [
            _locked(_cell("markdown", f"{one.name}-task", task(one))),
            _locked(_cell("code", f"{one.name}-given", given(one))),
            _nbgrader(
                _cell(
                    "code",
                    f"{one.name}-answer",
                    answer(one, parts["solution"], "### BEGIN SOLUTION", "### END SOLUTION"),
                ),
                solution=True,
            ),
            _cell("code", f"{one.name}-try", parts["try"]),
        ]
        for check in required(one):
            test = _cell("code", f"{one.name}-{check.id}", test_of(one, check))
            cells.append(_nbgrader(test, grade=True, locked=True, points=check.points))
    return _notebook(cells)


def otter_notebook(solutions: Path) -> str:
    """The master notebook of an otter assignment, as the text of its file. Raises `BadSolution`."""
    cells = [_raw("config", CONFIG), _cell("markdown", "opening", OPENING), _cell("code", "tools", TOOLS)]
    for one in EXERCISES.values():
        parts = solution_cells(one, solutions)
        total = f"{one.max_score:g}"
        cells += [
            _cell("code", f"{one.name}-given", given(one)),
            _raw(f"{one.name}-begin", f"# BEGIN QUESTION\nname: {one.name}\npoints: {total}"),
            _cell("markdown", f"{one.name}-task", task(one)),
            _raw(f"{one.name}-begin-answer", "# BEGIN SOLUTION"),
            _cell("code", f"{one.name}-answer", answer(one, parts["solution"], "# BEGIN SOLUTION", "# END SOLUTION")),
            _raw(f"{one.name}-end-answer", "# END SOLUTION"),
            _raw(f"{one.name}-begin-tests", "# BEGIN TESTS"),
            *(_cell("code", f"{one.name}-{check.id}", _otter_test(one, check)) for check in required(one)),
            _raw(f"{one.name}-end-tests", "# END TESTS"),
            _raw(f"{one.name}-end", "# END QUESTION"),
            _cell("code", f"{one.name}-try", parts["try"]),
        ]
    return _notebook(cells)


TOOLS = "from ctxlab import hint\nfrom ctxlab.grading.cells import require"
CONFIG = f"""\
# ASSIGNMENT CONFIG
name: {NAME}
init_cell: true
check_all_cell: true
export_cell: false
requirements:
  - ctxlab
generate:
  points_possible: {sum(one.max_score for one in EXERCISES.values()):g}
"""


def required(exercise: Exercise) -> Iterator[Check]:
    """The checks that have points."""
    return (check for check in exercise.checks if check.required)


def task(exercise: Exercise) -> str:
    """The exercise's task under its title."""
    return f"## Exercise {exercise.number}: {exercise.title}\n\n{exercise.task}"


def test_of(exercise: Exercise, check: Check) -> str:
    """The code of one check's test."""
    return f'require({exercise.name}, "{check.id}")  # {check.title}'


test_of.__test__ = False  # type: ignore[attr-defined]  # its name is no claim of a test runner's


def _otter_test(exercise: Exercise, check: Check) -> str:
    head = f'""" # BEGIN TEST CONFIG\nname: {check.id}\npoints: {check.points:g}\n""" # END TEST CONFIG\n'
    return head + f'require({exercise.name}, "{check.id}")'


def given(exercise: Exercise) -> str:
    """What the exercise gives, without the library's own answers: in this notebook the learner has one of theirs."""
    lines = []
    for node in ast.parse(exercise.given).body:
        if isinstance(node, ast.ImportFrom) and node.module == "ctxlab":
            names = [one for one in node.names if one.name not in EXERCISES]
            if names:
                lines.append(ast.unparse(ast.ImportFrom(node.module, names, 0)))
        else:
            lines.append(ast.unparse(node))
    return "\n".join(lines)


def answer(exercise: Exercise, solution: str, begin: str, end: str) -> str:
    """The solution with its body between two marks: what is left without it is the signature and the docstring.

    Helpers and imports above the function move into its body, so that nothing of them is handed out. Raises
    `BadSolution` where what comes out is not the same function.
    """
    tree = ast.parse(solution)
    function = next(node for node in tree.body if getattr(node, "name", None) == exercise.name)
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    lines = solution.splitlines()
    body = function.body[1:]
    above = [line for line in lines[: function.lineno - 1] if line.strip()]
    head = lines[function.lineno - 1 : function.body[0].end_lineno]
    inside = lines[body[0].lineno - 1 : function.end_lineno]
    rows = [*head, f"    {begin}", textwrap.indent("\n".join(above), "    "), *inside, f"    {end}"]
    text = "\n".join(row for row in rows if row.strip())
    made = ast.parse(text).body
    same = len(made) == 1 and ast.dump(ast.Module(made[0].body[-len(body) :], [])) == ast.dump(ast.Module(body, []))  # type: ignore[attr-defined]
    if not same or (function.end_lineno or 0) < len([line for line in lines if line.strip()]):
        raise BadSolution(
            f"the solution of {exercise.name} does not end with its function",
            hint="write helpers above it, on lines of their own",
            path=exercise.file_stem,
        )
    return text


def _cell(kind: str, name: str, text: str) -> Cell:
    cell: Cell = {"cell_type": kind, "id": name[:64], "metadata": {}, "source": text.splitlines(keepends=True)}
    return {**cell, "execution_count": None, "outputs": []} if kind == "code" else cell


def _raw(name: str, text: str) -> Cell:
    return _cell("raw", name, text)


def _nbgrader(
    cell: Cell, *, grade: bool = False, solution: bool = False, locked: bool = False, points: float = 0
) -> Cell:
    about: dict[str, Any] = {
        "schema_version": 3, "grade": grade, "solution": solution, "locked": locked, "task": False,
        "grade_id": cell["id"],
    }  # fmt: skip
    return {**cell, "metadata": {"nbgrader": {**about, "points": points} if grade else about}}


def _locked(cell: Cell) -> Cell:
    return _nbgrader(cell, locked=True)


def _notebook(cells: list[Cell]) -> str:
    notebook = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
