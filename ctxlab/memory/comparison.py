"""The few relevant items beside all of them: what each way costs, and whether the request still fits the window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ctxlab.errors import WrongArgument
from ctxlab.memory.injection import inject, inject_all
from ctxlab.memory.items import Found
from ctxlab.memory.store import MOST, MemoryStore
from ctxlab.messages import MessageLike, as_messages
from ctxlab.tokens import estimate_tokens


@dataclass(frozen=True, slots=True)
class Way:
    """One way to use the memory. ``items``: how many went in. ``memory_tokens``: what the block adds to the request.
    ``request_tokens``: the whole request. ``fits``: with the reserve, it is not over the window."""

    items: int
    memory_tokens: int
    request_tokens: int
    fits: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both ways for one request. ``window`` and ``reserve`` in tokens. ``found``: what the good way was given."""

    window: int
    reserve: int
    retrieved: Way
    everything: Way
    found: tuple[Found, ...]


def compare(
    store: MemoryStore,
    query: str,
    window: int,
    messages: Iterable[MessageLike] = (),
    *,
    k: int = MOST,
    budget_tokens: int = 1_000,
    reserve: int = 0,
    session: str | None = None,
) -> Comparison:
    """What the ``k`` most relevant items cost in a request, and what all of the memory costs.

    ``messages``: the request without memory; an empty one is the query alone. ``window`` and ``reserve`` (room for the
    completion) in tokens. The budget of 1,000 tokens is picked. Raises `WrongArgument`, `MalformedMessage`.
    """
    for name, value in (("window", window), ("reserve", reserve)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise WrongArgument(f"{name}={value!r}; expected a whole number of tokens", name=name, value=value)
    plain = inject_all(as_messages(messages) or [{"role": "user", "content": query}], [])
    found = store.retrieve(query, k, budget_tokens=budget_tokens, session=session)
    everything = store.items(session=session)
    before = estimate_tokens(plain)

    def way(items: int, tokens: int) -> Way:
        return Way(items, tokens - before, tokens, tokens + reserve <= window)

    return Comparison(
        window=window,
        reserve=reserve,
        retrieved=way(len(found), estimate_tokens(inject(plain, found, budget_tokens))),
        everything=way(len(everything), estimate_tokens(inject_all(plain, everything))),
        found=tuple(found),
    )
