"""Where a fact belongs: three questions, and the reasons with the answer.

Is it needed after this session? Does it expire? Can retrieval bring it back? A fact that is needed later, lasts, and is
to be had nowhere else is long-term. One that is not needed later is short-term: it stays in the history and ends with
it. Where the answers pull both ways the fact is in between, and stays short-term until it recurs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ctxlab.errors import WrongArgument
from ctxlab.memory.items import LONG_TERM, SHORT_TERM
from ctxlab.messages import FrozenDict
from ctxlab.rounds import Step

RETRIEVE = "retrieve"
PLACES = (LONG_TERM, SHORT_TERM, RETRIEVE)
"""Where a fact may go. ``retrieve``: store nothing, look it up at its source when it is needed."""

RECURS_AT = 2
"""Sessions in which a fact in between is seen before it is long-term. Picked: the second time is the first sign."""

_RULE = "three-questions"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a fact belongs. ``why``: one sentence. ``questions``: a `Step` for each question, then one for the answer.

    A question's ``data`` holds ``question`` and ``answer`` (True or False); the recurrence's holds ``times_seen``.
    """

    fact: str
    where: str
    why: str
    questions: tuple[Step, ...]


def place(fact: str, needed_after: bool, expires: bool, retrievable: bool, times_seen: int = 1) -> Placement:
    """Where ``fact`` belongs.

    ``retrievable``: its source can be asked again (a file, an order system), so that a copy is a convenience.
    ``times_seen``: sessions in which it came up, this one included. The table:

    ============  =======  ===========  ==========================================================
    needed after  expires  retrievable  place
    ============  =======  ===========  ==========================================================
    no            any      any          short-term: it ends with the session
    yes           no       no           long-term
    yes           yes      yes          retrieve: a copy would be stale, and its source has the fresh one
    yes           yes      no           in between: short-term until it recurs, then long-term with an expiry
    yes           no       yes          in between: short-term until it recurs, then long-term
    ============  =======  ===========  ==========================================================

    Raises `WrongArgument` for a fact without text and for ``times_seen`` under 1.

    >>> place("allergic to nuts", needed_after=True, expires=False, retrievable=False).where
    'long-term'
    """
    if not isinstance(fact, str) or not fact.strip():
        raise WrongArgument("a fact without text", hint="say it in one sentence", name="fact", value=fact)
    if isinstance(times_seen, bool) or not isinstance(times_seen, int) or times_seen < 1:
        raise WrongArgument(
            f"times_seen={times_seen!r}; expected a whole number, 1 or more (this session counts)",
            name="times_seen",
            value=times_seen,
        )
    questions = [
        _asked("needed-after", "Is it needed after this session?", needed_after, _NEEDED),
        _asked("expires", "Does it expire?", expires, _EXPIRES),
        _asked("retrievable", "Can retrieval bring it back?", retrievable, _RETRIEVABLE),
    ]
    between = needed_after and expires != retrievable
    if between:
        questions.append(_recurrence(times_seen))
    where, why = _answer(needed_after, expires, retrievable, times_seen)
    questions.append(Step("place", None, why, _RULE, FrozenDict({"where": where, "between": between})))
    return Placement(fact, where, why, tuple(questions))


_NEEDED = (
    "no: the session's own history is enough for it",
    "yes: the next session starts with an empty history and would have to ask again",
)
_EXPIRES = ("no: it will be as true later", "yes: kept without an end, it becomes a wrong answer")
_RETRIEVABLE = (
    "no: only the user could say it again",
    "yes: its source can be asked again, so a copy is a convenience",
)


def _asked(action: str, question: str, answer: bool, reasons: tuple[str, str]) -> Step:
    data = FrozenDict({"question": question, "answer": bool(answer)})
    return Step(action, None, f"{question} {reasons[bool(answer)]}", _RULE, data)


def _recurrence(times_seen: int) -> Step:
    seen = "once" if times_seen == 1 else f"{times_seen} times"
    side = "has recurred" if times_seen >= RECURS_AT else "has not recurred yet"
    why = f"In between: seen {seen}, it {side} (from {RECURS_AT} on, a picked number)"
    return Step("recurs", None, why, _RULE, FrozenDict({"times_seen": times_seen, "recurs_at": RECURS_AT}))


def _answer(needed_after: bool, expires: bool, retrievable: bool, times_seen: int) -> tuple[str, str]:
    if not needed_after:
        return SHORT_TERM, "not needed after this session: it stays in the session's history and ends with it"
    if expires and retrievable:
        return RETRIEVE, "it changes and its source can be asked: look it up when it is needed, keep no copy"
    if not expires and not retrievable:
        return LONG_TERM, "needed later, lasting, and to be had nowhere else: one item in long-term memory"
    doubt = "it expires" if expires else "retrieval can bring it back"
    if times_seen < RECURS_AT:
        return SHORT_TERM, f"in between (needed later, but {doubt}): short-term until it recurs"
    with_expiry = ", with the time at which it expires" if expires else ""
    return LONG_TERM, f"in between (needed later, but {doubt}), and it recurred: long-term{with_expiry}"
