"""Real agent logs: every file of the collection loads with the counts and the defects that its index lists."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from ctxlab.errors import LogFormatError
from ctxlab.formats import FORMATS, PROBLEM_KINDS, Conversation, Usage, load, load_all
from ctxlab.messages import as_messages
from ctxlab.rounds import pairing


class Known(NamedTuple):
    """What the collection's index says of one file. ``problems`` counts what load_all reports, kind by kind."""

    format: str
    conversations: int
    messages: int
    users: int
    replies: int
    results: int
    calls: int
    parallel: int
    largest: int
    problems: dict[str, int]


KNOWN = {
    # 71 ids are used again in one conversation, two of them twice: 73 uses. The index counts the ids.
    "openai_chat__taubench_gpt4o_airline.json": Known(
        "openai_chat", 200, 5308, 1490, 2454, 1164, 1164, 0, 1, {"repeated_id": 73}
    ),
    # One id is used four times and one twice: four repeated uses. The index counts the uses.
    "openai_chat__sweagent_marshmallow_fc.traj.json": Known(
        "openai_chat", 1, 28, 1, 13, 13, 13, 0, 1, {"repeated_id": 4}
    ),
    "anthropic_messages__pydantic_ai_cassettes.json": Known("anthropic", 5, 27, 5, 12, 10, 10, 1, 4, {"compaction": 1}),
    "claude_code__spotter_fa812bfe.jsonl": Known(
        "claude_code", 1, 358, 4, 157, 197, 197, 31, 6, {"compaction": 1, "regrouped_calls": 1, "skipped_lines": 1}
    ),
    "claude_code__codemie_9eda1058_interrupted.jsonl": Known(
        "claude_code", 1, 12, 4, 5, 3, 3, 0, 1, {"interrupted": 1, "foreign_summary": 1, "skipped_lines": 1}
    ),
    "codex__codemie_rollout_019e1625.jsonl": Known(
        "codex", 1, 172, 3, 66, 102, 102, 20, 3, {"server_call": 3, "skipped_lines": 1}
    ),
    "pi__before_compaction_v1.jsonl": Known(
        "pi",
        1,
        990,
        58,
        484,
        448,
        454,
        9,
        4,
        {
            "dangling_call": 6,
            "compaction": 2,
            "aborted_reply": 18,
            "recorded_error": 1,
            "fork": 1,
            "skipped_lines": 1,
        },
    ),
    "pi__large_session_v1.jsonl": Known(
        "pi",
        1,
        914,
        88,
        453,
        373,
        391,
        4,
        16,
        {"dangling_call": 18, "aborted_reply": 21, "recorded_error": 1, "skipped_lines": 1},
    ),
    "gemini_cli__codemie_file_ops.json": Known("gemini", 1, 28, 5, 9, 14, 14, 3, 9, {}),
    "langchain__deerflow_5aa47db1_zh.json": Known("langchain", 1, 39, 2, 20, 17, 17, 0, 1, {}),
    "dsh__compaction_recovery.jsonl": Known("dsh", 1, 5, 2, 2, 1, 1, 0, 1, {"compaction": 1, "skipped_lines": 1}),
}


def problems(conversation: Conversation, kind: str) -> list[tuple[int | None, int | None]]:
    """(message index, line) of every problem of a kind."""
    return [(one.index, one.line) for one in conversation.problems if one.kind == kind]


