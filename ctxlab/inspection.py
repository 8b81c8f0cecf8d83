"""What a recorded conversation cost its window: the numbers behind ``ctxlab inspect`` and the budget picture.

One pass over a `Conversation` gives the four parts, the biggest items, the growth by round, where each trigger would
have fired, where the cut would land, and what each provider would refuse. It decides nothing itself: budgets come
from `budget`, cuts from `rounds`, refusals from `providers`. Drawing is left to `terminal` and `widgets`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

from ctxlab.budget import KEEP_RECENT, TRIGGER_RATIO, Budget, history_trigger, pressure_trigger
from ctxlab.errors import BudgetError
from ctxlab.formats import Conversation
from ctxlab.messages import Message, MessageLike, as_messages, thaw
from ctxlab.providers import PROVIDERS, Violation, validate
from ctxlab.rounds import align_to_round_start, align_to_turn_start, explain_cut, split_rounds
from ctxlab.tokens import count_message, count_tokens, count_tools

# Window and completion limit (tokens) by the start of a model's name, as their makers publish them; the completion
# limit of Claude is the 32,000 that Claude Code reserves by default, below what the model can do.
MODEL_LIMITS: tuple[tuple[str, int, int], ...] = (
    ("gpt-4o", 128_000, 16_384),
    ("gpt-4.1", 1_047_576, 32_768),
    ("gpt-5", 400_000, 128_000),
    ("claude", 200_000, 32_000),
    ("gemini", 1_048_576, 65_536),
    ("deepseek", 128_000, 8_192),
    ("kimi", 262_144, 32_768),
)
# Where the log names no model that we know: picked, by what the format is mostly used with.
FORMAT_LIMITS: Mapping[str, tuple[int, int]] = {
    "anthropic": (200_000, 32_000),
    "claude_code": (200_000, 32_000),
    "pi": (200_000, 32_000),
    "codex": (400_000, 128_000),
    "gemini": (1_048_576, 65_536),
}
DEFAULT_LIMITS = (128_000, 16_384)

# What a terminal would obey rather than show: colours and other ANSI sequences, and single control characters.
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x1f\x7f-\x9f]")

# Whose rules a log was recorded under. Elsewhere the messages are OpenAI-shaped, so OpenAI's are asked.
NATIVE_PROVIDER: Mapping[str, str] = {
    "anthropic": "anthropic",
    "claude_code": "anthropic",
    "pi": "anthropic",
    "gemini": "gemini",
    "codex": "openai_responses",
}


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that takes room. ``what`` names it, ``index`` is its message's place (None for system and tools)."""

    what: str
    index: int | None
    tokens: int
    preview: str


@dataclass(frozen=True, slots=True)
class RoundGrowth:
    """One round: messages ``start`` (included) to ``end`` (excluded), tokens it added, the history's tokens after it.

    Rounds count from 1; 0 is what stands before the first user message.
    ``billed`` is what all requests up to here had sent as history, in tokens: each reply was paid for with the whole
    history before it, so this grows with the square of the rounds.
    """

    round: int
    start: int
    end: int
    added: int
    history: int
    billed: int


