"""The judge: asks a submission's functions the questions of their exercises, and decides.

No learner's code runs in this process. The values that are asked are drawn from the seed for each check anew, and the
answers are compared here. Whatever a submission does, there is one verdict for each check.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from ctxlab.grading.asking import Ask, Failed, told_error
from ctxlab.grading.draw import Draw
from ctxlab.grading.exercises import EXERCISES
from ctxlab.grading.exercises.compress_if_needed import count_service
from ctxlab.grading.model import Check, CheckResult, Exercise, ExerciseResult
from ctxlab.grading.submissions import Source
from ctxlab.sandbox import Broken, Limits, Service, Worker, hide_argument

SERVICES: Mapping[str, Service] = {"estimate_tokens": count_service}
MAX_TIMEOUTS = 3  # of one exercise, after which the rest is not asked; picked, so that a class goes on
MAX_RESTARTS = 4  # while loading: pieces that end the process are left out one by one, up to here


@dataclass(slots=True)
class FileBench:
    """One file in a worker of its own, which is started when it is first asked, and anew after it broke."""

    source: Source
    limits: Limits = field(default_factory=Limits)
    installed: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _worker: Worker | None = None
    _left_out: set[int] = field(default_factory=set)
    _begun: float = field(default_factory=time.monotonic)

    def __enter__(self) -> FileBench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def ask(self, question: Mapping[str, Any], services: Mapping[str, Service] | None = None) -> dict[str, Any]:
        """The answer to one question; raises `Broken`."""
        if time.monotonic() - self._begun > self.limits.submission:
            text = f"the time budget of the whole submission ({self.limits.submission:g} seconds) is used up"
            raise Broken("timeout", text)
        worker = self._ready()
        try:
            return worker.channel.ask(question, services)
        except Broken:
            self.close()
            raise
        finally:
            if len(worker.channel.output) >= self.limits.output:
                self._note(f"printed more than {self.limits.output:,} bytes; the rest was not kept")

    def home(self) -> Path:
        """The worker's folder."""
        return self._ready().home

    def install(self, names: Mapping[str, str]) -> None:
        """Answer the submission's functions of those names by services from now on, also after a restart."""
        self.installed = names
        if names:
            self.ask({"do": "install", "names": dict(names)})

    def _ready(self) -> Worker:
        restarts = 0
        while self._worker is None:
            worker = Worker(self.limits, main=self.source.main)
            broke = self._load(worker)
            if broke is None:
                self._worker = worker
                break
            worker.close()
            restarts += 1
            if restarts > MAX_RESTARTS:
                raise broke
        return self._worker

    def _load(self, worker: Worker) -> Broken | None:
        """Run the file's pieces; the one that ended the process is left out from now on."""
        worker.channel.ask({"do": "withhold", "names": self._withheld()})
        for number, piece in enumerate(self.source.pieces):
            if number in self._left_out:
                continue
            try:
                answer = worker.channel.ask(
                    {"do": "run", "file": piece.place, "line": piece.line, "source": piece.source}
                )
            except Broken as broken:
                self._left_out.add(number)
                self._note(f"{piece.place}, line {piece.line}: left out, {broken}")
                return broken
            error = answer.get("error")
            if isinstance(error, dict):
                self._note(f"{piece.place}, line {piece.line}: {told_error(error)}")
        if self.installed:
            worker.channel.ask({"do": "install", "names": dict(self.installed)})
        return None

    def _withheld(self) -> dict[str, list[str]]:
        """The library's own answers to what this file answers itself, by module."""
        names: dict[str, list[str]] = {}
        for exercise in EXERCISES.values():
            if self.source.defines(exercise.name) == "attempted":
                for module, functions in exercise.withheld.items():
                    names.setdefault(module, []).extend(functions)
        return names

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def judge(exercise: Exercise, source: Source, bench: FileBench, seed: int) -> ExerciseResult:
    """The verdicts on one exercise of one file."""
    hide_argument(str(seed))  # every process of a machine can read the command lines of the others
    where = str(source.path)
    if source.error is not None:
        return unasked(exercise, "error", source.error, where)
    state = source.defines(exercise.name)
    if state == "blank":
        return unasked(exercise, "not attempted", f"{exercise.name} is as it was handed out", where)
    if state == "missing":
        broken = [note for note in source.notes if "Error" in note]
        if broken:
            return unasked(exercise, "error", f"{exercise.name} was not found; {broken[0]}", where)
        return unasked(exercise, "not attempted", f"the submission defines no function {exercise.name}", where)
    try:
        bench.install(exercise.services)
        there = bench.ask({"do": "names", "names": [exercise.name]}).get("value")
    except Broken as broken_load:
        return unasked(exercise, "error", f"the submission cannot be run: {broken_load}", where)
    if there != [exercise.name]:
        why = "; ".join(bench.notes[:2]) or "after the submission had run there was no such function"
        return unasked(exercise, "error", f"{exercise.name} could not be defined: {why}", where)
    return ask_all(exercise, bench, seed, where)


def ask_all(exercise: Exercise, bench: FileBench, seed: int, where: str = "") -> ExerciseResult:
    """The verdicts of all checks of an exercise whose function is there."""
    ask = Ask(exercise, bench, SERVICES, budget=bench.limits.check)
    results: list[CheckResult] = []
    for check in exercise.checks:
        results.append(ask_next(exercise, check, results, ask, seed))
    return ExerciseResult(exercise, tuple(results), where=where)


def ask_next(exercise: Exercise, check: Check, before: Sequence[CheckResult], ask: Ask, seed: int) -> CheckResult:
    """The verdict of the next check, which is not asked where it builds on one that did not pass, or time is up."""
    missing = [one for one in before if one.check.id in check.builds_on and not one.passed]
    if missing and not any(one.grader for one in missing):
        text = f"skipped: it builds on “{missing[0].check.title}”, which did not pass; mend that one first"
        return CheckResult(check, missing[0].outcome, f"{text}. See {exercise.lesson}.", skipped=True)
    if ask.timeouts >= MAX_TIMEOUTS:
        text = f"not asked: {MAX_TIMEOUTS} earlier questions of this exercise had run out of time"
        return CheckResult(check, "error", text)
    return ask_one(exercise, check, ask, seed)


def ask_one(exercise: Exercise, check: Check, ask: Ask, seed: int) -> CheckResult:
    """The verdict of one check."""
    ask.begin()
    try:
        check.run(ask, Draw(seed, exercise.name, check.id))
    except Failed as failed:
        return CheckResult(check, failed.outcome, message(exercise, check, failed))
    except Exception as error:  # noqa: BLE001 - a fault of a check must not take the other verdicts with it
        text = f"the grader itself failed ({type(error).__name__}: {error}); this is not the submission's fault"
        return CheckResult(check, "error", text, grader=True)
    return CheckResult(check, "passed")


def message(exercise: Exercise, check: Check, failed: Failed) -> str:
    """What a learner reads: what was called, what came back, what was expected, why it matters, where to read on."""
    called = f"{failed.called}: " if failed.called else ""
    return f"{called}{failed.got}. Expected: {failed.expected}. Why: {check.why.rstrip('.')}. See {exercise.lesson}."


def unasked(exercise: Exercise, outcome: str, text: str, where: str = "") -> ExerciseResult:
    """The verdicts where the function could not be asked: not attempted, or an error."""
    kind: Any = outcome
    checks: Sequence[CheckResult] = [CheckResult(check, kind, text) for check in exercise.checks]
    return ExerciseResult(exercise, tuple(checks), error=text if outcome == "error" else None, where=where)
