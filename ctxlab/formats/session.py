"""ctxlab's own session log: ``{"seq": 1, "role": "user", ...}`` a line, and events that are not messages.

A line with ``event`` is an event; ``message`` events hold a message that needed its own ``seq`` or ``ts``, and a
``replace`` puts its messages on the surface in place of the events that ``sourceEventSeqs`` lists. What else the log
holds (locks, requests, seeds) is counted. Whether the log keeps its own rules is the log's question, not asked here.
"""

from __future__ import annotations

from ctxlab.formats import openai_chat
from ctxlab.formats.conversation import Draft, Json
from ctxlab.formats.shapes import items, mapping, number, string

FORMAT = "ctxlab"
# What a line has for itself, beside the message.
ENVELOPE = frozenset({"seq", "ts", "crc", "event"})


def claims(record: Json) -> bool:
    """Whether a line is a session's: a number ``seq`` beside a role or an event."""
    return isinstance(record.get("seq"), int) and ("role" in record or isinstance(record.get("event"), str))


class Lines:
    """Collects the lines of one session."""

    def __init__(self) -> None:
        self.draft = Draft(FORMAT)
        self.surface: list[tuple[int, int | Json]] = []  # (seq, what stands there)
        self.seen: dict[int, int] = {}  # seq -> its first line

    def feed(self, record: Json, line: int) -> None:
        """Take in one line."""
        seq = record["seq"] if isinstance(record.get("seq"), int) else -1
        repeated = seq >= 0 and seq in self.seen
        if repeated:
            text = f"line {line}: seq {seq} again (first on line {self.seen[seq]})"
            self.draft.report("repeated_seq", text, index=len(self.draft.messages), line=line)
        self.seen.setdefault(seq, line)
        event = record.get("event")
        if event == "replace":
            self._replace(record, seq, line)
        elif event == "message":
            self._message(mapping(record.get("message")), seq, line)
        elif event is None and "role" in record:
            self._message({key: record[key] for key in record if key not in ENVELOPE}, seq, line)
        else:
            self.draft.skipped[string(event) or string(record.get("type")) or "without a role"] += 1

    def _message(self, message: Json, seq: int, line: int) -> None:
        index = openai_chat.add(self.draft, message, line, f"line {line}")
        if index is not None:
            self.surface.append((seq, index))

    def _replace(self, record: Json, seq: int, line: int) -> None:
        span = mapping(record.get("replace"))
        sources = {source for source in items(record.get("sourceEventSeqs")) if isinstance(source, int)}
        at = next((place for place, (one, _) in enumerate(self.surface) if one in sources), None)
        messages = openai_chat.from_messages(record.get("messages")).messages
        if at is None or not messages:
            text = f"line {line}: a replace of seq {span.get('startSeq')} to {span.get('endSeq')}, none on the surface"
            self.draft.report("bad_record", text, line=line)
            return
        left = [entry for entry in self.surface[at:] if entry[0] not in sources]
        self.surface[at:] = [*((seq, message) for message in messages), *left]
        first, last = number(span.get("startSeq")), number(span.get("endSeq"))
        text = f"compaction: {len(messages)} message(s) stand for seq {first} to {last} on the surface"
        self.draft.report("compaction", text, index=len(self.draft.messages), line=line)

    def finish(self) -> list[Draft]:
        """The conversation that was read."""
        self.draft.surface = [entry for _, entry in self.surface]
        openai_chat.finish(self.draft)
        return [self.draft]
