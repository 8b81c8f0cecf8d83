"""Shapes that are rare, and the defects of a history whatever its format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctxlab.formats import Conversation, load


def call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def kinds(conversation: Conversation) -> list[str]:
    return [one.kind for one in conversation.problems]


def at(conversation: Conversation, kind: str) -> tuple[int | None, int | None]:
    (found,) = [(one.index, one.line) for one in conversation.problems if one.kind == kind]
    return found


def texts(conversation: Conversation) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in conversation.messages]


# Shapes that are rare


def read(tmp_path: Path, value: Any) -> Conversation:
    path = tmp_path / "log"
    path.write_text(
        "".join(json.dumps(row) + "\n" for row in value) if isinstance(value, tuple) else json.dumps(value, indent=1),
        encoding="utf-8",
    )
    return load(path)


def test_a_tool_that_ran_at_the_provider_does_not_dangle(tmp_path: Path) -> None:
    blocks = [
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
        {"type": "text", "text": "Found."},
    ]
    conversation = read(
        tmp_path, {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": blocks}]}
    )
    assert texts(conversation) == [("user", "?"), ("assistant", "Found.")]
    assert at(conversation, "server_call") == (1, None)


def test_a_refused_anthropic_request_is_the_request_and_the_error(tmp_path: Path) -> None:
    exchange = {
        "request": {"model": "claude", "max_tokens": 1, "system": "s", "messages": [{"role": "user", "content": "?"}]},
        "response": {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}},
    }
    conversation = read(tmp_path, exchange)
    assert texts(conversation) == [("user", "?")]
    assert [one.text for one in conversation.notes] == ["the provider answered: prompt is too long"]


def test_codex_events_that_are_no_mirror_are_noted(tmp_path: Path) -> None:
    question = {"type": "input_text", "text": "?"}
    rows = [
        {"type": "session_meta", "payload": {"id": "c", "instructions": "Be brief."}},
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [question]}},
        {"type": "event_msg", "payload": {"type": "error", "message": "stream lost"}},
        {"type": "event_msg", "payload": {"type": "turn_aborted", "reason": "interrupted"}},
        {"type": "response_item", "payload": {"type": "compaction", "encrypted_content": "x"}},
        {"type": "response_item", "payload": {"type": "ghost_snapshot"}},
        {"type": "compacted", "payload": {"message": "Asked something."}},
    ]  # fmt: skip
    conversation = read(tmp_path, tuple(rows))
    assert kinds(conversation) == ["recorded_error", "interrupted", "compaction", "compaction", "skipped_lines"]
    assert conversation.system == "Be brief."
    assert texts(load(tmp_path / "log", surface=True)) == [("user", "Asked something.")]


def test_openai_content_and_arguments_that_are_objects_become_text(tmp_path: Path) -> None:
    broken = {"id": "x", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [broken]},
        {"role": "tool", "tool_call_id": "x", "content": {"ok": True}},
        {"role": "narrator", "content": "?"},
    ]
    conversation = read(tmp_path, messages)
    assert conversation.messages[0]["tool_calls"] == [call("x", "f", '{"a":1}')]
    assert conversation.messages[1]["content"] == '{"ok":true}'
    assert kinds(conversation) == ["bad_record", "bad_record"]  # the content; the message with an unknown role


def test_a_list_of_conversations_is_several(tmp_path: Path) -> None:
    hello = [{"role": "user", "content": "Hi"}]
    assert read(tmp_path, [hello, hello]).conversations == 2
    assert read(tmp_path, [{"messages": hello}, {"messages": hello}]).conversations == 2


def test_claude_code_api_errors_are_noted(tmp_path: Path) -> None:
    line = {"type": "assistant", "uuid": "a", "parentUuid": None, "sessionId": "s", "isApiErrorMessage": True}
    message = {"id": "e", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error: 529"}]}
    conversation = read(tmp_path, ({**line, "message": message},))
    assert [one.text for one in conversation.notes] == ["API Error: 529"]
    assert conversation.model == ""


# Defects of the normal form


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("user", 0), ("tool", "x")], [("orphan_result", 1)]),
        ([("call", "x"), ("user", 0)], [("dangling_call", 0)]),
        ([("call", "x"), ("tool", "x"), ("tool", "x")], [("duplicate_result", 2)]),
        ([("call", "x"), ("user", 0), ("tool", "x")], [("misplaced_result", 2)]),
        ([("call", "x"), ("tool", "x"), ("call", "x"), ("tool", "x")], [("repeated_id", 2)]),
        ([("call", "x"), ("call", "y"), ("tool", "x"), ("tool", "y")], [("misplaced_result", 2)]),
        ([("call", "x"), ("tool", "y"), ("tool", "x")], [("orphan_result", 1)]),
    ],
)
def test_a_defect_is_found_where_it_stands(
    tmp_path: Path, rows: list[tuple[str, Any]], expected: list[tuple[str, int]]
) -> None:
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call(id, "f", "{}")]}
        if kind == "call"
        else {"role": "tool", "tool_call_id": id, "content": "r"}
        if kind == "tool"
        else {"role": "user", "content": "u"}
        for kind, id in rows
    ]
    path = tmp_path / "history.json"
    path.write_text(json.dumps(messages), encoding="utf-8")
    assert [(one.kind, one.index) for one in load(path).problems] == expected


@pytest.mark.parametrize(
    ("arguments", "bad"),
    [("{}", False), ("", False), ('{"a": 1', True), ("[1]", True), ("null", True), ('{"a": "\ud800"}', False)],
)
def test_arguments_that_are_no_json_object_are_reported(tmp_path: Path, arguments: str, bad: bool) -> None:
    path = tmp_path / "history.json"
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call("x", "f", arguments)]},
        {"role": "tool", "tool_call_id": "x", "content": "r"},
    ]
    path.write_text(json.dumps(messages), encoding="utf-8")
    conversation = load(path)
    assert conversation.messages[0]["tool_calls"][0]["function"]["arguments"] == arguments
    assert kinds(conversation) == (["bad_arguments"] if bad else [])
