"""MessagePath: a message's way from input to log and back, station by station, with the data as it is at each.

1. The stations come from `message_stations.walk`, which ran the way once with the library's own functions; the front
   end, ``message_path.js``, draws them as a map with the loop in its middle, and never computes data.
2. ``station`` is where the learner stands and ``path`` which of the two histories goes the way; both follow clicks and
   keys, and setting them in Python moves the picture.
3. Where there is no front end the widget shows as a table (``text/html``) and as a sentence (``text/plain``).
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets
from traitlets import Dict, Int, Unicode

from ctxlab.widgets import kit
from ctxlab.widgets.message_stations import PATHS, Link, Station, walk


class MessagePath(anywidget.AnyWidget):
    """The way of one message through the loop. ``station``: the place, from 0. ``path``: ``short`` or ``long``.

    Raises ``traitlets.TraitError`` for a station or a path that does not exist.
    """

    _esm = kit.esm("message_path")
    _css = kit.css("message_path")

    station = Int(0, min=0).tag(sync=True)
    path = traitlets.Enum(tuple(PATHS), "short").tag(sync=True)
    caption = Unicode("The way of a message, from input to log and back").tag(sync=True)
    walks = Dict(read_only=True).tag(sync=True)

    @traitlets.default("walks")
    def _both_walks(self) -> dict[str, list[dict[str, Any]]]:
        return {path: [station.to_json() for station in walk(path)] for path in PATHS}

    @traitlets.validate("station")
    def _that_exists(self, proposal: Any) -> int:
        station = int(proposal["value"])
        if station >= len(walk("short")):
            raise traitlets.TraitError(f"station {station}; the last one is {len(walk('short')) - 1}")
        return station

    @property
    def here(self) -> Station:
        """The station at which the learner stands."""
        return walk(self.path)[self.station]

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        plain = f"{self.caption}: {', '.join(station.name for station in walk(self.path))}"
        return kit.bundle(super()._repr_mimebundle_(**kwargs), _html(self.caption, walk(self.path)), plain)


def _html(caption: str, stations: tuple[Station, ...]) -> str:
    heads = "".join(
        f'<th style="text-align:left">{name}</th>' for name in ("Station", "What happens", "Function", "Lesson")
    )
    rows = "".join(_row(number, station) for number, station in enumerate(stations, start=1))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<div><p><strong>{kit.escape(caption)}.</strong></p>{table}</div>"


def _row(number: int, station: Station) -> str:
    functions = ", ".join(f"<code>{kit.escape(name)}</code>" for name in station.functions) or "(the person)"
    cells = (
        f"{number} {kit.escape(station.name)}",
        f"<strong>{kit.escape(station.title)}.</strong> {kit.escape(station.what)}",
        functions,
        "<br>".join(_anchor(link) for link in station.links),
    )
    left = 'style="text-align:left;vertical-align:top"'
    return f"<tr>{''.join(f'<td {left}>{cell}</td>' for cell in cells)}</tr>"


def _anchor(link: Link) -> str:
    text = kit.escape(link.text)
    return f'<a href="{kit.escape(link.href)}">{text}</a>' if link.href else text
