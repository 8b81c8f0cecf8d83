"""A session from its first append to its next opening: durable, recovered once, and honest about what it found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from histories import calling, result, says, system, user

from ctxlab.errors import MalformedMessage, SessionBusy, SessionExists, StoreError, UnknownName, UnknownSession
from ctxlab.providers import PROVIDERS, validate
from ctxlab.repairs import NEVER_STARTED, OUTCOME_UNKNOWN
from ctxlab.session import Session

ROUND = [user("where?"), calling("c1"), result("c1", "here"), says("there")]


def talk(folder: Path, *messages: dict, name: str = "main") -> Session:
    session = Session.create(folder, name)
    session.append_many(messages)
    return session


def file_of(folder: Path, name: str = "main") -> Path:
    return folder / f"{name}.jsonl"


def test_each_message_is_one_line_in_the_published_shape(tmp_path: Path) -> None:
    session = talk(tmp_path, *ROUND)
    lines = [json.loads(line) for line in file_of(tmp_path).read_text().splitlines()]
    assert [line["seq"] for line in lines] == [1, 2, 3, 4]
    assert [{k: v for k, v in line.items() if k not in ("seq", "ts", "crc")} for line in lines] == ROUND
    assert all(line["ts"].endswith("Z") for line in lines)
    assert session.surface() == session.record() == ROUND


def test_append_returns_the_record_and_leaves_the_callers_message_alone(tmp_path: Path) -> None:
    session, message = talk(tmp_path), user("hi")
    record = session.append(message)
    assert {**message, "seq": 1, "ts": record["ts"]} == record
    record["content"] = message["content"] = "changed"
    assert session.surface() == [user("hi")]


def test_what_is_appended_is_there_for_another_process_at_once(tmp_path: Path) -> None:
    session = talk(tmp_path, user("hi"))
    program = f"from ctxlab.session import Session; print(Session.open({str(tmp_path)!r}, 'main').surface())"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[{'role': 'user', 'content': 'hi'}]"
    session.append(says("ho"))
    assert Session.open(tmp_path, "main", readonly=True).surface() == [user("hi"), says("ho")]


def test_an_append_waits_for_the_disk_once_and_a_group_once_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    fdatasync, fsync = os.fdatasync, os.fsync
    monkeypatch.setattr(os, "fdatasync", lambda handle: (flushed.append("file"), fdatasync(handle)))
    monkeypatch.setattr(os, "fsync", lambda handle: (flushed.append("folder"), fsync(handle)))
    session = Session.create(tmp_path / "new", "main")
    assert flushed[:3] == ["folder", "file", "folder"]  # the folder's own entry, the empty log, its entry
    flushed.clear()
    session.append(user("one"))
    assert flushed == ["file"]
    session.append_many([user("two")] * 8)
    assert flushed == ["file", "file"]
    other = Session.open(tmp_path / "new", "main", durability="os")
    flushed.clear()
    other.append(user("three"))
    assert flushed == []


def test_the_system_prompt_is_assembled_for_every_request_and_never_stored(tmp_path: Path) -> None:
    days = iter(["Today is Monday.", "Today is Tuesday.", "Today is Wednesday."])
    session = Session.create(tmp_path, "main", system=lambda: next(days))
    session.append(user("plan my week"))
    assert session.messages[0] == system("Today is Monday.")
    assert session.request()[0] == system("Today is Tuesday.")
    session.close()
    assert b"Today" not in file_of(tmp_path).read_bytes()
    again = Session.open(tmp_path, "main", system=lambda: next(days))
    assert again.messages == [system("Today is Wednesday."), user("plan my week")]


def test_a_stored_system_prompt_gives_way_to_the_one_of_today(tmp_path: Path) -> None:
    talk(tmp_path, system("Today is 2026-05-08."), user("plan my week")).close()
    session = Session.open(tmp_path, "main", system="Today is 2026-06-05.")
    assert session.messages == [system("Today is 2026-06-05."), user("plan my week")]
    assert Session.open(tmp_path, "main", readonly=True).messages[0] == system("Today is 2026-05-08.")


@pytest.mark.parametrize(
    "bad", [{"content": "no role"}, {"role": "user", "content": 7}, [], {"role": "user", "n": {1}}]
)
def test_what_is_no_message_is_refused_and_nothing_is_written(tmp_path: Path, bad: object) -> None:
    session = talk(tmp_path, user("hi"))
    before = file_of(tmp_path).read_bytes()
    with pytest.raises(MalformedMessage):
        session.append_many([says("fine"), bad])  # type: ignore[list-item]
    assert file_of(tmp_path).read_bytes() == before
    assert session.surface() == [user("hi")]


def test_a_session_that_ended_well_is_reopened_byte_for_byte(tmp_path: Path) -> None:
    talk(tmp_path, *ROUND).close()
    before = file_of(tmp_path).read_bytes()
    session = Session.open(tmp_path, "main")
    assert str(session.recovery) == "recovered 4 messages from disk"
    assert file_of(tmp_path).read_bytes() == before


@pytest.mark.parametrize("history", [[], [user("go"), calling("a", "b"), result("a")], [user("go"), calling("c")]])
def test_an_interrupted_call_is_answered_once(tmp_path: Path, history: list) -> None:
    talk(tmp_path, *history).close()
    first = Session.open(tmp_path, "main")
    bytes_after = file_of(tmp_path).read_bytes()
    surface = first.surface()
    first.close()
    second = Session.open(tmp_path, "main")
    assert second.recovery.repaired == 0
    assert second.surface() == surface
    assert file_of(tmp_path).read_bytes() == bytes_after
    assert surface[: len(history)] == history
    for provider in PROVIDERS if history else ():
        assert validate(surface, provider) == []


def test_a_call_in_the_middle_is_answered_directly_after_it_and_the_record_stays(tmp_path: Path) -> None:
    history = [user("list"), calling("c1"), user("still there?"), says("I stopped."), user("go on")]
    talk(tmp_path, *history).close()
    session = Session.open(tmp_path, "main")
    assert session.surface() == [*history[:2], result("c1", OUTCOME_UNKNOWN), *history[2:]]
    assert session.record() == history
    assert "mended what a provider would refuse (1 repair event)" in str(session.recovery)
    assert Session.open(tmp_path, "main").recovery.repaired == 0


def test_many_scattered_repairs_are_small_events_and_not_a_copy_of_everything(tmp_path: Path) -> None:
    history = []
    for number in range(200):
        history += [user(f"{number}"), calling(f"c{number}"), *([result(f"c{number}")] if number % 50 else [])]
    talk(tmp_path, *history).close()
    size = file_of(tmp_path).stat().st_size
    session = Session.open(tmp_path, "main")
    assert session.recovery.repaired == 4
    assert file_of(tmp_path).stat().st_size - size < 4_000
    assert validate(session.surface(), "openai") == []


def test_discard_drops_the_open_call_from_the_surface_and_not_from_the_record(tmp_path: Path) -> None:
    history = [*ROUND, user("again"), calling("c2", "c3"), result("c2")]
    talk(tmp_path, *history).close()
    session = Session.open(tmp_path, "main", mode="discard")
    assert session.surface() == [*ROUND, user("again")]
    assert session.record() == history
    again = Session.open(tmp_path, "main", mode="discard")
    assert again.recovery.repaired == 0
    assert again.surface() == [*ROUND, user("again")]


def test_a_tool_that_never_started_is_to_be_called_again_and_one_that_may_have_run_is_to_be_checked(
    tmp_path: Path,
) -> None:
    session = talk(tmp_path, user("refund both"), calling("a", "b"))
    session.tool_started("a")
    session.close()
    answers = {m["tool_call_id"]: m["content"] for m in Session.open(tmp_path, "main").surface()[2:]}
    assert answers == {"a": OUTCOME_UNKNOWN, "b": NEVER_STARTED}


def test_a_start_mark_of_an_earlier_call_with_the_same_id_does_not_count(tmp_path: Path) -> None:
    session = talk(tmp_path, user("one"), calling("call_0"))
    session.tool_started("call_0")
    session.append_many([result("call_0"), user("two"), calling("call_0")])
    session.close()
    assert Session.open(tmp_path, "main").surface()[-1]["content"] == NEVER_STARTED


@pytest.mark.parametrize("started", [False, True])
def test_a_renamed_call_is_still_known_by_its_start_mark(tmp_path: Path, started: bool) -> None:
    session = talk(tmp_path, user("one"), calling("call_0"))
    session.tool_started("call_0")
    session.append_many([result("call_0"), user("two"), calling("other", "call_0")])
    session.tool_started("other")
    if started:
        session.tool_started("call_0")
    session.close()
    answers = Session.open(tmp_path, "main").surface()[-2:]
    second = OUTCOME_UNKNOWN if started else NEVER_STARTED
    assert answers == [result("other", OUTCOME_UNKNOWN), result("call_0-2", second)]


def test_without_start_marks_the_outcome_is_unknown(tmp_path: Path) -> None:
    talk(tmp_path, user("go"), calling("c")).close()
    assert Session.open(tmp_path, "main").surface()[-1] == result("c", OUTCOME_UNKNOWN)


def test_a_torn_last_line_is_set_aside_and_reported_and_the_next_append_is_whole(tmp_path: Path) -> None:
    talk(tmp_path, user("one"), says("two")).close()
    whole = file_of(tmp_path).read_bytes()
    torn = b'{"seq":3,"role":"user","cont'
    file_of(tmp_path).write_bytes(whole + torn)
    session = Session.open(tmp_path, "main")
    assert (session.recovery.torn, Path(session.recovery.set_aside).read_bytes()) == (28, torn)
    assert str(session.recovery).startswith("recovered 2 messages from disk; set 28 bytes of an incomplete last line")
    assert file_of(tmp_path).read_bytes() == whole
    session.append(user("three"))
    session.close()
    again = Session.open(tmp_path, "main")
    assert again.surface() == [user("one"), says("two"), user("three")]
    assert again.recovery.torn == 0


def test_a_reader_does_not_touch_a_torn_line(tmp_path: Path) -> None:
    talk(tmp_path, user("one")).close()
    with file_of(tmp_path).open("ab") as file:
        file.write(b'{"seq":2,"ro')
    before = file_of(tmp_path).read_bytes()
    session = Session.open(tmp_path, "main", readonly=True)
    assert session.surface() == [user("one")]
    assert [problem.kind for problem in session.problems] == ["torn"]
    assert file_of(tmp_path).read_bytes() == before
    with pytest.raises(StoreError, match="reading only"):
        session.append(says("no"))


def test_a_whole_last_line_without_its_newline_is_data(tmp_path: Path) -> None:
    talk(tmp_path, user("one"), says("two")).close()
    whole = file_of(tmp_path).read_bytes()
    file_of(tmp_path).write_bytes(whole[:-1])
    assert Session.open(tmp_path, "main", readonly=True).surface() == [user("one"), says("two")]
    session = Session.open(tmp_path, "main")
    session.append(user("three"))
    assert session.surface() == [user("one"), says("two"), user("three")]
    assert file_of(tmp_path).read_bytes().startswith(whole)


def test_a_bit_flipped_in_the_last_newline_loses_nothing(tmp_path: Path) -> None:
    talk(tmp_path, user("one"), says("two")).close()
    data = file_of(tmp_path).read_bytes()
    for bit in range(8):
        file_of(tmp_path).write_bytes(data[:-1] + bytes([data[-1] ^ 1 << bit]))
        session = Session.open(tmp_path, "main")
        assert session.surface() == [user("one"), says("two")], f"bit {bit}"
        assert session.append(user("three"))["seq"] == 3
        session.close()
        assert Session.open(tmp_path, "main").surface() == [user("one"), says("two"), user("three")]


def test_padding_with_nuls_at_the_end_is_set_aside_like_a_torn_line(tmp_path: Path) -> None:
    talk(tmp_path, user("one")).close()
    with file_of(tmp_path).open("ab") as file:
        file.write(b"\0" * 300)
    session = Session.open(tmp_path, "main")
    assert session.recovery.torn == 300
    session.append(says("two"))
    assert b"\0" not in file_of(tmp_path).read_bytes()


def test_damage_in_the_middle_is_reported_with_its_place_and_loses_that_line_alone(tmp_path: Path) -> None:
    talk(tmp_path, user("one"), says("two"), user("three"), says("four")).close()
    lines = file_of(tmp_path).read_bytes().splitlines(keepends=True)
    file_of(tmp_path).write_bytes(lines[0] + b'{"seq":2,"role":"assis\n' + lines[2] + lines[3])
    session = Session.open(tmp_path, "main")
    assert session.surface() == [user("one"), user("three"), says("four")]
    (problem,) = session.problems
    assert (problem.kind, problem.line, problem.offset, problem.seq) == ("damaged", 2, len(lines[0]), 2)
    assert "line 2" in str(session.recovery)


def test_a_log_of_the_lesson_without_checksums_is_read_and_continued(tmp_path: Path) -> None:
    first = '{"seq":1,"role":"user","content":"hi","ts":"2026-09-04T10:00:00Z"}\n'
    text = first + '{"seq":2,"role":"assistant","content":"ho"}\n'
    file_of(tmp_path).write_text(text)
    session = Session.open(tmp_path, "main")
    assert session.problems == ()
    assert session.append(user("more"))["seq"] == 3
    assert file_of(tmp_path).read_text().startswith(text)


def test_two_writers_who_took_the_same_seq_lose_no_message(tmp_path: Path) -> None:
    seqs = [(1, "user", "from A"), (2, "assistant", "reply A"), (2, "user", "from B"), (3, "assistant", "reply B")]
    lines = [json.dumps({"seq": seq, "role": role, "content": text}) for seq, role, text in seqs]
    file_of(tmp_path).write_text("\n".join(lines) + "\n")
    session = Session.open(tmp_path, "main")
    assert [message["content"] for message in session.surface()] == [text for _, _, text in seqs]
    assert [problem.kind for problem in session.problems] == ["repeated-seq", "repeated-seq"]
    assert session.append(user("next"))["seq"] == 5
    session.close()
    assert Session.open(tmp_path, "main").record()[-1] == user("next")


def test_a_second_writer_is_told_and_a_reader_is_not_held_up(tmp_path: Path) -> None:
    first, second = talk(tmp_path, user("one")), Session.open(tmp_path, "main")
    with first.turn():
        first.append(says("two"))
        with pytest.raises(SessionBusy, match="held by another writer"):
            second.append(user("no"))
        with pytest.raises(SessionBusy):
            Session.open(tmp_path, "main")
        assert Session.open(tmp_path, "main", readonly=True).surface() == [user("one"), says("two")]
    assert second.append(user("three"))["seq"] == 3
    assert second.surface() == [user("one"), says("two"), user("three")]
    first.refresh()
    assert first.surface() == second.surface()


def test_a_second_writer_may_wait(tmp_path: Path) -> None:
    first, second = talk(tmp_path, user("one")), Session.open(tmp_path, "main", wait=True)
    seqs = []
    with first.turn():
        waiting = threading.Thread(target=lambda: seqs.append(second.append(user("waited"))["seq"]))
        waiting.start()
        first.append(says("two"))
    waiting.join(timeout=30)
    assert seqs == [3]


def test_a_fork_of_the_process_does_not_share_the_lock(tmp_path: Path) -> None:
    session = talk(tmp_path, user("one"))
    with session.turn():
        child = os.fork()
        if child == 0:
            try:
                Session.open(tmp_path, "main")
            except SessionBusy:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_threads_of_one_session_take_turns(tmp_path: Path) -> None:
    session = Session.create(tmp_path, "main", durability="os")

    def work(number: int) -> None:
        for count in range(20):
            with session.turn():
                session.append_many([user(f"{number}-{count}"), says("ok")])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [message["role"] for message in session.record()] == ["user", "assistant"] * 80
    assert Session.open(tmp_path, "main", readonly=True).record() == session.record()


def test_a_turn_is_what_was_sent_and_can_be_proved(tmp_path: Path) -> None:
    session = Session.create(tmp_path, "main", system="s")
    sent = []
    for number in range(4):
        session.append(user(f"q{number}"))
        sent.append(session.request()[1:])
        session.append(says(f"a{number}"))
    assert [session.surface_at(turn) for turn in (1, 2, 3, 4)] == sent
    assert [session.verify(turn).ok for turn in (1, 2, 3, 4)] == [True] * 4
    session.append_many([user("q"), says("without a request event")])
    assert session.surface_at(5)[-1] == user("q")
    assert session.verify(5).ok is None
    for turn in (0, 6, -1):
        with pytest.raises(IndexError, match="a session with 5 turns"):
            session.surface_at(turn)


def test_a_changed_log_does_not_verify(tmp_path: Path) -> None:
    session = talk(tmp_path, user("one"))
    session.request()
    session.append(says("two"))
    session.close()
    text = file_of(tmp_path).read_text().splitlines(keepends=True)
    forged = json.dumps({"seq": 1, "role": "user", "content": "ONE"}) + "\n"
    file_of(tmp_path).write_text(forged + "".join(text[1:]))
    assert Session.open(tmp_path, "main").verify(1).ok is False


def test_meta_can_be_deleted_or_broken_and_comes_back(tmp_path: Path) -> None:
    talk(tmp_path, *ROUND).close()
    path = tmp_path / "main.meta.json"
    right = {k: v for k, v in json.loads(path.read_text()).items() if k != "createdAt"}
    for broken in (None, b"", b"{", b"[]", b'{"id":"other","watermark":99}'):
        path.unlink() if broken is None else path.write_bytes(broken)
        Session.open(tmp_path, "main").close()
        assert {k: v for k, v in json.loads(path.read_text()).items() if k != "createdAt"} == right


def test_what_somebody_else_keeps_in_the_meta_file_stays(tmp_path: Path) -> None:
    talk(tmp_path, *ROUND).close()
    path = tmp_path / "main.meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "title": "trip", "watermark": 3}))
    Session.open(tmp_path, "main").close()
    assert json.loads(path.read_text())["title"] == "trip"
    assert json.loads(path.read_text())["watermark"] == 0


def test_names_that_are_no_file_names_unknown_and_taken_ones_are_told_apart(tmp_path: Path) -> None:
    talk(tmp_path).close()
    for name in ("../x", "a/b", "", ".hidden", "x" * 101):
        with pytest.raises(UnknownName, match="cannot be a session's id"):
            Session.create(tmp_path, name or "/")
    with pytest.raises(SessionExists):
        Session.create(tmp_path, "main")
    with pytest.raises(UnknownSession) as caught:
        Session.open(tmp_path, "mian")
    assert "did you mean 'main'" in caught.value.hint
    assert Session.open(tmp_path, "new", create=True).surface() == []


def test_a_closed_session_says_so(tmp_path: Path) -> None:
    session = talk(tmp_path, user("one"))
    session.close()
    session.close()
    with pytest.raises(StoreError, match="is closed"):
        session.append(says("x"))


def test_a_log_that_something_else_cut_short_is_noticed(tmp_path: Path) -> None:
    session = talk(tmp_path, user("one"), says("two"))
    os.truncate(file_of(tmp_path), 10)
    with pytest.raises(StoreError, match="10 bytes long"):
        session.append(user("three"))


def test_a_write_past_the_lock_is_noticed_and_everything_is_read_on_reopening(tmp_path: Path) -> None:
    session = talk(tmp_path, user("one"))
    with session.turn():
        with file_of(tmp_path).open("a") as file:
            file.write('{"seq":2,"role":"assistant","content":"without the lock"}\n')
        with pytest.raises(StoreError, match="something without the lock"):
            session.append(user("mine"))
    session.close()
    assert [m["content"] for m in Session.open(tmp_path, "main").surface()] == ["one", "without the lock", "mine"]


def test_import_and_a_whole_session_need_the_standard_library_alone(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "for name in ('orjson', 'tiktoken', 'sqlalchemy', 'click', 'rich', 'nbformat'): sys.modules[name] = None\n"
        "from ctxlab.session import Session\n"
        f"session = Session.create({str(tmp_path)!r}, 'plain')\n"
        "session.append_many([{'role': 'user', 'content': 'hi'}, {'role': 'assistant', 'content': 'ho'}])\n"
        "session.close()\n"
        f"print(Session.open({str(tmp_path)!r}, 'plain').recovery)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "recovered 2 messages from disk"
