"""Sessions in a database: SQLite in one file, PostgreSQL for a service with several instances. SQLAlchemy Core.

Two tables: ``ctxlab_sessions`` (a row each, with the meta data and the snapshot) and ``ctxlab_messages`` (a row for
each line of the log, in order, as the same text that a JSONL file would hold). A third holds the version of this
layout, so that a later one can bring an older database up to date. A position is the number of the last row read.

One writer: on PostgreSQL an advisory lock of the writer's own connection, which the server frees when that is gone; on
SQLite a locked file beside the database. Readers never block.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from ctxlab.errors import SessionBusy, SessionExists, StoreError
from ctxlab.lines import loads
from ctxlab.store import Read, check_name
from ctxlab.store.jsonl import unknown_session
from ctxlab.store.sqllocks import AdvisoryLock, FileLock, Lock, MemoryLock

VERSION = 1
"""The layout that this ctxlab writes."""

MIGRATIONS: dict[int, Callable[[sql.Connection], None]] = {}
"""From each older version, what makes it the next one; run in one transaction, in order."""

_TABLES = sql.MetaData()
_SCHEMA = sql.Table("ctxlab_schema", _TABLES, sql.Column("version", sql.Integer, nullable=False))
_SESSIONS = sql.Table(
    "ctxlab_sessions",
    _TABLES,
    sql.Column("id", sql.String(100), primary_key=True),
    sql.Column("parent_id", sql.String(100)),
    sql.Column("forked_at", sql.Integer),
    sql.Column("watermark", sql.BigInteger),
    sql.Column("created_at", sql.String(40)),
    sql.Column("meta", sql.Text),
    sql.Column("snapshot", sql.LargeBinary),
)
_MESSAGES = sql.Table(
    "ctxlab_messages",
    _TABLES,
    sql.Column("session_id", sql.String(100), primary_key=True),
    sql.Column("n", sql.BigInteger, primary_key=True, autoincrement=False),
    sql.Column("seq", sql.BigInteger),
    sql.Column("kind", sql.String(40)),  # the role of a message, the kind of another event
    sql.Column("line", sql.Text, nullable=False),
)

_INSERT = sql.insert(_MESSAGES)
_SELECT = (
    sql.select(_MESSAGES.c.n, _MESSAGES.c.line)
    .where(_MESSAGES.c.session_id == sql.bindparam("name"), _MESSAGES.c.n > sql.bindparam("position"))
    .order_by(_MESSAGES.c.n)
)


class SqlStore:
    """Sessions in a database, which is prepared where it is empty. See `ctxlab.store.Store`."""

    def __init__(self, url: str) -> None:
        where = sql.make_url(url.replace("postgres://", "postgresql://", 1))
        if where.drivername == "postgresql":
            where = where.set(drivername="postgresql+psycopg")
        self._lite = where.get_backend_name() == "sqlite"
        self._file = (
            Path(where.database).absolute() if self._lite and where.database not in (None, ":memory:") else None
        )
        # Every open session keeps a connection, so their number has no limit but the server's.
        options: dict[str, Any] = {"max_overflow": -1, "pool_pre_ping": not self._lite}
        if self._lite:
            options["connect_args"] = {"check_same_thread": False, "timeout": 60.0}
            if self._file is None:
                options = {"connect_args": options["connect_args"], "poolclass": sql.StaticPool}
        self._engine = sql.create_engine(where, **options)
        if self._lite:
            sql.event.listen(self._engine, "connect", _prepare_sqlite)
        self._process = os.getpid()
        with self._failing("opened"):
            self._prepare()

    @property
    def url(self) -> str:
        """The database's URL, its password hidden."""
        return self._engine.url.render_as_string(hide_password=True)

    def engine(self) -> sql.Engine:
        """The engine; a forked process gets connections of its own."""
        if self._process != os.getpid():
            self._engine.dispose(close=False)
            self._process = os.getpid()
        return self._engine

    def _prepare(self) -> None:
        """Makes the tables, or brings older ones up to date, while no other process does."""
        guard = self.lock_of("/schema")  # no session can have that id
        with self.engine().connect() as connection:
            guard.take(connection, wait=True)
            try:
                with connection.begin():
                    self._bring_up_to_date(connection)
            finally:
                guard.give_back(connection)
                guard.close()

    def _bring_up_to_date(self, connection: sql.Connection) -> None:
        _TABLES.create_all(connection)
        found = connection.execute(sql.select(_SCHEMA.c.version)).scalar()
        if found is None:
            connection.execute(sql.insert(_SCHEMA).values(version=VERSION))
        elif found > VERSION:
            raise StoreError(
                f"{self.url} has layout {found}, made by a later ctxlab; this one writes layout {VERSION}",
                hint="upgrade ctxlab",
            )
        for version in range(found or VERSION, VERSION):
            MIGRATIONS[version](connection)
            connection.execute(sql.update(_SCHEMA).values(version=version + 1))

    def lock_of(self, name: str) -> Lock:
        """The lock of one session, not taken yet."""
        if not self._lite:
            return AdvisoryLock(name)
        if self._file is None:
            return MemoryLock((id(self._engine), name))
        return FileLock(self._file.with_name(f"{self._file.name}-locks"), name)

    @contextmanager
    def _failing(self, what: str, name: str = "") -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            if isinstance(error, StoreError):
                raise
            raise failed(what, name, error) from error

    def names(self) -> list[str]:
        """The ids of all sessions, sorted."""
        with self._failing("read"), self.engine().connect() as connection:
            return sorted(connection.execute(sql.select(_SESSIONS.c.id)).scalars())

    def exists(self, name: str) -> bool:
        """Whether the session has its row."""
        query = sql.select(_SESSIONS.c.id).where(_SESSIONS.c.id == check_name(name))
        with self._failing("read", name), self.engine().connect() as connection:
            return connection.execute(query).scalar() is not None

    def create(self, name: str, lines: Sequence[bytes] = ()) -> None:
        """A new session, with its first lines or not at all."""
        try:
            with self._failing("made", name), self.engine().begin() as connection:
                connection.execute(sql.insert(_SESSIONS).values(id=check_name(name)))
                insert_lines(connection, name, 0, lines)
        except StoreError as error:
            if isinstance(error.__cause__, IntegrityError):
                raise SessionExists(
                    f"there is a session {name!r} already", hint="open it, or choose another id", session=name
                ) from None
            raise

    def read(self, name: str, position: int = 0) -> Read:
        """The lines after row ``position``."""
        with self._failing("read", name), self.engine().connect() as connection:
            found = read_lines_of(connection, check_name(name), position)
        if not found.data and not self.exists(name):
            raise unknown_session(name, self.names())
        return found

    def writer(self, name: str) -> SqlWriter:
        """A writer on a connection of its own."""
        if not self.exists(name):
            raise unknown_session(name, self.names())
        return SqlWriter(self, name)

    def read_meta(self, name: str) -> dict[str, Any] | None:
        """The meta data, or None where there is none or it is no JSON object."""
        text = self._column(name, _SESSIONS.c.meta)
        try:
            meta = json.loads(text or "null")
        except ValueError:
            return None
        return meta if isinstance(meta, dict) else None

    def write_meta(self, name: str, meta: dict[str, Any]) -> None:
        """Replaces the meta data, and the columns that show it to SQL."""
        self._set(
            name,
            meta=json.dumps(meta, ensure_ascii=True),
            parent_id=meta.get("parentId"),
            forked_at=meta.get("forkedAt"),
            watermark=meta.get("watermark"),
            created_at=meta.get("createdAt"),
        )

    def read_snapshot(self, name: str) -> bytes | None:
        """The snapshot, or None."""
        found = self._column(name, _SESSIONS.c.snapshot)
        return None if found is None else bytes(found)

    def write_snapshot(self, name: str, snapshot: bytes | None) -> None:
        """Replaces or removes the snapshot."""
        self._set(name, snapshot=snapshot)

    def _column(self, name: str, column: sql.Column[Any]) -> Any:
        query = sql.select(column).where(_SESSIONS.c.id == check_name(name))
        with self._failing("read", name), self.engine().connect() as connection:
            return connection.execute(query).scalar()

    def _set(self, name: str, **values: Any) -> None:
        change = sql.update(_SESSIONS).where(_SESSIONS.c.id == check_name(name)).values(**values)
        with self._failing("written", name), self.engine().begin() as connection:
            connection.execute(change)

    def delete(self, name: str) -> None:
        """Removes the session's rows."""
        writer = self.writer(name)
        writer.acquire(0)
        try:
            with self._failing("deleted", name), self.engine().begin() as connection:
                connection.execute(sql.delete(_MESSAGES).where(_MESSAGES.c.session_id == name))
                connection.execute(sql.delete(_SESSIONS).where(_SESSIONS.c.id == name))
        finally:
            writer.close()

    def close(self) -> None:
        """Closes the connections."""
        self._engine.dispose(close=self._process == os.getpid())


