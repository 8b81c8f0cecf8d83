"""Exercise 3: each message one line in the session file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ctxlab.grading.asking import Answer, Ask, short
from ctxlab.grading.disk import make_folder, read_file, write_file
from ctxlab.grading.draw import SCRIPTS, Draw
from ctxlab.grading.model import Check, Exercise

LESSON = "notebooks/04_the_log.ipynb"
NEWLINE = b"\n"
CLOCK = timedelta(minutes=10)  # how far a time may be off the judge's clock; a time zone is off by more
Dict = dict[str, Any]


@dataclass(slots=True)
class Book:
    """One session file in the worker's folder, of which the judge reads every byte itself."""

    ask: Ask
    home: Path
    path: Path

    @classmethod
    def new(cls, ask: Ask, draw: Draw, *folders: str) -> Book:
        """A path at which there is no file yet."""
        home = ask.home()
        case = home / f"case-{draw.code()}"
        make_folder(home, case)
        return cls(ask, home, case.joinpath(*folders) / f"s-{draw.number(1000, 9999)}.jsonl")

    def data(self) -> bytes:
        """Every byte of the file as it is now."""
        return read_file(self.home, self.path)

    def append(self, message: Dict) -> Answer:
        """Have one message appended."""
        shown = f"append_message({'/'.join(self.path.parts[-2:])!r}, {short(message)})"
        return self.ask.call(str(self.path), message, shown=shown)

    def lines(self, answer: Answer) -> list[bytes]:
        """The file's lines; ends the check unless the last one has its newline."""
        data = self.data()
        if not data:
            answer.fail("there is nothing in the session file", "one line more in it")
        if not data.endswith(b"\n"):
            answer.fail(f"the file ends with {data[-30:]!r}", "a newline at the end of each line")
        return data.split(b"\n")[:-1]

    def records(self, answer: Answer) -> list[Dict]:
        """The file's lines as the JSON objects that they must be."""
        found = []
        for number, line in enumerate(self.lines(answer), 1):
            found.append(record_of(line, number, answer))
        return found

    def write(self, records: Sequence[Dict], torn: bytes = b"") -> bytes:
        """Put a session file there, as an earlier run of the program would have left it."""
        data = b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records) + torn
        write_file(self.home, self.path, data)
        return data


def record_of(line: bytes, number: int, answer: Answer) -> Dict:
    """One line as a JSON object."""
    try:
        record = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        answer.fail(f"line {number} is not JSON ({error}): {line[:80]!r}", "one JSON object a line, in UTF-8")
    if not isinstance(record, dict):
        answer.fail(f"line {number} is {short(record)}", "one JSON object a line")
    return record


def earlier_run(draw: Draw, count: int) -> list[Dict]:
    """Records of an earlier run, seq 1 to ``count``."""
    said = [message for _ in range(count) for message in (draw.user(1), draw.assistant(1))][:count]
    start = datetime(2026, 9, 4, 10, 0, tzinfo=UTC)
    return [
        {"seq": index + 1, **message, "ts": (start + timedelta(seconds=7 * index)).isoformat()}
        for index, message in enumerate(said)
    ]


def check_line(ask: Ask, draw: Draw) -> None:
    book = Book.new(ask, draw)
    before = book.write(earlier_run(draw, draw.number(2, 5)))
    for message in draw.round(0):
        answer = book.append(message)
        answer.done()
        data = book.data()
        if not data.startswith(before):
            answer.fail("the bytes that were there before have changed", "the new line after them, and nothing else")
        added = data[len(before) :]
        if added.count(b"\n") != 1 or not added.endswith(b"\n"):
            answer.fail(f"{short(added.decode(errors='replace'))} was added", "one line, ended by a newline")
        record_of(added[:-1], before.count(b"\n") + 1, answer)
        before = data


def check_seq(ask: Ask, draw: Draw) -> None:
    fresh, old, there = Book.new(ask, draw), Book.new(ask, draw), draw.number(3, 9)
    old.write(earlier_run(draw, there))
    for step in range(1, draw.number(3, 4) + 1):  # in turns, so that a count kept in a variable is noticed
        for book, seq in ((fresh, step), (old, there + step)):
            answer = book.append(draw.user(1))
            answer.done()
            got = [record.get("seq") for record in book.records(answer)]
            if got != list(range(1, seq + 1)):
                wanted = f"1 to {seq}, one after the other" if seq > 1 else "1 in the first line of a file"
                answer.fail(
                    f"the lines have seq {got}", f"{wanted} (each file counts for itself, also after a restart)"
                )


def check_ts(ask: Ask, draw: Draw) -> None:
    book = Book.new(ask, draw)
    answer = book.append(draw.user(1))
    answer.done()
    ts = book.records(answer)[-1].get("ts")
    told = moment(ts)
    if told is None or told.utcoffset() is None:
        answer.fail(f"ts is {short(ts)}", "a time with its offset, such as '2026-09-04T10:00:00Z'")
    if told.utcoffset():
        answer.fail(f"ts is {short(ts)}", "the time in UTC: offset Z or +00:00")
    if abs(datetime.now(UTC) - told) > CLOCK:
        answer.fail(
            f"ts is {short(ts)}",
            f"about {datetime.now(UTC):%Y-%m-%dT%H:%MZ}, the time in UTC (local time with a Z behind it is another)",
        )


