"""The trigger rules over the window's size as a plotly figure: a chart to read, so static (never a FigureWidget).

`threshold_chart` pairs it with a table and a sentence, for hosts that cannot draw plotly. The picture that one pushes
is `ctxlab.widgets.threshold_explorer.ThresholdExplorer`; both have their numbers from `threshold_picture`.
"""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from ctxlab.budget import HEADROOM_TOKENS, THRESHOLD_RATIO, TRIGGER_RATIO
from ctxlab.widgets.kit import COLOURS, Chart, number
from ctxlab.widgets.threshold_picture import State, Thresholds, static_html, thresholds

# A grey that is read on white and on JupyterLab's dark ground alike: plotly cannot follow the theme's variables.
INK = "#7d7d7d"
CAPTION = "When to compress, by the size of the window"


def threshold_figure(
    *,
    ratio: float = THRESHOLD_RATIO,
    headroom: int = HEADROOM_TOKENS,
    completion: int = 0,
    history_ratio: float = TRIGGER_RATIO,
    fixed: int = 0,
    window: int = 200_000,
) -> go.Figure:
    """Both trigger rules over the window's size, their crossing marked. Tokens on both axes.

    ``window`` is the one that the table beside it reads off. Raises `BudgetError` for numbers that are none.
    """
    state = State(window, ratio, headroom, completion, history_ratio, fixed)
    return _figure(state, thresholds(state))


def threshold_chart(
    *,
    ratio: float = THRESHOLD_RATIO,
    headroom: int = HEADROOM_TOKENS,
    completion: int = 0,
    history_ratio: float = TRIGGER_RATIO,
    fixed: int = 0,
    window: int = 200_000,
) -> Chart:
    """`threshold_figure` with the same numbers as a table and as a sentence."""
    state = State(window, ratio, headroom, completion, history_ratio, fixed)
    shown = thresholds(state)
    return Chart(_figure(state, shown), static_html(shown, CAPTION), f"{CAPTION}. {shown.sentence}")


def _figure(state: State, shown: Thresholds) -> go.Figure:
    figure = go.Figure()
    line = {"color": COLOURS["system"][0], "width": 2, "dash": "dash"}
    by_ratio = int(state.ratio * shown.scale)
    figure.add_scatter(
        x=[0, shown.scale], y=[0, by_ratio], name=f"{state.ratio:g} of the window", mode="lines", line=line
    )
    line = {"color": COLOURS["reserve"][0], "width": 2, "dash": "dot"}
    y = [0, shown.scale - state.reserved]
    figure.add_scatter(
        x=[state.reserved, shown.scale], y=y, name="window less completion and headroom", mode="lines", line=line
    )
    line = {"color": COLOURS["history"][0], "width": 2, "dash": "dashdot"}
    x, y = _axes(shown.history)
    figure.add_scatter(x=x, y=y, name=f"history ratio {state.history_ratio:g}", mode="lines", line=line)
    line = {"color": COLOURS["over"][0], "width": 5}
    x, y = _axes(shown.pressure)
    figure.add_scatter(x=x, y=y, name="window pressure: the smaller one", mode="lines", line=line)
    if state.reserved:
        figure.add_vrect(x0=0, x1=state.reserved, fillcolor=INK, opacity=0.25, line_width=0)
        figure.add_annotation(
            x=state.reserved / 2, y=shown.scale * 0.5, text="nothing left", textangle=-90, showarrow=False
        )
    if shown.crossing is not None and shown.crossing <= shown.scale:
        figure.add_vline(x=shown.crossing, line={"color": INK, "dash": "dash", "width": 2})
        text = f"crossing {number(shown.crossing)}<br>left: the reserve decides · right: the ratio"
        figure.add_annotation(x=shown.crossing, y=1.0, yref="paper", yanchor="bottom", text=text, showarrow=False)
    _style(figure)
    return figure


def _axes(points: tuple[tuple[int, int], ...]) -> tuple[list[int], list[int]]:
    return [x for x, _ in points], [y for _, y in points]


def _style(figure: go.Figure) -> None:
    grid = "rgba(128,128,128,0.25)"
    axis: dict[str, Any] = {"tickformat": ",d", "gridcolor": grid, "zeroline": False, "rangemode": "tozero"}
    figure.update_layout(
        height=430,
        margin={"l": 80, "r": 20, "t": 60, "b": 110},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": INK, "size": 14},
        legend={"orientation": "h", "x": 0, "y": -0.24, "yanchor": "top"},
        separators=".,",
    )
    figure.update_xaxes(title={"text": "size of the window (tokens)", "font": {"size": 14}}, **axis)
    figure.update_yaxes(title={"text": "compress from (tokens of prompt)", "font": {"size": 14}}, **axis)
    figure.update_annotations(font={"color": INK, "size": 14})
