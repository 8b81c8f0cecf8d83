"""Reading a session back: the log with its parent's part, the snapshot where it helps, the completeness check.

Nothing here writes but `repairs_of`, which only says which events would mend the surface; `session` writes them, once.
The same bytes always give the same result.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from ctxlab.errors import CtxlabError, ParentLost, UnknownSession
from ctxlab.lines import MESSAGE, REPLACE, Event, Problem, Reading, dumps, loads, read_lines
from ctxlab.log import SEED, Log, replacement
from ctxlab.messages import ToolCall
from ctxlab.repairs import NEVER_STARTED, OUTCOME_UNKNOWN, repair
from ctxlab.rounds import pairing
from ctxlab.store import Read, Store

SNAPSHOT_VERSION = 1
_WINDOW = 64  # how far an alignment looks for where two histories agree again (picked)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What opening a session found and did. ``str()`` of it is the one line that a person is told.

    ``messages`` counts what was ever appended, ``surface`` what the model is sent; ``watermark`` is the seq up to
    which the session is summarised (0: nowhere). ``repaired`` counts repair events written now, ``torn`` the bytes of
    an incomplete last line that were set aside in ``set_aside``; ``stale_lock`` is the seq of a compaction that a
    crash left open. ``problems`` are all that was wrong, each with its place.
    """

    messages: int
    surface: int
    watermark: int
    repaired: int
    torn: int
    set_aside: str
    stale_lock: int | None
    snapshot: bool
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        shown = (
            "" if self.surface == self.messages else f", {self.surface} of them or of their summaries on the surface"
        )
        parts = [f"recovered {self.messages} message{'' if self.messages == 1 else 's'} from disk{shown}"]
        if self.watermark:
            parts.append(f"summarised up to seq {self.watermark}")
        if self.repaired:
            events = f"{self.repaired} repair event{'s' if self.repaired > 1 else ''}"
            parts.append(f"mended what a provider would refuse ({events})")
        if self.torn:
            parts.append(f"set {self.torn} bytes of an incomplete last line aside in {self.set_aside}")
        if self.stale_lock is not None:
            parts.append(
                f"NOTE: the compaction begun at seq {self.stale_lock} was cut off by a crash; its lock is void"
            )
        if self.problems:
            more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
            parts.append(f"problem: {self.problems[0]}{more}")
        return "; ".join(parts)


@dataclass(slots=True)
class Loaded:
    """A log as it was read: where its own part ends in the store, and how it hangs together with its parent.

    ``seed`` is the event that names the parent (None for a root). ``lines`` counts the lines of the own part.
    """

    log: Log
    position: int
    lines: int = 0
    seed: Event | None = None
    from_snapshot: bool = False
    read: Read = field(default_factory=lambda: Read(b"", 0))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Opening a log makes thousands of objects and gives none up: the collector would look through them again and
    again. On again afterwards where it was on."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def load(
    store: Store, name: str, fetch: Callable[[int], Read], *, snapshot: bool = True, parent: Log | None = None
) -> Loaded:
    """The session's log. ``fetch(position)`` reads the own part from there, with the writer's lock or without;
    ``parent`` is the parent's log, where the caller has it at hand.

    Raises `UnknownSession`, and `ParentLost` where the parent is gone or is not the log that was forked.
    """
    problems: list[Problem] = []
    if snapshot:
        found = _from_snapshot(store, name, fetch, problems)
        if found is not None:
            return found
    read = fetch(0)
    reading = read_lines(read.data)
    _read_tail(read, reading)
    seed = _seed(reading.events)
    if seed is None and reading.problems and (parent := (store.read_meta(name) or {}).get("parentId")):
        text = (
            f"the line that says where {name!r} was forked from {parent!r} is lost, and the messages before it with it"
        )
        problems.append(Problem("parent", text, line=1, offset=0))
    log = Log()
    if seed is not None and not seed.data.get("copied"):
        log.replay(Reading(events=parent_events(store, name, seed, parent)))
    log.problems.extend(problems)
    log.replay(reading)
    return Loaded(log, read.position, reading.lines, seed, False, read)


def _seed(events: Sequence[Event]) -> Event | None:
    """The event that says where the session comes from: the last of a copy, or the first of a fork by reference."""
    copied = [event for event in events if event.kind == SEED and event.data.get("copied")]
    first = copied[-1] if copied else next(iter(events), None)
    return first if first is not None and first.kind == SEED and first.data.get("parentId") else None


