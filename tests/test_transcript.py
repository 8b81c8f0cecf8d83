"""A session file in its published shape, and a fork of a session."""

from __future__ import annotations

import json
import multiprocessing
from datetime import datetime, timedelta

import pytest

from ctxlab.errors import CutIndexError, ForkRefused, LogFormatError
from ctxlab.transcript import append_message, fork_session, last_seq

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TALK = [
    {"role": "user", "content": "weather?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    {"role": "assistant", "content": "It is sunny."},
]


def session(messages=TALK):
    return {"id": "s-1", "messages": [dict(message) for message in messages]}


def test_a_message_becomes_one_line_in_the_published_shape(tmp_path):
    path = tmp_path / ".sessions" / "main.jsonl"
    record = append_message(path, {"role": "user", "content": "a\nb\u2028c 日本"})
    [line] = path.read_bytes().split(b"\n")[:-1]
    assert json.loads(line) == record
    assert list(record) == ["seq", "role", "content", "ts"]
    assert record["seq"] == 1
    assert record["content"] == "a\nb\u2028c 日本"
    assert datetime.fromisoformat(record["ts"]).utcoffset() == timedelta(0)


def test_seq_goes_on_from_the_file_whatever_the_message_brings(tmp_path):
    path = tmp_path / "s.jsonl"
    message = {"role": "tool", "tool_call_id": "c1", "content": "x", "seq": 99}
    assert [append_message(path, message)["seq"] for _ in range(3)] == [1, 2, 3]
    assert message["seq"] == 99
    assert last_seq(path) == 3


def test_no_file_and_an_empty_file_have_no_seq(tmp_path):
    assert last_seq(tmp_path / "none.jsonl") == 0
    (tmp_path / "empty.jsonl").touch()
    assert last_seq(tmp_path / "empty.jsonl") == 0


def test_a_torn_last_line_is_closed_and_not_counted(tmp_path):
    path = tmp_path / "s.jsonl"
    append_message(path, {"role": "user", "content": "whole"})
    before = path.read_bytes()
    path.write_bytes(before + b'{"seq": 2, "role": "us')
    assert last_seq(path) == 1
    assert append_message(path, {"role": "user", "content": "next"})["seq"] == 2
    lines = path.read_bytes().split(b"\n")
    assert path.read_bytes().startswith(before)
    assert json.loads(lines[2])["content"] == "next"
    assert last_seq(path) == 2


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 16])
def test_the_last_line_is_found_from_the_end_in_blocks_of_any_size(tmp_path, monkeypatch, block):
    path = tmp_path / "s.jsonl"
    lines = [json.dumps({"seq": seq, "content": "x" * seq}) for seq in range(1, 30)]
    path.write_text("\n".join(lines) + "\n\n\n" + '{"seq": 30')
    monkeypatch.setattr("ctxlab.transcript.BLOCK", block)
    assert last_seq(path) == 29


def test_a_file_that_is_no_session_is_refused_with_its_last_line(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("milk\nbread\n")
    with pytest.raises(LogFormatError, match="bread"):
        append_message(path, {"role": "user", "content": "x"})
    assert path.read_text() == "milk\nbread\n"


def test_half_characters_and_numbers_that_json_lacks(tmp_path):
    path = tmp_path / "s.jsonl"
    append_message(path, {"role": "user", "content": "\ud83d"})
    assert json.loads(path.read_bytes())["content"] == "\ud83d"
    with pytest.raises(ValueError, match="Out of range"):
        append_message(path, {"role": "user", "content": float("nan")})
    assert last_seq(path) == 1


def _write(path, name):
    for number in range(50):
        append_message(path, {"role": "user", "content": f"{name}-{number}"})


def test_two_processes_take_turns(tmp_path):
    path = tmp_path / "s.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(path, name)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [record["seq"] for record in records] == list(range(1, 101))
    assert [r["content"] for r in records if r["content"][0] == "a"] == [f"a-{i}" for i in range(50)]


@pytest.mark.parametrize(("at", "cut"), [(0, 0), (1, 1), (2, 1), (3, 3), (4, 4)])
def test_a_fork_holds_the_first_messages_and_never_parts_a_call_from_its_result(at, cut):
    child = fork_session(session(), at)
    assert child["forked_at"] == cut
    assert child["messages"] == TALK[:cut]
    assert child["parent_id"] == "s-1"
    assert datetime.fromisoformat(child["created_at"]).utcoffset() == timedelta(0)


def test_a_fork_shares_nothing_with_its_parent():
    parent = session()
    child, other = fork_session(parent, 4), fork_session(parent, 4)
    child["messages"][1]["tool_calls"][0]["id"] = "changed"
    child["messages"].append({"role": "user", "content": "more"})
    assert parent["messages"] == TALK
    assert TALK[1]["tool_calls"][0]["id"] == "c1"
    assert len({child["id"], other["id"], parent["id"]}) == 3


@pytest.mark.parametrize("at", [-1, 5, True, "1"])
def test_an_index_outside_is_refused_with_the_length(at):
    with pytest.raises(CutIndexError, match="has 4 messages"):
        fork_session(session(), at)


def test_a_fork_in_an_open_turn_is_refused_and_the_legal_cut_is_named():
    with pytest.raises(ForkRefused) as refused:
        fork_session(session(TALK[:2]), 2)
    assert (refused.value.before, refused.value.after) == (1, None)


def test_a_result_that_comes_late_moves_the_cut_back_before_its_call():
    late = [*TALK[:2], {"role": "user", "content": "?"}, *TALK[2:]]
    assert [fork_session(session(late), at)["forked_at"] for at in range(6)] == [0, 1, 1, 1, 4, 5]
