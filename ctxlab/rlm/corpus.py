"""Many records and questions about them, with the right answers: what the three ways are compared on.

The records are an invented shop's orders, one a line, made from a seed. A third of them carry a customer's note. What a
note means can only be told by reading it: none of those about a broken parcel says "broken", and one that does is
praise. So some questions need a look-up, some a sum, and some a judgement on every note.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ctxlab.models.shop import CATALOGUE

CITIES: Final = (
    "Lyon",
    "Porto",
    "Hanoi",
    "Osaka",
    "Turin",
    "Ghent",
    "Bergen",
    "Kyiv",
    "Accra",
    "Lima",
    "Quito",
    "Oslo",
)
STATES: Final = ("delivered", "delivered", "delivered", "in transit", "refunded")
_FIRST = ("Mei", "Jonas", "Amara", "Linh", "Sofia", "Kenji", "Paula", "Omar", "Ines", "Tariq")
_LAST = ("Tan", "Berg", "Okoye", "Pham", "Rossi", "Sato", "Lima", "Haddad", "Costa", "Novak")

NOTES: Final[dict[str, tuple[str, ...]]] = {
    "broken": (
        "The lid came in two pieces.",
        "There is a crack right through the spout.",
        "The handle had come off when I opened the box.",
        "I found more shards than cups.",
        "It leaks from the bottom, so I cannot use it.",
        "The glass did not survive the journey.",
    ),
    "late": (
        "It took five weeks, and the birthday was over.",
        "I had given up hope when it finally came.",
        "You said three days; it was eighteen.",
        "The parcel sat at the border for a month.",
        "My guests had left by the time it arrived.",
    ),
    "praise": (
        "Nothing was broken, and so well wrapped. Thank you!",
        "Here before I had expected it.",
        "My mother uses it every day.",
        "The colour is even better than in the picture.",
    ),
    "asks": (
        "Could you send the invoice to my office?",
        "Do you have the same in blue?",
        "Please leave it with the neighbour next time.",
    ),
}
"""What customers write, by what they mean."""


@dataclass(frozen=True, slots=True)
class Record:
    """One order. ``cents`` of a euro. ``means`` is what the note says, a key of `NOTES`, or '' where there is none."""

    order: str
    day: str
    customer: str
    city: str
    item: str
    cents: int
    state: str
    note: str
    means: str

    def line(self) -> str:
        """The record as it stands in the text."""
        fields = [self.order, self.day, self.customer, self.city, self.item, f"{euros(self.cents)} EUR", self.state]
        return " | ".join([*fields, f'"{self.note}"'] if self.note else fields)


@dataclass(frozen=True, slots=True)
class Task:
    """A question with its right answer. ``kind``: ``find``, ``count``, ``sum``, or ``judge`` (notes must be read)."""

    question: str
    kind: str
    expected: str


def records(count: int = 600, seed: int = 1) -> tuple[Record, ...]:
    """``count`` orders, from A-1000 on, the same for the same seed. At the default about 25,000 tokens."""
    dice = random.Random(seed)
    made = []
    for number in range(count):
        product, quantity = dice.choice(CATALOGUE), dice.randrange(1, 4)
        means = dice.choice(tuple(NOTES)) if dice.random() < 1 / 3 else ""
        made.append(
            Record(
                order=f"A-{1000 + number}",
                day=f"2026-{1 + number * 9 // max(1, count):02}-{dice.randrange(1, 29):02}",
                customer=f"{dice.choice(_FIRST)} {dice.choice(_LAST)}",
                city=dice.choice(CITIES),
                item=f"{quantity} x {product.name}",
                cents=round(product.price * 100) * quantity,
                state=dice.choice(STATES),
                note=dice.choice(NOTES[means]) if means else "",
                means=means,
            )
        )
    return tuple(made)


def as_text(orders: Sequence[Record]) -> str:
    """The records as one text, one a line."""
    return "\n".join(order.line() for order in orders)


def tasks(orders: Sequence[Record], seed: int = 1) -> tuple[Task, ...]:
    """Seven questions about these records (at least one), of all kinds, with the right answers."""
    dice = random.Random(f"tasks {seed}")
    early, other = dice.choice(orders[: max(1, len(orders) // 2)]), dice.choice(orders)
    city, customer = dice.choice(orders).city, dice.choice(orders).customer
    broken = [order for order in orders if order.means == "broken"]
    late = Counter(order.city for order in orders if order.means == "late")
    spent = sum(order.cents for order in orders if order.customer == customer)
    return (
        Task(f"Which city did order {early.order} go to?", "find", early.city),
        Task(f"What did order {other.order} cost, in euros?", "find", euros(other.cents)),
        Task(f"How many orders went to {city}?", "count", str(sum(order.city == city for order in orders))),
        Task("How many orders were refunded?", "count", str(sum(order.state == "refunded" for order in orders))),
        Task(f"What did all orders of {customer} cost together, in euros?", "sum", euros(spent)),
        Task("How many orders have a note that says that something arrived broken?", "judge", str(len(broken))),
        Task("Which city has the most orders with a note that says that it came late?", "judge", most(late)),
    )


def most(counts: Counter[str]) -> str:
    """The name with the highest count, the first in the alphabet where several have it; 'none' for none."""
    return min(counts, key=lambda name: (-counts[name], name), default="none")


def euros(cents: int) -> str:
    """Cents as euros, without a rounding error.

    >>> euros(120405)
    '1204.05'
    """
    return f"{cents // 100}.{cents % 100:02}"
