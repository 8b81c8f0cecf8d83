"""Compaction of a session's log as one transaction, and pruning: the surface gets shorter, the originals stay.

The steps: check the range; append the start marker, which is the lock; call the summariser; check the range again;
append the replace event; append the end marker. A crash in between leaves a start without an end, which the next
opening finds and says. Where the summary fails or is refused, the surface stands as it was. What is cut and whether
the summary is good enough is `compress`' decision; this module turns it into events.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ctxlab.compress import (
    DEFAULT_POLICY,
    SUMMARY_MARKER,
    Compressed,
    Outcome,
    Policy,
    Refused,
    Summarizer,
    compress,
    compress_async,
    explain_compress,
    is_summary,
)
from ctxlab.errors import CtxlabError, LogRefused, SessionBusy
from ctxlab.journal import Journal
from ctxlab.lines import REPLACE, Event, canonical, copy_json
from ctxlab.log import END, START, Log, replacement
from ctxlab.messages import Message, as_messages
from ctxlab.pruning import PRUNE_HEAD, PRUNE_LIMIT, PRUNE_TAIL, explain_prune, prune_history
from ctxlab.rounds import Step, align_to_turn_start

USER_TEXTS = "\n\nThe user's messages, word for word:\n"
FACTS = "\n\nTo be kept in mind:\n"


class PieceTooLarge(CtxlabError, ValueError):
    """One message, or a call with its results, is larger than what the summariser takes. ``index``, ``tokens``."""


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """When and how a session is compacted. Numbers are tokens; all defaults are picked.

    ``compress``: trigger, keep-recent, the rule for the cut, facts that must survive. ``retain``: keep as many recent
    messages as fit in so many tokens, where that is more than ``compress.keep_recent``. ``keep_users``: the user's
    messages stay word for word, below the summary. ``prune_first``: shorten long tool results before anything is
    summarised, which may be enough. ``max_input``: what the summariser takes at most; more is given to it in pieces,
    each with the summary so far, and if one of them fails the whole compaction does.
    """

    compress: Policy = DEFAULT_POLICY
    retain: int | None = None
    keep_users: bool = False
    prune_first: bool = False
    max_input: int | None = None


DEFAULT_COMPACTION = CompactionPolicy()


def compact(journal: Journal, summarize: Summarizer, policy: CompactionPolicy | Policy, *, force: bool) -> Outcome:
    """`Session.compact`."""
    with journal.turn():
        work = _begin(journal, policy, force)
        if not work.due:
            return compress(work.surface, summarize, work.policy)
        with work.transaction():
            return work.finish(compress(work.surface, work.summarizer(summarize), work.policy))


async def compact_async(
    journal: Journal, summarize: Summarizer, policy: CompactionPolicy | Policy, *, force: bool
) -> Outcome:
    """`Session.compact_async`."""
    with journal.turn():
        work = _begin(journal, policy, force)
        if not work.due:
            return await compress_async(work.surface, summarize, work.policy)
        with work.transaction():
            return work.finish(await compress_async(work.surface, work.summarizer(summarize), work.policy))


def _begin(journal: Journal, policy: CompactionPolicy | Policy, force: bool) -> _Work:
    log, rules = journal.log, CompactionPolicy(policy) if isinstance(policy, Policy) else policy
    if log.open_start is not None:
        raise SessionBusy(
            f"session {journal.id!r} is being compacted since seq {log.open_start.seq}, and that is not closed",
            hint="let it end; where its end marker could not be written, open the session anew",
            session=journal.id,
        )
    inner = rules.compress
    if rules.prune_first and inner.count([m for m in as_messages(log.messages()) if not m.is_system]) >= inner.trigger:
        prune(journal)
    surface = as_messages(log.messages())
    carried = tuple(fact for event in log.surface if event.kind == REPLACE for fact in event.data.get("facts", ()))
    inner = dataclasses.replace(
        inner,
        trigger=0 if force else inner.trigger,
        keep_recent=max(inner.keep_recent, _retained(surface, rules.retain, inner)),
        facts=tuple(dict.fromkeys((*carried, *inner.facts))),
    )
    steps = explain_compress(surface, inner)
    cut = int(steps[-1].data["cut"]) if steps[-1].action == "replace" else -1
    return _Work(journal, rules, inner, surface, cut)


def _retained(surface: Sequence[Message], retain: int | None, policy: Policy) -> int:
    """How many messages at the end hold at most ``retain`` tokens."""
    kept, total = 0, 0
    for message in reversed(surface) if retain is not None else ():
        total += policy.count([message])
        if total > (retain or 0):
            break
        kept += 1
    return kept


@dataclass(slots=True)
class _Work:
    """One compaction under way: the messages before ``cut`` are to be replaced (-1: there is nothing to do).

    ``shadowed`` are the surface events that will be, whose messages are ``surface[first:stop]``; those before ``lead``
    (system messages at the start) and from ``cut`` on stay word for word. ``spent``: the summariser's tokens, in and
    out, as the policy counts them.
    """

    journal: Journal
    rules: CompactionPolicy
    policy: Policy
    surface: tuple[Message, ...]
    cut: int
    lead: int = 0
    start: Event | None = None
    shadowed: list[Event] = field(default_factory=list)
    first: int = 0
    stop: int = 0
    spent: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def due(self) -> bool:
        return self.cut > 0

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Writes the start marker before the block; the end marker too, where the block is broken off."""
        journal = self.journal
        self._find_range(journal.log)
        span = {"startSeq": self.shadowed[0].seq, "endSeq": self.shadowed[-1].seq}
        self.start = journal.write([(START, {**span, "sourceEventSeqs": [event.seq for event in self.shadowed]})])[0]
        try:
            yield
        except BaseException as error:
            if journal.log.open_start is not None and not isinstance(error, OSError):
                self._end("failed", f"{type(error).__name__}: {error}")
            raise
        journal.keep_snapshot()

    def _find_range(self, log: Log) -> None:
        self.lead = next((i for i, message in enumerate(self.surface) if not message.is_system), 0)
        place = 0
        for event in log.surface:
            count = len(event.messages)
            if place + count > self.lead and place < self.cut:
                if not self.shadowed:
                    self.first = place
                self.shadowed.append(event)
                self.stop = place + count
            place += count

    def finish(self, outcome: Outcome) -> Outcome:
        """Writes what the outcome means, and the end marker; the outcome with the surface that now stands."""
        journal = self.journal
        if isinstance(outcome, Compressed):
            try:
                journal.write([(REPLACE, self._event(outcome))])
            except LogRefused as error:
                why = f"the range changed while the summary was written: {error}"
                outcome = Refused(
                    outcome.history, why, outcome.tokens_before, outcome.tokens_before, outcome.steps, outcome.summary
                )
        self._end(type(outcome).__name__.lower(), outcome.why)
        journal.refresh_meta()
        return dataclasses.replace(outcome, history=as_messages(journal.log.messages()))

    def _event(self, outcome: Compressed) -> dict[str, Any]:
        """The replace event: the summary and what is kept beside it, in the place of what it stands for."""
        made = outcome.messages
        behind = len(self.surface) - self.cut
        shown = made[self.lead : len(made) - behind]
        before = [message.to_dict() for message in self.surface[self.first : self.lead]]
        after = [message.to_dict() for message in self.surface[self.cut : self.stop]]
        source = hashlib.sha256()
        for event in self.shadowed:
            for message in event.messages:
                source.update(canonical(message) + b"\n")
        extra: dict[str, Any] = {"compaction": self.start.seq if self.start else 0, "sourceHash": source.hexdigest()}
        if self.policy.facts:
            extra["facts"] = list(self.policy.facts)
        if self.rules.keep_users:
            extra["userTexts"] = self._user_texts()
        return replacement(self.shadowed, copy_json([*before, *shown, *after]), "compaction", **extra)

    def _end(self, outcome: str, why: str) -> None:
        tokens = {"inputTokens": self.spent[0], "outputTokens": self.spent[1]}
        start = self.start.seq if self.start else 0
        self.journal.write([(END, {"start": start, "outcome": outcome, "why": why, **tokens})])

    # The summariser's side

    def summarizer(self, summarize: Summarizer) -> Summarizer:
        """The summariser in pieces, with what has to stay added to its text."""

        def whole(early: list[dict[str, Any]]) -> str | Awaitable[str]:
            answer: str | Awaitable[str] = _drive(self._pieces(early), summarize)
            return answer

        return whole

    def _pieces(self, early: list[dict[str, Any]]) -> Generator[list[dict[str, Any]], Any, Any]:
        """Yields each request, is sent each summary, and returns the text: the same for sync and async."""
        start = 0
        text: Any = ""
        while start < len(early):
            so_far = [{"role": "user", "content": f"{SUMMARY_MARKER}\n{text}"}] if text else []
            stop = self._piece(early, start, so_far)
            request = copy_json([*so_far, *early[start:stop]])
            self.spent[0] += self.policy.count(as_messages(request))
            text = yield request
            if not isinstance(text, str) or not text.strip():
                return text
            self.spent[1] += self.policy.count(as_messages([{"role": "assistant", "content": text}]))
            start = stop
        return self._with_what_stays(text)

    def _piece(self, early: list[dict[str, Any]], start: int, so_far: list[dict[str, Any]]) -> int:
        limit, count = self.rules.max_input, self.policy.count
        if limit is None or count(as_messages([*so_far, *early[start:]])) <= limit:
            return len(early)
        total, stop = count(as_messages(so_far)) if so_far else 0, start
        while stop < len(early) and (total := total + count(as_messages([early[stop]]))) <= limit:
            stop += 1
        cut = align_to_turn_start(early, stop)
        if cut <= start:
            raise PieceTooLarge(
                f"message {stop} of those to summarise, with what it belongs to, does not fit in {limit:,} tokens",
                hint="prune first (prune_first=True), or raise max_input",
                index=stop,
                tokens=total,
            )
        return cut

    def _with_what_stays(self, text: str) -> str:
        if self.rules.keep_users and (texts := self._user_texts()):
            text += USER_TEXTS + "\n".join(f"{number}. {said}" for number, said in enumerate(texts, 1))
        there = "\n".join([text, *(message.text for message in self.surface[self.cut :])]).casefold()
        lost = [fact for fact in self.policy.facts if fact.casefold() not in there]
        return text + FACTS + "\n".join(f"- {fact}" for fact in lost) if lost else text

    def _user_texts(self) -> list[str]:
        """What the user said in the stretch, with what earlier compactions kept of it."""
        texts: list[str] = []
        for event in self.shadowed:
            texts += event.data.get("userTexts", ()) if event.kind == REPLACE else ()
            messages = [Message.of(message) for message in event.messages]
            texts += [m.text for m in messages if m.role == "user" and not is_summary(m) and m.text]
        return list(dict.fromkeys(texts))


