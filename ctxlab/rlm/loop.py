"""A recursive language model: the prompt is a variable that the model looks at with code, calling itself over parts.

After Zhang, Kraska and Khattab, "Recursive Language Models", arXiv 2512.24601. The model never gets the long text. It
gets the question and the text's size, writes Python, sees what that printed, and writes again, until it calls
``answer(...)``. The prompts below are this package's own. Every limit is a number that somebody picked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ctxlab.errors import ModelError, WrongArgument
from ctxlab.models import Model
from ctxlab.rlm.environment import Environment
from ctxlab.rlm.trace import RlmStep, Run, SubCall, Usage
from ctxlab.sandbox import Limits, ServiceRaised, require_isolation
from ctxlab.tokens import count_tokens, estimate_tokens

ROOT_SYSTEM = """\
You answer a question about a long text that you are not shown. It stands in a Python variable, and you write code.
- prompt: the text, a str.
- llm(question, snippet): asks a language model about a part of the text that you choose, and returns its answer, a str.
  It sees nothing but its two arguments. Use it where meaning has to be judged, and code where code is enough.
- answer(value): gives the final answer, and ends.
- print(...): what you want to see. Only the first {output} characters of what a step prints come back.
Reply with one block of Python between ```python and ```. Variables stay from step to step. No file and no network are
to be had. Look first (print a piece), then work. At most {steps} steps and {calls} model calls in all; a request over
{window} tokens is refused."""

LEAF_SYSTEM = "Answer the question from the text below it, in as few words as possible. Say so where it does not tell."
TEXT_MARK = "--- text ---"
NO_CODE = "Your reply held no block of Python. Write one between ```python and ```, or call answer(...) in one."
NOTHING = "(nothing was printed)"
LONGEST_TOKEN = 128
"""Characters of the longest token (a run of spaces in o200k_base): a longer text is over a window without counting."""

NOTED = 500
"""Characters of a sub-call's question that the trace keeps (picked)."""

