"""A session as a log of events, and the two views of it: what the model is sent, and what a person reads.

Events only ever get added. A message event appends to the *surface* (what the model is sent); a replace event puts
messages of its own in the place of a span of surface events, and lists every one that it shadows. The *record* is
every message that was ever appended, shadowed or not. Both views are kept up event by event. This module does no
input or output and counts no tokens.

The rules of one log:

- ``seq`` goes up by one from event to event, over a fork's parent and the fork itself.
- ``replace {startSeq, endSeq}`` names two events on the present surface, both included; ``sourceEventSeqs`` lists all
  surface events from the one to the other, in order, or the event is refused.
- ``compaction/start`` is the lock of a compaction, ``compaction/end`` opens it again. A start without its end blocks,
  unless a ``session/end-seed`` follows it: then it is evidence of an earlier life of the session and blocks nothing.
- A *turn* is one model request: a ``request`` event, or an assistant message that no request event announced.
"""

from __future__ import annotations

import hashlib
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple

from ctxlab.errors import LogRefused
from ctxlab.lines import MESSAGE, REPLACE, Event, Problem, Reading, canonical

START = "compaction/start"
END = "compaction/end"
SEED = "session/end-seed"
REQUEST = "request"
TOOL_START = "tool/start"

_SEQ, _KIND, _DATA = itemgetter(0), itemgetter(1), itemgetter(3)  # of an event, without a step of Python each


class Turn(NamedTuple):
    """One model request. It saw the surface of the events before ``seq``; ``hash`` is the SHA-256 that was stored
    for it (None where no request event was written)."""

    seq: int
    hash: str | None


