"""The lab's sessions on disk: ``.sessions/NAME.jsonl`` in the published line shape, written by the learner's function.

Reading them back is the kit's part: a torn last line is set aside, what a provider would refuse is mended, and one line
says what was recovered. One turn at a time holds a session, over all processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxlab.errors import CtxlabError, SessionBusy, StoreError
from ctxlab.hands_on.functions import Functions, LearnerError
from ctxlab.hands_on.places import FOLDER, file_stem
from ctxlab.lines import MESSAGE, Problem, fresh, read_lines
from ctxlab.repairs import explain_repair, repair
from ctxlab.store import check_name, open_store
from ctxlab.store.locks import lock

UNANSWERED = "(The program was stopped before this was answered.)"
"""Stands where a turn that a crash cut off has no answer, so that the next user message does not follow it directly."""


class NotOfTheLab(CtxlabError, ValueError):
    """A session file that is not the lab's: a log with events of its own. ``session``."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was read back. ``str()`` of it is the one line that a person is told.

    ``messages`` counts what stood in the file, ``mended`` the messages that were added or moved to mend it, ``torn``
    the bytes of an incomplete last line, which went to ``set_aside``.
    """

    path: Path
    messages: int = 0
    mended: int = 0
    torn: int = 0
    set_aside: str = ""
    problems: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        count = f"{self.messages} message{'' if self.messages == 1 else 's'}"
        parts = [f"recovered {count} from disk ({self.path})"]
        if self.torn:
            parts.append(f"set {self.torn} bytes of an incomplete last line aside in {self.set_aside}")
        if self.mended:
            parts.append(f"mended a turn that was cut off ({self.mended} message{'' if self.mended == 1 else 's'})")
        if self.problems:
            more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
            parts.append(f"problem: {self.problems[0]}{more}")
        return "; ".join(parts)


class LabSession:
    """One session of the lab: ``messages`` as they stand in memory, ``path`` of the file that holds them.

    Raises `UnknownName` where the name cannot be a file's.
    """

    def __init__(self, name: str, functions: Functions, folder: Path = FOLDER) -> None:
        self.name = check_name(name)
        self.folder = folder
        self.path = folder / f"{file_stem(folder, name)}.jsonl"
        self.messages: list[dict[str, Any]] = []
        self._functions = functions

    @contextmanager
    def held(self) -> Iterator[Recovered]:
        """Reads the session back and holds it to the end of the block. Raises `SessionBusy`, `NotOfTheLab`,
        `StoreError`."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / f".{self.path.stem}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StoreError(
                f"sessions cannot be kept in {self.folder}: {error.strerror}",
                hint="work in a folder of yours, in which .sessions is a folder or is not there yet",
                session=self.name,
            ) from error
        try:
            if not lock(handle, wait=False):
                raise SessionBusy(
                    f"session {self.name!r} is in use by another process",
                    hint="wait until its turn is over, or name another --session",
                    session=self.name,
                )
            yield self._recover()
        finally:
            os.close(handle)  # and with it the lock goes

    def append(self, message: Mapping[str, Any]) -> None:
        """One message, in memory and through the learner's append_message."""
        self.messages.append(dict(message))
        self._functions.append(self.path, message)

    def on_disk(self) -> int:
        """How many messages a restart would read now."""
        return len(_messages(self.path.read_bytes())) if self.path.exists() else 0

    def _recover(self) -> Recovered:
        if not self.path.exists():
            return Recovered(self.path)
        writer = open_store(self.folder).writer(self.path.stem)
        found = writer.acquire(0, wait=True)
        writer.close()  # the learner's append_message may lock the file itself
        reading = read_lines(found.data)
        other = next((event.kind for event in reading.events if event.kind != MESSAGE), None)
        if other is not None:
            raise NotOfTheLab(
                f"{self.path} holds an event {other!r}: it is a session of ctxlab.Session, not the lab's",
                hint=f"look at it with: ctxlab show {self.name}; to talk here, name another --session",
                session=self.name,
            )
        self.messages = [fresh(event.data) for event in reading.events]
        there = len(self.messages)
        mended = self._mend()
        aside = found.set_aside
        return Recovered(self.path, there, mended, found.torn, aside, tuple(reading.problems))

    def _mend(self) -> int:
        """Answers what a crash left open. What belongs at the end is written, so that the next start finds it whole;
        what is wrong further up is mended for the request only, since the file is only ever appended to."""
        steps = len(explain_repair(self.messages))
        mended = repair(self.messages)
        if mended[: len(self.messages)] == self.messages:
            added = mended[len(self.messages) :]
            for message in added:
                self.append(message)
        else:
            self.messages = mended
        if self.messages and self.messages[-1]["role"] in ("user", "tool"):
            self.append({"role": "assistant", "content": UNANSWERED})
            steps += 1
        return steps


