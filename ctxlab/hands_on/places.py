"""Where the lab's sessions lie: the folder, and the file of each."""

from __future__ import annotations

from pathlib import Path

from ctxlab.store import check_name, open_store

FOLDER = Path(".sessions")
"""Of the folder in which the lab is started."""


def file_stem(folder: Path, name: str) -> str:
    """The name of the file that holds a session: its own, or its parent's where a fork has no list of its own."""
    meta = open_store(folder).read_meta(name) if folder.is_dir() else None
    stem = (meta or {}).get("messagesOf")
    return check_name(stem) if isinstance(stem, str) else name
