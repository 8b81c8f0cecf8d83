"""The memory on disk: several processes, crashes, forks, and what goes wrong, in words."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading

import pytest
from memory_facts import Clock, texts

from ctxlab.errors import StoreError, UnknownItem, WrongArgument
from ctxlab.memory import (
    SHORT_TERM,
    MemoryStore,
)
from ctxlab.memory import database as tables
from ctxlab.memory.store import QUERY_WORDS


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(clock):
    with MemoryStore(clock=clock) as made:
        yield made


# --- on disk --------------------------------------------------------------------------------------------------------


def test_what_one_process_stored_another_finds(tmp_path):
    path = tmp_path / "deep" / "memory.db"
    with MemoryStore(path) as store:
        store.remember("I live in Shanghai", "s1")
    script = (
        f"from ctxlab.memory import MemoryStore; print(MemoryStore({str(path)!r}).retrieve('shanghai')[0].item.text)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "I live in Shanghai\n"


def _write(path, name, count, start):
    start.wait()
    with MemoryStore(path) as store:
        for number in range(count):
            store.remember(f"writer {name} fact {number}", f"s-{name}")
            store.remember(f"shared fact {number}", f"s-{name}", SHORT_TERM)
            if number % 3 == 2:
                store.supersede(
                    store.remember(f"draft {number} of {name}", "s").id, f"final {number} of {name}", f"s-{name}"
                )


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    path, count, names = tmp_path / "memory.db", 30, ("a", "b", "c")
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    writers = [context.Process(target=_write, args=(path, name, count, start)) for name in names]
    for writer in writers:
        writer.start()
    start.set()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    with MemoryStore(path) as store:
        live = {item.text: item for item in store.items()}
        assert {f"writer {name} fact {number}" for name in names for number in range(count)} <= set(live)
        assert {f"final {number} of {name}" for name in names for number in range(2, count, 3)} <= set(live)
        assert [live[f"shared fact {number}"].seen for number in range(count)] == [3] * count
        assert len(live) == 3 * count + count + 3 * (count // 3)
        assert texts(store.retrieve("writer b fact 17"))[0] == "writer b fact 17"
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_writer_killed_in_mid_write_loses_nothing_that_was_acknowledged(tmp_path):
    path = tmp_path / "memory.db"
    script = (
        "from ctxlab.memory import MemoryStore; import itertools\n"
        f"store = MemoryStore({str(path)!r})\n"
        "for n in itertools.count(): print(store.remember(f'fact {n}', 's').id, flush=True)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    seen = [int(writer.stdout.readline()) for _ in range(40)]
    writer.kill()
    seen += [int(line) for line in writer.stdout.read().splitlines() if line]
    writer.wait()
    with MemoryStore(path) as store:
        assert {item.id for item in store.items()} >= set(seen)
        assert texts(store.retrieve("fact 39"))[0] == "fact 39"
        store.remember("and it goes on", "s")


def test_threads_share_one_store(tmp_path):
    with MemoryStore(tmp_path / "memory.db") as store:

        def write(name):
            for number in range(10):
                store.remember(f"{name} {number}", name)
                store.retrieve(name)

        threads = [threading.Thread(target=write, args=(name,)) for name in ("x", "y", "z")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store.items()) == 30


def test_a_forked_child_opens_the_memory_anew(tmp_path):
    with MemoryStore(tmp_path / "memory.db") as store:
        store.remember("before", "s1")
        child = os.fork()
        if child == 0:
            try:
                store.remember("in the child", "s1")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        store.remember("after", "s1")
        assert [item.text for item in store.items()] == ["before", "in the child", "after"]


def test_a_failed_change_leaves_nothing_behind(store):
    store.remember("a", "s1")
    with pytest.raises(UnknownItem):
        store.remember("b", "s1", supersedes=99)
    assert [item.text for item in store.items(past=True)] == ["a"]
    assert store.retrieve("b") == []


def test_the_memory_may_live_beside_other_tables(tmp_path):
    path = tmp_path / "all.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE items (id)")
    other.execute("PRAGMA user_version = 42")
    other.commit()
    with MemoryStore(path) as store:
        store.remember("a", "s1")
    assert other.execute("PRAGMA user_version").fetchone() == (42,)
    names = {name for (name,) in other.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {name for name in names if not name.startswith(("ctxlab_memory_", "sqlite_"))} == {"items"}


def test_a_closed_store_opens_again(tmp_path):
    store = MemoryStore(tmp_path / "memory.db")
    store.remember("a", "s1")
    store.close()
    assert len(store.items()) == 1
    store.close()


def test_any_text_is_stored_as_it_came(store):
    for text in ("a\0b", "line\nbreak", "😀 ok", "cafe\u0301", "ﬁne"):
        assert store.remember(text, "s1").text == text
    assert store.remember("half \ud83d", "s\udc00").text == "half \ufffd"


# --- what goes wrong, in words --------------------------------------------------------------------------------------


def test_a_sqlite_without_fts5_is_named(monkeypatch):
    monkeypatch.setattr(tables, "_TABLES", tables._TABLES.replace("USING fts5(", "USING fts5_that_is_not_built_in("))
    with pytest.raises(StoreError, match="no such module: fts5") as caught:
        MemoryStore()
    assert "without FTS5" in caught.value.hint


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, not a database " * 40)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a database") as caught:
        MemoryStore(path)
    assert "another file" in caught.value.hint
    assert path.read_bytes() == before


def test_a_layout_of_a_later_version_is_refused(tmp_path):
    path = tmp_path / "memory.db"
    MemoryStore(path).close()
    database = sqlite3.connect(path)
    database.execute("UPDATE ctxlab_memory_schema SET version = 9")
    database.commit()
    with pytest.raises(StoreError, match="layout 9") as caught:
        MemoryStore(path)
    assert caught.value.hint == "upgrade ctxlab"


def test_a_writer_that_waits_too_long_is_told_why(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BUSY_SECONDS", 0.05)
    path = tmp_path / "memory.db"
    with MemoryStore(path) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="locked") as caught:
            store.remember("a", "s1")
        assert "another process" in caught.value.hint
        assert store.items() == []  # readers do not wait, for an exclusive writer neither
        other.execute("ROLLBACK")
        store.remember("a", "s1")


def test_a_memory_is_made_while_another_process_writes_the_file(tmp_path):
    """The switch to WAL fails at once beside a writer, whatever the busy time-out: seen with ten processes at once."""
    path = tmp_path / "memory.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE notes (text)")
    other.execute("BEGIN IMMEDIATE")
    end = threading.Timer(0.2, other.execute, ["COMMIT"])
    end.start()
    with MemoryStore(path) as store:
        assert store.remember("a", "s1").id == 1
        assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._database._connected().execute("PRAGMA synchronous").fetchone() == (2,)  # 2 is FULL
    end.join()


def test_a_path_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="could not be"):
        MemoryStore(tmp_path / "file" / "memory.db")


@pytest.mark.parametrize(("text", "session"), [("", "s1"), ("  ", "s1"), (None, "s1"), ("a", ""), ("a", None)])
def test_a_fact_needs_a_text_and_a_session(store, text, session):
    with pytest.raises(WrongArgument):
        store.remember(text, session)
    with pytest.raises(WrongArgument):
        store.recur(text, session)


def test_a_query_is_a_text(store):
    with pytest.raises(WrongArgument):
        store.retrieve(None)


def test_importing_the_memory_needs_the_standard_library_alone():
    script = "import sys, ctxlab.memory; print([n for n in ('tiktoken','pandas','sqlalchemy') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "[]\n"


def test_a_long_query_searches_for_its_rarest_words(store):
    for number in range(20):
        store.remember(" ".join(f"w{number * 20 + word}" for word in range(40)), "s1")  # neighbours share 20 words
    weights = store._weights(store._database._connected(), " ".join(f"w{word}" for word in range(420)))
    assert len(weights) == QUERY_WORDS
    assert {f"w{word}" for word in (*range(20), *range(400, 420))} <= set(weights)  # those that one item alone holds
