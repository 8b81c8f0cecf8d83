"""What holds for any history: no crash, whole rounds pass, a lost result is found, and the cost is linear."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provider_histories import DONE, GO, SYSTEM, call, result, user

from ctxlab import validate
from ctxlab.errors import MalformedMessage
from ctxlab.providers import OLDER_MISTRAL, PAIRING_RULES, PROVIDERS, RULES

IDS = st.sampled_from(["a", "b", "aaaaaaaa1", "", None, "functions.f:0", 3])
CALLS = st.builds(
    lambda i, shape: {"id": i, **shape},
    IDS,
    st.sampled_from(
        [
            {"type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"type": "function", "function": {"name": "f"}},
            {"type": "custom"},
            {"function": "f"},
            {"function": {"name": "", "arguments": {}}},
            {},
        ]
    ),
)
PARTS = st.sampled_from(["text", 7, None, {"type": "text", "text": ""}, {"type": "image_url"}, {"text": 3}, []])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
WILD = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "function", "narrator"])},
    optional={
        "content": st.sampled_from(["", " ", "hi", None]) | st.lists(PARTS, max_size=2) | ANYTHING,
        "tool_calls": st.lists(CALLS, max_size=3) | ANYTHING,
        "tool_call_id": IDS | ANYTHING,
        "name": st.sampled_from(["f", "", None, "no spaces"]),
        "id": st.sampled_from(["rs_1", "msg_1", None]) | ANYTHING,
        "requires": st.sampled_from(["rs_1", None]) | ANYTHING,
        "type": st.sampled_from(["reasoning", "message"]) | ANYTHING,
        "prefix": st.booleans() | ANYTHING,
    },
)


@given(st.lists(WILD, max_size=6))
def test_any_list_of_dicts_is_judged_or_refused_as_malformed(history):
    for provider in (*PROVIDERS, *OLDER_MISTRAL):
        try:
            everything = validate(history, provider, warnings=True)
        except MalformedMessage:
            continue
        places = [-1 if one.index is None else one.index for one in everything]
        assert places == sorted(places)
        assert all(-1 <= place < len(history) for place in places)
        assert all(one.rule in RULES and one.message and one.repair for one in everything)
        assert validate(history, provider) == [one for one in everything if one.severity == "error"]


@st.composite
def well_formed(draw):
    """A history of whole rounds, ending with a user message; ids are unique and fit every provider."""
    history, number = [SYSTEM] if draw(st.booleans()) else [], 0
    for _ in range(draw(st.integers(1, 4))):
        history.append(user("question"))
        for _ in range(draw(st.integers(0, 2))):
            ids = [f"call{number + k:05d}" for k in range(draw(st.integers(1, 3)))]
            number += len(ids)
            history += [call(*ids), *(result(i) for i in draw(st.permutations(ids)))]
        history.append(DONE)
    return [*history, user("last")]


@given(well_formed())
def test_whole_rounds_are_accepted_by_every_provider_and_version(history):
    for provider in (*PROVIDERS, *OLDER_MISTRAL):
        assert validate(history, provider) == []


@given(well_formed(), st.data())
def test_a_lost_result_breaks_a_pairing_rule_of_every_provider(history, data):
    results = [index for index, message in enumerate(history) if message["role"] == "tool"]
    if not results:
        return
    lost = data.draw(st.sampled_from(results))
    rest = history[:lost] + history[lost + 1 :]
    for provider in PROVIDERS:
        (only,) = [one for one in validate(rest, provider) if one.rule in PAIRING_RULES]
        assert rest[only.index]["role"] == "assistant"
        assert any(one["id"] == history[lost]["tool_call_id"] for one in rest[only.index]["tool_calls"])


def cpu_seconds(history, provider):
    """In this process's own CPU time: what else runs on the machine does not count."""
    start = time.process_time()
    validate(history, provider)
    return time.process_time() - start


@pytest.mark.parametrize("provider", PROVIDERS)
def test_ten_thousand_messages_are_judged_in_under_a_second(provider):
    turn = [user(), call("c1", "c2", "c3"), result("c1"), result("c2"), result("c3")]
    assert cpu_seconds(turn * 2000, provider) < 1.0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_ten_thousand_calls_in_one_message_are_judged_in_under_a_second(provider):
    ids = [f"c{number}" for number in range(10_000)]
    assert cpu_seconds([GO, call(*ids), *(result(i) for i in ids), GO], provider) < 1.0
