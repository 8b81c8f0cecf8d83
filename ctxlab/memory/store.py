"""The memory on disk: SQLite, one fact a row, with a full-text index (FTS5) over its words.

A fact that the user takes back is superseded: the old row stays as history and leaves the index, so no search finds
it. Every change is one transaction that takes the write lock before it reads, so two processes lose nothing; it is on
disk when the call returns. The tables and the connection to them are `database`'s; what the words of a text are is
`words`'.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from ctxlab.errors import Superseded, UnknownItem, WrongArgument, unknown_name
from ctxlab.memory.database import Database
from ctxlab.memory.injection import Count, within
from ctxlab.memory.items import LONG_TERM, SHORT_TERM, Found, Item
from ctxlab.memory.placement import RECURS_AT, RETRIEVE
from ctxlab.memory.words import one_form, storable, words_of
from ctxlab.tokens import count_message

MOST = 5
"""Items that one search returns at most: three to five are the spec of the lesson, more distract."""

CANDIDATES = 50
"""Items that the index hands over to be ranked (picked)."""

QUERY_WORDS = 64
"""Words of a query that are searched for, the rarest ones (picked: a pasted page has thousands)."""

LEAST_SHARE = 1 / 3
"""An item that covers less of the query than this share of what the best one covers is noise (picked)."""

RECENCY, RECURRENCE = 0.1, 0.1
"""What a fact said just now, and one said in six sessions, gain on their relevance (picked, both small)."""

RECENT_DAYS = 30.0
"""Days after which the gain of recency is half of what it was (picked)."""

_COLUMNS = "id, text, place, session, created_at, expires_at, superseded_by, seen, last_seen_at"
_LIVE = "superseded_by IS NULL AND (expires_at IS NULL OR expires_at > :now)"
_SEEN_HERE = f"(place = '{LONG_TERM}' OR session = :session)"


class MemoryStore:
    """The memory of one person.

    ``path``: a file (made if missing, its folder too), or ":memory:" for one that ends with the object. ``clock``
    says what time it is, in an aware datetime. May be used from several threads and after a fork. Raises `StoreError`
    where SQLite has no FTS5, for a file that is no database, and for a layout of a later version.
    """

    def __init__(self, path: str | Path = ":memory:", *, clock: Callable[[], datetime] | None = None) -> None:
        self._clock = clock or (lambda: datetime.now(UTC))
        self._database = Database(path)

    # --- writing ------------------------------------------------------------------------------------------------------

    def remember(
        self,
        text: str,
        session: str,
        place: str = LONG_TERM,
        *,
        expires_at: datetime | str | None = None,
        supersedes: int | None = None,
    ) -> Item:
        """Store one fact; on disk on return.

        ``place``: "long-term" or "short-term" (`placement.place` says which). ``expires_at``: an aware datetime or ISO
        text with its offset. ``supersedes``: the id of the item that this one replaces. A fact that is there already
        is not stored twice: it counts as seen (see `recur`), takes a new ``expires_at``, and goes to long-term if that
        is asked for. Raises `WrongArgument`, `UnknownName`, `UnknownItem`, `Superseded`, `StoreError`.
        """
        _check_text("text", text)
        _check_text("session", session)
        _check_place(place)
        ends = None if expires_at is None else _stamp(expires_at)
        with self._database.writing() as database:
            old = None if supersedes is None else _live(self._get(database, supersedes))
            there = self._same(database, text)
            if there is None:
                item = self._insert(database, text, session, place, ends)
            else:
                item = self._see(database, there, session)
                changes = (LONG_TERM if place == LONG_TERM else item.place, ends or item.expires_at, item.id)
                database.execute("UPDATE ctxlab_memory_items SET place = ?, expires_at = ? WHERE id = ?", changes)
            if old is not None and old.id != item.id:
                database.execute("UPDATE ctxlab_memory_items SET superseded_by = ? WHERE id = ?", (item.id, old.id))
                database.execute("DELETE FROM ctxlab_memory_words WHERE rowid = ?", (old.id,))
            return self._get(database, item.id)

    def supersede(self, item_id: int, text: str, session: str, *, expires_at: datetime | str | None = None) -> Item:
        """The user changed their mind: ``text`` in place of an item, at the same place. Raises as `remember` does."""
        place = self.get(item_id).place
        return self.remember(text, session, place, expires_at=expires_at, supersedes=item_id)

    def recur(self, text: str, session: str) -> Item | None:
        """The fact was said again: count it; a short-term one goes to long-term once `RECURS_AT` sessions said it.

        The same session saying it twice counts once: what shows that a fact is needed later is a later session. Two
        texts are the same fact if they differ in case, white space, width or closing punctuation only. None where
        the memory does not hold it.
        """
        _check_text("text", text)
        _check_text("session", session)
        with self._database.writing() as database:
            there = self._same(database, text)
            return None if there is None else self._see(database, there, session)

    def forget(self, item_id: int) -> list[Item]:
        """Delete an item with all of its history, for good, and return what is gone. Raises `UnknownItem`."""
        with self._database.writing() as database:
            gone = self._chain(database, item_id)
            for item in gone:
                database.execute("DELETE FROM ctxlab_memory_words WHERE rowid = ?", (item.id,))
                database.execute("DELETE FROM ctxlab_memory_sightings WHERE item = ?", (item.id,))
                database.execute("DELETE FROM ctxlab_memory_items WHERE id = ?", (item.id,))
            return gone

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, item_id: int) -> Item:
        """One item, superseded and expired ones too. Raises `UnknownItem`."""
        with self._database.reading() as database:
            return self._get(database, item_id)

    def items(self, *, session: str | None = None, past: bool = False) -> list[Item]:
        """The items that hold now, oldest first: the long-term ones and the short-term ones of ``session``.

        ``past``: all that was ever stored instead, of every session, superseded and expired ones too.
        """
        which = "1" if past else f"{_LIVE} AND {_SEEN_HERE}"
        query = f"SELECT {_COLUMNS} FROM ctxlab_memory_items WHERE {which} ORDER BY id"
        with self._database.reading() as database:
            return [Item(*row) for row in database.execute(query, {"now": self._now(), "session": session})]

    def history(self, item_id: int) -> list[Item]:
        """An item, all that it replaced, and all that replaced it, oldest first. Raises `UnknownItem`."""
        with self._database.reading() as database:
            return self._chain(database, item_id)

    def retrieve(
        self,
        query: str,
        k: int = MOST,
        budget_tokens: int | None = None,
        *,
        session: str | None = None,
        count: Count = count_message,
    ) -> list[Found]:
        """The at most ``k`` (1 to 5) items that are most relevant to ``query``, best first; any text is a legal query.

        Only what holds now: nothing superseded or expired, and of the short-term items those of ``session``. The score
        is FTS5's bm25 times 1 + a small gain for recency + one for recurrence. An item that covers little of the query
        beside the best one is left out (`LEAST_SHARE`). With ``budget_tokens`` the items are those that `inject` would
        put in. Found by words, not by meaning: "my flat" does not find "my apartment". Raises `WrongArgument`.
        """
        if not isinstance(query, str):
            raise WrongArgument(f"a {type(query).__name__} where a text was expected", name="query", value=query)
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST:
            hint = "three to five relevant items help, more distract; inject_all shows what all of them cost"
            raise WrongArgument(f"k={k!r}; expected 1 to {MOST}", hint=hint, name="k", value=k)
        with self._database.reading() as database:
            weights = self._weights(database, query)
            rows = self._search(database, list(weights), session)
        best = self._ranked(rows, weights)[:k]
        if budget_tokens is None:
            return best
        fitting = {item.id for item in within([one.item for one in best], budget_tokens, count)}
        return [one for one in best if one.item.id in fitting]

    def close(self) -> None:
        """Closes the database; a later call opens it again."""
        self._database.close()

    def __enter__(self) -> MemoryStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- search -------------------------------------------------------------------------------------------------------

    def _weights(self, database: sqlite3.Connection, query: str) -> dict[str, float]:
        """The query's words that the index knows, with the weight that their rarity gives them; the rarest ones."""
        (total,) = database.execute("SELECT count(*) FROM ctxlab_memory_items WHERE superseded_by IS NULL").fetchone()
        weights: dict[str, float] = {}
        for word in dict.fromkeys(words_of(query)):
            row = database.execute("SELECT doc FROM temp.ctxlab_memory_terms WHERE term = ?", (word,)).fetchone()
            if row is not None:
                weights[word] = math.log1p((total - row[0] + 0.5) / (row[0] + 0.5))
        return dict(sorted(weights.items(), key=lambda pair: -pair[1])[:QUERY_WORDS])

    def _search(self, database: sqlite3.Connection, words: Sequence[str], session: str | None) -> list[tuple[Any, ...]]:
        if not words:
            return []
        columns = ", ".join(f"items.{name}" for name in _COLUMNS.split(", "))
        query = (
            f"SELECT -bm25(ctxlab_memory_words), words, {columns} FROM ctxlab_memory_words "
            "JOIN ctxlab_memory_items AS items ON items.id = ctxlab_memory_words.rowid "
            f"WHERE ctxlab_memory_words MATCH :match AND {_LIVE} AND {_SEEN_HERE} ORDER BY 1 DESC, id LIMIT :most"
        )
        match = " OR ".join(f'"{word}"' for word in words)
        values = {"match": match, "now": self._now(), "session": session, "most": CANDIDATES}
        return database.execute(query, values).fetchall()

    def _ranked(self, rows: Sequence[tuple[Any, ...]], weights: Mapping[str, float]) -> list[Found]:
        now = self._clock()
        found: list[tuple[float, Found]] = []
        for relevance, words, *columns in rows:
            item = Item(*columns)
            there = set(words.split(" "))
            shared = [word for word in weights if word in there]
            gain = _gain(item, now)
            why = f"shares {', '.join(shared[:6])}{', ...' if len(shared) > 6 else ''}; relevance {relevance:.3g}"
            why += f" x {gain:.2f} (said in {item.seen} session{'s' if item.seen > 1 else ''})"
            covered = math.fsum(weights[word] for word in shared)
            found.append((covered, Found(item, relevance * gain, why)))
        least = LEAST_SHARE * max((covered for covered, _ in found), default=0.0)
        kept = [one for covered, one in found if covered >= least]
        return sorted(kept, key=lambda one: (-one.score, -one.item.id))

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _now(self) -> str:
        return _stamp(self._clock())

    def _get(self, database: sqlite3.Connection, item_id: int) -> Item:
        if isinstance(item_id, int) and not isinstance(item_id, bool) and 0 < item_id < 2**63:
            query = f"SELECT {_COLUMNS} FROM ctxlab_memory_items WHERE id = ?"
            row = database.execute(query, (item_id,)).fetchone()
            if row is not None:
                return Item(*row)
        raise UnknownItem(f"no item {item_id!r} in the memory", hint="items() lists them", item=item_id)

    def _same(self, database: sqlite3.Connection, text: str) -> Item | None:
        """The live item that states this fact."""
        query = f"SELECT {_COLUMNS} FROM ctxlab_memory_items WHERE same = :same AND {_LIVE} ORDER BY id LIMIT 1"
        row = database.execute(query, {"same": _sameness(text), "now": self._now()}).fetchone()
        return None if row is None else Item(*row)

    def _insert(self, database: sqlite3.Connection, text: str, session: str, place: str, ends: str | None) -> Item:
        now, session = self._now(), storable(session)
        values = (storable(text), _sameness(text), place, session, now, ends, now)
        cursor = database.execute(
            "INSERT INTO ctxlab_memory_items (text, same, place, session, created_at, expires_at, seen, last_seen_at) "
            "VALUES (?, ?, ?, ?, ?, ?, 1, ?)",
            values,
        )
        item_id = cursor.lastrowid or 0
        database.execute("INSERT INTO ctxlab_memory_sightings VALUES (?, ?)", (item_id, session))
        words = " ".join(words_of(text))
        database.execute("INSERT INTO ctxlab_memory_words (rowid, words) VALUES (?, ?)", (item_id, words))
        return self._get(database, item_id)

    def _see(self, database: sqlite3.Connection, item: Item, session: str) -> Item:
        sighting = (item.id, storable(session))
        new = database.execute("INSERT OR IGNORE INTO ctxlab_memory_sightings VALUES (?, ?)", sighting).rowcount
        seen = item.seen + new
        place = LONG_TERM if seen >= RECURS_AT else item.place
        database.execute(
            "UPDATE ctxlab_memory_items SET seen = ?, place = ?, last_seen_at = max(last_seen_at, ?) WHERE id = ?",
            (seen, place, self._now(), item.id),
        )
        return self._get(database, item.id)

    def _chain(self, database: sqlite3.Connection, item_id: int) -> list[Item]:
        head = self._get(database, item_id)
        while head.superseded_by is not None:
            head = self._get(database, head.superseded_by)
        query = (
            "WITH RECURSIVE chain (id) AS (VALUES (?) UNION "
            "SELECT items.id FROM ctxlab_memory_items AS items JOIN chain ON items.superseded_by = chain.id) "
            f"SELECT {_COLUMNS} FROM ctxlab_memory_items WHERE id IN (SELECT id FROM chain) ORDER BY id"
        )
        return [Item(*row) for row in database.execute(query, (head.id,))]


