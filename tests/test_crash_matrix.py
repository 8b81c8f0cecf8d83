"""What a crash may leave: the log cut at every byte, the process killed at every step, a full disk, a failing flush.

The same script runs everywhere: forty appends, two compactions, a prune, two forks. Whatever is cut off or killed,
each reopening holds every message that was acknowledged, is valid for every provider, and repairs once.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from histories import calling, result, says, user

from ctxlab.compress import Compressed, Policy
from ctxlab.errors import ParentLost, SessionBusy, StoreError
from ctxlab.lines import encode
from ctxlab.log import START
from ctxlab.providers import PROVIDERS, validate
from ctxlab.repairs import OUTCOME_UNKNOWN
from ctxlab.session import Session
from ctxlab.store import jsonl

LONG = "some words of a talk"
SHORT = Policy(trigger=60)


def script(folder: Path, acknowledged: Callable[[str, list], None], durability: Any = "os") -> None:
    """The session that all tests crash. Tells of every message of every session as soon as its append returns."""
    session = Session.create(folder, "main", durability=durability)
    told: list[dict] = []

    def add(*messages: dict) -> None:
        session.append_many(messages)
        told.extend(messages)
        acknowledged("main", told)

    for number in range(8):
        name = f"call{number:05}"
        add(user(f"q{number} {LONG}"))
        add(calling(name, f"more{number:05}"))
        add(result(name, "x" * 90 if number == 6 else LONG))
        add(result(f"more{number:05}", "ok"))
        add(says(f"a{number} {LONG}"))
        if number in (2, 5):
            session.compact(lambda early: f"Summary of {len(early)}.", SHORT)
        if number == 6:
            session.prune(limit=80, head=10, tail=5)
        if number in (3, 6):
            child = session.fork(15 if number == 3 else None, name=f"fork{number}", deep=False)
            taken = told[:15] if number == 3 else list(told)
            acknowledged(child.id, taken)
            child.append(user(f"another way {LONG}"))
            acknowledged(child.id, [*taken, user(f"another way {LONG}")])
            child.close()
    session.close()


valid_already: set[str] = set()


def assert_valid(surface: list[dict]) -> None:
    """Valid for every provider; where the assistant spoke last, once the user has answered."""
    key = json.dumps(surface)
    if surface and key not in valid_already:
        asked = [*surface, user("go on")] if surface[-1]["role"] == "assistant" else surface
        for provider in PROVIDERS:
            assert validate(asked, provider) == []
        valid_already.add(key)


def reopened(folder: Path, name: str) -> list[dict]:
    """The record after recovery; asserts that the surface is valid and that a second opening has nothing to do."""
    first = Session.open(folder, name, durability="os")
    surface, record, events = first.surface(), first.record(), first.events
    first.close()
    assert_valid(surface)
    second = Session.open(folder, name, durability="os")
    assert (second.recovery.repaired, second.recovery.torn, second.recovery.stale_lock) == (0, 0, None)
    assert (second.surface(), second.events) == (surface, events)
    second.close()
    return record


@pytest.fixture
def no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting a file needs no disk that keeps its word."""
    monkeypatch.setattr(jsonl, "flush", lambda handle: None)
    monkeypatch.setattr(jsonl, "flush_folder", lambda folder: None)


