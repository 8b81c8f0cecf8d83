"""Memory: what follows the session, and what follows the person.

`place` asks three questions of a fact and says where it belongs. `MemoryStore` keeps one fact a row, replaces it when
the user changes their mind, and finds the few that a request needs. `inject` puts those into a request within a
budget; `inject_all` is the bad way, and `compare` measures the two. Which facts a conversation holds is not decided
here: a person or a model says that.
"""

from __future__ import annotations

from ctxlab.memory.comparison import Comparison, Way, compare
from ctxlab.memory.injection import MEMORY_MARKER, inject, inject_all, is_memory
from ctxlab.memory.items import LONG_TERM, SHORT_TERM, Found, Item
from ctxlab.memory.placement import PLACES, RECURS_AT, Placement, place
from ctxlab.memory.store import MOST, MemoryStore
from ctxlab.memory.words import words_of

__all__ = [
    "LONG_TERM",
    "MEMORY_MARKER",
    "MOST",
    "PLACES",
    "RECURS_AT",
    "SHORT_TERM",
    "Comparison",
    "Found",
    "Item",
    "MemoryStore",
    "Placement",
    "Way",
    "compare",
    "inject",
    "inject_all",
    "is_memory",
    "place",
    "words_of",
]