def _gain(item: Item, now: datetime) -> float:
    """1, and a little for what was said lately, and for what was said often."""
    days = max(0.0, (now - datetime.fromisoformat(item.last_seen_at)).total_seconds() / 86_400)
    return 1 + RECENCY / (1 + days / RECENT_DAYS) + RECURRENCE * min(item.seen - 1, 5) / 5


def _live(item: Item) -> Item:
    if item.superseded_by is not None:
        raise Superseded(
            f"item {item.id} was replaced already, by item {item.superseded_by}",
            hint=f"history({item.id}) ends with the item that holds now: replace that one",
            item=item.id,
            by=item.superseded_by,
        )
    return item


def _sameness(text: str) -> str:
    """What two ways to write one fact have in common: case, width, white space and closing punctuation aside."""
    return " ".join(one_form(text).split()).rstrip(".!。 ")


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise WrongArgument(f"{name}={value!r}; expected a text that is not empty", name=name, value=value)


def _check_place(place: str) -> None:
    if place == RETRIEVE:
        hint = "look it up at its source when it is needed"
        raise WrongArgument("a fact that retrieval brings back is not stored", hint=hint, name="place", value=place)
    if place not in (LONG_TERM, SHORT_TERM):
        raise unknown_name("place", place, [LONG_TERM, SHORT_TERM])


def _stamp(moment: datetime | str) -> str:
    """A moment as the tables hold it: ISO 8601 in UTC with milliseconds, so that the order of texts is that of time."""
    try:
        when = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        if when.tzinfo is None:
            raise ValueError("it has no time zone")
        return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, AttributeError, OverflowError) as error:
        hint = 'give an aware datetime, or text such as "2026-09-04T10:00:00Z"'
        raise WrongArgument(
            f"{moment!r} is no moment in time: {error}", hint=hint, name="expires_at", value=moment
        ) from None
