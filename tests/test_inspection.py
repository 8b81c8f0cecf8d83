"""Inspection: its numbers are the pure functions' numbers, and its indices are places in the log."""

from __future__ import annotations

import pytest

from ctxlab.errors import BudgetError, UnknownName
from ctxlab.formats import Conversation
from ctxlab.inspection import growth, inspect_conversation, limits
from ctxlab.tokens import count_message, count_tools


def call(name: str) -> dict:
    return {"id": name, "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a.py"}'}}


HISTORY = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "Read two files."},
    {"role": "assistant", "content": None, "tool_calls": [call("c1"), call("c2")]},
    {"role": "tool", "tool_call_id": "c1", "content": "one " * 40},
    {"role": "tool", "tool_call_id": "c2", "content": "two " * 400},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": "Thanks."},
    {"role": "assistant", "content": "Welcome."},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Read a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]


def talk(**changes: object) -> Conversation:
    given = {"messages": HISTORY, "system": "You are terse.", "tools": TOOLS, "format": "openai_chat"}
    return Conversation(**{**given, **changes})


def test_the_parts_are_counted_once_each() -> None:
    found = inspect_conversation(talk(), window=10_000, reserve=1_000, margin=100)
    sizes = [count_message(message) for message in HISTORY]
    assert found.budget.system == sizes[0]
    assert found.budget.tools == count_tools(TOOLS)
    assert found.history_tokens == sum(sizes[1:])
    assert found.budget.history == 10_000 - 1_000 - 100 - sizes[0] - count_tools(TOOLS)


def test_a_system_prompt_outside_the_messages_is_counted_too() -> None:
    inside = inspect_conversation(talk())
    outside = inspect_conversation(talk(messages=HISTORY[1:]))
    assert outside.history_tokens == inside.history_tokens
    assert 0 < outside.budget.system <= inside.budget.system


def test_rounds_add_up_and_the_bill_is_the_history_before_each_reply() -> None:
    sizes = [0, *(count_message(message) for message in HISTORY[1:])]
    rounds = growth(HISTORY)
    assert [(r.start, r.end) for r in rounds] == [(0, 1), (1, 6), (6, 8)]
    assert [r.added for r in rounds] == [0, sum(sizes[1:6]), sum(sizes[6:])]
    assert rounds[-1].history == sum(sizes)
    assert rounds[-1].billed == sum(sizes[:2]) + sum(sizes[:5]) + sum(sizes[:7])


def test_the_biggest_item_is_the_long_result_and_its_index_is_its_place() -> None:
    biggest = inspect_conversation(talk()).biggest[0]
    assert (biggest.index, biggest.what) == (4, "tool result")
    assert biggest.tokens == count_message(HISTORY[4])


def test_the_cut_keeps_the_batch_together_and_counts_in_places_of_the_log() -> None:
    cut = inspect_conversation(talk(), keep_recent=4).cut
    assert (cut.raw, cut.pair_safe, cut.round_start) == (4, 2, 1)
    assert [step["index"] for step in cut.steps] == [4, 3, 2, 2]
    assert inspect_conversation(talk(), keep_recent=0).cut.raw == len(HISTORY)
    assert inspect_conversation(talk(), keep_recent=50).cut.raw == 0


def test_each_trigger_fires_at_the_first_message_that_reaches_it() -> None:
    sizes = [0, *(count_message(message) for message in HISTORY[1:])]
    found = inspect_conversation(talk(), window=1_600, reserve=1_000)
    ratio, pressure = found.firings
    assert ratio.rule == "history ratio"
    reached = next(i for i in range(len(sizes)) if sum(sizes[: i + 1]) >= ratio.trigger)
    assert (ratio.index, ratio.tokens) == (reached, sum(sizes[: reached + 1]))
    assert (pressure.rule, pressure.trigger, pressure.index) == ("window pressure", None, None)
    assert "65,536" in pressure.why


def test_the_verdict_is_the_providers_and_the_windows() -> None:
    assert inspect_conversation(talk()).ok
    broken = inspect_conversation(talk(messages=HISTORY[:3]))
    assert not broken.ok
    assert [violation.rule for violation in broken.violations["openai"]] == ["O2"]
    full = inspect_conversation(talk(), window=1_200, reserve=900)
    assert not full.ok
    assert full.budget.overflow(full.history_tokens) > 0


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(BudgetError):
        inspect_conversation(talk(), window=100, reserve=200)
    with pytest.raises(UnknownName, match="unknown provider"):
        inspect_conversation(talk(), provider="opnai")


def test_windows_follow_the_model_then_the_format() -> None:
    assert limits("gpt-4o-2024-08-06", "openai_chat") == (128_000, 16_384)
    assert limits("anthropic/claude-sonnet-4-5", "openai_chat") == (200_000, 32_000)
    assert limits("", "gemini") == (1_048_576, 65_536)
    assert limits("my-model", "openai_chat") == (128_000, 16_384)


def test_a_window_of_ones_own_leaves_room_for_a_history_beside_the_usual_reserve() -> None:
    assert limits("my-model", "openai_chat", window=8_192) == (8_192, 2_048)
    assert limits("my-model", "openai_chat", window=1_000_000) == (1_000_000, 16_384)
    assert inspect_conversation(talk(), window=2_000).budget.reserve == 500


def test_a_history_inside_the_margin_is_still_answered() -> None:
    fits = inspect_conversation(talk(), window=10_000, reserve=1_000)
    tight = inspect_conversation(talk(), window=10_000, reserve=1_000, margin=fits.budget.history - 1)
    assert tight.budget.overflow(tight.history_tokens) > 0
    assert tight.ok
    assert tight.to_json()["budget"]["over_window"] == 0


def test_a_preview_holds_nothing_that_a_terminal_would_obey() -> None:
    coloured = {"role": "user", "content": "\x1b[1;31mFAILED\x1b[0m\ttests\r\n\x07\x9b2Jdone " + "again " * 600}
    (item, *_) = inspect_conversation(talk(messages=[*HISTORY, coloured])).biggest
    assert item.preview.startswith("FAILED tests 2Jdone again")


def test_a_batch_is_named_by_its_first_calls_and_shown_by_its_arguments() -> None:
    batch = {"role": "assistant", "content": None, "tool_calls": [call(f"c{number}") for number in range(5)]}
    items = inspect_conversation(talk(messages=[HISTORY[1], batch])).biggest
    (item,) = (item for item in items if item.index == 1)
    assert item.what == "call of read_file, read_file, read_file and 2 more"
    assert item.preview.startswith('{"path": "a.py"} {"path": "a.py"} ')


def test_a_reply_that_only_thinks_is_shown_by_its_thoughts() -> None:
    thinking = {"role": "assistant", "content": "", "reasoning_content": "First, " + "weigh it up. " * 500}
    (item, *_) = inspect_conversation(talk(messages=[*HISTORY, thinking])).biggest
    assert item.preview.startswith("First, weigh it up.")


def test_an_empty_conversation_is_looked_at_like_any_other() -> None:
    found = inspect_conversation(talk(messages=[], system="", tools=[]))
    assert (found.messages, found.history_tokens, found.rounds, found.biggest) == (0, 0, (), ())
    assert found.cut.pair_safe == 0
    assert not found.ok, "an empty request is refused"
