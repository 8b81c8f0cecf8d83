"""A class in one command: N learners' folders, made from right and wrong variants, graded as ``ctxlab grade`` does it.

    python benchmarks/class.py [200] [--jobs 2] [--seed 0] [--keep FOLDER] [--curve]

Each learner hands in the four exercises as one folder, each exercise from the solution, another right way or a known
mistake, drawn by the seed. Grading is one command, with results on disk, grades, feedback and the class report.
Printed: seconds a submission, the peak memory of the grading process and of its largest child, and the mean score.
``--curve`` grades a tenth of the class first, with all jobs and with one: memory should not grow with the class, and
two jobs should beat one.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def variants() -> dict[str, list[Path]]:
    """The files that answer each exercise, right and wrong."""
    found: dict[str, list[Path]] = defaultdict(list)
    for kind in ("right", "wrong"):
        for path in sorted((ROOT / "tests" / kind).glob("*.py")):
            found[path.stem.split("__")[0]].append(path)
    for path in sorted((ROOT / "solutions").glob("*.py")):
        found[path.stem.split("_", 1)[1]].append(path)
    return found


def make_class(folder: Path, size: int, seed: int) -> None:
    """Write ``size`` learners' folders. Half of each learner's answers are right, as a class in its last week."""
    draw, known = random.Random(seed), variants()
    for number in range(size):
        home = folder / f"learner{number:05d}"
        home.mkdir(parents=True)
        for exercise, paths in known.items():
            right = [path for path in paths if path.parent.name != "wrong"]
            chosen = draw.choice(right if draw.random() < 0.5 else paths)
            (home / f"{exercise}.py").write_bytes(chosen.read_bytes())


def grade(submissions: Path, out: Path, jobs: int, seed: int) -> tuple[float, int, int]:
    """Seconds, peak memory of the grading process and of its largest child (kilobytes)."""
    command = [
        sys.executable, "-m", "ctxlab", "grade", str(submissions), "--jobs", str(jobs), "--seed", str(seed),
        "--results", f"{out}/results.jsonl", "--csv", f"{out}/grades.csv", "--feedback", f"{out}/feedback",
        "--report", f"{out}/class.html",
    ]  # fmt: skip
    out.mkdir(parents=True)
    script = (
        "import resource, subprocess, sys; from ctxlab.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end:\n"
        "    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)\n"
        "    print(*(resource.getrusage(kind).ru_maxrss for kind in kinds), end.code)\n"
    )
    start = time.perf_counter()
    done = subprocess.run([command[0], "-c", script, *command[3:]], stdout=subprocess.PIPE, text=True, check=True)
    seconds = time.perf_counter() - start
    own, child, status = map(int, done.stdout.splitlines()[-1].split())
    if status == 2:
        raise SystemExit("nothing could be graded")
    return seconds, own, child


def shown(label: str, size: int, seconds: float, own: int, child: int) -> None:
    """One line of figures."""
    print(
        f"{label}: {size} submissions in {seconds:.1f} s, {seconds / size:.3f} s each; "
        f"peak memory {own / 1024:.0f} MB, largest child {child / 1024:.0f} MB"
    )


def main() -> None:
    """Make the class, grade it, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", type=int, nargs="?", default=40)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="make the class and its output here, and leave them")
    parser.add_argument("--curve", action="store_true", help="also a tenth of the class, and one job")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ctxlab-class-") as made:
        folder = args.keep or Path(made)
        make_class(folder / "submissions", args.size, args.seed)
        if args.curve:
            tenth = max(1, args.size // 10)
            make_class(folder / "tenth", tenth, args.seed)
            found = grade(folder / "tenth", folder / "out-tenth", args.jobs, args.seed)
            shown(f"a tenth, {args.jobs} jobs", tenth, *found)
            shown("a tenth, 1 job", tenth, *grade(folder / "tenth", folder / "out-one", 1, args.seed))
        found = grade(folder / "submissions", folder / "out", args.jobs, args.seed)
        shown(f"the class, {args.jobs} jobs", args.size, *found)
        scores = [float(row["score"]) for row in csv.DictReader((folder / "out" / "grades.csv").open(encoding="utf-8"))]
        pages = len(os.listdir(folder / "out" / "feedback"))
        assert len(scores) == pages == args.size
        mean, load = statistics.fmean(scores), os.getloadavg()[0]
        print(f"mean score {mean:.2f} of 10; {pages} pages of feedback; load {load:.1f}")


if __name__ == "__main__":
    main()
