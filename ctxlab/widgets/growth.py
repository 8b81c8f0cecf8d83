"""Growth over rounds as a plotly figure: what each request carries, and what all requests together were billed.

A chart to read, so a static figure (never a FigureWidget). `growth_chart` pairs it with a table and a sentence, for
hosts that cannot draw plotly.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ctxlab.budget import TRIGGER_RATIO, history_trigger
from ctxlab.formats import Conversation, load
from ctxlab.inspection import RoundGrowth, growth
from ctxlab.messages import as_messages
from ctxlab.widgets.kit import COLOURS, Chart, number

# A grey that is read on white and on JupyterLab's dark ground alike: plotly cannot follow the theme's variables.
INK = "#7d7d7d"


def growth_figure(
    log: str | PathLike[str] | Conversation, *, history_budget: int | None = None, encoding: str = "o200k_base"
) -> go.Figure:
    """The history after each round, and the running bill. Tokens on both axes.

    ``log``: a file that `load` reads, or what it gave. ``history_budget``: tokens; draws the line at which the
    history-ratio rule compresses (0.7 of it: a picked number). Raises what `load` raises.
    """
    return _figure(_rounds(log, encoding), history_budget)


def growth_chart(
    log: str | PathLike[str] | Conversation, *, history_budget: int | None = None, encoding: str = "o200k_base"
) -> Chart:
    """`growth_figure` with the same numbers as a table and as a sentence."""
    rounds = _rounds(log, encoding)
    return Chart(_figure(rounds, history_budget), _table(rounds), _sentence(rounds))


def _rounds(log: str | PathLike[str] | Conversation, encoding: str) -> tuple[RoundGrowth, ...]:
    conversation = log if isinstance(log, Conversation) else load(log)
    history = (message for message in as_messages(conversation.messages) if not message.is_system)
    return growth(history, encoding=encoding)


def _figure(rounds: tuple[RoundGrowth, ...], history_budget: int | None) -> go.Figure:
    figure = make_subplots(
        rows=1,
        cols=2,
        horizontal_spacing=0.12,
        subplot_titles=("History sent with the next request", "History billed so far"),
    )
    numbers = [part.round for part in rounds]
    before = [part.history - part.added for part in rounds]
    figure.add_bar(x=numbers, y=before, name="earlier rounds, sent again", marker=_marker("system", ""), row=1, col=1)
    figure.add_bar(
        x=numbers, y=[part.added for part in rounds], name="this round", marker=_marker("tools", "/"), row=1, col=1
    )
    figure.add_scatter(
        x=numbers,
        y=[part.billed for part in rounds],
        name="billed so far",
        mode="lines+markers",
        line={"color": COLOURS["over"][0], "width": 3},
        showlegend=False,
        row=1,
        col=2,
    )
    if history_budget is not None:
        trigger = history_trigger(history_budget, TRIGGER_RATIO)
        figure.add_hline(
            y=trigger,
            line={"color": INK, "dash": "dash", "width": 2},
            annotation={"text": f"compress from {number(trigger)}", "font": {"color": INK}},
            annotation_position="top left",
            row=1,
            col=1,
        )
    _style(figure)
    return figure


def _marker(part: str, pattern: str) -> dict[str, Any]:
    return {"color": COLOURS[part][0], "pattern": {"shape": pattern, "fgcolor": "#111111", "fgopacity": 0.35}}


def _style(figure: go.Figure) -> None:
    figure.update_layout(
        barmode="stack",
        height=390,
        margin={"l": 60, "r": 20, "t": 50, "b": 100},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": INK, "size": 14},
        legend={"orientation": "h", "x": 0, "y": -0.26, "yanchor": "top"},
        separators=".,",
    )
    grid = "rgba(128,128,128,0.25)"
    figure.update_xaxes(title_text="round", dtick=_tick(len(figure.data[0].x)), gridcolor=grid, zeroline=False)
    figure.update_yaxes(title_text="tokens", tickformat=",d", gridcolor=grid, zeroline=False, rangemode="tozero")
    figure.update_annotations(font={"color": INK, "size": 15})


def _tick(rounds: int) -> int:
    return max(1, round(rounds / 12))


def _table(rounds: tuple[RoundGrowth, ...]) -> str:
    right = 'style="text-align:right"'
    head = "".join(f"<th {right}>{name}</th>" for name in ("Round", "Added", "History after it", "Billed so far"))
    rows = "".join(
        f"<tr><td {right}>{part.round}</td><td {right}>{number(part.added)}</td>"
        f"<td {right}>{number(part.history)}</td><td {right}>{number(part.billed)}</td></tr>"
        for part in rounds
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table><p>{_sentence(rounds)}</p>"


def _sentence(rounds: tuple[RoundGrowth, ...]) -> str:
    if not rounds:
        return "No rounds."
    last = rounds[-1]
    return (
        f"After {number(last.round)} rounds the history is {number(last.history)} tokens, and {number(last.billed)} "
        f"tokens of history have been sent and billed: {last.billed / max(1, last.history):.1f} times as many."
    )
