"""Claude Code session JSONL, 1.0 to 2.1.

One reply stands on several lines (one content block each, all with the reply's ``message.id``), and parallel calls are
interleaved with their results. So a reply is put together at the place of its first line. Sub-agents' lines
(``isSidechain``) stay out. After a ``compact_boundary`` the surface starts anew, at the summary.
"""

from __future__ import annotations

from typing import Any

from ctxlab.formats.anthropic import add_user, items_or_text, reply_of
from ctxlab.formats.conversation import Draft, Json
from ctxlab.formats.shapes import anthropic_usage, mapping, objects, string

FORMAT = "claude_code"
TYPES = frozenset({"user", "assistant", "system", "progress", "file-history-snapshot", "queue-operation", "attachment"})
INTERRUPTED = "[Request interrupted by user"


def claims(record: Json) -> bool:
    """Whether a line is Claude Code's."""
    if record.get("type") == "summary":
        return "leafUuid" in record
    return string(record.get("type")) in TYPES and (
        "sessionId" in record or "parentUuid" in record or "messageId" in record
    )


class Lines:
    """Collects the lines of one session."""

    def __init__(self) -> None:
        self.draft = Draft(FORMAT)
        # In file order: ("user", line, content, facts), ("reply", line, message.id, facts), ("boundary", line, ...).
        self.order: list[tuple[str, int, Any, Json]] = []
        self.replies: dict[str, list[Any]] = {}
        self.usages: dict[str, Any] = {}
        self.parents: dict[str, str] = {}
        self.repeated: list[int] = []
        self.sidechain: list[int] = []
        self.regrouped: list[int] = []
        self.summaries: list[tuple[str, str]] = []
        self.held: list[tuple[list[Any], int]] = []
        self.last = ""
        self.agent: bool | None = None  # whether this is a sub-agent's own file; known at its first message

    def feed(self, record: Json, line: int) -> None:
        """Take in one line."""
        kind = string(record.get("type"))
        uuid = string(record.get("uuid"))
        if kind == "summary":
            self.summaries.append((string(record.get("leafUuid")), string(record.get("summary"))))
            return
        if self._aside(record, kind):
            self.sidechain.append(line)
            return
        if uuid:
            if uuid in self.parents:
                self.repeated.append(line)
                return
            self.parents[uuid] = string(record.get("parentUuid")) or string(record.get("logicalParentUuid"))
        self.draft.id = self.draft.id or string(record.get("sessionId"))
        message = mapping(record.get("message"))
        boundary = kind == "system" and record.get("subtype") == "compact_boundary"
        if kind in ("user", "assistant") and not message:
            self.draft.report("bad_record", f"line {line}: a {kind} line without a message", line=line)
        elif kind == "assistant":
            self._assistant(record, message, line)
        elif kind == "user":
            content = message.get("content")
            prompt = record.get("isMeta") is not True and _is_prompt(content)
            self.order.append(("user", line, content, {"uuid": uuid, "prompt": prompt}))
            self.last = uuid or self.last
        elif boundary:
            self.order.append(("boundary", line, mapping(record.get("compactMetadata")), {"uuid": uuid}))
        else:
            self.draft.skipped[kind or "without a type"] += 1

    def _aside(self, record: Json, kind: str) -> bool:
        """Whether a line is not this file's thread. A sub-agent's own file begins with its side chain: that is its
        thread."""
        side = record.get("isSidechain") is True
        if self.agent is None and kind in ("user", "assistant"):
            self.agent = side
        return side and not self.agent

    def _assistant(self, record: Json, message: Json, line: int) -> None:
        uuid = string(record.get("uuid"))
        id = string(message.get("id")) or uuid or f"line {line}"
        blocks = items_or_text(message.get("content"))
        if id not in self.replies:
            self.replies[id] = []
            self.order.append(("reply", line, id, {"uuid": uuid, "error": record.get("isApiErrorMessage") is True}))
        elif self.order[-1][2] != id and any(block.get("type") == "tool_use" for block in objects(blocks)):
            self.regrouped.append(line)
        self.replies[id].extend(blocks)
        self.usages[id] = message.get("usage")
        model = string(message.get("model"))
        self.draft.model = self.draft.model if model in ("", "<synthetic>") else model
        self.last = uuid or self.last

    def finish(self) -> list[Draft]:
        """The conversation that was read."""
        gone = self._abandoned()
        for kind, line, value, facts in self.order:
            if facts["uuid"] in gone:
                continue
            results = [block for block in objects(value) if block.get("type") == "tool_result"]
            if results:
                add_user(self.draft, results, line)
                # Text beside a result is sent after all results of the reply, of which more may follow.
                rest = [block for block in value if block not in results]
                self.held += [(rest, line)] if rest else []
                continue
            self._release()
            if kind == "user":
                self._user(value, line)
            elif kind == "boundary":
                self._compact(value, line)
            else:
                self._reply(value, line, facts)
        self._release()
        self._notes(gone)
        return [self.draft]

    def _release(self) -> None:
        for content, line in self.held:
            self._user(content, line)
        self.held = []

    def _user(self, content: Any, line: int) -> None:
        index = len(self.draft.messages)
        add_user(self.draft, content, line)
        text = self.draft.messages[index]["content"]
        if isinstance(text, str) and text.startswith(INTERRUPTED):
            self.draft.report("interrupted", text.strip("[]"), index=index)

    def _reply(self, id: str, line: int, facts: Json) -> None:
        message, server, _ = reply_of(self.replies[id])
        index = self.draft.add(message, line)
        usage = anthropic_usage(self.usages[id])
        if usage:
            self.draft.usage[index] = usage
        for name in server:
            self.draft.report("server_call", f"{name} ran at the provider", index=index)
        if facts["error"]:
            self.draft.report("recorded_error", string(message["content"]), index=index)

    def _compact(self, metadata: Json, line: int) -> None:
        before = metadata.get("preTokens")
        size = f" at {before:,} tokens" if isinstance(before, int) else ""
        trigger = string(metadata.get("trigger"))
        index = len(self.draft.messages)
        text = f"{trigger + ' ' if trigger else ''}compaction{size}: the next message is the summary of all before it"
        self.draft.report("compaction", text, index=index, line=line)
        self.draft.summarise([])

    def _abandoned(self) -> set[str]:
        """The lines of prompts that the user went back from, and of all that followed them.

        A prompt that is not an ancestor of the last line, although it hangs off one that is, was edited or rewound.
        Tool calls and progress lines fork the tree all the time; only a prompt on a fork is a branch.
        """
        chain = set()
        at = self.last
        while at and at not in chain:
            chain.add(at)
            at = self.parents.get(at, "")
        # Lines come after their parents, so one pass in file order knows each line's ancestors.
        prompts = {facts["uuid"] for _, _, _, facts in self.order if facts.get("prompt")}
        attached: set[str] = set()
        gone: set[str] = set()
        for uuid, parent in self.parents.items():
            if uuid in chain or parent in attached:
                attached.add(uuid)
            if uuid not in chain and (parent in gone or (uuid in attached and uuid in prompts)):
                gone.add(uuid)
        return gone

    def _notes(self, gone: set[str]) -> None:
        draft = self.draft
        if self.regrouped:
            text = f"{_count(self.regrouped, 'call')} written after results of the same reply; put together again"
            draft.report("regrouped_calls", text, line=self.regrouped[0])
        if self.sidechain:
            text = f"{_count(self.sidechain, 'line')} of sub-agents, left out"
            draft.report("sidechain", text, line=self.sidechain[0])
        if self.repeated:
            draft.report("repeated_line", f"{_count(self.repeated, 'line')} written twice", line=self.repeated[0])
        if gone:
            lines = [line for _, line, _, facts in self.order if facts["uuid"] in gone]
            text = f"{_count(lines, 'line')} of a branch that the user went back from"
            draft.report("abandoned_branch", text, line=min(lines))
        own = [summary for leaf, summary in self.summaries if leaf in self.parents]
        foreign = len(self.summaries) - len(own)
        draft.title = own[-1] if own else ""
        if foreign:
            draft.report("foreign_summary", f"{foreign} summary lines name messages of other files")


def _is_prompt(content: Any) -> bool:
    """Whether a user line is something that was said, and not the results of calls (which may bring text along)."""
    return isinstance(content, str) or all(block.get("type") != "tool_result" for block in objects(content))


def _count(lines: list[int], what: str) -> str:
    return f"{len(lines)} {what}{'s' if len(lines) != 1 else ''} (first on line {lines[0]})"
