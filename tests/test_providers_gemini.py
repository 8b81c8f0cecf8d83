"""Gemini (G rules): calls and responses are counted, turn by turn."""

from __future__ import annotations

from provider_histories import DONE, GO, ORPHAN, SYSTEM, call, found, result, text_of, user

from ctxlab import validate


def test_g1_counts_the_responses_of_the_next_turn():
    history = [GO, call("a", "b"), result("a"), GO]
    assert found(history, "gemini") == [("G1", 1)]
    assert text_of(history, "gemini", "G1") == (
        "Please ensure that the number of function response parts is equal to the number of function call parts of the "
        "function call turn."
    )
    assert found([GO, call("a", "b"), result("b"), result("a"), GO], "gemini") == []
    assert found([GO, call("a"), result("a"), result("a"), GO], "gemini") == [("G1", 1)]


def test_g1_adjacent_model_messages_are_one_turn():
    assert found([GO, call("a"), call("b"), result("a"), result("b"), GO], "gemini") == []
    assert found([GO, call("a"), call("b"), result("a"), GO], "gemini") == [("G1", 2)]


def test_g2_a_history_must_not_begin_with_a_call():
    history = [SYSTEM, call("s1"), result("s1"), DONE, GO]
    assert found(history, "gemini") == [("G2", 1)]
    assert text_of(history, "gemini", "G2") == (
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
    )
    assert found([user("[summary]"), *history[1:]], "gemini") == []
    assert found([GO, call("a"), result("a"), call("b"), result("b"), GO], "gemini") == []


def test_g3_a_response_follows_its_call_turn():
    assert text_of(ORPHAN, "gemini", "G3") == (
        "Please ensure that function response turn comes immediately after a function call turn."
    )
    assert found([result("a"), GO], "gemini") == [("G3", 0)]


def test_g4_the_last_turn_is_not_the_models():
    assert found([GO, DONE], "gemini") == [("G4", 1)]
    assert text_of([GO, DONE], "gemini", "G4") == "Requests ending with a model turn are not supported."
    assert found([GO, call("a")], "gemini") == [("G1", 1)]  # its result mends both


def test_g5_nothing_to_send_and_a_turn_with_nothing_in_it():
    assert text_of([SYSTEM], "gemini", "G5") == "* GenerateContentRequest.contents: contents is not specified"
    history = [GO, {"role": "assistant", "content": None}, GO]
    assert found(history, "gemini") == [("G5", 1)]
    assert text_of(history, "gemini", "G5") == (
        "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty."
    )
    assert found([GO, {"role": "assistant", "content": ""}, DONE, GO], "gemini") == []  # one turn with one part


def test_g6_a_response_whose_call_is_elsewhere_has_no_name():
    history = [GO, call("a"), result("b"), GO]
    assert found(history, "gemini") == [("G6", 2)]
    assert text_of(history, "gemini", "G6") == (
        "* GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty."
    )
    assert [one.pairing for one in validate(history, "gemini")] == [True]
    assert found([GO, call("a"), {**result("b"), "name": "look"}, GO], "gemini") == []


def test_g6_a_call_without_a_name_is_not_about_pairing():
    nameless = call("a")
    nameless["tool_calls"][0]["function"]["name"] = ""
    (first, second) = validate([GO, nameless, result("a"), GO], "gemini")
    assert (first.rule, first.index, first.pairing) == ("G6", 1, False)
    assert (second.rule, second.index, second.pairing) == ("G6", 2, False)


def test_g7_an_unknown_role():
    assert found([GO, {"role": "narrator", "content": "x"}], "gemini") == [("G7", 1)]
