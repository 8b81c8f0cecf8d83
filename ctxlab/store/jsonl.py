"""The default store: a folder with one JSONL file a session, only ever appended to.

``ID.jsonl`` is the log and the only truth. ``ID.meta.json`` and ``ID.snapshot.json`` can be made again from it, and
are replaced as a whole. ``ID.torn-OFFSET`` holds the bytes of an incomplete last line that a crash left at that
offset. A line is acknowledged when it and everything before it is on disk (fdatasync; the folder too on creation).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ctxlab.errors import SessionBusy, SessionExists, StoreError, UnknownSession, unknown_name
from ctxlab.lines import read_lines
from ctxlab.store import Read, check_name
from ctxlab.store.locks import Handle, lock, unlock

_BINARY = getattr(os, "O_BINARY", 0)


def flush(handle: int) -> None:
    """Returns when the file's bytes and its length are on disk, as far as the system can say."""
    if sys.platform == "darwin":  # pragma: no cover
        import fcntl

        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)  # macOS: fsync leaves the bytes in the drive's own cache
    elif hasattr(os, "fdatasync"):
        os.fdatasync(handle)
    else:  # pragma: no cover
        os.fsync(handle)


def flush_folder(folder: Path) -> None:
    """Returns when the folder's entries are on disk. Windows cannot and need not: it writes them with the file."""
    if os.name == "nt":  # pragma: no cover
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, data: bytes) -> None:
    """Replaces a file as a whole, durably: who reads it sees the old bytes or the new ones, never half."""
    beside = path.with_name(path.name + ".tmp")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, 0o644)
    try:
        _write(handle, data)
        flush(handle)
    finally:
        os.close(handle)
    os.replace(beside, path)
    flush_folder(path.parent)


