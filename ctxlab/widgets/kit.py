"""What all widgets share: one front-end file out of two, colours, numbers, and a form for hosts without a front end.

1. anywidget wants one ESM file without imports. The kit's ``kit.js`` holds plain functions; `esm` puts it before a
   widget's own file, and `css` does the same for the styles.
2. `COLOURS` are Okabe and Ito's (https://jfly.uni-koeln.de/color/), which colour-blind people can tell apart. The
   styles add a pattern to each, and each part also carries its name, so colour is never alone.
3. `bundle` adds ``text/html`` and ``text/plain`` to a widget's display data, for nbconvert, GitHub and terminals.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE = Path(__file__).resolve().parent

# Fill and text colour of each part, as in kit.css.
COLOURS: Final[dict[str, tuple[str, str]]] = {
    "system": ("#0072B2", "#ffffff"),
    "tools": ("#E69F00", "#111111"),
    "history": ("#009E73", "#111111"),
    "left": ("#f2f2f2", "#111111"),
    "reserve": ("#CC79A7", "#111111"),
    "margin": ("#F0E442", "#111111"),
    "over": ("#D55E00", "#111111"),
}


def esm(name: str) -> str:
    """The front end of widget ``name`` as one ES module: ``kit.js``, then the widget's own ``name.js``."""
    return f"{(HERE / 'kit.js').read_text('utf-8')}\n{(HERE / f'{name}.js').read_text('utf-8')}"


def css(name: str) -> str:
    """The styles of widget ``name``: ``kit.css``, then the widget's own."""
    return f"{(HERE / 'kit.css').read_text('utf-8')}\n{(HERE / f'{name}.css').read_text('utf-8')}"


def number(value: int) -> str:
    """A count for people.

    >>> number(128000)
    '128,000'
    """
    return f"{value:,}"


def escape(text: str) -> str:
    """Text as HTML."""
    from html import escape as html_escape

    return html_escape(text, quote=True)


def bundle(display: Any, html: str, plain: str) -> Any:
    """A widget's display data, with the static forms added where there is a widget view at all.

    ``display`` is what ``_repr_mimebundle_`` of the widget class gave: data, or data and metadata, or None.
    """
    if display is None:
        return {"text/html": html, "text/plain": plain}
    data, metadata = display if isinstance(display, tuple) else (display, {})
    return {**data, "text/html": html, "text/plain": plain}, metadata


@dataclass(frozen=True, slots=True)
class Chart:
    """A plotly figure with the same numbers as a table and as a sentence, for hosts that cannot draw it."""

    figure: Any
    html: str
    plain: str

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        import json

        # A chart to read: plotly's toolbar would lie over it, in plotly's own dark colours.
        drawn = {**json.loads(self.figure.to_json()), "config": {"displayModeBar": False}}
        return {"application/vnd.plotly.v1+json": drawn, "text/html": self.html, "text/plain": self.plain}

    def __str__(self) -> str:
        return self.plain
