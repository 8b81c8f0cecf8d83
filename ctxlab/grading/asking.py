"""How a check asks: `Ask` puts questions to a learner's function and gives the answers as plain values.

A check reads like what it means: ``ask.call(history).value``. Reading the value of a call that raised, or that gave
something that JSON has no word for, ends the check with the right outcome, so that no check has to look for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

from ctxlab.grading.model import Exercise, Outcome
from ctxlab.sandbox import Broken, Limits, Service


class Failed(Exception):
    """Ends a check that did not pass. The parts of the message are attributes."""

    def __init__(self, got: str, expected: str, outcome: Outcome = "failed", called: str = "") -> None:
        super().__init__(got)
        self.got, self.expected, self.outcome, self.called = got, expected, outcome, called


@dataclass(frozen=True, slots=True)
class Kept:
    """An argument that the worker keeps under a name, so that it can be changed and looked at later."""

    name: str


@dataclass(frozen=True, slots=True)
class Serve:
    """An argument that is a function answered by the judge."""

    name: str
    service: Service


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one call: a plain ``value``, or ``raised`` / ``problem`` in words.

    ``after`` are the arguments as they are after the call, ``served`` the services that were used. ``flushes`` (file
    sizes at each flush to disk) and ``bytes_read`` are what the worker says of itself: a submission could lie there.
    """

    called: str
    content: Any = None
    raised: str = ""
    problem: str = ""
    after: Sequence[Any] = ()
    flushes: Sequence[int] = ()
    bytes_read: int = 0
    served: frozenset[str] = frozenset()

    @property
    def value(self) -> Any:
        """The answer; ends the check where the call raised or the answer is not JSON data."""
        if self.raised:
            raise Failed(f"it raised {self.raised}", "an answer, and no exception", outcome="error", called=self.called)
        if self.problem:
            raise Failed(self.problem, "text, numbers, true, false, None, lists and dicts only", called=self.called)
        return self.content

    def done(self) -> None:
        """End the check where there was no usable answer; for those that look at what the call left behind."""
        _ = self.value

    def fail(self, got: str, expected: str) -> NoReturn:
        """End the check: the answer is wrong."""
        raise Failed(got, expected, called=self.called)


class Bench(Protocol):
    """Where a submission runs: answers questions about it, started anew where one of them broke it."""

    def ask(self, question: Mapping[str, Any], services: Mapping[str, Service] | None = None) -> dict[str, Any]:
        """The answer to one question; raises `Broken`."""
        ...

    def home(self) -> Path:
        """The folder in which the submission runs, as a path that holds on both sides."""
        ...


@dataclass(slots=True)
class Ask:
    """Puts questions to one exercise's function.

    ``timeouts`` counts those that ran out of time; ``budget`` is the seconds for all questions of one check.
    """

    exercise: Exercise
    bench: Bench
    services: Mapping[str, Service] = field(default_factory=dict)
    timeouts: int = 0
    budget: float = Limits().check
    begun: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """A new check begins: its time counts from here."""
        self.begun = time.monotonic()

    def home(self) -> Path:
        """The folder in which the submission runs."""
        return self.bench.home()

    def call(self, *args: Any, keep: str = "", shown: str = "") -> Answer:
        """Call the function. ``keep`` names the result for later; ``shown`` is the call in words a person reads."""
        served: set[str] = set()
        given = {**self.services, **{arg.name: arg.service for arg in args if isinstance(arg, Serve)}}
        services = {name: _noted(name, service, served) for name, service in given.items()}
        called = shown or f"{self.exercise.name}({', '.join(short(arg) for arg in args)})"
        question = {
            "do": "call",
            "function": self.exercise.name,
            "args": [_argument(arg) for arg in args],
            "may_await": self.exercise.may_await,
            "keep": keep,
        }
        return replace(_answer(called, self.exchange(question, services, called)), served=frozenset(served))

    def put(self, name: str, value: Any) -> Kept:
        """Have the worker keep a value; the result stands for it in later calls."""
        self.exchange({"do": "put", "kept": name, "value": value})
        return Kept(name)

    def get(self, kept: Kept | str) -> Any:
        """A kept value as it is now."""
        name = kept if isinstance(kept, str) else kept.name
        return _answer(f"looking at the {name}", self.exchange({"do": "get", "kept": name})).value

    def change(self, kept: Kept | str, path: Sequence[str | int], value: Any) -> None:
        """Change a kept value in place, at ``path`` (whose last step '+' appends)."""
        name = kept if isinstance(kept, str) else kept.name
        question = {"do": "change", "kept": name, "path": list(path), "value": value}
        answer = _answer(f"changing the {name} at {list(path)}", self.exchange(question))
        if answer.raised:
            answer.fail(f"the change raised {answer.raised}", f"a {name} with such a place")

    def race(self, calls: Sequence[Sequence[Sequence[Any]]]) -> list[int]:
        """Call the function from several processes at once; their exit statuses."""
        question = {"do": "race", "function": self.exercise.name, "calls": calls}
        value = _answer(f"{self.exercise.name} from {len(calls)} processes", self.exchange(question)).value
        return value if isinstance(value, list) else []

    def exchange(
        self, question: dict[str, Any], services: Mapping[str, Service] | None = None, called: str = ""
    ) -> dict[str, Any]:
        """One question as it is; a question without an answer ends the check with an error."""
        if time.monotonic() - self.begun > self.budget:
            self.timeouts += 1
            got = f"the time budget of this check ({self.budget:g} seconds for all its questions) is used up"
            raise Failed(got, "answers in time", outcome="error", called=called)
        try:
            return self.bench.ask(question, services)
        except Broken as broken:
            self.timeouts += broken.kind == "timeout"
            raise Failed(str(broken), "an answer", outcome="error", called=called) from None


