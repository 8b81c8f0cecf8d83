"""The log's rules and its two projections, on small logs written out by hand."""

from __future__ import annotations

import hashlib

import pytest
from histories import calling, result, says, user

from ctxlab.errors import LogRefused
from ctxlab.lines import Event, Reading, encode, read_lines
from ctxlab.log import END, REQUEST, SEED, START, Log, replacement

TS = "2026-09-04T10:00:00.000Z"


def event(seq: int, data: dict, kind: str = "message") -> Event:
    return encode(seq, kind, data, TS)[1]


def log_of(*messages: dict) -> Log:
    log = Log()
    for seq, message in enumerate(messages, 1):
        log.apply(event(seq, message))
    return log


def replace(log: Log, start: int, stop: int, *messages: dict, why: str = "compaction") -> Event:
    made = event(log.last_seq + 1, replacement(log.surface[start:stop], messages, why), "replace")
    log.apply(made)
    return made


TALK = [user("q1"), says("a1"), user("q2"), says("a2"), user("q3"), says("a3")]


def test_a_replace_shortens_the_surface_and_keeps_the_record() -> None:
    log = log_of(*TALK)
    made = replace(log, 0, 4, user("summary"))
    assert made.data["replace"] == {"startSeq": 1, "endSeq": 4}
    assert made.data["sourceEventSeqs"] == [1, 2, 3, 4]
    assert log.messages() == [user("summary"), user("q3"), says("a3")]
    assert [one.data for one in log.record] == TALK
    assert log.watermark == 4


def test_a_second_replace_folds_the_first() -> None:
    log = log_of(*TALK)
    replace(log, 0, 2, user("s1"))
    made = replace(log, 0, 3, user("s2"))
    assert made.data["replace"] == {"startSeq": 7, "endSeq": 4}
    assert made.data["sourceEventSeqs"] == [7, 3, 4]
    assert log.messages() == [user("s2"), user("q3"), says("a3")]
    assert log.watermark == 4


@pytest.mark.parametrize(
    ("span", "sources"),
    [
        ((1, 4), [1, 2, 4]),
        ((1, 4), [1, 4]),
        ((1, 4), [1, 2, 3]),
        ((1, 4), [1, 2, 3, 4, 5]),
        ((1, 4), [1, 2, 4, 3]),
        ((1, 4), []),
        ((4, 1), [1, 2, 3, 4]),
        ((1, 9), [1, 2, 3, 4]),
        ((0, 2), [1, 2]),
    ],
)
def test_an_event_that_does_not_list_exactly_what_it_shadows_is_refused(span: tuple, sources: list) -> None:
    log = log_of(*TALK)
    data = {
        "replace": {"startSeq": span[0], "endSeq": span[1]},
        "sourceEventSeqs": sources,
        "messages": [user("s")],
        "why": "compaction",
    }
    with pytest.raises(LogRefused):
        log.apply(event(7, data, "replace"))
    assert log.messages() == TALK
    assert log.last_seq == 6


def test_a_shadowed_event_cannot_be_shadowed_again() -> None:
    log = log_of(*TALK)
    data = replacement(log.surface[0:2], [user("s")], "compaction")
    replace(log, 0, 2, user("s1"))
    with pytest.raises(LogRefused, match="seq 1 is not on the surface"):
        log.apply(event(8, data, "replace"))


def test_a_seq_out_of_order_is_refused_by_apply() -> None:
    log = log_of(user("q"))
    with pytest.raises(LogRefused, match="seq 3 after seq 1"):
        log.apply(event(3, says("a")))


def test_an_event_may_stand_for_several_messages_or_none() -> None:
    log = log_of(*TALK)
    replace(log, 1, 2, says("a1"), user("more"), why="repair")
    replace(log, 4, 5, why="repair")
    assert log.messages() == [user("q1"), says("a1"), user("more"), user("q2"), says("a2"), says("a3")]
    replace(log, 0, 6, user("all of it"))
    assert log.messages() == [user("all of it")]
    assert log.watermark == 6


def test_only_compaction_moves_the_watermark() -> None:
    log = log_of(*TALK)
    replace(log, 1, 2, says("short"), why="prune")
    assert log.watermark == 0


