"""The worker process: it answers, it has limits, and nothing of it is left."""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctxlab.errors import UnknownName
from ctxlab.sandbox import (
    LEVELS,
    Broken,
    Here,
    Isolation,
    IsolationTooWeak,
    Limits,
    ServiceRaised,
    Worker,
    at_level,
    available,
    hide_argument,
    require_isolation,
)
from ctxlab.sandbox.fork import Fork
from ctxlab.sandbox.worker import NotPlain, plain

QUICK = Limits(wall=20.0, cpu=0, load_cpu=0)
WORKING = available()  # each level that this machine has is tried with the same tests

SOURCE = """
import asyncio, os, sys, time

def double(x):
    return [x, x]

def spoil(x):
    x.append(1)
    return None

def loop():
    while True:
        pass

def nap():
    time.sleep(600)

def leave():
    os._exit(0)

def exit_politely():
    sys.exit(3)

def crash():
    import ctypes
    ctypes.string_at(0)

def devour():
    return len(bytearray(3 << 30))

def shout():
    print("x" * 20_000_000)
    return "done"

def deep(n=0):
    return deep(n + 1)

def ask(summarize):
    return "<" + summarize([{"role": "user"}]) + ">"

async def ask_later(summarize):
    return "<" + await summarize([{"role": "user"}]) + ">"

def survive(mark):
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.chdir("/")
                os.execve("/bin/sleep", ["sleep", mark], {})
            os._exit(0)
    time.sleep(0.2)
    return "left some behind"

def bomb():
    made = 0
    try:
        while made < 3000:
            if os.fork() == 0:
                time.sleep(1000)
            made += 1
    except OSError:
        pass
    return made

def work(path):
    with open(path, "w") as file:
        file.write("x")
    return open(path).read()

def forge(text):
    for fd in range(3, 256):
        try:
            os.write(fd, text.encode())
        except OSError:
            pass
    return 1

def environment():
    return dict(os.environ)

def write_big():
    with open("big", "wb") as file:
        for _ in range(200):
            file.write(b"x" * (1 << 20))

def nan():
    return float("nan")

def cyclic():
    a = []
    a.append(a)
    return a

def outside():
    open("/var/tmp/ctxlab-was-here", "w").write("x")
"""


@pytest.fixture(params=WORKING)
def level(request: pytest.FixtureRequest) -> Iterator[Isolation]:
    with at_level(request.param) as how:
        yield how


@pytest.fixture
def worker(level: Isolation) -> Iterator[Worker]:
    with Worker(QUICK) as worker:
        assert worker.isolation is level
        answer = worker.channel.ask({"do": "run", "file": "cell 1", "line": 1, "source": SOURCE})
        assert "error" not in answer
        yield worker


def call(worker: Worker | Fork | Here, function: str, *values: object, **options: object) -> dict:
    args = [{"value": value} for value in values]
    return worker.channel.ask({"do": "call", "function": function, "args": args, **options})


def test_an_answer_is_the_value_and_the_arguments_afterwards(worker):
    answer = call(worker, "double", {"a": "\ud800 é"})
    assert answer["value"] == [{"a": "\ud800 é"}] * 2
    assert call(worker, "spoil", [5])["after"] == [[5, 1]]


def test_an_exception_comes_back_with_the_learners_own_line(worker):
    error = call(worker, "double")["error"]
    assert error["type"] == "TypeError"
    worker.channel.ask({"do": "run", "file": "cell 2", "line": 7, "source": "def bad():\n    return {}['k']\n"})
    assert call(worker, "bad")["error"]["lines"] == [{"place": "cell 2", "line": 8, "code": "return {}['k']"}]


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        ("loop", "timeout", "CPU time limit"),
        ("leave", "died", "ended itself (exit status 0)"),
        ("crash", "died", "SIGSEGV"),
    ],
)
def test_what_ends_the_worker_is_told(worker, function, kind, words):
    with pytest.raises(Broken) as broken:
        call(worker, function)
    assert broken.value.kind == kind
    assert words in str(broken.value)


def test_a_sleeper_meets_the_wall_clock():
    with Worker(Limits(wall=0.5)) as worker:
        worker.channel.ask({"do": "run", "file": "a", "line": 1, "source": SOURCE}, wall=10)
        started = time.monotonic()
        with pytest.raises(Broken, match="time limit") as broken:
            call(worker, "nap")
        assert broken.value.kind == "timeout"
        assert time.monotonic() - started < 5


def test_a_polite_exit_and_a_deep_recursion_are_errors_like_others(worker):
    assert call(worker, "exit_politely")["error"]["type"] == "SystemExit"
    assert call(worker, "deep")["error"]["type"] == "RecursionError"
    assert call(worker, "double", 1)["value"] == [1, 1]


