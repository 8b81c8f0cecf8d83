"""Damaged and hostile files: one error that says where, or the rest of the log with the damage named."""

from __future__ import annotations

import io
import json
import os
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxlab.errors import LogFormatError
from ctxlab.formats import FORMATS, lines, load, load_all
from ctxlab.formats.lines import parse

ONE = b'{"seq":1,"role":"user","content":"one"}\n'
TWO = b'{"seq":2,"role":"assistant","content":"two"}\n'
THREE = b'{"seq":3,"role":"user","content":"three"}\n'


def write(folder: Path, data: bytes, name: str = "log.jsonl") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def contents(path: Path) -> list[Any]:
    return [message["content"] for message in load(path).messages]


# Files that are no log: one error


@pytest.mark.parametrize(
    ("data", "line", "found"),
    [
        (b"", None, "empty file (0 bytes)"),
        (b"\n \r\n\0\0\n", 1, "nothing but blank space and NUL bytes"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff\xfe", 1, "neither JSON nor UTF-8; starts '\\x89PNG"),
        (b"Dear diary,\nall is well.\n", 1, "not JSON (Expecting value, character 1); starts 'Dear diary,"),
        (b'[{"role": "user", "content": "x"}]\njunk\n', 1, "a JSON list, expected an object"),
        ('{"messages": []}'.encode("utf-16"), 1, "UTF-16 or UTF-32 text (byte order mark ff fe)"),
        (b'[\n{"role": "user", "content": "caf\xe9"}\n]', 2, "not UTF-8"),
        (b'[\n{"role": "user" "content": "x"}\n]', 2, "not JSON (Expecting ',' delimiter, column 17"),
        (b'{"messages": [{"role": "user"', 1, "not JSON"),
        (b'{"colour": "red", "size": 3}', 1, "an object with the keys 'colour', 'size'"),
        (b'{"type": "rollout", "n": 1}\n{"type": "x"}\n', 1, "an object of type 'rollout' with the keys 'type', 'n'"),
        (b'{\n  "colour": "red"\n}\n', 1, "an object with the keys 'colour'"),
        (b'{"n": 1}\n' * 300, 1, "an object with the keys 'n'"),
        (b"[1, 2, 3]", 1, "a list of 3, its first item a number"),
        (b"[]", 1, "an empty list"),
        (b"{}", 1, "an empty object"),
        (b"42", 1, "a number"),
        (b"null", 1, "a null"),
        (b"[" * 100_000, 1, "not JSON (nested too deeply"),
        (b"[" * 600 + b"]" * 600, 1, "a list of 1"),
    ],
)
def test_a_file_that_is_no_log_is_one_error_with_its_place(
    tmp_path: Path, data: bytes, line: int | None, found: str
) -> None:
    path = write(tmp_path, data)
    for read in (load, load_all):
        with pytest.raises(LogFormatError) as caught:
            read(path)
        error = caught.value
        assert found in str(error)
        assert str(path) in str(error)
        assert (error.file, error.line) == (str(path), line)
        assert error.expected
        assert error.hint


def test_a_missing_file_and_a_folder_are_log_format_errors(tmp_path: Path) -> None:
    with pytest.raises(LogFormatError, match="no such file"):
        load(tmp_path / "nothing.jsonl")
    with pytest.raises(LogFormatError, match="a folder, not a file") as caught:
        load(tmp_path)
    assert caught.value.hint == "name one file in it"
    with pytest.raises(LogFormatError, match="cannot be read"):
        load("bad\0name")


def test_an_unknown_shape_lists_the_known_formats(tmp_path: Path) -> None:
    with pytest.raises(LogFormatError) as caught:
        load(write(tmp_path, b'{"a": 1}'))
    assert caught.value.hint == f"known formats: {', '.join(FORMATS)}"
    assert isinstance(caught.value, ValueError)


# Damaged lines: that line alone is lost, and said to be


def test_junk_in_the_middle_loses_that_line_only(tmp_path: Path) -> None:
    path = write(tmp_path, ONE + b'{"seq":2,"role":"assis\n' + THREE)
    conversation = load(path)
    assert [message["content"] for message in conversation.messages] == ["one", "three"]
    (problem,) = conversation.problems
    assert (problem.kind, problem.line, problem.offset, problem.severity) == ("bad_line", 2, len(ONE), "defect")
    assert problem.text.startswith(f"line 2, byte {len(ONE)}: not JSON (Unterminated string")


def test_junk_on_the_first_line_loses_that_line_only(tmp_path: Path) -> None:
    for junk in (b"#!log v1\n", b'{"seq":0,"role":\n', b"[broken\n"):
        conversation = load(write(tmp_path, junk + ONE + TWO))
        assert [message["content"] for message in conversation.messages] == ["one", "two"]
        assert [(one.kind, one.line, one.offset) for one in conversation.problems] == [("bad_line", 1, 0)]


def test_a_torn_last_line_is_reported_and_not_read(tmp_path: Path) -> None:
    for cut in range(1, len(THREE) - 1):
        conversation = load(write(tmp_path, ONE + TWO + THREE[:cut]))
        if cut == len(THREE) - 2:  # only the closing brace is missing
            assert THREE[:cut].endswith(b'"three"')
        assert [message["content"] for message in conversation.messages] == ["one", "two"]
        (problem,) = conversation.problems
        assert (problem.kind, problem.line, problem.offset) == ("torn_line", 3, len(ONE + TWO))
        assert problem.text == f"line 3, byte {len(ONE + TWO)}: the last line breaks off after {cut} bytes"


def test_a_whole_last_line_without_its_newline_is_read(tmp_path: Path) -> None:
    conversation = load(write(tmp_path, ONE + TWO + THREE[:-1]))
    assert len(conversation.messages) == 3
    assert conversation.problems == ()


def test_bom_crlf_blank_lines_and_nul_padding_are_understood(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + ONE.replace(b"\n", b"\r\n") + b"\r\n\n" + b"\0" * 512 + TWO + b"  " + THREE + b"\0" * 4096
    conversation = load(write(tmp_path, data))
    assert [message["content"] for message in conversation.messages] == ["one", "two", "three"]
    assert conversation.lines == (1, 4, 5)
    assert conversation.problems == ()


def test_a_bom_and_line_breaks_are_understood_in_one_json_value(tmp_path: Path) -> None:
    text = json.dumps([{"role": "user", "content": "hi"}], indent=2).replace("\n", "\r\n")
    assert contents(write(tmp_path, b"\xef\xbb\xbf" + text.encode() + b"\r\n\0\0", "log.json")) == ["hi"]


def test_unicode_line_separators_do_not_split_a_line(tmp_path: Path) -> None:
    text = "a\u2028b\u0085c\u2029d\x1ee"
    line = json.dumps({"seq": 1, "role": "user", "content": text}, ensure_ascii=False).replace("\\u001e", "\\u001e")
    assert contents(write(tmp_path, line.encode() + b"\n" + TWO)) == [text, "two"]


def test_two_records_on_one_line_are_both_read(tmp_path: Path) -> None:
    conversation = load(write(tmp_path, ONE[:-1] + TWO + THREE))
    assert [message["content"] for message in conversation.messages] == ["one", "two", "three"]
    assert [(one.kind, one.line, one.severity) for one in conversation.problems] == [("glued_records", 1, "note")]


def test_bytes_that_are_not_utf8_cost_those_bytes_only(tmp_path: Path) -> None:
    conversation = load(write(tmp_path, ONE + b'{"seq":2,"role":"user","content":"caf\xe9"}\n' + THREE))
    assert [message["content"] for message in conversation.messages] == ["one", "caf\ufffd", "three"]
    assert [(one.kind, one.line, one.offset) for one in conversation.problems] == [("bad_encoding", 2, len(ONE))]


def test_a_line_that_is_json_but_no_object_is_reported(tmp_path: Path) -> None:
    conversation = load(write(tmp_path, ONE + b"[1,2]\n" + b'"text"\n' + TWO))
    assert [one.text.partition(": ")[2].partition(",")[0] for one in conversation.defects] == [
        "a JSON list",
        "a JSON string",
    ]
    assert len(conversation.messages) == 2


def test_a_deeply_nested_line_costs_that_line(tmp_path: Path) -> None:
    deep = b'{"seq":2,"role":"user","content":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n"
    conversation = load(write(tmp_path, ONE + deep + THREE))
    assert [message["content"] for message in conversation.messages] == ["one", "three"]
    assert [one.kind for one in conversation.problems] == ["bad_line"]


def test_of_equal_keys_the_last_one_counts(tmp_path: Path) -> None:
    assert contents(write(tmp_path, b'{"seq":1,"role":"user","content":"a","content":"b"}\n')) == ["b"]


def test_lone_surrogates_survive(tmp_path: Path) -> None:
    assert contents(write(tmp_path, b'{"seq":1,"role":"user","content":"\\ud83d"}\n' + TWO)) == ["\ud83d", "two"]


# The two JSON libraries give the same


VALUES = [
    b"NaN",
    b"[Infinity,-Infinity]",
    b"1e999",
    b"123456789012345678901234567890",
    b"[-9223372036854775809,18446744073709551615,18446744073709551616]",
    b"0.0035475000000000003",
    b"[0.1234567890123456789012345678901234567890,12345678901234567890]",
    b'"\\ud800"',
    b'{"a":1,"a":2}',
    b'"\\u0000"',
    b"9" * 5000,
    b"[-0,-0.0,1E5]",
]


@pytest.mark.parametrize("data", VALUES)
def test_orjson_changes_no_value(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    fast = parse(data)
    monkeypatch.setattr(lines, "_orjson", None)
    slow = parse(data)
    assert repr(fast) == repr(slow)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12))
def test_parse_reads_what_json_writes(value: Any) -> None:
    data = json.dumps(value).encode()
    assert repr(parse(data)) == repr(json.loads(data))


def test_an_integer_too_long_for_python_stays_text() -> None:
    assert parse(b"9" * 5000) == "9" * 5000


def test_real_logs_are_the_same_without_orjson(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = load(logs / "pi__large_session_v1.jsonl")
    monkeypatch.setattr(lines, "_orjson", None)
    assert load(logs / "pi__large_session_v1.jsonl") == fast


# Memory


def big_log(path: Path, megabytes: int) -> None:
    """A Claude Code session in which a few messages stand among progress lines of 64 kB."""
    noise = {"type": "progress", "sessionId": "s", "isSidechain": False, "data": "x" * 65_000}
    with path.open("wb") as file:
        for number in range(16 * megabytes):
            file.write(json.dumps({**noise, "uuid": f"p{number}", "parentUuid": None}).encode() + b"\n")
            if number % 100 == 0:
                message = {"role": "user", "content": f"message {number}"}
                line = {"type": "user", "sessionId": "s", "uuid": f"u{number}", "parentUuid": None, "message": message}
                file.write(json.dumps(line).encode() + b"\n")


def test_a_long_log_is_read_in_the_memory_of_its_longest_line_and_its_messages(tmp_path: Path) -> None:
    """Reading the whole file, or keeping its lines, would take over 32 MB; a line is 65 kB. The bound is picked."""
    path = tmp_path / "big.jsonl"
    big_log(path, megabytes=32)
    assert path.stat().st_size > 32_000_000
    load(path)
    tracemalloc.start()
    conversation = load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(conversation.messages) == 6
    assert peak < 2_000_000


# No input crashes


KEYS = [
    "type", "role", "content", "message", "messages", "payload", "data", "seq", "event", "tool_calls", "tool_call_id",
    "id", "uuid", "parentUuid", "parentId", "sessionId", "isSidechain", "subtype", "summary", "leafUuid", "surfaceOp",
    "replace", "sourceEventSeqs", "function", "arguments", "name", "input", "parts", "contents", "usage", "text",
    "firstKeptEntryIndex", "firstKeptEntryId", "call_id", "output", "info", "kwargs", "lc", "values", "timestamp",
    "cwd", "createdAt", "toolCalls", "result", "functionCall", "functionResponse", "system", "tools", "model", "traj",
    "interactions", "request", "response", "history", "trajectory", "tool_call_ids", "function_call", "stopReason",
    "replacement_history", "message_id", "projectHash", "additional_kwargs", "invalid_tool_calls", "dt",
]  # fmt: skip
WORDS = [
    "user", "assistant", "tool", "system", "message", "session", "session_meta", "response_item", "event_msg", "ai",
    "compacted", "human", "gemini", "model", "tool_use", "tool_result", "text", "thinking", "compaction", "toolCall",
    "function_call", "function_call_output", "custom_tool_call", "reasoning", "web_search_call", "token_count",
    "toolResult", "bashExecution", "user/message", "assistant/message", "tool/result", "append", "replace", "x", "1",
    "compact_boundary", "summary", "branch_summary", "AIMessage", "error", "aborted", "tool-call", "function", "image",
]  # fmt: skip
LEAVES = st.sampled_from(WORDS) | st.integers(-1, 3) | st.none() | st.booleans() | st.just({}) | st.just([])
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=14,
)
RECORDS = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6)
# One well-formed line of each format, so that its importer gets the rest.
OPENERS = [
    {"seq": 1, "role": "user", "content": "x"},
    {"role": "user", "content": "x"},
    {"type": "session", "version": 0, "id": "d", "createdAt": 0},
    {"type": "session", "id": "p", "timestamp": "t", "cwd": "/"},
    {"type": "session", "version": 3, "id": "p", "timestamp": "t", "cwd": "/"},
    {"type": "session_meta", "payload": {"id": "c"}},
    {"type": "user", "sessionId": "s", "uuid": "1", "parentUuid": None, "message": {"role": "user", "content": "x"}},
]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "log"


