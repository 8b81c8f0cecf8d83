"""One line of a session's log: how an event is written, how it is read back, and what is wrong with a bad line.

A message line is ``{"seq":1,"role":"user","content":"...","ts":"...","crc":"1a2b3c4d"}``. The last key holds the
CRC-32 (eight hex digits) of all bytes before it, so a flipped bit is noticed while the line stays plain JSON for the
eye and for jq. A line that another program wrote, without a checksum, is read as well. What a sequence of events
means is `log`'s part; where the bytes live is `store`'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from struct import pack
from typing import Any, NamedTuple
from zlib import crc32

from ctxlab.errors import MalformedMessage
from ctxlab.messages import Message

try:
    import orjson
except ImportError:  # a browser's Python has none
    orjson = None  # type: ignore[assignment,unused-ignore]

MESSAGE = "message"
REPLACE = "replace"
RESERVED = frozenset({"seq", "ts", "crc", "event"})
MAX_DEPTH = 100
"""How deep a message may nest. Picked: real messages stay under ten, and JSON parsers give up at some hundreds."""

_STRETCH = 32_768  # bytes that are read together; picked, and from 16 to 256 kB makes no difference
_SUFFIX = len(b',"crc":"00000000"}')
_END = re.compile(rb',"crc":"[0-9a-f]{8}"\}')


class Event(NamedTuple):
    """One event of a log. A named tuple and not a dataclass: ten thousand of them are made on every opening.

    ``kind`` is "message", "replace", or the text of the line's ``event`` key. ``data`` is the message for a message
    event, else the line's other keys; it is shared, so nobody changes it. ``ts`` is ISO 8601 in UTC ("" where the line
    has none). ``crc`` is the CRC-32 of the line's bytes before its checksum.
    """

    seq: int
    kind: str
    ts: str
    data: dict[str, Any]
    crc: int

    @property
    def messages(self) -> tuple[dict[str, Any], ...]:
        """The messages that the event puts on the surface: one for an append, any number for a replace."""
        if self.kind == MESSAGE:
            return (self.data,)
        return tuple(self.data["messages"]) if self.kind == REPLACE else ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a log, with its place: ``line`` (1-based), ``offset`` (bytes from the start of the log),
    ``seq`` (of the event that was lost or changed, where it is known).

    ``kind``: "damaged" (a line that cannot be read), "torn" (an incomplete last line), "nul" (padding that a crash
    left), "joined" (several records on one line), "checksum" (the checksum itself is damaged, the message is whole),
    "foreign" (JSON that is neither message nor event), "repeated-seq", "gap", "refused" (an event that breaks the
    log's rules), "parent" or "snapshot".
    """

    kind: str
    text: str
    line: int | None = None
    offset: int | None = None
    seq: int | None = None

    def __str__(self) -> str:
        place = ", ".join(
            f"{name} {value}" for name, value in (("line", self.line), ("byte", self.offset)) if value is not None
        )
        return f"{self.text} ({place})" if place else self.text


@dataclass(slots=True)
class Reading:
    """What a stretch of a log holds: events in order and problems; ``before[i]`` counts the events read before
    ``problems[i]``; ``lines`` counts the lines."""

    events: list[Event] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    lines: int = 0

    def note(self, problem: Problem) -> None:
        """Adds a problem at the present place."""
        self.problems.append(problem)
        self.before.append(len(self.events))


