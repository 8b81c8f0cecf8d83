"""Rounds, pairing by place, and where a cut may land."""

from __future__ import annotations

import pytest
from histories import calling, result, says, system, user

from ctxlab.errors import CutIndexError, UnknownName
from ctxlab.messages import Message
from ctxlab.rounds import Call, Step, align_to_round_start, align_to_turn_start, explain_cut, pairing, split_rounds

# 0 system, 1 user, 2 a and b, 3 b, 4 a, 5 answer, 6 user, 7 c, 8 c
TALK = [
    system(),
    user(),
    calling("a", "b"),
    result("b"),
    result("a"),
    says(),
    user(),
    calling("c"),
    result("c"),
]


def test_parallel_results_pair_in_any_order() -> None:
    pairs = pairing(TALK)
    assert pairs.calls == (Call(2, 0, "a", 4), Call(2, 1, "b", 3), Call(7, 0, "c", 8))
    assert (pairs.open, pairs.orphans, pairs.duplicates, pairs.misplaced) == ((), (), (), ())
    assert pairs.call_of[3] == Call(2, 1, "b", 3)


def test_an_id_that_repeats_pairs_with_the_nearest_open_call_before() -> None:
    history = [user(), calling("0"), result("0"), user(), calling("0"), result("0"), user(), calling("0")]
    assert [call.result for call in pairing(history).calls] == [2, 5, None]


def test_a_result_goes_to_the_newer_of_two_open_calls_and_a_second_one_to_the_older() -> None:
    history = [calling("0"), user(), calling("0"), result("0", "new"), result("0", "late")]
    assert [call.result for call in pairing(history).calls] == [4, 3]
    assert pairing(history).misplaced == (4,)


def test_two_calls_of_one_batch_with_one_id_pair_in_their_order() -> None:
    pairs = pairing([calling("0", "0"), result("0"), result("0")])
    assert [call.result for call in pairs.calls] == [1, 2]


def test_a_result_before_its_call_is_an_orphan() -> None:
    pairs = pairing([result("a"), calling("a")])
    assert pairs.orphans == (0,)
    assert pairs.open == (Call(1, 0, "a", None),)


def test_a_second_result_is_a_duplicate_and_one_without_a_call_an_orphan() -> None:
    pairs = pairing([calling("a"), result("a"), result("a"), result("b")])
    assert (pairs.duplicates, pairs.orphans) == ((2,), (3,))


@pytest.mark.parametrize("between", [user(), system(), says(), calling("b")])
def test_a_message_between_call_and_result_makes_the_result_misplaced(between: dict[str, object]) -> None:
    pairs = pairing([calling("a"), between, result("a")])
    assert pairs.misplaced == (2,)
    assert pairs.calls[0].result == 2


def test_another_result_between_call_and_result_is_no_fault() -> None:
    assert pairing([calling("a"), result("stray"), result("a")]).misplaced == ()


def test_adjacent_assistant_messages_keep_their_own_calls() -> None:
    pairs = pairing([calling("a"), calling("b"), result("a"), result("b")])
    assert pairs.calls == (Call(0, 0, "a", 2), Call(1, 0, "b", 3))
    assert pairs.misplaced == (2,)


def test_calls_without_an_id_pair_with_results_without_one() -> None:
    assert pairing([calling(None), result(None)]).calls == (Call(0, 0, None, 1),)
    assert pairing([calling("a"), result(None)]).orphans == (1,)


def test_only_an_assistant_calls() -> None:
    assert pairing([{**user(), "tool_calls": calling("a")["tool_calls"]}, result("a")]).orphans == (1,)


def test_a_round_is_a_user_message_and_all_up_to_the_next() -> None:
    assert split_rounds(TALK) == [range(1), range(1, 6), range(6, 9)]
    assert split_rounds([user(), user()]) == [range(1), range(1, 2)]
    assert split_rounds([]) == []


@pytest.mark.parametrize(
    ("index", "pair_safe", "round_start"),
    [
        (0, 0, 0),
        (1, 1, 1),
        (2, 2, 1),
        (3, 2, 1),
        (4, 2, 1),
        (5, 5, 1),
        (6, 6, 6),
        (7, 7, 6),
        (8, 7, 6),
        (9, 9, 9),
    ],
)
def test_cut_walks_back_over_parallel_results(index: int, pair_safe: int, round_start: int) -> None:
    assert align_to_turn_start(TALK, index) == pair_safe
    assert align_to_round_start(TALK, index) == round_start