_BLOCK = re.compile(
    r"^[ \t]*```[ \t]*(?:python|py|repl)?[ \t]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class RlmLimits:
    """What a run may spend. All are picked.

    ``steps`` of one run; ``depth`` of runs below the first: 1 answers a sub-call with one request, 2 gives each a run
    of its own whose sub-calls are requests, 0 allows none. ``calls`` and ``tokens`` (in and out) hold for the whole
    tree. ``window``: tokens of one request; ``reserve`` of them are kept for the answer. ``output``: characters that a
    step gets back. ``seconds`` on the clock and ``cpu_seconds`` for one step, ``memory`` in bytes.
    Raises `WrongArgument` for a number that is not whole or is too small.
    """

    steps: int = 8
    depth: int = 1
    calls: int = 64
    tokens: int = 200_000
    window: int = 16_384
    reserve: int = 512
    output: int = 2_000
    seconds: int = 300
    cpu_seconds: int = 3
    memory: int = 1 << 30

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value, least = getattr(self, name), 0 if name in ("depth", "reserve") else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise WrongArgument(
                    f"{name}={value!r}; expected a whole number, {least} or more", name=name, value=value
                )


DEFAULT_LIMITS = RlmLimits()


class Spent(Exception):
    """A request that a limit does not allow. The text says which one."""


class Meter:
    """Asks a model and keeps the bill; refuses, before it is sent, a request that a limit does not allow."""

    def __init__(self, model: Model, limits: RlmLimits) -> None:
        self.model, self.limits, self.usage = model, limits, Usage()

    def ask(self, messages: Sequence[dict[str, Any]]) -> tuple[str, Usage]:
        """The reply's text, and what it cost. Raises `Spent`, and `ModelError` where the model does not answer."""
        limits = self.limits
        characters = sum(len(str(message["content"])) for message in messages)
        if characters > LONGEST_TOKEN * limits.window:
            raise Spent(f"the request has {characters:,} characters, far over the window of {limits.window:,} tokens")
        tokens = estimate_tokens(messages)
        if tokens + limits.reserve > limits.window:
            raise Spent(f"{tokens + limits.reserve:,} tokens with the reserve; the window has {limits.window:,}")
        if self.usage.calls >= limits.calls:
            raise Spent(f"all {limits.calls:,} model calls are spent")
        if self.usage.tokens + tokens > limits.tokens:
            raise Spent(f"{self.usage.tokens:,} of {limits.tokens:,} tokens are spent, and this request has {tokens:,}")
        text = str(self.model.reply(messages).get("content") or "")
        spent = Usage(1, tokens, count_tokens(text))
        self.usage += spent
        return text, spent


def run_rlm(
    question: str, prompt: str, model: Model, limits: RlmLimits = DEFAULT_LIMITS, *, isolation: str | None = None
) -> Run:
    """Answer ``question`` about ``prompt``, a text of any length, within ``limits``.

    ``isolation``: the least that the sandbox must hold, a level of `sandbox.LEVELS`. By default ``landlock`` (no files,
    no network), and ``limits`` for a model that says it is ``scripted``: its code is this package's own.

    Whatever the model's code does ends in the trace: an error is shown to the model, which may try again. A limit that
    is reached, and a model that fails, end the run without an answer; ``stopped`` says which. Raises `WrongArgument`
    for what is no text, `IsolationTooWeak`, and `WorkerError` where no sandbox can be had.
    """
    for name, value in (("question", question), ("prompt", prompt)):
        if not isinstance(value, str):
            raise WrongArgument(f"{name} is a {type(value).__name__}, not a text", name=name, value=value)
    require_isolation(isolation or ("limits" if getattr(model, "scripted", False) else "landlock"))
    return _run(question, prompt, Meter(model, limits), limits.depth)


def code_in(reply: str) -> str:
    """The Python in a reply: its blocks, in order; '' where there is none.

    >>> code_in("I look first.\\n```python\\nprint(len(prompt))\\n```\\nThen I see.")
    'print(len(prompt))\\n'
    """
    return "\n".join(_BLOCK.findall(reply.replace("\r\n", "\n")))


def leaf_messages(question: str, text: str) -> list[dict[str, Any]]:
    """The request that puts a question and the text that it is about before a model."""
    asked = f"{question}\n\n{TEXT_MARK}\n{text}"
    return [{"role": "system", "content": LEAF_SYSTEM}, {"role": "user", "content": asked}]


def root_messages(question: str, prompt: str, limits: RlmLimits) -> list[dict[str, Any]]:
    """The first request of a run: how the environment works, the question, and the size of the text."""
    system = ROOT_SYSTEM.format(
        output=f"{limits.output:,}", steps=limits.steps, calls=limits.calls, window=f"{limits.window:,}"
    )
    size = f"prompt has {len(prompt):,} characters in {len(prompt.splitlines()):,} lines."
    return [{"role": "system", "content": system}, {"role": "user", "content": f"Question: {question}\n{size}"}]


def _run(question: str, prompt: str, meter: Meter, depth: int) -> Run:
    limits, before = meter.limits, meter.usage
    messages = root_messages(question, prompt, limits)
    steps: list[RlmStep] = []
    calls: list[SubCall] = []
    answer, stopped = None, f"no answer after {limits.steps} steps"

    def llm(asked: str, snippet: str) -> str:
        if len(calls) > limits.calls:  # code that asks on and on, refused or not, must not fill the trace
            raise ServiceRaised("RuntimeError", f"more than {limits.calls:,} sub-calls in one step")
        calls.append(_sub_call(asked, snippet, meter, depth))
        if calls[-1].error:
            raise ServiceRaised("RuntimeError", calls[-1].error)
        return calls[-1].answer

    with Environment(prompt, llm, limits.output, _sandbox(limits)) as environment:
        while len(steps) < limits.steps and answer is None:
            try:
                reply, usage = meter.ask(messages)
            except (Spent, ModelError) as error:
                stopped = str(error)
                break
            code, number = code_in(reply), len(steps) + 1
            calls.clear()
            result = environment.step(code, number) if code.strip() else None
            wrong = "" if result is None else result.error
            shown = NO_CODE if result is None else _shown(result.output, wrong)
            steps.append(RlmStep(number, code, shown, wrong, tuple(calls), usage))
            answer = None if result is None else result.answer
            messages += [{"role": "assistant", "content": reply or "(nothing)"}, {"role": "user", "content": shown}]
    spent = Usage(
        meter.usage.calls - before.calls,
        meter.usage.tokens_in - before.tokens_in,
        meter.usage.tokens_out - before.tokens_out,
    )
    return Run(question, len(prompt), answer, "" if answer is not None else stopped, tuple(steps), spent)


def _sub_call(question: str, snippet: str, meter: Meter, depth: int) -> SubCall:
    """One ``llm(...)``: a run of its own where the depth allows one, else one request. What fails is in ``error``."""
    noted, size = question[:NOTED], len(snippet)
    if depth < 1:
        return SubCall(noted, size, "", "no sub-calls are allowed here (depth 0): use code", Usage())
    if depth > 1:
        run = _run(question, snippet, meter, depth - 1)
        ended = "" if run.answer is not None else f"the sub-call ended without an answer: {run.stopped}"
        return SubCall(noted, size, run.answer or "", ended, run.usage, run)
    try:
        text, usage = meter.ask(leaf_messages(question, snippet))
    except (Spent, ModelError) as error:
        return SubCall(noted, size, "", str(error), Usage())
    return SubCall(noted, size, text, "", usage)


def _shown(output: str, error: str) -> str:
    parts = [output.rstrip("\n")] if output.strip() else []
    parts += [f"Error: {error}"] if error else []
    return "\n".join(parts) or NOTHING


def _sandbox(limits: RlmLimits) -> Limits:
    """The worker's limits: a step's, and CPU for all steps together."""
    total = limits.cpu_seconds * (limits.steps + 2)
    return Limits(wall=limits.seconds, cpu=limits.cpu_seconds, total_cpu=total, memory=limits.memory)
