"""The place where the prompt is a variable: a Python of its own, in the grader's sandbox.

What the model writes is run there and nowhere else: no network, no files but an empty home, limits on CPU, memory and
output. ``llm(question, snippet)`` in it is answered from outside, through the worker's channel. A step that runs out of
time or kills its process costs that process: the next step finds a fresh one, with the prompt and without variables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ctxlab.sandbox import Broken, Limits, Service, ServiceRaised, Worker

SETUP = '''
import builtins, io, sys, traceback


class Answered(BaseException):
    """Ends a step once answer() was called."""


class Page(io.TextIOBase):
    """Keeps the first characters of what is printed, and counts the rest."""

    def __init__(self, most):
        self.most, self.parts, self.size = most, [], 0

    def writable(self):
        return True

    def write(self, text):
        if self.size < self.most:
            self.parts.append(text[: self.most - self.size])
        self.size += len(text)
        return len(text)


def enter(text, llm, most):
    def answer(value):
        kept["answer"] = str(value)
        raise Answered

    kept = {"answer": None}
    globals()["state"] = (most, kept, {"__name__": "rlm", "prompt": text, "llm": llm, "answer": answer})


def step(code, number):
    most, kept, space = state
    page, name, error = Page(most), "<step %d>" % number, ""
    before, sys.stdout = sys.stdout, page
    try:
        exec(compile(code, name, "exec"), space)
    except Answered:
        pass
    except BaseException as problem:
        places = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == name]
        line = places[-1] if places else getattr(problem, "lineno", None)
        error = "%s%s: %s" % ("line %d: " % line if line else "", type(problem).__name__, problem)
    finally:
        sys.stdout = before
    left_out = max(0, page.size - most)
    return {"output": "".join(page.parts), "left_out": left_out, "error": error[:most], "answer": kept["answer"]}
'''


@dataclass(frozen=True, slots=True)
class Result:
    """What a step gave: what it printed (with a note of what was cut off), its error or '', and the answer or None."""

    output: str
    error: str
    answer: str | None


class Environment:
    """One prompt in a worker; a context manager that leaves nothing of it alive.

    ``llm`` answers a question about a snippet. ``most``: characters that a step may print, and that an answer may have.
    ``limits`` are the sandbox's. Raises `WorkerError` where no worker can be started.
    """

    def __init__(self, prompt: str, llm: Callable[[str, str], str], most: int, limits: Limits) -> None:
        self._prompt, self._llm, self._most, self._limits = prompt, llm, most, limits
        self._worker: Worker | None = None

    def __enter__(self) -> Environment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker, with everything that the code left in it."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def step(self, code: str, number: int) -> Result:
        """Run a piece of code; whatever it does is in the result. Only the caller's own exceptions go through."""
        try:
            worker = self._entered()
            asked = {"do": "call", "function": "step", "args": [{"value": code}, {"value": number}]}
            services: dict[str, Service] = {"llm": self._serve}
            return self._read(worker.channel.ask(asked, services=services))
        except Broken as broken:
            self.close()
            return Result("", f"stopped: {broken}; the variables are lost, prompt is there again", None)

    def _entered(self) -> Worker:
        if self._worker is None:
            self._worker = Worker(self._limits, main="rlm_worker")
            self._worker.channel.ask({"do": "run", "file": "environment", "line": 1, "source": SETUP})
            args = [{"value": self._prompt}, {"service": "llm"}, {"value": self._most}]
            self._worker.channel.ask({"do": "call", "function": "enter", "args": args})
        return self._worker

    def _serve(self, args: list[Any]) -> str:
        texts = [_clean(arg) for arg in args if isinstance(arg, str)]
        if len(texts) != len(args) or not 1 <= len(texts) <= 2:
            raise ServiceRaised("ValueError", "llm(question, snippet) takes two texts")
        return self._llm(texts[0], texts[1] if len(texts) == 2 else "")

    def _read(self, answer: dict[str, Any]) -> Result:
        """The worker's answer, which nobody has to believe: texts are texts, and no longer than they may be."""
        value = answer.get("value")
        if not isinstance(value, dict):
            problem = answer.get("error") or answer.get("problem")
            return Result("", f"stopped: the step left no result that can be read: {problem}"[: self._most], None)
        output, error, said = (
            _clean(text)[: self._most] if isinstance(text := value.get(key), str) else None
            for key in ("output", "error", "answer")
        )
        left_out, shown = value.get("left_out"), output or ""
        if isinstance(left_out, int) and left_out > 0:
            shown += f"\n[{left_out:,} more characters were printed and are not shown: print less]"
        return Result(shown, error or "", said)


def _clean(text: str) -> str:
    """The text without lone surrogates, which no request to an endpoint can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
