"""A report as HTML for a notebook: inline styles only, readable in light and dark, and as text without styles."""

from __future__ import annotations

from html import escape

from ctxlab.grading.model import CheckResult, ExerciseResult
from ctxlab.grading.report import SIGNS, headline, points

# One colour an outcome, told apart by sign and word too. Mid tones, so that they read on white and on black.
COLOURS = {"passed": "#1a8f5a", "failed": "#d1495b", "not attempted": "#b7791f", "error": "#9b59b6"}


def exercise_html(result: ExerciseResult, *, running: bool = False) -> str:
    """One exercise's verdicts. ``running``: the checks that are still to come are shown as waiting."""
    rows = [_row(one) for one in result.checks]
    rows += [_waiting(check.title) for check in result.exercise.checks[len(result.checks) :] if running]
    told = f"{result.exercise.name}: checking {len(result.checks)} of {len(result.exercise.checks)}"
    head = escape(told if running else headline(result))
    return (
        '<div style="font-family:var(--jp-ui-font-family,sans-serif);line-height:1.5">'
        f'<p role="status" style="font-weight:600;margin:0 0 .4em">{head}</p>'
        f'<ul style="list-style:none;padding:0;margin:0">{"".join(rows)}</ul></div>'
    )


def _row(one: CheckResult) -> str:
    colour = COLOURS[one.outcome]
    worth = f" · {points(one.check.points)}" if one.check.points else ""
    kind = "" if one.check.required else ' <span style="opacity:.7">(beyond the lesson)</span>'
    said = f'<div style="margin:.1em 0 .4em 1.6em;opacity:.9">{escape(one.message)}</div>' if one.message else ""
    return (
        f'<li><span style="color:{colour};font-weight:600">{SIGNS[one.outcome]} {one.outcome}</span> '
        f"{escape(one.check.title)}{kind}{worth}{said}</li>"
    )


def _waiting(title: str) -> str:
    return f'<li style="opacity:.5">· {escape(title)}</li>'
