"""Counts against published totals; texts that break tokenizers; the cache; what a message costs beyond its text."""

from __future__ import annotations

import copy
import json
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxlab import tokens
from ctxlab.errors import MalformedMessage, UnknownName
from ctxlab.messages import Message, as_messages
from ctxlab.tokens import (
    Estimate,
    TokenMeter,
    count_message,
    count_request,
    count_tokens,
    count_tools,
    estimate,
    estimate_tokens,
    heuristic_tokens,
)

PUBLISHED = json.loads((Path(__file__).parent / "corpus" / "published_token_counts.json").read_text("utf-8"))

JARGON = [case["messages"][0] for case in PUBLISHED["hmarr/openai-chat-tokens token-counts.test.ts"][:6]]
"""The example of OpenAI's cookbook, How to count tokens with tiktoken, which prints what the API counted."""

WEATHER = [
    {"role": "system", "content": "You are a helpful assistant that can answer to questions about the weather."},
    {"role": "user", "content": "What's the weather like in San Francisco?"},
]
WEATHER_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_current_weather",
            "description": "Get the current weather in a given location",
            "parameters": {
                "type": "object",
                "properties": {
                    "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
                    "unit": {
                        "type": "string",
                        "description": "The unit of temperature to return",
                        "enum": ["celsius", "fahrenheit"],
                    },
                },
                "required": ["location"],
            },
        },
    }
]


def user(text):
    return {"role": "user", "content": text}


def call_message(*arguments, name="get_current_weather", content=None):
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": text}}
        for n, text in enumerate(arguments)
    ]
    return {"role": "assistant", "content": content, "tool_calls": calls}


# --- published totals -----------------------------------------------------------------------------------------------


def test_the_cookbooks_conversation_is_129_tokens_for_gpt4_and_124_for_gpt4o():
    assert estimate_tokens(JARGON, "cl100k_base") == 129
    assert estimate_tokens(JARGON, "o200k_base") == 124


def test_the_cookbooks_tool_example_is_105_tokens_for_gpt4_and_101_for_gpt4o():
    assert count_request(WEATHER, WEATHER_TOOLS, encoding="cl100k_base") == 105
    assert count_request(WEATHER, WEATHER_TOOLS, encoding="o200k_base") == 101


@pytest.mark.parametrize("case", PUBLISHED["pamelafox/openai-messages-token-helper tests/messages.py"])
def test_published_single_messages_are_exact_in_both_encodings(case):
    assert estimate_tokens([case["message"]], "cl100k_base") == case["count"]
    assert estimate_tokens([case["message"]], "o200k_base") == case["count_omni"]


@pytest.mark.parametrize("number", range(36))
def test_published_requests_are_exact_but_for_two_with_nested_descriptions(number):
    case = PUBLISHED["hmarr/openai-chat-tokens token-counts.test.ts"][number]
    got = count_request(case["messages"], case.get("functions"), case.get("function_call"), encoding="cl100k_base")
    assert got - case["tokens"] == {34: 13, 35: 20}.get(number, 0)


@pytest.mark.parametrize("case", PUBLISHED["pamelafox/openai-messages-token-helper tests/functions.py"])
def test_published_tool_requests_are_exact_or_up_to_three_over(case):
    got = count_request([case["system_message"]], case["tools"], case["tool_choice"], encoding="cl100k_base")
    assert 0 <= got - case["count"] <= 3


@pytest.mark.parametrize(
    "case", PUBLISHED["chrisdinn/tokens counter_test.go"] + PUBLISHED["community.openai.com/t/538914"]
)
def test_published_tool_call_histories_lie_inside_the_band(case):
    results = [{"role": "tool", "tool_call_id": f"call_{n}", "content": text} for n, text in enumerate(case["results"])]
    calls = call_message(*case["arguments"], name=case["call"], content=case["text"])
    band = estimate([user(case["user"]), calls, *results], "cl100k_base")
    assert band.low <= case["tokens"] <= band.high
    assert band.low <= band.tokens <= band.high


# --- text -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["<|endoftext|>", "<|start|>system<|message|>", "a<|endofprompt|>b"])
def test_special_token_text_is_text(text):
    for name in ("o200k_base", "cl100k_base", "o200k_harmony"):
        assert count_tokens(text, name) > 3
    assert count_tokens("<|endoftext|>") == 7


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
@pytest.mark.parametrize(
    ("character", "o200k", "cl100k"),
    [
        ("a", 125_000, 125_000),
        (" ", 7_813, 7_813),
        ("\u00a0", 125_000, 125_000),
        ("\t", 62_500, 62_500),
        ("\n", 62_500, 31_250),
        ("\0", 500_000, 1_000_000),
        ("^", 125_000, 250_000),
    ],
)
def test_a_megabyte_of_one_character_is_counted_in_seconds(name, character, o200k, cl100k):
    start = time.monotonic()
    assert count_tokens(character * 1_000_000, name) == (o200k if name == "o200k_base" else cl100k)
    assert time.monotonic() - start < 30