class Log:
    """The events of one session, with its surface, record, turns, watermark and open compaction kept up.

    ``base`` counts the events that are not in memory because the log was started from a snapshot (0: all are here);
    ``record`` and ``turns`` then start after it. The lists are for reading; `apply` and `replay` change them.
    """

    __slots__ = (
        "_anchors",
        "_ends",
        "_hashed",
        "_hasher",
        "_pending",
        "base",
        "events",
        "last_seq",
        "lost",
        "open_start",
        "problems",
        "record",
        "record_base",
        "started_tools",
        "surface",
        "turns",
        "turns_base",
        "watermark",
    )

    def __init__(self) -> None:
        self.base = self.record_base = self.turns_base = 0
        self.events: list[Event] = []
        self.surface: list[Event] = []
        self.record: list[Event] = []
        self.turns: list[Turn] = []
        self.problems: list[Problem] = []
        self.lost: list[range] = []
        self.last_seq = 0
        self.watermark = 0
        self.open_start: Event | None = None
        self.started_tools: list[tuple[int, str]] = []
        self._pending = False
        self._anchors: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._hasher = hashlib.sha256()
        self._hashed = 0

    # Adding events

    def apply(self, event: Event) -> None:
        """Adds the next event. Raises `LogRefused`, with the log unchanged, where it breaks a rule."""
        if event.seq != self.last_seq + 1:
            raise LogRefused(
                f"seq {event.seq} after seq {self.last_seq}: the next event of this log is {self.last_seq + 1}",
                hint="append through a session, which numbers its events under the writer's lock",
                seq=event.seq,
            )
        self._add(event)

    def replay(self, reading: Reading) -> None:
        """Adds events as they were read from disk; never raises. What breaks a rule goes into ``problems``.

        An event whose seq is not higher than the one before it (two writers without a lock) is kept and gets the
        next number, so nobody's message is lost. A jump is a gap: those seqs are lost.
        """
        waiting: dict[int, list[Problem]] = {}
        for before, problem in zip(reading.before, reading.problems, strict=True):
            waiting.setdefault(before, []).append(problem)
        start = 0
        for place in sorted(waiting):
            self._replay_run(reading.events[start:place])
            start = place
            if place < len(reading.events):
                self._replay_one(reading.events[place], waiting[place])
                start += 1
            else:
                self.problems.extend(waiting[place])
        self._replay_run(reading.events[start:])

    def _replay_run(self, run: list[Event]) -> None:
        """Adds events between which nothing was wrong: stretches of plain messages at once, the others one by one."""
        seq, start = self.last_seq + 1, 0
        if [*map(_SEQ, run)] == [*range(seq, seq + len(run))] and {*map(_KIND, run)} == {MESSAGE}:
            self._extend(run)
            return
        odd = [place for place, event in enumerate(run) if event[0] != seq + place or event[1] != MESSAGE]
        disorder = next((place for place in odd if run[place].seq != seq + place), None)
        if disorder is not None:  # from there on each one is looked at
            odd = [*(place for place in odd if place < disorder), *range(disorder, len(run))]
        for place in odd:
            self._extend(run[start:place])
            self._replay_one(run[place], [])
            start = place + 1
        self._extend(run[start:])

    def _extend(self, messages: list[Event]) -> None:
        """Adds messages with consecutive seqs."""
        if not messages:
            return
        answers = [event[0] for event in messages if event[3]["role"] == "assistant"]
        if answers:  # a request event can have announced the first one only
            self._note_turn(answers[0])
            self.turns += map(Turn._make, zip(answers[1:], repeat(None)))
        self.events += messages
        self.surface += messages
        self.record += messages
        self.last_seq = messages[-1].seq

    def _replay_one(self, event: Event, found: list[Problem]) -> None:
        """Adds an event before which these problems were found."""
        if event.seq != self.last_seq + 1:
            event = self._renumbered(event, found)
        else:
            self.problems.extend(found)
        try:
            self._add(event)
        except LogRefused as error:
            self.problems.append(Problem("refused", str(error), seq=event.seq))
            self.events.append(event)
            self.last_seq = event.seq

    def _note_turn(self, seq: int) -> None:
        """An assistant message is a turn of its own, unless a request event announced it."""
        if not self._pending:
            self.turns.append(Turn(seq, None))
        self._pending = False

    def _renumbered(self, event: Event, found: list[Problem]) -> Event:
        """The event with the seq that it has in this log; notes the gap or the repetition."""
        last = self.last_seq
        if event.seq > last:
            missing = range(last + 1, event.seq)
            self.lost.append(missing)
            unreadable = [problem for problem in found if problem.kind == "damaged"]
            for problem in found:
                at = missing[0] if problem in unreadable else None
                self.problems.append(Problem(problem.kind, problem.text, problem.line, problem.offset, at))
            if not unreadable:
                span = f"seq {missing[0]}" if len(missing) == 1 else f"seq {missing[0]} to {missing[-1]}"
                self.problems.append(Problem("gap", f"{span} missing before seq {event.seq}", seq=missing[0]))
            return event
        self.problems.extend(found)
        if event.seq == 0 and not self.events and not self.base:
            self.last_seq = -1
            return event
        text = f"seq {event.seq} comes after seq {last}"
        text = f"{text}; read as seq {last + 1}" if event.seq >= 0 else f"an event without a seq, read as {last + 1}"
        self.problems.append(Problem("repeated-seq", text, seq=last + 1))
        return event._replace(seq=last + 1)

    def _add(self, event: Event) -> None:
        kind = event.kind
        if kind == MESSAGE:
            if event.data["role"] == "assistant":
                self._note_turn(event.seq)
            self.surface.append(event)
            self.record.append(event)
        elif kind == REPLACE:
            self._replace(event)
        elif kind == START:
            self.open_start = event
        elif kind == END:
            if self.open_start is not None and event.data.get("start") == self.open_start.seq:
                self.open_start = None
        elif kind == SEED:
            self.open_start = None
            self._pending = False
        elif kind == REQUEST:
            self.turns.append(Turn(event.seq, event.data.get("hash")))
            self._pending = True
        elif kind == TOOL_START:
            self.started_tools.append((event.seq, str(event.data.get("toolCallId"))))
        self.events.append(event)
        self.last_seq = event.seq

    # The surface

    def anchor(self, seq: int) -> int:
        """Where an event stands: the seq of the first original that it stands for. Grows along the surface."""
        return self._anchors.get(seq, seq)

    def last_original(self, seq: int) -> int:
        """The seq of the last original that an event stands for (its own, for an appended message)."""
        return self._ends.get(seq, seq)

    def place(self, seq: int) -> int | None:
        """The index of an event on the surface, or None where it is not on it."""
        index = bisect_left(self.surface, self.anchor(seq), key=lambda event: self.anchor(event.seq))
        return index if index < len(self.surface) and self.surface[index].seq == seq else None

    def is_lost(self, seq: int) -> bool:
        """Whether the line of this seq is missing from the log, because it was damaged."""
        return any(seq in span for span in self.lost)

    def span(self, event: Event) -> tuple[int, int]:
        """The surface slice (start, stop) that a replace event would shadow.

        Raises `LogRefused` where ``sourceEventSeqs`` is not exactly the list of what stands there. A listed seq whose
        line was lost to damage does not count.
        """
        start, end = event.data["replace"]["startSeq"], event.data["replace"]["endSeq"]
        sources = [seq for seq in event.data["sourceEventSeqs"] if not self.is_lost(seq)]
        if not sources and event.data["sourceEventSeqs"]:
            at = bisect_left(self.surface, self.anchor(start), key=lambda other: self.anchor(other.seq))
            return at, at
        for seq in {start, end}:
            if self.place(seq) is None and not self.is_lost(seq):
                raise self._refuse(event, f"seq {seq} is not on the surface")
        first = self.place(sources[0]) if sources else None
        last = self.place(sources[-1]) if sources else None
        if first is None or last is None:
            raise self._refuse(event, f"sourceEventSeqs {_short(sources)} does not name what is on the surface")
        if not self.is_lost(start):
            first = self.place(start) or 0
        if not self.is_lost(end):
            last = self.place(end) or 0
        shadowed = [other.seq for other in self.surface[first : last + 1]]
        if shadowed != sources:
            missing = [seq for seq in shadowed if seq not in set(sources)]
            what = f"it does not list {_short(missing)}" if missing else f"it lists {_short(sources)}"
            raise self._refuse(event, f"the span holds {_short(shadowed)} and {what}")
        return first, last + 1

    def _refuse(self, event: Event, why: str) -> LogRefused:
        span = event.data["replace"]
        return LogRefused(
            f"seq {event.seq}: replace {span['startSeq']} to {span['endSeq']} refused: {why}",
            hint="list every surface event of the span in sourceEventSeqs, in order",
            seq=event.seq,
        )

    def _replace(self, event: Event) -> None:
        start, stop = self.span(event)
        shadowed = self.surface[start:stop]
        first = shadowed[0].seq if shadowed else event.data["replace"]["startSeq"]
        last = shadowed[-1].seq if shadowed else event.data["replace"]["endSeq"]
        self._anchors[event.seq] = self.anchor(first)
        self._ends[event.seq] = self.last_original(last)
        self.surface[start:stop] = [event]
        if event.data.get("why") == "compaction":
            self.watermark = max(self.watermark, self._ends[event.seq])
        if start < self._hashed:
            self._hasher, self._hashed = hashlib.sha256(), 0

    def messages(self) -> list[dict[str, Any]]:
        """The surface as messages. They are the log's own: copy before handing one out."""
        if not self._anchors:  # nothing was ever replaced
            return [*map(_DATA, self.surface)]
        return surface_messages(self.surface)

    @property
    def size(self) -> int:
        """How many messages the surface has."""
        return len(self.messages()) if self._anchors else len(self.surface)

    def hash(self) -> str:
        """SHA-256 over the surface, one canonical JSON line a message: what a request event stores.

        Costs what was added since the last call, unless something was replaced.
        """
        for event in self.surface[self._hashed :]:
            for message in event.messages:
                self._hasher.update(canonical(message) + b"\n")
        self._hashed = len(self.surface)
        return self._hasher.hexdigest()

    # Looking back; all of it needs a log whose `base` is 0

    def before(self, seq: int) -> Log:
        """The log as it was before the event of this seq was added."""
        earlier = Log()
        stop = bisect_left(self.events, seq, key=lambda event: event.seq)
        earlier.lost = [span for span in self.lost if span[0] < seq]
        for event in self.events[:stop]:
            try:
                earlier._add(event)
            except LogRefused:  # it was refused in this log too, and stands in its problems
                earlier.events.append(event)
                earlier.last_seq = event.seq
        return earlier

    def digest(self, count: int) -> str:
        """Eight hex digits over the checksums of the first ``count`` events: whether they are still the same."""
        crcs = array("I", [event.crc for event in self.events[:count]])
        if crcs.itemsize != 4:
            crcs = array("L", crcs)
        return f"{zlib.crc32(crcs.tobytes()):08x}"

    # Snapshots

    def state(self) -> dict[str, Any]:
        """What a snapshot keeps, as JSON data: everything but the events that are no longer on the surface."""
        on_surface = {event.seq for event in self.surface}
        return {
            "lastSeq": self.last_seq,
            "events": self.base + len(self.events),
            "records": self.record_base + len(self.record),
            "turns": self.turns_base + len(self.turns),
            "watermark": self.watermark,
            "pending": self._pending,
            "openStart": list(self.open_start) if self.open_start else None,
            "startedTools": self.started_tools,
            "lost": [[span.start, span.stop] for span in self.lost],
            "spans": [[seq, self._anchors[seq], self._ends[seq]] for seq in self._anchors if seq in on_surface],
            "surface": [list(event) for event in self.surface],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Log:
        """The log of a snapshot. Raises KeyError, TypeError or ValueError where the state is not one."""
        log = cls()
        log.last_seq, log.watermark = int(state["lastSeq"]), int(state["watermark"])
        log.base, log.record_base, log.turns_base = int(state["events"]), int(state["records"]), int(state["turns"])
        log._pending = bool(state["pending"])
        log.open_start = Event(*state["openStart"]) if state["openStart"] else None
        log.started_tools = [(int(seq), str(call)) for seq, call in state["startedTools"]]
        log.lost = [range(start, stop) for start, stop in state["lost"]]
        log._anchors = {seq: anchor for seq, anchor, _ in state["spans"]}
        log._ends = {seq: end for seq, _, end in state["spans"]}
        log.surface = [Event(*fields) for fields in state["surface"]]
        return log


def surface_messages(events: Iterable[Event]) -> list[dict[str, Any]]:
    """The messages of surface events, one after another (the log's own, not copies)."""
    found: list[dict[str, Any]] = []
    for event in events:
        if event.kind == MESSAGE:
            found.append(event.data)
        else:
            found.extend(event.messages)
    return found


def replacement(
    shadowed: Sequence[Event], messages: Sequence[dict[str, Any]], why: str, **extra: Any
) -> dict[str, Any]:
    """The data of a replace event that puts ``messages`` in the place of these consecutive surface events.

    ``why``: "compaction", "prune" or "repair"; ``extra`` is kept beside it.
    """
    if not shadowed:
        raise LogRefused("a replace that shadows nothing", hint="append instead", seq=None)
    return {
        "replace": {"startSeq": shadowed[0].seq, "endSeq": shadowed[-1].seq},
        "sourceEventSeqs": [event.seq for event in shadowed],
        "messages": list(messages),
        "why": why,
        **extra,
    }


def _short(seqs: Sequence[int]) -> str:
    listed = ", ".join(map(str, seqs[:8]))
    return f"[{listed}{', ...' if len(seqs) > 8 else ''}]"