@dataclass(frozen=True, slots=True)
class Forked:
    """A fork that was made. ``shared`` counts its messages that share something with the parent's (0 in a deep copy);
    ``same_list``: it has no list of its own at all, so on disk it has no file of its own."""

    id: str
    parent: str
    forked_at: int
    messages: int
    shared: int
    same_list: bool

    def __str__(self) -> str:
        if self.same_list:
            return (
                f"{self.id} holds the very list of {self.parent}, so it has no file of its own: what is said to one is "
                "said to both"
            )
        if self.shared:
            return (
                f"{self.id} shares {self.shared} of its messages with {self.parent} (the same dicts): a change in one "
                "is a change in both"
            )
        count = f"{self.messages} message{'' if self.messages == 1 else 's'}"
        return f"{self.id}: the first {count} of {self.parent}, and nothing shared with it"


def make_fork(parent: LabSession, functions: Functions, at_index: int) -> Forked:
    """Forks through the learner's fork_session and stores the child, each message by the learner's append_message.

    What the child shares with its parent in memory it shares on disk: a child that holds the parent's own list is
    written nowhere and gets the parent's file. Raises `LearnerError`.
    """
    child = functions.fork({"id": parent.name, "messages": parent.messages}, at_index)
    messages = child["messages"]
    same = messages is parent.messages
    name = check_name(child["id"])
    store = open_store(parent.folder)
    meta: dict[str, Any] = {"id": name, "parentId": parent.name, "forkedAt": child["forked_at"]}
    meta |= {"createdAt": child["created_at"]} if isinstance(child.get("created_at"), str) else {}
    if same:
        meta["messagesOf"] = parent.path.stem
    elif store.exists(name) or name == parent.name:
        raise LearnerError(
            f"your fork_session gave the id {name!r}, which a session has already",
            hint="a fork needs a fresh id each time: two sessions of one id write into one file",
            function="fork_session",
        )
    else:
        store.create(name)
    store.write_meta(name, meta)
    if not same:
        path = parent.folder / f"{name}.jsonl"
        for message in messages:
            functions.append(path, message)
    shared = shared_messages(parent.messages, messages)
    return Forked(name, parent.name, child["forked_at"], len(messages), shared, same)


def shared_messages(parent: Sequence[Any], child: Sequence[Any]) -> int:
    """How many of the child's messages hold a dict or a list that the parent holds too.

    >>> message = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    >>> shared_messages([message], [dict(message)]), shared_messages([message], [{"role": "user", "content": "hello"}])
    (1, 0)
    """
    theirs = set().union(*(_containers(message) for message in parent)) if parent else set()
    return sum(bool(_containers(message) & theirs) for message in child)


def _containers(value: Any) -> set[int]:
    """The identities of the dicts and lists in a value, itself included."""
    if isinstance(value, dict):
        return {id(value)}.union(*(_containers(one) for one in value.values()))
    if isinstance(value, list):
        return {id(value)}.union(*(_containers(one) for one in value))
    return set()


def _messages(data: bytes) -> list[dict[str, Any]]:
    whole = data[: data.rfind(b"\n") + 1]
    return [event.data for event in read_lines(whole).events if event.kind == MESSAGE]
