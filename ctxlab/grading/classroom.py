"""What a class's results say together: how scores fall, which checks fail most, and their commonest wrong answers.

Counted in one pass, so a class of any size needs the memory of its counters. Only the submission that counts for each
learner is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxlab.errors import CtxlabError
from ctxlab.grading.exercises import EXERCISES
from ctxlab.grading.learners import Learner
from ctxlab.grading.model import Check, CheckResult, ExerciseResult
from ctxlab.grading.report import Report
from ctxlab.grading.similarity import Alike

if TYPE_CHECKING:
    import pandas as pd

ANSWERS = 3  # wrong answers shown a check; picked
BINS = 10  # of the distribution; picked


class ExtraMissing(CtxlabError, ImportError):
    """A part that needs an extra which is not installed. ``extra``."""


@dataclass(slots=True)
class CheckTally:
    """One check over the class: how many were asked, how each outcome was met, and the wrong answers."""

    exercise: str
    check: Check
    outcomes: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)

    @property
    def asked(self) -> int:
        """How many attempted the exercise."""
        return self.outcomes.total() - self.outcomes["not attempted"]

    @property
    def missed(self) -> int:
        """How many of them did not pass."""
        return self.asked - self.outcomes["passed"]

    def add(self, verdict: CheckResult) -> None:
        """Count one verdict."""
        self.outcomes[verdict.outcome] += 1
        if verdict.outcome not in ("passed", "not attempted") and not verdict.grader:
            self.answers[wrong_answer(verdict.message)] += 1


@dataclass(slots=True)
class Summary:
    """A class in numbers. ``shares`` are the scores as shares of the points (0 to 1), by learner; ``exercises`` counts
    for each exercise how many passed, attempted without passing, and did not attempt."""

    seed: int
    isolation: str
    learners: int = 0
    submissions: int = 0
    shares: list[float] = field(default_factory=list)
    exercises: dict[str, Counter[str]] = field(default_factory=dict)
    checks: dict[tuple[str, str], CheckTally] = field(default_factory=dict)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    grader_failed: list[str] = field(default_factory=list)
    several: list[str] = field(default_factory=list)
    alike: Sequence[Alike] = ()

    @property
    def bins(self) -> list[int]:
        """How many learners got under a tenth of the points, under two tenths, and so on; the last holds full marks."""
        counted = [0] * BINS
        for share in self.shares:
            counted[min(int(share * BINS + 1e-9), BINS - 1)] += 1
        return counted

    @property
    def hardest(self) -> list[CheckTally]:
        """The checks that somebody missed, the most missed first, those of the lesson before those beyond it."""
        missed = [one for one in self.checks.values() if one.missed]
        return sorted(missed, key=lambda one: (not one.check.required, -one.missed / one.asked, one.check.id))


def summarise(report: Report, found: Sequence[Learner], alike: Sequence[Alike] = ()) -> Summary:
    """The class in numbers."""
    done = Summary(report.seed, report.isolation.text, len(found), len(report.submissions), alike=alike)
    for learner in found:
        one = report.submissions[learner.counts]
        done.shares.append(one.score / one.max_score if one.max_score else 0.0)
        if learner.others:
            done.several.append(learner.name)
        if any(check.grader for result in one.exercises for check in result.checks):
            done.grader_failed.append(learner.name)
        elif one.error:
            done.unreadable.append((learner.name, one.error))
        for result in one.exercises if one.error is None else ():
            _count(done, result)
    return done


def _count(done: Summary, result: ExerciseResult) -> None:
    name = result.exercise.name
    state = "passed" if result.passed else "not passed" if result.attempted else "not attempted"
    done.exercises.setdefault(name, Counter())[state] += 1
    for verdict in result.checks:
        tally = done.checks.setdefault((name, verdict.check.id), CheckTally(name, verdict.check))
        tally.add(verdict)


def wrong_answer(message: str) -> str:
    """What came back, out of a check's message, so that the same mistake reads the same whoever made it.

    >>> wrong_answer("fork_session(session of 9 messages, 3): id is 's-8f3a91c2'. Expected: a fresh id. Why: x")
    "id is '…'"
    >>> wrong_answer("f(x): it raised KeyError: 'content' (cell 3, line 4: m[0]). Expected: an answer. Why: x")
    "it raised KeyError: 'content'"
    """
    got = message.partition(". Expected: ")[0]
    got = re.sub(r"^\w+\(.*?\): ", "", got, count=1, flags=re.S)
    got = re.sub(r" \((?:[^()]*, )?line \d+: .*", "", got, flags=re.S)
    got = re.sub(r"\b(s-)?[0-9a-f]{8}[0-9a-f-]*\b", "…", got)
    got = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.+Z-]+", "…", got)
    return got.strip()[:200]


def to_frame(report: Report, found: Sequence[Learner]) -> pd.DataFrame:
    """The verdicts as a pandas DataFrame, a row a check of each submission, for questions that the report leaves open.

    Columns: learner, path, counts, exercise, check, required, outcome, points, earned. Raises `ExtraMissing`.
    """
    try:
        import pandas as pd
    except ImportError:
        raise ExtraMissing("pandas is not installed", hint="pip install 'ctxlab[lab]'", extra="lab") from None
    columns = ["learner", "path", "counts", "exercise", "check", "required", "outcome", "points", "earned"]
    return pd.DataFrame.from_records(list(_rows(report, found)), columns=columns)


def _rows(report: Report, found: Sequence[Learner]) -> Iterator[tuple[object, ...]]:
    for learner in found:
        for place in (learner.counts, *learner.others):
            one = report.submissions[place]
            for result in one.exercises:
                for verdict in result.checks:
                    check = verdict.check
                    yield (
                        learner.name, one.path, place == learner.counts, result.exercise.name, check.id,
                        check.required, verdict.outcome, check.points, check.points if verdict.passed else 0.0,
                    )  # fmt: skip


def order(names: Sequence[str]) -> list[str]:
    """Names of exercises in the order of the exercises."""
    return [name for name in EXERCISES if name in names]