def now() -> str:
    """The present moment as the log writes it: ISO 8601 in UTC with milliseconds and its offset, Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def dumps(value: Any) -> bytes:
    """Compact JSON in UTF-8. Text that has no UTF-8 form (a lone surrogate) is written with escapes."""
    if orjson is not None:
        try:
            return orjson.dumps(value)
        except TypeError:  # orjson's error derives from it: a lone surrogate
            pass
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def loads(line: bytes) -> Any:
    """JSON from UTF-8 bytes. Raises ValueError."""
    if orjson is not None:
        try:
            return orjson.loads(line)
        except ValueError:  # orjson refuses the escape of a lone surrogate, json reads it
            pass
    try:
        return json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def canonical(message: dict[str, Any]) -> bytes:
    """The bytes of a message that a request's hash covers: the same wherever and by whatever JSON library."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def copy_json(value: Any, depth: int = 0) -> Any:
    """A deep copy of JSON data that comes back from disk equal to itself; tuples become lists.

    Raises `MalformedMessage` for what would not: NaN, an infinity, an integer over 64 bits, a value that JSON has no
    word for, a nesting over `MAX_DEPTH`.
    """
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if depth > MAX_DEPTH:
        raise MalformedMessage(f"nested more than {MAX_DEPTH} deep", hint="flatten it, or store it as text", index=None)
    if kind is dict:
        return {_key(key): copy_json(item, depth + 1) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [copy_json(item, depth + 1) for item in value]
    if kind is int and -(2**63) <= value < 2**64:
        return value
    if kind is float and value - value == 0.0:
        return value
    if kind in (int, float):
        raise MalformedMessage(f"the number {value} has no exact form in JSON", hint="store it as text", index=None)
    return _copy_unusual(value, depth)


def fresh(value: Any) -> Any:
    """A deep copy of JSON data as a log holds it, for a caller to change."""
    if type(value) is dict:
        return {key: fresh(item) for key, item in value.items()}
    return [fresh(item) for item in value] if type(value) is list else value


def _copy_unusual(value: Any, depth: int) -> Any:
    from collections.abc import Mapping

    if isinstance(value, Mapping):
        return copy_json(dict(value), depth)
    for plain in (str, int, float):
        if isinstance(value, plain):
            return copy_json(plain(value), depth)
    raise MalformedMessage(
        f"a value of type {type(value).__name__} inside a message",
        hint="a message holds JSON data only: text, numbers, true, false, null, lists and objects",
        index=None,
    )


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise MalformedMessage(f"a key of type {type(key).__name__} ({key!r}); JSON keys are text", index=None)


def encode(seq: int, kind: str, data: dict[str, Any], ts: str) -> tuple[bytes, Event]:
    """The line (with its newline) and the event of it.

    A message stands flat in its line, unless it has a key that the line needs for itself (``seq``, ``ts``, ``crc``,
    ``event``): then it stands under ``message``.
    """
    if kind == MESSAGE and RESERVED.isdisjoint(data):
        body = dumps(data)[1:-1]
    elif kind == MESSAGE:
        body = b'"event":"message","message":' + dumps(data)
    else:
        body = b'"event":' + dumps(kind) + (b"," + dumps(data)[1:-1] if data else b"")
    head = b'{"seq":%d,%b,"ts":%b' % (seq, body, dumps(ts))
    crc = crc32(head)
    return b'%b,"crc":"%08x"}\n' % (head, crc), Event(seq, kind, ts, data, crc)


def recorded(event: Event) -> dict[str, Any]:
    """A message event as its line says it, without the checksum: fresh data for a caller."""
    message: dict[str, Any] = fresh(event.data)
    if RESERVED.isdisjoint(message):
        return {"seq": event.seq, **message, "ts": event.ts}
    return {"seq": event.seq, "event": MESSAGE, "message": message, "ts": event.ts}


def decode(line: bytes) -> Event | str:
    """The event of one line without its newline, or what is wrong with it, in words."""
    crc = crc32(line[:-_SUFFIX])
    checked = line[-_SUFFIX:] == b',"crc":"%08x"}' % crc
    if not checked:
        if _END.fullmatch(line[-_SUFFIX:]):
            return "the checksum does not match: a bit of the line was changed"
        crc = crc32(line[:-1])
    try:
        data = loads(line)
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(data, dict):
        return f"a JSON {type(data).__name__} where an object was expected"
    if checked:
        del data["crc"]
    return _event(data, crc)


def _event(data: dict[str, Any], crc: int) -> Event | str:
    seq = data.pop("seq", -1)
    ts = data.pop("ts", "")
    if type(seq) is not int or not isinstance(ts, str):
        return f"seq {seq!r} or ts {ts!r} is not what it should be (a number, a text)"
    nested = data.get("event") == MESSAGE
    kind = data.pop("event", MESSAGE)
    if kind == MESSAGE:
        message = data.get("message") if nested else data
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return "neither a message (no role) nor an event"
        try:
            Message.of(message)
        except MalformedMessage as error:
            return str(error)
        return Event(seq, MESSAGE, ts, message, crc)
    if not isinstance(kind, str):
        return f"an event of kind {kind!r}; expected a text"
    if kind == REPLACE and (why := _replace_shape(data)):
        return why
    return Event(seq, kind, ts, data, crc)


def _replace_shape(data: dict[str, Any]) -> str:
    span, sources, messages = data.get("replace"), data.get("sourceEventSeqs"), data.get("messages")
    if not isinstance(span, dict) or set(span) != {"startSeq", "endSeq"} or not _all_int(span.values()):
        return f"replace is {span!r}; expected startSeq and endSeq and no other fields"
    if not isinstance(sources, list) or not _all_int(sources):
        return "sourceEventSeqs is not a list of seqs"
    if not isinstance(messages, list) or not all(
        isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages
    ):
        return "messages of a replace is not a list of messages"
    return ""


def _all_int(values: Iterable[Any]) -> bool:
    return all(type(value) is int for value in values)


def read_lines(data: bytes, *, offset: int = 0, line: int = 0) -> Reading:
    """All events of whole lines, with what is wrong and where.

    ``offset`` is the place of ``data`` in its log in bytes, ``line`` the number of lines before it.
    """
    reading = Reading()
    start, size = 0, len(data)
    while start < size:
        # In stretches, so that what is made of one is still in the processor's cache when it is looked at again.
        end = data.find(b"\n", start + _STRETCH)
        end = size if end < 0 else end + 1
        parts = data[start:end].split(b"\n")
        if not parts[-1]:
            parts.pop()
        plain = _plain_messages(parts)
        if plain is None:
            _read_each(parts, line + reading.lines, offset + start, reading)
        else:
            reading.events += plain
        reading.lines += len(parts)
        start = end
    return reading


def _plain_messages(parts: list[bytes]) -> list[Event] | None:
    """The events of lines that are all whole message lines as `encode` writes them; None where one is anything else.

    Ten thousand lines are read on every opening and nearly all of them are such, so the checksums are compared all at
    once. The other ten bytes of a checksum's key are seen to by the parser and by ``del``.
    """
    parse, crc_of, make = loads if orjson is None else orjson.loads, crc32, tuple.__new__
    crcs = [crc_of(raw[:-_SUFFIX]) for raw in parts]
    if pack(f">{len(crcs)}I", *crcs).hex().encode() != b"".join([raw[-10:-2] for raw in parts]):
        return None
    events: list[Event] = []
    add = events.append
    try:
        for found, crc in zip(map(parse, parts), crcs, strict=True):
            if "role" not in found or "event" in found:
                return None
            del found["crc"]
            add(make(Event, (found.pop("seq"), MESSAGE, found.pop("ts"), found, crc)))
    except (ValueError, KeyError, TypeError):  # not written by `encode` after all: `_read_odd` says what it is
        return None
    return events


def _read_each(parts: list[bytes], line: int, offset: int, reading: Reading) -> None:
    """Reads lines one by one, because one of them at least is not a plain message line."""
    for number, raw in enumerate(parts, line + 1):
        plain = _plain_messages([raw])
        if plain is None:
            _read_odd(raw, number, offset, reading)
        else:
            reading.events += plain
        offset += len(raw) + 1


def _read_odd(raw: bytes, number: int, offset: int, reading: Reading) -> None:
    """A line that is not a plain message line: an event, a foreign line, padding, several records, damage."""
    if not raw.strip(b" \r\t"):
        return
    repaired = _checksum_damage(raw)
    if repaired is not None:
        reading.note(Problem("checksum", "the checksum is damaged, the line is whole", number, offset, repaired.seq))
        reading.events.append(repaired)
        return
    event = decode(raw)
    if isinstance(event, Event):
        reading.events.append(event)
        return
    body = raw.strip(b"\0")
    if len(body) < len(raw):
        reading.note(Problem("nul", f"{len(raw) - len(body)} NUL bytes, the padding of a crash", number, offset))
        if body:
            _read_odd(body, number, offset + raw.index(body), reading)
        return
    parts = _split(raw)
    if len(parts) > 1:
        reading.note(Problem("joined", f"{len(parts)} records on one line", number, offset))
        for start, part in parts:
            _read_odd(part, number, offset + start, reading)
        return
    if (start := raw.rfind(b'{"seq":')) > 0 and isinstance(glued := decode(raw[start:]), Event):
        text = f"{start} bytes of an incomplete line, with the next record glued to them"
        reading.note(Problem("damaged", text, number, offset))
        reading.events.append(glued)
        return
    reading.note(Problem("foreign" if event.startswith("neither") else "damaged", event, number, offset))


def _checksum_damage(raw: bytes) -> Event | None:
    """The event of a line whose last 18 bytes are one to three bits away from the right checksum, else None.

    Without this a flipped bit in ``"crc"`` itself would turn it into a key of the message. Three is picked.
    """
    head, tail = raw[:-_SUFFIX], raw[-_SUFFIX:]
    right = b',"crc":"%08x"}' % crc32(head)
    if tail == right or len(tail) < _SUFFIX or (int.from_bytes(tail) ^ int.from_bytes(right)).bit_count() > 3:
        return None
    event = decode(head + right)
    return event if isinstance(event, Event) else None


def _split(raw: bytes) -> list[tuple[int, bytes]]:
    """The records that stand on one line, each with its place: by checksum, else by where a JSON object ends."""
    ends = [match.end() for match in _END.finditer(raw)]
    if ends:
        borders = [0, *ends] if ends[-1] == len(raw) else [0, *ends, len(raw)]
        parts = [(start, raw[start:end]) for start, end in pairwise(borders)]
        # A broken newline leaves one foreign byte before the second record.
        return [_from_brace(start, part) for start, part in parts] if len(parts) > 1 else parts
    text, place, found = raw.decode("utf-8", "surrogateescape"), 0, []
    decoder = json.JSONDecoder()
    while place < len(text):
        try:
            _, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            end = len(text)
        start = len(text[:place].encode("utf-8", "surrogateescape"))
        found.append((start, text[place:end].encode("utf-8", "surrogateescape")))
        place = end
    return found


def _from_brace(start: int, part: bytes) -> tuple[int, bytes]:
    brace = part.find(b'{"seq":', 0, 16)
    return (start + brace, part[brace:]) if brace > 0 else (start, part)