class SqlWriter:
    """The writer of one session. See `ctxlab.store.Writer`."""

    def __init__(self, store: SqlStore, name: str) -> None:
        self._store = store
        self._name = name
        self._lock = store.lock_of(name)
        self._connection: sql.Connection | None = None
        self._process = 0
        self._held = False
        self._end = 0
        self._durable = True

    def acquire(self, position: int, *, wait: bool | float = False) -> Read:
        """Takes the session's lock and reads on from row ``position``."""
        try:
            connection = self._connect()
            if not self._lock.take(connection, wait=wait):
                raise SessionBusy(
                    f"session {self._name!r} is held by another writer",
                    hint="wait=True waits for it, wait=5.0 for five seconds at most; reading needs no lock",
                    session=self._name,
                )
            self._held = True
            found = self._catch_up(connection, position)
        except BaseException as error:
            self.release()
            if isinstance(error, SQLAlchemyError):
                raise failed("locked", self._name, error) from error
            raise
        self._end = found.position
        return found

    def _connect(self) -> sql.Connection:
        if self._connection is None or self._process != os.getpid():
            self._connection = self._store.engine().connect()
            self._process = os.getpid()
        return self._connection

    def _catch_up(self, connection: sql.Connection, position: int) -> Read:
        """Reads from the last row that is known on, so that one query also shows that it is still there."""
        with connection.begin():
            found = read_lines_of(connection, self._name, max(0, position - 1))
        if position == 0:
            if not found.data and not self._store.exists(self._name):
                raise unknown_session(self._name, [])
            return found
        if found.position < position:
            if not self._store.exists(self._name):
                raise unknown_session(self._name, [])
            raise StoreError(
                f"the log of {self._name!r} ends at row {found.position}, and row {position} had been read",
                hint="something else cut it short; open the session anew",
                session=self._name,
            )
        return Read(found.data[found.data.index(b"\n") + 1 :], found.position)

    def append(self, lines: Sequence[bytes], *, durable: bool = True) -> int:
        """Adds rows in one transaction; on disk on return if ``durable``."""
        if not self._held or self._connection is None:
            raise StoreError(f"append to {self._name!r} without its lock", hint="acquire first", session=self._name)
        try:
            if durable != self._durable:
                self._make_durable(self._connection, durable)
            with self._connection.begin():
                insert_lines(self._connection, self._name, self._end, lines)
        except SQLAlchemyError as error:
            raise failed("written", self._name, error) from error
        self._end += len(lines)
        return self._end

    def _make_durable(self, connection: sql.Connection, durable: bool) -> None:
        """Whether the commits of this connection wait for the disk."""
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        else:
            connection.exec_driver_sql(f"SET synchronous_commit TO {'on' if durable else 'off'}")
        connection.commit()
        self._durable = durable

    def release(self) -> None:
        """Gives the lock back."""
        if self._held and self._connection is not None and self._process == os.getpid():
            try:
                self._lock.give_back(self._connection)
            except SQLAlchemyError:  # the connection is gone, and the server has freed its lock
                self._connection.invalidate()
        self._held = False

    def close(self) -> None:
        """Gives back the lock and the connection."""
        self.release()
        self._lock.close()
        if self._connection is not None and self._process == os.getpid():
            if not self._durable and not self._connection.invalidated:
                self._make_durable(self._connection, True)
            self._connection.close()
        self._connection = None