def check(path: Path) -> None:
    for surface in (False, True):
        try:
            found = load_all(path, surface=surface)
        except LogFormatError:
            continue
        for conversation in found:
            assert len(conversation.lines) == len(conversation.messages)
            assert conversation.history is not None
            for message in conversation.messages:
                assert message["role"] in ("system", "developer", "user", "assistant", "tool")
            assert all(one.index is None or one.index <= len(conversation.messages) for one in conversation.problems)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(opener=st.sampled_from(OPENERS), records=st.lists(RECORDS, max_size=8))
def test_no_sequence_of_records_crashes_an_importer(scratch: Path, opener: Any, records: list[Any]) -> None:
    scratch.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in [opener, *records]))
    check(scratch)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(value=JSON | st.lists(RECORDS, max_size=4))
def test_no_json_value_crashes_the_detection(scratch: Path, value: Any) -> None:
    scratch.write_bytes(json.dumps(value).encode())
    check(scratch)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_no_bytes_crash_the_reader(scratch: Path, data: bytes) -> None:
    scratch.write_bytes(data)
    check(scratch)
    scratch.write_bytes(ONE + data + b"\n" + TWO)
    check(scratch)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield value, key
        yield from places(inner)


LOGS = sorted(path for path in (Path(__file__).parent / "corpus" / "logs").iterdir() if path.suffix != ".md")
CORPUS = [path for path in LOGS if path.suffix == ".jsonl"]


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), path=st.sampled_from(LOGS))
def test_no_value_of_another_type_anywhere_in_a_log_crashes_its_importer(
    scratch: Path, data: st.DataObject, path: Path
) -> None:
    text = path.read_text(encoding="utf-8")
    values = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else [json.loads(text)]
    for container, key in data.draw(st.lists(st.sampled_from(list(places(values))), min_size=1, max_size=3)):
        container[key] = data.draw(LEAVES)
    scratch.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    check(scratch)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_a_log_cut_at_any_byte_loads_or_says_why_not(tmp_path: Path, path: Path) -> None:
    data = path.read_bytes()
    whole = load(path)
    for cut in range(0, len(data), max(1, len(data) // 150)):
        torn = write(tmp_path, data[:cut])
        try:
            conversation = load(torn)
        except LogFormatError:
            assert data[:cut].count(b"\n") < 3  # before the first line that names its format
            continue
        assert conversation.format == whole.format
        tail = data[:cut].rpartition(b"\n")[2]
        torn_off = bool(tail) and not (tail.endswith(b"}") and _is_json(tail))
        assert ("torn_line" in {one.kind for one in conversation.problems}) == torn_off


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def test_a_pipe_is_read_as_the_file_is(tmp_path: Path) -> None:
    lines = b"".join(b'{"role": "user", "content": "%d"}\n' % number for number in range(20_000))
    whole = load(write(tmp_path, lines))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(pipe.write_bytes, lines)
        assert load(pipe).messages == whole.messages
        writing.result()
    assert load(io.BytesIO(lines)).messages == whole.messages


@pytest.mark.parametrize("path", ["x" * 5_000, "a\0b"])
def test_a_path_that_no_file_can_have_is_one_error(path: str) -> None:
    with pytest.raises(LogFormatError, match="cannot be read"):
        load(path)


def test_an_error_names_the_stream_and_not_the_copy_of_it() -> None:
    with pytest.raises(LogFormatError) as caught:
        load(io.BytesIO(b"junk"))
    assert str(caught.value).startswith("the stream, line 1: ")
    assert caught.value.file == "the stream"