@dataclass(frozen=True, slots=True)
class Firing:
    """Where a trigger would have fired: at message ``index`` (None: never), when ``tokens`` reached ``trigger``."""

    rule: str
    trigger: int | None
    index: int | None
    tokens: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a cut that keeps the last ``keep_recent`` messages would land, by both rules, and the steps to it."""

    keep_recent: int
    raw: int
    pair_safe: int
    round_start: int
    steps: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """Everything that `inspect_conversation` found. Token numbers are by ``encoding``."""

    format: str
    model: str
    encoding: str
    messages: int
    roles: dict[str, int]
    calls: int
    budget: Budget
    history_tokens: int
    biggest: tuple[Item, ...]
    rounds: tuple[RoundGrowth, ...]
    firings: tuple[Firing, ...]
    cut: Cut
    provider: str
    violations: dict[str, tuple[Violation, ...]]
    problems: tuple[Any, ...]

    @property
    def compactions(self) -> int:
        """How often the log was compacted, as it tells itself."""
        return sum(problem.kind == "compaction" for problem in self.problems)

    @property
    def ok(self) -> bool:
        """Whether a request with all of it would be accepted: it fits the window (the margin is not the API's
        concern) and breaks no rule of its provider."""
        return not self.violations[self.provider] and self.budget.over_window(self.history_tokens) == 0

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON data."""
        budget = self.budget
        return {
            "format": self.format,
            "model": self.model,
            "encoding": self.encoding,
            "messages": self.messages,
            "roles": self.roles,
            "calls": self.calls,
            "compactions": self.compactions,
            "budget": {
                "window": budget.window,
                "system": budget.system,
                "tools": budget.tools,
                "reserve": budget.reserve,
                "margin": budget.margin,
                "history_budget": budget.history,
                "history": self.history_tokens,
                "overflow": budget.overflow(self.history_tokens),
                "over_window": budget.over_window(self.history_tokens),
            },
            "biggest": [asdict(item) for item in self.biggest],
            "rounds": [asdict(growth) for growth in self.rounds],
            "triggers": [asdict(firing) for firing in self.firings],
            "cut": asdict(self.cut),
            "provider": self.provider,
            "violations": {name: [violation_json(v) for v in found] for name, found in self.violations.items()},
            "problems": [asdict(problem) for problem in self.problems],
            "ok": self.ok,
        }


def violation_json(violation: Violation) -> dict[str, Any]:
    """A violation as JSON data."""
    return {
        "rule": violation.rule,
        "index": violation.index,
        "message": violation.message,
        "repair": violation.repair,
        "severity": violation.severity,
    }


