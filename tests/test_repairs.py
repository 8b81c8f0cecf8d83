"""Repair: what is inserted, moved, dropped, renamed, and what is left alone."""

from __future__ import annotations

import copy

import pytest
from histories import calling, result, says, system, user

from ctxlab.errors import MalformedMessage, UnknownName
from ctxlab.messages import Message
from ctxlab.providers import PROVIDERS, validate
from ctxlab.repairs import NEVER_STARTED, OPENING, OUTCOME_UNKNOWN, explain_repair, repair

CUT = OUTCOME_UNKNOWN


def actions(history: list[dict[str, object]], mode: str = "append") -> list[tuple[str, int | None]]:
    return [(step.action, step.index) for step in explain_repair(history, mode)]


def test_an_open_call_at_the_tail_is_answered_or_dropped() -> None:
    history = [user(), calling("a")]
    assert repair(history) == [*history, result("a", CUT)]
    assert repair(history, "discard") == [user()]
    assert actions(history) == [("insert", 1)]
    assert actions(history, "discard") == [("discard", 1)]


def test_the_answer_says_interrupted_unknown_and_to_check_before_calling_again() -> None:
    for word in ("interrupted", "unknown", "check", "call again"):
        assert word in OUTCOME_UNKNOWN
    assert "Nothing was done: call again" in NEVER_STARTED


def test_an_open_call_in_the_middle_is_answered_before_the_next_user_message() -> None:
    history = [user(), calling("a"), user("hello?"), says("I am here."), user("go on")]
    assert repair(history) == [user(), calling("a"), result("a", CUT), *history[2:]]
    assert repair(history, "discard") == [user(), *history[2:]]


def test_a_batch_that_is_partly_answered_keeps_its_real_results_first() -> None:
    history = [user(), calling("a", "b", "c"), result("b", "B"), user("?")]
    assert repair(history) == [*history[:3], result("a", CUT), result("c", CUT), user("?")]
    assert repair(history, "discard") == [user(), user("?")]


def test_a_user_message_between_two_results_moves_behind_both() -> None:
    history = [user(), calling("a", "b"), result("a"), user("hurry"), result("b")]
    assert repair(history) == repair(history, "discard") == [*history[:3], history[4], history[3]]
    assert actions(history) == [("move", 4)]


def test_a_real_result_is_moved_and_never_replaced() -> None:
    history = [user(), calling("a"), user(), says(), user(), result("a", "12 passed"), says()]
    assert repair(history) == [user(), calling("a"), result("a", "12 passed"), user(), says(), user(), says()]


def test_results_of_adjacent_assistant_messages_each_follow_their_own() -> None:
    history = [user(), calling("a"), calling("b"), result("b", "B"), result("a", "A")]
    assert repair(history) == [user(), calling("a"), result("a", "A"), calling("b"), result("b", "B")]


def test_orphans_and_second_results_are_dropped_and_said_so() -> None:
    history = [user(), result("x"), calling("a"), result("a", "first"), result("a", "second")]
    assert repair(history) == [user(), calling("a"), result("a", "first")]
    steps = explain_repair(history)
    assert [(step.action, step.index, step.rule) for step in steps] == [("drop", 1, "O1"), ("drop", 4, "O7")]
    assert steps[0].why == "message 1: tool result for 'x', but no call 'x' comes before it; dropped"


def test_a_result_before_its_call_is_not_its_result() -> None:
    """It may belong to an earlier call of that id that was cut away; calling it this call's would be a false report."""
    assert repair([user(), result("a"), calling("a")]) == [user(), calling("a"), result("a", CUT)]


def test_one_id_twice_in_a_batch_is_renamed_with_its_result() -> None:
    history = [user(), calling("call_0", "call_0"), result("call_0", "1"), result("call_0", "2")]
    mended = [user(), calling("call_0", "call_0-2"), result("call_0", "1"), result("call_0-2", "2")]
    assert repair(history) == repair(history, unique_ids=False) == mended
    assert dict(explain_repair(history)[0].data) == {"old": "call_0", "new": "call_0-2", "result": 3}


def test_ids_that_repeat_in_later_messages_are_renamed_unless_asked_not_to() -> None:
    history = [user(), calling("0"), result("0"), user(), calling("0"), result("0"), user(), calling("0")]
    assert repair(history, unique_ids=False) == [*history, result("0", CUT)]
    mended = repair(history)
    assert [c["id"] for m in mended for c in m.get("tool_calls", [])] == ["0", "0-2", "0-3"]
    assert [m["tool_call_id"] for m in mended if m["role"] == "tool"] == ["0", "0-2", "0-3"]


def test_a_new_id_is_never_one_that_is_there() -> None:
    history = [user(), calling("a", "a", "a-2"), result("a"), result("a"), result("a-2")]
    assert [c["id"] for c in repair(history)[1]["tool_calls"]] == ["a", "a-3", "a-2"]


def test_a_new_id_keeps_the_form_that_a_provider_asks_for() -> None:
    history = [user(), calling("abc456789", "abc456789"), result("abc456789"), result("abc456789")]
    assert repair(history)[1]["tool_calls"][1]["id"] == "abc456782"
    assert [v.rule for v in validate(repair(history), "mistral_api_2025")] == []
    long = "x" * 64
    assert len(repair([user(), calling(long, long), result(long), result(long)])[1]["tool_calls"][1]["id"]) == 64


