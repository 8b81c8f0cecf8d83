"""For any interleaving of append, request, compact, prune, fork, damage to caches and reopening: what is live is what
is reloaded, the record is all that was ever appended, and every turn can be shown as it was sent."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from histories import any_history, calling, result, says, user
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxlab.compaction import CompactionPolicy
from ctxlab.compress import Policy, compress
from ctxlab.lines import read_lines
from ctxlab.log import Log
from ctxlab.providers import validate
from ctxlab.recovery import looks_whole
from ctxlab.repairs import OUTCOME_UNKNOWN, repair
from ctxlab.session import Session
from ctxlab.store import jsonl

WORDS = "some words of a talk "
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("round"), st.integers(0, 3)),
        st.tuples(st.just("open"), st.integers(1, 2)),
        st.just(("request", 0)),
        st.tuples(st.just("compact"), st.sampled_from(["short", "", "x" * 2_000, None])),
        st.just(("prune", 0)),
        st.tuples(st.just("fork"), st.integers(0, 200)),
        st.just(("reopen", 0)),
        st.just(("no-snapshot", 0)),
        st.just(("no-meta", 0)),
    ),
    min_size=1,
    max_size=25,
)


class World:
    """A session with what the test knows of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = Session.create(folder, "main", durability="os")
        self.appended: list[dict] = []
        self.sent: list[list[dict]] = []
        self.frozen: list[tuple[Session, list[dict], list[dict]]] = []
        self.number = 0

    def add(self, *messages: dict) -> None:
        for message in messages:
            if message["role"] == "assistant" and not self.waiting:
                self.sent.append(self.session.surface())
            self.waiting = self.waiting and message["role"] != "assistant"
            self.session.append(message)
            self.appended.append(copy.deepcopy(message))

    waiting = False

    def do(self, what: str, how: Any) -> None:
        self.number += 1
        match what:
            case "round":
                self.close_turn()
                self.add(user(f"{self.number} {WORDS * 3}"))
                for place in range(how):
                    self.add(calling(f"c{self.number}-{place}"), result(f"c{self.number}-{place}", "y" * 200))
                self.add(says(WORDS * 3))
            case "open":
                self.close_turn()
                names = [f"o{self.number}-{place}" for place in range(how + 1)]
                self.add(user("go"), calling(*names), *(result(name) for name in names[:how]))
            case "request":
                self.sent.append(self.session.request())
                self.waiting = True
            case "compact":
                self.compact(how)
            case "prune":
                self.session.prune(limit=100, head=20, tail=10)
            case "fork":
                self.fork(how)
            case "reopen":
                self.reopen()
            case _:
                ending = "snapshot.json" if what == "no-snapshot" else "meta.json"
                for path in self.folder.glob(f"*.{ending}"):
                    path.unlink()

    def close_turn(self) -> None:
        if not looks_whole(self.session.surface()):
            self.reopen()

    def compact(self, summary: str | None) -> None:
        def summarize(early: list) -> str:
            if summary is None:
                raise ValueError("overloaded")
            return summary

        self.session.compact(summarize, CompactionPolicy(Policy(trigger=150, keep_recent=2)))

    def fork(self, place: int) -> None:
        at = place % (len(self.appended) + 1)
        child = self.session.fork(at, open_turn="before", deep=place % 5 == 0)
        self.frozen.append((self.session, self.session.record(), self.session.surface()))
        taken = child.forked_at or 0
        assert child.record()[:taken] == self.appended[:taken]
        self.session, self.appended = child, child.record()
        self.sent = self.sent[: child.turns]
        self.waiting = False

    def reopen(self) -> None:
        before, was_whole = self.session.surface(), looks_whole(self.session.surface())
        self.session.close()
        self.session = Session.open(self.folder, self.session.id, durability="os")
        record = self.session.record()
        added = record[len(self.appended) :]
        assert record[: len(self.appended)] == self.appended
        assert all(message["content"] == OUTCOME_UNKNOWN for message in added)
        assert not (was_whole and self.session.recovery.repaired)
        assert self.session.surface()[: len(before)] == before
        self.appended = record

    def check(self) -> None:
        session = self.session
        assert session.record() == self.appended
        loaded = Session.open(self.folder, session.id, readonly=True)
        assert loaded.surface() == session.surface()
        assert loaded.record() == session.record()
        assert loaded.events == session.events
        assert (loaded.watermark, loaded.turns) == (session.watermark, session.turns)
        assert loaded.problems == session.problems == ()
        assert session.turns == len(self.sent)
        for turn, sent in enumerate(self.sent, 1):
            assert loaded.surface_at(turn) == sent
            assert loaded.verify(turn).ok is not False
        for parent, record, surface in self.frozen:
            again = Session.open(self.folder, parent.id, readonly=True)
            assert (again.record(), again.surface()) == (record, surface)


