"""One line of a log: written, read back, and every kind of damage told apart."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from zlib import crc32

import pytest
from histories import calling, result, says, user
from hypothesis import given
from hypothesis import strategies as st

from ctxlab import lines
from ctxlab.errors import MalformedMessage
from ctxlab.lines import MAX_DEPTH, Event, copy_json, decode, encode, read_lines

TS = "2026-09-04T10:00:00.000Z"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def line(seq: int, message: dict) -> bytes:
    return encode(seq, "message", message, TS)[0]


def test_a_message_line_has_the_published_shape() -> None:
    written = json.loads(line(1, user("hello")))
    assert list(written) == ["seq", "role", "content", "ts", "crc"]
    assert written["seq"] == 1
    assert written["content"] == "hello"
    assert written["ts"] == TS


def test_the_checksum_is_over_all_bytes_before_it() -> None:
    written = line(1, user("hello"))
    head = b'{"seq":1,"role":"user","content":"hello","ts":"2026-09-04T10:00:00.000Z"'
    assert written == head + b',"crc":"%08x"}\n' % crc32(head)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.integers(1, 2**40))
def test_any_message_comes_back_equal(extra: dict, seq: int) -> None:
    message = {**extra, "role": "user", "content": extra.get("content", "x")}
    message["content"] = "x"
    message.pop("tool_calls", None)
    written, event = encode(seq, "message", copy_json(message), TS)
    assert written.count(b"\n") == 1
    assert decode(written[:-1]) == event
    assert event.data == message
    assert read_lines(written).events == [event]


@pytest.mark.parametrize("key", ["seq", "ts", "crc", "event"])
def test_a_message_with_a_key_that_the_line_needs_comes_back_equal(key: str) -> None:
    message = {"role": "user", "content": "x", key: 7}
    event = decode(line(3, message)[:-1])
    assert isinstance(event, Event)
    assert event.data == message


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**64, -(2**63) - 1, {1, 2}, b"bytes", {1: "x"}])
def test_what_json_would_change_is_refused(value: object) -> None:
    with pytest.raises(MalformedMessage):
        copy_json({"role": "user", "content": "x", "extra": value})


def test_a_nesting_that_parsers_give_up_on_is_refused() -> None:
    deep: object = "x"
    for _ in range(MAX_DEPTH + 2):
        deep = [deep]
    with pytest.raises(MalformedMessage, match="nested more than 100 deep"):
        copy_json(deep)


def test_every_flipped_bit_is_noticed_and_nothing_false_is_read() -> None:
    data = line(1, user("héllo")) + line(2, {"role": "user", "content": "x", "ts": 3}) + line(3, calling("c1"))
    good = read_lines(data).events
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        reading = read_lines(bytes(flipped))
        assert reading.problems, f"bit {bit}"
        assert all(event in good for event in reading.events), f"bit {bit}"
        assert len(reading.events) >= 2, f"bit {bit}: only the line itself may be lost"


def test_damage_in_the_middle_loses_that_line_alone_and_says_where() -> None:
    lines = [line(1, user("one")), line(2, says("two")), line(3, user("three"))]
    data = lines[0] + lines[1].replace(b"two", b"tw0") + lines[2]
    reading = read_lines(data)
    assert [event.seq for event in reading.events] == [1, 3]
    (problem,) = reading.problems
    assert (problem.kind, problem.line, problem.offset) == ("damaged", 2, len(lines[0]))


def test_padding_with_nuls_is_understood_alone_and_before_a_record() -> None:
    data = line(1, user("one")) + b"\0" * 7 + line(2, says("two")) + b"\0" * 512 + b"\n" + line(3, user("three"))
    reading = read_lines(data)
    assert [event.seq for event in reading.events] == [1, 2, 3]
    assert [problem.kind for problem in reading.problems] == ["nul", "nul"]


def test_two_records_on_one_line_are_two_records() -> None:
    glued = line(1, user("one"))[:-1] + line(2, says("two"))
    reading = read_lines(glued)
    assert [event.seq for event in reading.events] == [1, 2]
    assert reading.problems[0].kind == "joined"


def test_two_records_of_another_program_on_one_line_are_two_records() -> None:
    reading = read_lines(b'{"seq":1,"role":"user","content":"}{"}{"seq":2,"role":"assistant","content":"b"}\n')
    assert [event.data["content"] for event in reading.events] == ["}{", "b"]


def test_a_record_glued_to_a_torn_one_is_saved() -> None:
    reading = read_lines(line(1, user("one")) + b'{"seq":2,"ro' + line(3, user("three")))
    assert [event.seq for event in reading.events] == [1, 3]
    (problem,) = reading.problems
    assert (problem.kind, problem.line, problem.offset) == ("damaged", 2, len(line(1, user("one"))))


def test_a_line_without_a_checksum_is_read() -> None:
    event = decode(b'{"seq":4,"role":"user","content":"by hand"}')
    assert isinstance(event, Event)
    assert (event.seq, event.ts, event.data) == (4, "", {"role": "user", "content": "by hand"})


@pytest.mark.parametrize(
    ("text", "says_what"),
    [
        (b"[1]", "a JSON list"),
        (b'{"a":1}', "neither a message"),
        (b'{"seq":1,"role":"user","content":7}', "content of type int"),
        (b'{"seq":"x","role":"user","content":""}', "seq 'x'"),
        (b'{"seq":1,"event":"replace","replace":{"startSeq":1,"endSeq":2,"more":3}}', "no other fields"),
        (b'{"seq":1,"event":"replace","replace":{"startSeq":1,"endSeq":2},"sourceEventSeqs":"1-2"}', "list of seqs"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(text: bytes, says_what: str) -> None:
    found = decode(text)
    assert isinstance(found, str)
    assert says_what in found


@given(st.binary(max_size=200))
def test_junk_never_raises(junk: bytes) -> None:
    read_lines(junk + b"\n" + line(1, result("c")) + junk)


def test_the_standard_library_alone_reads_and_writes_the_same_bytes() -> None:
    program = (
        "import sys; sys.modules['orjson'] = None\n"
        "from ctxlab.lines import encode, decode, read_lines\n"
        "message = {'role': 'user', 'content': 'h\\u00e9 \\ud800 \\u0001 <|x|>', 'n': [1.5, 2**63, None]}\n"
        f"data, event = encode(1, 'message', message, {TS!r})\n"
        "assert decode(data[:-1]) == event and read_lines(data).events == [event]\n"
        "sys.stdout.buffer.write(data)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    message = {"role": "user", "content": "h\u00e9 \ud800 \u0001 <|x|>", "n": [1.5, 2**63, None]}
    assert read_lines(out).events[0].data == message
    assert read_lines(out).problems == []


@pytest.mark.parametrize("stretch", [0, 1, 150, 700, 1_000_000])
def test_what_is_read_does_not_depend_on_how_much_is_read_together(
    stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = [line(seq, user(f"message {seq}")) for seq in range(1, 13)]
    flipped = plain[3].replace(b"message", b"massage")
    event = encode(13, "request", {"messages": 1, "hash": "0"}, TS)[0]
    foreign = b'{"seq":14,"role":"user","content":"from elsewhere"}\n'
    data = b"".join(
        [*plain[:3], flipped, plain[4], b"\0" * 40 + plain[5], plain[6][:-1] + plain[7], b"\n", *plain[8:], event]
    )
    monkeypatch.setattr(lines, "_STRETCH", stretch)
    for tail in (b"", foreign, foreign[:-1], plain[0][:-9]):
        reading = read_lines(data + tail, offset=1000, line=5)
        seqs = [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, *([14] if tail[:9] == foreign[:9] else [])]
        assert [found.seq for found in reading.events] == seqs
        assert [found.crc for found in reading.events[:3]] == [crc32(one[:-19]) for one in plain[:3]]
        places = [(problem.kind, problem.line, problem.offset) for problem in reading.problems]
        begins = [1000 + data.index(part) for part in (flipped, b"\0" * 40, plain[6][:-1])]
        expected = list(zip(("damaged", "nul", "joined"), (9, 11, 12), begins, strict=True))
        torn = tail == plain[0][:-9]
        assert places == [*expected, *([("damaged", 19, 1000 + len(data))] if torn else [])]
        assert reading.lines == 13 + bool(tail)


def test_of_two_lines_that_change_checksums_with_each_other_both_are_noticed() -> None:
    one, two = line(1, user("one")), line(2, user("two"))
    reading = read_lines(one[:-11] + two[-11:] + two[:-11] + one[-11:])
    assert [problem.kind for problem in reading.problems] == ["damaged", "damaged"]
    assert reading.events == []


def test_an_event_with_a_role_is_no_message() -> None:
    (event,) = read_lines(encode(1, "note", {"role": "user", "content": "x"}, TS)[0]).events
    assert (event.kind, event.messages) == ("note", ())