def _drive(pieces: Any, summarize: Callable[[list[dict[str, Any]]], Any]) -> Any:
    """Runs the pieces through a summariser; turns into a coroutine at the first awaitable that it returns."""
    try:
        request = next(pieces)
        while True:
            answer = summarize(request)
            if inspect.isawaitable(answer):
                return _drive_async(pieces, summarize, answer)
            request = pieces.send(answer)
    except StopIteration as end:
        return end.value


async def _drive_async(pieces: Any, summarize: Callable[[list[dict[str, Any]]], Any], answer: Any) -> Any:
    while True:
        text = await answer if inspect.isawaitable(answer) else answer
        try:
            request = pieces.send(text)
        except StopIteration as end:
            return end.value
        answer = summarize(request)


def prune(
    journal: Journal,
    *,
    limit: int = PRUNE_LIMIT,
    head: int = PRUNE_HEAD,
    tail: int = PRUNE_TAIL,
    arguments: bool = False,
) -> list[Step]:
    """`Session.prune`."""
    with journal.turn():
        items = []
        for event in journal.log.surface:
            if any(_may_be_long(message, limit, arguments) for message in event.messages):
                messages = list(event.messages)
                short = prune_history(messages, limit=limit, head=head, tail=tail, arguments=arguments)
                if short != messages:
                    items.append((REPLACE, replacement([event], copy_json(short), "prune")))
        if not items:
            return []
        steps = explain_prune(journal.log.messages(), limit=limit, head=head, tail=tail, arguments=arguments)
        journal.write(items)
        return steps


def _may_be_long(message: dict[str, Any], limit: int, arguments: bool) -> bool:
    if message["role"] == "tool":
        content = message.get("content")
        return not isinstance(content, str) or len(content) > limit
    return arguments and bool(message.get("tool_calls"))
