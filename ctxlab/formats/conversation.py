"""What an importer hands back, and the draft that it fills.

`Conversation` is the normal form: OpenAI-shaped messages, system prompt, tools, and what is wrong with the log.
`Draft` is the same while it is being read. It keeps two views of one reading: the *record* (every message, in order)
and the *surface* (what the next request would carry once the log's compactions are applied).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]
Severity: TypeAlias = Literal["defect", "note"]

# Every kind of problem and whether it is a defect (a provider may refuse the history, or something of the log could
# not be read) or a note (a fact about the log that a reader of its numbers needs).
PROBLEM_KINDS: Mapping[str, tuple[Severity, str]] = {
    "dangling_call": ("defect", "a tool call that no result answers"),
    "orphan_result": ("defect", "a tool result that no call before it asked for"),
    "duplicate_result": ("defect", "a second result for a call that is answered already"),
    "misplaced_result": ("defect", "a tool result that something else parts from its call"),
    "repeated_id": ("defect", "a call id that was used before in the same conversation"),
    "repeated_seq": ("defect", "a sequence number that was used before in the same log: two writers"),
    "bad_arguments": ("defect", "call arguments that are not the JSON text of an object"),
    "bad_record": ("defect", "a record whose shape is not what its type promises"),
    "bad_line": ("defect", "a line that is not a JSON object; that line is lost, no other"),
    "bad_encoding": ("defect", "bytes that are not UTF-8, replaced by U+FFFD"),
    "torn_line": ("defect", "a last line that was not written to its end; it is lost"),
    "aborted_reply": ("note", "a reply that the user or the network cut short"),
    "recorded_error": ("note", "an error that the provider answered, as the log recorded it"),
    "interrupted": ("note", "the user stopped a tool or a reply"),
    "compaction": ("note", "from here on a summary stands for what came before"),
    "fork": ("note", "the file begins with a copy of another session"),
    "abandoned_branch": ("note", "messages of a branch that the user went back from; not in the conversation"),
    "regrouped_calls": ("note", "parallel calls that the file interleaves with their results"),
    "merged_reply": ("note", "neighbouring assistant messages that are one reply, as their results show"),
    "server_call": ("note", "a tool that ran at the provider: its call has no result in the log, and needs none"),
    "sidechain": ("note", "lines of a sub-agent, which are not part of the conversation"),
    "repeated_line": ("note", "a line that is in the file twice; read once"),
    "glued_records": ("note", "several records on one line; all are read"),
    "foreign_summary": ("note", "summaries that name messages of other files"),
    "skipped_lines": ("note", "lines that are not messages"),
    "conversations": ("note", "the file holds several conversations"),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that a reader of the log should know.

    ``kind``: a key of `PROBLEM_KINDS`. ``index``: the message's place in `Conversation.messages`, or None. ``line``:
    1-based line in the file, or None (a file that is one JSON value has no lines worth naming). ``text``: one
    sentence. ``severity``: "defect" or "note". ``offset``: where the line starts, in bytes, for damaged lines.
    """

    kind: str
    index: int | None
    line: int | None
    text: str
    severity: Severity = "defect"
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What the provider counted for one reply, in tokens: the whole prompt (cached part included), the completion
    (thinking included), and how much of the prompt came from its cache."""

    input: int
    output: int
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Conversation:
    """One recorded conversation in the normal form.

    ``messages``: OpenAI-shaped dicts; tool results are ``tool`` messages, call arguments JSON text. System messages
    stay where the log has them; ``system`` is the text of the system prompt wherever it was kept ('' for none), and
    ``history`` the messages without the leading ones that ``system`` repeats. ``tools``: OpenAI-shaped definitions.
    ``problems``: what a reader should know, in file order; ``defects`` and ``notes`` are its two kinds.
    ``usage``: message index -> `Usage`, where the log has the provider's own count. ``lines``: message index -> line in
    the file (1-based), None where there is none. ``conversations``: how many the file holds. ``model``, ``title`` and
    ``id`` are '' where the log has none.
    """

    messages: list[Json]
    system: str = ""
    tools: list[Json] = field(default_factory=list)
    format: str = "openai_chat"
    problems: tuple[Problem, ...] = ()
    model: str = ""
    usage: dict[int, Usage] = field(default_factory=dict)
    title: str = ""
    id: str = ""
    lines: tuple[int | None, ...] = ()
    conversations: int = 1

    @property
    def history(self) -> list[Json]:
        """The messages without the leading system messages that ``system`` repeats."""
        return self.messages[leading_system(self.messages) :] if self.system else list(self.messages)

    @property
    def defects(self) -> tuple[Problem, ...]:
        """The problems for which a provider may refuse the history, or which lost something of the log."""
        return tuple(problem for problem in self.problems if problem.severity == "defect")

    @property
    def notes(self) -> tuple[Problem, ...]:
        """The problems that are facts and not faults."""
        return tuple(problem for problem in self.problems if problem.severity == "note")


class Draft:
    """A conversation while it is being read. ``add`` puts a message at the end of the record and of the surface."""

    def __init__(self, format: str) -> None:
        self.format = format
        self.messages: list[Json] = []
        self.lines: list[int | None] = []
        self.surface: list[int | Json] = []
        self.problems: list[Problem] = []
        self.usage: dict[int, Usage] = {}
        self.skipped: Counter[str] = Counter()
        self.system = self.model = self.title = self.id = ""
        self.tools: list[Json] = []

    def add(self, message: Json, line: int | None = None) -> int:
        """Append a message; returns its index in the record."""
        index = len(self.messages)
        self.messages.append(message)
        self.lines.append(line)
        self.surface.append(index)
        return index

    def report(
        self, kind: str, text: str, *, index: int | None = None, line: int | None = None, offset: int | None = None
    ) -> None:
        """Note a problem; its severity is that of its kind."""
        if line is None and index is not None and index < len(self.lines):
            line = self.lines[index]
        self.problems.append(Problem(kind, index, line, text, PROBLEM_KINDS[kind][0], offset))

    def summarise(self, summary: list[Json], kept: Iterable[int | Json] = ()) -> None:
        """Apply a compaction: the surface becomes ``summary`` (new messages) and ``kept`` (record indices)."""
        self.surface = [*summary, *kept]


def leading_system(messages: list[Json]) -> int:
    """How many messages at the start are the application's instructions (role system or developer)."""
    return next(
        (index for index, message in enumerate(messages) if message.get("role") not in ("system", "developer")),
        len(messages),
    )
