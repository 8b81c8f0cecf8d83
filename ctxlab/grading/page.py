"""A report as HTML: for a notebook (inline styles only), and as a page of its own. Light, dark, and as text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from ctxlab.grading.model import CheckResult, ExerciseResult, SubmissionResult
from ctxlab.grading.report import SIGNS, headline, points

# One colour an outcome, told apart by sign and word too. Mid tones, so that they read on white and on black.
COLOURS = {"passed": "#1a8f5a", "failed": "#d1495b", "not attempted": "#b7791f", "error": "#9b59b6"}


def exercise_html(result: ExerciseResult, *, running: bool = False) -> str:
    """One exercise's verdicts. ``running``: the checks that are still to come are shown as waiting."""
    told_already: set[str] = set()
    rows = [_row(one, told_already) for one in result.checks]
    rows += [_waiting(check.title) for check in result.exercise.checks[len(result.checks) :] if running]
    told = f"{result.exercise.name}: checking {len(result.checks)} of {len(result.exercise.checks)}"
    head = escape(told if running else headline(result))
    return (
        '<div style="font-family:var(--jp-ui-font-family,sans-serif);line-height:1.5">'
        f'<p role="status" style="font-weight:600;margin:0 0 .4em">{head}</p>'
        f'<ul style="list-style:none;padding:0;margin:0">{"".join(rows)}</ul></div>'
    )


def _row(one: CheckResult, told: set[str]) -> str:
    """One check; what was said of an earlier one (``told``) is not said again."""
    message = one.message if one.message not in told else ""
    told.add(one.message)
    colour = COLOURS[one.outcome]
    worth = f" · {points(one.check.points)}" if one.check.points else ""
    kind = "" if one.check.required else ' <span style="opacity:.7">(beyond the lesson)</span>'
    said = f'<div style="margin:.1em 0 .4em 1.6em;opacity:.9">{escape(message)}</div>' if message else ""
    return (
        f'<li><span style="color:{colour};font-weight:600">{SIGNS[one.outcome]} {one.outcome}</span> '
        f"{escape(one.check.title)}{kind}{worth}{said}</li>"
    )


def _waiting(title: str) -> str:
    return f'<li style="opacity:.5">· {escape(title)}</li>'


STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #3b7dd8; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem .3rem 0; }
td, th { border-bottom: 1px solid var(--line); vertical-align: top; } td.n, th.n { text-align: right; }
code { overflow-wrap: anywhere; } .quiet { opacity: .75; } figure { margin: 1rem 0; } svg { max-width: 100%; }
""".strip()


def document(title: str, body: str) -> str:
    """A page that stands alone: no script, no font, no picture from elsewhere; readable in light and dark."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def feedback(name: str, result: SubmissionResult, others: Sequence[str] = ()) -> str:
    """One learner's page: what passed, what did not and why it matters, and where to read on.

    It says what the checks' messages say, which hold no hidden input and no expected answer beyond them. ``others``
    are the learner's submissions that do not count.
    """
    parts = [
        f"<p><strong>{points(result.score)} of {points(result.max_score)} points</strong> "
        f'<span class="quiet">({escape(Path(result.path).name)})</span></p>'
    ]
    if others:
        named = ", ".join(escape(Path(other).name) for other in others)
        parts.append(f'<p class="quiet">Also handed in: {named}. The one with the most points counts.</p>')
    if result.error:
        parts.append(f"<p>{escape(result.error)}</p>")
    for one in result.exercises:
        parts.append(f"<h2>{escape(one.exercise.title)}</h2>\n{exercise_html(one)}")
    if result.notes:
        notes = "".join(f"<li>{escape(note)}</li>" for note in result.notes)
        parts.append(f"<h2>Passed over while reading</h2>\n<ul>{notes}</ul>")
    return document(f"Feedback for {name}", "\n".join(parts))