def moment(ts: object) -> datetime | None:
    """A time as ISO 8601 writes it, or None."""
    try:
        return datetime.fromisoformat(ts) if isinstance(ts, str) else None
    except ValueError:
        return None


def check_keys(ask: Ask, draw: Draw) -> None:
    book = Book.new(ask, draw)
    talk = [draw.user(1), *draw.calls(2, 1), {**draw.assistant(1), "name": draw.pick(("planner", "critic"))}]
    parts = [{"type": "text", "text": draw.english(1)}, {"type": "text", "text": draw.code()}]
    for message in [*talk, {"role": "user", "content": parts, "metadata": {"trace": draw.code(), "depth": 3}}]:
        answer = book.append(message)
        answer.done()
        record = book.records(answer)[-1]
        for key, value in message.items():
            if record.get(key, "missing") != value:
                answer.fail(
                    f"{key!r} of the {message['role']} message is {short(record.get(key, 'missing'))}",
                    f"every key as it came: {short(value)}",
                )


def check_text(ask: Ask, draw: Draw) -> None:
    book = Book.new(ask, draw)
    for script in draw.random.sample(SCRIPTS, 4):
        text = draw.pick(("\n", "\r\n", "\u2028", "\x85")).join((script, draw.code(), 'a "quoted" \\ line\t', ""))
        answer = book.append({"role": "user", "content": text})
        answer.done()
        got = book.records(answer)[-1].get("content")
        if got != text:
            answer.fail(f"{short(got)} is in the file", short(text))


def check_visible(ask: Ask, draw: Draw) -> None:
    book = Book.new(ask, draw)
    for count in range(1, 4):
        message = draw.user(1)
        answer = book.append(message)
        answer.done()
        data = book.data()
        if json.dumps(message["content"])[1:20].encode() not in data or data.count(b"\n") != count:
            answer.fail(
                f"another process sees {data.count(NEWLINE)} complete line(s) after {count} call(s)",
                f"{count}, and this message in the last: write it and close or flush the file",
            )


def check_folder(ask: Ask, draw: Draw) -> None:
    book = Book.new(ask, draw, ".sessions", draw.code())
    answer = book.append(draw.user(1))
    answer.done()
    book.lines(answer)


def check_argument(ask: Ask, draw: Draw) -> None:
    book = Book.new(ask, draw)
    for message in (draw.user(1), draw.calls(1, 1)[0]):
        answer = book.append(message)
        answer.done()
        if list(answer.after[1:2]) != [message]:
            answer.fail(f"the message is {short(answer.after[1:2])} afterwards", "the caller's dict as it was")


def check_record(ask: Ask, draw: Draw) -> None:
    book = Book.new(ask, draw)
    book.write(earlier_run(draw, draw.number(2, 5)))
    answer = book.append(draw.calls(1, 1)[0])
    written = book.records(answer)[-1]
    if answer.value != written:
        answer.fail(f"{short(answer.value)} came back", f"the record that was written: {short(written)}")


def check_torn(ask: Ask, draw: Draw) -> None:
    book, there = Book.new(ask, draw), draw.number(3, 6)
    before = book.write(earlier_run(draw, there), torn=b'{"seq": 9, "role": "user", "content": "half a li')
    message = draw.user(1)
    answer = book.append(message)
    answer.done()
    data = book.data()
    whole = before[: before.rindex(b"\n") + 1]
    last = data.split(b"\n")[-2] if data.count(b"\n") else b""
    if not data.startswith(whole) or not data.endswith(b"\n"):
        answer.fail(f"the file ends with {data[-60:]!r}", "the whole lines as they were, and a new one")
    record = record_of(last, data.count(b"\n"), answer)
    if record.get("content") != message["content"]:
        answer.fail(f"the last line is {short(record)}", "the new message on a line of its own")


def check_writers(ask: Ask, draw: Draw) -> None:
    book, writers, each = Book.new(ask, draw), 4, 40
    calls = [[[str(book.path), {"role": "user", "content": f"{w}-{i}"}] for i in range(each)] for w in range(writers)]
    statuses = ask.race(calls)
    answer = Answer(f"append_message from {writers} processes at once, {each} messages each")
    if any(statuses):
        answer.fail("a call raised in one of the processes", f"{writers * each} lines")
    seqs = [record.get("seq") for record in book.records(answer)]
    if len(seqs) != writers * each:
        answer.fail(f"{len(seqs)} lines", f"{writers * each} lines")
    if seqs != list(range(1, writers * each + 1)):
        twice = len(seqs) - len({str(seq) for seq in seqs})
        answer.fail(f"{twice} numbers were given twice", f"1 to {writers * each}: read the last number under a lock")


