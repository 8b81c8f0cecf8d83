"""pi session JSONL, versions 1 to 3.

Version 1 is a list; from version 2 on every entry has ``id`` and ``parentId`` and the file is a tree, of which the
conversation is the path from the last entry to the root. A ``compaction`` entry keeps the messages from its first
kept entry on; the summary is on the surface only. What a person ran with ``!`` (``bashExecution``) was sent to the
model as a user message, so it is one here, in pi's words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ctxlab.formats.conversation import Draft, Json, Usage
from ctxlab.formats.shapes import (
    anthropic_content,
    assistant,
    call,
    mapping,
    number,
    objects,
    result,
    string,
)

FORMAT = "pi"
SUMMARY = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n{}\n</summary>"
)
BRANCH = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n{}</summary>"
TYPES = frozenset(
    {"message", "compaction", "branch_summary", "custom_message", "model_change", "thinking_level_change"}
)


def claims(record: Json) -> bool:
    """Whether a line is pi's."""
    if record.get("type") == "session":
        return "timestamp" in record and "cwd" in record
    return record.get("type") == "message" and isinstance(record.get("message"), dict) and "sessionId" not in record


@dataclass(frozen=True, slots=True)
class Entry:
    """One line that can be on the path. ``number``: its place among all entries, the header being 0."""

    number: int
    line: int
    id: str
    parent: str
    record: Json


