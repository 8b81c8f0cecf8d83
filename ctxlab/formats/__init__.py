"""Other people's logs in: one call reads any supported agent log into the normal form.

``load(path)`` finds the format by itself: OpenAI chat (lists, request bodies, tau-bench, SWE-agent, JSONL), Anthropic
Messages, Claude Code, Codex, Gemini CLI and the Gemini API, LangChain and LangGraph, pi, dsh, and ctxlab's own
sessions. Which format says what is one module each; this one opens the file, asks `detection`, and puts the result
together. What a log does wrong is in ``problems``, never an exception, as long as one message can be read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from ctxlab.errors import LogFormatError
from ctxlab.formats.conversation import PROBLEM_KINDS, Conversation, Draft, Json, Problem, Usage
from ctxlab.formats.defects import defects
from ctxlab.formats.detection import FORMATS, Importer, Reading, conversations_in, describe, importer_for
from ctxlab.formats.lines import document, first_line, open_error, parse, records

__all__ = ["FORMATS", "PROBLEM_KINDS", "Conversation", "Problem", "Usage", "load", "load_all"]

_HINT = f"known formats: {', '.join(FORMATS)}"
# How many unclaimed lines to hold back before giving up on a JSONL file; picked, logs name themselves on line 1 to 3.
_PATIENCE = 200


Source: TypeAlias = str | os.PathLike[str] | BinaryIO


def load(path: Source, *, conversation: int = 0, surface: bool = False) -> Conversation:
    """Read one conversation from a log file: its path, or a binary stream such as ``sys.stdin.buffer``.

    ``conversation``: which one, from 0, where the file holds several (a note says how many, as does
    ``.conversations``). ``surface``: False gives the record, every message in order with compactions as notes; True
    gives what the next request would carry once the compactions are applied (summary first, then what was kept).
    The surface is as the log has it: what a program drops or mends at the moment of sending is not modelled.

    Raises `LogFormatError` (a ValueError with ``file``, ``line``, ``expected`` and ``hint``) for a file that is
    missing, a folder, empty, not UTF-8, not JSON, or JSON of no known shape, and for a number without a conversation.
    """
    readings, damage = _readings(path)
    if isinstance(conversation, bool) or not 0 <= conversation < len(readings):
        raise LogFormatError(
            f"{_name(path)}: conversation {conversation} of a file that holds {len(readings)}",
            hint=f"0 to {len(readings) - 1} are there" if readings else _HINT,
            file=_name(path),
            line=None,
            expected="the number of a conversation in the file",
        )
    return _conversation(readings[conversation](), damage, surface, conversation, len(readings))


def load_all(path: Source, *, surface: bool = False) -> list[Conversation]:
    """Read every conversation of a log file, in the file's order. Arguments and errors as for `load`."""
    readings, damage = _readings(path)
    return [
        _conversation(reading(), damage, surface, number, len(readings), noted=False)
        for number, reading in enumerate(readings)
    ]


def _name(source: Source) -> str:
    """What errors call the source."""
    return str(source) if isinstance(source, (str, os.PathLike)) else str(getattr(source, "name", "the stream"))


def _readings(source: Source) -> tuple[list[Reading], list[Problem]]:
    """The conversations of a log, each still to be read, and what is wrong with its lines."""
    if not isinstance(source, (str, os.PathLike)):
        return _copied(source, _name(source))
    path = Path(source)
    if _is_pipe(path):
        with path.open("rb") as pipe:
            return _copied(pipe, str(path))
    return _readings_of(path)


def _is_pipe(path: Path) -> bool:
    try:
        return path.is_fifo()
    except OSError:  # `open_error` says what is wrong with the path
        return False


