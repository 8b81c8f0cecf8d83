"""The judge's side of the pipe: starts a worker, asks it questions, and ends it with everything that it left.

Nothing that the worker writes is evaluated or unpickled: an answer is one line of JSON, of bounded length, that carries
the question's unguessable id. A question that gets no such answer ends in a `Broken`, which says what happened.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

from ctxlab.errors import CtxlabError
from ctxlab.sandbox import guard
from ctxlab.sandbox.jail import PACKAGE, Isolation, spare_uid

Service: TypeAlias = Callable[[list[Any]], str | int]

TIME_ZONE = "LAB-5:30"  # half past five ahead of UTC: a learner's local time is never UTC by accident


class WorkerError(CtxlabError, RuntimeError):
    """A worker process could not be started."""


class ServiceRaised(Exception):
    """Raised by a service to have an exception raised in the learner's code: its type's name and its text."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Broken(Exception):
    """A question without an answer. ``kind``: ``timeout``, ``died`` or ``channel``; the text says what happened."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Limits:
    """What a worker may use. All are picked: far above what an honest solution needs.

    ``wall`` and ``cpu`` are seconds for one question (``load_cpu`` for one piece of a submission being run, which may
    import much), ``check`` and ``submission`` seconds on the clock for all questions of one check and of one file (the
    asker looks at these two), ``total_cpu`` seconds for the worker's life, the rest are bytes and counts. CPU time is
    the limit that meets an endless loop; wall time meets a sleeper, and is generous so that a busy machine does not
    decide a verdict.
    """

    wall: float = 15.0
    check: float = 60.0
    submission: float = 240.0
    cpu: int = 3
    load_cpu: int = 6
    total_cpu: int = 60
    memory: int = 1 << 30
    file_size: int = 64 << 20
    open_files: int = 256
    processes: int = 64
    answer: int = 32 << 20
    output: int = 16 << 10

    def as_rlimits(self, *, alone: bool = False) -> dict[str, int]:
        """The limits that the operating system holds, by their names in the ``resource`` module.

        ``alone``: nobody else is the worker's user, so that the system's count of the user's processes is the worker's.
        """
        return {
            "RLIMIT_CPU": self.total_cpu,
            "RLIMIT_AS": self.memory,
            "RLIMIT_FSIZE": self.file_size,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_NPROC": self.processes + (0 if alone else _running()),
            "RLIMIT_CORE": 0,
        }


@dataclass(slots=True)
class Channel:
    """Questions and answers over two file descriptors; drains what the learner's code prints meanwhile."""

    ask_fd: int
    answer_fd: int
    output_fd: int
    limits: Limits
    why_gone: Callable[[], Broken]
    output: bytearray = field(default_factory=bytearray)
    _rest: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        os.set_blocking(self.ask_fd, False)  # a worker that does not read must not hold the asker

    def ask(
        self, question: Mapping[str, Any], services: Mapping[str, Service] | None = None, wall: float | None = None
    ) -> dict[str, Any]:
        """The answer to one question; raises `Broken`."""
        name = secrets.token_hex(8)
        deadline = time.monotonic() + (self.limits.wall if wall is None else wall)
        cpu = self.limits.load_cpu if question.get("do") == "run" else self.limits.cpu
        self._send({**question, "id": name, "cpu": cpu}, deadline)
        while True:
            answer = self._receive(deadline)
            if answer.get("id") != name:
                raise Broken("channel", "the submission wrote into the channel that carries its answers")
            if "service" not in answer:
                return answer
            self._send(served(services or {}, answer), deadline)

    def _send(self, value: dict[str, Any], deadline: float) -> None:
        data = memoryview((json.dumps(value) + "\n").encode())
        while data:
            _, writable = self._wait(deadline, writing=True)
            if writable:
                try:
                    data = data[os.write(self.ask_fd, data[: 1 << 16]) :]
                except BlockingIOError:
                    continue
                except OSError:
                    raise self.why_gone() from None

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._rest:
            readable, _ = self._wait(deadline, writing=False)
            if readable:
                chunk = os.read(self.answer_fd, 1 << 16)
                if not chunk:
                    raise self.why_gone()
                self._rest += chunk
                if len(self._rest) > self.limits.answer:
                    raise Broken("channel", f"an answer of more than {self.limits.answer:,} bytes")
        line, _, rest = bytes(self._rest).partition(b"\n")
        self._rest = bytearray(rest)
        try:
            answer = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise Broken("channel", "the submission wrote into the channel that carries its answers") from None
        if not isinstance(answer, dict):
            raise Broken("channel", "the submission wrote into the channel that carries its answers")
        return answer

    def _wait(self, deadline: float, *, writing: bool) -> tuple[bool, bool]:
        """Wait until an answer can be read or a question written; learners' output is taken in passing."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise Broken("timeout", "no answer within the time limit")
        poller = select.poll()
        poller.register(self.ask_fd if writing else self.answer_fd, select.POLLOUT if writing else select.POLLIN)
        if self.output_fd >= 0:
            poller.register(self.output_fd, select.POLLIN)
        ready = [fd for fd, _ in poller.poll(min(left, 1.0) * 1000)]
        if self.output_fd in ready:
            self._drain()
        return self.answer_fd in ready, self.ask_fd in ready

    def _drain(self) -> None:
        chunk = os.read(self.output_fd, 1 << 16)
        if not chunk:
            os.close(self.output_fd)
            self.output_fd = -1
        self.output += chunk[: max(0, self.limits.output - len(self.output))]

    def drop(self) -> None:
        """Close this side's ends, once nobody holds the other end of the answers any more (at most two seconds)."""
        until = time.monotonic() + 2.0
        poller = select.poll()
        poller.register(self.answer_fd, select.POLLIN)
        while (left := until - time.monotonic()) > 0:
            if poller.poll(left * 1000) and not os.read(self.answer_fd, 1 << 16):
                break
        for fd in (self.ask_fd, self.answer_fd, self.output_fd):
            if fd >= 0:
                os.close(fd)
        self.ask_fd = self.answer_fd = self.output_fd = -1


