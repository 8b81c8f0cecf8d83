"""Checklist: what one should be able to do at the end, with ticks that outlast the kernel.

1. ``done`` holds the keys of the ticked items; a tick in the browser or an assignment in Python changes it.
2. Each change is written to ``checklist.json`` beside the file that holds the exercises' progress. A file that cannot
   be read or written costs the ticks, not the lesson; the widget then says that they are not kept.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anywidget
from traitlets import Dict, List, Unicode

from ctxlab.grading import progress
from ctxlab.widgets import kit

ITEMS: Final = {
    "path": "I can draw a message's whole path from input to being written, and back after a restart.",
    "parts": "I can name the four parts of a request, and say what each costs in mine.",
    "trigger": "I can say when my history is compressed, by which rule, and who picked the number.",
    "cut": "I can say why the cut aligns, and what the API answers when it does not.",
    "failure": "I know what my program does when the summary fails, is empty, or is longer than what it replaces.",
    "repair": "I can mend a history with a dangling call in its middle, and prove that the rules find nothing.",
    "log": "I can kill my program at any moment and lose no message that was acknowledged.",
    "fork": "I can fork a session, and show that its parent did not change.",
    "record": "I can show what the model saw at any turn, after the history was compacted.",
    "memory": "I can say of a fact whether it belongs in the history, in memory, or at its source.",
    "measure": "I have looked at a log of my own, and know what fills it.",
}
"""The kit's checklist: key and sentence. The first, second and fourth are the published ones."""


class Checklist(anywidget.AnyWidget):
    """Items to tick. ``items``: key and sentence; the kit's own by default. ``done``: the keys that are ticked.

    ``place`` is the file that keeps the ticks: ``checklist.json`` beside the exercises' progress by default.
    """

    _esm = kit.esm("checklist")
    _css = kit.css("checklist")

    title = Unicode("The checklist").tag(sync=True)
    items = List(Dict()).tag(sync=True)
    done = List(Unicode()).tag(sync=True)
    note = Unicode().tag(sync=True)

    def __init__(self, items: Mapping[str, str] = ITEMS, *, place: Path | None = None, **more: Any) -> None:
        self.place = place or progress.place().with_name("checklist.json")
        shown = [{"key": key, "text": text} for key, text in items.items()]
        kept = load(self.place)
        super().__init__(items=shown, done=[key for key in items if key in kept], **more)
        self.observe(self._keep, "done")

    def _keep(self, change: Any) -> None:
        mine = {item["key"] for item in self.items}
        others = load(self.place) - mine
        self.note = "" if save(self.place, others | set(self.done)) else f"not kept: cannot write {self.place}"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        plain = f"{self.title}: {len(self.done)} of {len(self.items)} done"
        return kit.bundle(super()._repr_mimebundle_(**kwargs), self._html(), plain)

    def _html(self) -> str:
        rows = "".join(
            f"<li>{'[x]' if item['key'] in self.done else '[ ]'} {kit.escape(item['text'])}</li>" for item in self.items
        )
        return f"<div><p><strong>{kit.escape(self.title)}.</strong></p><ul>{rows}</ul></div>"


def load(place: Path) -> set[str]:
    """The keys that are ticked in a file; none where there is no such file, or it is something else."""
    try:
        data = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError):
        return set()
    return {key for key, value in data.items() if value is True} if isinstance(data, dict) else set()


def save(place: Path, keys: set[str]) -> bool:
    """Keep the ticked keys; whether that was possible. The file is replaced whole."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=".checklist-")
        with open(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(dict.fromkeys(sorted(keys), True), indent=2) + "\n")
        os.replace(name, place)
    except OSError:
        return False
    return True
