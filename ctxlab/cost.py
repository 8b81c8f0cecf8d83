"""What a session has cost, and its whole tree of forks: every branch pays for its own requests.

A request is billed for all that it sends: the surface at that turn, and the system prompt and tools with it. A fork's
requests send the shared part again, so they are billed for it; the parent's own requests are counted once, in the
parent. Where a message carries the provider's ``usage`` that is taken, else tokens are estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ctxlab.errors import CtxlabError, unknown_name
from ctxlab.journal import Journal
from ctxlab.lines import MESSAGE, REPLACE
from ctxlab.log import END, REQUEST, Log
from ctxlab.tokens import count_message

_PRIMING = 3  # tokens that prime the reply, once a request (see `tokens`)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens in and out, with the day on which that was so and where it was read."""

    input: float
    output: float
    date: str
    source: str


_OPENAI_MAY = ("2026-05", "platform.openai.com/docs/pricing, as aimodelcalc.pages.dev quotes it")
_OPENAI_JUNE = ("2026-06-21", "OpenAI's model pages, as tokenmath.io quotes them")
_ANTHROPIC = ("2025-09", "docs.anthropic.com/en/docs/about-claude/pricing, as a public repository quotes it")

PRICES: dict[str, Price] = {
    "gpt-4o": Price(2.50, 10.00, *_OPENAI_MAY),
    "gpt-4o-mini": Price(0.15, 0.60, *_OPENAI_MAY),
    "gpt-4.1": Price(2.00, 8.00, *_OPENAI_JUNE),
    "gpt-4.1-mini": Price(0.40, 1.60, *_OPENAI_JUNE),
    "claude-sonnet-4": Price(3.00, 15.00, *_ANTHROPIC),
}
"""A few list prices, second hand and soon out of date: pass your own ``prices`` to `Session.cost`."""


@dataclass(frozen=True, slots=True)
class Bill:
    """Requests and tokens, the summariser's apart. ``money`` is in US dollars, None where no model was named."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    summary_calls: int = 0
    summary_input_tokens: int = 0
    summary_output_tokens: int = 0
    money: float | None = None

    def __add__(self, other: Bill) -> Bill:
        return Bill(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.summary_calls + other.summary_calls,
            self.summary_input_tokens + other.summary_input_tokens,
            self.summary_output_tokens + other.summary_output_tokens,
            None if self.money is None or other.money is None else self.money + other.money,
        )


@dataclass(frozen=True, slots=True)
class Cost:
    """The bill of one session: ``own``, and ``total`` with all forks below it. ``children`` are theirs.

    ``problem`` says why a session could not be read ("" where it could): its own requests are then in no sum.
    """

    id: str
    own: Bill
    total: Bill
    children: tuple[Cost, ...]
    price: Price | None
    problem: str = ""

    def lines(self, depth: int = 0) -> list[str]:
        """The tree as text, a line for each session."""
        money = "" if self.total.money is None else f", ${self.own.money:.4f} own, ${self.total.money:.4f} with forks"
        own = f"{self.own.requests} requests, {self.own.input_tokens:,} tokens in, {self.own.output_tokens:,} out"
        text = f"{'  ' * depth}{self.id}: {f'not counted, {self.problem}' if self.problem else own + money}"
        return [text, *(line for child in self.children for line in child.lines(depth + 1))]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def cost_of(
    name: str,
    children: Mapping[str, list[str]],
    open_branch: Callable[[str], Journal],
    *,
    model: str | None,
    prices: Mapping[str, Price],
    overhead: int,
) -> Cost:
    """The bill of a session and of all forks below it. ``overhead``: tokens that every request has beside the surface.

    Raises `UnknownName` for a model that ``prices`` does not have.
    """
    if model is not None and model not in prices:
        raise unknown_name("model", model, sorted(prices))
    price = prices[model] if model is not None else None
    problem = ""
    try:
        journal = open_branch(name)
        own = _bill(journal.whole_log(), journal.own_from, overhead, price)
    except CtxlabError as error:  # a tree is billed with its broken branches, not refused for them
        own, problem = Bill(money=None if price is None else 0.0), str(error)
    below = tuple(
        cost_of(child, children, open_branch, model=model, prices=prices, overhead=overhead)
        for child in children.get(name, ())
    )
    total = own
    for child in below:
        total += child.total
    return Cost(name, own, total, below, price, problem)


def _bill(log: Log, after: int, overhead: int, price: Price | None) -> Bill:
    """The bill of the events after a seq: one pass with a running count of the surface."""
    on_surface: dict[int, int] = {}
    surface = 0
    requests = tokens_in = tokens_out = calls = summary_in = summary_out = 0
    waiting: int | None = None  # what the request that was announced last has sent
    for event in log.events:
        counts = event.seq > after
        if event.kind == MESSAGE and event.data["role"] == "assistant":
            sent = surface + overhead + _PRIMING if waiting is None else waiting
            size = count_message(event.data)
            used_in, used_out = _usage(event.data)
            if counts:
                requests += 1
                tokens_in += sent if used_in is None else used_in
                tokens_out += size if used_out is None else used_out
            waiting = None
        elif event.kind == REQUEST:
            if waiting is not None and counts:  # announced, and never answered: it was sent all the same
                requests, tokens_in = requests + 1, tokens_in + waiting
            waiting = surface + overhead + _PRIMING
        elif event.kind == END and counts:
            calls += bool(event.data.get("inputTokens"))
            summary_in += int(event.data.get("inputTokens", 0))
            summary_out += int(event.data.get("outputTokens", 0))
        if event.kind == REPLACE:
            surface -= sum(on_surface.pop(seq, 0) for seq in event.data["sourceEventSeqs"])
        if event.kind in (MESSAGE, REPLACE):
            on_surface[event.seq] = sum(count_message(message) for message in event.messages)
            surface += on_surface[event.seq]
    if waiting is not None and log.last_seq > after:
        requests, tokens_in = requests + 1, tokens_in + waiting
    money = None
    if price is not None:
        money = ((tokens_in + summary_in) * price.input + (tokens_out + summary_out) * price.output) / 1_000_000
    return Bill(requests, tokens_in, tokens_out, calls, summary_in, summary_out, money)


def _usage(message: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """What the provider counted for a request, tokens in and out, where the message says it."""
    usage = message.get("usage")
    if not isinstance(usage, Mapping):
        return None, None
    found = []
    for names in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")):
        values = [usage.get(name) for name in names]
        found.append(next((value for value in values if type(value) is int and value >= 0), None))
    return found[0], found[1]
