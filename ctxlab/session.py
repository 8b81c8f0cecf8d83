"""One session: what a person holds. Append to it, ask what the model is sent, compact it, fork it, reopen it.

A session joins a log, its store and the pure functions. Every append is on disk when it returns. One writer at a time:
each append takes the session's lock over all processes, `Session.turn` holds it for a whole turn, and who comes second
is told (`SessionBusy`) or waits. Reading takes no lock. Compaction is in `compaction`, forks and the bill in `forks`,
reading and writing in `journal` and `recovery`.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias

from ctxlab import compaction, forks
from ctxlab.compaction import DEFAULT_COMPACTION, CompactionPolicy
from ctxlab.compress import Outcome, Policy, Summarizer
from ctxlab.cost import PRICES, Cost, Price, cost_of
from ctxlab.errors import CutIndexError, SessionExists
from ctxlab.forks import Branch
from ctxlab.journal import Durability, Journal
from ctxlab.lines import MESSAGE, Event, Problem, copy_json, fresh, recorded
from ctxlab.log import REQUEST, TOOL_START, Log
from ctxlab.messages import Message, MessageLike
from ctxlab.pruning import PRUNE_HEAD, PRUNE_LIMIT, PRUNE_TAIL
from ctxlab.recovery import Recovery
from ctxlab.rounds import Step
from ctxlab.store import Store, open_store
from ctxlab.tokens import count_message, count_tools

System: TypeAlias = str | Callable[[], str] | None


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether a turn can be rebuilt as it was sent: ``ok`` is True, False, or None where no hash was stored.

    ``stored`` and ``rebuilt`` are SHA-256 in hex over the surface, one JSON line a message.
    """

    turn: int
    ok: bool | None
    stored: str | None
    rebuilt: str
    messages: int