class FolderStore:
    """Sessions as files in one folder, which is made where it is missing. See `ctxlab.store.Store`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()
        if not self.folder.is_dir():
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                flush_folder(self.folder.parent)
            except OSError as error:
                raise StoreError(f"cannot make the folder {self.folder}: {error.strerror}") from error

    @property
    def url(self) -> str:
        """The folder as a ``file://`` URL."""
        return self.folder.as_uri()

    def _path(self, name: str, kind: str) -> Path:
        return self.folder / f"{check_name(name)}{kind}"

    def names(self) -> list[str]:
        """The ids of all sessions, sorted."""
        return sorted(path.name[: -len(".jsonl")] for path in self.folder.glob("*.jsonl"))

    def exists(self, name: str) -> bool:
        """Whether the session's log is there."""
        return self._path(name, ".jsonl").exists()

    def create(self, name: str, lines: Sequence[bytes] = ()) -> None:
        """A new session. It appears with all its first lines or not at all."""
        path, beside = self._path(name, ".jsonl"), self._path(name, ".jsonl.tmp")
        target = beside if lines else path
        flags = os.O_WRONLY | os.O_CREAT | _BINARY | (os.O_TRUNC if lines else os.O_EXCL)
        try:
            handle = os.open(target, flags, 0o644)
            try:
                _write(handle, b"".join(lines))
                flush(handle)
            finally:
                os.close(handle)
            if lines:
                os.link(beside, path)
                os.unlink(beside)
        except FileExistsError:
            raise _exists(name) from None
        except OSError as error:
            raise StoreError(f"session {name!r} could not be made: {error.strerror}", session=name) from error
        flush_folder(self.folder)

    def read(self, name: str, position: int = 0) -> Read:
        """What the log holds from a byte offset on."""
        try:
            with open(self._path(name, ".jsonl"), "rb") as file:
                file.seek(position)
                return _whole_lines(file.read(), position)
        except FileNotFoundError:
            raise unknown_session(name, self.names()) from None
        except OSError as error:
            raise StoreError(f"the log of {name!r} could not be read: {error.strerror}", session=name) from error

    def writer(self, name: str) -> FileWriter:
        """A writer on a handle of its own, which it keeps."""
        path = self._path(name, ".jsonl")
        if not path.exists():
            raise unknown_session(name, self.names())
        return FileWriter(name, path)

    def read_meta(self, name: str) -> dict[str, Any] | None:
        """The meta file's data, or None where it is missing or is not a JSON object."""
        try:
            meta = json.loads(self._path(name, ".meta.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return meta if isinstance(meta, dict) else None

    def write_meta(self, name: str, meta: dict[str, Any]) -> None:
        """Replaces the meta file."""
        self._replace(name, ".meta.json", _pretty(meta))

    def read_snapshot(self, name: str) -> bytes | None:
        """The snapshot file, or None."""
        try:
            return self._path(name, ".snapshot.json").read_bytes()
        except FileNotFoundError:
            return None

    def write_snapshot(self, name: str, snapshot: bytes | None) -> None:
        """Replaces or removes the snapshot file."""
        if snapshot is None:
            self._path(name, ".snapshot.json").unlink(missing_ok=True)
        else:
            self._replace(name, ".snapshot.json", snapshot)

    def _replace(self, name: str, kind: str, data: bytes) -> None:
        path = self._path(name, kind)
        try:
            write_whole(path, data)
        except OSError as error:
            raise StoreError(
                f"{path.name} could not be written: {error.strerror}",
                hint="the log itself is untouched, and the file can be made again from it",
                session=name,
            ) from error

    def delete(self, name: str) -> None:
        """Removes the session's files, the log first."""
        writer = self.writer(name)
        writer.acquire(0)
        try:
            self._path(name, ".jsonl").unlink()
            for path in self.folder.glob(f"{name}.*"):
                rest = path.name[len(name) :]
                if rest in (".meta.json", ".snapshot.json") or rest.startswith(".torn-"):
                    path.unlink(missing_ok=True)
            flush_folder(self.folder)
        finally:
            writer.close()

    def close(self) -> None:
        """Nothing is held open between calls."""


class FileWriter:
    """The writer of one log file. See `ctxlab.store.Writer`."""

    def __init__(self, name: str, path: Path) -> None:
        self._name = name
        self._path = path
        self._file = Handle(path, os.O_RDWR | os.O_APPEND)
        self._handle = -1
        self._end = 0
        self._cut_due = False
        self._held = False

    def acquire(self, position: int, *, wait: bool | float = False) -> Read:
        """Locks the file, mends its end, and reads on from ``position`` (a byte offset)."""
        self._handle = self._open()
        if not lock(self._handle, wait=wait):
            raise SessionBusy(
                f"session {self._name!r} is held by another writer",
                hint="wait=True waits for it, wait=5.0 for five seconds at most; reading needs no lock",
                session=self._name,
            )
        self._held = True
        try:
            return self._catch_up(position)
        except BaseException:
            self.release()
            raise

    def _open(self) -> int:
        try:
            return self._file.get()
        except FileNotFoundError:
            raise unknown_session(self._name, []) from None
        except OSError as error:
            raise self._failed("opened for writing", error) from error

    def _catch_up(self, position: int) -> Read:
        state = os.fstat(self._handle)
        if state.st_nlink == 0:
            raise unknown_session(self._name, [])
        self._cut_due = False
        self._end = state.st_size
        if state.st_size == position:
            return Read(b"", position)
        if state.st_size < position:
            raise StoreError(
                f"the log of {self._name!r} is {state.st_size} bytes long, and {position} had been read",
                hint="something else cut it short; open the session anew",
                session=self._name,
            )
        read = _whole_lines(_read_at(self._handle, position, state.st_size - position), position)
        if not read.tail:
            return read
        try:
            return self._mend(read)
        except OSError as error:
            raise self._failed("mended", error) from error

    def _mend(self, read: Read) -> Read:
        """Ends the last line where it is a whole record, else moves it into a file of its own and cuts it off."""
        if read_lines(read.tail).events:
            _write(self._handle, b"\n")
            flush(self._handle)
            self._end = read.position + len(read.tail) + 1
            return Read(read.data + read.tail + b"\n", self._end)
        aside = self._set_aside(read.tail, read.position)
        self._end = read.position
        self._cut_back()
        return Read(read.data, read.position, set_aside=str(aside), torn=len(read.tail))

    def _set_aside(self, tail: bytes, offset: int) -> Path:
        stem = self._path.name[: -len(".jsonl")]
        number = 1
        while True:
            path = self._path.with_name(f"{stem}.torn-{offset}{f'-{number}' if number > 1 else ''}")
            # The same bytes there already: an earlier opening was stopped between setting aside and cutting off.
            if not path.exists() or path.read_bytes() == tail:
                write_whole(path, tail)
                return path
            number += 1

    def append(self, lines: Sequence[bytes], *, durable: bool = True) -> int:
        """Writes whole lines in one go; cuts back to where the log ended if anything fails."""
        if not self._held:
            raise StoreError(f"append to {self._name!r} without its lock", hint="acquire first", session=self._name)
        data = b"".join(lines)
        try:
            if self._cut_due:
                self._cut_back()
            _write(self._handle, data)
            if durable:
                flush(self._handle)
        except OSError as error:
            self._undo()
            raise self._failed("written", error) from error
        end = os.lseek(self._handle, 0, os.SEEK_CUR)
        if end != self._end + len(data):
            raise StoreError(
                f"{end - self._end - len(data)} bytes were written to {self._path.name} by something without the lock",
                hint="the new lines are stored; open the session anew to read everything",
                session=self._name,
            )
        self._end = end
        return end

    def _undo(self) -> None:
        """Cuts the log back; where that fails too, it is done before anything else is written."""
        self._cut_due = True
        try:
            self._cut_back()
        except OSError:
            return

    def _cut_back(self) -> None:
        os.ftruncate(self._handle, self._end)
        flush(self._handle)
        self._cut_due = False

    def release(self) -> None:
        """Gives the lock back, and forgets what could not be cut off: the next holder reads or mends it."""
        if self._held and self._file.own:
            if self._cut_due:
                self._undo()
            unlock(self._handle)
        self._held = self._cut_due = False

    def close(self) -> None:
        """Gives back the lock and the handle."""
        self.release()
        self._file.close()

    def _failed(self, what: str, error: OSError) -> StoreError:
        return StoreError(
            f"{self._path.name} could not be {what}: {error.strerror} (what was acknowledged before is whole)",
            hint="nothing of the last write is kept; make room or mend the disk, then append again",
            session=self._name,
        )


def _pretty(meta: dict[str, Any]) -> bytes:
    return json.dumps(meta, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass") + b"\n"


def _whole_lines(data: bytes, position: int) -> Read:
    border = data.rfind(b"\n") + 1
    if border == len(data):
        return Read(data, position + border)
    return Read(data[:border], position + border, data[border:])


def _read_at(handle: int, position: int, length: int) -> bytes:
    os.lseek(handle, position, os.SEEK_SET)
    pieces = []
    while length > 0:
        piece = os.read(handle, min(length, 2**30))
        if not piece:
            break
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def _write(handle: int, data: bytes) -> None:
    """Writes all of it; the system may take it in pieces. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _exists(name: str) -> SessionExists:
    return SessionExists(f"there is a session {name!r} already", hint="open it, or choose another id", session=name)


def unknown_session(name: str, known: list[str]) -> UnknownSession:
    """The error for a session that is not there, with the closest id that is."""
    hint = unknown_name("", name, known).hint if known else ""
    return UnknownSession(f"no session {name!r}", hint=hint, session=name, known=known)