def _read_tail(read: Read, reading: Reading) -> None:
    """A reader meets an incomplete last line while its writer is at work: not a problem, and not data.

    A whole record that only lacks its newline is data.
    """
    if not read.tail:
        return
    tail = read_lines(read.tail, offset=read.position, line=reading.lines)
    if tail.events:
        reading.before += [count + len(reading.events) for count in tail.before]
        reading.problems += tail.problems
        reading.events += tail.events
    else:
        text = f"an incomplete last line of {len(read.tail)} bytes"
        reading.note(Problem("torn", text, reading.lines + 1, read.position))


def parent_events(store: Store, name: str, seed: Event, log: Log | None = None) -> list[Event]:
    """The part of the parent's log that a fork stands on. Raises `ParentLost`."""
    parent, seq, count = seed.data["parentId"], seed.data["parentSeq"], seed.data["parentEvents"]
    try:
        log = log or load(store, parent, lambda position: store.read(parent, position), snapshot=False).log
    except UnknownSession:
        raise ParentLost(
            f"session {name!r} is a fork of {parent!r}, which is gone",
            hint=f"restore {parent!r} into {store.url}: the first {seed.data['forkedAt']} messages are only there",
            session=name,
            parent=parent,
        ) from None
    except RecursionError:
        raise ParentLost(f"the parents of {name!r} lead in a circle", session=name, parent=parent) from None
    events = [event for event in log.events if event.seq <= seq]
    if len(events) != count or log.digest(count) != seed.data["parentDigest"]:
        wrong = next((problem for problem in log.problems if problem.kind != "torn"), None)
        raise ParentLost(
            f"session {name!r} is a fork of {parent!r}, whose first {count} events are not what they were"
            + (f": {wrong}" if wrong else f" ({len(events)} are there)"),
            hint=f"restore the log of {parent!r} from a copy; the own messages of {name!r} are whole",
            session=name,
            parent=parent,
        )
    return events


# Snapshots


def snapshot_of(name: str, log: Log, seed: Event | None, *, start: int, skip: int, lines: int) -> bytes:
    """A snapshot's bytes. Reading on from ``start`` gives ``skip`` events that the snapshot holds already (by them it
    is known to belong to this log), then the new ones."""
    body = {
        "version": SNAPSHOT_VERSION,
        "session": name,
        "start": start,
        "skip": skip,
        "lines": lines,
        "crcs": [event.crc for event in log.events[-skip:]],
        "seed": list(seed) if seed else None,
        "log": log.state(),
    }
    from zlib import crc32

    data = dumps(body)
    return b"%08x\n%b\n" % (crc32(data), data)


def _from_snapshot(store: Store, name: str, fetch: Callable[[int], Read], problems: list[Problem]) -> Loaded | None:
    data = store.read_snapshot(name)
    if data is None:
        return None
    try:
        return _started_from(store, name, data, fetch)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        if isinstance(error, CtxlabError) and not isinstance(error, ValueError):
            raise
        problems.append(Problem("snapshot", f"the snapshot does not match its log and was ignored ({error})"))
        return None


def _started_from(store: Store, name: str, data: bytes, fetch: Callable[[int], Read]) -> Loaded:
    from zlib import crc32

    check, _, body = data.rstrip(b"\n").partition(b"\n")
    if check != b"%08x" % crc32(body):
        raise ValueError("its checksum is wrong")
    state = loads(body)
    if state["version"] != SNAPSHOT_VERSION or state["session"] != name:
        raise ValueError(f"version {state['version']} of session {state['session']!r}")
    log = Log.from_state(state["log"])
    seed = Event(*state["seed"]) if state["seed"] else None
    if seed is not None and not seed.data.get("copied") and not store.exists(seed.data["parentId"]):
        raise ValueError("the parent is gone")
    read = fetch(state["start"])
    reading = read_lines(read.data, line=state["lines"] - state["skip"])
    _read_tail(read, reading)
    skip = state["skip"]
    if [event.crc for event in reading.events[:skip]] != state["crcs"] or any(n < skip for n in reading.before):
        raise ValueError("the log was changed before the snapshot's end")
    del reading.events[:skip]
    reading.before = [count - skip for count in reading.before]
    log.replay(reading)
    return Loaded(log, read.position, state["lines"] - skip + reading.lines, seed, True, read)