def check_flushed(ask: Ask, draw: Draw) -> None:
    book = Book.new(ask, draw)
    for message in (draw.user(1), draw.assistant(1)):
        answer = book.append(message)
        answer.done()
        size = len(book.data())
        if not any(seen in (-1, size) for seen in answer.flushes):
            answer.fail(
                f"no fsync after the line was written (sizes at each fsync: {list(answer.flushes)})",
                "the line written, file.flush(), then os.fsync(file.fileno())"
                + (f", with all {size} bytes" if size else ""),
            )


def check_cost(ask: Ask, draw: Draw) -> None:
    book, count, text = Book.new(ask, draw), draw.number(10_000, 11_000), draw.code() * 20
    size = len(book.write([{"seq": i + 1, "role": "user", "content": text} for i in range(count)]))
    book.append(draw.user(1)).done()  # what is imported on the first call is not counted
    answer = book.append(draw.user(1))
    answer.done()
    seq = record_of(book.lines(answer)[-1], count + 2, answer).get("seq")
    if seq != count + 2:
        answer.fail(f"seq is {short(seq)}", f"{count + 2}")
    if answer.bytes_read > size // 4:
        answer.fail(f"{answer.bytes_read:,} bytes were read to append one line to {size:,}", "only the end is read")


FORGET = "what is not in the file is forgotten at the next start, and nobody notices until then."

EXERCISE = Exercise(
    name="append_message",
    number=3,
    title="Each message one line on disk",
    lesson=LESSON,
    task="""\
Write `append_message(path, message)`: append the message to the session file as one JSON object on one line, and return
the record that was written. The record is the message with two more keys: `seq`, which counts the lines from 1, and
`ts`, the time in UTC with its offset. A line looks like this:

`{"seq": 1, "role": "user", "content": "...", "ts": "2026-09-04T10:00:00Z"}`

Every key of the message is kept, tool calls too. The file is only ever appended to, the folder is made if it is not
there, and when the function returns, the line is there for every other process to see. The caller's dict stays as it
was. `last_seq(path)` is given: the last `seq` in the file, 0 where there is no file.""",
    given="""\
import json
from datetime import UTC, datetime
from pathlib import Path

from ctxlab import last_seq""",
    withheld={"ctxlab.transcript": ("append_message",)},
    blank='''\
def append_message(path: str, message: dict) -> dict:
    """Append the message to the session file as one JSON line; return the record that was written."""
    print("exercise incomplete: append_message writes nothing (a restart reads zero messages)")
    return dict(message)
''',
    incomplete="exercise incomplete: append_message writes nothing (a restart reads zero messages)",
    hints=(
        "Three steps: make the record (a new dict), make the folder, append one line. Which mode of `open` never "
        "touches what is in the file already?",
        "`record = {'seq': last_seq(path) + 1, **message, 'ts': datetime.now(UTC).isoformat()}`, and "
        "`Path(path).parent.mkdir(parents=True, exist_ok=True)`.",
        "`with open(path, 'a', encoding='utf-8') as file: file.write(json.dumps(record) + '\\n')`. For more: "
        "`file.flush()` and `os.fsync(file.fileno())` before it closes, `fcntl.flock` before the last number is read.",
    ),
    checks=(
        Check(
            "one-line",
            "One JSON object a line, after the bytes that were there",
            "a reader takes the file line by line; an append-only file is one that a crash cannot spoil.",
            check_line,
            0.25,
        ),
        Check(
            "seq",
            "seq is consecutive, from 1",
            "a session is told apart, cut and forked by its numbers.",
            check_seq,
            0.25,
        ),
        Check(
            "ts-utc",
            "ts is the time in UTC, with its offset",
            "a session is resumed on another machine, in another time zone.",
            check_ts,
            0.25,
        ),
        Check("keys-kept", "Every key of the message is kept", FORGET, check_keys, 0.25),
        Check(
            "text-round-trips", "Text of any script and any line break comes back as it was", FORGET, check_text, 0.25
        ),
        Check("visible", "The line can be seen by other processes on return", FORGET, check_visible, 0.25),
        Check(
            "folder-made",
            "The folder is made if it is missing",
            "before the first message of all there is no folder.",
            check_folder,
            0.125,
        ),
        Check(
            "argument-unchanged",
            "The caller's dict is unchanged",
            "that dict goes into the next request, and an API answers 400 to a key that it does not know.",
            check_argument,
            0.125,
        ),
        Check(
            "returns-record", "The record that was written comes back", "the caller learns its seq.", check_record, 0.25
        ),
        Check(
            "torn-line",
            "A torn last line does not swallow the next",
            "a crash leaves half a line; what is glued to it is lost with it.",
            check_torn,
            0,
            False,
            builds_on=("one-line",),
        ),
        Check(
            "two-writers",
            "Two writers never take the same seq",
            "a web server has more than one process.",
            check_writers,
            0,
            False,
            builds_on=("seq",),
        ),
        Check(
            "flushed",
            "The line is flushed to disk on return",
            "without fsync it is in the machine's memory only: a power cut loses what was acknowledged.",
            check_flushed,
            0,
            False,
        ),
        Check(
            "cost-flat",
            "The cost does not grow with the file",
            "reading it all for each message makes a session of n messages cost n squared.",
            check_cost,
            0,
            False,
            builds_on=("one-line",),
        ),
    ),
)