class Session:
    """A durable conversation. Make one with `Session.create`, `Session.open` or `Session.fork`.

    ``system`` is the system prompt of the day, as text or as a callable that is asked for every request; it is never
    stored. ``durability`` "disk" returns from an append when the line is on disk; "os" when the system has it, which
    a crash of the program survives and a power cut may not. ``wait`` waits for another writer in place of
    `SessionBusy`: as long as it takes, or for so many seconds at most (``wait=5.0``). Use as a context manager, or call
    `close`.
    """

    def __init__(self, journal: Journal, system: System = None) -> None:
        self.journal = journal
        self.store: Store = journal.store
        self.id: str = journal.id
        self.recovery: Recovery = journal.recovery
        self.system = system

    # Coming and going

    @classmethod
    def create(
        cls,
        store: Store | str | os.PathLike[str],
        name: str | None = None,
        *,
        system: System = None,
        durability: Durability = "disk",
        wait: bool | float = False,
    ) -> Session:
        """A new, empty session. ``name`` is its id (a fresh one if None). Raises `SessionExists`."""
        store = as_store(store)
        name = name or new_id()
        store.create(name)
        return cls.open(store, name, system=system, durability=durability, wait=wait)

    @classmethod
    def open(
        cls,
        store: Store | str | os.PathLike[str],
        name: str,
        *,
        system: System = None,
        mode: str = "append",
        durability: Durability = "disk",
        wait: bool | float = False,
        readonly: bool = False,
        create: bool = False,
    ) -> Session:
        """A session from its store, recovered: see ``session.recovery``, whose text is the one line to show.

        A torn last line is set aside, a compaction that a crash cut off loses its lock, and interrupted calls are
        mended (``mode``: see `ctxlab.repair`); all of it is written once, so that the next opening finds nothing to
        do. ``readonly`` takes no lock and writes nothing. ``create`` makes a session that is not there.
        Raises `UnknownSession`, `SessionBusy`, `ParentLost`, `StoreError`.
        """
        store = as_store(store)
        if create and not readonly and not store.exists(name):
            with suppress(SessionExists):  # another process made it just now
                store.create(name)
        journal = Journal.open(store, name, mode=mode, durability=durability, wait=wait, readonly=readonly)
        return cls(journal, system)

    def close(self) -> None:
        """Gives up the handle; keeps a snapshot where one pays. The session can be opened again."""
        self.journal.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session {self.id!r} in {self.store.url}, {self.journal.log.last_seq} events>"

    # Writing

    def append(self, message: MessageLike) -> dict[str, Any]:
        """Adds one message; on disk on return. Returns it as recorded, with its ``seq`` and ``ts`` (UTC).

        Raises `MalformedMessage`, `SessionBusy`, `StoreError`; then nothing was added, here or on disk, and the same
        call can be made again.
        """
        return self.append_many([message])[0]

    def append_many(self, messages: Iterable[MessageLike]) -> list[dict[str, Any]]:
        """Adds several messages with one flush (group commit): all of them are on disk on return, or none was added."""
        items = [(MESSAGE, checked(message)) for message in messages]
        with self.turn():
            return [recorded(event) for event in (self.journal.write(items) if items else [])]

    @contextmanager
    def turn(self) -> Iterator[Session]:
        """Holds the session's lock over all processes until the block ends, so that no other writer's messages come
        between the ones of this turn. Raises `SessionBusy` where another holds it (or waits, see ``wait``)."""
        with self.journal.turn():
            yield self

    def tool_started(self, call_id: str) -> None:
        """Marks that a tool is about to run, on disk before it does. In a session that marks its tools, recovery can
        tell a call that never started (call again) from one whose outcome is unknown (check first)."""
        with self.turn():
            self.journal.write([(TOOL_START, {"toolCallId": call_id})])

    def request(self) -> list[dict[str, Any]]:
        """The messages to send now, like `messages`; writes a request event with the hash of the surface, so that
        `verify` can later prove what the model saw. The system prompt leaves only its own hash in the log."""
        with self.turn():
            prompt = self.prompt()
            data: dict[str, Any] = {"messages": self.journal.log.size, "hash": self.journal.log.hash()}
            if prompt is not None:
                data["systemHash"] = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
            self.journal.write([(REQUEST, data)])
            return self._with_system(prompt)

    def compact(
        self, summarize: Summarizer, policy: CompactionPolicy | Policy = DEFAULT_COMPACTION, *, force: bool = False
    ) -> Outcome:
        """Replaces the early surface by a summary, as one transaction in the log; the record keeps the originals.

        ``summarize`` gets the early messages and returns text. The outcome is `Compressed`, `Unchanged`, `Refused` or
        `Failed`, with ``.messages`` (the surface that now stands) and ``.why``. The session's lock is held all the
        while. ``force`` does not wait for the trigger. Raises `SessionBusy` where another writer or compaction is at
        work, `StoreError` where the log cannot be written.
        """
        return compaction.compact(self.journal, summarize, policy, force=force)

    async def compact_async(
        self, summarize: Summarizer, policy: CompactionPolicy | Policy = DEFAULT_COMPACTION, *, force: bool = False
    ) -> Outcome:
        """`compact` in an event loop."""
        return await compaction.compact_async(self.journal, summarize, policy, force=force)

    def prune(
        self, *, limit: int = PRUNE_LIMIT, head: int = PRUNE_HEAD, tail: int = PRUNE_TAIL, arguments: bool = False
    ) -> list[Step]:
        """Shortens every long tool result on the surface (see `ctxlab.prune_tool_result`; ``arguments``: those of calls
        too). The complete ones stay in the record. Returns one step for each message that was shortened."""
        return compaction.prune(self.journal, limit=limit, head=head, tail=tail, arguments=arguments)

    # Forks

    def fork(
        self,
        at: int | None = None,
        *,
        name: str | None = None,
        system: System = None,
        deep: bool = False,
        open_turn: str = "refuse",
    ) -> Session:
        """A new session of the first ``at`` messages of the record (None: everything, as the surface now stands).

        It refers to this one, whose bytes do not change; ``deep`` copies the lines. A fork into a stretch that was
        summarised later has the originals. Between a call and its results it is refused (``open_turn`` "before" or
        "after" take the nearest legal cut). Raises `CutIndexError`, `ForkRefused`.
        """
        name = name or new_id()
        forks.make_fork(self.journal, name, at, deep=deep, open_turn=open_turn)
        mine = self.journal
        journal = Journal.open(self.store, name, durability=mine.durability, wait=mine.wait, parent=self.log)
        return Session(journal, self.system if system is None else system)

    def regenerate(self, *, name: str | None = None) -> Session:
        """A fork from before the last assistant message, to ask for that answer anew."""
        record = self.log.record
        last = next((i for i in range(len(record) - 1, -1, -1) if record[i].data["role"] == "assistant"), len(record))
        return self.fork(last, name=name)

    def ab(self, system_a: System, system_b: System) -> tuple[Session, Session]:
        """Two forks of everything, with two system prompts, to compare them on the same history."""
        return self.fork(system=system_a), self.fork(system=system_b)

    @classmethod
    def reproduce(
        cls,
        from_store: Store | str | os.PathLike[str],
        name: str,
        into: Store | str | os.PathLike[str],
        *,
        as_name: str | None = None,
        system: System = None,
        durability: Durability = "disk",
    ) -> Session:
        """Somebody's session as one of your own in another store: its events, its parent's part included, so that every
        turn can be shown and verified there too. The source is only read. Raises `UnknownSession`, `SessionExists`."""
        source, target = as_store(from_store), as_store(into)
        forks.copy_session(Journal.open(source, name, readonly=True), target, as_name or name)
        return cls.open(target, as_name or name, system=system, durability=durability)

    def tree(self) -> Branch:
        """The tree of forks that this session belongs to, from its root down."""
        root, children = forks.family(self.store, self.id)
        return forks.tree_of(self.store, root, self._branch, children)

    def cost(
        self, model: str | None = None, *, prices: Mapping[str, Price] = PRICES, tools: Sequence[dict[str, Any]] = ()
    ) -> Cost:
        """The bill of this session and of all forks below it: tokens, and US dollars where a ``model`` is named.

        The system prompt of now and ``tools`` are counted into every request. Raises `UnknownName`.
        """
        prompt = self.prompt()
        overhead = count_tools(list(tools)) if tools else 0
        overhead += count_message({"role": "system", "content": prompt}) if prompt else 0
        _, children = forks.family(self.store, self.id)
        return cost_of(self.id, children, self._branch, model=model, prices=prices, overhead=overhead)

    def _branch(self, name: str) -> Journal:
        return self.journal if name == self.id else Journal.open(self.store, name, readonly=True)

    # Reading

    def prompt(self) -> str | None:
        """The system prompt of this moment."""
        return self.system() if callable(self.system) else self.system

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What the model would be sent now: the system prompt of this moment, then the surface.

        Where there is a prompt, system messages at the surface's start (an older log may hold some) give way to it.
        """
        return self._with_system(self.prompt())

    def _with_system(self, prompt: str | None) -> list[dict[str, Any]]:
        shown = self.surface()
        if prompt is None:
            return shown
        start = next(
            (i for i, message in enumerate(shown) if message["role"] not in ("system", "developer")), len(shown)
        )
        return [{"role": "system", "content": prompt}, *shown[start:]]

    def surface(self) -> list[dict[str, Any]]:
        """What stands for the conversation now: messages, with summaries in place of what they shadow. Fresh dicts."""
        return [fresh(message) for message in self.journal.log.messages()]

    def record(self) -> list[dict[str, Any]]:
        """Every message that was ever appended, summarised away or not, in order. Fresh dicts."""
        return [fresh(event.data) for event in self.log.record]

    def surface_at(self, turn: int) -> list[dict[str, Any]]:
        """Exactly what the model saw at a turn (1 is the first request). Raises `CutIndexError` (an IndexError)."""
        return [fresh(message) for message in self._before_turn(turn).messages()]

    def verify(self, turn: int) -> Verification:
        """Rebuilds what was sent at a turn and compares its hash with the one that was stored at the time."""
        earlier = self._before_turn(turn)
        stored, rebuilt = self.log.turns[turn - 1].hash, earlier.hash()
        return Verification(turn, None if stored is None else stored == rebuilt, stored, rebuilt, earlier.size)

    def _before_turn(self, turn: int) -> Log:
        log = self.log
        if not 1 <= turn <= len(log.turns):
            raise CutIndexError(
                f"turn {turn} of a session with {len(log.turns)} turns",
                hint="a turn is one model request; the first is 1",
                index=turn,
                length=len(log.turns),
            )
        return log.before(log.turns[turn - 1].seq)

    @property
    def turns(self) -> int:
        """How many model requests the session has had, its parent's part included."""
        return self.journal.log.turns_base + len(self.journal.log.turns)

    @property
    def events(self) -> tuple[Event, ...]:
        """All events of the log, the parent's part included."""
        return tuple(self.log.events)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that was wrong with the log, each with its place."""
        return tuple(self.journal.log.problems)

    @property
    def watermark(self) -> int:
        """The seq up to which the session is summarised; 0 where it is not."""
        return self.journal.log.watermark

    @property
    def parent_id(self) -> str | None:
        """The id of the session that this one is a fork of."""
        return self.journal.seed.data["parentId"] if self.journal.seed else None

    @property
    def forked_at(self) -> int | None:
        """How many messages of its parent a fork has."""
        return self.journal.seed.data["forkedAt"] if self.journal.seed else None

    @property
    def log(self) -> Log:
        """The complete log, for reading; where the session was opened from a snapshot, older events are read now."""
        return self.journal.whole_log()

    def refresh(self) -> None:
        """Takes in what other writers have added; needs no lock."""
        self.journal.refresh()


def as_store(store: Store | str | os.PathLike[str]) -> Store:
    """The store itself, or the one of a URL or folder."""
    return open_store(store) if isinstance(store, (str, os.PathLike)) else store


def new_id() -> str:
    """A fresh session id, such as s-8f3a01bc."""
    return f"s-{secrets.token_hex(4)}"


def checked(message: MessageLike) -> dict[str, Any]:
    """A message as JSON data that comes back from disk equal to itself. Raises `MalformedMessage`."""
    if not isinstance(message, dict):
        message = Message.of(message).to_dict()
    data: dict[str, Any] = copy_json(message)
    if not isinstance(data.get("role"), str) or not isinstance(data.get("content"), str) or "tool_calls" in data:
        Message.of(data)
    return data
