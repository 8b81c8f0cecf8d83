"""When to compress, over the window's size: both published trigger rules, and where the pressure rule changes its mind.

Pure numbers and words, no drawing: `thresholds` gives what ``threshold_explorer.js`` computes for itself in the browser
(a test holds the two equal, to the letter), `static_html` and the sentence are its form for hosts without a front end.

The *window-pressure* rule takes the smaller of two numbers: the ratio's (0.8 of the window) and the reserve's (what
completion and headroom leave of the window). The ratio's grows by 0.8 for each token of window and the reserve's by 1,
so the reserve's is the smaller one first and the larger one later; they meet at `ctxlab.budget.crossing`. At or below
completion + headroom the reserve leaves nothing, and there is no trigger at all. The *history-ratio* rule is drawn on
the same scale: tokens of the whole prompt.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final

from ctxlab.budget import (
    HEADROOM_TOKENS,
    THRESHOLD_RATIO,
    TRIGGER_RATIO,
    crossing,
    history_trigger,
    pressure_binds,
    pressure_trigger,
)
from ctxlab.widgets.kit import escape, number

SMALLEST_SCALE: Final = 524_288
LARGEST_SCALE: Final = 8_388_608
"""Tokens of window that the picture shows, at least and (unless the window is larger) at most. Picked."""

PUBLISHED: Final = "Below a 327,680-token window the 0.8 ratio decides, above it the reserve binds."
"""A sentence of a published lesson, in its words (no completion tokens reserved). It has the two sides exchanged."""

PUBLISHED_OPTIONS: Final = (
    (
        "It is right as it stands",
        False,
        "Look at 200,000: 0.8 of it is 160,000, and the reserve leaves 134,464. The smaller number decides.",
    ),
    (
        "The number is wrong",
        False,
        "0.8 of 327,680 and 327,680 - 65,536 are both 262,144: that is where the two meet. What happens on each side?",
    ),
    (
        "It has the two sides exchanged",
        True,
        "A fixed 65,536 is a large part of a small window and a small part of a large one. So below 327,680 the "
        "reserve decides (200,000: 134,464, not 160,000), and above it the ratio (400,000: 320,000, not 334,464).",
    ),
)

ZONES: Final = {"nothing": "nothing left", "reserve": "the reserve decides", "ratio": "the ratio decides"}


@dataclass(frozen=True, slots=True)
class State:
    """What the learner sets. Tokens, except the two ratios.

    ``ratio``, ``headroom``, ``completion``: of the window-pressure rule. ``history_ratio`` and ``fixed`` (system prompt
    and tool definitions together): of the history-ratio rule, which the picture has beside it.
    """

    window: int = 200_000
    ratio: float = THRESHOLD_RATIO
    headroom: int = HEADROOM_TOKENS
    completion: int = 0
    history_ratio: float = TRIGGER_RATIO
    fixed: int = 0

    @property
    def reserved(self) -> int:
        """Headroom and completion reserve together: at or below a window of this size nothing is left."""
        return self.headroom + self.completion


@dataclass(frozen=True, slots=True)
class Zone:
    """A stretch of window sizes, from ``start`` to ``end`` tokens, in which one thing decides."""

    key: str
    label: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Term:
    """One line of the picture: the rule in words with this window's numbers, and its value here (None: never)."""

    key: str
    text: str
    tokens: int | None
    decides: bool


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All that is drawn. ``verdict``: nothing, reserve, ratio, or both (at the crossing). ``crossing``: the window at
    which the ratio begins to decide, None where it never does. ``pressure`` and ``history``: points of the two rules'
    lines, as (window, prompt tokens)."""

    scale: int
    nothing_until: int
    crossing: int | None
    verdict: str
    trigger: int | None
    zones: tuple[Zone, ...]
    pressure: tuple[tuple[int, int], ...]
    history: tuple[tuple[int, int], ...]
    terms: tuple[Term, ...]
    headline: str
    crossing_note: str
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON data: what the browser's ``layout`` returns for the same state."""
        data = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in data.items()}


def thresholds(state: State) -> Thresholds:
    """What to draw for ``state``.

    >>> thresholds(State(window=200_000)).headline
    'At a window of 200,000 the reserve decides: compress from 134,464 tokens of prompt'
    >>> thresholds(State(window=400_000)).headline
    'At a window of 400,000 the ratio decides: compress from 320,000 tokens of prompt'
    """
    meets = None if state.ratio == 1 else crossing(state.completion, state.ratio, state.headroom)
    scale = _scale(state, meets)
    left = state.window > state.reserved
    verdict = pressure_binds(*_pressure(state)) if left else "nothing"
    trigger = pressure_trigger(*_pressure(state)) if left else None
    history = history_at(state, state.window)
    headline = _headline(state, verdict, trigger)
    return Thresholds(
        scale=scale,
        nothing_until=state.reserved,
        crossing=meets,
        verdict=verdict,
        trigger=trigger,
        zones=_zones(state, meets, scale),
        pressure=_pressure_line(state, meets, scale),
        history=_history_line(state, scale),
        terms=_terms(state, verdict, trigger, history),
        headline=headline,
        crossing_note=_crossing_note(state, meets),
        sentence=f"{headline}. {_crossing_note(state, meets)}.",
    )


def history_at(state: State, window: int) -> int | None:
    """The history-ratio rule at a window size, as tokens of the whole prompt; None where no history budget is left."""
    budget = window - state.completion - state.fixed
    return state.fixed + history_trigger(budget, state.history_ratio) if budget > 0 else None


