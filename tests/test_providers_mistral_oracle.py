"""Mistral's own validator (the public package mistral-common, serving mode) against ctxlab's: both must agree.

Compared is accepting or refusing, for every tokenizer version whose rules differ. The histories have text content
only, which is what ctxlab models.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import ValidationMode, get_validator
from mistral_common.tokens.tokenizers.base import TokenizerVersion
from pydantic import ValidationError

from ctxlab import validate

VERSIONS = {
    "mistral_v3": TokenizerVersion.v3,
    "mistral_v7": TokenizerVersion.v7,
    "mistral_v11": TokenizerVersion.v11,
    "mistral": TokenizerVersion.v13,
}


def library_says(history, version):
    """None where mistral-common accepts, else its words."""
    try:
        request = ChatCompletionRequest(messages=history, model="any")
        get_validator(version, ValidationMode.serving).validate_request(request)
    except (MistralCommonException, ValidationError) as error:
        return str(error)
    return None


def both_agree(history):
    for provider, version in VERSIONS.items():
        refusal = library_says(history, version)
        violations = validate(history, provider)
        assert bool(violations) == bool(refusal), (provider, refusal, violations, history)
        if refusal and "validation error" not in refusal:
            # the library stops at its first finding, ctxlab lists all: its words are among ours
            assert refusal in [one.message for one in violations], (provider, refusal, violations, history)


def call(*ids, content=None):
    calls = [{"id": i, "type": "function", "function": {"name": "look", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(call_id):
    return {"role": "tool", "tool_call_id": call_id, "content": "ok"}


S = {"role": "system", "content": "s"}
U = {"role": "user", "content": "u"}
A = {"role": "assistant", "content": "a"}
ONE, TWO, BAD = "aaaaaaaa1", "aaaaaaaa2", "call_1"


@pytest.mark.parametrize(
    "history",
    [
        [],
        [S],
        [U],
        [A],
        [result(ONE)],
        [U, A],
        [U, {**A, "prefix": True}],
        [U, {**A, "prefix": True}, U],
        [U, S],
        [A, U],
        [U, call(ONE)],
        [U, call(ONE), result(ONE)],
        [U, call(ONE), result(ONE), U],
        [U, call(ONE), U],
        [U, call(ONE), U, A, U],
        [U, call(ONE), result(TWO), U],
        [U, call(ONE, TWO), result(TWO), result(ONE), U],
        [U, call(ONE, TWO), result(TWO), U],
        [U, call(ONE, ONE), result(ONE), result(ONE), U],
        [U, call(ONE), result(ONE), result(ONE), U],
        [U, call(BAD), result(BAD), U],
        [U, call("null"), result("null"), U],
        [U, call(""), result(""), U],
        [U, call(ONE, content="text too"), result(ONE), U],
        [U, call(), U],
        [U, {"role": "assistant", "content": ""}, U],
        [U, {"role": "assistant", "content": None}, U],
        [call(ONE), result(ONE), U],
        [result(ONE), U],
        [result(ONE), result(ONE), A, U],
        [U, A, result(ONE), U],
        [U, result(ONE), U],
        [S, S, U, U, S, A, A, U],
        [U, call(ONE), result(ONE), call(ONE), result(ONE), U],
        [U, call(ONE), call(TWO), result(ONE), result(TWO), U],
    ],
    ids=lambda history: "-".join(message["role"][0] + str(len(message.get("tool_calls", ""))) for message in history),
)
def test_hand_written_histories_are_judged_alike(history):
    both_agree(history)


def test_every_order_of_four_roles_is_judged_alike():
    kinds = [S, U, A, call(ONE), result(ONE)]
    for length in range(1, 5):
        for history in itertools.product(kinds, repeat=length):
            both_agree(list(history))


IDS = st.sampled_from([ONE, TWO, "aaaaaaaa3", BAD, "null", ""])
NAMES = st.sampled_from(["look", "no spaces", "", "x" * 65])
CALL = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": st.just("look") | NAMES}, optional={"arguments": st.just("{}")})},
    optional={"id": IDS, "type": st.sampled_from(["function", "function", "custom"])},
)
GOOD_CALL = st.builds(lambda i: call(i)["tool_calls"][0], IDS)
TEXT = st.sampled_from(["", "text"])
MESSAGE = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": TEXT}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": TEXT | st.none()},
        optional={"tool_calls": st.lists(GOOD_CALL, max_size=3) | st.lists(CALL, max_size=2), "prefix": st.booleans()},
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "content": TEXT, "tool_call_id": IDS}, optional={"name": NAMES}),
)


@given(st.lists(MESSAGE, max_size=8))
def test_random_histories_are_judged_alike(history):
    both_agree(history)


@st.composite
def nearly_well_formed(draw):
    """Whole rounds with one or two messages dropped, doubled, or swapped with their neighbour."""
    history, number = [U], 0
    for _ in range(draw(st.integers(1, 4))):
        ids = [f"call{number + k:05d}" for k in range(draw(st.integers(1, 3)))]
        number += draw(st.sampled_from([0, len(ids)]))  # ids may repeat in the next turn
        history += [call(*ids), *(result(i) for i in draw(st.permutations(ids)))]
        history += draw(st.sampled_from([[], [A], [A, U], [U]]))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(history) - 1))
        change = draw(st.sampled_from(["drop", "double", "swap"]))
        if change == "drop":
            del history[place]
        elif change == "double":
            history.insert(place, history[place])
        else:
            history[place : place + 2] = reversed(history[place : place + 2])
        if not history:
            break
    return history


@given(nearly_well_formed())
def test_damaged_rounds_are_judged_alike(history):
    both_agree(history)


def test_a_history_that_begins_with_a_result_is_where_the_library_does_not_look():
    history = [result(ONE), U]
    assert library_says(history, TokenizerVersion.v13) is None
    assert validate(history, "mistral") == []
    assert [one.rule for one in validate(history, "mistral", warnings=True)] == ["M7"]


def test_the_newest_version_judges_text_histories_as_v13_does():
    for history in ([U, call(BAD), result(BAD), U], [U, call(ONE), U], [U, call("null"), result("null")], [U, A]):
        assert bool(library_says(history, TokenizerVersion.v15)) == bool(library_says(history, TokenizerVersion.v13))