def test_every_file_of_the_collection_is_known_here(logs: Path) -> None:
    assert {path.name for path in logs.iterdir() if path.suffix != ".md"} == set(KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_a_real_log_has_the_messages_and_the_problems_that_are_known_and_no_others(logs: Path, name: str) -> None:
    conversations = load_all(logs / name)
    messages = [message for one in conversations for message in one.messages]
    roles = Counter(message["role"] for message in messages)
    groups = [len(message["tool_calls"]) for message in messages if message.get("tool_calls")]
    found = Counter(one.kind for conversation in conversations for one in conversation.problems)
    assert found == KNOWN[name].problems
    assert KNOWN[name] == (
        {one.format for one in conversations}.pop(),
        len(conversations),
        len(messages),
        roles["user"],
        roles["assistant"],
        roles["tool"],
        sum(groups),
        sum(size > 1 for size in groups),
        max(groups),
        dict(found),
    )


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_loaded_is_valid_in_shape(logs: Path, name: str) -> None:
    for conversation in load_all(logs / name):
        assert as_messages(conversation.messages)
        assert len(conversation.lines) == len(conversation.messages)
        for message in conversation.messages:
            assert message["role"] in ("system", "developer", "user", "assistant", "tool")
            for call in message.get("tool_calls", ()):
                assert call["type"] == "function"
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
        for one in conversation.problems:
            assert one.kind in PROBLEM_KINDS
            assert one.severity == PROBLEM_KINDS[one.kind][0]
            assert one.index is None or 0 <= one.index <= len(conversation.messages)
        assert set(conversation.usage) <= {
            index for index, message in enumerate(conversation.messages) if message["role"] == "assistant"
        }


def test_tau_bench_reuses_71_ids_in_49_of_its_200_conversations(logs: Path) -> None:
    conversations = load_all(logs / "openai_chat__taubench_gpt4o_airline.json")
    reused = [
        {call["id"] for index, _ in problems(one, "repeated_id") for call in one.messages[index or 0]["tool_calls"]}
        for one in conversations
    ]
    assert sum(map(len, reused)) == 71
    assert sum(map(bool, reused)) == 49


def test_pairing_by_id_alone_would_break_tau_bench_and_pairing_by_place_does_not(logs: Path) -> None:
    """A dictionary from id to result keeps one result for a repeated id; by place each call has its own."""
    conversations = load_all(logs / "openai_chat__taubench_gpt4o_airline.json")
    by_id = sum(
        len({message["tool_call_id"] for message in one.messages if message["role"] == "tool"}) for one in conversations
    )
    by_place = sum(len(pairing(one.messages).call_of) for one in conversations)
    assert (by_id, by_place) == (1164 - 73, 1164)


def test_load_picks_one_of_many_conversations_and_says_how_many_there_are(logs: Path) -> None:
    path = logs / "openai_chat__taubench_gpt4o_airline.json"
    first, last = load(path), load(path, conversation=199)
    assert first.conversations == last.conversations == 200
    assert [one.text for one in first.notes] == ["the file holds 200 conversations; this is number 0"]
    assert first.messages[0]["content"] == first.system != ""
    assert first.history == first.messages[1:]
    assert (first.title, last.title) == ("task 0, trial 0", "task 49, trial 3")
    with pytest.raises(LogFormatError, match="conversation 200 of a file that holds 200") as caught:
        load(path, conversation=200)
    assert caught.value.hint == "0 to 199 are there"


def test_claude_code_puts_19_calls_back_into_their_replies(logs: Path) -> None:
    """Lines 98 to 123 hold one reply of six calls, each followed by its result on disk."""
    conversation = load(logs / "claude_code__spotter_fa812bfe.jsonl")
    (note,) = [one for one in conversation.notes if one.kind == "regrouped_calls"]
    assert note.text.startswith("19 calls (first on line 104)")
    at = conversation.lines.index(98)
    reply = conversation.messages[at]
    ids = [call["id"] for call in reply["tool_calls"]]
    results = conversation.messages[at + 1 : at + 7]
    assert [message.get("tool_call_id") for message in results] == ids
    assert conversation.lines[at + 1 : at + 7] == (103, 107, 111, 115, 119, 123)
    assert pairing(conversation.messages).misplaced == ()


def test_claude_code_surface_starts_at_the_summary_of_its_compaction(logs: Path) -> None:
    path = logs / "claude_code__spotter_fa812bfe.jsonl"
    record, surface = load(path), load(path, surface=True)
    assert problems(record, "compaction") == [(288, 1584)]
    assert record.lines[288] == 1585
    assert surface.messages == record.messages[288:]
    assert surface.messages[0]["content"].startswith("This session is being continued from a previous conversation")
    assert problems(surface, "compaction") == [(0, 1584)]
    assert "167,117 tokens" in next(one.text for one in surface.notes if one.kind == "compaction")


def test_pi_calls_dangle_in_the_middle_and_not_at_the_tail(logs: Path) -> None:
    before = load(logs / "pi__before_compaction_v1.jsonl")
    lines = [line for _, line in problems(before, "dangling_call")]
    assert lines == [374, 386, 386, 386, 628, 678]  # five in aborted replies; 628 stands just before a compaction
    large = load(logs / "pi__large_session_v1.jsonl")
    assert Counter(line for _, line in problems(large, "dangling_call")) == {33: 16, 234: 1, 843: 1}
    assert problems(large, "recorded_error") == [(large.lines.index(33), 33)]
    for conversation in (before, large):
        assert all(
            index is not None and index < len(conversation.messages) - 100
            for index, _ in problems(conversation, "dangling_call")
        )


def test_pi_keeps_the_recorded_400_and_invents_no_misplaced_result(logs: Path) -> None:
    """The 400 of line 848 was about a user message between call and result. This file is a fork, and its copy of
    lines 798 and 799 holds the pair without that message: the error is a fact of the log, the defect is not in it."""
    conversation = load(logs / "pi__before_compaction_v1.jsonl")
    (error,) = [one for one in conversation.notes if one.kind == "recorded_error"]
    assert error.line == 848
    assert "`tool_use` ids were found without `tool_result` blocks immediately after" in error.text
    at = conversation.lines.index(798)
    assert conversation.lines[at + 1] == 799
    assert conversation.messages[at + 1]["tool_call_id"] == conversation.messages[at]["tool_calls"][0]["id"]
    assert problems(conversation, "misplaced_result") == []


def test_pi_surface_is_the_last_summary_and_what_was_kept(logs: Path) -> None:
    """The second compaction (line 629) keeps from entry 551 on, which is line 552: the header is entry 0."""
    path = logs / "pi__before_compaction_v1.jsonl"
    record, surface = load(path), load(path, surface=True)
    assert problems(record, "compaction") == [(354, 360), (622, 629)]
    assert surface.lines[0] is None
    assert surface.messages[0]["content"].startswith("The conversation history before this point was compacted")
    assert surface.lines[1] == 552
    assert surface.messages[1:] == record.messages[record.lines.index(552) :]
    assert [line for _, line in problems(surface, "dangling_call")] == [628, 678]


def test_pi_bash_commands_are_user_messages(logs: Path) -> None:
    conversation = load(logs / "pi__before_compaction_v1.jsonl")
    shell = [conversation.messages[conversation.lines.index(line)] for line in (640, 997, 1002)]
    assert [message["role"] for message in shell] == ["user"] * 3
    assert shell[0]["content"].startswith("Ran `ls`\n```\nAGENTS.md\n")


def test_codex_counts_each_message_once_and_has_the_usage_of_each_reply(logs: Path) -> None:
    conversation = load(logs / "codex__codemie_rollout_019e1625.jsonl")
    assert len(conversation.usage) == 66  # one token_count event a reply
    assert conversation.usage[conversation.lines.index(9)] == Usage(18703, 167, 0)
    assert conversation.model == "gpt-5.5"
    assert conversation.system.startswith("You are Codex, a coding agent based on GPT-5.")
    assert conversation.messages[0]["role"] == "developer"
    assert conversation.defects == ()


def test_dsh_replaces_in_place(logs: Path) -> None:
    path = logs / "dsh__compaction_recovery.jsonl"
    record, surface = load(path), load(path, surface=True)
    assert record.lines == (6, 15, 17, 23, 30)
    assert surface.lines == (23, 15, 17, 30)
    assert len(record.tools) == 15
    assert record.tools[0]["function"]["name"] == "bash"


def test_gemini_prompt_sizes_are_the_providers_own(logs: Path) -> None:
    conversation = load(logs / "gemini_cli__codemie_file_ops.json")
    assert conversation.usage[1] == Usage(input=4749, output=292 + 240, cached=0)
    assert conversation.model == "gemini-3-pro"


def test_anthropic_prompt_size_is_three_numbers_added(logs: Path) -> None:
    conversations = load_all(logs / "anthropic_messages__pydantic_ai_cassettes.json")
    assert conversations[0].usage == {1: Usage(423, 202), 6: Usage(771, 77)}
    # A call that the client made by itself stands between two replies of the provider, without usage.
    assert sorted(conversations[3].usage) == [1, 5, 7]
    assert sum(len(one.usage) for one in conversations) == 11


def test_arguments_are_most_of_the_text_in_the_chinese_log(logs: Path) -> None:
    conversation = load(logs / "langchain__deerflow_5aa47db1_zh.json")
    arguments = sum(
        len(call["function"]["arguments"])
        for message in conversation.messages
        for call in message.get("tool_calls", ())
    )
    results = sum(len(message["content"]) for message in conversation.messages if message["role"] == "tool")
    assert arguments > 10 * results


def test_the_formats_are_listed() -> None:
    assert {one.format for one in KNOWN.values()} | {"ctxlab"} == set(FORMATS)