def test_the_watermark_is_an_originals_seq_also_where_a_pruned_message_ends_the_stretch() -> None:
    log = log_of(*TALK)
    replace(log, 3, 4, says("short"), why="prune")
    made = replace(log, 0, 4, user("s"))
    assert made.data["replace"] == {"startSeq": 1, "endSeq": 7}
    assert log.watermark == 4


def test_a_turn_is_an_assistant_message_and_what_came_before_it_was_sent() -> None:
    log = log_of(*TALK)
    assert [turn.seq for turn in log.turns] == [2, 4, 6]
    assert log.before(log.turns[1].seq).messages() == TALK[:3]


def test_a_request_event_is_the_turn_and_its_answer_is_not_another() -> None:
    log = log_of(user("q1"))
    log.apply(event(2, {"hash": log.hash()}, REQUEST))
    log.apply(event(3, says("a1")))
    log.apply(event(4, user("q2")))
    log.apply(event(5, {"hash": "x"}, REQUEST))
    log.apply(event(6, {"hash": "y"}, REQUEST))  # a retry
    log.apply(event(7, says("a2")))
    assert [(turn.seq, turn.hash is None) for turn in log.turns] == [(2, False), (5, False), (6, False)]


def test_the_hash_is_over_one_canonical_line_a_message_and_follows_replaces() -> None:
    log = log_of(user("q1"), says("é"))
    by_hand = hashlib.sha256('{"role":"user","content":"q1"}\n{"role":"assistant","content":"é"}\n'.encode())
    assert log.hash() == by_hand.hexdigest()
    log.apply(event(3, user("q2")))
    by_hand.update(b'{"role":"user","content":"q2"}\n')
    assert log.hash() == by_hand.hexdigest()
    replace(log, 0, 2, user("s"))
    after = hashlib.sha256(b'{"role":"user","content":"s"}\n{"role":"user","content":"q2"}\n')
    assert log.hash() == after.hexdigest()


def test_what_the_model_saw_stays_the_same_after_compactions() -> None:
    log = log_of(*TALK)
    seen = [log.before(turn.seq).messages() for turn in log.turns]
    replace(log, 0, 4, user("s1"))
    log.apply(event(8, says("a4")))
    assert [log.before(turn.seq).messages() for turn in log.turns[:3]] == seen
    assert log.before(log.turns[3].seq).messages() == [user("s1"), user("q3"), says("a3")]


def test_a_start_without_an_end_blocks_until_a_newer_seed() -> None:
    log = log_of(user("q"))
    log.apply(event(2, {"startSeq": 1, "endSeq": 1}, START))
    assert log.open_start is not None
    assert log.open_start.seq == 2
    log.apply(event(3, {"start": 1}, END))  # the end of something else
    assert log.open_start is not None
    log.apply(event(4, {}, SEED))
    assert log.open_start is None
    log.apply(event(5, {}, START))
    assert log.open_start is not None
    log.apply(event(6, {"start": 5}, END))
    assert log.open_start is None


def test_a_gap_is_reported_and_what_follows_is_kept() -> None:
    log = Log()
    log.replay(Reading(events=[event(1, user("q")), event(4, user("r")), event(5, says("s"))]))
    assert [problem.kind for problem in log.problems] == ["gap"]
    assert str(log.problems[0]) == "seq 2 to 3 missing before seq 4"
    assert log.last_seq == 5
    assert log.is_lost(2)
    assert not log.is_lost(4)


def test_a_repeated_seq_gets_the_next_number_and_nobody_loses_a_message() -> None:
    log = Log()
    two = [event(1, user("A")), event(2, says("to A")), event(2, user("B")), event(3, says("to B"))]
    log.replay(Reading(events=two))
    assert [one.data["content"] for one in log.record] == ["A", "to A", "B", "to B"]
    assert [one.seq for one in log.events] == [1, 2, 3, 4]
    assert [problem.kind for problem in log.problems] == ["repeated-seq", "repeated-seq"]


def test_a_gap_and_then_a_repetition_leave_every_seq_once() -> None:
    log = Log()
    log.replay(Reading(events=[event(1, user("a")), event(2, {}, SEED), event(4, user("b")), event(4, user("c"))]))
    assert [one.seq for one in log.events] == [1, 2, 4, 5]
    assert [problem.kind for problem in log.problems] == ["gap", "repeated-seq"]