def test_the_log_cut_at_every_byte_loses_nothing_that_was_whole(memory: Path, no_flush: None) -> None:
    there, here = memory / "there", memory / "here"
    acknowledged: dict[str, list[tuple[int, int]]] = {"main": [(0, 0)]}

    def note(name: str, messages: list) -> None:
        size = (there / f"{name}.jsonl").stat().st_size
        acknowledged.setdefault(name, []).append((size, len(messages)))

    script(there, note)
    here.mkdir()
    full = Session.open(there, "main", readonly=True).record()
    data = (there / "main.jsonl").read_bytes()
    lost = points = 0
    for size in range(len(data) + 1):
        for path in here.iterdir():
            path.unlink()
        (here / "main.jsonl").write_bytes(data[:size])
        record = reopened(here, "main")
        due = max(count for length, count in acknowledged["main"] if length <= size)
        lost += record[:due] != full[:due]
        points += 1
        if torn := list(here.glob("main.torn-*")):
            offset = int(torn[0].name.rpartition("-")[2])
            assert torn[0].read_bytes() == data[offset:size]
    for name in ("fork3", "fork6"):
        own = (there / f"{name}.jsonl").read_bytes()
        first, (_, taken) = acknowledged[name][0][0], acknowledged[name][0]
        (here / "main.jsonl").write_bytes(data)
        for size in range(first, len(own) + 1):  # before that the fork was not there at all
            (here / f"{name}.jsonl").write_bytes(own[:size])
            lost += reopened(here, name)[:taken] != full[:taken]
            points += 1
    print(f"crash points tried: {points}, acknowledged messages lost: {lost}")
    assert lost == 0
    assert points > 8_000


def test_a_fork_whose_parent_lost_the_shared_part_says_so_at_every_cut(tmp_path: Path, no_flush: None) -> None:
    script(tmp_path, lambda name, messages: None)
    data = (tmp_path / "main.jsonl").read_bytes()
    lines = data.splitlines(keepends=True)
    shared = json.loads((tmp_path / "fork3.jsonl").read_bytes().splitlines()[0])["parentEvents"]
    needed = sum(map(len, lines[:shared]))
    for size in [*range(0, needed - 1, 97), needed - 2]:
        (tmp_path / "main.jsonl").write_bytes(data[:size])
        with pytest.raises(ParentLost):
            Session.open(tmp_path, "fork3", durability="os")
    (tmp_path / "main.jsonl").write_bytes(data[:needed])
    assert len(Session.open(tmp_path, "fork3", durability="os").record()) == 16


# Killed, in real processes


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: a killed process leaves the same there, and thousands of flushes cost
    nothing."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared, prefix="ctxlab-") as folder:
        yield Path(folder)


STEPS = ("open", "write", "fdatasync", "fsync", "ftruncate", "replace", "link", "unlink")