def _noted(name: str, service: Service, served: set[str]) -> Service:
    def noted(args: list[Any]) -> str | int:
        served.add(name)
        return service(args)

    return noted


def _argument(arg: Any) -> dict[str, Any]:
    if isinstance(arg, Kept):
        return {"kept": arg.name}
    if isinstance(arg, Serve):
        return {"service": arg.name}
    return {"value": arg}


def _answer(called: str, found: dict[str, Any]) -> Answer:
    """An answer from what the worker wrote, in which any part may be missing or false."""
    error = found.get("error")
    after, flushes, read = found.get("after"), found.get("flushes"), found.get("bytes_read")
    return Answer(
        called,
        content=found.get("value"),
        raised=told_error(error) if isinstance(error, dict) else "",
        problem=str(found["problem"])[:300] if "problem" in found else "",
        after=after if isinstance(after, list) else [],
        flushes=[size for size in flushes if isinstance(size, int)] if isinstance(flushes, list) else [],
        bytes_read=read if isinstance(read, int) else 0,
    )


def told_error(error: Mapping[str, Any]) -> str:
    """A learner's exception in words: type, text, and the learner's own line.

    >>> told_error({"type": "KeyError", "text": "'content'", "lines": [{"place": "cell 3", "line": 4, "code": "m[0]"}]})
    "KeyError: 'content' (cell 3, line 4: m[0])"
    """
    lines = error.get("lines")
    where = ""
    if isinstance(lines, list) and lines and isinstance(lines[-1], dict):
        last = lines[-1]
        place = f"{last.get('place')}, " if last.get("place") else ""
        where = f" ({place}line {last.get('line')}: {str(last.get('code'))[:120]})"
    text = " ".join(str(error.get("text", "")).split())[:300]
    return f"{error.get('type')}: {text}{where}" if text else f"{error.get('type')}{where}"


def short(value: Any, limit: int = 160) -> str:
    """A value as a person can read it in one line: long text is cut, of a long list its length is told.

    >>> short({"role": "user", "content": "a" * 200})
    "{'role': 'user', 'content': 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…' (200 characters)}"
    >>> short([{"role": "user"}] * 40)
    "[{'role': 'user'}, … 40 in all]"
    """
    if isinstance(value, Serve | Kept):
        return value.name
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else f"{repr(value[:40])[:-1]}…' ({len(value):,} characters)"
    if isinstance(value, list):
        whole = "[" + ", ".join(short(item, limit) for item in value[:4]) + "]"
        if len(value) <= 3 and len(whole) <= limit:
            return whole
        return f"[{short(value[0], limit)}, … {len(value)} in all]" if value else "[]"
    if isinstance(value, dict):
        inner = ", ".join(f"{key!r}: {short(item, limit)}" for key, item in value.items())
        return "{" + (inner if len(inner) <= limit * 2 else inner[: limit * 2] + "…") + "}"
    return repr(value)[:limit]
