"""Sessions on disk: appends, recovery, snapshots, forks; beside what the same bytes cost with nothing around them.

    python benchmarks/sessions.py [--messages 10000] [--rounds 9] [--peers]

10,000 messages, mean 400 characters, with tool calls. Floors, in the same run, taking turns block by block so that what
else the machine does hits all of them: ``os.write`` and ``os.fdatasync`` of the same lines, and bare ``sqlite3`` in WAL
mode with full synchronisation. ``--peers`` runs OpenAI Agents' ``SQLiteSession`` and LangGraph's ``SqliteSaver``
beside ctxlab instead, installed into an environment of their own (this asks the package index).

Goals: a durable append within 1.3 times the floor; append 10,000 at under 1.2 times append 100; one flush a turn at
least 2.5 times as fast as one a message; checked recovery within 2 times a bare line-by-line JSON parse; a snapshot of
100 messages at least 50 times faster than its log of 100,000; five forks at message 5,000 under 10 KB; the log within
1.1 times the JSON.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import random
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from _session_peers import in_own_environment

from ctxlab.compress import Compressed, Policy
from ctxlab.lines import encode, now
from ctxlab.session import Session

WORDS = ("the", "report", "says", "that", "a", "window", "of", "tokens", "is", "full", "and", "early", "talk", "unseen")
BLOCK = 50  # appends that one contender makes before the next one has its turn


def talk(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Rounds of user, call, result, answer: ``count`` messages, mean 400 characters, the same for the same seed."""
    dice = random.Random(seed)

    def text() -> str:
        return " ".join(dice.choices(WORDS, k=max(1, int(dice.expovariate(1 / 95)))))

    made: list[dict[str, Any]] = []
    while len(made) < count:
        name = f"call{len(made):08}"
        arguments = json.dumps({"path": text()})
        call = {"id": name, "type": "function", "function": {"name": "read_file", "arguments": arguments}}
        made += [
            {"role": "user", "content": text()},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": name, "content": text()},
            {"role": "assistant", "content": text()},
        ]
    return made[:count]


