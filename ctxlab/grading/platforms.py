"""A run's verdicts as platforms read them: Gradescope, GitHub Actions, and the classroom reporter of GitHub.

What a learner's code said stands in these outputs as text alone: it is escaped for Markdown and HTML, and it cannot
begin a line, where GitHub would take ``::error`` for a command.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from ctxlab.grading.model import CheckResult, ExerciseResult, SubmissionResult
from ctxlab.grading.report import SIGNS, Report, headline, points

MAX_SUMMARY = 1_000_000  # bytes; GitHub refuses a job summary of more than 1 MiB
STATUS = {"passed": "pass", "failed": "fail", "not attempted": "fail", "error": "error"}


def counted(submissions: Sequence[SubmissionResult]) -> list[tuple[SubmissionResult, ExerciseResult]]:
    """Of each exercise the one result with the most points, of equals the first, with the file that it is from.

    A platform grades one learner: two files with the same function are two tries and are not paid twice.
    """
    best: dict[str, tuple[SubmissionResult, ExerciseResult]] = {}
    for one in submissions:
        for result in one.exercises:
            name = result.exercise.name
            if name not in best or result.score > best[name][1].score:
                best[name] = (one, result)
    return list(best.values())


def to_gradescope(report: Report) -> dict[str, Any]:
    """Gradescope's ``results.json`` for one learner: a test a check, and the score beside.

    The tests are visible at once, checks beyond the lesson with 0 points. A fault of the grader's is said at the top.
    Of several files with one function the best counts.
    """
    submissions = list(report.submissions)  # read once: results kept in a file are new objects each time
    best = counted(submissions)
    chosen = {result.exercise.name: one for one, result in best}
    tests: list[dict[str, Any]] = []
    said: list[str] = []
    for one in submissions:
        said += [one.error] if one.error else []
        said += [f"note: {note}" for note in one.notes]
        for result in one.exercises:
            if chosen[result.exercise.name] is not one:
                said.append(f"not counted, since another file has as many points or more: {headline(result)}")
                continue
            said.append(headline(result))
            tests += [_gradescope_test(result, place, verdict) for place, verdict in enumerate(result.checks, 1)]
    faults = [verdict for one in submissions for result in one.exercises for verdict in result.checks]
    if any(verdict.grader for verdict in faults):
        said.insert(0, "The grader itself failed, which is no fault of yours: tell the instructor to run it again.")
    return {
        "score": sum(result.score for _, result in best),
        "output": xml_safe("\n".join(said)),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {"isolation": report.isolation.text},
    }


def _gradescope_test(result: ExerciseResult, place: int, verdict: CheckResult) -> dict[str, Any]:
    check = verdict.check
    beyond = "" if check.required else " (beyond the lesson)"
    return {
        "name": f"{result.exercise.name}: {check.title}{beyond}",
        "number": f"{result.exercise.number}.{place}",
        "score": check.points if verdict.passed else 0.0,
        "max_score": check.points,
        "status": "passed" if verdict.passed else "failed",
        "output": xml_safe(verdict.message),
        "output_format": "text",
        "visibility": "visible",
    }


def tell_github(report: Report) -> str:
    """The annotations, for stdout. The summary goes to the file that ``$GITHUB_STEP_SUMMARY`` names, what the classroom
    reporter reads to that of ``$GITHUB_OUTPUT``; outside of a workflow neither is written."""
    for variable, text in (
        ("GITHUB_STEP_SUMMARY", job_summary(report)),
        ("GITHUB_OUTPUT", f"result={classroom_result(report)}\n"),
    ):
        if name := os.environ.get(variable):
            with open(name, "ab") as file:
                file.write(text.encode("utf-8"))
    return "".join(f"{line}\n" for line in workflow_errors(report))


def workflow_errors(report: Report) -> Iterator[str]:
    """Workflow commands: an error a required check that did not pass, on its function's line where there is one."""
    for one in report.submissions:
        if one.error:
            yield _annotation("error", one.path, 0, "cannot be graded", one.error)
            continue
        for result in one.exercises:
            where = result.where or one.path
            line = line_of(Path(where), result.exercise.name)
            if not result.attempted or result.error:
                said = result.error or result.checks[0].message
                yield _annotation("error", where, line, result.exercise.name, said)
                continue
            for verdict in result.checks:
                if verdict.check.required and not verdict.passed:
                    title = f"{result.exercise.name}: {verdict.check.title}"
                    yield _annotation("error", where, line, title, verdict.message)


