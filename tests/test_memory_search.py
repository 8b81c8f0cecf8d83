"""What a search finds in four languages, what it may never find, and how it ranks."""

from __future__ import annotations

import sqlite3
import unicodedata
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_facts import FACTS, QUERIES, Clock, texts

from ctxlab.errors import WrongArgument
from ctxlab.memory import (
    MOST,
    MemoryStore,
    words_of,
)

ALPHABET = st.sampled_from("abcxyz ABC 上海住我東京のがĐàẵnế-\"*'(): \n").map(str)
TEXTS = st.one_of(st.text(ALPHABET, min_size=1, max_size=30), st.text(min_size=1, max_size=30)).filter(str.strip)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(clock):
    with MemoryStore(clock=clock) as made:
        yield made


# --- words ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def polyglot():
    with MemoryStore(clock=Clock()) as made:
        for fact in FACTS.values():
            made.remember(fact, "s1")
        yield made


@pytest.mark.parametrize(("query", "name"), QUERIES)
def test_the_first_item_found_is_the_right_one(polyglot, query, name):
    assert texts(polyglot.retrieve(query))[0] == FACTS[name]


@pytest.mark.parametrize(("query", "name"), QUERIES)
def test_composed_and_decomposed_letters_find_the_same(polyglot, query, name):
    for form in ("NFC", "NFD"):
        assert texts(polyglot.retrieve(unicodedata.normalize(form, query)))[0] == FACTS[name]


def test_a_fact_that_is_stored_decomposed_is_found_composed(store):
    store.remember(unicodedata.normalize("NFD", FACTS["nhà"]), "s1")
    assert len(store.retrieve("Đà Nẵng")) == 1


def test_tone_marks_prefer_their_word_and_bare_letters_find_both(polyglot):
    assert texts(polyglot.retrieve("bạn"))[0] == FACTS["bạn"]
    assert texts(polyglot.retrieve("bàn"))[0] == FACTS["bàn"]
    assert set(texts(polyglot.retrieve("ban"))) == {FACTS["bạn"], FACTS["bàn"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("上海", ["上", "海", "上海"]),
        ("糖", ["糖"]),
        ("đường phố", ["duong", "đường", "pho", "phố"]),
        ("lives, cities, glass, bus", ["live", "city", "glass", "bus"]),
        ("がか", ["が", "か", "がか"]),  # the voicing mark is no accent
        ("हिन्दी", ["हिन्दी"]),  # vowel signs are part of the word
        ("йод", ["йод"]),  # nor is the breve of a Cyrillic letter
        ("STRASSE straße", ["strasse", "strasse"]),
        ("a_b C++", ["a", "b", "c"]),
        ("\ud800", []),
        ('"*-^()\0', []),
    ],
)
def test_words(text, words):
    assert words_of(text) == words


def test_two_character_words_are_what_trigram_and_unicode61_miss():
    """Why the words are made here: FTS5's own tokenizers on the same fact."""
    found = {}
    for tokenizer in ("trigram", "unicode61 remove_diacritics 2"):
        database = sqlite3.connect(":memory:")
        database.execute(f"CREATE VIRTUAL TABLE t USING fts5(x, tokenize='{tokenizer}')")
        database.executemany("INSERT INTO t VALUES (?)", [(FACTS["花生"],), (FACTS["nhà"],)])
        hits = [database.execute("SELECT count(*) FROM t WHERE t MATCH ?", (f'"{q}"',)) for q in ("花生", "da nang")]
        found[tokenizer.split()[0]] = [hit.fetchone()[0] for hit in hits]
        database.close()
    assert found == {"trigram": [0, 0], "unicode61": [0, 0]}  # đ is no d with a mark to unicode61


