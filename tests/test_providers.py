"""What holds for every provider: the common shapes, one example a rule, the function itself."""

from __future__ import annotations

import pytest
from provider_histories import (
    DANGLING,
    DONE,
    GO,
    LONE,
    NARRATOR,
    ORPHAN,
    PARTED,
    PROOF,
    REASONING,
    ROUND,
    SYSTEM,
    call,
    found,
    result,
    user,
)

from ctxlab import Violation, validate
from ctxlab.errors import MalformedMessage, UnknownName
from ctxlab.providers import OLDER_MISTRAL, PAIRING_RULES, PROVIDERS, RULES


@pytest.mark.parametrize("provider", [*PROVIDERS, *OLDER_MISTRAL])
def test_a_complete_round_is_accepted_by_every_provider(provider):
    assert validate(ROUND, provider) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_empty_history_is_refused_with_no_message_to_blame(provider):
    (only,) = validate([], provider)
    assert only.index is None
    assert only.rule == {"openai": "O3", "openai_responses": "R4", "gemini": "G5"}.get(
        provider, "M7" if provider.startswith("mistral") else "A9"
    )


@pytest.mark.parametrize(
    ("provider", "rules"),
    [
        ("openai", [("O2", 1)]),
        ("openai_responses", [("R2", 1)]),
        ("anthropic", [("A1", 1)]),
        ("anthropic_2024", [("A1", 1)]),
        ("anthropic_no_prefill", [("A1", 1)]),
        ("gemini", [("G1", 1)]),
        ("mistral", [("M2", 1)]),
        ("mistral_api_2025", [("M2", 1)]),
    ],
)
def test_a_call_without_its_result_is_found_at_the_assistant_message(provider, rules):
    assert found(DANGLING, provider) == rules


@pytest.mark.parametrize(
    ("provider", "rules"),
    [
        ("openai", [("O1", 1)]),
        ("openai_responses", [("R1", 1)]),
        ("anthropic", [("A2", 1)]),
        ("anthropic_no_prefill", [("A2", 1)]),
        ("gemini", [("G3", 1)]),
        ("mistral", [("M1", 1), ("M3", 1)]),
        ("mistral_v3", [("M1", 1), ("M2", 1)]),
    ],
)
def test_a_result_without_its_call_is_found_at_the_result(provider, rules):
    assert found(ORPHAN, provider) == rules


@pytest.mark.parametrize(
    ("provider", "rules"),
    [
        ("openai", [("O2", 1), ("O1", 3)]),
        ("anthropic", [("A1", 1)]),
        ("gemini", [("G1", 1), ("G3", 3)]),
        ("mistral", [("M1", 3)]),
    ],
)
def test_a_user_message_between_call_and_result_is_refused_though_both_are_there(provider, rules):
    assert found(PARTED, provider) == rules


def test_the_responses_api_pairs_by_order_and_takes_a_message_in_between():
    assert found(PARTED, "openai_responses") == []
    assert found(PARTED, "openai_responses", warnings=True) == [("R6", 3)]  # compatible servers want them adjacent
    parallel = [GO, call("c1", "c2"), result("c2"), result("c1"), GO]
    assert found(parallel, "openai_responses", warnings=True) == []
    assert found([GO, result("c1"), call("c1"), GO], "openai_responses") == [("R1", 1), ("R2", 2)]


@pytest.mark.parametrize("provider", ["openai", "gemini", "mistral", "openai_responses"])
def test_ids_that_repeat_in_later_turns_pair_by_place(provider):
    twice = [GO, call("call_0"), result("call_0"), DONE, GO, call("call_0"), result("call_0"), GO]
    assert found(twice, provider) == []
    lost_first = [GO, call("call_0"), DONE, GO, call("call_0"), result("call_0"), GO]
    assert [index for _, index in found(lost_first, provider)] == [1]


NAMELESS = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {}}]}

