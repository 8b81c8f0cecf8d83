"""The four-part budget of a request, when to compress, and what going over looks like.

Everything is counted in tokens. A request is system prompt + tool definitions + history, and the completion must fit
into the same window: the history gets what is left. Counting is `tokens`' business; compressing is `compress`'.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any, SupportsIndex, TypeAlias

from ctxlab.errors import BudgetError, unknown_name

Ratio: TypeAlias = float | Fraction | Decimal

MAX_TOKENS = 8_000
"""The lab's budget for the history itself, in tokens; not the window (picked by the lesson)."""

TRIGGER_RATIO = 0.7
"""Compress from seven tenths of the history's budget (picked by the lesson: the summary is a call that can fail)."""

KEEP_RECENT = 6
"""Messages at the end that a compression keeps verbatim (picked by the lesson)."""

THRESHOLD_RATIO = 0.8
HEADROOM_TOKENS = 65_536
"""The window-pressure rule's defaults (picked by the harness they come from; no corpus behind them is published)."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a window holds besides the history, in tokens.

    ``system``: the system prompt. ``tools``: the tool definitions, sent again in every request. ``reserve``: room for
    the completion (max output tokens). ``margin``: kept free on top, since going over is an error and not a slightly
    worse answer. Refused where it is made (`BudgetError`) if a number is not a whole number of tokens from 0 up, or
    if nothing is left for the history, with the number to lower.

    >>> Budget(128_000, system=2_000, tools=9_000, reserve=16_384, margin=4_000).history
    96616
    """

    window: int
    system: int = 0
    tools: int = 0
    reserve: int = 0
    margin: int = 0

    def __post_init__(self) -> None:
        for item in fields(self):
            tokens = _whole(item.name, getattr(self, item.name), least=1 if item.name == "window" else 0)
            object.__setattr__(self, item.name, tokens)
        if self.history > 0:
            return
        largest = max(("system", "tools", "reserve", "margin"), key=lambda name: getattr(self, name))
        most = getattr(self, largest) + self.history - 1
        sum_ = " + ".join(f"{name} {getattr(self, name):,}" for name in ("system", "tools", "reserve", "margin"))
        hint = f"lower {largest} to at most {most:,}" if most >= 0 else "lower all of them"
        raise BudgetError(
            f"nothing is left for the history: {sum_} = {self.window - self.history:,} of a window of {self.window:,}",
            hint=f"{hint}, or take a model with a larger window",
            largest=largest,
            at_most=max(0, most),
        )

    @property
    def history(self) -> int:
        """What is left for the history."""
        return self.window - self.system - self.tools - self.reserve - self.margin

    def overflow(self, history_tokens: int) -> int:
        """By how many tokens the history is over what is left for it; 0 while it fits.

        Up to ``margin`` tokens over, the request still fits into the window: see `over_window`.
        """
        return max(0, _whole("history_tokens", history_tokens) - self.history)

    def over_window(self, history_tokens: int) -> int:
        """By how many tokens the request is over the window, reserve included and margin not: an error from the API."""
        return max(0, self.overflow(history_tokens) - self.margin)

    def parts(self, history_tokens: int) -> tuple[tuple[str, int], ...]:
        """What the window holds, in drawing order, with what is free: the sum is the window unless the history is over.

        >>> Budget(1_000, system=100, tools=200, reserve=300).parts(150)
        (('system', 100), ('tools', 200), ('reserve', 300), ('margin', 0), ('history', 150), ('free', 250))
        """
        history = _whole("history_tokens", history_tokens)
        own = tuple((name, getattr(self, name)) for name in ("system", "tools", "reserve", "margin"))
        return (*own, ("history", history), ("free", max(0, self.history - history)))

    def verdict(self, history_tokens: int) -> Verdict:
        """Whether a history of this length fits, who is over, and by how much."""
        over, over_window = self.overflow(history_tokens), self.over_window(history_tokens)
        held = dict(self.parts(history_tokens))
        largest = max(("system", "tools", "reserve", "history"), key=lambda name: held[name])
        if not over:
            text = f"fits: {held['free']:,} tokens are free"
        elif not over_window:
            text = f"{over:,} tokens over, inside the margin of {self.margin:,}: the request still goes through"
        else:
            text = f"{over_window:,} tokens over the window of {self.window:,}: the API answers with an error"
        state = "over" if over_window else "margin" if over else "fits"
        return Verdict(state, over, over_window, largest, text)

    def api_error(self, provider: str, history_tokens: int) -> ApiError | None:
        """What the API would answer to a request with this history; None where it would take it.

        ``provider``: a name of `providers.PROVIDERS`, or its family (openai, openai_responses, anthropic, gemini,
        mistral). Gemini and Mistral hold the prompt alone against the window, the others prompt and completion.
        Raises `UnknownName`.
        """
        prompt = self.system + self.tools + _whole("history_tokens", history_tokens)
        family = next((name for name in _FAMILIES if str(provider).startswith(name)), None)
        if family is None:
            raise unknown_name("provider", provider, list(_FAMILIES))
        if prompt + (0 if family in ("gemini", "mistral") else self.reserve) <= self.window:
            return None
        return _FAMILIES[family](self, prompt)


