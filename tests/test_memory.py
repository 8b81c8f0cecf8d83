"""Where a fact belongs, and what becomes of an item: superseded, expired, seen again, forgotten."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

import pytest
from memory_facts import DAY, Clock, texts

from ctxlab.errors import Superseded, UnknownItem, UnknownName, WrongArgument
from ctxlab.memory import (
    LONG_TERM,
    SHORT_TERM,
    MemoryStore,
    place,
)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(clock):
    with MemoryStore(clock=clock) as made:
        yield made


# --- the three questions --------------------------------------------------------------------------------------------

TABLE = {  # (needed after, expires, retrievable): (seen once, seen twice)
    (False, False, False): (SHORT_TERM, SHORT_TERM),
    (False, False, True): (SHORT_TERM, SHORT_TERM),
    (False, True, False): (SHORT_TERM, SHORT_TERM),
    (False, True, True): (SHORT_TERM, SHORT_TERM),
    (True, False, False): (LONG_TERM, LONG_TERM),
    (True, True, True): ("retrieve", "retrieve"),
    (True, True, False): (SHORT_TERM, LONG_TERM),
    (True, False, True): (SHORT_TERM, LONG_TERM),
}


@pytest.mark.parametrize("answers", TABLE)
def test_every_combination_of_answers_has_its_place(answers):
    assert tuple(place("x", *answers, times_seen=seen).where for seen in (1, 2)) == TABLE[answers]


def test_only_what_is_in_between_is_asked_whether_it_recurs():
    for answers in itertools.product((False, True), repeat=3):
        asked = [step.action for step in place("x", *answers).questions]
        between = answers in ((True, True, False), (True, False, True))
        recurs = ["recurs"] if between else []
        assert asked == ["needed-after", "expires", "retrievable", *recurs, "place"]


def test_a_placement_carries_its_questions_answers_and_reason():
    found = place("budget is 300 euros this month", needed_after=True, expires=True, retrievable=False)
    assert [step.data.get("answer") for step in found.questions[:3]] == [True, True, False]
    assert found.why == "in between (needed later, but it expires): short-term until it recurs"
    assert found.questions[-1].data["between"] is True
    with pytest.raises(AttributeError):
        found.where = LONG_TERM


@pytest.mark.parametrize(("fact", "seen"), [("", 1), ("  ", 1), (None, 1), ("x", 0), ("x", True), ("x", "2")])
def test_a_fact_without_text_or_never_seen_is_refused(fact, seen):
    with pytest.raises(WrongArgument):
        place(fact, True, False, False, times_seen=seen)


# --- items: superseded, expired, seen again -------------------------------------------------------------------------


def test_an_item_knows_its_session_and_its_times(store):
    item = store.remember("The user lives in Shanghai.", "s-8f3a", expires_at="2026-12-01T00:00:00+08:00")
    assert (item.session, item.place, item.seen, item.superseded_by) == ("s-8f3a", LONG_TERM, 1, None)
    assert item.created_at == item.last_seen_at == "2026-09-04T10:00:00.000Z"
    assert item.expires_at == "2026-11-30T16:00:00.000Z"


def test_a_changed_mind_leaves_the_old_fact_as_history_only(store):
    old = store.remember("The user lives in Shanghai.", "s1")
    new = store.supersede(old.id, "The user lives in Chengdu.", "s2")
    assert texts(store.retrieve("where does the user live? Shanghai?")) == ["The user lives in Chengdu."]
    assert store.get(old.id).superseded_by == new.id
    assert [item.text for item in store.history(new.id)] == [old.text, new.text]
    assert store.history(old.id) == store.history(new.id)


def test_moving_back_is_a_new_item_and_the_history_has_all_three(store):
    first = store.remember("lives in Shanghai", "s1")
    second = store.supersede(first.id, "lives in Chengdu", "s2")
    third = store.supersede(second.id, "lives in Shanghai", "s3")
    assert third.id not in (first.id, second.id)
    assert [item.id for item in store.history(first.id)] == [first.id, second.id, third.id]


def test_an_item_is_replaced_once_and_the_error_names_the_one_that_holds(store):
    old = store.remember("a", "s1")
    new = store.supersede(old.id, "b", "s1")
    with pytest.raises(Superseded) as caught:
        store.supersede(old.id, "c", "s1")
    assert caught.value.by == new.id
    assert [item.text for item in store.items()] == ["b"]


def test_a_fact_superseded_by_itself_stays(store):
    item = store.remember("lives in Shanghai", "s1")
    assert store.supersede(item.id, "Lives in  Shanghai.", "s2").id == item.id
    assert store.items() == [store.get(item.id)]


def test_expiry_is_a_moment_and_not_a_day(store, clock):
    store.remember("The code is 4711", "s1", expires_at=DAY + timedelta(minutes=5))
    clock.now = DAY + timedelta(minutes=5) - timedelta(milliseconds=1)
    assert len(store.retrieve("code")) == 1
    clock.now = DAY + timedelta(minutes=5)
    assert store.retrieve("code") == []
    assert len(store.items(past=True)) == 1


@pytest.mark.parametrize("when", [datetime(2026, 9, 4), "2026-09-04", "soon", 3])
def test_an_expiry_without_a_time_zone_or_sense_is_refused(store, when):
    with pytest.raises(WrongArgument, match="no moment in time"):
        store.remember("x", "s1", expires_at=when)


def test_the_same_fact_is_stored_once_and_counts_its_sessions(store):
    for session, text in [("s1", "I live in Shanghai"), ("s1", "I live in Shanghai."), ("s2", "i live  in SHANGHAI")]:
        item = store.remember(text, session)
    assert (len(store.items()), item.seen, item.text) == (1, 2, "I live in Shanghai")


def test_facts_that_differ_in_a_sign_are_two(store):
    for text in ("I like C", "I like C++", "I like C#", "it is -5 degrees", "it is 5 degrees"):
        store.remember(text, "s1")
    assert len(store.items()) == 5


def test_a_short_term_fact_stays_in_its_session_until_another_one_says_it_again(store):
    store.remember("prefers window seats", "s1", SHORT_TERM)
    assert len(store.retrieve("window seats", session="s1")) == 1
    assert store.retrieve("window seats", session="s2") == store.retrieve("window seats") == []
    assert store.recur("prefers window seats", "s1").place == SHORT_TERM  # the same session says nothing new
    promoted = store.recur("Prefers window seats.", "s2")
    assert (promoted.place, promoted.seen) == (LONG_TERM, 2)
    assert len(store.retrieve("window seats", session="s3")) == 1


def test_the_store_promotes_what_the_three_questions_would_promote(store):
    fact = "on a diet until summer"
    first = place(fact, needed_after=True, expires=True, retrievable=False)
    item = store.remember(fact, "s1", first.where)
    again = store.recur(fact, "s2")
    assert (item.place, again.place) == (first.where, place(fact, True, True, False, times_seen=again.seen).where)


def test_what_the_memory_does_not_hold_does_not_recur(store):
    assert store.recur("never heard", "s1") is None
    assert store.items() == []


def test_what_retrieval_brings_back_is_not_stored(store):
    with pytest.raises(WrongArgument, match="not stored"):
        store.remember("order 17 is shipped", "s1", place("order 17 is shipped", True, True, True).where)
    with pytest.raises(UnknownName):
        store.remember("x", "s1", "longterm")


def test_a_forgotten_item_is_gone_with_its_history(store):
    old = store.remember("lives in Shanghai", "s1")
    new = store.supersede(old.id, "lives in Chengdu", "s1")
    store.remember("likes tea", "s1")
    assert [item.id for item in store.forget(new.id)] == [old.id, new.id]
    assert [item.text for item in store.items(past=True)] == ["likes tea"]
    assert store.retrieve("lives in Chengdu Shanghai") == []
    with pytest.raises(UnknownItem):
        store.get(old.id)


@pytest.mark.parametrize("item_id", [0, -1, 7, 2**70, None, "1", True, 1.0])
def test_an_unknown_item_is_said_to_be_unknown(store, item_id):
    with pytest.raises(UnknownItem):
        store.get(item_id)