class Worker:
    """A worker process, ready for questions; a context manager that leaves nothing of it alive.

    ``main`` is the name of the module in which the submission runs: ``__main__`` for a notebook, as in Jupyter.
    ``home`` is its empty folder, the one that the judge may look into. Raises `WorkerError`.
    """

    def __init__(self, limits: Limits | None = None, *, main: str = "submission", how: Isolation | None = None) -> None:
        if os.name != "posix":
            raise WorkerError(
                "a worker process of this kind needs Linux, macOS or another POSIX system",
                hint="grade under WSL or in a container; check() in a notebook works here, without protection",
            )
        from ctxlab.sandbox.levels import isolation  # which tries levels by starting workers

        self.limits = limits or Limits()
        self.isolation = how or isolation()
        self.uid = spare_uid() if self.isolation.changes_user else 0
        self._guarded = not self.isolation.has_processes_of_its_own
        # The home lies in a folder of ours, so that who owns the home cannot put something else in its place.
        self._outer = Path(tempfile.mkdtemp(prefix="ctxlab-worker-")).resolve()
        self.home = self._outer / "home"
        self.home.mkdir(mode=0o700)
        if self.uid:
            self._outer.chmod(0o711)
            os.chown(self.home, self.uid, self.uid)
        self._start()
        try:
            self._open(main)
        except Broken as broken:
            said = self.channel.output.decode(errors="replace")[-500:]
            self.close()
            raise WorkerError(f"the worker did not start: {broken} {said}", hint="run ctxlab doctor") from None

    def _start(self) -> None:
        script = str(Path(__file__).with_name("worker.py"))
        (ask_in, ask_out), (answer_in, answer_out), (output_in, output_out) = os.pipe(), os.pipe(), os.pipe()
        # No -S: a submission may import ctxlab, and where that is installed only `site` knows.
        python = [sys.executable, "-I", "-B", script, str(ask_in), str(answer_out)]

        def begin() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                self.isolation.command(self.home, python, self.uid),
                stdin=subprocess.DEVNULL, stdout=output_out, stderr=output_out, cwd=self.home,
                env=self._environment(), pass_fds=(ask_in, answer_out), start_new_session=True,
            )  # fmt: skip

        try:
            self._process = guard.start(begin, self._guarded)
        except OSError as error:
            for fd in (ask_out, answer_in, output_in):
                os.close(fd)
            remove(self._outer)
            raise WorkerError(f"no worker process: {error}", hint="run ctxlab doctor") from error
        finally:
            for fd in (ask_in, answer_out, output_out):
                os.close(fd)
        self.channel = Channel(ask_out, answer_in, output_in, self.limits, self._why_gone)

    def _open(self, main: str) -> None:
        """Tell the worker its limits and its walls; it answers when they stand."""
        opening = {
            "main": main,
            "limits": self.limits.as_rlimits(alone=self.uid != 0),
            "plan": self.isolation.plan(self.home, self.uid),
            "package": str(PACKAGE.parent),
        }
        answer = self.channel.ask(opening, wall=60.0)
        if answer.get("value") != "ready":
            raise Broken("died", f"{self.isolation.name} cannot be had here: {answer.get('refused')}")

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _environment(self) -> dict[str, str]:
        home = str(self.home)
        return {
            "HOME": home, "TMPDIR": home, "TZ": TIME_ZONE, "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin",
            "CTXLAB_WORKER": "1", "OPENBLAS_NUM_THREADS": "1", "MOCK": "1",
        }  # fmt: skip

    def _why_gone(self) -> Broken:
        try:
            status = self._process.wait(timeout=0.5)  # the pipe closes when a process ends, or a moment before
        except subprocess.TimeoutExpired:
            return Broken("channel", "the submission closed the channel that carries its answers")
        return ended(status)

    def close(self) -> None:
        """Kill the worker and all that came out of it, and remove its home."""
        guard.end_all(self._process, self.uid, self._guarded)
        self.channel.drop()
        remove(self._outer)


