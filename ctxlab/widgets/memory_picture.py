"""What MemorySorter draws: facts to sort, and two hundred memories with what a search picks of them.

The facts and the memories are invented. Where a fact belongs is what `memory.place` answers, for every way to answer
the three questions; what a request costs is what `memory.compare` measures. Nothing here decides either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import product
from typing import Any, Final

from ctxlab.memory import MOST, Comparison, MemoryStore, Way, compare, place
from ctxlab.models import conversation

QUESTIONS: Final = ("Is it needed after this session?", "Does it expire?", "Can retrieval bring it back?")
WINDOW, RESERVE = 4_096, 1_024
"""Tokens of the picture's window and of its output reserve (picked, small, so that the burst is in the picture)."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact to sort. ``answers`` to the three questions, y or n each; ``reasons`` why, one for each question."""

    key: str
    text: str
    answers: str
    reasons: tuple[str, str, str]
    times_seen: int = 1

    def to_json(self) -> dict[str, Any]:
        """The fact as data, with where each of the eight ways to answer puts it."""
        return {
            "key": self.key,
            "text": self.text,
            "answers": self.answers,
            "reasons": list(self.reasons),
            "places": {answers: placed(self, answers) for answers in ALL_ANSWERS},
        }


ALL_ANSWERS: Final = tuple("".join(letters) for letters in product("yn", repeat=3))


def placed(fact: Fact, answers: str) -> dict[str, str]:
    """Where a fact belongs by these answers, and why: ``where`` and ``why`` of `memory.place`."""
    needed, expires, retrievable = (letter == "y" for letter in answers)
    found = place(fact.text, needed, expires, retrievable, fact.times_seen)
    return {"where": found.where, "why": found.why}


FACTS: Final = (
    Fact(
        "nuts",
        "I am allergic to nuts.",
        "ynn",
        ("the next order must respect it too", "it stays true", "only the user could say it again"),
    ),
    Fact(
        "order",
        "Where order A-1042 is right now.",
        "yyy",
        ("the user will ask again", "it changes with every scan", "the order system always has the fresh answer"),
    ),
    Fact(
        "draft",
        "Make the second paragraph shorter.",
        "nnn",
        ("it is about this text and done in a minute", "it does not age, it is just over", "no system holds it"),
    ),
    Fact(
        "away",
        "I am in Lisbon until Friday. (Said for the first time.)",
        "yyn",
        ("a session tomorrow should know", "on Saturday it is wrong", "no system holds it"),
    ),
    Fact(
        "leave",
        "I am on parental leave until March. (Said in a second session.)",
        "yyn",
        ("months of sessions should know", "in March it is wrong", "no system holds it"),
        times_seen=2,
    ),
    Fact(
        "style",
        "Our style guide says: no exclamation marks. (It is in the repository.)",
        "yny",
        ("every text needs it", "it lasts, as far as anybody knows", "the file can be read again"),
    ),
    Fact(
        "french",
        "Please always answer me in French.",
        "ynn",
        ("always means the next session too", "it holds until it is taken back", "only the user could say it again"),
    ),
    Fact(
        "rate",
        "The euro is at 1.09 dollars, so take that for this estimate.",
        "nyy",
        ("it is for this estimate", "tomorrow it is another", "any bank can be asked"),
    ),
)
"""Eight facts: long-term, short-term, to be retrieved, and in between, before and after they recur."""

QUERIES: Final = (
    "Which gift box can I send to my mother?",
    "Book a table for the team dinner, please.",
    "给妈妈买什么茶好？",
    "What is the address of my flat?",
)
"""Requests to put memories into. The last one is there to fail: it is found by words, and the memory says apartment."""

_KNOWN: Final = (
    "The user's mother is allergic to nuts.",
    "The user's mother lives in Hanoi.",
    "A gift for the family should arrive before the new year.",
    "The team dinner is always on a Thursday.",
    "Two people of the team are vegetarian.",
    "The user books a table near the office, never in a hotel.",
    "妈妈喜欢喝茉莉花茶，不喝绿茶。",
    "妈妈住在河内。",
    "The user's apartment is at 14 Quay Street, third floor.",
    "The user prefers answers in French.",
    "Never ship anything to Berlin.",
    "The user's budget for gifts is 60 euros.",
)
_PEOPLE = ("Amara", "Jonas", "Linh", "Omar", "Paula", "Sofia", "Tariq", "Ines")
_ABOUT = ("the invoice template", "a new printer", "the garden fence", "train times", "the choir", "a used bicycle")
_LIKES = ("long walks", "crime novels", "blue ink", "early trains", "strong coffee", "board games", "old maps")
_PLACES = ("Lyon", "Porto", "Oslo", "Ghent", "Turin", "Osaka", "Lima", "Accra")


def memories(count: int = 200) -> tuple[str, ...]:
    """``count`` things that an eager system noted over a year: twelve that matter some day, and the rest."""
    rest = [
        *(f"{person} called about {about}." for person, about in product(_PEOPLE, _ABOUT)),
        *(f"{person} likes {liked}." for person, liked in product(_PEOPLE, _LIKES)),
        *(
            f"The user asked once what the weather is like in {city} in month {n}."
            for city in _PLACES
            for n in range(1, 13)
        ),
    ]
    every = max(1, (count - len(_KNOWN)) // len(_KNOWN))
    mixed: list[str] = []
    for index, known in enumerate(_KNOWN):
        mixed += [*rest[index * every : (index + 1) * every], known]
    return tuple([*mixed, *rest[len(_KNOWN) * every :]][:count])


def filled(texts: Sequence[str]) -> MemoryStore:
    """A memory that ends with the object, with these texts, each noted in a session of its own, on one day."""
    store = MemoryStore(clock=lambda: datetime(2026, 9, 4, tzinfo=UTC))
    for number, text in enumerate(texts):
        store.remember(text, f"s-{number:03}")
    return store


@lru_cache(maxsize=4)
def requests(count: int = 200, window: int = WINDOW, reserve: int = RESERVE) -> tuple[dict[str, Any], ...]:
    """For each of `QUERIES`: all memories in one request, and the 1 to 5 that a search picks, as data.

    The request has one round with the order shop before the query, about 960 tokens.
    """
    made, before = [], conversation(1)
    with filled(memories(count)) as store:
        for query in QUERIES:
            messages = [*before, {"role": "user", "content": query}]
            found = [compare(store, query, window, messages, k=k, reserve=reserve) for k in range(1, MOST + 1)]
            picks = [{**_way(one.retrieved), "found": _found(one)} for one in found]
            made.append({"query": query, "all": _way(found[0].everything), "picks": picks})
    return tuple(made)


def _way(way: Way) -> dict[str, Any]:
    return {"items": way.items, "memory": way.memory_tokens, "request": way.request_tokens, "fits": way.fits}


def _found(found: Comparison) -> list[dict[str, str]]:
    return [{"text": one.item.text, "why": one.why} for one in found.found]
