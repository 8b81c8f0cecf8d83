"""Bytes to JSON: one value, or one object a line in bounded memory.

Lines are split on the newline byte alone, since JSON text may hold U+2028, U+0085 and the like, on which
``str.splitlines`` would split. A damaged line costs that line and is reported with its number and byte offset. CRLF,
a byte order mark, blank lines and NUL padding (what some file systems leave after a crash) are understood.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ctxlab.errors import LogFormatError
from ctxlab.formats.conversation import Json

_orjson: ModuleType | None
try:
    import orjson as _orjson
except ImportError:  # a browser's Python has none; json gives the same values
    _orjson = None

BOM = b"\xef\xbb\xbf"
PADDING = b" \t\r\n\0"
_ZEROS = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))
_RUN = b"0" * 19
_DECODER = json.JSONDecoder()

Report = Callable[[str, str, int, int], None]  # kind, text, line, offset


def parse(data: bytes) -> Any:
    """The JSON value in UTF-8 bytes, the same with and without orjson.

    As Python's ``json``: of equal keys the last wins, NaN and Infinity are floats, lone surrogates survive, integers
    are exact (one of more than 4,300 digits, which Python refuses to convert, stays text). Raises ValueError:
    `UnicodeDecodeError` for bytes that are not UTF-8, `json.JSONDecodeError` for what is not JSON.
    """
    if _orjson is not None and not _has_long_integer(data):
        try:
            return _orjson.loads(data)
        except ValueError:
            pass  # refuses NaN, lone surrogates, ...: json decides, and its message is the one that people know
    return parse_text(data.decode("utf-8"))


def _has_long_integer(data: bytes) -> bool:
    """Whether an integer may exceed 64 bits: orjson would round it to a float. 19 digits are the fewest that can.

    Looks for 19 zeros in a copy in which every digit is zero: thirty times faster than a regular expression, and
    this runs on every byte of a log. Digits after a point are a float's, which orjson reads exactly.
    """
    zeros = data.translate(_ZEROS)
    at = zeros.find(_RUN)
    while at >= 0:
        if at == 0 or data[at - 1] not in b".0123456789":
            return True
        at = zeros.find(_RUN, at + len(_RUN))
    return False


def parse_text(text: str) -> Any:
    """The JSON value in text; see `parse`."""
    try:
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            raise
        except ValueError:  # an integer of more digits than Python converts
            return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply", text[:1], 0) from None


def _integer(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:
        return digits


def open_error(path: Path) -> LogFormatError | None:
    """The error for a path that cannot be a log at all: missing, a folder, empty, unreadable, UTF-16; else None."""
    expected = "a log file"
    try:
        if path.is_dir():
            hint = "name one file in it"
            return _error(path, f"{path}: a folder, not a file", hint, expected)
        with path.open("rb") as file:
            head = file.read(4096)
    except FileNotFoundError:
        return _error(
            path, f"{path}: no such file", "check the path; it is relative to the working directory", expected
        )
    except (OSError, ValueError) as error:
        return _error(path, f"{path}: cannot be read ({error})", "check its name and its permissions", expected)
    if not head:
        return _error(path, f"{path}: empty file (0 bytes)", "nothing was ever written to it", expected)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = f"{path}, line 1: UTF-16 or UTF-32 text (byte order mark {head[:2].hex(' ')}), expected UTF-8"
        return _error(path, text, "convert it: iconv -f UTF-16 -t UTF-8", "UTF-8 text", line=1)
    return None


def _error(path: Path, text: str, hint: str, expected: str, line: int | None = None) -> LogFormatError:
    return LogFormatError(text, hint=hint, file=str(path), line=line, expected=expected)


def first_line(path: Path) -> tuple[bytes, bool]:
    """The first line that is not blank, without padding, and whether anything but padding follows it."""
    with path.open("rb") as file:
        first = b""
        for raw in file:
            line = raw.removeprefix(BOM).strip(PADDING)
            if line and first:
                return first, True
            first = first or line
    return first, False


def records(path: Path, report: Report) -> Iterator[tuple[int, Json]]:
    """Each object of a JSONL file with its 1-based line number; ``report`` is told of every line that is not one."""
    offset = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            data = (raw.removeprefix(BOM) if number == 1 else raw).strip(PADDING)
            if data:
                yield from _objects(data, number, offset, raw.endswith(b"\n"), report)
            offset += len(raw)


def _objects(data: bytes, line: int, offset: int, ended: bool, report: Report) -> Iterator[tuple[int, Json]]:
    try:
        value = parse(data)
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", errors="replace")
        try:
            value = parse_text(text)
        except ValueError:
            _lost(data, "neither JSON nor UTF-8", line, offset, ended, report)
            return
        report("bad_encoding", f"line {line}: {error.reason} at byte {error.start} of the line", line, offset)
    except json.JSONDecodeError as error:
        found = list(_glued(data.decode("utf-8")))
        if found:
            report("glued_records", f"line {line}: {len(found)} records on one line", line, offset)
        else:
            _lost(data, f"not JSON ({error.msg}, character {error.pos + 1})", line, offset, ended, report)
        for item in found:
            yield line, item
        return
    if isinstance(value, dict):
        yield line, value
    else:
        text = f"line {line}, byte {offset}: a JSON {json_type(value)}, expected an object (starts {preview(data)})"
        report("bad_line", text, line, offset)


def _lost(data: bytes, why: str, line: int, offset: int, ended: bool, report: Report) -> None:
    """Report a line that cannot be read: torn if its newline was never written, else bad."""
    if ended:
        report("bad_line", f"line {line}, byte {offset}: {why}; starts {preview(data)}", line, offset)
    else:
        text = f"line {line}, byte {offset}: the last line breaks off after {len(data)} bytes"
        report("torn_line", text, line, offset)


def _glued(text: str) -> Iterator[Json]:
    """The objects of a line that holds several and nothing else; none where anything else is on it."""
    found: list[Json] = []
    position = 0
    while position < len(text):
        try:
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            return
        if not isinstance(value, dict):
            return
        found.append(value)
        while position < len(text) and text[position] in " \t\r\0":
            position += 1
    yield from found


def document(path: Path) -> Any:
    """The one JSON value of a file. Raises `LogFormatError` with line and column."""
    data = path.read_bytes().removeprefix(BOM).strip(PADDING)
    expected = "one JSON value, or one JSON object a line"
    try:
        return parse(data)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        text = f"{path}, line {line}: not UTF-8 ({error.reason} at byte {error.start}; starts {preview(data)})"
        raise _error(path, text, "save it as UTF-8, or name another file", "UTF-8 text", line) from None
    except json.JSONDecodeError as error:
        text = f"{path}, line {error.lineno}: not JSON ({error.msg}, column {error.colno}; starts {preview(data)})"
        raise _error(path, text, "a log is JSON, or JSONL with one object a line", expected, error.lineno) from None


def preview(data: bytes, length: int = 24) -> str:
    """The first bytes as a person can read them.

    >>> preview(b"\\x89PNG")
    "'\\\\x89PNG'"
    """
    return repr(data[:length].decode("latin-1"))


def json_type(value: Any) -> str:
    """JSON's word for a value's type."""
    names = {dict: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