def ended(status: int) -> Broken:
    """What a process's end means for a person. Bubblewrap reports a signal as 128 + its number.

    >>> str(ended(-11)), str(ended(3))
    ('the process crashed (SIGSEGV)', 'the process ended itself (exit status 3)')
    """
    number = -status if status < 0 else status - 128
    if number not in {int(known) for known in signal.Signals}:
        return Broken("died", f"the process ended itself (exit status {status})")
    if number == signal.SIGXCPU:
        return Broken("timeout", "the CPU time limit was reached")
    name = signal.Signals(number).name
    return Broken("died", f"the process was killed ({name})" if name == "SIGKILL" else f"the process crashed ({name})")


def remove(folder: Path) -> None:
    """Remove a folder that somebody else filled, also where they took the permission away."""
    if not folder.exists():
        return
    for place, _, _ in os.walk(folder):
        os.chmod(place, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def served(services: Mapping[str, Service], asked: dict[str, Any]) -> dict[str, Any]:
    """The reply to a question of the worker's."""
    service = services.get(str(asked["service"]))
    if service is None:
        return {"raise": "RuntimeError", "text": "nothing answers this here"}
    if "problem" in asked:
        return {"raise": "ValueError", "text": f"not a history: {asked['problem']}"}
    args = asked.get("args")
    try:
        return {"value": service(args if isinstance(args, list) else [])}
    except ServiceRaised as raised:
        return {"raise": raised.kind, "text": str(raised)}


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _running() -> int:
    """How many processes run on this machine: the operating system counts a user's, so the limit goes on top."""
    try:
        return sum(1 for name in os.listdir("/proc") if name.isdigit())
    except OSError:
        return 1024
