"""The class report as one page of HTML: it works offline, without a script; its bars are plain SVG."""

from __future__ import annotations

import statistics
from html import escape

from ctxlab.grading.classroom import ANSWERS, BINS, CheckTally, Summary, order
from ctxlab.grading.page import document
from ctxlab.grading.similarity import Alike

WIDTH, HEIGHT = 640, 180  # of the distribution, in pixels; picked


def class_page(summary: Summary) -> str:
    """The page. It is for the instructor: it names learners."""
    parts = [
        _opening(summary),
        "<h2>Distribution</h2>",
        _histogram(summary.bins),
        "<h2>Exercises</h2>",
        _exercises(summary),
        "<h2>What fails most</h2>",
        _checks(summary.hardest),
        "<h2>Submissions that read nearly the same</h2>",
        _alike(summary),
        "<h2>For a human to look at</h2>",
        _loose_ends(summary),
        f'<p class="quiet">Seed {summary.seed}. Isolation: {escape(summary.isolation)}.</p>',
    ]
    return document("Class report", "\n".join(parts))


def _opening(summary: Summary) -> str:
    if not summary.shares:
        return "<p>Nobody has handed in yet.</p>"
    full = sum(share >= 1 for share in summary.shares)
    return (
        f"<p>{summary.learners} learners, {summary.submissions} submissions. Mean "
        f"{_percent(statistics.fmean(summary.shares))} of the points, median "
        f"{_percent(statistics.median(summary.shares))}; {full} with full marks.</p>"
    )


def _histogram(bins: list[int]) -> str:
    """Bars with their counts; the same numbers stand in the picture's description."""
    top, wide = max([*bins, 1]), WIDTH / BINS
    bars = []
    for place, count in enumerate(bins):
        tall = (HEIGHT - 45) * count / top
        x, y = place * wide, HEIGHT - 25 - tall
        bars.append(
            f'<rect x="{x + 4:.0f}" y="{y:.1f}" width="{wide - 8:.0f}" height="{tall:.1f}" fill="var(--bar)"/>'
            f'<text x="{x + wide / 2:.0f}" y="{y - 5:.1f}" text-anchor="middle">{count}</text>'
            f'<text x="{x + wide / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{_bin(place)}</text>'
        )
    told = "; ".join(f"{_bin(place)} percent of the points: {count}" for place, count in enumerate(bins))
    return (
        f'<figure><svg role="img" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" font-size="12" fill="currentColor" '
        f'aria-label="Learners by share of the points. {told}">{"".join(bars)}</svg>'
        "<figcaption>Learners by percent of the points.</figcaption></figure>"
    )


def _bin(place: int) -> str:
    step = 100 // BINS
    return f"{place * step}–{(place + 1) * step}"


def _exercises(summary: Summary) -> str:
    states = ("passed", "not passed", "not attempted")
    head = "".join(f'<th class="n" scope="col">{state}</th>' for state in states)
    rows = []
    for name in order(list(summary.exercises)):
        counted = summary.exercises[name]
        cells = "".join(f'<td class="n">{counted[state]}</td>' for state in states)
        rows.append(f'<tr><th scope="row">{name}</th>{cells}</tr>')
    return f'<table><thead><tr><th scope="col">exercise</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _checks(tallies: list[CheckTally]) -> str:
    if not tallies:
        return "<p>Nothing: whoever attempted an exercise passed all of its checks.</p>"
    rows = []
    for one in tallies:
        share = one.missed / one.asked
        beyond = "" if one.check.required else ' <span class="quiet">(beyond the lesson)</span>'
        rows.append(
            f'<tr><th scope="row">{escape(one.check.title)}{beyond}<br><span class="quiet">{one.exercise} · '
            f'{one.check.id}</span></th><td class="n">{one.missed} of {one.asked}<br>{_bar(share)}</td>'
            f"<td>{_answers(one)}</td></tr>"
        )
    head = '<th scope="col">check</th><th class="n" scope="col">missed</th><th scope="col">commonest wrong answers</th>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _answers(one: CheckTally) -> str:
    told = [f"<li>{count}×: <code>{escape(text)}</code></li>" for text, count in one.answers.most_common(ANSWERS)]
    more = len(one.answers) - ANSWERS
    rest = f'<li class="quiet">and {more} others</li>' if more > 0 else ""
    return f'<ul style="margin:0;padding-left:1.1em">{"".join(told)}{rest}</ul>'


def _bar(share: float) -> str:
    return (
        '<svg width="80" height="8" aria-hidden="true"><rect width="80" height="8" fill="var(--line)"/>'
        f'<rect width="{80 * share:.0f}" height="8" fill="var(--bar)"/></svg>'
    )


def _alike(summary: Summary) -> str:
    said = (
        "<p>A flag and not a verdict: the syntax trees of these answers share most of what other answers do not have, "
        "names of variables apart. People who learned together, or from the same page, write alike. Look at both.</p>"
    )
    if not summary.alike:
        return said + "<p>None.</p>"
    return f"{said}<ul>{''.join(map(_group, summary.alike))}</ul>"


def _group(one: Alike) -> str:
    names = ", ".join(escape(name) for name in one.names)
    how = "the same but for names" if one.least == 1 else f"{_percent(one.least)} in common"
    shown = "; and like the kit's own solution, which is shown after an attempt" if one.solution else ""
    return f"<li><strong>{one.exercise}</strong>: {names} ({how}{shown})</li>"


def _loose_ends(summary: Summary) -> str:
    rows = [f"<li>{escape(name)}: cannot be read: {escape(why)}</li>" for name, why in summary.unreadable]
    rows += [
        f"<li>{escape(name)}: the grader itself failed; grade again with --resume</li>"
        for name in summary.grader_failed
    ]
    rows += [
        f"<li>{escape(name)}: handed in more than once; the one with the most points counts</li>"
        for name in summary.several
    ]
    return f"<ul>{''.join(rows)}</ul>" if rows else "<p>Nothing.</p>"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"