def _copied(stream: BinaryIO, name: str) -> tuple[list[Reading], list[Problem]]:
    """The same from a stream, which can be read once only, where finding the format takes several looks."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "log"
        with copy.open("wb") as file:
            shutil.copyfileobj(stream, file)
        try:
            return _readings_of(copy)
        except LogFormatError as error:
            text = str(error).replace(str(copy), name)
            raise LogFormatError(text, hint=error.hint, **{**error.facts, "file": name}) from None


def _readings_of(path: Path) -> tuple[list[Reading], list[Problem]]:
    error = open_error(path)
    if error is not None:
        raise error
    first, more = first_line(path)
    if not first:
        raise _no_log(path, 1, "nothing but blank space and NUL bytes")
    try:
        value: Any = parse(first)
    except ValueError:
        return _document_or_lines(path) if first[:1] in b"[{" else _lines(path)
    readings = None if more else conversations_in(value)
    if readings:
        return readings, []
    if not more and not isinstance(value, dict):
        raise _no_log(path, 1, describe(value))
    return _lines(path)


def _document_or_lines(path: Path) -> tuple[list[Reading], list[Problem]]:
    """A first line that breaks off: JSON over several lines, or JSONL whose first line is damaged."""
    try:
        value = document(path)
    except LogFormatError as error:
        try:
            return _lines(path, mostly=True)
        except LogFormatError:
            raise error from None
    readings = conversations_in(value)
    if not readings:
        raise _no_log(path, 1, describe(value))
    return readings, []


def _lines(path: Path, *, mostly: bool = False) -> tuple[list[Reading], list[Problem]]:
    """The conversations of a JSONL file. ``mostly``: refuse it unless more lines are objects than are not (in JSON
    over several lines, some lines are whole objects too)."""
    damage: list[Problem] = []

    def report(kind: str, text: str, line: int, offset: int) -> None:
        damage.append(Problem(kind, None, line, text, PROBLEM_KINDS[kind][0], offset))

    importer, first, count = _feed(records(path, report))
    lost = sum(one.kind in ("bad_line", "torn_line") for one in damage)
    if importer is None or (mostly and count <= lost):
        raise _unknown(path, first, damage)
    drafts = importer.finish()
    return [lambda draft=draft: draft for draft in drafts], damage  # type: ignore[misc]


def _feed(lines: Iterator[tuple[int, Json]]) -> tuple[Importer | None, tuple[int, Json] | None, int]:
    """Feed every line to the importer of the first format that claims one; also gives the first line, and how many."""
    importer: Importer | None = None
    waiting: list[tuple[int, Json]] = []
    count = 0
    for count, (line, record) in enumerate(lines, start=1):
        if importer is not None:
            importer.feed(record, line)
            continue
        waiting.append((line, record))
        importer = importer_for(record)
        if importer is not None:
            for held_line, held in waiting:
                importer.feed(held, held_line)
        elif count > _PATIENCE:
            break
    return importer, next(iter(waiting), None), count


def _unknown(path: Path, first: tuple[int, Json] | None, damage: list[Problem]) -> LogFormatError:
    """The one error for a file of which no line belongs to a format."""
    if first is not None:
        return _no_log(path, first[0], describe(first[1]))
    line = damage[0].line if damage else 1
    text = damage[0].text.partition(": ")[2] if damage else "nothing but blank space"
    return LogFormatError(
        f"{path}, line {line}: {text}",
        hint=_HINT,
        file=str(path),
        line=line,
        expected="one JSON value, or one JSON object a line",
    )


def _no_log(path: Path, line: int, found: str) -> LogFormatError:
    return LogFormatError(
        f"{path}, line {line}: no known log; found {found}",
        hint=_HINT,
        file=str(path),
        line=line,
        expected=f"a log in one of the formats {', '.join(FORMATS)}",
    )


def _conversation(
    draft: Draft, damage: list[Problem], surface: bool, number: int, count: int, *, noted: bool = True
) -> Conversation:
    place: dict[int, int]
    if surface:
        messages = [draft.messages[entry] if isinstance(entry, int) else entry for entry in draft.surface]
        lines = [draft.lines[entry] if isinstance(entry, int) else None for entry in draft.surface]
        place = {entry: index for index, entry in enumerate(draft.surface) if isinstance(entry, int)}
    else:
        messages, lines = draft.messages, draft.lines
        place = {index: index for index in range(len(messages) + 1)}
    problems = [
        replace(one, index=None if one.index is None else place.get(one.index))
        for one in draft.problems
        # What concerns one message goes where that message goes; a compaction concerns all that came before it.
        if one.index is None or one.index in place or one.kind == "compaction"
    ]
    problems += damage
    problems += defects(messages, lines)
    if draft.skipped:
        problems.append(_skipped(draft))
    if count > 1 and noted:
        text = f"the file holds {count} conversations; this is number {number}"
        problems.append(Problem("conversations", None, None, text, "note"))
    return Conversation(
        messages=messages,
        system=draft.system,
        tools=draft.tools,
        format=draft.format,
        problems=tuple(sorted(problems, key=_file_order)),
        model=draft.model,
        usage={place[index]: usage for index, usage in draft.usage.items() if index in place},
        title=draft.title,
        id=draft.id,
        lines=tuple(lines),
        conversations=count,
    )


def _skipped(draft: Draft) -> Problem:
    counts = ", ".join(f"{count:,} {kind}" for kind, count in draft.skipped.most_common())
    total = draft.skipped.total()
    text = f"{total:,} {'lines are' if total != 1 else 'line is'} not part of the conversation: {counts}"
    return Problem("skipped_lines", None, None, text, "note")


def _file_order(problem: Problem) -> tuple[bool, int, int]:
    """By line, then by message; what concerns the file as a whole comes last."""
    whole = problem.line is None and problem.index is None
    return whole, problem.line or 0, -1 if problem.index is None else problem.index