def test_lone_surrogates_count_as_the_replacement_character():
    assert count_tokens("a\ud800b") == count_tokens("a\ufffdb")
    assert count_tokens("\ud83d\ude00") == count_tokens("😀")
    assert count_tokens(" " * 1_000_000 + "\ud800") > 7_000
    assert heuristic_tokens("\ud800") == 1


@given(st.text(st.characters(exclude_categories=())))
def test_no_text_raises_and_every_text_counts_as_tiktoken_counts_it(text):
    expected = len(tokens.get_encoding().encode(text, disallowed_special=()))
    assert count_tokens(text) == expected
    assert count_tokens(text) == expected  # remembered


@pytest.mark.parametrize("length", [65_535, 65_536, 99_999])
@pytest.mark.parametrize("character", [" ", "\u00a0", "A", "é", "中", "\u0301", "\r\n"])
def test_long_runs_count_as_tiktoken_counts_them(length, character):
    text = character * length
    assert count_tokens(text) == len(tokens.get_encoding().encode(text, disallowed_special=()))


def test_what_is_not_text_is_refused_in_words():
    for value in (None, b"bytes", 3, ["a"]):
        with pytest.raises(MalformedMessage, match="where text was expected"):
            count_tokens(value)
    with pytest.raises(UnknownName):
        count_tokens("a", "gpt-4o")
    with pytest.raises(UnknownName):
        count_tokens("a", ["o200k_base"])


def test_the_heuristic_is_four_characters_a_token_rounded_up():
    assert [heuristic_tokens("x" * n) for n in (0, 1, 4, 5, 8, 9)] == [0, 1, 1, 2, 2, 3]


def test_the_heuristic_overcounts_english_and_is_less_than_half_for_chinese():
    english = "The committee will publish its findings after the second review of the annual report. " * 5
    chinese = "请把昨天的报告再检查一遍，特别是第三节里的数字，然后在周末之前发给我。" * 5
    assert heuristic_tokens(english) / count_tokens(english) > 1.1
    assert heuristic_tokens(chinese) / count_tokens(chinese) < 0.5


# --- messages -------------------------------------------------------------------------------------------------------


def test_a_message_costs_three_a_name_one_and_the_reply_three():
    assert count_message(user("hello world")) == 3 + 1 + 2
    assert count_message({**user("hello world"), "name": "bob"}) == 3 + 1 + 2 + 1 + count_tokens("bob")
    assert estimate_tokens([user("hello world")]) == 6 + 3
    assert estimate_tokens([]) == 0
    assert estimate_tokens(()) == 0


def test_every_common_role_is_one_token_in_every_encoding():
    for name in tokens.ENCODINGS:
        assert [count_tokens(role, name) for role in tokens._ROLES] == [1] * 5


def test_dicts_and_messages_count_alike():
    history = [*JARGON, call_message("{}", '{"a": 1}'), {"role": "tool", "tool_call_id": "call_0", "content": "ok"}]
    assert [count_message(m) for m in history] == [count_message(m) for m in as_messages(history)]
    assert estimate_tokens(history) == estimate_tokens(as_messages(history)) == estimate_tokens(iter(history))


def test_none_and_empty_content_and_text_parts():
    assert count_message({"role": "assistant", "content": None}) == 4
    assert count_message({"role": "assistant"}) == 4
    assert count_message(user("")) == 4
    parts = [{"type": "text", "text": "hello"}, {"type": "text", "text": " world"}]
    assert count_message({"role": "user", "content": parts}) == 6


def test_a_call_costs_its_name_its_arguments_and_seven_more_but_not_its_id():
    one = count_message(call_message('{"a":2, "b":2}', name="calculator"))
    assert one == 4 + 7 + count_tokens("calculator") + count_tokens('{"a":2, "b":2}')
    longer = call_message('{"a":2, "b":2}', name="calculator")
    longer["tool_calls"][0]["id"] = "call_" + "x" * 500
    assert count_message(longer) == one
    assert count_message(call_message("{}", "{}", name="f")) == 4 + 2 * (7 + 1 + 1) + 13


def test_arguments_that_are_an_object_count_as_their_json():
    message = call_message("")
    message["tool_calls"][0]["function"]["arguments"] = {"city": "上海"}
    assert count_message(message) == count_message(call_message('{"city":"上海"}'))