def test_a_cut_at_the_end_is_legal() -> None:
    assert align_to_turn_start(TALK, len(TALK)) == len(TALK)
    assert align_to_turn_start([], 0) == 0


@pytest.mark.parametrize("align", [align_to_turn_start, align_to_round_start])
@pytest.mark.parametrize("index", [-1, 10, True, 1.0, "1", None])
def test_a_cut_outside_is_refused_in_words(align: object, index: object) -> None:
    with pytest.raises(CutIndexError) as caught:
        align(TALK, index)  # type: ignore[operator]
    assert isinstance(caught.value, IndexError)
    assert caught.value.index == index
    assert caught.value.length == 9
    assert "9" in f"{caught.value} {caught.value.hint}"


def test_a_pair_safe_cut_may_split_a_round_and_a_round_start_cut_does_not() -> None:
    assert TALK[align_to_turn_start(TALK, 4)]["role"] == "assistant"
    assert TALK[align_to_round_start(TALK, 4)]["role"] == "user"


def test_a_cut_goes_before_a_call_whose_result_stands_far_behind() -> None:
    history = [user(), calling("a"), user(), says(), result("a")]
    assert align_to_turn_start(history, 3) == 1
    assert align_to_round_start(history, 3) == 0


def test_a_cut_never_stands_before_a_stray_result_if_it_can_help_it() -> None:
    assert align_to_turn_start([user(), calling("a"), result("a"), result("a"), user()], 3) == 1
    assert align_to_turn_start([result("x"), user()], 1) == 1


def test_without_a_user_message_before_it_a_round_start_is_the_beginning() -> None:
    assert align_to_round_start([system(), says(), calling("a"), result("a")], 3) == 0


def test_a_reasoning_item_stays_with_what_it_led_to() -> None:
    reasoning = {"role": "assistant", "type": "reasoning", "id": "rs_1", "content": "since"}
    assert align_to_turn_start([user(), reasoning, calling("a"), result("a")], 3) == 1


def test_the_walk_back_is_told_step_by_step() -> None:
    steps = explain_cut(TALK, 4)
    assert [(step.action, step.index) for step in steps] == [("raw", 4), ("back", 3), ("back", 2), ("cut", 2)]
    assert steps[1].why == "message 4 is the tool result for 'a'; it may not part from its call"
    assert dict(steps[-1].data) == {"cut": 2, "raw": 4, "moved": 2}
    assert "2 call(s)" in steps[-1].why
    assert {step.rule for step in steps} == {"pair-safe"}


def test_the_round_start_rule_tells_why_it_goes_on() -> None:
    steps = explain_cut(TALK, 4, "round-start")
    assert [step.index for step in steps] == [4, 3, 2, 1, 1]
    assert "a round starts at its user message" in steps[3].why


def test_a_cut_that_holds_at_once_takes_no_step_back() -> None:
    assert [step.action for step in explain_cut(TALK, 6)] == ["raw", "cut"]


def test_an_unknown_rule_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="cut rule 'pairsafe'") as caught:
        explain_cut(TALK, 1, "pairsafe")
    assert "pair-safe" in caught.value.hint


def test_steps_are_values() -> None:
    assert explain_cut(TALK, 4) == explain_cut([Message.of(message) for message in TALK], 4)
    assert len(set(explain_cut(TALK, 4))) == 4
    assert explain_cut(TALK, 4)[0].why == f"asked for: 4 messages before the cut, {len(TALK) - 4} after it"
    with pytest.raises(AttributeError):
        explain_cut(TALK, 4)[0].why = "else"  # type: ignore[misc]
    assert Step("raw", 0, "why").data == {}


def test_ten_thousand_messages_cut_in_linear_time() -> None:
    history = [Message.of(message) for message in [*[user(), calling("0"), result("0"), says()] * 2500]]
    assert align_to_round_start(history, 9999) == 9996
    history = [Message.of(user()), *[Message.of(calling("0"))] * 5000, *[Message.of(result("0"))] * 5000]
    assert align_to_turn_start(history, 5001) == 1


def test_a_place_may_be_anything_that_stands_for_a_whole_number() -> None:
    class Place:
        def __index__(self) -> int:
            return 4

    assert align_to_turn_start(TALK, Place()) == align_to_turn_start(TALK, 4)  # type: ignore[arg-type]