def _annotation(kind: str, file: str, line: int, title: str, text: str) -> str:
    place = f",line={line}" if line else ""
    return f"::{kind} file={_property(file)}{place},title={_property(title)}::{_data(text)}"


def _data(text: str) -> str:
    """Escaped as @actions/core does."""
    return xml_safe(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def line_of(path: Path, function: str) -> int:
    """The line of a function's definition in a .py file, from 1; 0 for a notebook, or where there is none."""
    if path.suffix != ".py":
        return 0
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError:
        return 0
    found = list(re.finditer(rf"^[ \t]*(?:async[ \t]+)?def[ \t]+{function}\b", text, re.M))
    return text.count("\n", 0, found[-1].start()) + 1 if found else 0


def job_summary(report: Report) -> str:
    """The run as GitHub-flavoured Markdown, cut where GitHub would refuse it."""
    parts = ["## ctxlab grade\n"]
    for one in report.submissions:
        parts.append(f"### {_markdown(one.path)}: {points(one.score)} of {points(one.max_score)} points\n")
        parts += [f"{_markdown(one.error)}\n"] if one.error else []
        for result in one.exercises:
            parts.append(_table(result))
    parts.append(f"Isolation: {_markdown(report.isolation.text)}\n")
    text = "\n".join(parts)
    if len(text.encode()) <= MAX_SUMMARY:
        return text
    cut = text.encode()[:MAX_SUMMARY].decode(errors="ignore")
    return cut.rpartition("\n")[0] + "\n\nCut here: GitHub takes 1 MiB.\n"


def _table(result: ExerciseResult) -> str:
    rows = [f"{headline(result)}\n", "| | check | points | |", "| --- | --- | --- | --- |"]
    for verdict in result.checks:
        worth = points(verdict.check.points) if verdict.check.required else "beyond"
        said = _markdown(verdict.message)
        rows.append(
            f"| {SIGNS[verdict.outcome]} {verdict.outcome} | {_markdown(verdict.check.title)} | {worth} | {said} |"
        )
    return "\n".join(rows) + "\n"


def _markdown(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line."""
    line = " ".join(xml_safe(text).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~$@!])", lambda found: f"&#{ord(found[1])};", line)


def classroom_result(report: Report) -> str:
    """What a grader hands to GitHub's classroom reporter in ``result=``: base64 of JSON.

    The reporter sends the sum of the tests' scores but prints passed / all * max_score. So that the two agree, a check
    stands there once for each share of the points that all checks have in common (0.125). Of several files with one
    function the best counts.
    """
    submissions = list(report.submissions)
    best = counted(submissions)
    required = [(one, result, verdict) for one, result in best for verdict in result.checks]
    worth = [Fraction(verdict.check.points) for _, _, verdict in required if verdict.check.points]
    share = Fraction(math.gcd(*(one.numerator for one in worth)), math.lcm(*(one.denominator for one in worth)))
    tests = [
        _classroom_test(one, result, verdict, number, int(Fraction(verdict.check.points) / share), float(share))
        for one, result, verdict in required
        for number in range(int(Fraction(verdict.check.points) / share))
    ]
    unreadable = any(one.error for one in submissions)
    status = "error" if unreadable else "pass" if all(one.passed for one in submissions) else "fail"
    data = {
        "version": 3,
        "status": status,
        "max_score": sum(result.exercise.max_score for _, result in best),
        "tests": tests,
    }
    return base64.b64encode(json.dumps(data).encode()).decode()


def _classroom_test(
    one: SubmissionResult, result: ExerciseResult, verdict: CheckResult, number: int, of: int, share: float
) -> dict[str, Any]:
    part = f" [{number + 1} of {of}]" if of > 1 else ""
    said = verdict.message if not number else ""
    where = result.where or one.path
    return {
        "name": f"{result.exercise.name}: {verdict.check.title}{part}",
        "status": STATUS[verdict.outcome],
        "score": share if verdict.passed else 0,
        "message": " ".join(xml_safe(said).split()),
        "test_code": "",
        "filename": where,
        "line_no": line_of(Path(where), result.exercise.name),
        "duration": 0,
    }


def xml_safe(text: str) -> str:
    """Text without control characters (line breaks apart) and without half characters."""
    return re.sub("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
