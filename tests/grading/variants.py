"""Where the variants are, and whose exercise each one answers."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
VARIANTS = {kind: sorted((TESTS / kind).glob("*.py")) for kind in ("wrong", "right")}


def exercise_of(path: Path) -> str:
    """``fork_session`` for ``fork_session__slice.py``."""
    return path.stem.split("__")[0]
