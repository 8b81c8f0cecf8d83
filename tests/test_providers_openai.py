"""OpenAI: chat completions (O rules) and the Responses API (R rules), with the texts as people saw them."""

from __future__ import annotations

import pytest
from provider_histories import DANGLING, DONE, GO, ORPHAN, PROOF, REASONING, SYSTEM, call, found, result, text_of


def test_o1_says_what_openai_says():
    assert text_of(ORPHAN, "openai", "O1") == (
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'. "
        "(param: messages.[1].role)"
    )
    assert found([GO, DONE, result("c1")], "openai") == [("O1", 2)]


def test_o1_names_an_id_that_the_message_before_does_not_have():
    history = [GO, call("c1"), result("c1"), result("c9")]
    assert found(history, "openai") == [("O1", 3)]
    assert text_of(history, "openai", "O1").startswith("Invalid parameter: 'tool_call_id' of 'c9' not found in")
    assert found([GO, call("c1"), {"role": "tool", "content": "ok"}], "openai") == [("O2", 1), ("O1", 2)]


def test_o2_lists_the_ids_that_have_no_result():
    history = [GO, call("c1", "c2", "c3"), result("c2"), GO]
    assert text_of(history, "openai", "O2") == (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        "The following tool_call_ids did not have response messages: c1, c3"
    )
    assert found([GO, call("c1", "c2"), result("c2"), result("c1")], "openai") == []


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
def test_o2_any_other_role_ends_the_block_of_results(role):
    history = [GO, call("c1"), {"role": role, "content": "x"}, result("c1")]
    assert found(history, "openai") == [("O2", 1), ("O1", 3)]


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ({"role": "user", "content": None}, True),
        ({"role": "user"}, True),
        ({"role": "assistant", "content": None}, True),
        ({"role": "user", "content": []}, True),
        ({"role": "user", "content": ""}, False),
        ({"role": "assistant", "content": None, "refusal": "no"}, False),
        ({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}, False),
    ],
)
def test_o4_content_is_null_only_beside_something_else(message, refused):
    assert found([GO, message], "openai") == ([("O4", 1)] if refused else [])


def test_o4_and_o3_texts():
    assert text_of([GO, {"role": "user", "content": None}], "openai", "O4") == (
        "Invalid value for 'content': expected a string, got null. (param: messages.[1].content)"
    )
    assert text_of([], "openai", "O3") == "[] is too short - 'messages'"


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ({"type": "function", "function": {"name": "f", "arguments": "{}"}}, "Missing required parameter: '{}.id'."),
        ({"id": "c1", "function": {"name": "f", "arguments": "{}"}}, "Missing required parameter: '{}.type'."),
        ({"id": "c1", "type": "function"}, "Missing required parameter: '{}.function.name'."),
        (
            {"id": "c1", "type": "function", "function": {"name": "", "arguments": "{}"}},
            "Invalid '{}.function.name': empty string. Expected a string with minimum length 1, but got an empty "
            "string instead.",
        ),
        (
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
            "Invalid type for '{}.function.arguments': expected a string, but got an object instead.",
        ),
    ],
)
def test_o5_names_the_first_field_of_a_call_that_is_wrong(broken, text):
    history = [GO, {"role": "assistant", "content": None, "tool_calls": [broken]}, result("c1")]
    assert text_of(history, "openai", "O5") == text.format("messages[1].tool_calls[0]")


def test_o5_takes_a_custom_tool_and_refuses_an_empty_list_of_calls():
    custom = {"id": "c1", "type": "custom", "custom": {"name": "f", "input": "x"}}
    assert found([GO, {"role": "assistant", "content": None, "tool_calls": [custom]}, result("c1")], "openai") == []
    empty = [GO, {"role": "assistant", "content": "hi", "tool_calls": []}]
    assert text_of(empty, "openai", "O5").startswith("Invalid 'messages[1].tool_calls': empty array.")
    assert found([GO, {"role": "assistant", "content": "hi", "tool_calls": None}], "openai") == []


