"""``ctxlab release``: the exercises' notebooks, generated from the solutions.

A solution is plain Python in ``# %%`` cells: what is given, the ``solution`` cell, and a ``try`` cell. The notebook has
the same with the blank in the solution's place. Cell ids are fixed and nothing in it has a date, so that a rebuild
changes nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxlab.errors import CtxlabError
from ctxlab.grading.exercises import EXERCISES
from ctxlab.grading.model import Exercise
from ctxlab.kit import folder


class BadSolution(CtxlabError, ValueError):
    """A solution's file that cannot be released. ``path``."""


@dataclass(frozen=True, slots=True)
class Released:
    """What a release did. ``changed`` were written (or would be, where nothing was to be written), ``stray`` are
    notebooks in the target that belong to no exercise."""

    changed: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    stray: tuple[Path, ...]

    @property
    def up_to_date(self) -> bool:
        """Whether the target is exactly what the solutions give."""
        return not self.changed and not self.stray

    def to_json(self) -> dict[str, Any]:
        """For ``ctxlab release --format json``."""
        return {
            "up_to_date": self.up_to_date,
            "changed": [str(path) for path in self.changed],
            "unchanged": [str(path) for path in self.unchanged],
            "stray": [str(path) for path in self.stray],
        }

    def __str__(self) -> str:
        stray = "".join(f"\nno exercise is called {path.stem}: {path}" for path in self.stray)
        return f"{len(self.changed)} notebooks changed, {len(self.unchanged)} as they were{stray}"


def release(target: str | Path | None = None, source: str | Path | None = None, *, write: bool = True) -> Released:
    """Generate the exercises' notebooks in ``target`` from the solutions in ``source`` (both: the kit's own folders).

    With ``write=False`` nothing is written, only compared: the result says whether they are up to date. Raises
    `BadSolution`, `KitMissing` and `OSError`.
    """
    solutions = folder("solutions") if source is None else Path(source)
    exercises = solutions.parent / "exercises" if target is None else Path(target)
    changed: list[Path] = []
    unchanged: list[Path] = []
    for exercise in EXERCISES.values():
        path = exercises / f"{exercise.file_stem}.ipynb"
        data = notebook_text(exercise, solutions).encode()
        if path.exists() and path.read_bytes() == data:
            unchanged.append(path)
            continue
        changed.append(path)
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    known = {*changed, *unchanged}
    stray = tuple(path for path in sorted(exercises.glob("*.ipynb")) if path not in known)
    return Released(tuple(changed), tuple(unchanged), stray)


def solution_cells(exercise: Exercise, solutions: Path) -> dict[str, str]:
    """The cells of a solution's file by their names (``""`` for the first: what is given). Raises `BadSolution`."""
    path = solutions / f"{exercise.file_stem}.py"
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise BadSolution(f"{path}: no such file", hint="each exercise has one solution", path=path) from None
    parts = re.split(r"^# %%[ ]*(.*)$", text, flags=re.M)
    cells = {name.strip(): body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    if parts[0].strip() or set(cells) != {"", "solution", "try"} or len(parts) != 7:
        raise BadSolution(
            f"{path}: the cells are {', '.join(repr(name) for name in parts[1::2])}",
            hint='write three: "# %%" with what is given, "# %% solution", "# %% try"',
            path=path,
        )
    if cells[""] != exercise.given.strip("\n"):
        raise BadSolution(
            f"{path}: its first cell is not what the exercise gives",
            hint="copy it from the exercise's module",
            path=path,
        )
    return cells


def solution_of(exercise: Exercise, solutions: Path) -> str:
    """The solution's code."""
    return solution_cells(exercise, solutions)["solution"]


def notebook_text(exercise: Exercise, solutions: Path) -> str:
    """The exercise's notebook as the text of its file."""
    cells = solution_cells(exercise, solutions)
    name = exercise.name
    stuck = (
        f'Stuck? Run `hint("{name}")` in a cell of its own: one more hint each time. After an attempt, '
        f'`solution("{name}")` shows one way to do it. The same checks in the terminal: '
        f"`ctxlab grade exercises/{exercise.file_stem}.ipynb`."
    )
    content = [
        ("markdown", "task", f"# Exercise {exercise.number}: {exercise.title}\n\n{exercise.task}"),
        ("code", "given", f"{exercise.given}\nfrom ctxlab import check, hint, solution"),
        ("code", "blank", exercise.blank.strip("\n")),
        ("markdown", "try-it", "Try it on something small, as often as you like:"),
        ("code", "try", cells["try"]),
        (
            "markdown",
            "check-it",
            "Then have it checked. Nothing that your function does in there can hurt this notebook.",
        ),
        ("code", "check", f"check({name})"),
        ("markdown", "stuck", stuck),
    ]
    notebook = {
        "cells": [_cell(kind, f"{exercise.number:02d}-{place}", text) for kind, place, text in content],
        "metadata": {
            "ctxlab": {"exercise": name},
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _cell(kind: str, name: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": kind, "id": name, "metadata": {}, "source": text.splitlines(keepends=True),
    }  # fmt: skip
    return {**cell, "execution_count": None, "outputs": []} if kind == "code" else cell