def test_memory_and_file_size_are_limited(worker):
    assert call(worker, "devour")["error"]["type"] == "MemoryError"
    assert call(worker, "write_big")["error"]["type"] == "OSError"


def test_output_is_drained_and_kept_up_to_its_limit(worker):
    assert call(worker, "shout")["value"] == "done"
    assert len(worker.channel.output) == QUICK.output


def test_a_service_answers_sync_and_async_functions(worker):
    heard = []
    services = {"summarize": lambda args: heard.append(args) or "short"}
    for function in ("ask", "ask_later"):
        question = {"do": "call", "function": function, "args": [{"service": "summarize"}], "may_await": True}
        assert worker.channel.ask(question, services)["value"] == "<short>"
    assert heard == [[[{"role": "user"}]]] * 2


def test_a_service_that_raises_raises_in_the_learners_code(worker):
    def fail(args):
        raise ServiceRaised("TimeoutError", "no model")

    question = {"do": "call", "function": "ask", "args": [{"service": "summarize"}]}
    assert worker.channel.ask(question, {"summarize": fail})["error"]["type"] == "TimeoutError"


def test_what_json_has_no_word_for_is_described(worker):
    assert "nan" in call(worker, "nan")["problem"]
    assert "holds itself" in call(worker, "cyclic")["problem"]


def test_a_line_of_another_in_the_answer_pipe_is_noticed_and_never_taken(worker):
    with pytest.raises(Broken) as broken:
        call(worker, "forge", '{"id": "0123456789abcdef", "value": [1]}\n')
    assert broken.value.kind == "channel"


def test_nothing_of_the_askers_environment_is_there(worker, monkeypatch):
    found = call(worker, "environment")["value"]
    assert set(found) <= {"HOME", "TMPDIR", "TZ", "LANG", "LC_CTYPE", "PATH", "CTXLAB_WORKER", "OPENBLAS_NUM_THREADS",
                          "MOCK", "PWD"}  # fmt: skip
    assert found["HOME"] == str(worker.home)


def commands() -> str:
    """The command lines of all processes."""
    found = b""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += Path(f"/proc/{pid}/cmdline").read_bytes() + b"\n"
        except OSError:
            continue
    return found.decode(errors="replace")


def test_nothing_of_a_worker_is_alive_afterwards(level):
    """Children that forked twice, left session, folder and environment, and run another program."""
    mark = f"86400.{secrets.randbelow(10**9):09d}"
    with Worker(QUICK) as worker:
        worker.channel.ask({"do": "run", "file": "a", "line": 1, "source": SOURCE})
        assert call(worker, "survive", mark)["value"] == "left some behind"
        assert commands().count(mark) == 3
        home = worker.home
    assert commands().count(mark) == 0
    assert not home.parent.exists()


def test_children_that_the_rest_of_the_program_started_are_left_alone(level):
    with subprocess.Popen(["/bin/sleep", "100"]) as bystander:
        with Worker(QUICK) as worker:
            worker.channel.ask({"do": "run", "file": "a", "line": 1, "source": SOURCE})
            call(worker, "survive", "86400.5")
        assert bystander.poll() is None
        bystander.kill()


def test_a_fork_bomb_meets_the_limit_of_processes(worker):
    worker_limit = QUICK.processes + (0 if os.geteuid() == 0 else len(os.listdir("/proc")))
    assert 0 < call(worker, "bomb")["value"] <= worker_limit
    with Worker(QUICK) as after:
        after.channel.ask({"do": "run", "file": "a", "line": 1, "source": SOURCE})
        assert call(after, "double", 1)["value"] == [1, 1]


def test_root_is_not_root_in_a_worker(worker):
    worker.channel.ask({"do": "run", "file": "b", "line": 1, "source": "def who(): return [os.getuid(), os.getgid()]"})
    assert 0 not in call(worker, "who")["value"]


def test_a_worker_works_in_its_home_at_every_level(worker):
    assert call(worker, "work", str(worker.home / "file"))["value"] == "x"
    assert (worker.home / "file").read_text() == "x"


