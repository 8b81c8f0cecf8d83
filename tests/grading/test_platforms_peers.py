"""The real nbgrader and otter-grader accept the exports, run them, and give the scores that ctxlab gives."""

from __future__ import annotations

import json
from pathlib import Path

import peers
import pytest

from ctxlab.grading import grade

pytestmark = pytest.mark.slow
EXPECTED = {"right": 10.0, "shallow": 9.0, "untouched": 0.0}


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """Where the peers' environments are."""
    return peers.place() or tmp_path_factory.mktemp("peers")


def room(released: dict, source: dict) -> dict[str, dict]:
    """One who solved all, one whose fork shares its messages, and one who did nothing."""
    return {
        "right": peers.filled(released, source),
        "shallow": peers.filled(released, source, peers.SHALLOW),
        "untouched": released,
    }


def scores_of_ctxlab(notebooks: dict[str, dict], folder: Path) -> dict[str, float]:
    for name, notebook in notebooks.items():
        (folder / "same" / name).mkdir(parents=True)
        (folder / "same" / name / "ctxlab.ipynb").write_text(json.dumps(notebook))
    return {Path(one.path).name: one.score for one in grade(folder / "same").submissions}


def test_nbgrader_releases_runs_and_scores_the_export(kept, tmp_path):
    course = peers.Nbgrader(tmp_path / "course", peers.environment("nbgrader", kept))
    text = json.dumps(course.released)
    assert "deepcopy" not in text
    assert text.count("raise NotImplementedError()") == 4
    notebooks = room(course.released, course.source)
    course.hand_in(notebooks)
    assert course.grade() == EXPECTED
    assert scores_of_ctxlab(notebooks, tmp_path) == EXPECTED


def test_otter_assigns_runs_and_scores_the_export(kept, tmp_path):
    assignment = peers.Otter(tmp_path / "otter", peers.environment("otter", kept))
    assert "deepcopy" not in json.dumps(assignment.released)
    notebooks = room(assignment.released, assignment.source)
    assert {name: assignment.grade(name, notebook) for name, notebook in notebooks.items()} == EXPECTED
    assert scores_of_ctxlab(notebooks, tmp_path) == EXPECTED
