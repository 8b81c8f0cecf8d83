"""What a run of a recursive language model leaves behind: a tree of frozen values, and its bill.

A run has steps; a step has the code that the model wrote, what the code printed, and the sub-calls that it made; a
sub-call that was a run of its own has its steps in turn. Tokens are this package's count, not a provider's bill.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Model calls, and their tokens: ``tokens_in`` of the requests, ``tokens_out`` of the answers.

    >>> Usage(1, 100, 5) + Usage(2, 50, 1)
    Usage(calls=3, tokens_in=150, tokens_out=6)
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def tokens(self) -> int:
        """In and out together. Providers price the two apart, so a bill in money needs both."""
        return self.tokens_in + self.tokens_out

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls, self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SubCall:
    """One ``llm(question, snippet)``. ``characters``: of the snippet. ``answer`` is '' where it failed, and ``error``
    then says why. ``usage`` is all that it cost. ``run``: its own run, where it was one (else it was one request)."""

    question: str
    characters: int
    answer: str
    error: str
    usage: Usage
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class RlmStep:
    """One turn of the loop. ``code``: what the model wrote ('' where its reply held none). ``output``: what it got
    back, ``error`` included. ``usage``: of the request that wrote the code; the sub-calls have their own."""

    number: int
    code: str
    output: str
    error: str
    calls: tuple[SubCall, ...]
    usage: Usage


@dataclass(frozen=True, slots=True)
class Run:
    """A run over one text of ``characters``. ``answer`` is None where it ended without one; ``stopped`` says why."""

    question: str
    characters: int
    answer: str | None
    stopped: str
    steps: tuple[RlmStep, ...]
    usage: Usage

    def tree(self, width: int = 100) -> str:
        """The run as indented lines of at most ``width`` characters (picked), for a terminal or a notebook."""
        return "\n".join(_short(line, width) for line in _lines(self, ""))


def to_json(run: Run) -> dict[str, Any]:
    """The run as JSON data, sub-calls and their runs included."""
    from dataclasses import asdict

    return asdict(run)


def _lines(run: Run, indent: str) -> list[str]:
    lines = [f"{indent}{run.question}  [{run.characters:,} characters]"]
    for step in run.steps:
        lines.append(f"{indent}  step {step.number}  [{_bill(step.usage)}]")
        lines += [f"{indent}    > {line}" for line in step.code.strip("\n").splitlines()]
        for call in step.calls:
            lines += _call_lines(call, f"{indent}    ")
        lines += [f"{indent}    {line}" for line in step.output.splitlines()]
    end = f"answer: {run.answer}" if run.answer is not None else f"no answer: {run.stopped}"
    return [*lines, f"{indent}  {end}  [{_bill(run.usage)} in all]"]


def _call_lines(call: SubCall, indent: str) -> list[str]:
    if call.run is not None:
        return _lines(call.run, f"{indent}llm ")
    told = f"refused: {call.error}" if call.error else _short(call.answer, 16)
    return [
        f"{indent}llm({_short(call.question, 30)!r}, {call.characters:,} characters) -> {told}  [{_bill(call.usage)}]"
    ]


def _bill(usage: Usage) -> str:
    calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
    return f"{calls}, {usage.tokens_in:,} tokens in, {usage.tokens_out:,} out"


def _short(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
