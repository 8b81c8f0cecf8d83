"""The exercises' notebooks are what a rebuild gives."""

from __future__ import annotations

import json

import nbformat
import pytest
from variants import ROOT

from ctxlab.grading import EXERCISES, release
from ctxlab.grading.rebuild import BadSolution


def test_the_committed_notebooks_are_what_a_rebuild_gives():
    released = release(ROOT / "exercises", ROOT / "solutions", write=False)
    assert released.up_to_date, str(released)
    assert len(released.unchanged) == 4


def test_a_rebuild_changes_nothing(tmp_path):
    first = release(tmp_path / "exercises", ROOT / "solutions")
    assert len(first.changed) == 4
    before = {path.name: path.read_bytes() for path in (tmp_path / "exercises").iterdir()}
    again = release(tmp_path / "exercises", ROOT / "solutions")
    assert again.up_to_date
    assert {path.name: path.read_bytes() for path in (tmp_path / "exercises").iterdir()} == before


def test_an_edited_notebook_and_a_stray_one_are_noticed(tmp_path):
    release(tmp_path, ROOT / "solutions")
    (tmp_path / "02_compress_if_needed.ipynb").write_text("{}")
    (tmp_path / "05_more.ipynb").write_text("{}")
    released = release(tmp_path, ROOT / "solutions", write=False)
    assert [path.name for path in released.changed] == ["02_compress_if_needed.ipynb"]
    assert [path.name for path in released.stray] == ["05_more.ipynb"]
    assert released.to_json()["up_to_date"] is False
    assert (tmp_path / "02_compress_if_needed.ipynb").read_text() == "{}"


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda one: one.name)
def test_a_notebook_is_valid_has_fixed_ids_and_the_blank_in_it(exercise):
    path = ROOT / "exercises" / f"{exercise.file_stem}.ipynb"
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert notebook.metadata["ctxlab"] == {"exercise": exercise.name}
    assert [cell.id.split("-", 1)[1] for cell in notebook.cells] == [
        "task", "given", "blank", "try-it", "try", "check-it", "check", "stuck",
    ]  # fmt: skip
    assert exercise.blank.strip() in [cell.source for cell in notebook.cells]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
    assert "# %% solution" not in path.read_text("utf-8")
    data = json.loads(path.read_text("utf-8"))
    assert json.dumps(data, ensure_ascii=False, indent=1, sort_keys=True) + "\n" == path.read_text("utf-8")


def test_a_solution_with_other_cells_is_refused(tmp_path):
    for path in (ROOT / "solutions").glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text("utf-8").replace("# %% try", "# %% more"))
    with pytest.raises(BadSolution, match="01_estimate_tokens"):
        release(tmp_path / "out", tmp_path)
    (tmp_path / "01_estimate_tokens.py").write_text("# %%\nx = 1\n# %% solution\n# %% try\n")
    with pytest.raises(BadSolution, match="first cell"):
        release(tmp_path / "out", tmp_path)
