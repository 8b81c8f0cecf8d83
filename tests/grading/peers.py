"""The real nbgrader and otter-grader, each in an environment of its own, on the assignment that ctxlab exports.

``CTXLAB_PEERS`` names a folder in which the environments are kept from one time to the next; they are made there with
pip where they are missing.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from variants import ROOT

from ctxlab.grading.handout import hand_out

PACKAGES = {"nbgrader": ["nbgrader"], "otter": ["otter-grader", "ipykernel"]}
SHALLOW = ("copy.deepcopy(messages[:cut])", "messages[:cut]")  # loses the point for a deep copy

Notebook = dict[str, Any]


class PeerFailed(RuntimeError):
    """One of the peers could not be installed, or its command failed; the text is what it said."""


def run(command: list[str], folder: Path, programs: Path) -> str:
    """One command of a peer, found in its environment's own programs."""
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerFailed(
            f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.stdout


def environment(name: str, folder: Path) -> Path:
    """The programs of a peer's environment, which is made where it is not there."""
    programs = folder / name / "bin"
    ready = folder / name / "ready"
    if not ready.exists():
        folder.mkdir(parents=True, exist_ok=True)
        run([sys.executable, "-m", "venv", str(folder / name)], folder, programs)
        run([str(programs / "pip"), "install", "--quiet", *PACKAGES[name], "--editable", str(ROOT)], folder, programs)
        ready.touch()
    return programs


def place() -> Path | None:
    """Where the environments are kept, if that was said."""
    named = os.environ.get("CTXLAB_PEERS")
    return Path(named) if named else None


def filled(released: Notebook, source: Notebook, change: tuple[str, str] = ("", "")) -> Notebook:
    """A learner's notebook: the released one with the source's answers written in, ``change`` replaced in them."""
    answers = {cell["id"]: cell["source"] for cell in source["cells"] if cell.get("id", "").endswith("-answer")}
    notebook = copy.deepcopy(released)
    for cell in notebook["cells"]:
        if cell.get("id") in answers:
            cell["source"] = "".join(answers[cell["id"]]).replace(*change)
    return notebook


def read(path: Path) -> Notebook:
    """A notebook's JSON."""
    data: Notebook = json.loads(path.read_text("utf-8"))
    return data


class Nbgrader:
    """A course with the exported assignment, generated for learners."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self.programs = folder, programs
        hand_out("nbgrader", folder)
        run(["nbgrader", "generate_assignment", "ctxlab", "--create"], folder, programs)
        self.source = read(folder / "source" / "ctxlab" / "ctxlab.ipynb")
        self.released = read(folder / "release" / "ctxlab" / "ctxlab.ipynb")

    def hand_in(self, notebooks: Mapping[str, Notebook]) -> None:
        """Put notebooks where nbgrader looks for those of learners."""
        for learner, notebook in notebooks.items():
            path = self.folder / "submitted" / learner / "ctxlab" / "ctxlab.ipynb"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(notebook), "utf-8")

    def grade(self) -> dict[str, float]:
        """The scores of all that were handed in, by learner."""
        run(["nbgrader", "autograde", "ctxlab"], self.folder, self.programs)
        run(["nbgrader", "export", "--to", "grades.csv"], self.folder, self.programs)
        head, *rows = [line.split(",") for line in (self.folder / "grades.csv").read_text().splitlines()]
        return {row[head.index("student_id")]: float(row[head.index("score")]) for row in rows}


class Otter:
    """The exported assignment, as ``otter assign`` made it; its own run of the solutions passed."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self.programs = folder, programs
        hand_out("otter", folder)
        run(["otter", "assign", "ctxlab.ipynb", "dist"], folder, programs)
        self.source = read(folder / "dist" / "autograder" / "ctxlab.ipynb")
        self.released = read(folder / "dist" / "student" / "ctxlab.ipynb")
        [self.zip] = (folder / "dist" / "autograder").glob("*.zip")

    def grade(self, learner: str, notebook: Notebook) -> float:
        """The score of one notebook."""
        out = self.folder / learner
        out.mkdir()
        (self.folder / f"{learner}.ipynb").write_text(json.dumps(notebook), "utf-8")
        run(["otter", "run", "-a", str(self.zip), "-o", str(out), f"{learner}.ipynb"], self.folder, self.programs)
        tests = json.loads((out / "results.json").read_text())["tests"]
        return float(sum(test.get("score") or 0 for test in tests))
