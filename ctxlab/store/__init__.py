"""Where the logs of sessions live, behind one small interface, chosen by URL.

A folder (``.sessions``, ``file:///srv/sessions``) holds one JSONL file a session; ``sqlite:///lab.db`` and
``postgresql://host/db`` hold the same lines in two tables. A store keeps lines and hands them back in order, lets one
writer in at a time, and makes an append durable. What the lines mean is `log`'s part.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ctxlab.errors import StoreError, UnknownName, unknown_name

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Read:
    """A stretch of a log: ``data`` is whole lines, ``tail`` the bytes after the last newline (usually none).

    ``position`` is where the next read goes on, after ``data``; it means something to the store only. ``set_aside``
    says where a torn tail was put, when this call was the one that did it ("" otherwise); ``torn`` is its length.
    """

    data: bytes
    position: int
    tail: bytes = b""
    set_aside: str = ""
    torn: int = 0


class Writer(Protocol):
    """The one writer of a session. Not for use by several threads at once."""

    def acquire(self, position: int, *, wait: bool | float = False) -> Read:
        """Takes the session's lock over all processes, mends what a crashed writer left at the end of the log, and
        returns what others wrote since ``position``. Raises `SessionBusy` where another holds it (``wait`` blocks
        until it is free; a number: for so many seconds at most), `StoreError` where the log is now shorter than
        ``position``."""
        ...

    def append(self, lines: Sequence[bytes], *, durable: bool = True) -> int:
        """Adds whole lines, all or none; on disk on return if ``durable``. Returns the new position.

        Raises `StoreError`; the log then ends where it ended before."""
        ...

    def release(self) -> None:
        """Gives the lock back."""
        ...

    def close(self) -> None:
        """Gives up the lock and the handle."""
        ...


class Store(Protocol):
    """All the sessions of one place."""

    @property
    def url(self) -> str:
        """What `open_store` was given, in full."""
        ...

    def names(self) -> list[str]:
        """The ids of all sessions, sorted."""
        ...

    def exists(self, name: str) -> bool:
        """Whether there is a session of that id."""
        ...

    def create(self, name: str, lines: Sequence[bytes] = ()) -> None:
        """A new session with these first lines, durable on return. Raises `SessionExists`."""
        ...

    def read(self, name: str, position: int = 0) -> Read:
        """What the log holds from a position on. Takes no lock. Raises `UnknownSession`."""
        ...

    def writer(self, name: str) -> Writer:
        """A writer, which does not hold the lock yet. Raises `UnknownSession`."""
        ...

    def read_meta(self, name: str) -> dict[str, Any] | None:
        """The session's meta data (id, parentId, forkedAt, watermark, ...), or None where it is missing or broken:
        all of it can be made again from the log."""
        ...

    def write_meta(self, name: str, meta: dict[str, Any]) -> None:
        """Replaces the meta data as a whole: a reader sees the old or the new, never half."""
        ...

    def read_snapshot(self, name: str) -> bytes | None:
        """The cached snapshot, or None."""
        ...

    def write_snapshot(self, name: str, snapshot: bytes | None) -> None:
        """Replaces the snapshot as a whole; None deletes it."""
        ...

    def delete(self, name: str) -> None:
        """Removes a session and all that belongs to it. Raises `UnknownSession`, or `SessionBusy` while it is held."""
        ...

    def close(self) -> None:
        """Closes what the store holds open."""
        ...


def open_store(url: str | os.PathLike[str]) -> Store:
    """The store of a URL or a folder; it is made where it is missing.

    A path or ``file://`` URL is a folder of JSONL files (the default); ``sqlite:///file`` and ``postgresql://...``
    need the extra ``sql``. Raises `UnknownName` for another scheme.
    """
    text = os.fspath(url)
    scheme, colon, _ = text.partition("://")
    if not colon:
        from ctxlab.store.jsonl import FolderStore

        return FolderStore(text)
    kind = scheme.partition("+")[0]
    if kind == "file":
        from urllib.parse import urlsplit
        from urllib.request import url2pathname

        from ctxlab.store.jsonl import FolderStore

        return FolderStore(url2pathname(urlsplit(text).path))
    if kind in ("sqlite", "postgresql", "postgres"):
        try:
            from ctxlab.store.sql import SqlStore
        except ImportError as error:
            raise StoreError(
                f"{kind} needs SQLAlchemy, which is not installed ({error})", hint="pip install 'ctxlab[sql]'"
            ) from None
        return SqlStore(text)
    raise unknown_name("kind of store", scheme, ["file", "sqlite", "postgresql"])


def check_name(name: str) -> str:
    """The id, if it can be a file's name on every system; raises `UnknownName` otherwise."""
    if isinstance(name, str) and _ID.fullmatch(name) and not name.endswith("."):
        return name
    raise UnknownName(
        f"{name!r} cannot be a session's id",
        hint="use letters, digits, '-', '_' and '.', starting with a letter or digit, at most 100 characters",
        name=name,
        known=[],
    )
