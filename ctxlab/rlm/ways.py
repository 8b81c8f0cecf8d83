"""The same questions in three ways: the whole text, a compacted one, and a recursive run. Right answers, and bills.

*Full context* sends the whole text with each question; over the window that request is refused, and costs nothing. For
*compaction* the text comes in page by page, and whenever the history reaches the trigger, `compress` puts a summary in
place of its early pages. That happens once, before the questions are known; then each question is one request. It is
the kindest bill for it: reading the pages in is free, the summaries and the answers are billed. *RLM* is `run_rlm`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ctxlab.budget import TRIGGER_RATIO, history_trigger
from ctxlab.compress import Compressed, Policy, compress
from ctxlab.errors import ModelError
from ctxlab.models import Model
from ctxlab.rlm.corpus import Record, Task, as_text, records, tasks
from ctxlab.rlm.loop import DEFAULT_LIMITS, LEAF_SYSTEM, Meter, RlmLimits, Spent, leaf_messages, run_rlm
from ctxlab.rlm.reader import SUMMARY_SYSTEM, MockReader
from ctxlab.rlm.trace import Run, Usage
from ctxlab.tokens import count_tokens

FULL, COMPACTION, RLM = "full context", "compaction", "RLM"
WAYS = (FULL, COMPACTION, RLM)
PAGE = 40
"""Lines on one page of the compacted history (picked)."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One question answered in one way. ``answer`` is None where there was none, and ``note`` then says why."""

    way: str
    task: Task
    answer: str | None
    note: str
    usage: Usage
    run: Run | None = None

    @property
    def right(self) -> bool:
        """Whether the expected value stands in the answer as a word of its own."""
        if self.answer is None:
            return False
        return re.search(rf"(?<![\w.]){re.escape(self.task.expected)}(?!\w|\.\d)", self.answer, re.I) is not None


@dataclass(frozen=True, slots=True)
class Compared:
    """All attempts. ``shared`` is what compaction spent on its summaries, once for all questions; ``summaries`` how
    many it wrote; ``window`` and ``corpus_tokens`` in tokens."""

    window: int
    corpus_tokens: int
    attempts: tuple[Attempt, ...]
    shared: Usage
    summaries: int

    def of(self, way: str) -> tuple[Attempt, ...]:
        """The attempts of one way, in the questions' order."""
        return tuple(one for one in self.attempts if one.way == way)

    def bill(self, way: str) -> Usage:
        """All that a way cost, its summaries included."""
        return sum((one.usage for one in self.of(way)), self.shared if way == COMPACTION else Usage())

    def rows(self) -> list[dict[str, Any]]:
        """One row a question: the right answer, and each way's, marked."""
        made = []
        for same in zip(*(self.of(way) for way in WAYS), strict=True):
            row: dict[str, Any] = {"question": same[0].task.question, "expected": same[0].task.expected}
            made.append(row | {one.way: f"{'✓' if one.right else '✗'} {one.answer or one.note}" for one in same})
        return made

    def totals(self) -> list[dict[str, Any]]:
        """One row a way: right answers, and the bill over all questions."""
        made = []
        for way in WAYS:
            bill, done = self.bill(way), self.of(way)
            right = sum(one.right for one in done)
            row = {"way": way, "right": right, "of": len(done), "model calls": bill.calls}
            made.append(row | {"tokens in": bill.tokens_in, "tokens out": bill.tokens_out})
        return made


def compare_ways(
    orders: Sequence[Record] | None = None,
    questions: Sequence[Task] | None = None,
    model: Model | None = None,
    limits: RlmLimits = DEFAULT_LIMITS,
) -> Compared:
    """Each question in each way, with the same model and the same window (``limits.window``, in tokens).

    By default the module's 600 records, their seven questions, and the scripted model. A real model may be given; the
    bill is then many requests, so look at ``limits`` first. Raises `WorkerError` where no sandbox can be had.
    """
    orders = records() if orders is None else orders
    questions = tasks(orders) if questions is None else questions
    model, text = model or MockReader(), as_text(orders)
    open_ended = replace(limits, calls=1_000_000, tokens=1_000_000_000)
    history, shared, summaries = compacted(text, Meter(model, open_ended))
    attempts = []
    for task in questions:
        attempts.append(_asked(FULL, task, leaf_messages(task.question, text), Meter(model, open_ended)))
        request = [*history, {"role": "user", "content": task.question}]
        attempts.append(_asked(COMPACTION, task, request, Meter(model, open_ended)))
        run = run_rlm(task.question, text, model, limits)
        attempts.append(Attempt(RLM, task, run.answer, run.stopped, run.usage, run))
    return Compared(limits.window, count_tokens(text), tuple(attempts), shared, summaries)


def compacted(text: str, meter: Meter) -> tuple[list[dict[str, Any]], Usage, int]:
    """The history after ``text`` was read page by page and compacted at the trigger; what the summaries cost; how many.

    A summary that fails leaves the history as it is, as `compress` has it; the requests after that may be too long.
    """
    lines = text.splitlines()
    history: list[dict[str, Any]] = [{"role": "system", "content": LEAF_SYSTEM}]
    trigger = history_trigger(meter.limits.window - meter.limits.reserve, TRIGGER_RATIO)
    policy, written = Policy(trigger=trigger, keep_recent=2), 0
    for start in range(0, len(lines), PAGE):
        page = "\n".join(lines[start : start + PAGE])
        history += [{"role": "user", "content": page}, {"role": "assistant", "content": "Read."}]
        outcome = compress(history, _summariser(meter), policy)
        written += isinstance(outcome, Compressed)
        history = outcome.messages
    return history, meter.usage, written


def _summariser(meter: Meter) -> Callable[[list[dict[str, Any]]], str]:
    def summarise(early: list[dict[str, Any]]) -> str:
        pages = "\n\n".join(str(message["content"]) for message in early if message["role"] == "user")
        asked = [{"role": "system", "content": SUMMARY_SYSTEM}, {"role": "user", "content": pages}]
        return meter.ask(asked)[0]

    return summarise


def _asked(way: str, task: Task, messages: list[dict[str, Any]], meter: Meter) -> Attempt:
    try:
        text, usage = meter.ask(messages)
    except (Spent, ModelError) as error:
        return Attempt(way, task, None, f"refused: {error}", Usage())
    return Attempt(way, task, text, "", usage)
