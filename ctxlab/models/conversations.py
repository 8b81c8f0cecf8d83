"""Conversations with the order shop, manufactured: the lab's way to reach a threshold in seconds.

A customer states what matters in the first round (a city, a budget, a place never to ship to), and then asks about one
order after another, each time with a mail of the carrier pasted in. The answers are the scripted model's own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ctxlab.errors import WrongArgument
from ctxlab.models.base import play_round
from ctxlab.models.scripted import MockModel
from ctxlab.models.shop import SHOP_TOOLS, Shop

ROUND_TOKENS = 1_000
"""Tokens of a round by `ctxlab.estimate_tokens` (o200k_base), on average: 30 rounds are about 30,000."""

_CITIES = ("Shanghai", "Hanoi", "Lyon", "Porto", "Nairobi", "Osaka")
_FORBIDDEN = ("Berlin", "Oslo", "Toronto", "Lima")
_BUDGETS = (40, 55, 60, 75)

_OPENINGS = (
    "Good morning, I have another question.",
    "Here is the next one from my list.",
    "Sorry to come back so soon.",
    "One more, if you have a moment.",
    "Thanks, that was clear. Now the next parcel.",
)
_ASKS = (
    "Could you check {order} for me?",
    "What is the state of {order}?",
    "Where is {order} at the moment?",
    "Has anything happened with {order} since yesterday?",
)
_MAIL = (
    "Your consignment passed our sorting centre during the night shift and was weighed again at the belt.",
    "The declared weight differs from the measured one by {n} grams, which is within what we accept.",
    "Please keep this message, since our service desk will ask for reference {ref} if you call.",
    "Because of works on the motorway our lorries take another way this week and may come {n} minutes later.",
    "The recipient may change the time window once, free of charge, until six in the evening of the day before.",
    "A pallet was opened for a customs inspection; the seal was replaced and the new number is {ref}.",
    "Our depot is closed on the second Saturday of the month, when no scans are made.",
    "Fragile goods travel on the upper shelf, and the label with the glass must stay visible.",
    "If the box is damaged on the outside, take a picture before opening it and note number {ref} on the slip.",
    "The driver's handheld was offline between stops {n} and {m}, so some scans reach us with a delay.",
    "You get this message because tracking by mail was chosen when the parcel was announced.",
    "Returned parcels are kept for {m} days and then go back with the next collection.",
)
_CLOSINGS = (
    "This is what the carrier wrote to me:",
    "I paste their mail, in case it helps:",
    "Their last message is below:",
    "I got this from the carrier this morning:",
)


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What the customer states in the first round."""

    home: str
    budget: int
    never: str

    def __str__(self) -> str:
        return (
            f"I live in {self.home}, please note that. My budget is {self.budget} euros for anything that I order, "
            f"and never ship to {self.never}."
        )


def conversation(
    rounds: int, seed: int = 0, round_tokens: int = ROUND_TOKENS, parallel_every: int = 0
) -> list[dict[str, Any]]:
    """``rounds`` rounds of four messages: user, assistant with a call, tool, assistant. The same for the same seed.

    ``round_tokens``: about how long a round is (at least 400; what varies is the pasted mail). Every
    ``parallel_every``-th round asks about two orders at once, in parallel calls, and has five messages; 0: none does.
    The first round states the customer's city, budget, and a place never to ship to. Raises `WrongArgument`.
    """
    return [message for one in rounds_of(rounds, seed, round_tokens, parallel_every) for message in one]


def rounds_of(
    rounds: int, seed: int = 0, round_tokens: int = ROUND_TOKENS, parallel_every: int = 0
) -> Iterator[list[dict[str, Any]]]:
    """The rounds of `conversation` one by one."""
    for name, value, least in (("rounds", rounds, 0), ("round_tokens", round_tokens, 400)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise WrongArgument(f"{name}={value!r}; expected a whole number from {least} on", name=name, value=value)
    dice = random.Random(f"conversation {seed}")
    wishes = _Wishes(dice.choice(_CITIES), dice.choice(_BUDGETS), dice.choice(_FORBIDDEN))
    orders = dice.sample(range(1000, 2000), k=1000)
    model, shop = MockModel(), Shop()
    for number in range(rounds):
        parallel = parallel_every > 0 and number % parallel_every == parallel_every - 1
        names = [f"A-{orders[(2 * number + extra) % 1000]}" for extra in range(2 if parallel else 1)]
        request = {"role": "user", "content": _request(dice, names, wishes if number == 0 else None, round_tokens)}
        # The seed of a call's id is what the model sees, so rounds that are alike still get ids of their own.
        seen = [{"role": "system", "content": f"{seed} {number}"}, request]
        yield [request, *play_round(model, seen, SHOP_TOOLS, shop.run_tool)]


def _request(dice: random.Random, orders: list[str], wishes: _Wishes | None, round_tokens: int) -> str:
    ask = dice.choice(_ASKS).format(order="order " + " and order ".join(orders))
    words = [str(wishes)] if wishes else [dice.choice(_OPENINGS)]
    words += [ask, dice.choice(_CLOSINGS)]
    # Measured with o200k_base; a test holds the sum.
    count = max(1, round((round_tokens - _REST) / _LINE))
    lines = [dice.choice(_MAIL) for _ in range(count)]
    mail = (
        line.format(n=dice.randrange(5, 90), m=dice.randrange(5, 90), ref=f"{dice.randrange(16**6):06X}")
        for line in lines
    )
    return "\n".join([" ".join(words), *(f"> {line}" for line in mail)])


_REST, _LINE = 445, 21.6
"""Tokens of a round without the mail, and of one line of it."""