def read_lines_of(connection: sql.Connection, name: str, position: int) -> Read:
    """The lines after a row, and the number of the last one."""
    rows = connection.execute(_SELECT, {"name": name, "position": position}).all()
    if not rows:
        return Read(b"", position)
    return Read("".join([f"{line}\n" for _, line in rows]).encode(), rows[-1][0])


def insert_lines(connection: sql.Connection, name: str, after: int, lines: Sequence[bytes]) -> None:
    """Adds lines as the rows after ``after``."""
    if lines:
        connection.execute(_INSERT, [_row(name, n, line[:-1]) for n, line in enumerate(lines, after + 1)])


def _row(name: str, n: int, line: bytes) -> dict[str, Any]:
    data = loads(line)
    kind = data.get("event") or data.get("role")
    return {"session_id": name, "n": n, "seq": data["seq"], "kind": str(kind)[:40], "line": line.decode()}


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """Readers beside the writer (WAL), and a commit that waits for the disk."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def failed(what: str, name: str, error: Exception) -> StoreError:
    """The database's error in this package's words."""
    cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
    subject = f"session {name!r}" if name else "the database"
    if what in ("opened", "read"):
        return StoreError(
            f"{subject} could not be {what}: {cause}", hint="look at the URL and the server", session=name
        )
    return StoreError(
        f"{subject} could not be {what}: {cause} (what was acknowledged before is whole)",
        hint="nothing of the last write is kept; mend the database, then try again",
        session=name,
    )