def test_texts_beside_the_content_count_and_book_keeping_does_not():
    plain = {"role": "assistant", "content": "yes"}
    for key in ("refusal", "reasoning_content", "reasoning", "thinking"):
        assert count_message({**plain, key: "some more words"}) == count_message(plain) + 3
    noted = {**plain, "seq": 7, "ts": "2026-09-04T10:00:00Z", "id": "m" * 90, "usage": {"a": 1}, "refusal": None}
    assert count_message(noted) == count_message(plain)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("hello", "a str where a message"),
        (None, "a NoneType where a message"),
        ({"content": "x"}, "without a role"),
        ({"role": "user", "content": 5}, "content of type int"),
        ({"role": "user", "content": {"a": 1}}, "content of type"),
        ({"role": "assistant", "content": None, "tool_calls": "x"}, "tool_calls of type str"),
        ({"role": "assistant", "content": None, "tool_calls": ["x"]}, "tool_calls of type"),
    ],
)
def test_what_is_no_message_is_refused_with_its_index(bad, words):
    with pytest.raises(MalformedMessage, match=words) as caught:
        estimate_tokens([user("a"), bad])
    assert caught.value.index == 1
    with pytest.raises(MalformedMessage, match=words):
        count_message(bad)


@pytest.mark.parametrize("bad", ["a text", {"role": "user"}, b"x", None, 3])
def test_what_is_no_history_is_refused(bad):
    with pytest.raises(MalformedMessage, match="where a list of messages was expected"):
        estimate_tokens(bad)


def test_counting_leaves_the_history_unchanged():
    history = [
        *JARGON,
        call_message('{"a": [1, 2]}'),
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
    ] * 20
    before = copy.deepcopy(history)
    estimate_tokens(history)
    count_request(history, WEATHER_TOOLS)
    assert history == before


# --- the band -------------------------------------------------------------------------------------------------------


def test_a_history_without_calls_has_no_band():
    band = estimate(JARGON)
    assert band == Estimate(124, 124, 124)


def test_the_band_of_one_call_is_four_either_way_and_of_three_eight_and_twelve():
    one, three = estimate([call_message("{}")]), estimate([call_message("{}", "{}", "{}")])
    assert (one.tokens - one.low, one.high - one.tokens) == (4, 4)
    assert (three.tokens - three.low, three.high - three.tokens) == (8, 12)


# --- running counts -------------------------------------------------------------------------------------------------


def text_of(number):
    return f"message {number} about the plan, with enough words in it to be worth remembering"


def slow(history):
    """The count with nothing remembered, message by message."""
    tokens.forget()
    return sum(count_message(message) for message in history) + 3


def test_the_meter_gives_what_the_estimate_gives():
    meter = TokenMeter()
    assert meter.total == 0
    assert meter.append(user("hello world")) == 6
    assert meter.extend(JARGON) == 124 - 3
    assert meter.total == estimate_tokens([user("hello world"), *JARGON])
    assert TokenMeter(JARGON, "cl100k_base").total == 129


def test_a_message_that_the_meter_refuses_is_not_counted():
    meter = TokenMeter([user("hello world")])
    with pytest.raises(MalformedMessage) as caught:
        meter.append({"content": "x"})
    assert caught.value.index == 1
    assert (meter.total, meter.messages) == (9, 1)


def test_a_list_that_grows_is_counted_right_after_each_append():
    history = []
    meter = TokenMeter()
    for number in range(200):
        history.append(user(text_of(number)) if number % 3 else call_message(f'{{"n": "{number}"}}'))
        meter.append(history[-1])
        assert estimate_tokens(history) == meter.total
    assert estimate_tokens(history) == slow(history)


@pytest.mark.parametrize("where", [0, 50, 99])
def test_a_message_changed_in_place_is_noticed(where):
    history = [user(text_of(n)) for n in range(100)]
    first = estimate_tokens(history)
    history[where]["content"] += " and more"
    assert estimate_tokens(history) == first + 2 == slow(history)


def test_a_change_deep_inside_a_message_is_noticed():
    history = [user(text_of(n)) for n in range(70)]
    history[5] = call_message('{"path": "a"}')
    history[6] = {"role": "user", "content": [{"type": "text", "text": "one"}]}
    first = estimate_tokens(history)
    history[5]["tool_calls"][0]["function"]["arguments"] = '{"path": "a", "line": "b"}'
    history[6]["content"][0]["text"] = "one two three"
    assert estimate_tokens(history) == slow(history) > first


def test_a_number_that_equals_another_is_still_noticed():
    history = [user(text_of(n)) for n in range(70)]
    history[5] = call_message("")
    history[5]["tool_calls"][0]["function"]["arguments"] = {"n": 1}
    estimate_tokens(history)
    history[5]["tool_calls"][0]["function"]["arguments"] = {"n": 1.0}
    assert estimate_tokens(history) == slow(history)