def killed_at(step: int, half: bool, run: Callable[[], None]) -> tuple[bool, Any]:
    """Runs in a forked process that kills itself at the given system call (a write may go through by half first).

    Returns whether it was killed, and the status."""
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return status == -signal.SIGKILL, status
    count = 0

    def counted(name: str, call: Callable) -> Callable:
        def stepping(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count == step:
                if half and name == "write":
                    call(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                elif half:
                    call(*arguments, **named)
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return stepping

    status = 1
    try:
        for name in STEPS:
            setattr(os, name, counted(name, getattr(os, name)))
        run()
        status = 0
    finally:
        os._exit(status)


@pytest.mark.parametrize("half", [False, True], ids=["before", "within-or-after"])
def test_killed_at_every_step_nothing_acknowledged_is_lost(memory: Path, half: bool) -> None:
    write = os.write
    points = lost = step = 0
    while True:
        step += 1 + half  # every second step where the call itself is let through, wholly or by half
        folder = memory / str(step)
        reading, writing = os.pipe()

        def tell(name: str, messages: list, to: int = writing) -> None:
            write(to, json.dumps([name, messages]).encode() + b"\n")

        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1 << 20)  # room for all that a script says: nobody reads along
        killed, status = killed_at(step, half, lambda folder=folder, tell=tell: script(folder, tell, "disk"))
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            acknowledged = dict(json.loads(line) for line in pipe.read().splitlines())
        if not killed:
            assert status == 0
            break
        points += 1
        for name in Session.open(folder, "probe", create=True).store.names():
            record = reopened(folder, name)
            due = acknowledged.get(name, [])
            lost += record[: len(due)] != due
        missing = set(acknowledged) - set(Session.open(folder, "probe").store.names())
        assert missing == set()
    print(f"killed at {points} steps, acknowledged messages lost: {lost}")
    assert lost == 0
    assert points > 80


@pytest.mark.parametrize("half", [False, True], ids=["before", "within-or-after"])
def test_killed_at_every_step_of_a_recovery_the_next_one_ends_the_same(tmp_path: Path, half: bool) -> None:
    history = [*[user(LONG), says(LONG)] * 10, user("go"), calling("c1", "c2"), result("c1")]
    session = Session.create(tmp_path / "there", "main", durability="os")
    session.append_many(history)
    session.close()
    start, _ = encode(24, START, {"startSeq": 1, "endSeq": 18}, "2026-09-04T10:00:00.000Z")
    torn = (tmp_path / "there" / "main.jsonl").read_bytes() + start + b'{"seq":25,"role":"us'
    wanted = None
    for step in range(1, 100):
        folder = tmp_path / str(step)
        folder.mkdir()
        (folder / "main.jsonl").write_bytes(torn)
        killed, status = killed_at(step, half, lambda folder=folder: Session.open(folder, "main").close())
        record = reopened(folder, "main")
        assert (folder / f"main.torn-{len(torn) - 20}").read_bytes() == torn[-20:]
        for second in folder.glob("main.torn-*-2"):  # the recovery's own line, torn at the same place
            assert b'{"seq":25,"event":"session/end-seed"'.startswith(second.read_bytes()[:36])
        wanted = wanted or record
        assert record == wanted == [*history, result("c2", OUTCOME_UNKNOWN)]
        if not killed:
            assert status == 0
            break
    assert step > 10


def test_of_two_processes_that_compact_at_once_one_wins_and_one_is_told(tmp_path: Path) -> None:
    Session.create(tmp_path, "main").append_many([user(LONG), says(LONG)] * 10)
    started, told = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.read(started[0], 1)
            Session.open(tmp_path, "main")
        except SessionBusy:
            status = 7
        finally:
            os.write(told[1], b"x")
            os._exit(status)

    def summarize(early: list) -> str:
        os.write(started[1], b"x")
        os.read(told[0], 1)
        return "They talked."

    with Session.open(tmp_path, "main") as session:
        assert isinstance(session.compact(summarize, SHORT), Compressed)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    for end in (*started, *told):
        os.close(end)


# A disk that is full, or that fails


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session.create(tmp_path, "main")
    session.append_many([user("one"), says("two")])
    yield session
    session.close()


def on_disk(session: Session) -> bytes:
    return (Path(session.journal.store.folder) / "main.jsonl").read_bytes()  # type: ignore[attr-defined]


def test_a_full_disk_is_a_clear_error_and_the_log_stays_whole(session: Session) -> None:
    before = on_disk(session)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in range(0, 200, 7):
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, hard))
        try:
            with pytest.raises(StoreError, match=r"main.jsonl could not be written: File too large") as caught:
                session.append(user("x" * 300))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "make room" in caught.value.hint
        assert on_disk(session) == before
        assert session.surface() == [user("one"), says("two")]
    session.append(user("three"))
    assert Session.open(session.store, "main", readonly=True).surface() == session.surface()
    assert len(session.surface()) == 3


@contextmanager
def full_disk(folder: Path) -> Iterator[Callable[[], None]]:
    """A new folder on a disk of its own of 256 kB. Yields what fills the disk up, which returns what makes room again.

    Where nothing can be mounted (that takes root), a limit on the size of a file stands for the disk.
    """
    folder.mkdir()
    mounted = not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True, check=False
    ).returncode
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> Callable[[], None]:
        if mounted:
            with contextlib.suppress(OSError), (folder / "ballast").open("wb", buffering=0) as ballast:
                while ballast.write(bytes(4096)):
                    pass
            return (folder / "ballast").unlink
        largest = max(path.stat().st_size for path in folder.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 3000, hard))
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    try:
        yield fill
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        if mounted:
            subprocess.run(["umount", folder], check=True)


