"""dsh (DeepSeek Harness) session JSONL.

Only events with a ``surfaceOp`` are seen by the model: ``append``, or ``replace`` with the range of ``seq`` that a
summary stands for. ``seq`` is the event's index; where the lines do not carry it, it is counted, a packed row of
chunks standing for as many events as it has times.
"""

from __future__ import annotations

from ctxlab.formats.conversation import Draft, Json, Usage
from ctxlab.formats.shapes import (
    anthropic_content,
    assistant,
    call,
    function_tool,
    items,
    mapping,
    number,
    objects,
    result,
    string,
)

FORMAT = "dsh"
PACKED = frozenset({"text-chunks", "reasoning-chunks", "tool-call-chunks"})


def claims(record: Json) -> bool:
    """Whether a line is dsh's: its header, or an event with data."""
    if record.get("type") == "session":
        return "createdAt" in record or "delegationDepth" in record
    return isinstance(record.get("data"), dict) and "/" in string(record.get("type"))


class Lines:
    """Collects the lines of one session."""

    def __init__(self) -> None:
        self.draft = Draft(FORMAT)
        self.next_seq = 0
        self.index_of: dict[int, int] = {}  # seq -> index in the record
        self.tokens_shadowed: int | None = None

    def feed(self, record: Json, line: int) -> None:
        """Take in one line."""
        kind = string(record.get("type"))
        data = mapping(record.get("data"))
        if kind == "session":
            self.draft.id = string(record.get("id"))
            if record.get("parentSession"):
                self.draft.report("fork", f"begins with a copy of {record['parentSession']}", line=line)
            return
        seq = record["seq"] if isinstance(record.get("seq"), int) else self.next_seq
        packed = len(items(record.get("dt") or data.get("dt"))) if kind in PACKED else 1
        self.next_seq = seq + max(1, packed)
        if "surfaceOp" in record:
            self._surface(kind, data, record, seq, line)
        elif kind == "request/header":
            self._header(mapping(data.get("header")))
        else:
            self.draft.skipped[kind or "without a type"] += 1
            if kind == "session/title":
                self.draft.title = string(data.get("title"))
            elif kind == "compaction/summary":
                self.tokens_shadowed = number(data.get("shadowedTokenCount"))

    def _header(self, header: Json) -> None:
        self.draft.system = string(header.get("system"))
        self.draft.tools = [function_tool(tool) for tool in objects(header.get("tools"))]
        self.draft.model = string(mapping(header.get("config")).get("model"))

    def _surface(self, kind: str, data: Json, record: Json, seq: int, line: int) -> None:
        draft = self.draft
        start = len(draft.messages)
        if kind == "user/message":
            draft.add({"role": "user", "content": anthropic_content(data.get("content"))}, line)
        elif kind == "assistant/message":
            self._reply(data, line)
        elif kind == "tool/result":
            for block in objects(mapping(data.get("message")).get("content")):
                draft.add(result(block.get("toolCallId"), anthropic_content(block.get("content"))), line)
        if len(draft.messages) == start:
            draft.report("bad_record", f"line {line}: {kind} on the surface, but no message in it", line=line)
            return
        if seq in self.index_of:
            draft.report("repeated_seq", f"line {line}: seq {seq} again", index=start, line=line)
        self.index_of[seq] = start
        operation = mapping(record.get("surfaceOp"))
        if operation.get("op") == "replace":
            self._replace(operation, record, start, line)

    def _reply(self, data: Json, line: int) -> None:
        message = mapping(data.get("message"))
        blocks = objects(message.get("content"))
        text = "".join(string(block.get("text")) for block in blocks if block.get("type") == "text")
        thinking = "".join(string(block.get("text")) for block in blocks if block.get("type") == "reasoning")
        calls = [
            call(block.get("id"), block.get("name"), block.get("arguments"))
            for block in blocks
            if block.get("type") == "tool-call"
        ]
        index = self.draft.add(assistant(text, calls, thinking), line)
        usage = mapping(data.get("usage"))
        if usage:
            cached = number(usage.get("cachedInputTokens") or usage.get("cacheReadTokens"))
            self.draft.usage[index] = Usage(number(usage.get("inputTokens")), number(usage.get("outputTokens")), cached)
        if data.get("interrupted"):
            self.draft.report("aborted_reply", "the reply was stopped before its end", index=index)

    def _replace(self, operation: Json, record: Json, index: int, line: int) -> None:
        """Put the new message where the replaced range stood on the surface."""
        draft = self.draft
        first = number(operation.get("start", operation.get("startSeq")))
        last = number(operation.get("end", operation.get("endSeq")))
        surface = draft.surface[:-1]
        ends = [self.index_of.get(first), self.index_of.get(last)]
        places = [surface.index(end) for end in ends if end in surface]
        if len(places) != 2 or places[0] > places[1]:
            draft.report("bad_record", f"line {line}: replaces seq {first} to {last}, not on the surface", line=line)
            return
        shadowed = surface[places[0] : places[1] + 1]
        draft.surface = [*surface[: places[0]], index, *surface[places[1] + 1 :]]
        size = f", {self.tokens_shadowed:,} tokens" if self.tokens_shadowed else ""
        text = f"compaction: this message stands for {len(shadowed)} message(s), seq {first} to {last}{size}"
        draft.report("compaction", text, index=index, line=line)

    def finish(self) -> list[Draft]:
        """The conversation that was read."""
        return [self.draft]
