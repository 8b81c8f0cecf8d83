"""The memory: what a tokenizer finds, what a search and a write cost, and what all of it costs in a request.

    python benchmarks/memory.py [--items 10000]

1. 17 facts and 29 queries in English, Chinese, Japanese, Vietnamese (with and without its marks) and mixed: how many
   queries have the right fact first, with the memory's own words and with FTS5's tokenizers as they are (each query's
   words or-ed and quoted, ranked by bm25). 2. Writes and searches a second beside the same rows in bare ``sqlite3``
   (WAL, full synchronisation) in turns. 3. 200 facts at once against the five most relevant, in a window of 8,000.
   The searches are hard ones: four words that every second fact holds and one rare one.
   Goals, picked: every query right; a write within 3 times bare sqlite3; a search among 10,000 within 20 ms.
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ctxlab.memory import MemoryStore, compare

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from memory_facts import FACTS, QUERIES

WORDS = ("tea", "jazz", "train", "garden", "chess", "opera", "map", "cheese", "tile", "bird", "river", "lamp")


def first_of_fts5(tokenizer: str) -> Callable[[str], str | None]:
    """A search over the facts with one of FTS5's own tokenizers."""
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE VIRTUAL TABLE facts USING fts5(text, tokenize='{tokenizer}')")
    database.executemany("INSERT INTO facts VALUES (?)", [(text,) for text in FACTS.values()])

    def first(query: str) -> str | None:
        words = re.findall(r"\w+", query)
        match = " OR ".join(f'"{word}"' for word in words)
        row = database.execute("SELECT text FROM facts WHERE facts MATCH ? ORDER BY rank LIMIT 1", (match,)).fetchone()
        return row and row[0]

    return first


def tokenizers() -> None:
    """How many queries have the right fact first."""
    store = MemoryStore()
    for text in FACTS.values():
        store.remember(text, "s1")

    def own(query: str) -> str | None:
        found = store.retrieve(query, 1)
        return found[0].item.text if found else None

    ways = {"ctxlab": own} | {
        name: first_of_fts5(name) for name in ("unicode61 remove_diacritics 2", "trigram", "porter")
    }
    print(f"right fact first, of {len(QUERIES)} queries:")
    for name, first in ways.items():
        missed = [query for query, fact in QUERIES if first(query) != FACTS[fact]]
        print(f"  {name:30} {len(QUERIES) - len(missed):3}   missed: {', '.join(missed[:12]) or 'none'}")


def fact(dice: random.Random, number: int) -> str:
    return f"fact {number}: " + " ".join(dice.choices(WORDS, k=12)) + f" w{dice.randrange(10_000)}"


def speed(count: int) -> None:
    """A durable write and a search, beside bare sqlite3 with the same texts."""
    dice = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        store = MemoryStore(Path(folder) / "memory.db")
        bare = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        bare.execute("PRAGMA journal_mode=WAL")
        bare.execute("PRAGMA synchronous=FULL")
        bare.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, text TEXT)")
        ours: list[float] = []
        floor: list[float] = []
        for number in range(count):
            text = fact(dice, number)
            start = time.perf_counter()
            store.remember(text, "s1")
            middle = time.perf_counter()
            bare.execute("INSERT INTO items (text) VALUES (?)", (text,))
            ours.append(middle - start)
            floor.append(time.perf_counter() - middle)
        a, b = statistics.median(ours) * 1e6, statistics.median(floor) * 1e6
        print(f"durable write: {a:.0f} us, bare sqlite3 {b:.0f} us: {a / b:.2f} times (median of {count:,})")
        searches: list[float] = []
        for _ in range(200):
            query = " ".join([*dice.choices(WORDS, k=4), f"w{dice.randrange(10_000)}"])
            start = time.perf_counter()
            store.retrieve(query, budget_tokens=500)
            searches.append((time.perf_counter() - start) * 1e3)
        high = statistics.quantiles(searches, n=20)[-1]
        print(f"search among {count:,}: median {statistics.median(searches):.1f} ms, p95 {high:.1f} ms")
        store.close()
        bare.close()


def both_ways() -> None:
    """All of it against the five most relevant."""
    store = MemoryStore()
    dice = random.Random(7)
    for number in range(200):
        store.remember(f"{fact(dice, number)}, and {fact(dice, number)}, as was said on a long walk", "s1")
    found = compare(store, "what did I say about the river and the opera?", 8_000, reserve=1_000)
    for name, way in (("everything", found.everything), ("retrieved", found.retrieved)):
        fits = "fits" if way.fits else "DOES NOT FIT"
        print(f"{name:11} {way.items:4} items {way.memory_tokens:6,} tokens   {fits} a window of {found.window:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=10_000)
    options = parser.parse_args()
    tokenizers()
    speed(options.items)
    both_ways()


if __name__ == "__main__":
    main()