def limits(model: str, format: str, window: int | None = None) -> tuple[int, int]:
    """Window and completion reserve (tokens) for a model, else for a log format, else 128,000 and 16,384 (picked).

    With a ``window`` of one's own the reserve is a quarter of it at most (picked), so that a history fits beside it.

    >>> limits("gpt-4o-2024-08-06", "openai_chat"), limits("gpt-4o-2024-08-06", "openai_chat", window=8_192)
    ((128000, 16384), (8192, 2048))
    """
    name = model.rpartition("/")[2].lower()
    known = ((usual, reserve) for start, usual, reserve in MODEL_LIMITS if name.startswith(start))
    usual, reserve = next(known, FORMAT_LIMITS.get(format, DEFAULT_LIMITS))
    return (usual, reserve) if window is None else (window, min(reserve, window // 4))


def growth(
    messages: Iterable[MessageLike], *, encoding: str = "o200k_base", counts: Sequence[int] | None = None
) -> tuple[RoundGrowth, ...]:
    """The history round by round; system messages count for nothing here, they are a part of their own.

    ``counts``: tokens of each message, where the caller has them already.
    """
    history = as_messages(messages)
    if counts is None:
        counts = [0 if message.is_system else count_message(message, encoding) for message in history]
    before = [0, *accumulate(counts)]
    result = []
    billed = 0
    parts = split_rounds(history)
    first = 1 if history and history[0].role == "user" else 0
    for number, part in enumerate(parts, start=first):
        billed += sum(before[index] for index in range(part.start, part.stop) if history[index].role == "assistant")
        added = before[part.stop] - before[part.start]
        result.append(RoundGrowth(number, part.start, part.stop, added, before[part.stop], billed))
    return tuple(result)


def inspect_conversation(
    conversation: Conversation,
    *,
    window: int | None = None,
    reserve: int | None = None,
    margin: int = 0,
    encoding: str = "o200k_base",
    keep_recent: int = KEEP_RECENT,
    provider: str | None = None,
    top: int = 10,
) -> Inspection:
    """Look at one conversation as its next request would.

    ``window``, ``reserve``, ``margin``: tokens; the first two default by the log's model or format (`limits`).
    ``provider``: whose rules decide `Inspection.ok`; defaults to the log's own. ``top``: how many of the biggest items.
    Raises `BudgetError` where nothing is left for a history, `UnknownName` for a provider or encoding.
    """
    window, usual_reserve = limits(conversation.model, conversation.format, window)
    every = as_messages(conversation.messages)
    sizes = [count_message(message, encoding) for message in every]
    # System messages are a part of their own: in the history they count for nothing, but keep their place, so that
    # every index below is a place in conversation.messages.
    counts = [0 if message.is_system else size for message, size in zip(every, sizes, strict=True)]
    system = sum(sizes) - sum(counts)
    if conversation.system and not any(m.is_system and m.text == conversation.system for m in every):
        system += count_tokens(conversation.system, encoding)
    tools = count_tools(conversation.tools, encoding) if conversation.tools else 0
    budget = Budget(
        window=window,
        system=system,
        tools=tools,
        reserve=usual_reserve if reserve is None else reserve,
        margin=margin,
    )
    native = provider or NATIVE_PROVIDER.get(conversation.format, "openai")
    violations = {name: tuple(validate(every, name)) for name in dict.fromkeys((native, *PROVIDERS))}
    return Inspection(
        format=conversation.format,
        model=conversation.model,
        encoding=encoding,
        messages=len(every),
        roles=dict(Counter(message.role for message in every)),
        calls=sum(len(message.tool_calls) for message in every),
        budget=budget,
        history_tokens=sum(counts),
        biggest=_biggest(conversation, every, counts, system, tools)[:top],
        rounds=growth(every, encoding=encoding, counts=counts),
        firings=_firings(budget, counts),
        cut=_cut(every, keep_recent),
        provider=native,
        violations=violations,
        problems=tuple(conversation.problems),
    )


def _biggest(
    conversation: Conversation, messages: Sequence[Message], counts: Sequence[int], system: int, tools: int
) -> tuple[Item, ...]:
    items = [
        Item(_label(message), index, counts[index], _preview(message))
        for index, message in enumerate(messages)
        if not message.is_system
    ]
    if system:
        items.append(Item("system prompt", None, system, _short(conversation.system)))
    if tools:
        names = ", ".join(str(tool.get("function", tool).get("name", "?")) for tool in conversation.tools)
        more = "" if len(conversation.tools) == 1 else "s"
        items.append(Item(f"{len(conversation.tools)} tool definition{more}", None, tools, _short(names)))
    return tuple(sorted(items, key=lambda item: -item.tokens))


def _firings(budget: Budget, counts: Sequence[int]) -> tuple[Firing, ...]:
    running = list(accumulate(counts))
    ratio = history_trigger(budget.history, TRIGGER_RATIO)
    rules: list[tuple[str, int | None, int, str]] = [
        ("history ratio", ratio, 0, f"{TRIGGER_RATIO:g} of the history's {budget.history:,} tokens"),
    ]
    try:
        pressure: int | None = pressure_trigger(budget.window, budget.reserve)
        why = "floor(min(0.8 of the window, window - reserve - 65,536)), on everything that is sent"
    except BudgetError as error:
        pressure, why = None, str(error)
    rules.append(("window pressure", pressure, budget.system + budget.tools, why))
    firings = []
    for rule, trigger, fixed, reason in rules:
        index = next((i for i, tokens in enumerate(running) if trigger is not None and fixed + tokens >= trigger), None)
        reached = None if index is None else fixed + running[index]
        firings.append(Firing(rule, trigger, index, reached, reason))
    return tuple(firings)


def _cut(history: Sequence[Message], keep_recent: int) -> Cut:
    places = [index for index, message in enumerate(history) if not message.is_system]
    raw = places[-keep_recent] if 0 < keep_recent <= len(places) else (len(history) if keep_recent == 0 else 0)
    steps = tuple(
        {"action": step.action, "index": step.index, "why": step.why, "rule": step.rule, "data": thaw(step.data)}
        for step in explain_cut(history, raw)
    )
    return Cut(keep_recent, raw, align_to_turn_start(history, raw), align_to_round_start(history, raw), steps)


def _label(message: Message) -> str:
    if message.tool_calls:
        names = [call.name or "?" for call in message.tool_calls]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"call of {', '.join(names[:3])}{more}"
    if message.role == "tool":
        return f"result of {message.name}" if message.name else "tool result"
    return message.role


def _preview(message: Message) -> str:
    text = message.text
    if message.tool_calls and not text:
        text = " ".join(call.arguments or "" for call in message.tool_calls)
    thinking = message.data.get("reasoning_content")
    return _short(text or (thinking if isinstance(thinking, str) else ""))


def _short(text: str, length: int = 60) -> str:
    line = _CONTROLS.sub("", " ".join(text[: 4 * length].split()))
    return line if len(line) <= length else line[: length - 1] + "…"