@pytest.mark.parametrize(
    "query",
    [
        *("", "   ", '"', '""', "a AND", "NEAR(a b, 2)", "-shanghai", "shanghai*", "words: x", "^a", "(", "{a b}: c"),
        *("\0", "\ud800", "OR", "NOT", "a" * 100_000, "？！", "a+b", "'; DROP TABLE ctxlab_memory_items; --"),
    ],
)
def test_no_query_is_search_syntax(polyglot, query):
    polyglot.retrieve(query)
    assert len(polyglot.items()) == len(FACTS)


def test_operators_are_words(store):
    store.remember("not near the river", "s1")
    assert texts(store.retrieve("NOT")) == texts(store.retrieve("NEAR")) == ["not near the river"]


@given(st.text())
def test_any_text_is_a_legal_query(query):
    with MemoryStore() as store:
        store.remember("something", "s1")
        assert len(store.retrieve(query)) <= 1


@given(st.lists(TEXTS, min_size=1, max_size=MOST))
def test_what_is_stored_is_found_by_its_own_words(facts):
    with MemoryStore() as store:
        for fact in facts:
            item = store.remember(fact, "s1")
            if words_of(fact):
                assert item.id in [one.item.id for one in store.retrieve(fact)]


@given(st.lists(TEXTS, min_size=1, max_size=8), st.data())
def test_what_is_superseded_or_expired_is_never_found_and_never_listed(facts, data):
    clock = Clock()
    with MemoryStore(clock=clock) as store:
        for fact in facts:
            live = store.items()
            old = data.draw(st.sampled_from([None, *(item.id for item in live)]))
            ends = data.draw(st.sampled_from([None, clock.now + timedelta(hours=1), clock.now - timedelta(hours=1)]))
            store.remember(fact, "s1", expires_at=ends, supersedes=old)
            clock.now += timedelta(minutes=40)
        dead = {item.id for item in store.items(past=True) if item.superseded_by or _over(item, clock.now)}
        found = {one.item.id for fact in facts for one in store.retrieve(fact)}
        assert not dead & found
        assert dead.isdisjoint(item.id for item in store.items())
        assert len(store.items()) + len(dead) == len(store.items(past=True))


def _over(item, now):
    return item.expires_at is not None and datetime.fromisoformat(item.expires_at) <= now


# --- ranking --------------------------------------------------------------------------------------------------------


def test_of_two_equal_facts_the_later_and_the_more_often_said_comes_first(store, clock):
    for word in ("often", "new", "old"):  # among equals the later id comes first, so the order here helps nobody
        store.remember(f"{word} tea", "s1")
    clock.now += timedelta(days=90)
    store.remember("new tea", "s1")
    for session in ("s2", "s3", "s4", "s5", "s6"):
        store.remember("often tea", session)
    assert texts(store.retrieve("tea")) == ["often tea", "new tea", "old tea"]


def test_recency_never_beats_relevance(store, clock):
    store.remember("green tea with lemon", "s1")
    clock.now += timedelta(days=365)
    for number in range(8):
        store.remember(f"black tea number {number}", "s2")
    assert texts(store.retrieve("tea with lemon"))[0] == "green tea with lemon"


def test_an_item_that_only_shares_a_common_word_is_left_out(store):
    for fact in ("I live in Shanghai", "I like jazz", "I own a bike", "I am 34"):
        store.remember(fact, "s1")
    assert texts(store.retrieve("where did I say I live?")) == ["I live in Shanghai"]


def test_at_most_five_are_found_and_more_may_not_be_asked_for(store):
    for number in range(30):
        store.remember(f"tea number {number}", "s1")
    assert [len(store.retrieve("tea", k)) for k in (1, 3, 5)] == [1, 3, 5]
    for k in (0, 6, True, 3.0):
        with pytest.raises(WrongArgument, match="expected 1 to 5"):
            store.retrieve("tea", k)


def test_a_score_says_where_it_comes_from(store):
    store.remember("I live in Shanghai", "s1")
    (found,) = store.retrieve("live in Shanghai")
    assert found.why.startswith("shares live, in, shanghai; relevance ")
    assert found.why.endswith("x 1.10 (said in 1 session)")