def test_a_shorter_list_a_fork_and_another_encoding_are_counted_for_themselves():
    history = [user(text_of(n)) for n in range(120)]
    estimate_tokens(history)
    fork = [*history[:90], user("another way")]
    assert estimate_tokens(fork) == slow(fork)
    assert estimate_tokens(history[:80]) == slow(history[:80])
    assert estimate_tokens(history, "cl100k_base") == sum(count_message(m, "cl100k_base") for m in history) + 3
    assert estimate_tokens([]) == 0


@given(st.lists(st.tuples(st.sampled_from(["append", "edit", "drop"]), st.integers(0, 80)), max_size=12))
def test_after_any_changes_the_estimate_is_the_sum_of_its_messages(changes):
    history = [user(text_of(n)) for n in range(70)]
    for kind, where in changes:
        if kind == "append":
            history.append(user(text_of(where)))
        elif kind == "edit":
            history[where % len(history)]["content"] = f"edited {where}"
        else:
            del history[where % len(history)]
        assert estimate_tokens(history) == sum(count_message(message) for message in history) + 3


def test_a_list_that_cannot_be_watched_keeps_no_other_from_it():
    odd = [call_message("{}"), *(user(text_of(n)) for n in range(80))]
    odd[0]["tool_calls"][0]["function"]["arguments"] = {"n": 1}
    plain = [user(text_of(n)) for n in range(80)]
    tokens.forget()
    for history in (odd, plain, odd):
        assert estimate_tokens(history) == sum(count_message(message) for message in history) + 3
    assert [len(watched.copies) for watched in tokens._watching] == [80]


def test_the_last_four_lists_are_remembered_the_latest_first():
    tokens.forget()
    histories = [[user(text_of(1_000 * k + n)) for n in range(64 + k)] for k in range(6)]
    for history in [*histories, histories[3]]:
        estimate_tokens(history)
    assert [len(watched.copies) for watched in tokens._watching] == [67, 69, 68, 66]


def test_mappings_that_are_no_dicts_count_like_dicts():
    from collections import OrderedDict
    from types import MappingProxyType

    message = {"role": "assistant", "content": "hello world", "name": "bob"}
    assert count_message(OrderedDict(message)) == count_message(MappingProxyType(message)) == count_message(message)
    assert estimate_tokens([MappingProxyType(message)] * 70) == 70 * count_message(message) + 3


def test_threads_that_count_one_list_agree():
    history = [user(text_of(n)) for n in range(300)]
    expected = slow(history)
    tokens.forget()
    got = []
    threads = [threading.Thread(target=lambda: got.append(estimate_tokens(list(history)))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [expected] * 6


def test_reestimating_after_one_append_costs_far_less_than_counting_whole():
    history = [user(" ".join(text_of(n * 7 + k) for k in range(8))) for n in range(3_000)]
    tokens.forget()
    start = time.perf_counter()
    estimate_tokens(history)
    whole = time.perf_counter() - start
    again = []
    for number in range(5):
        history.append(user(text_of(-number - 1)))
        start = time.perf_counter()
        estimate_tokens(history)
        again.append(time.perf_counter() - start)
    assert whole / min(again) > 50  # about 500 on a quiet machine; benchmarks/tokens.py measures it


def test_the_cache_keeps_no_texts_alive_and_is_bounded():
    from ctxlab import texts

    count = texts._remembering(len)
    for number in range(3 * texts.REMEMBERED):
        count(str(number))
    young, old = (cell.cell_contents for cell in count.__closure__ if isinstance(cell.cell_contents, dict))
    assert len(young) <= texts.REMEMBERED
    assert len(old) <= texts.REMEMBERED
    assert all(isinstance(key, int) for key in [*young, *old])


def test_a_history_with_too_much_text_is_not_kept_but_still_counted(monkeypatch):
    monkeypatch.setattr(tokens, "WATCHED_CHARACTERS", 1_000)
    tokens.forget()
    history = [user(text_of(n)) for n in range(100)]
    assert estimate_tokens(history) == slow(history)
    estimate_tokens(history)
    assert sum(watched.characters for watched in tokens._watching) <= 1_000


def test_where_tiktokens_buffer_call_is_missing_the_documented_call_counts():
    from ctxlab import texts

    class Documented:
        def encode(self, text, disallowed_special):
            return [0] * len(text)

    assert texts._buffer_counter(Documented())("four") == 4


# --- tools in a request ---------------------------------------------------------------------------------------------


def test_a_request_without_tools_is_its_history():
    assert count_request(WEATHER) == count_request(WEATHER, []) == estimate_tokens(WEATHER)


def test_tools_without_a_system_message_are_simply_added():
    history = [WEATHER[1]]
    assert count_request(history, WEATHER_TOOLS) == estimate_tokens(history) + count_tools(WEATHER_TOOLS)
    assert count_request(as_messages(history), WEATHER_TOOLS, "none") == count_request(history, WEATHER_TOOLS) + 1
    assert Message.of(history[0]).text
