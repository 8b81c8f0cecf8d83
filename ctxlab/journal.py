"""The durable log of one session: read back, held by one writer at a time, written before it is changed in memory.

This is where a log meets its store. It opens with recovery (a torn end, a compaction that a crash cut off, calls that
were interrupted), takes in what other writers added, and keeps the meta data and the snapshot, both of which can be
made again from the log. What a session offers on top of it is in `session`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from ctxlab.errors import StoreError
from ctxlab.lines import REPLACE, Event, Problem, encode, now, read_lines
from ctxlab.log import SEED, Log
from ctxlab.recovery import Loaded, Recovery, collector_paused, load, repairs_of, snapshot_of
from ctxlab.store import Read, Store, Writer

Durability: TypeAlias = Literal["disk", "os"]

SNAPSHOT_PAYS = 2
"""A snapshot is kept where it holds at most one in so many of the log's events (picked): a snapshot of the same
messages is no faster to read than the log."""

_NOTHING = Read(b"", 0)


class Journal:
    """One session's log in its store. Made by `Journal.open`; ``recovery`` says what that found.

    ``durability`` "disk" returns from a write when the lines are on disk, "os" when the system has them. ``wait``
    waits for another writer in place of `SessionBusy`: as long as it takes, or for so many seconds at most. ``seed`` is
    the event that names the parent of a fork.
    """

    recovery: Recovery

    def __init__(self, store: Store, name: str, *, durability: Durability, wait: bool | float, readonly: bool) -> None:
        self.store = store
        self.id = name
        self.durability = durability
        self.wait = wait
        self.readonly = readonly
        self.log = Log()
        self.seed: Event | None = None
        self._from_snapshot = False
        self._writer: Writer | None = None
        self._position = 0
        self._lines = 0
        self._last_write: tuple[int, int] | None = None  # where the last write began, and how many events it had
        self._depth = 0
        self._thread_lock = threading.RLock()

    @classmethod
    def open(
        cls,
        store: Store,
        name: str,
        *,
        mode: str = "append",
        durability: Durability = "disk",
        wait: bool | float = False,
        readonly: bool = False,
        parent: Log | None = None,
    ) -> Journal:
        """The session's log, recovered; see `Session.open` for what that means and what it raises. ``parent`` is the
        parent's log, where the caller has it at hand."""
        journal = cls(store, name, durability=durability, wait=wait, readonly=readonly)
        with collector_paused():
            if readonly:
                journal._take(load(store, name, lambda position: store.read(name, position)))
                journal.recovery = journal._report()
                return journal
            journal._writer = store.writer(name)
            try:
                journal._recover(mode, parent)
            except BaseException:
                journal._writer.close()
                raise
        return journal

    def _recover(self, mode: str, parent: Log | None) -> None:
        writer = self._hand()
        reads: list[Read] = []

        def fetch(position: int) -> Read:
            writer.release()
            reads.append(writer.acquire(position, wait=self.wait))
            return reads[-1]

        try:
            self._take(load(self.store, self.id, fetch, parent=parent))
            stale, repairs = self.log.open_start, repairs_of(self.log, mode)
            torn = next((read for read in reads if read.torn), _NOTHING)
            self.recovery = self._report(torn, len(repairs), stale.seq if stale else None)
            items = [(SEED, {"stale": stale.seq}), *repairs] if stale else repairs
            if items:
                self.write(items)
            self.refresh_meta()
        finally:
            writer.release()

    def _take(self, loaded: Loaded) -> None:
        self.log, self._position, self._lines = loaded.log, loaded.position, loaded.lines
        self.seed, self._from_snapshot = loaded.seed, loaded.from_snapshot

    def _report(self, torn: Read = _NOTHING, repaired: int = 0, stale: int | None = None) -> Recovery:
        log = self.log
        return Recovery(
            messages=log.record_base + len(log.record),
            surface=log.size,
            watermark=log.watermark,
            repaired=repaired,
            torn=torn.torn,
            set_aside=torn.set_aside,
            stale_lock=stale,
            snapshot=self._from_snapshot,
            problems=tuple(log.problems),
        )

    def close(self) -> None:
        """Gives up the handle; keeps a snapshot where one pays."""
        if self._writer is not None:
            if not self._depth:
                self.keep_snapshot()
            self._writer.close()
            self._writer = None

    # Writing

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Holds the session's lock, over all processes and threads, until the block ends. Raises `SessionBusy`."""
        writer = self._hand()
        with self._thread_lock:
            if self._depth == 0:
                self._catch_up(writer.acquire(self._position, wait=self.wait))
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    writer.release()

    def write(self, items: Sequence[tuple[str, dict[str, Any]]]) -> list[Event]:
        """Writes events (kind, data) in one go; call it inside `turn`. The log in memory changes when they are stored.

        Raises `LogRefused` and `StoreError`, with the log unchanged here and on disk.
        """
        ts = now()
        lines, events = [], []
        for seq, (kind, data) in enumerate(items, self.log.last_seq + 1):
            line, event = encode(seq, kind, data, ts)
            if kind == REPLACE:
                self.log.span(event)
            lines.append(line)
            events.append(event)
        before = self._position
        self._position = self._hand().append(lines, durable=self.durability == "disk")
        self._lines += len(lines)
        self._last_write = (before, len(lines))
        for event in events:
            self.log.apply(event)
        return events

    def _hand(self) -> Writer:
        if self._writer is None:
            why = "was opened for reading only" if self.readonly else "is closed"
            raise StoreError(f"session {self.id!r} {why}", hint="open it again", session=self.id)
        return self._writer

    def refresh(self) -> None:
        """Takes in what other writers have added; needs no lock."""
        with self._thread_lock:
            read = self.store.read(self.id, self._position)
            self._catch_up(Read(read.data, read.position))

    def _catch_up(self, read: Read) -> None:
        if read.data:
            reading = read_lines(read.data, offset=self._position, line=self._lines)
            self.log.replay(reading)
            self._lines += reading.lines
            self._last_write = None
        if read.torn:
            text = f"an incomplete last line of {read.torn} bytes was set aside in {read.set_aside}"
            self.log.problems.append(Problem("torn", text, self._lines + 1, read.position))
        self._position = read.position

    # Reading

    def whole_log(self) -> Log:
        """The log with all its events: where it was started from a snapshot, the older ones are read now.

        Raises `ParentLost` where a fork's parent is gone."""
        if self.log.base:
            whole = load(self.store, self.id, lambda at: self.store.read(self.id, at), snapshot=False).log
            if whole.last_seq != self.log.last_seq:  # somebody went on; this journal takes that in at its next turn
                whole = whole.before(self.log.last_seq + 1)
            self.log = whole
        return self.log

    # Meta data and snapshot

    @property
    def own_from(self) -> int:
        """The last seq that the session has from its parent; 0 for a root."""
        return int(self.seed.data["parentSeq"]) if self.seed else 0

    def meta(self) -> dict[str, Any]:
        """What the meta file should hold, from the log alone."""
        first = self.seed or (self.log.events[0] if self.log.events and not self.log.base else None)
        return {
            "id": self.id,
            "parentId": self.seed.data["parentId"] if self.seed else None,
            "forkedAt": self.seed.data["forkedAt"] if self.seed else None,
            "createdAt": first.ts if first else None,
            "watermark": self.log.watermark,
        }

    def refresh_meta(self) -> None:
        """Replaces the meta data where it does not say what the log says; what somebody else keeps there stays."""
        stored, right = self.store.read_meta(self.id) or {}, self.meta()
        right["createdAt"] = stored.get("createdAt") or right["createdAt"] or now()
        if {**stored, **right} != stored:
            self.store.write_meta(self.id, {**right, **stored, **right})

    def keep_snapshot(self) -> None:
        """Keeps a snapshot where it pays; one that cannot be written is a problem to tell of, and nothing more."""
        log = self.log
        if self._last_write is None or len(log.surface) * SNAPSHOT_PAYS > log.base + len(log.events):
            return
        start, skip = self._last_write
        snapshot = snapshot_of(self.id, log, self.seed, start=start, skip=skip, lines=self._lines)
        try:
            self.store.write_snapshot(self.id, snapshot)
        except StoreError as error:
            log.problems.append(Problem("snapshot", f"no snapshot was kept: {error}"))
