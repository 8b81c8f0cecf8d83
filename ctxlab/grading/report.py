"""A grading run's verdicts in every form: JSON, JUnit XML, text, a page of rich text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from ctxlab.grading.model import CheckResult, ExerciseResult, SubmissionResult
from ctxlab.sandbox import Isolation

if TYPE_CHECKING:
    from rich.console import Group

SIGNS = {"passed": "✓", "failed": "✗", "not attempted": "○", "error": "!"}
COLOURS = {"passed": "green", "failed": "red", "not attempted": "yellow", "error": "magenta"}


@dataclass(frozen=True, slots=True)
class Report:
    """All results of one run, in the order in which the submissions were found."""

    submissions: Sequence[SubmissionResult]
    isolation: Isolation
    seed: int

    @property
    def exit_code(self) -> int:
        """0: every required check passed; 1: not so; 2: nothing that was given could be read."""
        if all(one.error is not None for one in self.submissions):
            return 2
        return 0 if all(one.passed for one in self.submissions) else 1

    def to_json(self) -> dict[str, Any]:
        """What ``ctxlab grade --format json`` prints."""
        return {
            "isolation": self.isolation.text,
            "seed": self.seed,
            "submissions": [one.to_json() for one in self.submissions],
        }

    def to_junit(self) -> str:
        """JUnit XML: a test suite a submission, a test case a check, with a unique pair of class name and name.

        A check beyond the lesson that did not pass is *skipped*, since it decides nothing.
        """
        root = ElementTree.Element("testsuites", name="ctxlab grade")
        for one in self.submissions:
            root.append(_suite(one))
        ElementTree.indent(root)
        return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"

    def overview(self) -> Iterator[str]:
        """One line a submission, and one on all of them: for a class, whose details stand in files."""
        full = number = 0
        for one in self.submissions:
            number, full = number + 1, full + one.passed
            why = f" ({one.error})" if one.error else ""
            yield f"{one.path}: {points(one.score)} of {points(one.max_score)} points{why}"
        all_of_them = f"{number} submission{'' if number == 1 else 's'}"
        yield f"{all_of_them}, {full} passed every required check; isolation: {self.isolation.name}"

    def to_text(self, *, passed: bool = False) -> str:
        """The verdicts as plain lines; the checks that passed only on demand."""
        lines = []
        for one in self.submissions:
            lines.append(f"{one.path}: {points(one.score)} of {points(one.max_score)} points")
            if one.error:
                lines.append(f"  {one.error}")
            for result in one.exercises:
                lines += [f"  {line}" for line in exercise_lines(result, passed=passed)]
            lines += [f"  note: {note}" for note in one.notes]
        return "\n".join([*lines, f"isolation: {self.isolation.text}"])

    def __rich__(self) -> Group:
        """The same in colour, for a terminal."""
        from rich.console import Group
        from rich.text import Text

        parts: list[Any] = []
        for one in self.submissions:
            parts.append(Text(f"{one.path}  {points(one.score)} / {points(one.max_score)}", style="bold"))
            if one.error:
                parts.append(Text(f"  {one.error}", style="magenta"))
            for result in one.exercises:
                parts.append(_table(result))
            parts += [Text(f"  note: {note}", style="dim") for note in one.notes]
        if len(self.submissions) > 1:
            parts += [Text("\nAll of them", style="bold"), *(Text(f"  {line}") for line in self.overview())]
            if len({one.max_score for one in self.submissions}) > 1:
                parts.append(
                    Text("  they are not all graded on the same exercises: --exercise NAME grades one for all")
                )
        return Group(*parts, Text(f"isolation: {self.isolation.text}", style="dim"))


def points(number: float) -> str:
    """A score without needless zeros.

    >>> points(3.0), points(2.125)
    ('3', '2.125')
    """
    return f"{number:g}"


def headline(result: ExerciseResult) -> str:
    """One line on one exercise."""
    required = [one for one in result.checks if one.check.required]
    beyond = [one for one in result.checks if not one.check.required]
    state = "passed" if result.passed else "not passed" if result.attempted else "not attempted"
    return (
        f"{result.exercise.name}: {state}, {points(result.score)} of {points(result.exercise.max_score)} points, "
        f"{sum(one.passed for one in required)} of {len(required)} required checks, "
        f"{sum(one.passed for one in beyond)} of {len(beyond)} beyond"
    )


def exercise_lines(result: ExerciseResult, *, passed: bool = True) -> list[str]:
    """One exercise as lines of text."""
    lines = [headline(result)]
    if not result.attempted or result.error:
        return [*lines, f"  {result.error or result.checks[0].message}"]
    for one in result.checks:
        if one.passed and not passed:
            continue
        lines.append(f"  {SIGNS[one.outcome]} {one.check.title}{_kind(one)}")
        if one.message:
            lines.append(f"      {one.message}")
    return lines


def _kind(one: CheckResult) -> str:
    kind = "" if one.check.required else " (beyond the lesson)"
    return kind if one.outcome in ("passed", "failed") else f"{kind} [{one.outcome}]"


def _table(result: ExerciseResult) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    head = Text(headline(result))
    if not result.attempted or result.error:
        return Group(head, Text(f"  {result.error or result.checks[0].message}"))
    table = Table(box=None, show_header=False, padding=(0, 1))
    for one in result.checks:
        said = Text(f"{one.check.title}{_kind(one)}")
        if one.message:
            said.append(f"\n{one.message}", style="dim")
        worth = Text(points(one.check.points) if one.check.required else "")
        table.add_row(Text(f" {SIGNS[one.outcome]}", style=COLOURS[one.outcome]), said, worth)
    return Group(head, table)


def _suite(one: SubmissionResult) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=xml_text(one.path))
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    if one.error is not None:
        case = ElementTree.SubElement(suite, "testcase", classname=xml_text(one.path), name="submission", time="0")
        ElementTree.SubElement(case, "error", message=xml_text(one.error), type="unreadable")
        counts["tests"], counts["errors"] = 1, 1
    for result in one.exercises if one.error is None else ():
        for verdict in result.checks:
            counts["tests"] += 1
            case = ElementTree.SubElement(
                suite, "testcase", classname=xml_text(f"{one.path}.{result.exercise.name}"), name=verdict.check.id,
                file=xml_text(result.where or one.path), time="0",
            )  # fmt: skip
            properties = ElementTree.SubElement(case, "properties")
            ElementTree.SubElement(properties, "property", name="points", value=points(verdict.check.points))
            if verdict.passed:
                continue
            tag = "skipped" if not verdict.check.required else "error" if verdict.outcome == "error" else "failure"
            counts[{"skipped": "skipped", "error": "errors", "failure": "failures"}[tag]] += 1
            said = xml_text(f"{verdict.check.title}: {verdict.message}")
            ElementTree.SubElement(case, tag, message=said, type=verdict.outcome).text = said
    for name, count in counts.items():
        suite.set(name, str(count))
    suite.set("time", "0")
    return suite


def xml_text(text: str) -> str:
    """Text that XML 1.0 can hold: control characters and half characters become U+FFFD."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