def test_o6_an_id_twice_in_one_message_is_a_warning_and_o7_its_second_result_an_error():
    history = [GO, call("call_0", "call_0"), result("call_0"), result("call_0")]
    assert found(history, "openai") == [("O7", 3)]
    assert found(history, "openai", warnings=True) == [("O6", 1), ("O7", 3)]
    assert found([GO, call("call_0", "call_1"), result("call_0"), result("call_1")], "openai", warnings=True) == []


def test_o7_names_both_places():
    history = [GO, call("c1"), result("c1"), result("c1")]
    assert text_of(history, "openai", "O7") == (
        "Invalid parameter: Duplicate value for 'tool_call_id' of 'c1', in messages[2] and messages[3]. "
        "(param: messages.[3].tool_call_id)"
    )


def test_o8_a_role_that_nobody_knows():
    assert found([GO, {"role": "narrator", "content": "x"}], "openai") == [("O8", 1)]
    assert found([GO, {"role": "developer", "content": "x"}], "openai") == []


def test_openai_takes_same_roles_in_a_row_a_late_system_message_and_a_last_assistant():
    assert found([GO, GO, DONE, DONE, SYSTEM, DONE], "openai", warnings=True) == []


def test_r1_and_r2_texts():
    assert text_of(ORPHAN, "openai_responses", "R1") == (
        "No tool call found for function call output with call_id aaaaaaaa1."
    )
    assert text_of(DANGLING, "openai_responses", "R2") == "No tool output found for function call aaaaaaaa1."


def test_r2_is_ordered_by_place_not_by_id():
    history = [GO, call("b"), call("a"), call("b"), GO]
    assert found(history, "openai_responses") == [("R2", 1), ("R2", 2), ("R2", 3)]


def test_r3_an_item_without_its_reasoning_item():
    assert text_of([GO, PROOF, GO], "openai_responses", "R3") == (
        "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'."
    )
    assert found([GO, PROOF, GO], "openai_responses") == [("R3", 1)]
    assert found([GO, REASONING, PROOF, GO], "openai_responses") == []
    stripped = {key: value for key, value in PROOF.items() if key != "id"}
    assert found([GO, stripped, GO], "openai_responses") == []


def test_r3_a_reasoning_item_without_the_item_after_it():
    history = [GO, REASONING, GO]
    assert found(history, "openai_responses") == [("R3", 1)]
    assert text_of(history, "openai_responses", "R3") == (
        "Item 'rs_1' of type 'reasoning' was provided without its required following item."
    )
    assert found([GO, REASONING], "openai_responses") == [("R3", 1)]


def test_r3_one_reasoning_item_leads_to_several_items_of_its_turn():
    look = {**call("c1"), "id": "fc_1", "requires": "rs_1"}
    assert found([GO, REASONING, PROOF, look, result("c1"), GO], "openai_responses") == []
    assert found([GO, REASONING, PROOF, GO, look, result("c1")], "openai_responses") == [("R3", 4)]


def test_r3_names_a_call_as_such():
    lone = {**call("c1"), "id": "fc_1", "requires": "rs_1"}
    assert "Item 'fc_1' of type 'function_call'" in text_of([GO, lone, result("c1")], "openai_responses", "R3")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            {"role": "narrator", "content": "x"},
            "Invalid value: 'narrator'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
        ),
        (
            {"role": "user", "content": None},
            "Invalid type for 'input[3].content': expected one of an array of objects or string, but got null instead.",
        ),
        (
            {"role": "assistant", "content": "hm", "tool_calls": [{"id": "c2", "type": "function"}]},
            "Missing required parameter: 'input[4].name'.",
        ),
    ],
)
def test_r5_counts_items_of_the_converted_request(message, text):
    history = [GO, call("c1"), result("c1"), message, result("c2")]  # input[0], [1], [2], then the message
    assert text_of(history, "openai_responses", "R5") == text
