"""The two values of the memory: an item as it is stored, and an item as a search found it."""

from __future__ import annotations

from dataclasses import dataclass

LONG_TERM = "long-term"
"""Follows the person: every later session may find it."""

SHORT_TERM = "short-term"
"""Follows the session: found in the session that noted it, and in no other until it recurs."""


@dataclass(frozen=True, slots=True)
class Item:
    """One fact of the memory.

    ``place``: `LONG_TERM` or `SHORT_TERM`. ``session``: the one that first said it. Times are ISO 8601 in UTC;
    ``expires_at`` is None for what does not expire. ``superseded_by``: the id of the item that took its place, or None.
    ``seen``: the number of sessions that said it.
    """

    id: int
    text: str
    place: str
    session: str
    created_at: str
    expires_at: str | None
    superseded_by: int | None
    seen: int
    last_seen_at: str


@dataclass(frozen=True, slots=True)
class Found:
    """An item that a search found: ``score`` (higher is more relevant; comparable within one search only), and why."""

    item: Item
    score: float
    why: str