def test_a_call_without_an_id_gets_one() -> None:
    history = [user(), calling(None, "", "a"), result("a"), result(None, "first")]
    mended = repair(history)
    assert [c["id"] for c in mended[1]["tool_calls"]] == ["call-2", "call-3", "a"]
    told = [(m["tool_call_id"], m["content"]) for m in mended[2:]]
    assert told == [("a", "done"), ("call-2", "first"), ("call-3", CUT)]


def test_discard_drops_what_follows_an_incomplete_batch_in_the_last_round() -> None:
    history = [user(), calling("a"), result("a"), calling("b"), calling("c"), result("c"), says("done"), system("note")]
    assert repair(history, "discard") == [*history[:3], system("note")]
    assert actions(history, "discard") == [("discard", 3), ("discard", 4), ("discard", 5), ("discard", 6)]


def test_discard_in_an_earlier_round_drops_the_batch_alone() -> None:
    history = [user(), calling("a", "b"), result("a"), says("I stopped."), user(), says()]
    assert repair(history, "discard") == [user(), says("I stopped."), user(), says()]


def test_a_user_message_goes_before_a_leading_call() -> None:
    history = [system(), calling("a"), result("a")]
    assert repair(history) == [system(), user(OPENING), calling("a"), result("a")]
    assert validate(repair(history), "gemini") == []
    assert repair([says("Hi."), user()]) == [says("Hi."), user()]


def test_a_valid_history_comes_back_equal_and_as_fresh_dicts() -> None:
    history = [system(), user(), calling("a", "b"), result("b"), result("a"), says()]
    for mode in ("append", "discard"):
        mended = repair(history, mode)
        assert mended == history
        assert explain_repair(history, mode) == []
        mended[2]["tool_calls"].clear()
    assert len(history[2]["tool_calls"]) == 2


def test_what_no_repair_can_mend_stays_listed() -> None:
    assert repair([]) == []
    assert [v.rule for v in validate(repair([]))] == ["O3"]
    assert [v.rule for v in validate(repair([user(), says()]), "anthropic_no_prefill")] == ["A6"]


def test_the_input_is_unchanged_and_may_be_messages() -> None:
    history = [user(), calling("a"), user()]
    before = copy.deepcopy(history)
    assert repair([Message.of(m) for m in history]) == repair(history)
    assert history == before


def test_every_key_of_a_message_is_kept() -> None:
    history = [{**user(), "ts": "2026-09-04T10:00:00Z"}, {**calling("a", "a"), "usage": {"total": 3}}, result("a")]
    mended = repair(history)
    assert mended[0] == history[0]
    assert mended[1]["usage"] == {"total": 3}
    assert mended[1]["tool_calls"][1]["function"] == history[1]["tool_calls"][1]["function"]


def test_a_lost_reasoning_item_takes_the_id_of_its_message_along() -> None:
    reasoning = {"role": "assistant", "type": "reasoning", "id": "rs_1", "content": "since"}
    told = {**says("so"), "id": "msg_1", "requires": "rs_1"}
    assert repair([user(), told]) == [user(), says("so")]
    assert repair([user(), reasoning, user()]) == [user(), user()]
    assert repair([user(), reasoning, told]) == [user(), reasoning, told]
    assert repair([user(), reasoning, calling("a"), user()], "discard") == [user(), user()]


def test_an_unknown_mode_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownName) as caught:
        repair([], "apend")
    assert caught.value.hint == "did you mean 'append'? known: append, discard"


def test_what_is_no_history_is_refused_with_its_index() -> None:
    with pytest.raises(MalformedMessage, match="message 1"):
        repair([user(), {"content": "no role"}])


def test_a_mended_history_is_taken_by_every_provider() -> None:
    """A log with one of everything: dangling in the middle, moved, orphaned, doubled, ids from 0 again."""
    history = [
        system(),
        user(),
        calling("call00001", "call00002"),
        result("call00002"),
        result("stray0000"),
        user("?"),
        result("call00001"),
        says(),
        user(),
        calling("call00001"),
        result("call00001"),
        result("call00001"),
        says(),
        user(),
        calling("call00003"),
    ]
    for mode in ("append", "discard"):
        mended = repair(history, mode)
        broken = {(p, v.rule) for p in PROVIDERS for v in validate(mended, p)}
        assert broken <= {("mistral_api_2025", "M1")}, "a user message right after a result: order, not pairing"


def test_many_repeated_ids_are_renamed_in_linear_time() -> None:
    history = [Message.of(m) for m in [user(), *[calling("0"), result("0")] * 4000]]
    assert repair(history)[-1]["tool_call_id"] == "0-4000"


def test_each_step_of_a_discard_says_why_its_message_goes() -> None:
    history = [user(), calling("a", "b"), result("a"), says()]
    assert repair(history, "discard") == [user()]
    assert [(step.index, step.why) for step in explain_repair(history, "discard")] == [
        (1, "message 1: 1 of 2 calls have no result; the batch is dropped"),
        (2, "message 2: the result for 'a' goes with its batch"),
        (3, "message 3: comes after an incomplete batch in the last round, or led to it; dropped with it"),
    ]
