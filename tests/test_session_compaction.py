"""Compaction as a transaction in the log: what is written, what is refused, and what a crash or a failure leaves."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from histories import calling, result, says, system, user

from ctxlab.compaction import FACTS, USER_TEXTS, CompactionPolicy
from ctxlab.compress import SUMMARY_MARKER, Compressed, Failed, Policy, Refused, Unchanged, compress
from ctxlab.errors import ParentLost, SessionBusy, StoreError
from ctxlab.lines import read_lines
from ctxlab.log import END, START, replacement
from ctxlab.providers import validate
from ctxlab.session import Session

LOW = Policy(trigger=200)
LONG = "a word or two of what was said here and there, and then some more of it"


def talk(folder: Path, rounds: int = 12, name: str = "main") -> Session:
    session = Session.create(folder, name, durability="os")
    for number in range(rounds):
        session.append_many(
            [user(f"question {number} {LONG}"), calling(f"c{number}"), result(f"c{number}", LONG), says(LONG)]
        )
    return session


def kinds(session: Session) -> list[str]:
    return [event.kind for event in session.events if event.kind != "message"]


def test_a_compaction_is_start_replace_end_and_the_record_keeps_everything(tmp_path: Path) -> None:
    session = talk(tmp_path)
    before = session.record()
    outcome = session.compact(lambda early: "They talked.", LOW)
    assert isinstance(outcome, Compressed)
    assert kinds(session) == [START, "replace", END]
    replace = session.events[-2].data
    assert replace["sourceEventSeqs"] == list(range(1, replace["replace"]["endSeq"] + 1))
    assert outcome.messages == session.surface()
    assert session.surface()[0] == user(f"{SUMMARY_MARKER}\nThey talked.")
    assert session.surface()[1:] == before[replace["replace"]["endSeq"] :]
    assert session.record() == before
    assert session.watermark == replace["replace"]["endSeq"]
    assert json.loads((tmp_path / "main.meta.json").read_text())["watermark"] == session.watermark


def test_a_cut_inside_an_event_of_several_messages_keeps_the_others_word_for_word(tmp_path: Path) -> None:
    session = talk(tmp_path)
    with session.turn():  # as a repair does that cannot be told in smaller events
        whole = replacement(session.log.surface, [system("be brief"), *session.surface()], "repair")
        session.journal.write([("replace", whole)])
    before = session.surface()
    outcome = session.compact(lambda early: "They talked.", LOW)
    assert isinstance(outcome, Compressed)
    assert session.surface() == compress(before, lambda early: "They talked.", LOW).messages
    assert session.surface()[0] == system("be brief")
    assert session.surface()[-6:] == before[-6:]


def test_the_start_marker_is_on_disk_before_the_model_is_called(tmp_path: Path) -> None:
    session = talk(tmp_path)
    seen = []

    def summarize(early: list) -> str:
        seen.append(read_lines((tmp_path / "main.jsonl").read_bytes()).events[-1])
        return "They talked."

    session.compact(summarize, LOW)
    assert [event.kind for event in seen] == [START]
    assert seen[0].data["sourceEventSeqs"][0] == 1


def test_below_the_trigger_nothing_is_written_and_nobody_is_called(tmp_path: Path) -> None:
    session = talk(tmp_path, 2)
    size = (tmp_path / "main.jsonl").stat().st_size
    outcome = session.compact(lambda early: pytest.fail("called"), Policy(trigger=100_000))
    assert isinstance(outcome, Unchanged)
    assert (tmp_path / "main.jsonl").stat().st_size == size


@pytest.mark.parametrize(
    ("answer", "kind"), [("", Refused), ("x " * 9_000, Refused), (None, Refused), (ValueError("overloaded"), Failed)]
)
def test_where_the_summary_fails_the_surface_stands_and_the_lock_is_closed(
    tmp_path: Path, answer: object, kind: type
) -> None:
    session = talk(tmp_path)
    before = session.surface()

    def summarize(early: list) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    outcome = session.compact(summarize, LOW)  # type: ignore[arg-type]
    assert isinstance(outcome, kind)
    assert outcome.messages == session.surface() == before
    assert kinds(session) == [START, END]
    assert session.events[-1].data["outcome"] == kind.__name__.lower()
    assert isinstance(session.compact(lambda early: "short", LOW), Compressed)


def test_a_second_compaction_folds_the_first_and_does_not_summarise_its_stretch_again(tmp_path: Path) -> None:
    session = talk(tmp_path)
    session.compact(lambda early: "First.", LOW)
    session.append_many([user(f"later {LONG}"), says(LONG)] * 8)
    given = []
    session.compact(lambda early: given.append(early) or "Second.", LOW)
    assert given[0][0] == user(f"{SUMMARY_MARKER}\nFirst.")
    assert not any("question 0" in str(message) for message in given[0])
    texts = [message["content"] for message in session.surface()]
    assert texts[0] == f"{SUMMARY_MARKER}\nSecond."
    assert sum(SUMMARY_MARKER in str(text) for text in texts) == 1


def test_the_summary_outlives_the_process_so_no_stretch_is_paid_for_twice(tmp_path: Path) -> None:
    session = talk(tmp_path)
    session.compact(lambda early: "They talked.", LOW)
    surface, watermark = session.surface(), session.watermark
    session.close()
    again = Session.open(tmp_path, "main")
    assert (again.surface(), again.watermark) == (surface, watermark)
    assert f"summarised up to seq {watermark}" in str(again.recovery)
    outcome = again.compact(lambda early: pytest.fail("summarised again"), Policy(trigger=400))
    assert isinstance(outcome, Unchanged)


def test_a_session_locked_by_a_crash_opens_with_one_loud_line_and_goes_on(tmp_path: Path) -> None:
    session = talk(tmp_path)
    session.close()
    data = (tmp_path / "main.jsonl").read_bytes()
    session = Session.open(tmp_path, "main")
    session.compact(lambda early: "They talked.", LOW)
    session.close()
    lines = (tmp_path / "main.jsonl").read_bytes()[len(data) :].splitlines(keepends=True)
    (tmp_path / "main.jsonl").write_bytes(data + lines[0])  # the start alone
    (tmp_path / "main.snapshot.json").unlink(missing_ok=True)
    reopened = Session.open(tmp_path, "main")
    assert "NOTE: the compaction begun at seq 49 was cut off by a crash; its lock is void" in str(reopened.recovery)
    assert isinstance(reopened.compact(lambda early: "Now.", LOW), Compressed)
    reopened.close()
    assert Session.open(tmp_path, "main").recovery.stale_lock is None


def test_a_live_compaction_is_busy_for_another_writer_and_for_itself(tmp_path: Path) -> None:
    session, other = talk(tmp_path), Session.open(tmp_path, "main")
    told = []

    def summarize(early: list) -> str:
        for one in (other, session):
            with pytest.raises(SessionBusy) as caught:
                one.compact(lambda early: "me too", LOW)
            told.append(str(caught.value))
        return "They talked."

    assert isinstance(session.compact(summarize, LOW), Compressed)
    assert "held by another writer" in told[0]
    assert "is being compacted since seq 49" in told[1]
    assert isinstance(other.compact(lambda early: pytest.fail("called"), Policy(trigger=5_000)), Unchanged)


def test_a_failed_close_blocks_in_this_life_and_not_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = talk(tmp_path)
    write = session.journal.write

    def fails_at_the_end(items: list) -> list:
        if items[0][0] == END:
            raise StoreError("no space left")
        return write(items)

    monkeypatch.setattr(session.journal, "write", fails_at_the_end)
    with pytest.raises(StoreError):
        session.compact(lambda early: "They talked.", LOW)
    monkeypatch.undo()
    with pytest.raises(SessionBusy, match="is not closed"):
        session.compact(lambda early: "again", LOW, force=True)
    session.append(user("talking goes on"))
    session.close()
    again = Session.open(tmp_path, "main")
    assert again.recovery.stale_lock == 49
    assert again.surface()[0] == user(f"{SUMMARY_MARKER}\nThey talked.")


def test_an_interrupt_closes_the_lock_and_goes_through(tmp_path: Path) -> None:
    session = talk(tmp_path)

    def summarize(early: list) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.compact(summarize, LOW)
    assert kinds(session) == [START, END]
    assert isinstance(session.compact(lambda early: "They talked.", LOW), Compressed)


def test_messages_that_come_in_during_the_call_stay_behind_the_summary(tmp_path: Path) -> None:
    session = talk(tmp_path)

    def summarize(early: list) -> str:
        session.append_many([user("one more thing"), says("yes?")])
        return "They talked."

    outcome = session.compact(summarize, LOW)
    assert isinstance(outcome, Compressed)
    assert session.surface()[-2:] == outcome.messages[-2:] == [user("one more thing"), says("yes?")]


def test_a_range_that_changed_during_the_call_is_refused(tmp_path: Path) -> None:
    session = talk(tmp_path)

    def summarize(early: list) -> str:
        session.prune(limit=20, head=10, tail=5)
        return "They talked."

    outcome = session.compact(summarize, LOW)
    assert isinstance(outcome, Refused)
    assert "the range changed while the summary was written" in outcome.why
    assert len(session.surface()) == 48


def test_an_async_summariser_is_awaited(tmp_path: Path) -> None:
    async def summarize(early: list) -> str:
        await asyncio.sleep(0)
        return "They talked."

    session = talk(tmp_path)
    assert isinstance(asyncio.run(session.compact_async(summarize, LOW)), Compressed)
    other = talk(tmp_path, name="other")
    assert isinstance(other.compact(summarize, LOW), Compressed)
    assert other.surface() == session.surface()


def test_facts_are_carried_over_every_compaction_that_follows(tmp_path: Path) -> None:
    session = talk(tmp_path)
    session.compact(lambda early: "They talked.", Policy(trigger=200, facts=("never touch prod",)))
    assert session.surface()[0]["content"].endswith(f"They talked.{FACTS}- never touch prod")
    session.append_many([user(LONG), says(LONG)] * 8)
    session.compact(lambda early: "They went on.", LOW)
    assert session.surface()[0]["content"].endswith(f"They went on.{FACTS}- never touch prod")


def test_the_users_words_stay_where_the_policy_says_so(tmp_path: Path) -> None:
    session = Session.create(tmp_path, "main", durability="os")
    for number in range(12):
        session.append_many([user(f"order {number}"), says(LONG * 3)])
    policy = CompactionPolicy(LOW, keep_users=True)
    session.compact(lambda early: "Orders were taken.", policy)
    kept = session.surface()[0]["content"].partition(USER_TEXTS)[2]
    assert kept.splitlines()[:3] == ["1. order 0", "2. order 1", "3. order 2"]
    session.append_many([user("and this"), says(LONG * 3)] * 6)
    session.compact(lambda early: "More orders.", policy)
    assert session.surface()[0]["content"].partition(USER_TEXTS)[2].splitlines()[0] == "1. order 0"


def test_an_input_too_large_for_the_summariser_is_taken_in_pieces_and_no_message_is_left_out(tmp_path: Path) -> None:
    session = talk(tmp_path)
    policy = CompactionPolicy(LOW, max_input=300)
    requests: list[list] = []
    outcome = session.compact(lambda early: requests.append(early) or f"Part {len(requests)}.", policy)
    assert isinstance(outcome, Compressed)
    assert len(requests) > 3
    assert all(LOW.count(request) <= 300 for request in requests)
    assert [request[0]["content"] for request in requests[1:3]] == [
        f"{SUMMARY_MARKER}\nPart 1.",
        f"{SUMMARY_MARKER}\nPart 2.",
    ]
    given = [message for number, request in enumerate(requests) for message in request[bool(number) :]]
    assert given == session.record()[: session.watermark]
    assert all(validate([user("s"), *request], "openai") == [] for request in requests)


def test_where_one_piece_fails_the_whole_history_stays(tmp_path: Path) -> None:
    session = talk(tmp_path)
    before, calls = session.surface(), []

    def summarize(early: list) -> str:
        calls.append(early)
        if len(calls) == 3:
            raise ValueError("overloaded")
        return "Part."

    outcome = session.compact(summarize, CompactionPolicy(LOW, max_input=300))
    assert isinstance(outcome, Failed)
    assert session.surface() == before


def test_one_message_too_large_for_the_summariser_is_said_and_not_dropped(tmp_path: Path) -> None:
    session = talk(tmp_path, 3)
    session.append_many([user("x " * 2_000), says("ok"), *[user(LONG), says(LONG)] * 4])
    outcome = session.compact(lambda early: "short", CompactionPolicy(LOW, max_input=300))
    assert isinstance(outcome, Failed)
    assert "does not fit in 300 tokens" in outcome.why


def test_pruning_first_may_be_enough(tmp_path: Path) -> None:
    session = Session.create(tmp_path, "main")
    session.append_many([user("read"), calling("c"), result("c", "line\n" * 10_000), says("done")])
    policy = CompactionPolicy(Policy(trigger=6_000), prune_first=True)
    outcome = session.compact(lambda early: pytest.fail("called"), policy)
    assert isinstance(outcome, Unchanged)
    assert len(session.surface()[2]["content"]) < 5_300
    assert len(session.record()[2]["content"]) == 50_000
    assert [event.data.get("why") for event in session.events if event.kind == "replace"] == ["prune"]


def test_pruning_twice_changes_nothing_and_says_what_it_did(tmp_path: Path) -> None:
    session = Session.create(tmp_path, "main")
    session.append_many([user("read"), calling("a", "b"), result("a", "x" * 9_000), result("b", "ok"), says("done")])
    (step,) = session.prune()
    assert (step.index, step.data["before"]) == (2, 9_000)
    events = len(session.events)
    assert session.prune() == []
    assert len(session.events) == events
    session.close()
    assert Session.open(tmp_path, "main").surface() == session.surface()


def test_the_round_start_rule_keeps_the_round_whole(tmp_path: Path) -> None:
    session = talk(tmp_path)
    session.compact(lambda early: "They talked.", Policy(trigger=200, rule="round-start"))
    kept = [message for message in session.surface() if message in session.record()]
    assert kept[0]["role"] == "user"


def test_retention_in_tokens_keeps_more_than_the_last_six(tmp_path: Path) -> None:
    small, large = talk(tmp_path, name="small"), talk(tmp_path, name="large")
    small.compact(lambda early: "s", LOW)
    large.compact(lambda early: "s", CompactionPolicy(LOW, retain=400))
    assert len(large.surface()) > len(small.surface()) >= 7
    assert LOW.count(large.surface()[1:]) <= 400 + LOW.count([calling("c"), result("c", LONG), user(LONG)])


def test_what_was_sent_can_be_proved_after_any_number_of_compactions(tmp_path: Path) -> None:
    session = talk(tmp_path, 0)
    for number in range(30):
        session.append(user(f"question {number} {LONG}"))
        session.request()
        session.append(says(LONG))
        if number % 7 == 6:
            session.compact(lambda early: "They talked.", LOW)
    session.close()
    (tmp_path / "main.snapshot.json").unlink(missing_ok=True)
    again = Session.open(tmp_path, "main")
    assert again.turns == 30
    assert [again.verify(turn).ok for turn in range(1, 31)] == [True] * 30


def test_a_snapshot_holds_the_surface_and_deleting_it_changes_nothing(tmp_path: Path) -> None:
    session = talk(tmp_path, 40)
    session.compact(lambda early: "They talked.", LOW)
    session.append(user("after"))
    surface, record, events = session.surface(), session.record(), session.events
    session.close()
    path = tmp_path / "main.snapshot.json"
    assert path.stat().st_size < 6_000 < (tmp_path / "main.jsonl").stat().st_size
    fast = Session.open(tmp_path, "main")
    path.unlink()
    slow = Session.open(tmp_path, "main")
    assert fast.recovery.snapshot
    assert not slow.recovery.snapshot
    for one in (fast, slow):
        assert (one.surface(), one.watermark, one.turns) == (surface, session.watermark, 80)
        assert one.recovery.messages == 161
        assert one.record() == record
        assert one.events == events
    assert fast.append(says("x"))["seq"] == slow.journal.log.last_seq + 1


def test_a_session_goes_on_from_its_snapshot_as_from_its_log(tmp_path: Path) -> None:
    session = talk(tmp_path, 40)
    session.compact(lambda early: "They talked.", LOW)
    session.close()
    fast = Session.open(tmp_path, "main")
    assert fast.recovery.snapshot
    fast.append_many([user("q"), says(LONG)] * 20)
    assert isinstance(fast.compact(lambda early: "And talked.", LOW), Compressed)
    surface = fast.surface()
    assert fast.surface_at(1) == fast.record()[:1]
    fast.close()
    for snapshot in (True, False):
        if not snapshot:
            (tmp_path / "main.snapshot.json").unlink()
        again = Session.open(tmp_path, "main")
        assert again.recovery.snapshot == snapshot
        assert again.surface() == surface


@pytest.mark.parametrize("damage", ["cut", "bit", "other-log", "empty", "junk", "shorter-log"])
def test_a_snapshot_that_does_not_match_is_ignored_and_said_so(tmp_path: Path, damage: str) -> None:
    session = talk(tmp_path, 40)
    session.compact(lambda early: "They talked.", LOW)
    session.close()
    path, log = tmp_path / "main.snapshot.json", tmp_path / "main.jsonl"
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "bit":
        path.write_bytes(data.replace(b"They talked.", b"They tblked."))
    elif damage == "other-log":
        log.write_bytes(log.read_bytes().replace(b'"outcome":"compressed"', b'"outcome":"compresseD"'))
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "junk":
        path.write_bytes(b"[]\n{}\n")
    else:
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:100]))
    again = Session.open(tmp_path, "main", readonly=True)
    assert not again.recovery.snapshot
    assert again.problems[0].kind == "snapshot"
    assert "does not match its log and was ignored" in str(again.recovery)
    assert again.record() == session.record()[: 100 if damage == "shorter-log" else None]


def test_a_snapshot_that_cannot_be_written_is_a_problem_and_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = talk(tmp_path, 40)

    def fail(name: str, snapshot: bytes | None) -> None:
        raise StoreError("no space left")

    monkeypatch.setattr(session.store, "write_snapshot", fail)
    assert isinstance(session.compact(lambda early: "They talked.", LOW), Compressed)
    assert str(session.problems[-1]) == "no snapshot was kept: no space left"


def test_a_session_from_a_snapshot_reads_its_older_events_as_of_its_own_view(tmp_path: Path) -> None:
    session = talk(tmp_path, 40)
    session.compact(lambda early: "They talked.", LOW)
    record = session.record()
    session.close()
    seen = Session.open(tmp_path, "main", readonly=True)
    assert seen.recovery.snapshot
    with Session.open(tmp_path, "main") as other:
        other.append(user("later"))
    assert seen.record() == record
    seen.refresh()
    assert seen.record() == [*record, user("later")]
    assert seen.surface()[-1] == user("later")


def test_a_fork_with_a_snapshot_still_notices_that_its_parent_is_gone(tmp_path: Path) -> None:
    parent = talk(tmp_path, 40)
    child = parent.fork(name="child")
    child.compact(lambda early: "They talked.", LOW)
    child.close()
    assert Session.open(tmp_path, "child", readonly=True).recovery.snapshot
    parent.close()
    parent.store.delete("main")
    with pytest.raises(ParentLost, match="is a fork of 'main', which is gone"):
        Session.open(tmp_path, "child")
