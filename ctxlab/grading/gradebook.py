"""What a class's run leaves behind for people: ``grades.csv``, one page of feedback a learner, and the class report."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ctxlab.errors import CtxlabError
from ctxlab.grading.exercises import EXERCISES
from ctxlab.grading.learners import Learner
from ctxlab.grading.model import SubmissionResult
from ctxlab.grading.page import feedback
from ctxlab.grading.report import Report, points
from ctxlab.grading.submissions import Submission

COLUMNS = ("learner", "score", "max_score", "passed", *EXERCISES, "submission", "counts", "error")


class CannotWrite(CtxlabError, OSError):
    """A file of the gradebook that cannot be written. ``path``."""


def write_grades(report: Report, found: Sequence[Learner], path: Path) -> None:
    """Write ``grades.csv``: a row a submission, by learner, the one that counts before the others.

    Columns: `COLUMNS`. An exercise that a submission was not graded on is empty. Raises `CannotWrite`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(COLUMNS)
            for learner in found:
                for place in (learner.counts, *learner.others):
                    rows.writerow(_row(learner.name, report.submissions[place], place == learner.counts))
    except OSError as error:
        raise _cannot(path, error) from None


def _row(name: str, one: SubmissionResult, counts: bool) -> list[str]:
    scores = {result.exercise.name: points(result.score) for result in one.exercises}
    return [
        plain(name), points(one.score), points(one.max_score), _yes(one.passed),
        *(scores.get(exercise, "") for exercise in EXERCISES), plain(one.path), _yes(counts), plain(one.error or ""),
    ]  # fmt: skip


def plain(text: str) -> str:
    """Text that no spreadsheet takes for a formula, on one line.

    >>> plain("=HYPERLINK(1)"), plain("ada")
    ("'=HYPERLINK(1)", 'ada')
    """
    line = " ".join(text.split())
    return f"'{line}" if line[:1] in ("=", "+", "-", "@") else line


def _yes(true: bool) -> str:
    return "yes" if true else "no"


def write_feedback(report: Report, found: Sequence[Learner], folder: Path) -> list[Path]:
    """Write one page of HTML a learner into ``folder``; their paths, by learner. Raises `CannotWrite`."""
    written: list[Path] = []
    taken: set[str] = set()
    for learner in found:
        name = slug(learner.name)
        while name.lower() in taken:
            name += "-"
        taken.add(name.lower())
        path = folder / f"{name}.html"
        others = [report.submissions[place].path for place in learner.others]
        text = feedback(learner.name, report.submissions[learner.counts], others)
        write_page(path, text)
        written.append(path)
    return written


def write_page(path: Path, text: str) -> None:
    """Write a page as UTF-8; a lone surrogate becomes its escape. Raises `CannotWrite`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise _cannot(path, error) from None


def slug(name: str) -> str:
    """A learner's name as the name of a file on any system, of 100 characters at most.

    >>> slug("Ada Lovelace/../x"), slug("..")
    ('Ada Lovelace_.._x', '_')
    """
    kept = re.sub(r"[^\w. -]", "_", name)[:100].strip(" .")
    return kept or "_"


def _cannot(path: Path, error: OSError) -> CannotWrite:
    return CannotWrite(f"cannot write {path}: {error.strerror}", hint="name another place", path=path)


def write_class_report(report: Report, found: Sequence[Learner], submissions: Iterable[Submission], path: Path) -> None:
    """Write the class report. The answers that are compared are those of the submissions that count."""
    from ctxlab.grading.class_page import class_page
    from ctxlab.grading.classroom import summarise
    from ctxlab.grading.rebuild import solution_cells
    from ctxlab.grading.similarity import alike
    from ctxlab.kit import folder

    files = {str(one.path): one.files for one in submissions}
    handed_in = ((one.name, files.get(report.submissions[one.counts].path, ())) for one in found)
    cells = {name: solution_cells(exercise, folder("solutions")) for name, exercise in EXERCISES.items()}
    solutions = {name: one[""] + "\n" + one["solution"] for name, one in cells.items()}
    same = alike(handed_in, solutions, {name: [one["try"]] for name, one in cells.items()})
    write_page(path, class_page(summarise(report, found, same)))