def test_numbering_from_zero_is_taken_as_it_is() -> None:
    log = Log()
    log.replay(Reading(events=[event(0, user("A")), event(1, says("B"))]))
    assert log.problems == []
    assert log.last_seq == 1


def damaged(lines: list[bytes], *lost: int) -> Log:
    data = b"".join(b"x" * 9 + b"\n" if number in lost else line for number, line in enumerate(lines, 1))
    log = Log()
    log.replay(read_lines(data))
    return log


def six_and_a_summary() -> list[bytes]:
    log = log_of(*TALK)
    lines = [encode(seq, "message", message, TS)[0] for seq, message in enumerate(TALK, 1)]
    return [*lines, encode(7, "replace", replacement(log.surface[:4], [user("s")], "compaction"), TS)[0]]


def test_a_replace_still_holds_where_lines_that_it_shadows_were_lost() -> None:
    log = damaged(six_and_a_summary(), 1, 3)
    assert log.messages() == [user("s"), user("q3"), says("a3")]
    assert [(problem.kind, problem.line, problem.seq) for problem in log.problems] == [
        ("damaged", 1, 1),
        ("damaged", 3, 3),
    ]


def test_what_was_seen_earlier_can_be_shown_where_lines_were_lost() -> None:
    log = damaged([*six_and_a_summary(), encode(8, "message", says("a4"), TS)[0]], 1, 3)
    assert log.before(8).messages() == [user("s"), user("q3"), says("a3")]


def test_a_replace_of_lines_that_were_all_lost_still_shows_its_summary_in_its_place() -> None:
    log = damaged(six_and_a_summary(), 1, 2, 3, 4)
    assert log.messages() == [user("s"), user("q3"), says("a3")]


def test_where_the_summary_is_lost_the_originals_stand() -> None:
    lines = six_and_a_summary()
    log = damaged(lines, 7)
    assert log.messages() == TALK
    lines.append(encode(8, "message", user("q4"), TS)[0])
    assert damaged(lines, 7).messages() == [*TALK, user("q4")]


def test_a_second_summary_holds_where_the_first_was_lost() -> None:
    log = log_of(*TALK)
    lines = six_and_a_summary()
    replace(log, 0, 4, user("s"))
    lines.append(encode(8, "replace", replacement(log.surface[:2], [user("s2")], "compaction"), TS)[0])
    assert damaged(lines).messages() == [user("s2"), says("a3")]
    assert damaged(lines, 7).messages() == [*TALK[:4], user("s2"), says("a3")]


def test_a_refused_replace_on_disk_is_a_problem_and_changes_nothing() -> None:
    lines = six_and_a_summary()
    bad = {"replace": {"startSeq": 5, "endSeq": 6}, "sourceEventSeqs": [6], "messages": [], "why": "x"}
    log = damaged([*lines, encode(8, "replace", bad, TS)[0], encode(9, "message", user("q4"), TS)[0]])
    assert log.messages() == [user("s"), user("q3"), says("a3"), user("q4")]
    assert [problem.kind for problem in log.problems] == ["refused"]
    assert log.before(9).messages() == [user("s"), user("q3"), says("a3")]


def test_an_event_of_a_later_version_is_kept_and_ignored() -> None:
    log = log_of(user("q"))
    log.apply(event(2, {"some": "thing"}, "note/pinned"))
    assert log.messages() == [user("q")]
    assert log.events[-1].kind == "note/pinned"


def test_a_state_restores_all_but_the_shadowed_events() -> None:
    log = log_of(*TALK, calling("c1"), result("c1"))
    log.apply(event(9, replacement(log.surface[:6], [user("s")], "compaction"), "replace"))
    log.apply(event(10, {"hash": "h"}, REQUEST))
    back = Log.from_state(log.state())
    assert back.messages() == log.messages()
    assert back.hash() == log.hash()
    assert (back.last_seq, back.watermark, back.base, back.record_base) == (10, 6, 10, 8)
    for other in (log, back):
        other.apply(event(11, says("a4")))
        other.apply(event(12, replacement(other.surface[:3], [user("s2")], "compaction"), "replace"))
    assert back.messages() == log.messages() == [user("s2"), says("a4")]
    assert back.watermark == log.watermark == 8
    assert len(back.turns) + back.turns_base == len(log.turns)
