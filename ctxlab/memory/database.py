"""The tables of the memory, and a connection to them: one a store, safe beside other threads and processes.

Three tables and the index, all named ``ctxlab_memory_...``, so the database may hold other things too. The index's
tokenizer is FTS5's ``ascii``: it splits at spaces, since `words` has made the words already.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ctxlab.errors import StoreError

BUSY_SECONDS = 30.0
"""How long a writer waits for another process (picked)."""

VERSION = 1
"""The layout of the tables."""

_TABLES = """
CREATE TABLE IF NOT EXISTS ctxlab_memory_schema (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS ctxlab_memory_items (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    text TEXT NOT NULL,
    same TEXT NOT NULL,
    place TEXT NOT NULL,
    session TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    superseded_by INTEGER REFERENCES ctxlab_memory_items (id),
    seen INTEGER NOT NULL,
    last_seen_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS ctxlab_memory_same ON ctxlab_memory_items (same);
CREATE INDEX IF NOT EXISTS ctxlab_memory_superseded ON ctxlab_memory_items (superseded_by);
CREATE TABLE IF NOT EXISTS ctxlab_memory_sightings (
    item INTEGER NOT NULL REFERENCES ctxlab_memory_items (id),
    session TEXT NOT NULL,
    PRIMARY KEY (item, session)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS ctxlab_memory_words USING fts5(words, tokenize='ascii');
"""
_TERMS = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.ctxlab_memory_terms USING fts5vocab('main', 'ctxlab_memory_words', 'row')"
)
_SWITCH_ATTEMPTS = 20  # picked
_IN_MEMORY = ":memory:"
_INHERITED: list[sqlite3.Connection] = []  # a forked child must not even close its parent's connections


class Database:
    """One connection, opened at once and again after `close` or a fork. Raises `StoreError`."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = None
        with self.reading():
            pass

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, all reads in it from one moment."""
        with self._lock, self._failing("read"):
            connection = self._connected()
            with _transaction(connection, "BEGIN"):
                yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection, in a transaction that holds the write lock from its first read on."""
        with self._lock, self._failing("written"):
            connection = self._connected()
            with _transaction(connection, "BEGIN IMMEDIATE"):
                yield connection

    def close(self) -> None:
        """Closes the connection."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
                self._connection = None

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._process != os.getpid():
            if self.path == _IN_MEMORY:
                raise StoreError(
                    "a memory in ':memory:' belongs to the process that made it", hint="give it a file, to share it"
                )
            _INHERITED.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._process = os.getpid()
            self._connection = _open(self.path)
        return self._connection

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _failed(self.path, what, error) from error
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise _failed(self.path, what, error) from error


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _open(path: str) -> sqlite3.Connection:
    if path != _IN_MEMORY:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous=FULL")
        _let_readers_beside_the_writer(connection)
        _bring_up_to_date(connection, path)
        connection.execute(_TERMS)
    except BaseException:
        connection.close()
        raise
    return connection


def _let_readers_beside_the_writer(connection: sqlite3.Connection) -> None:
    """Switches the file to WAL, once for all that open it.

    The switch fails at once beside another writer, where all else waits as long as the busy time-out says: seen when
    several processes make one memory. So wait for a turn to write and try again; where that never succeeds the file
    works as it is, with readers that wait for the writer.
    """
    for _ in range(_SWITCH_ATTEMPTS):
        if connection.execute("PRAGMA journal_mode").fetchone() != ("delete",):
            return
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            with _transaction(connection, "BEGIN IMMEDIATE"):
                pass


def _bring_up_to_date(connection: sqlite3.Connection, path: str) -> None:
    if _version(connection) == VERSION:
        return
    with _transaction(connection, "BEGIN IMMEDIATE"):
        found = _version(connection)
        if found is None:
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute("INSERT INTO ctxlab_memory_schema VALUES (?)", (VERSION,))
        elif found != VERSION:
            raise StoreError(
                f"{path}: the memory has layout {found}, made by a later ctxlab; this one writes layout {VERSION}",
                hint="upgrade ctxlab",
            )


def _version(connection: sqlite3.Connection) -> int | None:
    """The layout of the tables, None where there are none yet."""
    named = "SELECT 1 FROM sqlite_master WHERE name = 'ctxlab_memory_schema'"
    if connection.execute(named).fetchone() is None:
        return None
    row = connection.execute("SELECT max(version) FROM ctxlab_memory_schema").fetchone()
    return None if row[0] is None else int(row[0])


def _failed(path: str, what: str, error: Exception) -> StoreError:
    """SQLite's error in this package's words."""
    text = str(error)
    hint = "nothing of the last change is kept, what was acknowledged before is whole; mend the file, then try again"
    if "no such module: fts5" in text:
        hint = (
            f"this Python's SQLite ({sqlite3.sqlite_version}) was built without FTS5, its full-text search; use a "
            'Python whose SQLite has it: python -c "import sqlite3; '
            "sqlite3.connect(':memory:').execute('create virtual table t using fts5(x)')\" says nothing there"
        )
    elif "locked" in text:
        hint = f"another process has been writing for {BUSY_SECONDS:.0f} s; try again when it is done"
    elif "not a database" in text:
        hint = "name another file for the memory; this one is left as it is"
    return StoreError(f"{path}: the memory could not be {what}: {text}", hint=hint)