class Lines:
    """Collects the lines of one session."""

    def __init__(self) -> None:
        self.draft = Draft(FORMAT)
        self.entries: list[Entry] = []  # of a tree, of which the last entry decides what is on the path
        self.count = 0
        self.tree = False
        self.index_of: dict[int, int] = {}

    def feed(self, record: Json, line: int) -> None:
        """Take in one line."""
        if record.get("type") == "session":
            self._header(record, line)
        else:
            id, parent = string(record.get("id")), string(record.get("parentId"))
            self.tree = self.tree or bool(id)
            if isinstance(record.get("message"), dict):
                record["message"].pop("details", None)  # for pi's screen, and often the bulk of the line
            entry = Entry(self.count, line, id, parent, record)
            if self.tree:
                self.entries.append(entry)
            else:
                self._entry(entry, [])  # a list: every entry is on the path
        self.count += 1

    def _header(self, record: Json, line: int) -> None:
        self.draft.id = string(record.get("id"))
        self.draft.model = string(record.get("modelId"))
        parent = string(record.get("branchedFrom") or record.get("parentSession"))
        if parent:
            self.draft.report("fork", f"begins with a copy of {parent.rpartition('/')[2]}", line=line)

    def finish(self) -> list[Draft]:
        """The conversation that was read."""
        path = self._path()
        for entry in path:
            self._entry(entry, path)
        return [self.draft]

    def _path(self) -> list[Entry]:
        """The entries from the root to the last one."""
        by_id = {entry.id: entry for entry in self.entries}
        path: list[Entry] = []
        on_path: set[int] = set()
        at: Entry | None = self.entries[-1] if self.entries else None
        while at is not None and at.number not in on_path:
            path.append(at)
            on_path.add(at.number)
            at = by_id.get(at.parent)
        others = [
            entry for entry in self.entries if entry.number not in on_path and string(entry.record.get("type")) in TYPES
        ]
        messages = [entry for entry in others if entry.record["type"] == "message"]
        if messages:
            text = f"{len(messages)} messages of branches that the user went back from (first on line {others[0].line})"
            self.draft.report("abandoned_branch", text, line=others[0].line)
        return path[::-1]

    def _entry(self, entry: Entry, path: list[Entry]) -> None:
        record, draft = entry.record, self.draft
        kind = string(record.get("type"))
        before = len(draft.messages)
        if kind == "message":
            self._message(mapping(record.get("message")), entry.line)
        elif kind == "compaction":
            self._compaction(record, entry, path)
        elif kind == "custom_message":
            draft.add({"role": "user", "content": anthropic_content(record.get("content"))}, entry.line)
        elif kind == "branch_summary" and record.get("summary"):
            draft.add({"role": "user", "content": BRANCH.format(record["summary"])}, entry.line)
        elif kind == "session_info":
            draft.title = string(record.get("name")) or draft.title
        else:
            draft.skipped[kind or "without a type"] += 1
            if kind == "model_change":
                draft.model = string(record.get("modelId")) or draft.model
        if len(draft.messages) > before:
            self.index_of[entry.number] = before

    def _message(self, message: Json, line: int) -> None:
        role = message.get("role")
        if role == "assistant":
            self._reply(message, line)
        elif role == "toolResult":
            content = anthropic_content(message.get("content"))
            self.draft.add(result(message.get("toolCallId"), content, message.get("toolName")), line)
        elif role == "bashExecution":
            if message.get("excludeFromContext"):
                self.draft.skipped["bashExecution kept from the model"] += 1
            else:
                self.draft.add({"role": "user", "content": bash_text(message)}, line)
        elif role in ("user", "custom", "hookMessage"):
            self.draft.add({"role": "user", "content": anthropic_content(message.get("content"))}, line)
        elif role in ("branchSummary", "compactionSummary"):
            frame = BRANCH if role == "branchSummary" else SUMMARY
            self.draft.add({"role": "user", "content": frame.format(string(message.get("summary")))}, line)
        else:
            self.draft.report("bad_record", f"line {line}: a message with role {role!r}", line=line)

    def _reply(self, message: Json, line: int) -> None:
        blocks = objects(message.get("content"))
        text = "".join(string(block.get("text")) for block in blocks if block.get("type") == "text")
        thinking = [string(block.get("thinking")) for block in blocks if block.get("type") == "thinking"]
        calls = [
            call(block.get("id"), block.get("name"), block.get("arguments"))
            for block in blocks
            if block.get("type") == "toolCall"
        ]
        text = text or string(message.get("content"))
        index = self.draft.add(assistant(text, calls, "\n\n".join(filter(None, thinking))), line)
        usage = mapping(message.get("usage"))
        cached = number(usage.get("cacheRead"))
        prompt = number(usage.get("input")) + cached + number(usage.get("cacheWrite"))
        if prompt or usage.get("output"):
            self.draft.usage[index] = Usage(prompt, number(usage.get("output")), cached)
        self.draft.model = string(message.get("model")) or self.draft.model
        reason, error = message.get("stopReason"), string(message.get("errorMessage"))
        if reason == "aborted":
            self.draft.report("aborted_reply", "the reply was stopped before its end", index=index)
        elif reason == "error":
            self.draft.report("recorded_error", f"the request failed: {error or 'no reason given'}", index=index)

    def _compaction(self, record: Json, entry: Entry, path: list[Entry]) -> None:
        draft = self.draft
        first = record.get("firstKeptEntryIndex")
        if record.get("firstKeptEntryId"):
            first = next((one.number for one in path if one.id == record["firstKeptEntryId"]), None)
        kept = [index for number, index in self.index_of.items() if isinstance(first, int) and first <= number]
        summary: Any = {"role": "user", "content": SUMMARY.format(string(record.get("summary")))}
        draft.summarise([summary], kept)
        before = record.get("tokensBefore")
        size = f" at {before:,} tokens" if isinstance(before, int) else ""
        text = f"compaction{size}: a summary stands for all but the last {len(kept)} of {len(draft.messages)} messages"
        draft.report("compaction", text, index=len(draft.messages), line=entry.line)


def bash_text(message: Json) -> str:
    """What pi sends the model for a command that the user ran."""
    output = string(message.get("output"))
    text = f"Ran `{string(message.get('command'))}`\n" + (f"```\n{output}\n```" if output else "(no output)")
    code = message.get("exitCode")
    if message.get("cancelled"):
        text += "\n\n(command cancelled)"
    elif code:
        text += f"\n\nCommand exited with code {code}"
    if message.get("truncated") and message.get("fullOutputPath"):
        text += f"\n\n[Output truncated. Full output: {message['fullOutputPath']}]"
    return text