@settings(max_examples=60)
@given(OPERATIONS)
def test_live_is_reloaded_the_record_is_everything_and_turns_are_what_was_sent(operations: list) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(jsonl, "flush"),
        mock.patch.object(jsonl, "flush_folder"),
    ):
        world = World(Path(folder))
        for what, how in operations:
            world.do(what, how)
        world.check()
        world.reopen()
        world.check()
        if world.session.surface():
            assert validate([*world.session.surface(), user("go on")], "openai") == []


@settings(max_examples=150)
@given(any_history(), st.sampled_from(["append", "discard"]))
def test_any_history_in_a_log_is_mended_as_repair_would_and_only_once(history: list, mode: str) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(jsonl, "flush"),
        mock.patch.object(jsonl, "flush_folder"),
    ):
        session = Session.create(folder, "main", durability="os")
        session.append_many(history)
        session.close()
        first = Session.open(folder, "main", mode=mode, durability="os")
        assert first.surface() == repair(history, mode)
        assert first.record()[: len(history)] == history
        size = (Path(folder) / "main.jsonl").stat().st_size
        first.close()
        second = Session.open(folder, "main", mode=mode, durability="os")
        assert second.recovery.repaired == 0
        assert second.surface() == first.surface()
        assert (Path(folder) / "main.jsonl").stat().st_size == size


@settings(max_examples=150)
@given(
    any_history(),
    st.integers(0, 60),
    st.integers(0, 4),
    st.sampled_from(["pair-safe", "round-start"]),
    st.booleans(),
)
def test_a_compaction_in_the_log_shows_what_compress_makes_of_the_list(
    history: list, trigger: int, keep: int, rule: str, mended: bool
) -> None:
    policy = Policy(trigger=trigger, keep_recent=keep, rule=rule)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(jsonl, "flush"),
        mock.patch.object(jsonl, "flush_folder"),
    ):
        session = Session.create(folder, "main", durability="os")
        session.append_many(history)
        if mended:
            session.close()
            session = Session.open(folder, "main", durability="os")
        for summary in ("A.", "B."):
            before = session.surface()
            listed = compress(before, lambda early, text=summary: text, policy)
            logged = session.compact(lambda early, text=summary: text, policy)
            assert type(logged) is type(listed)
            assert logged.messages == session.surface() == listed.messages
        assert session.record()[: len(history)] == history
        assert Session.open(folder, "main", readonly=True).surface() == session.surface()


@given(any_history())
def test_what_looks_whole_needs_no_repair(history: list) -> None:
    if looks_whole(history):
        assert repair(history) == history


@given(st.lists(st.binary(max_size=60) | st.sampled_from([b'{"seq":1,"role":"user","content":"a"}', b'{"seq":0}'])))
def test_no_bytes_at_all_make_a_log_that_cannot_be_opened(parts: list) -> None:
    log = Log()
    log.replay(read_lines(b"\n".join(parts)))
    assert len(log.messages()) == len(log.record)
    assert [event.seq for event in log.events] == sorted({event.seq for event in log.events})