EXAMPLES = {  # rule: (provider, a history that breaks it, its neighbour that does not)
    "O1": ("openai", [GO, result("c1")], [GO, call("c1"), result("c1")]),
    "O2": ("openai", [GO, call("c1"), GO], [GO, call("c1"), result("c1"), GO]),
    "O3": ("openai", [], [GO]),
    "O4": ("openai", [GO, LONE], [GO, DONE]),
    "O5": ("openai", [GO, NAMELESS, result("c1")], [GO, call("c1"), result("c1")]),
    "O6": ("openai", [GO, call("c1", "c1"), result("c1")], [GO, call("c1", "c2"), result("c1"), result("c2")]),
    "O7": ("openai", [GO, call("c1"), result("c1"), result("c1")], [GO, call("c1"), result("c1")]),
    "O8": ("openai", [NARRATOR], [GO]),
    "R1": ("openai_responses", [GO, result("c1")], [GO, call("c1"), result("c1")]),
    "R2": ("openai_responses", [GO, call("c1")], [GO, call("c1"), result("c1")]),
    "R3": ("openai_responses", [GO, PROOF], [GO, REASONING, PROOF]),
    "R4": ("openai_responses", [], [GO]),
    "R5": ("openai_responses", [GO, LONE], [GO, DONE]),
    "R6": ("openai_responses", [GO, call("c1"), GO, result("c1")], [GO, call("c1"), result("c1"), GO]),
    "A1": ("anthropic", [GO, call("c1"), GO], [GO, call("c1"), result("c1"), GO]),
    "A2": ("anthropic", [GO, result("c1")], [GO, call("c1"), result("c1")]),
    "A3": ("anthropic", [GO, call("c"), result("c"), call("c"), result("c")], [GO, call("c"), result("c")]),
    "A4": ("anthropic", [GO, call("c1"), result("c1"), result("c1")], [GO, call("c1"), result("c1")]),
    "A5": ("anthropic", [user(""), DONE], [GO, DONE]),
    "A6": ("anthropic_no_prefill", [GO, DONE], [GO, DONE, GO]),
    "A7": ("anthropic_2024", [DONE, GO], [GO, DONE]),
    "A8": ("anthropic", [GO, call("f:0"), result("f:0")], [GO, call("f_0"), result("f_0")]),
    "A9": ("anthropic", [SYSTEM], [SYSTEM, GO]),
    "A10": ("anthropic", [GO, NARRATOR], [GO]),
    "A11": ("anthropic", [GO, {"role": "assistant", "content": "so "}], [GO, {"role": "assistant", "content": "so"}]),
    "G1": ("gemini", [GO, call("c1"), GO], [GO, call("c1"), result("c1"), GO]),
    "G2": ("gemini", [call("c1"), result("c1")], [GO, call("c1"), result("c1")]),
    "G3": ("gemini", [GO, result("c1")], [GO, call("c1"), result("c1")]),
    "G4": ("gemini", [GO, DONE], [GO, DONE, GO]),
    "G5": ("gemini", [SYSTEM], [SYSTEM, GO]),
    "G6": ("gemini", [GO, call("c1"), result("c2")], [GO, call("c1"), result("c1")]),
    "G7": ("gemini", [GO, NARRATOR], [GO]),
    "M1": ("mistral", [GO, DONE, SYSTEM, GO], [GO, SYSTEM, DONE, GO]),
    "M2": ("mistral", [GO, call("c1"), GO], [GO, call("c1"), result("c1"), GO]),
    "M3": ("mistral", [GO, call("c1"), result("c2")], [GO, call("c1"), result("c1")]),
    "M4": ("mistral", [GO, DONE], [GO, DONE, GO]),
    "M5": ("mistral_v11", [GO, call("c1"), result("c1")], [GO, call("ccccccc01"), result("ccccccc01")]),
    "M6": ("mistral_v3", [GO, LONE, GO], [GO, DONE, GO]),
    "M7": ("mistral", [], [GO]),
    "M8": ("mistral", [NARRATOR, GO], [GO]),
}


def test_every_rule_of_the_table_has_its_example():
    assert list(EXAMPLES) == list(RULES)


@pytest.mark.parametrize("rule", EXAMPLES)
def test_the_example_breaks_its_rule_and_the_neighbour_breaks_none(rule):
    provider, breaks, keeps = EXAMPLES[rule]
    assert rule in [name for name, _ in found(breaks, provider, warnings=True)]
    assert validate(keeps, provider) == []


def test_every_rule_has_a_title_a_reason_and_a_source():
    for rule in RULES.values():
        assert rule.title
        assert rule.why.endswith(".")
        assert rule.source
        assert rule.provider in PROVIDERS


def test_the_pairing_rules_are_about_calls_and_results():
    assert sorted(PAIRING_RULES) == sorted(
        ["O1", "O2", "O6", "O7", "R1", "R2", "R6", "A1", "A2", "A4", "G1", "G3", "G6", "M2", "M3"]
    )


def test_every_provider_has_the_names_that_are_promised():
    assert PROVIDERS == (
        "openai",
        "openai_responses",
        "anthropic",
        "anthropic_2024",
        "anthropic_no_prefill",
        "gemini",
        "mistral",
        "mistral_api_2025",
    )


def test_a_violation_says_how_to_mend_it_and_where_it_was_seen():
    (only,) = validate(DANGLING)
    assert only == Violation(
        rule="O2",
        index=1,
        message="An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        "'tool_call_id'. The following tool_call_ids did not have response messages: aaaaaaaa1",
        repair="Put a tool message for aaaaaaaa1 directly after message 1 (before any other role), or drop the call.",
        severity="error",
        source="BerriAI/litellm#10696; langchain-ai/langchain#27216",
        pairing=True,
    )


def test_an_unknown_provider_is_answered_with_the_closest_name():
    with pytest.raises(UnknownName) as error:
        validate([GO], "anthropics")
    assert "did you mean 'anthropic'" in error.value.hint
    with pytest.raises(UnknownName):
        validate([GO], None)


@pytest.mark.parametrize("bad", [None, 7, "hello", {"role": "user", "content": "x"}, [GO, "text"], [GO, {}], [None]])
def test_what_is_not_a_history_is_refused_as_malformed(bad):
    for provider in PROVIDERS:
        with pytest.raises(MalformedMessage):
            validate(bad, provider)


def test_the_input_is_not_changed():
    history = [GO, call("c1"), result("c1")]
    before = repr(history)
    for provider in PROVIDERS:
        validate(history, provider, warnings=True)
    assert repr(history) == before
