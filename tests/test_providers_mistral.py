"""Mistral (M rules) by hand; `test_providers_mistral_oracle` asks Mistral's own validator."""

from __future__ import annotations

from provider_histories import DONE, GO, ORPHAN, PARTED, SYSTEM, call, found, result, text_of, user

from ctxlab import validate


def test_m1_names_both_roles():
    assert text_of(ORPHAN, "mistral", "M1") == "Unexpected role 'tool' after role 'user'"
    assert found([GO, DONE, SYSTEM, GO], "mistral") == [("M1", 2)]
    assert found([GO, SYSTEM, GO, GO, DONE, DONE, GO], "mistral") == []


def test_m1_is_about_pairing_only_where_a_result_is_out_of_place():
    assert [one.pairing for one in validate(PARTED, "mistral")] == [True]
    assert [one.pairing for one in validate([GO, DONE, SYSTEM, GO], "mistral")] == [False]


def test_m1_a_user_message_after_a_result_was_refused_by_the_hosted_api_in_2025():
    history = [GO, call("aaaaaaaa1"), result("aaaaaaaa1"), user("and?")]
    assert found(history, "mistral") == []
    assert found(history, "mistral_api_2025") == [("M1", 3)]
    assert text_of(history, "mistral_api_2025", "M1") == "Unexpected role 'user' after role 'tool'"
    assert found([*history[:3], DONE, user("and?")], "mistral_api_2025") == []


def test_m3_repeats_and_strangers():
    history = [GO, call("c1"), result("c1"), result("c1"), GO]
    assert text_of(history, "mistral", "M3") == "Duplicate tool call id c1 in tool results"
    history = [GO, call("c1"), result("c9"), GO]
    assert found(history, "mistral") == [("M2", 1), ("M3", 2)]
    assert text_of(history, "mistral", "M3") == "Unexpected tool call id c9 in tool results"
    assert text_of([GO, call("c1", "c1"), result("c1"), GO], "mistral", "M3") == (
        "Duplicate tool call id c1 in assistant message"
    )
    assert found([GO, call("aaaaaaaa1"), result("aaaaaaaa9"), GO], "mistral_v7") == []  # counts only


def test_m4_a_finished_answer_is_not_continued():
    assert found([GO, DONE], "mistral") == [("M4", 1)]
    assert found([GO, {**DONE, "prefix": True}], "mistral") == []


def test_m5_nine_letters_or_digits_up_to_v11_and_a_warning_since():
    history = [GO, call("call_1"), result("call_1"), DONE, GO]
    assert found(history, "mistral") == []
    for provider in ("mistral", "mistral_api_2025"):
        assert found(history, provider, warnings=True) == [("M5", 1), ("M5", 2)]
    for provider in ("mistral_v11", "mistral_v7"):
        assert found(history, provider) == [("M5", 1), ("M5", 2)]
    assert text_of(history, "mistral_v11", "M5") == (
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."
    )


def test_m6_text_beside_calls_was_refused_by_v3():
    history = [GO, call("aaaaaaaa1", content="let me look"), result("aaaaaaaa1")]
    assert found(history, "mistral_v3") == [("M6", 1)]
    assert found(history, "mistral_v7") == []


def test_m7_a_single_message_is_the_users_or_the_systems():
    assert found([DONE], "mistral") == [("M7", 0)]
    assert found([GO], "mistral") == []
    assert found([result("c1"), GO], "mistral", warnings=True)[0] == ("M7", 0)


def test_m8_fields():
    custom = {"id": "c1", "type": "custom", "function": {"name": "look", "arguments": "{}"}}
    history = [GO, {"role": "assistant", "content": None, "tool_calls": [custom]}, result("c1")]
    assert text_of(history, "mistral", "M8") == "tool_calls: type must be 'function', not 'custom'"
    assert found([GO, {"role": "narrator", "content": "x"}, GO], "mistral") == [("M8", 1)]
    assert found([{"role": "user", "content": None}, GO], "mistral") == [("M8", 0)]
    assert found([GO, {**DONE, "prefix": True}, GO], "mistral") == [("M8", 1)]
