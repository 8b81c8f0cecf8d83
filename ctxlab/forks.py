"""Forks of a session, the tree that they make, and copies into another store.

A fork is a reference: its log begins with one event that names the parent, how many of its messages are taken over,
and a digest of that part, so that a parent which was lost or changed is noticed. The parent's bytes do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ctxlab.errors import CtxlabError, CutIndexError, ForkRefused, unknown_name
from ctxlab.journal import Journal
from ctxlab.lines import Event, encode, now
from ctxlab.log import SEED, Log
from ctxlab.store import Store

OPEN_TURN = ("refuse", "before", "after")

Opened = TypeVar("Opened")


def plan_fork(log: Log, at: int | None, open_turn: str) -> tuple[int, int]:
    """The cut (messages) and the last event (seq) of a fork at ``at`` messages of the record; None is the end.

    Raises `CutIndexError` outside the record, `ForkRefused` between a call and its results.
    """
    if open_turn not in OPEN_TURN:
        raise unknown_name("way with an open turn", open_turn, list(OPEN_TURN))
    end = len(log.record)
    at = end if at is None else at
    if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at <= end:
        raise CutIndexError(
            f"a fork at {at!r} of a session with {end} messages; 0 <= index <= {end}",
            hint=f"count from the start; {end} takes over everything",
            index=at,
            length=end,
        )
    if not _open_at(log, at):
        return at, _last_event(log, at)
    before = next(cut for cut in range(at - 1, -1, -1) if not _open_at(log, cut))
    after = next((cut for cut in range(at + 1, end + 1) if not _open_at(log, cut)), None)
    if open_turn == "before":
        return before, _last_event(log, before)
    if open_turn == "after" and after is not None:
        return after, _last_event(log, after)
    there = f"{before} and {after}" if after is not None else f"{before} (nothing after it: the turn is still open)"
    raise ForkRefused(
        f"a fork at {at} would part a tool call from its results; the nearest legal cuts are {there}",
        hint="choose one of them, or open_turn='before'",
        index=at,
        before=before,
        after=after,
    )


def _last_event(log: Log, at: int) -> int:
    """The seq of the last event that a fork at this cut takes over. At the end that is every event, so the fork sees
    what the parent sees; earlier, it is as it was when the message was appended, before any later summary."""
    if at == len(log.record):
        return log.last_seq
    return log.record[at - 1].seq if at else log.record[0].seq - 1


def _open_at(log: Log, at: int) -> bool:
    """Whether the first ``at`` messages end in calls that have no results among them."""
    if at == len(log.record):
        return _ends_open(log.messages())
    return _ends_open([event.data for event in log.record[max(0, at - _run(log.record, at)) : at]])


def _run(record: Sequence[Event], at: int) -> int:
    """How many messages before ``at`` are tool messages, plus one for what carries their calls."""
    place = at
    while place and record[place - 1].data["role"] == "tool":
        place -= 1
    return at - place + 1


def _ends_open(messages: Sequence[dict[str, Any]]) -> bool:
    answered: list[Any] = []
    for message in reversed(messages):
        if message["role"] != "tool":
            calls = [call.get("id") for call in message.get("tool_calls") or ()]
            for name in answered:
                if name in calls:
                    calls.remove(name)
            return bool(calls)
        answered.append(message.get("tool_call_id"))
    return False


def make_fork(journal: Journal, name: str, at: int | None, *, deep: bool, open_turn: str) -> None:
    """Writes the new session's log and meta data into the session's store."""
    journal.refresh()
    log = journal.whole_log()
    cut, last = plan_fork(log, at, open_turn)
    events = [event for event in log.events if event.seq <= last]
    data: dict[str, Any] = {"parentId": journal.id, "forkedAt": cut, "parentSeq": last}
    if deep:
        data["copied"] = True
    else:
        data |= {"parentEvents": len(events), "parentDigest": log.digest(len(events))}
    _make(journal.store, name, events if deep else [], last, data)


def _make(store: Store, name: str, events: Sequence[Event], last: int, data: dict[str, Any]) -> None:
    lines = [encode(event.seq, event.kind, event.data, event.ts)[0] for event in events]
    line, event = encode(last + 1, SEED, data, now())
    store.create(name, [*lines, line])
    store.write_meta(
        name,
        {
            "id": name,
            "parentId": data.get("parentId"),
            "forkedAt": data.get("forkedAt"),
            "createdAt": event.ts,
            "watermark": 0,
        },
    )


def copy_session(journal: Journal, into: Store, name: str) -> None:
    """Writes the whole session, its parent's part included, as a root of its own into a store."""
    log = journal.whole_log()
    data = {"reproducedFrom": f"{journal.store.url}#{journal.id}", "copied": True}
    _make(into, name, log.events, log.last_seq, data)


@dataclass(frozen=True, slots=True)
class Branch:
    """One session in its tree. ``own``: messages that are its own; ``forked_at``: messages of the parent before them.

    ``problem`` says why a session could not be read ("" where it could)."""

    id: str
    parent_id: str | None
    forked_at: int | None
    own: int
    children: tuple[Branch, ...]
    problem: str = ""

    def lines(self, depth: int = 0) -> list[str]:
        """The tree as text, a line for each session."""
        where = "" if self.forked_at is None else f" forked at {self.forked_at}"
        what = self.problem or f"{self.own} message{'' if self.own == 1 else 's'} of its own"
        text = f"{'  ' * depth}{self.id}{where}, {what}"
        return [text, *(line for child in self.children for line in child.lines(depth + 1))]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def family(store: Store, name: str) -> tuple[str, dict[str, list[str]]]:
    """The root of a session's tree, and for each session the ids of its forks, oldest first."""
    parents: dict[str, str | None] = {}
    ages: dict[str, str] = {}
    for other in store.names():
        meta = store.read_meta(other) or {}
        parents[other], ages[other] = meta.get("parentId"), str(meta.get("createdAt"))
    children: dict[str, list[str]] = {}
    for other in sorted(parents, key=lambda one: (ages[one], one)):
        parent = parents[other]
        if parent is not None:
            children.setdefault(parent, []).append(other)
    root, seen = name, {name}
    while (parent := parents.get(root)) is not None and parent in parents and parent not in seen:
        root = parent
        seen.add(root)
    return root, children


def tree_of(
    store: Store, name: str, open_branch: Callable[[str], Journal], children: dict[str, list[str]] | None = None
) -> Branch:
    """The tree of sessions from ``name`` down."""
    if children is None:
        _, children = family(store, name)
    below = tuple(tree_of(store, child, open_branch, children) for child in children.get(name, ()))
    try:
        journal = open_branch(name)
        record = journal.whole_log().record
    except CtxlabError as error:  # a tree is shown with its broken branches, not refused for them
        meta = store.read_meta(name) or {}
        return Branch(name, meta.get("parentId"), meta.get("forkedAt"), 0, below, str(error))
    meta, own = journal.meta(), sum(1 for event in record if event.seq > journal.own_from)
    return Branch(name, meta["parentId"], meta["forkedAt"], own, below)
