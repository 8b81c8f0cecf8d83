"""Anthropic (A rules): the indices in the texts are those of the converted request."""

from __future__ import annotations

import pytest
from provider_histories import DONE, GO, SYSTEM, call, found, result, text_of, user

from ctxlab import validate


def test_a1_counts_messages_of_the_converted_request_and_the_index_is_the_lists():
    history = [SYSTEM, SYSTEM, GO, call("toolu_1", "toolu_2"), result("toolu_2"), user("continue")]
    (only,) = validate(history, "anthropic")
    assert (only.rule, only.index) == ("A1", 3)
    assert only.message == (
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def test_a1_results_behind_text_do_not_count():
    assert found([GO, call("c1"), user("wait"), result("c1")], "anthropic") == [("A1", 1)]
    assert found([GO, call("c1"), result("c1"), user("and now?")], "anthropic") == []


def test_a1_a_system_message_between_is_lifted_out():
    assert found([GO, call("c1"), SYSTEM, result("c1")], "anthropic") == []
    assert found([GO, call("c1"), SYSTEM, result("c1")], "openai") == [("O2", 1), ("O1", 3)]


def test_a1_was_said_differently_in_2024():
    history = [GO, call("c1", "c2"), result("c1"), user("go on"), DONE]
    (only,) = validate(history, "anthropic_2024")
    assert (only.rule, only.index) == ("A1", 1)
    assert only.message == (
        "messages.2: Did not find 2 `tool_result` block(s) at the beginning of this message. Messages following "
        "`tool_use` blocks must begin with a matching number of `tool_result` blocks."
    )


def test_a2_a_result_without_an_id():
    history = [GO, call("c1"), result("c1"), {"role": "tool", "content": "ok"}]
    assert found(history, "anthropic") == [("A2", 3)]
    assert text_of(history, "anthropic", "A2") == "messages.2.content.1.tool_result.tool_use_id: Field required"


def test_a2_names_the_block():
    history = [GO, call("c1"), result("c1"), result("c9"), GO]
    assert found(history, "anthropic") == [("A2", 3)]
    assert text_of(history, "anthropic", "A2") == (
        "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: c9. Each `tool_result` block "
        "must have a corresponding `tool_use` block in the previous message."
    )


def test_a2_a_result_two_messages_later_is_an_orphan():
    assert found([GO, call("c1"), DONE, GO, DONE, result("c1")], "anthropic") == [("A1", 1), ("A2", 5)]


def test_a3_ids_are_unique_over_the_whole_request():
    twice = [GO, call("call_0"), result("call_0"), DONE, GO, call("call_0", content="again"), result("call_0")]
    assert found(twice, "anthropic") == [("A3", 5)]
    assert text_of(twice, "anthropic", "A3") == "messages.5.content.1: `tool_use` ids must be unique"
    renamed = [*twice[:5], call("call_0-2", content="again"), result("call_0-2")]
    assert found(renamed, "anthropic") == []


def test_a4_a_second_result_of_one_call():
    history = [GO, call("c1"), result("c1"), result("c1"), GO]
    assert found(history, "anthropic") == [("A4", 3)]
    assert text_of(history, "anthropic", "A4") == (
        "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: c1"
    )


@pytest.mark.parametrize(
    ("history", "text"),
    [
        (
            [GO, {"role": "assistant", "content": ""}, GO],
            "messages.1: all messages must have non-empty content except for the optional final assistant message",
        ),
        (
            [GO, {"role": "assistant", "content": None}, GO],
            "messages.1: all messages must have non-empty content except for the optional final assistant message",
        ),
        ([DONE, user(""), user("go")], "messages: text content blocks must be non-empty"),
        ([DONE, user(" \n"), DONE], "messages: text content blocks must contain non-whitespace text"),
    ],
)
def test_a5_empty_text(history, text):
    assert [(one.rule, one.index, one.message) for one in validate(history, "anthropic")] == [("A5", 1, text)]


def test_a5_what_may_be_empty():
    assert found([GO, {"role": "assistant", "content": ""}], "anthropic") == []  # the optional final one
    assert found([GO, call("c1", content=""), result("c1", content=""), DONE], "anthropic") == []
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    assert found([{"role": "user", "content": [image]}], "anthropic") == []
    assert found([user(" "), user("real")], "anthropic") == []  # combined; white space beside text is taken


def test_a6_is_an_error_only_for_models_without_prefill():
    history = [user("[summary] so far"), {"role": "assistant", "content": "Understood. Continuing."}]
    assert found(history, "anthropic") == []
    assert found(history, "anthropic", warnings=True) == [("A6", 1)]
    assert found(history, "anthropic_no_prefill") == [("A6", 1)]
    assert text_of(history, "anthropic_no_prefill", "A6") == (
        "This model does not support assistant message prefill. The conversation must end with a user message."
    )
    assert found([*history, GO], "anthropic_no_prefill") == []
    assert found([GO, call("c1"), result("c1")], "anthropic_no_prefill") == []


def test_a7_was_an_error_in_2024_and_is_a_warning_now():
    history = [DONE, GO, user("more"), DONE]
    assert found(history, "anthropic") == []
    assert found(history, "anthropic", warnings=True) == [("A7", 0), ("A7", 2), ("A6", 3)]
    first, second = validate(history, "anthropic_2024")
    assert (first.rule, first.index, second.rule, second.index) == ("A7", 0, "A7", 2)
    assert first.message == 'messages: first message must use the "user" role'
    assert second.message == (
        'messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row'
    )
    assert found([GO, DONE, user("more"), DONE], "anthropic_2024") == []


def test_a7_text_after_a_result_joins_the_results_message():
    assert found([GO, call("c1"), result("c1"), user("and?"), DONE], "anthropic_2024") == []


@pytest.mark.parametrize(
    ("call_id", "refused"), [("functions.read:0", True), ("", True), ("toolu_01-A", False), ("x" * 64, False)]
)
def test_a8_ids_are_letters_digits_underscore_and_dash(call_id, refused):
    history = [GO, call(call_id), result(call_id)]
    assert found(history, "anthropic", warnings=True) == ([("A8", 1)] if refused else [])
    if refused:
        assert text_of(history, "anthropic", "A8") == (
            "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        )


def test_a8_a_call_without_an_id_or_a_name():
    for lacking in ("id", "name"):
        broken = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        del (broken if lacking == "id" else broken["function"])[lacking]
        history = [GO, {"role": "assistant", "content": None, "tool_calls": [broken]}, result("c1")]
        assert text_of(history, "anthropic", "A8") == f"messages.1.content.0.tool_use.{lacking}: Field required"


def test_a8_a_long_id_is_a_warning():
    history = [GO, call("x" * 65), result("x" * 65)]
    assert found(history, "anthropic") == []
    assert found(history, "anthropic", warnings=True) == [("A8", 1)]


def test_a9_system_messages_alone_are_no_request():
    assert found([SYSTEM], "anthropic") == [("A9", None)]
    assert text_of([SYSTEM], "anthropic", "A9") == "messages: at least one message is required"


def test_a10_an_unknown_role():
    assert found([GO, {"role": "narrator", "content": "x"}, GO], "anthropic") == [("A10", 1)]


def test_a11_a_prefill_does_not_end_in_white_space():
    history = [GO, {"role": "assistant", "content": "The answer is "}]
    assert found(history, "anthropic") == [("A11", 1)]
    assert text_of(history, "anthropic", "A11") == (
        "messages: final assistant content cannot end with trailing whitespace"
    )
    assert found([GO, {"role": "assistant", "content": "The answer is"}], "anthropic") == []
    assert found([*history, GO], "anthropic") == []
