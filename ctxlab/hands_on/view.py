"""Show a session: its messages with their seq, or what the model was sent; the lab's files and `Session`'s alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxlab.errors import UnknownSession
from ctxlab.hands_on.places import FOLDER, file_stem
from ctxlab.messages import Message
from ctxlab.session import Session, Verification
from ctxlab.store import Store, check_name, open_store

# What a terminal would obey rather than show: ANSI sequences, and control characters other than tab and newline.
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")

Row = tuple[int | None, dict[str, Any]]
"""A seq (None for a message of the surface) and a message."""


@dataclass(frozen=True, slots=True)
class View:
    """What is shown of a session. ``what``: the record, the surface, or the surface at a turn. ``verified``: verdicts
    on turns, where they were asked for. ``notes``: what is wrong in the file, and whose file it is."""

    session: str
    what: str
    rows: tuple[Row, ...]
    parent: str | None = None
    forked_at: int | None = None
    verified: tuple[Verification, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no turn that was verified differs from what was sent."""
        return all(one.ok is not False for one in self.verified)

    @property
    def lines(self) -> list[str]:
        """A line a message, and one a verdict; line breaks in a text are shown as they are, indented."""
        width = max((len(str(seq)) for seq, _ in self.rows if seq is not None), default=1)
        shown = []
        for seq, message in self.rows:
            head = f"{'' if seq is None else seq:>{width}}  {message.get('role', '?'):9}  "
            shown.append(head + told(message).replace("\n", "\n" + " " * len(head)))
        return [*shown, *(verdict(one) for one in self.verified)]

    def to_json(self) -> dict[str, Any]:
        """All of it, for machines."""
        messages = [({} if seq is None else {"seq": seq}) | message for seq, message in self.rows]
        verified = [
            {"turn": v.turn, "ok": v.ok, "stored": v.stored, "rebuilt": v.rebuilt, "messages": v.messages}
            for v in self.verified
        ]
        return {
            "session": self.session,
            "parentId": self.parent,
            "forkedAt": self.forked_at,
            "what": self.what,
            "messages": messages,
            "notes": list(self.notes),
            **({"verified": verified} if self.verified else {}),
        }


def show(
    name: str,
    *,
    surface: bool = False,
    turn: int | None = None,
    verify: bool = False,
    folder: Path = FOLDER,
    store: Store | None = None,
) -> View:
    """A session of the folder, or of another ``store``, read only. ``turn``: exactly what the model was sent at that
    turn; ``verify``: whether that turn (every one, where none is named) can be proved from the hash that was stored.

    Raises `UnknownSession`, `CutIndexError` for a turn that is not there.
    """
    if store is not None:
        with Session.open(store, name, readonly=True) as session:
            return _view(session, name, surface, turn, verify, {})
    stem = file_stem(folder, check_name(name))
    if not (folder / f"{stem}.jsonl").exists():
        known = open_store(folder).names() if folder.is_dir() else []
        raise UnknownSession(
            f"no session {name!r} in {folder}: nothing was written to {folder / f'{stem}.jsonl'}",
            hint=f"there are: {', '.join(known)}" if known else "ctxlab start and ctxlab chat write it",
            session=name,
            known=known,
        )
    with Session.open(folder, stem, readonly=True) as session:
        return _view(session, name, surface, turn, verify, open_store(folder).read_meta(name) or {})


def _view(session: Session, name: str, surface: bool, turn: int | None, verify: bool, meta: Mapping[str, Any]) -> View:
    if turn is not None:
        what, messages = f"the surface at turn {turn}", session.surface_at(turn)
    elif surface:
        what, messages = "the surface", session.surface()
    else:
        what, messages = "the record", []
    plain: tuple[Row, ...] = tuple((None, message) for message in messages)
    recorded: tuple[Row, ...] = tuple((event.seq, dict(event.data)) for event in session.log.record)
    turns = () if not verify else range(1, session.turns + 1) if turn is None else (turn,)
    notes = [str(problem) for problem in session.problems]
    if session.id != name:
        notes.append(f"{name} has no file of its own: it holds the messages of {session.id}")
    return View(
        name,
        what,
        recorded if what == "the record" else plain,
        session.parent_id or meta.get("parentId"),
        session.forked_at if session.parent_id else meta.get("forkedAt"),
        tuple(session.verify(one) for one in turns),
        tuple(notes),
    )


def told(message: Mapping[str, Any]) -> str:
    """A message in words: its text, and the calls that it makes."""
    value = Message.of(message)
    calls = [f"-> {call.name}({call.arguments})" for call in value.tool_calls]
    return visible("\n".join([*([value.text] if value.text or not calls else []), *calls]))


def visible(text: str) -> str:
    """A text without what a terminal would obey rather than show.

    >>> visible("\\x1b[31mred\\x1b[0m and\\r\\nmore")
    'red and\\nmore'
    """
    return _CONTROLS.sub("", text)


def verdict(found: Verification) -> str:
    """What was found about a turn, in one line."""
    if found.ok is None:
        return f"turn {found.turn}: no hash was stored with it, so nothing can be proved"
    if found.ok:
        return f"turn {found.turn}: proved, {found.messages} messages with SHA-256 {found.rebuilt}"
    return f"turn {found.turn}: NOT what was sent: stored {found.stored}, rebuilt {found.rebuilt}"
