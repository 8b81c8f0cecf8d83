"""One contract for every store: the folder of JSONL files, SQLite, PostgreSQL."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
import sqlalchemy as sql
from histories import calling, result, says, user
from stores import KINDS, fresh

from ctxlab.compress import Compressed, Policy
from ctxlab.errors import SessionBusy, SessionExists, StoreError, UnknownName, UnknownSession
from ctxlab.repairs import OUTCOME_UNKNOWN
from ctxlab.session import Session
from ctxlab.store import Store, open_store

LONG = "a word or two of what was said here and there, and then some more of it"


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh(request.param, tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = open_store(url)
    yield store
    store.close()


def test_lines_come_back_in_order_and_from_any_position(store: Store) -> None:
    store.create("s", [b'{"seq":1,"role":"user","content":"a"}\n'])
    writer = store.writer("s")
    first = writer.acquire(0)
    second = writer.append([b'{"seq":2,"role":"user","content":"b"}\n', b'{"seq":3,"role":"user","content":"c"}\n'])
    third = writer.append([b'{"seq":4,"role":"user","content":"d"}\n'], durable=False)
    assert store.read("s").data.count(b"\n") == 4
    assert store.read("s", first.position).data.count(b"\n") == 3
    assert store.read("s", second).data == b'{"seq":4,"role":"user","content":"d"}\n'
    assert store.read("s", third).data == b""
    assert store.read("s", third).position == third
    writer.close()


def test_the_writer_gets_what_others_wrote_since(store: Store) -> None:
    store.create("s")
    one, two = store.writer("s"), store.writer("s")
    at = one.acquire(0).position
    one.append([b'{"seq":1,"role":"user","content":"a"}\n'])
    with pytest.raises(SessionBusy, match="session 's' is held by another writer"):
        two.acquire(0)
    one.release()
    assert two.acquire(at).data == b'{"seq":1,"role":"user","content":"a"}\n'
    two.release()
    assert one.acquire(at).data == b'{"seq":1,"role":"user","content":"a"}\n'
    one.close()
    two.close()


def test_an_append_without_the_lock_is_refused(store: Store) -> None:
    store.create("s")
    writer = store.writer("s")
    with pytest.raises(StoreError, match="without its lock"):
        writer.append([b"{}\n"])
    writer.close()


def test_sessions_are_listed_created_once_and_deleted_whole(store: Store) -> None:
    assert store.names() == []
    for name in ("b", "a", "a.b"):
        store.create(name)
    assert store.names() == ["a", "a.b", "b"]
    with pytest.raises(SessionExists):
        store.create("a")
    store.write_meta("a", {"id": "a"})
    store.write_meta("a.b", {"id": "a.b"})
    store.write_snapshot("a", b"x")
    store.delete("a")
    assert store.names() == ["a.b", "b"]
    assert not store.exists("a")
    assert (store.read_meta("a"), store.read_snapshot("a")) == (None, None)
    assert store.read_meta("a.b") == {"id": "a.b"}
    for gone in (store.read, store.writer, store.delete):
        with pytest.raises(UnknownSession, match="no session 'a'"):
            gone("a")


def test_a_held_session_is_not_deleted(store: Store) -> None:
    store.create("s")
    writer = store.writer("s")
    writer.acquire(0)
    with pytest.raises(SessionBusy):
        store.delete("s")
    writer.close()
    store.delete("s")


def test_a_writer_of_a_deleted_session_is_told(store: Store) -> None:
    store.create("s")
    writer = store.writer("s")
    position = writer.acquire(0).position
    writer.release()
    store.delete("s")
    with pytest.raises(UnknownSession):
        writer.acquire(position)
    writer.close()


def test_meta_and_snapshot_are_replaced_as_a_whole(store: Store) -> None:
    store.create("s")
    assert (store.read_meta("s"), store.read_snapshot("s")) == (None, None)
    for meta in ({"id": "s", "title": "é \ud800", "watermark": 3}, {"id": "s"}):
        store.write_meta("s", meta)
        assert store.read_meta("s") == meta
    for snapshot in (b"\x00\xff", b"second", None):
        store.write_snapshot("s", snapshot)
        assert store.read_snapshot("s") == snapshot


def test_a_session_lives_in_any_store(store: Store) -> None:
    session = Session.create(store, "main", system="be brief")
    odd = {"role": "user", "content": "h\u00e9 \ud800 \x00 <|endoftext|>\n\u2028", "seq": 9, "n": 1.5}
    session.append_many([odd, calling("c1"), result("c1"), says(LONG)])
    assert session.request()[0]["role"] == "system"
    for number in range(12):
        session.append_many([user(f"q{number} {LONG}"), says(LONG)])
    assert isinstance(session.compact(lambda early: "They talked.", Policy(trigger=100)), Compressed)
    session.append_many([user("more"), calling("c2")])
    child = session.fork(4, name="child")
    child.append_many([user("another way"), says("fine")])
    session.close()
    child.close()
    again, child = Session.open(store, "main"), Session.open(store, "child")
    assert again.recovery.snapshot
    assert again.record()[0] == odd
    assert again.surface()[-1] == result("c2", OUTCOME_UNKNOWN)
    assert again.verify(3).ok
    assert child.record() == [odd, calling("c1"), result("c1"), says(LONG), user("another way"), says("fine")]
    assert (child.parent_id, child.forked_at) == ("main", 4)
    assert "child forked at 4, 2 messages of its own" in str(again.tree())
    assert again.cost().total.requests > again.cost().own.requests > 0
    again.close()
    assert Session.open(store, "main").recovery.repaired == 0


def test_many_sessions_are_open_at_once(store: Store) -> None:
    sessions = [Session.create(store, f"s{number}", durability="os") for number in range(20)]
    for session in sessions:
        session.append(user(session.id))
    assert [session.surface() for session in sessions] == [[user(f"s{number}")] for number in range(20)]
    for session in sessions:
        session.close()


def test_a_session_goes_from_any_store_into_a_folder(store: Store, tmp_path: Path) -> None:
    session = Session.create(store, "main")
    session.append_many([user("one"), says("two")])
    copy = Session.reproduce(store, "main", tmp_path / "copy")
    assert copy.record() == session.record()
    assert [event.crc for event in copy.events[:2]] == [event.crc for event in session.events]


def _appends(url: str, number: int, count: int, at_once: int) -> None:
    session = Session.open(url, "main", durability="os", wait=True)
    for start in range(0, count, at_once):
        with session.turn():
            session.append_many([user(f"{number}:{start + place}") for place in range(at_once)])
    session.close()


@pytest.mark.parametrize(
    ("kind", "writers", "at_once"),
    [
        ("folder", 8, 1),
        ("sqlite", 8, 20),
        ("postgresql", 8, 20),
        *(
            pytest.param(kind, writers, 1, marks=pytest.mark.slow)
            for kind in ("folder", "sqlite", "postgresql")
            for writers in (2, 4, 8)
            if (kind, writers) != ("folder", 8)
        ),
    ],
)
def test_processes_that_append_a_thousand_messages_each_share_one_numbering(
    kind: str, writers: int, at_once: int, tmp_path: Path
) -> None:
    url = fresh(kind, tmp_path)
    Session.create(url, "main").close()
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_appends, args=(url, number, 1_000, at_once)) for number in range(writers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=120)
    assert [worker.exitcode for worker in workers] == [0] * writers
    session = Session.open(url, "main")
    assert session.problems == ()
    assert [event.seq for event in session.events] == list(range(1, 1_000 * writers + 1))
    texts = [message["content"] for message in session.record()]
    for number in range(writers):
        own = [text for text in texts if text.startswith(f"{number}:")]
        assert own == [f"{number}:{count}" for count in range(1_000)]
    session.close()


def test_a_writer_that_was_killed_leaves_no_lock(url: str) -> None:
    Session.create(url, "main").close()
    program = (
        "import os, sys\n"
        "from ctxlab.session import Session\n"
        "session = Session.open(sys.argv[1], 'main')\n"
        "with session.turn():\n"
        "    session.append({'role': 'user', 'content': 'last words'})\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    session = Session.open(url, "main", wait=True)
    assert session.surface() == [user("last words")]
    session.close()


def test_a_writer_that_waits_for_a_time_is_told_when_it_is_over(url: str) -> None:
    holder = Session.create(url, "main")
    with holder.turn():
        start = monotonic()
        with pytest.raises(SessionBusy, match="held by another writer"):
            Session.open(url, "main", wait=0.15)
        assert 0.15 <= monotonic() - start < 10
    holder.close()


def test_a_writer_that_waits_for_a_time_goes_on_when_the_lock_is_free(url: str) -> None:
    holder = Session.create(url, "main")
    other = Session.open(url, "main", wait=60.0)
    inside, free = threading.Event(), threading.Event()

    def hold() -> None:
        with holder.turn():
            inside.set()
            free.wait(0.1)
            holder.append(user("first"))

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(30)
    assert other.append(user("second"))["seq"] == 2
    thread.join()
    other.close()
    holder.close()


def test_a_lost_database_connection_is_an_error_and_the_next_turn_has_a_new_one(tmp_path: Path) -> None:
    url = fresh("postgresql", tmp_path)
    session = Session.create(url, "main")
    session.append(user("one"))
    engine = sql.create_engine(url)
    with session.turn():
        mine = session.journal._writer._connection  # type: ignore[union-attr]
        backend = mine.execute(sql.text("SELECT pg_backend_pid()")).scalar()
        mine.rollback()
        with engine.begin() as connection:
            connection.execute(sql.text("SELECT pg_terminate_backend(:backend)"), {"backend": backend})
        with pytest.raises(StoreError, match="session 'main' could not be written"):
            session.append(says("lost"))
    engine.dispose()
    assert session.append(says("two"))["seq"] == 2
    assert session.surface() == [user("one"), says("two")]
    session.close()


def test_a_store_is_chosen_by_url(tmp_path: Path) -> None:
    assert open_store(tmp_path / "x").url == (tmp_path / "x").as_uri()
    assert open_store((tmp_path / "a b").as_uri()).url == (tmp_path / "a b").as_uri()
    with pytest.raises(UnknownName, match="unknown kind of store 'postgre'") as caught:
        open_store("postgre://x")
    assert "did you mean 'postgresql'" in caught.value.hint


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        open_store("postgresql://me:secret@127.0.0.1:1/nowhere")
    assert "secret" not in str(caught.value)


def test_a_database_in_memory_works_for_one_process() -> None:
    session = Session.create("sqlite://", "main")
    session.append(user("hi"))
    assert Session.open(session.store, "main", readonly=True).surface() == [user("hi")]


def test_a_database_of_a_later_version_is_refused(tmp_path: Path) -> None:
    url = fresh("sqlite", tmp_path)
    store = open_store(url)
    store.close()
    engine = sql.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sql.text("UPDATE ctxlab_schema SET version = 99"))
    engine.dispose()
    with pytest.raises(StoreError, match="layout 99, made by a later ctxlab"):
        open_store(url)


def test_an_older_database_is_brought_up_to_date_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ctxlab.store import sql as module

    url = fresh("sqlite", tmp_path)
    Session.create(url, "main").close()
    ran = []
    monkeypatch.setattr(module, "VERSION", 3)
    monkeypatch.setattr(module, "MIGRATIONS", {number: lambda _, at=number: ran.append(at) for number in (1, 2)})
    assert open_store(url).names() == ["main"]
    assert ran == [1, 2]
    open_store(url).close()
    assert ran == [1, 2]


def test_a_damaged_row_is_reported_and_loses_that_row_alone(tmp_path: Path) -> None:
    url = fresh("sqlite", tmp_path)
    session = Session.create(url, "main")
    session.append_many([user("one"), says("two"), user("three")])
    session.close()
    engine = sql.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sql.text("UPDATE ctxlab_messages SET line = replace(line, 'two', 'tw0') WHERE n = 2"))
    engine.dispose()
    again = Session.open(url, "main")
    assert again.surface() == [user("one"), user("three")]
    assert [(problem.kind, problem.line, problem.seq) for problem in again.problems] == [("damaged", 2, 2)]
    again.close()