def timed(work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds that a call takes, the collector run before it; with ``time.process_time`` those of the processor, which
    what else the machine does hardly changes."""
    gc.collect()
    start = clock()
    work()
    return clock() - start


def line(label: str, value: str, goal: str = "") -> None:
    print(f"  {label:<58} {value:>16}   {goal}")


# Appends

prepared: dict[int, bytes] = {}
"""The line of each message, by the message's identity: the floors write what was made before the clock started."""


def raw_floor(folder: Path) -> Callable[[list[dict]], None]:
    handle = os.open(folder / "raw.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(messages: list[dict]) -> None:
        for message in messages:
            os.write(handle, prepared[id(message)])
            os.fdatasync(handle)

    return append


def sqlite_floor(folder: Path) -> Callable[[list[dict]], None]:
    database = sqlite3.connect(folder / "raw.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE messages (seq INTEGER PRIMARY KEY, line TEXT)")

    def append(messages: list[dict]) -> None:
        for message in messages:
            database.execute("INSERT INTO messages (line) VALUES (?)", (prepared[id(message)].decode(),))

    return append


def ctxlab_store(url: str, group: int = 1) -> Callable[[list[dict]], None]:
    session = Session.create(url, "bench")

    def append(messages: list[dict]) -> None:
        for start in range(0, len(messages), group):
            if group == 1:
                session.append(messages[start])
            else:
                session.append_many(messages[start : start + group])

    return append


def appends(folder: Path, messages: list[dict]) -> None:
    ts = now()
    for seq, message in enumerate(messages, 1):
        prepared[id(message)] = encode(seq, "message", message, ts)[0]
    contenders: dict[str, Callable[[list[dict]], None]] = {
        "write + fdatasync of the same lines (floor)": raw_floor(folder),
        "sqlite3, WAL, synchronous=FULL (floor)": sqlite_floor(folder),
        "ctxlab, folder": ctxlab_store(str(folder / "one")),
        "ctxlab, folder, one flush for a turn of 4": ctxlab_store(str(folder / "turn"), 4),
    }
    if importlib.util.find_spec("sqlalchemy"):
        contenders["ctxlab, sqlite"] = ctxlab_store(f"sqlite:///{folder / 'store.db'}")
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for start in range(0, len(messages), BLOCK):
        block = messages[start : start + BLOCK]
        for name, append in contenders.items():
            begin = time.perf_counter()
            append(block)
            times[name].append((time.perf_counter() - begin) / len(block))
    median = {name: statistics.median(found) for name, found in times.items()}
    floor = median["write + fdatasync of the same lines (floor)"]
    print(f"Appends, {len(messages):,} messages, median of blocks of {BLOCK}")
    for name, found in median.items():
        line(name, f"{found * 1e6:,.0f} us", f"{found / floor:.2f} of the floor")
    one, turn = median["ctxlab, folder"], median["ctxlab, folder, one flush for a turn of 4"]
    line("durable append against the floor", f"{one / floor:.2f}", "goal: 1.3 at most")
    line("one flush a turn against one a message", f"{one / turn:.2f} times", "goal: 2.5 at least")
    line("ctxlab, folder against bare sqlite3", f"{one / median['sqlite3, WAL, synchronous=FULL (floor)']:.2f}")


def growth(folder: Path, messages: list[dict]) -> None:
    """The cost of an append at message 100 and at the end; two sessions take turns."""
    short, long = Session.create(folder / "growth", "short"), Session.create(folder / "growth", "long")
    short.append_many(messages[:100])
    long.append_many(messages)
    times: tuple[list[float], list[float]] = ([], [])
    for message in messages[:400]:
        for session, found in zip((short, long), times, strict=True):
            begin = time.perf_counter()
            session.append(message)
            found.append(time.perf_counter() - begin)
    ratio = statistics.median(times[1]) / statistics.median(times[0])
    line(f"append at {len(messages):,} against append at 100", f"{ratio:.2f}", "goal: under 1.2")


# Reading back


def bare_parse(path: Path) -> int:
    count = 0
    parsed = []
    with path.open("rb") as file:
        for text in file:
            parsed.append(orjson.loads(text))
            count += 1
    return count


def recovery(folder: Path, messages: list[dict], rounds: int) -> None:
    session = Session.create(folder / "recovery", "main", durability="os")
    session.append_many(messages)
    session.close()
    path = folder / "recovery" / "main.jsonl"
    bare, opened, bare_cpu, opened_cpu = [], [], [], []

    def open_it() -> None:
        Session.open(folder / "recovery", "main").close()

    for _ in range(rounds):
        bare.append(timed(lambda: bare_parse(path)))
        opened.append(timed(open_it))
        bare_cpu.append(timed(lambda: bare_parse(path), time.process_time))
        opened_cpu.append(timed(open_it, time.process_time))
    print(f"Recovery, {len(messages):,} messages, {path.stat().st_size / 1e6:.1f} MB, best of {rounds}")
    line("bare line-by-line parse (orjson)", f"{min(bare) * 1e3:.1f} ms")
    line("ctxlab, opened and checked", f"{min(opened) * 1e3:.1f} ms")
    ratio = min(opened) / min(bare)
    line("checked recovery against the bare parse", f"{ratio:.2f}", "goal: 2 at most")
    line("the same in processor time", f"{min(opened_cpu) / min(bare_cpu):.2f}", "goal: 2 at most")
    plain = sum(len(orjson.dumps({"seq": n, **m, "ts": now()})) + 1 for n, m in enumerate(messages, 1))
    line("bytes on disk against the plain JSON lines", f"{path.stat().st_size / plain:.3f}", "goal: 1.1 at most")


def forks(folder: Path, messages: list[dict]) -> None:
    place = folder / "recovery"
    before = sum(path.stat().st_size for path in place.iterdir())
    session = Session.open(place, "main")
    middle = len(messages) // 2
    spent = timed(lambda: [session.fork(middle).close() for _ in range(5)])
    added = sum(path.stat().st_size for path in place.iterdir()) - before
    line(f"five forks at message {middle:,} add", f"{added:,} bytes", "goal: under 10,000")
    line("one fork, opened", f"{spent / 5 * 1e3:.1f} ms")


def snapshots(folder: Path, count: int, rounds: int) -> None:
    place = folder / "snapshot"
    session = Session.create(place, "main", durability="os")
    session.append_many(talk(count))
    policy = Policy(trigger=0, keep_recent=99, count=lambda history: sum(len(message.text) for message in history))
    assert isinstance(session.compact(lambda early: "What was said before.", policy), Compressed)
    size = len(session.surface())
    session.close()
    snapshot = place / "main.snapshot.json"
    kept = snapshot.read_bytes()
    fast, slow = [], []
    for _ in range(rounds):
        snapshot.write_bytes(kept)
        fast.append(timed(lambda: Session.open(place, "main").close()))
        snapshot.unlink()
        slow.append(timed(lambda: Session.open(place, "main").close()))
    print(f"Snapshot, a log of {count:,} messages with {size} on the surface, best of {rounds}")
    line("without", f"{min(slow) * 1e3:.1f} ms")
    line("with", f"{min(fast) * 1e3:.2f} ms")
    ratio = min(slow) / min(fast)
    line("how many times faster", f"{ratio:.0f}", "goal: 50 at least")


# Peers


def peers(folder: Path, messages: list[dict]) -> None:
    """Each figure for ctxlab and its peers, in one run, block by block in turns."""
    from _session_peers import contenders

    half, some = len(messages) // 2, messages[: len(messages) // 10]
    few, many = contenders(folder / "few"), contenders(folder / "many")
    rows: dict[str, dict[str, float]] = {name: {} for name in few}
    times: dict[str, dict[str, list[float]]] = {name: {"append us": [], "of 4 us": [], "late us": []} for name in few}
    # LangGraph writes hundreds of megabytes, and whoever flushes next waits for them: it has its turns when the others
    # are done.
    loads: dict[str, list[float]] = {name: [] for name in many}
    for together in ([name for name in few if name != "LangGraph SqliteSaver"], ["LangGraph SqliteSaver"]):
        for name in together:
            many[name].append(messages[:half], group=half)
            many[name].append(messages[half:], group=half)
        gc.freeze()  # nobody's collector looks through the messages of the others
        for start in range(0, len(some), 10):
            block = some[start : start + 10]
            for name in together:
                times[name]["append us"].append(timed(lambda c=few[name], b=block: c.append(b)) / 10)
                if start % 40 == 0:
                    times[name]["late us"].append(timed(lambda c=many[name], b=block[:4]: c.append(b)) / 4)
                    times[name]["of 4 us"].append(timed(lambda c=few[name], b=block[:8]: c.append(b, 4)) / 8)
        for _ in range(9):
            for name in together:
                loads[name].append(timed(many[name].load, time.process_time))
    for name in many:
        rows[name] |= {label: statistics.median(found) * 1e6 for label, found in times[name].items()}
        rows[name]["late/early"] = rows[name]["late us"] / (statistics.median(times[name]["append us"][:20]) * 1e6)
    plain = sum(len(orjson.dumps(message)) + 1 for message in messages)
    for name, contender in many.items():
        rows[name]["load cpu ms"] = min(loads[name]) * 1e3
        before = contender.disk()
        rows[name]["bytes/JSON"] = before / plain
        rows[name]["fork ms"] = timed(lambda c=contender: [c.fork(half) for _ in range(5)]) / 5e-3
        rows[name]["5 forks add"] = contender.disk() - before
    print(f"Peers: {len(some):,} appends one by one and in fours, then {len(messages):,} messages for the rest")
    table(rows)


def table(rows: dict[str, dict[str, float]]) -> None:
    """A row a contender, and below it how many times ctxlab's folder each figure is."""
    columns = list(next(iter(rows.values())))
    first = next(iter(rows.values()))
    print(f"  {'':<28}" + "".join(f"{column:>13}" for column in columns))
    for name, row in rows.items():
        print(f"  {name:<28}" + "".join(f"{row[column]:>13,.{0 if row[column] > 99 else 2}f}" for column in columns))
        if row is not first:
            ratios = "".join(f"{f'{row[column] / first[column]:,.2f} x':>13}" for column in columns)
            print(f"  {'    against ctxlab, folder':<28}{ratios}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=10_000, help="messages in the session (default 10000)")
    parser.add_argument("--rounds", type=int, default=9, help="repetitions of what is read (default 9)")
    parser.add_argument("--peers", action="store_true", help="install the peers apart and run them beside ctxlab")
    parser.add_argument("--peers-are-here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ctxlab-bench-"))
    messages = talk(options.messages)
    try:
        if options.peers:
            arguments = ["--peers-are-here", "--messages", str(options.messages)]
            raise SystemExit(in_own_environment(folder, Path(__file__), arguments))
        if options.peers_are_here:
            peers(folder, messages)
            return
        appends(folder, messages[: max(500, options.messages // 5)])
        growth(folder, messages)
        recovery(folder, messages, options.rounds)
        forks(folder, messages)
        snapshots(folder, options.messages * 10, options.rounds)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
