"""A session file in its published shape, and a fork of a session, each as one plain function.

These are the reference answers to two of the exercises, and what a learner's session file looks like: one JSON object
a line, ``{"seq": 1, "role": "user", "content": "...", "ts": "2026-09-04T10:00:00.000000Z"}``. A production session
(events, locks held for a turn, compaction, forks by reference) is `session`'s; nothing here knows of it.
"""

from __future__ import annotations

import copy
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from ctxlab.errors import CutIndexError, ForkRefused, LogFormatError
from ctxlab.rounds import align_to_turn_start, pairing

BLOCK = 1 << 16  # bytes read at a time, from the end


def last_seq(path: str | os.PathLike[str]) -> int:
    """The ``seq`` of the last whole line of a session file; 0 for no file and for an empty one.

    Reads from the end, so it costs the same for ten lines and for ten thousand. A torn last line (no newline) is not a
    line. Raises `LogFormatError` where the last whole line is not a record with a ``seq``.
    """
    try:
        with open(path, "rb") as file:
            return _last_seq(file, str(path))
    except FileNotFoundError:
        return 0


def append_message(path: str | os.PathLike[str], message: Mapping[str, Any]) -> dict[str, Any]:
    """Append a message to a session file as one JSON line, and return the record that was written.

    The record is the message with ``seq`` (consecutive, from 1) and ``ts`` (the time in UTC, with its offset). When it
    returns, the line is on disk. Folders that are missing are made. Two processes that append at once take turns: the
    file is locked while its last ``seq`` is read and the line is written (on POSIX). A torn last line, left by a crash,
    is closed with a newline so that it does not swallow this one.

    Raises `LogFormatError` where the file's last line is not a record, ValueError and TypeError where the message is
    not JSON data, and `OSError`.
    """
    place = Path(path)
    made = _make_folder(place.parent)
    with open(place, "a+b") as file, _locked(file):
        created = file.seek(0, os.SEEK_END) == 0
        seq = _last_seq(file, str(place)) + 1
        record = {"seq": seq, **copy.deepcopy(dict(message)), "ts": _now()}
        record["seq"] = seq  # also where the message came with one, from another session
        line = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        if any("\ud800" <= char <= "\udfff" for char in line):
            line = json.dumps(record, allow_nan=False, separators=(",", ":"))  # half characters have no UTF-8
        file.write((b"" if _ends_whole(file) else b"\n") + line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    for folder in {place.parent, *made} if created else ():
        _sync_folder(folder)
    return record


def fork_session(parent: Mapping[str, Any], at_index: int) -> dict[str, Any]:
    """A new session that begins with the first messages of ``parent``, by a deep copy; the parent is left as it is.

    ``parent`` has at least ``id`` and ``messages``. The cut is ``at_index`` (0 to the number of messages, both
    included), moved back where it would part a call from its result. The fork has a fresh ``id``, ``parent_id``,
    ``forked_at`` (the aligned cut), ``messages`` (the first ``forked_at``) and ``created_at`` (UTC).

    Raises `CutIndexError` outside of the session, and `ForkRefused` where the fork would begin with a call that is
    still being answered: both name the cuts that are possible.

    >>> child = fork_session({"id": "s-1", "messages": [{"role": "user", "content": "hello"}]}, 1)
    >>> child["parent_id"], child["forked_at"], child["messages"]
    ('s-1', 1, [{'role': 'user', 'content': 'hello'}])
    """
    messages = parent["messages"]
    if isinstance(at_index, bool) or not isinstance(at_index, int) or not 0 <= at_index <= len(messages):
        raise CutIndexError(
            f"cannot fork at {at_index!r}: the session has {len(messages)} messages",
            hint=f"give a cut from 0 to {len(messages)}",
            index=at_index,
            length=len(messages),
        )
    cut = align_to_turn_start(messages, at_index)
    unanswered = [call.index for call in pairing(messages[:cut]).open]
    if unanswered:
        before = unanswered[0]
        raise ForkRefused(
            f"cannot fork at {cut}: message {before} makes a call that has no result",
            hint=f"fork at {before}, before the call, or when its result is there",
            index=cut,
            before=before,
            after=None,  # the aligned cut is past every result there is, so no later cut closes the turn
        )
    return {
        "id": f"s-{uuid.uuid4().hex[:12]}",
        "parent_id": parent["id"],
        "forked_at": cut,
        "messages": copy.deepcopy(list(messages[:cut])),
        "created_at": _now(),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _last_seq(file: IO[bytes], name: str) -> int:
    last = b""
    for line in _lines_from_the_end(file):
        last = last or line
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # a line that a crash tore and a later writer closed: the record before it decides
        seq = record.get("seq") if isinstance(record, dict) else None
        if isinstance(seq, int) and not isinstance(seq, bool):
            return seq
    if not last:
        return 0
    raise LogFormatError(
        f"{name}: no line of it is a record with a seq; the last is {last[:80]!r}",
        hint="name a session file, or set this one aside",
        file=name,
        line=None,
        expected='{"seq": 1, "role": "user", "content": "...", "ts": "..."}',
    )


def _lines_from_the_end(file: IO[bytes]) -> Iterator[bytes]:
    """The file's whole lines, last one first, blank ones and a torn tail left out."""
    end = file.seek(0, os.SEEK_END)
    begun = None  # the part of a line whose beginning is not read yet; None: still in the torn tail
    while end > 0:
        start = max(0, end - BLOCK)
        file.seek(start)
        first, *whole = (file.read(end - start) + (begun or b"")).split(b"\n")
        if begun is None and whole:
            whole.pop()
            begun = b""
        yield from (line for line in reversed(whole) if line.strip())
        begun = first if whole or begun is not None else None
        end = start
    if begun and begun.strip():
        yield begun


def _ends_whole(file: IO[bytes]) -> bool:
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _make_folder(folder: Path) -> list[Path]:
    """Make a folder and what is missing above it; the parents of the new ones, which hold their names."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return [place.parent for place in missing]


def _sync_folder(folder: Path) -> None:
    """Flush a folder's list of names, where the system can (a file is not durable before its name is)."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(file: IO[bytes]) -> Iterator[None]:
    """Hold the file against other writers that lock it too; released with it."""
    try:
        import fcntl
    except ImportError:  # Windows and the browser: one writer at a time is up to the caller there
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