# The completeness check


def looks_whole(messages: Sequence[dict[str, Any]]) -> bool:
    """Whether every call is answered directly after it, once, and by a unique id: then no repair is needed.

    One pass without any pairing, since nearly every session passes. False only means: look closely.
    """
    seen: set[str] = set()
    waiting: set[str] = set()
    opened = False
    for message in messages:
        role = message["role"]
        if role == "tool":
            call = message.get("tool_call_id")
            if call not in waiting:
                return False
            waiting.remove(call)
            continue
        if waiting or "requires" in message or "type" in message:
            return False
        if role == "user":
            opened = True
        elif "tool_calls" in message and (calls := message["tool_calls"]):
            if role != "assistant" or not opened:
                return False
            for call in calls:
                name = call.get("id")
                if not isinstance(name, str) or not name or name in seen:
                    return False
                seen.add(name)
                waiting.add(name)
    return not waiting


def repairs_of(log: Log, mode: str) -> list[tuple[str, dict[str, Any]]]:
    """The events (kind, data) that make the surface whole; [] where it is, and after they were written.

    A call whose tool is known not to have started is told to be called again; one that may have run is told to be
    checked first. The log knows only where the session marks the start of its tools (`Session.tool_started`).
    """
    messages = log.messages()
    if looks_whole(messages):
        return []
    mended = repair(messages, mode, text=_text_for(log, messages))
    return _as_events(log, mended) if mended != messages else []


def _text_for(log: Log, messages: Sequence[dict[str, Any]]) -> Callable[[ToolCall], str]:
    """The answer to each open call, in the order in which `repair` asks for it, which is that of the history. The id
    of the call does not tell: ids repeat, and repair renames those that do."""
    seqs = [log.anchor(event.seq) for event in log.surface for _ in event.messages]
    still_open = iter(pairing(messages).open)

    def text(call: ToolCall) -> str:
        here = next(still_open)
        if not log.started_tools:
            return OUTCOME_UNKNOWN
        started = any(name == here.id and seq > seqs[here.index] for seq, name in log.started_tools)
        return OUTCOME_UNKNOWN if started else NEVER_STARTED

    return text


def _as_events(log: Log, mended: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The difference of surface and mended history as few small replace events, and appends at the end."""
    flat = [(index, message) for index, event in enumerate(log.surface) for message in event.messages]
    begins = list(accumulate((len(event.messages) for event in log.surface), initial=0))
    events: list[tuple[str, dict[str, Any]]] = []
    for start, stop, new_start, new_stop in _hunks([message for _, message in flat], mended):
        if start == stop == len(flat):
            events += [(MESSAGE, message) for message in mended[new_start:new_stop]]
            continue
        # What is put in goes with the message before it (its call), or with the one after it at the very start.
        first = flat[start if stop > start else max(0, start - 1)][0]
        last = flat[stop - 1 if stop > start else max(0, start - 1)][0]
        before = [message for _, message in flat[begins[first] : start]]
        after = [message for _, message in flat[max(stop, begins[first]) : begins[last + 1]]]
        shown = [*before, *mended[new_start:new_stop], *after]
        if events and events[-1][0] == REPLACE and log.surface[first].seq in events[-1][1]["sourceEventSeqs"]:
            return [(REPLACE, replacement(log.surface, mended, "repair"))]
        events.append((REPLACE, replacement(log.surface[first : last + 1], shown, "repair")))
    return events


def _hunks(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[tuple[int, int, int, int]]:
    """Where two histories differ, as (start, stop) in the old and the new one; linear, since repairs are local."""
    found = []
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new) and old[i] == new[j]:
            i, j = i + 1, j + 1
            continue
        skip_old, skip_new = _agree_again(old, new, i, j)
        found.append((i, i + skip_old, j, j + skip_new))
        i, j = i + skip_old, j + skip_new
    return found


def _agree_again(old: list[dict[str, Any]], new: list[dict[str, Any]], i: int, j: int) -> tuple[int, int]:
    for total in range(1, _WINDOW):
        for skip_old in range(total + 1):
            a, b = i + skip_old, j + total - skip_old
            if (
                a <= len(old)
                and b <= len(new)
                and ((a == len(old) and b == len(new)) or (a < len(old) and b < len(new) and old[a] == new[b]))
            ):
                return skip_old, total - skip_old
    return len(old) - i, len(new) - j