def test_a_disk_that_fills_up_loses_nothing_and_takes_more_when_there_is_room(tmp_path: Path) -> None:
    with full_disk(tmp_path / "disk") as fill:
        session = Session.create(tmp_path / "disk", "main")
        said = [user("one"), says("two")]
        session.append_many(said)
        make_room = fill()
        refused = None
        for number in range(1000):  # what is left of the last page of the disk takes a few more
            try:
                session.append(user(f"{number} {'x' * 300}"))
            except StoreError as error:
                refused = error
                break
            said.append(user(f"{number} {'x' * 300}"))
        assert refused is not None
        assert "main.jsonl could not be written" in str(refused)
        assert on_disk(session).endswith(b"\n")
        assert Session.open(session.store, "main", readonly=True).record() == said
        make_room()
        session.append(says("three"))
        session.close()
        again = Session.open(tmp_path / "disk", "main")
        assert (again.record(), again.problems, again.recovery.torn) == ([*said, says("three")], (), 0)
        again.close()


def test_a_full_disk_in_a_compaction_leaves_the_surface_and_the_next_opening_goes_on(tmp_path: Path) -> None:
    session = Session.create(tmp_path, "main")
    session.append_many([user(LONG), says(LONG)] * 10)
    surface = session.surface()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fills_the_disk(early: list) -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(on_disk(session)) + 10, hard))
        return "They talked."

    try:
        with pytest.raises(StoreError, match="File too large"):
            session.compact(fills_the_disk, SHORT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert session.surface() == surface
    session.close()
    again = Session.open(tmp_path, "main")
    assert again.recovery.stale_lock == 21
    assert isinstance(again.compact(lambda early: "They talked.", SHORT), Compressed)


@pytest.mark.parametrize("fails", ["flush", "flush-and-cut"])
def test_a_failing_flush_acknowledges_nothing_and_is_cut_back(
    session: Session, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    before, other = on_disk(session), Session.open(session.store, "main")

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with session.turn():
        monkeypatch.setattr(jsonl, "flush", fail)
        if fails == "flush-and-cut":
            monkeypatch.setattr(os, "ftruncate", fail)
        with pytest.raises(StoreError, match="Input/output error"):
            session.append(user("never acknowledged"))
        monkeypatch.undo()
        assert session.surface() == [user("one"), says("two")]
        session.append(user("three"))
        assert on_disk(session).startswith(before)
        assert b"never acknowledged" not in on_disk(session)
    assert session.append(says("four"))["seq"] == 4
    assert other.append(user("five"))["seq"] == 5
    assert other.surface()[2:] == [user("three"), says("four"), user("five")]


def test_what_could_not_be_cut_off_is_read_by_the_next_writer_and_by_this_one(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(jsonl, "flush", fail)
    monkeypatch.setattr(os, "ftruncate", fail)
    with pytest.raises(StoreError):
        session.append(user("there all the same"))
    monkeypatch.undo()
    other = Session.open(session.store, "main")
    assert other.append(says("four"))["seq"] == 4
    session.append(user("five"))
    assert session.surface() == [user("one"), says("two"), user("there all the same"), says("four"), user("five")]


def test_a_short_write_is_completed(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, bytes(data)[:3]))
    session.append(user("three"))
    monkeypatch.undo()
    assert Session.open(session.store, "main", readonly=True).surface()[-1] == user("three")


def test_a_meta_file_that_cannot_be_replaced_is_said_and_the_log_is_untouched(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.append_many([user(LONG), says(LONG)] * 10)
    replace = os.replace

    def fail(source: Any, target: Any) -> None:
        if str(target).endswith("meta.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StoreError, match=r"main.meta.json could not be written: No space left"):
        session.compact(lambda early: "They talked.", SHORT)
    monkeypatch.undo()
    assert session.watermark > 0
    session.close()
    again = Session.open(session.store, "main")
    assert again.watermark == session.watermark
    assert again.store.read_meta("main")["watermark"] == again.watermark  # type: ignore[index]