@pytest.mark.parametrize("name", [name for name in WORKING if name != "limits"])
def test_from_the_second_level_on_no_file_of_ours_is_seen_and_nothing_written_outside(name, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("42")
    tmp_path.chmod(0o777)
    source = f"""
def look():
    found = []
    for path in ({str(secret)!r}, '/etc/passwd', {str(Path(__file__))!r}):
        try: found.append(open(path).read()[:2])
        except OSError: pass
    return found
def write():
    open({str(tmp_path / "here")!r}, 'w')
"""
    with at_level(name), Worker(QUICK) as worker:
        worker.channel.ask({"do": "run", "file": "a", "line": 1, "source": source + SOURCE})
        assert call(worker, "look")["value"] == []
        assert call(worker, "write")["error"]["type"] in ("OSError", "FileNotFoundError", "PermissionError")
        assert call(worker, "outside")["error"]["type"] in ("OSError", "FileNotFoundError", "PermissionError")
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("name", [name for name in WORKING if name != "limits"])
def test_from_the_second_level_on_loopback_is_out_of_reach(name):
    source = "import socket\ndef reach(port): socket.create_connection(('127.0.0.1', port), timeout=5)\n"
    with socket.create_server(("127.0.0.1", 0)) as listener, at_level(name), Worker(QUICK) as worker:
        worker.channel.ask({"do": "run", "file": "a", "line": 1, "source": source})
        assert call(worker, "reach", listener.getsockname()[1])["error"]["type"] in ("PermissionError", "OSError",
            "ConnectionRefusedError")  # fmt: skip


def test_the_levels_are_ordered_and_less_than_required_is_refused(level):
    place = LEVELS.index(level.name)
    assert level.level == place
    assert level.text.startswith(level.name)
    for name in LEVELS[: place + 1]:
        require_isolation(name)
    for name in LEVELS[place + 1 :]:
        with pytest.raises(IsolationTooWeak, match=f"isolation {name} is required") as refused:
            require_isolation(name)
        assert (refused.value.wanted, refused.value.found) == (name, level.name)
        assert "bubblewrap" in refused.value.hint


def test_a_level_that_does_not_exist_is_refused_with_the_closest_name():
    with pytest.raises(UnknownName) as refused:
        require_isolation("bublewrap")
    assert "bubblewrap" in refused.value.hint


def test_an_argument_is_taken_out_of_the_command_line():
    code = (
        "import sys\nfrom ctxlab.sandbox import hide_argument\nhide_argument('918273645')\n"
        "print(open('/proc/self/cmdline').read(), sys.argv[1:])"
    )
    argv = [
        sys.executable,
        "-c",
        code.replace("918273645", "9182' '73645"),
        "--seed",
        "918273645",
        "--seed=918273645",
        "8",
    ]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    shown, _, meant = said.rpartition("\x00 ")
    assert "918273645" not in shown
    assert "--seed\0*********\0--seed=*********\x008" in shown
    assert "918273645" in meant
    hide_argument("an argument that nobody gave")


def test_the_home_is_empty_at_first_and_gone_afterwards():
    with Worker(QUICK) as worker:
        home = worker.home.parent
        assert list(worker.home.iterdir()) == []
        worker.channel.ask(
            {"do": "run", "file": "a", "line": 1, "source": "import os; os.mkdir('d'); os.chmod('d', 0)"}
        )
        assert (worker.home / "d").is_dir()
    assert not home.exists()


def test_a_race_runs_the_calls_in_processes_of_their_own(worker):
    source = "import os\ndef note(path, text):\n    with open(path, 'a') as f: f.write(f'{os.getpid()}\\n')\n"
    worker.channel.ask({"do": "run", "file": "b", "line": 1, "source": source})
    path = str(worker.home / "pids")
    answer = worker.channel.ask({"do": "race", "function": "note", "calls": [[[path, "a"]] * 3, [[path, "b"]] * 3]})
    assert answer["value"] == [0, 0]
    pids = Path(path).read_text().split()
    assert len(pids) == 6
    assert len(set(pids)) == 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ((1,), "a tuple at the answer"),
        ({"a": {1}}, "a set at the answer['a']"),
        ([b"x"], "a bytes at the answer[0]"),
        ({1: 2}, "a key of type int"),
        (float("inf"), "inf"),
        (2**300, "301 bits"),
        ("x" * 5_000_000, "more than 4,000,000"),
    ],
)
def test_plain_says_what_is_wrong_and_where(value, words):
    with pytest.raises(NotPlain, match=re.escape(words)):
        plain(value)


def test_plain_takes_no_part_of_a_subclass_but_its_value():
    class Always(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    assert type(plain(Always(3))) is int
    assert plain([Always(3)]) != [4]


@pytest.mark.parametrize("kind", [Fork, Here])
def test_a_function_of_this_process_is_asked_without_being_touched(kind):
    history = [1]
    namespace: dict = {"grow": lambda: history.append(2) or len(history), "say": lambda s: s("a") + "!"}
    fork = kind(namespace, QUICK)
    try:
        assert call(fork, "grow")["value"] == 2
        question = {"do": "call", "function": "say", "args": [{"service": "echo"}]}
        assert fork.channel.ask(question, {"echo": lambda args: args[0] * 2})["value"] == "aa!"
    finally:
        fork.close()
    assert history == ([1] if kind is Fork else [1, 2])


def test_a_fork_ends_what_loops():
    fork = Fork({"loop": lambda: [0 for _ in iter(int, 1)]}, QUICK)
    try:
        with pytest.raises(Broken) as broken:
            call(fork, "loop")
        assert broken.value.kind == "timeout"
    finally:
        fork.close()