@dataclass(frozen=True, slots=True)
class Verdict:
    """``state``: fits, margin (over its budget but still inside the window) or over (an error from the API).

    ``over``: tokens over the history's budget; ``over_window``: over the window; ``largest``: the largest part
    (system, tools, reserve or history); ``text``: one sentence.
    """

    state: str
    over: int
    over_window: int
    largest: str
    text: str


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error as a person would see it: the text with this request's numbers, and where the text was seen."""

    provider: str
    status: int
    code: str
    text: str
    source: str


def _openai(budget: Budget, prompt: int) -> ApiError:
    messages, tools, completion = prompt - budget.tools, budget.tools, budget.reserve
    start = f"This model's maximum context length is {budget.window} tokens. However, "
    if completion and tools:
        counts = f"{messages} in the messages, {tools} in the functions, and {completion} in the completion"
        end, seen = "messages, functions, or completion", "FoundationAgents/OpenManus#62"
    elif completion:
        counts = f"{messages} in the messages, {completion} in the completion"
        end, seen = "messages or completion", "conghaonet/hao_chatgpt#4"
    elif tools:
        counts = f"{messages} in the messages, {tools} in the functions"
        end, seen = "messages or functions", "bytedance/deer-flow#310"
    else:
        counts, end, seen = "", "messages", "webtimemachine/wtm2#579"
    verb = f"you requested {prompt + completion} tokens" if completion else f"your messages resulted in {prompt} tokens"
    text = f"{start}{verb}{f' ({counts})' if counts else ''}. Please reduce the length of the {end}."
    return ApiError("openai", 400, "context_length_exceeded", text, seen)


def _openai_responses(budget: Budget, prompt: int) -> ApiError:
    text = "Your input exceeds the context window of this model. Please adjust your input and try again."
    return ApiError("openai_responses", 400, "context_length_exceeded", text, "dyad-sh/dyad#1672")


def _anthropic(budget: Budget, prompt: int) -> ApiError:
    if prompt > budget.window:
        text, seen = f"prompt is too long: {prompt} tokens > {budget.window} maximum", "anthropics/claude-code#12186"
    else:
        text = (
            f"input length and `max_tokens` exceed context limit: {prompt} + {budget.reserve} > {budget.window}, "
            "decrease input length or `max_tokens` and try again"
        )
        seen = "docker/docker-agent#569"
    return ApiError("anthropic", 400, "invalid_request_error", text, seen)


def _gemini(budget: Budget, prompt: int) -> ApiError:
    text = f"The input token count ({prompt}) exceeds the maximum number of tokens allowed ({budget.window})."
    return ApiError("gemini", 400, "INVALID_ARGUMENT", text, "google-gemini/gemini-cli#6678")


def _mistral(budget: Budget, prompt: int) -> ApiError:
    text = f"Prompt contains {prompt} tokens, too large for model with {budget.window} maximum context length"
    return ApiError("mistral", 400, "invalid_request", text, "badlogic/pi-mono packages/ai/src/utils/overflow.ts")


_FAMILIES: dict[str, Callable[[Budget, int], ApiError]] = {
    "openai_responses": _openai_responses,
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "mistral": _mistral,
}


def history_trigger(history_budget: int, ratio: Ratio = TRIGGER_RATIO) -> int:
    """The lab's rule: compress when ``tokens(history)`` reaches this. The least t with t >= ratio * history_budget.

    The ratio is taken as it is written (0.7 is seven tenths), so no rounding of floats moves the edge. Raises
    `BudgetError` for a budget below 1 or a ratio that is not above 0 and at most 1.

    >>> history_trigger(8_000), history_trigger(10), history_trigger(9)
    (5600, 7, 7)
    """
    return math.ceil(_ratio("ratio", ratio) * _whole("history_budget", history_budget, least=1))


def pressure_trigger(
    window: int,
    completion_tokens: int = 0,
    threshold_ratio: Ratio = THRESHOLD_RATIO,
    headroom_tokens: int = HEADROOM_TOKENS,
) -> int:
    """The harness's rule: floor(min(window * threshold_ratio, window - completion_tokens - headroom_tokens)).

    Below the `crossing` the reserve decides, above it the ratio. Raises `BudgetError` (a ValueError) where nothing is
    left: at or below headroom + completion tokens.

    >>> pressure_trigger(200_000), pressure_trigger(400_000)
    (134464, 320000)
    """
    window, left = _left(window, completion_tokens, headroom_tokens)
    return math.floor(min(_ratio("threshold_ratio", threshold_ratio) * window, Fraction(left)))