def _pressure(state: State, window: int | None = None) -> tuple[int, int, float, int]:
    return (state.window if window is None else window, state.completion, state.ratio, state.headroom)


def _scale(state: State, meets: int | None) -> int:
    """A power of two times the smallest scale, so that all there is to see is within five sixths of it."""
    seen = max(state.window, state.reserved, min(meets or 0, LARGEST_SCALE * 5 // 6))
    scale = SMALLEST_SCALE
    while 5 * scale < 6 * seen:
        scale *= 2
    return scale


def _zones(state: State, meets: int | None, scale: int) -> tuple[Zone, ...]:
    turn = scale if meets is None else min(scale, meets)
    edges = (("nothing", 0, state.reserved), ("reserve", state.reserved, turn), ("ratio", turn, scale))
    return tuple(Zone(key, ZONES[key], start, end) for key, start, end in edges if end > start)


def _pressure_line(state: State, meets: int | None, scale: int) -> tuple[tuple[int, int], ...]:
    corner = [meets] if meets is not None and state.reserved < meets < scale else []
    rest = [(window, pressure_trigger(*_pressure(state, window))) for window in (*corner, scale)]
    return ((state.reserved, 0), *rest)


def _history_line(state: State, scale: int) -> tuple[tuple[int, int], ...]:
    start = state.completion + state.fixed
    end = history_at(state, scale)
    return ((start, state.fixed), (scale, end)) if end is not None else ()


def _terms(state: State, verdict: str, trigger: int | None, history: int | None) -> tuple[Term, ...]:
    window = number(state.window)
    by_ratio = int(Fraction(repr(state.ratio)) * state.window)
    by_reserve = state.window - state.reserved
    reserve = f"{window} - {number(state.completion)} completion - {number(state.headroom)} headroom"
    ratio = f"History ratio: {state.history_ratio:g} of what is left for the history"
    return (
        Term("pressure", "Window pressure: the smaller of the next two", trigger, verdict != "nothing"),
        Term("ratio", f"The ratio: {state.ratio:g} of {window}", by_ratio, verdict in ("ratio", "both")),
        Term("reserve", f"The reserve: {reserve}", by_reserve, verdict in ("reserve", "both", "nothing")),
        Term("history", f"{ratio}, and what stands before it", history, history is not None),
    )


def _headline(state: State, verdict: str, trigger: int | None) -> str:
    start = f"At a window of {number(state.window)}"
    if trigger is None:
        return (
            f"{start} nothing is left: completion and headroom take {number(state.reserved)}, and the rule never fires"
        )
    words = {"ratio": "the ratio decides", "reserve": "the reserve decides", "both": "ratio and reserve agree"}
    return f"{start} {words[verdict]}: compress from {number(trigger)} tokens of prompt"


def _crossing_note(state: State, meets: int | None) -> str:
    if meets is None:
        return "No crossing: with a ratio of 1 the reserve is always the smaller one"
    reserved = f"{number(state.headroom)} headroom + {number(state.completion)} completion"
    return (
        f"Crossing: ({reserved}) / (1 - {state.ratio:g}) = {number(meets)}; "
        f"each token of completion moves it by {_slope(state.ratio)}"
    )


def _slope(ratio: float) -> str:
    """1 / (1 - ratio) to two places, in whole numbers so that the browser rounds alike."""
    rest = 1_000_000 - round(ratio * 1_000_000)
    hundredths = (200_000_000 + rest) // (2 * rest)
    return f"{hundredths / 100:.2f}".rstrip("0").rstrip(".")


def static_html(shown: Thresholds, caption: str) -> str:
    """The picture as two tables with inline colours: who decides over which windows, and the rules' numbers here."""
    zones = "".join(_zone(zone, shown.scale) for zone in shown.zones)
    rows = "".join(_row(term) for term in shown.terms)
    ranges = "".join(
        f"<li>{escape(zone.label)}: windows from {number(zone.start)} to {number(zone.end)}</li>"
        for zone in shown.zones
    )
    return (
        f"<div><p><strong>{escape(caption)}.</strong> {escape(shown.headline)}.</p>"
        '<table style="width:100%;border-collapse:collapse;table-layout:fixed"><tbody>'
        f"<tr>{zones}</tr></tbody></table><ul>{ranges}<li>{escape(shown.crossing_note)}</li></ul>"
        '<table><thead><tr><th style="text-align:left">Rule</th><th style="text-align:right">Tokens of prompt</th>'
        f"</tr></thead><tbody>{rows}</tbody></table>"
        f"<p>A published sentence: <q>{escape(PUBLISHED)}</q> Is it right?</p></div>"
    )


_FILLS = {"nothing": ("#d9d9d9", "#111111"), "reserve": ("#CC79A7", "#111111"), "ratio": ("#0072B2", "#ffffff")}


def _zone(zone: Zone, scale: int) -> str:
    fill, ink = _FILLS[zone.key]
    width = 100 * (zone.end - zone.start) / scale
    label = escape(zone.label) if width > 9 else "&nbsp;"
    style = f"width:{width:.2f}%;background-color:{fill};color:{ink};padding:8px 2px;text-align:center"
    return f'<td title="{escape(zone.label)}" style="{style}">{label}</td>'


def _row(term: Term) -> str:
    value = "never" if term.tokens is None else number(term.tokens)
    words = f"<strong>{escape(term.text)}</strong>" if term.decides else escape(term.text)
    return f'<tr><td style="text-align:left">{words}</td><td style="text-align:right">{value}</td></tr>'
