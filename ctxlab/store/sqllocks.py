"""The lock of one session of a database, over all processes that use it."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sql

from ctxlab.store.locks import Handle, lock, unlock, within


class Lock(Protocol):
    """Taken and given back on the writer's connection."""

    def take(self, connection: sql.Connection, *, wait: bool | float) -> bool:
        """Takes it; False where another has it. ``wait`` blocks until it is free (a number: for so many
        seconds at most)."""
        ...

    def give_back(self, connection: sql.Connection) -> None:
        """Frees it."""
        ...

    def close(self) -> None:
        """Closes what the lock itself holds open."""
        ...


class AdvisoryLock:
    """PostgreSQL's own lock on a number, made from the session's id; the server frees it when the connection ends."""

    def __init__(self, name: str) -> None:
        digest = hashlib.sha256(f"ctxlab session {name}".encode()).digest()
        self._key = int.from_bytes(digest[:8], signed=True)

    def take(self, connection: sql.Connection, *, wait: bool | float) -> bool:
        """Takes it on this connection, for as long as that lives."""

        def attempt(function: Any) -> bool:
            answer = connection.execute(sql.select(function(self._key))).scalar()
            connection.commit()
            return wait is True or bool(answer)

        if wait is True:
            return attempt(sql.func.pg_advisory_lock)
        return within(wait, lambda: attempt(sql.func.pg_try_advisory_lock))

    def give_back(self, connection: sql.Connection) -> None:
        """Frees it."""
        connection.execute(sql.select(sql.func.pg_advisory_unlock(self._key)))
        connection.commit()

    def close(self) -> None:
        """Nothing of its own is open."""


class FileLock:
    """A locked file in a folder beside the SQLite database; the system frees it when the process ends."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._file = Handle(folder / f"{name.replace('/', '~')}.lock", os.O_RDWR | os.O_CREAT)

    def take(self, connection: sql.Connection, *, wait: bool | float) -> bool:
        """Takes it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return lock(self._file.get(), wait=wait)

    def give_back(self, connection: sql.Connection) -> None:
        """Frees it."""
        unlock(self._file.get())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class MemoryLock:
    """For a database in memory, which one process alone can reach."""

    _all: dict[tuple[int, str], threading.Lock] = {}  # noqa: RUF012 (shared on purpose)

    def __init__(self, key: tuple[int, str]) -> None:
        self._lock = self._all.setdefault(key, threading.Lock())

    def take(self, connection: sql.Connection, *, wait: bool | float) -> bool:
        """Takes it."""
        return self._lock.acquire(timeout=-1 if wait is True else max(0.0, wait))

    def give_back(self, connection: sql.Connection) -> None:
        """Frees it."""
        self._lock.release()

    def close(self) -> None:
        """Nothing is open."""