def pressure_binds(
    window: int,
    completion_tokens: int = 0,
    threshold_ratio: Ratio = THRESHOLD_RATIO,
    headroom_tokens: int = HEADROOM_TOKENS,
) -> str:
    """Which part of `pressure_trigger` decides: ``ratio``, ``reserve``, or ``both`` at the crossing itself."""
    window, left = _left(window, completion_tokens, headroom_tokens)
    by_ratio = _ratio("threshold_ratio", threshold_ratio) * window
    return "both" if by_ratio == left else "ratio" if by_ratio < left else "reserve"


def crossing(
    completion_tokens: int = 0, threshold_ratio: Ratio = THRESHOLD_RATIO, headroom_tokens: int = HEADROOM_TOKENS
) -> int:
    """The smallest window at which the ratio, and no longer the reserve, decides: (O + headroom) / (1 - ratio).

    With the defaults 327,680 + 5 O for O completion tokens. Raises `BudgetError` for a ratio of 1, which never decides.

    >>> crossing(), crossing(10_000)
    (327680, 377680)
    """
    ratio = _ratio("threshold_ratio", threshold_ratio)
    if ratio == 1:
        raise BudgetError("a threshold ratio of 1 never decides: the reserve is always smaller", hint="take 0.8")
    reserved = _whole("completion_tokens", completion_tokens) + _whole("headroom_tokens", headroom_tokens)
    return math.ceil(reserved / (1 - ratio))


def billed_tokens(
    rounds: int, per_round: int, fixed: int = 0, trigger: int | None = None, compressed_to: int = 0
) -> int:
    """Prompt tokens that a conversation is billed: the history is sent whole in every round.

    ``per_round``: what a round adds to the history. ``fixed``: system prompt and tool definitions, sent each time.
    Without a trigger, n rounds are n * fixed + per_round * n (n + 1) / 2: the square. With one, a history that has
    reached ``trigger`` is first sent to a summariser (billed too) and goes on at ``compressed_to`` tokens. Raises
    `BudgetError` for numbers that are no token counts, or a summary that is not below the trigger.

    >>> billed_tokens(30, 1_000), billed_tokens(30, 1_000, trigger=5_600, compressed_to=2_100)
    (465000, 167900)
    """
    numbers = {"rounds": rounds, "per_round": per_round, "fixed": fixed, "compressed_to": compressed_to}
    rounds, per_round, fixed, compressed_to = (_whole(name, value) for name, value in numbers.items())
    if trigger is None:
        return rounds * fixed + per_round * rounds * (rounds + 1) // 2
    trigger = _whole("trigger", trigger, least=1)
    if compressed_to >= trigger:
        raise BudgetError(
            f"a compressed history of {compressed_to:,} tokens is not below the trigger of {trigger:,}",
            hint="every round would compress again: lower compressed_to, or raise trigger",
        )
    billed = history = 0
    for _ in range(rounds):
        if history >= trigger:
            billed += history
            history = compressed_to
        history += per_round
        billed += fixed + history
    return billed


def _left(window: int, completion_tokens: int, headroom_tokens: int) -> tuple[int, int]:
    """The window, and what completion and headroom leave of it."""
    window = _whole("window", window, least=1)
    completion = _whole("completion_tokens", completion_tokens)
    headroom = _whole("headroom_tokens", headroom_tokens)
    left = window - completion - headroom
    if left > 0:
        return window, left
    name, other = ("completion_tokens", headroom) if completion > headroom else ("headroom_tokens", completion)
    most = window - other - 1
    raise BudgetError(
        f"nothing is left: a window of {window:,} less {completion:,} completion and {headroom:,} headroom tokens",
        hint=f"lower {name} to at most {most:,}" if most >= 0 else "lower both completion_tokens and headroom_tokens",
        largest=name,
        at_most=max(0, most),
    )


def _whole(name: str, value: Any, least: int = 0) -> int:
    """The value as an int, if it is a whole number of tokens (numpy's too). True and 3.0 are none: they are slips of
    another kind."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise BudgetError(f"{name} is {value!r}; expected a whole number of tokens", hint=f"write {name} as an int")
    whole = operator.index(value)
    if whole < least:
        raise BudgetError(f"{name} is {whole:,}; expected {least} or more tokens", hint=f"raise {name}")
    return whole


def _ratio(name: str, value: Ratio) -> Fraction:
    """The ratio as it is written: 0.7 is 7/10, not the nearest binary fraction."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction, Decimal)):
        raise BudgetError(f"{name} is {value!r}; expected a number", hint=f"write {name} as a number such as 0.7")
    exact = Fraction(float.__repr__(value)) if isinstance(value, float) and math.isfinite(value) else None
    if exact is None and not isinstance(value, float) and (not isinstance(value, Decimal) or value.is_finite()):
        exact = Fraction(value)
    if exact is None or not 0 < exact <= 1:
        raise BudgetError(f"{name} is {value}; expected more than 0 and at most 1", hint="0.7 is the lab's")
    return exact
