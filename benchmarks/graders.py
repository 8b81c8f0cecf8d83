"""The same four-function assignment, graded by nbgrader, otter-grader and ctxlab in one run.

    python benchmarks/graders.py [20] [--peers FOLDER] [--jobs 2]

The assignment is what ``ctxlab release --to nbgrader`` and ``--to otter`` export; the notebooks that are handed in are
the same answers for all three, half of them right, half with a shallow copy (9 of 10 points). ctxlab grades with the
isolation that works here, which its last line names. nbgrader grades all in one command; otter runs once for each.

The peers live in environments of their own, made with pip in ``--peers`` (default: ``CTXLAB_PEERS``, else a temporary
folder). One that cannot be made is left out, and the run says so. Goal: 10 times fewer seconds a submission than
nbgrader, 30 times fewer than ``otter run``.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ctxlab.grading.assignment import nbgrader_notebook
from ctxlab.sandbox import isolation

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "grading"))
import peers

ROOT = Path(__file__).resolve().parent.parent
GOALS = {"nbgrader": 10, "otter": 30}


def names(size: int) -> list[tuple[str, tuple[str, str]]]:
    """The learners, each with what is wrong in their answers."""
    return [(f"learner{number:03d}", peers.SHALLOW if number % 2 else ("", "")) for number in range(size)]


def expected(size: int) -> dict[str, float]:
    """The score that each learner has earned."""
    return {name: 9.0 if wrong[0] else 10.0 for name, wrong in names(size)}


def by_ctxlab(size: int, folder: Path, jobs: int) -> tuple[float, dict[str, float]]:
    """Seconds for the whole command, and the scores."""
    source = json.loads(nbgrader_notebook(ROOT / "solutions"))
    for name, wrong in names(size):
        home = folder / "submitted" / name
        home.mkdir(parents=True)
        (home / "ctxlab.ipynb").write_text(json.dumps(peers.filled(source, source, wrong)))
    grades = folder / "grades.csv"
    command = [sys.executable, "-m", "ctxlab", "grade", str(folder / "submitted"), "--csv", str(grades)]
    start = time.perf_counter()
    subprocess.run([*command, "--jobs", str(jobs)], stdout=subprocess.DEVNULL, check=False)
    seconds = time.perf_counter() - start
    return seconds, {row["learner"]: float(row["score"]) for row in csv.DictReader(grades.open(encoding="utf-8"))}


def by_nbgrader(size: int, folder: Path, programs: Path) -> tuple[float, dict[str, float]]:
    """Seconds for ``nbgrader autograde`` and the export of the grades, and the scores."""
    course = peers.Nbgrader(folder, programs)
    course.hand_in({name: peers.filled(course.released, course.source, wrong) for name, wrong in names(size)})
    start = time.perf_counter()
    scores = course.grade()
    return time.perf_counter() - start, scores


def by_otter(size: int, folder: Path, programs: Path) -> tuple[float, dict[str, float]]:
    """Seconds for ``otter run`` on each, and the scores."""
    assignment = peers.Otter(folder, programs)
    notebooks = {name: peers.filled(assignment.released, assignment.source, wrong) for name, wrong in names(size)}
    start = time.perf_counter()
    scores = {name: assignment.grade(name, notebook) for name, notebook in notebooks.items()}
    return time.perf_counter() - start, scores


PEERS: dict[str, Callable[[int, Path, Path], tuple[float, dict[str, float]]]] = {
    "nbgrader": by_nbgrader, "otter": by_otter,
}  # fmt: skip


def main() -> None:
    """Grade with each, print seconds a submission and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", type=int, nargs="?", default=6)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--peers", type=Path, default=peers.place(), help="folder of the peers' environments")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ctxlab-graders-") as made:
        folder = Path(made)
        seconds, scores = by_ctxlab(args.size, folder / "ctxlab", args.jobs)
        assert scores == expected(args.size), scores
        own = seconds / args.size
        print(f"ctxlab, {args.jobs} jobs: {own:.3f} s a submission ({isolation().name})")
        for name, grade in PEERS.items():
            try:
                programs = peers.environment(name, args.peers or folder / "environments")
                seconds, scores = grade(args.size, folder / name, programs)
            except (peers.PeerFailed, OSError) as error:
                print(f"{name}: not measured: {str(error).splitlines()[0]}")
                continue
            said = "" if scores == expected(args.size) else f"; other scores: {scores}"
            each = seconds / args.size
            print(f"{name}: {each:.3f} s a submission, {each / own:.1f} times ctxlab (goal {GOALS[name]}){said}")
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
