"""Where a learner stands: attempts, hints taken, what has passed. A small JSON file, so that it outlasts the kernel.

It stands in the working copy's ``.ctxlab`` folder (the nearest one above the current folder), else in the user's data
folder; ``CTXLAB_PROGRESS`` names another file. A file that cannot be read or written costs the progress, not the check.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one exercise has come. ``best`` is the best score so far."""

    attempts: int = 0
    hints: int = 0
    best: float = 0.0
    passed: bool = False


def place() -> Path:
    """The file that holds the progress."""
    if named := os.environ.get("CTXLAB_PROGRESS"):
        return Path(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".ctxlab").is_dir():
            return folder / ".ctxlab" / "progress.json"
    if sys.platform == "win32":
        data = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        data = Path.home() / "Library" / "Application Support"
    else:
        data = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share"))
    return data / "ctxlab" / "progress.json"


def load() -> dict[str, Progress]:
    """The progress of every exercise that was begun."""
    try:
        data = json.loads(place().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: _progress(value) for name, value in data.items()} if isinstance(data, dict) else {}


def of(name: str) -> Progress:
    """The progress of one exercise."""
    return load().get(name, Progress())


def save(name: str, progress: Progress) -> bool:
    """Keep the progress of one exercise; whether that was possible. The file is replaced whole."""
    path = place()
    data = {key: asdict(value) for key, value in {**load(), name: progress}.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name_of_new = tempfile.mkstemp(dir=path.parent, prefix=".progress-")
        with open(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(data, indent=2) + "\n")
        os.replace(name_of_new, path)
    except OSError:
        return False
    return True


def _progress(value: Any) -> Progress:
    value = value if isinstance(value, dict) else {}

    def number(key: str) -> float:
        found = value.get(key)
        return found if isinstance(found, int | float) and not isinstance(found, bool) else 0

    return Progress(int(number("attempts")), int(number("hints")), float(number("best")), value.get("passed") is True)
