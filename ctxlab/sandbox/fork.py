"""A fork of the present process that answers questions, for a function that lives in a notebook's kernel.

The fork has everything that the kernel has, so the function works with whatever it uses, and what it breaks (a changed
list, an endless loop, an exit) is gone with the fork. It is no proof of anything: the asker's own process is the one
that the learner's code ran in. Where a system cannot fork, `Here` asks in the process itself.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from ctxlab.sandbox.host import TIME_ZONE, Broken, Channel, Limits, Service, ended, remove, served
from ctxlab.sandbox.worker import Pipe, Server, limit, watch_flushes


class Fork:
    """A forked process, ready for questions about ``namespace``. ``home`` is its empty folder."""

    def __init__(self, namespace: dict[str, Any], limits: Limits) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="ctxlab-check-")).resolve()
        (ask_in, ask_out), (answer_in, answer_out), (output_in, output_out) = os.pipe(), os.pipe(), os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the kernel has threads; the child starts its own
            self._pid = os.fork()
        if self._pid == 0:
            for fd in (ask_out, answer_in, output_in):
                os.close(fd)
            _answer(namespace, limits, self.home, (ask_in, answer_out, output_out))
        for fd in (ask_in, answer_out, output_out):
            os.close(fd)
        self.channel = Channel(ask_out, answer_in, output_in, limits, self._why_gone)

    def _why_gone(self) -> Broken:
        pid, status = os.waitpid(self._pid, 0)
        self._pid = 0 if pid else self._pid
        return ended(os.waitstatus_to_exitcode(status))

    def close(self) -> None:
        """Kill the fork and what is in its process group, and remove its home."""
        if self._pid:
            for kill in (os.killpg, os.kill):
                try:
                    kill(self._pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            os.waitpid(self._pid, 0)
        self._pid = 0
        self.channel.drop()
        remove(self.home)


def _answer(namespace: dict[str, Any], limits: Limits, home: Path, fds: tuple[int, int, int]) -> NoReturn:
    """In the fork: shut what must not be shared, then answer questions in a thread without an event loop."""
    source, target, output = fds
    try:
        os.setsid()
        os.chdir(home)
        os.environ.update({"HOME": str(home), "TMPDIR": str(home), "TZ": TIME_ZONE, "CTXLAB_WORKER": "fork"})
        time.tzset()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for fd, number in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(fd, number)
        sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 - for the process's life
        sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        limit({**limits.as_rlimits(), "RLIMIT_AS": _address_space() + limits.memory})
        flushed = {name: getattr(os, name, None) for name in ("fsync", "fdatasync")}
        flushes = watch_flushes()
        for name, plain in flushed.items():  # names that the notebook imported from os before
            for key, value in list(namespace.items()):
                if plain is not None and value is plain:
                    namespace[key] = getattr(os, name)
        thread = threading.Thread(target=Server(namespace, Pipe(source, target), flushes).serve)
        thread.start()
        thread.join()
    finally:
        os._exit(0)


def _address_space() -> int:
    """The bytes of address space in use: a kernel with pandas loaded has much more than a bare worker."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.readline().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 4 << 30


class Here:
    """Asks in this process, where nothing can be forked (Windows, a browser): no time limit, no protection."""

    def __init__(self, namespace: dict[str, Any], limits: Limits) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="ctxlab-check-")).resolve()
        self.channel = self
        self._services: Mapping[str, Service] = {}
        self._reply: dict[str, Any] = {}
        self._answer: dict[str, Any] = {}
        self._questions: list[dict[str, Any]] = []
        self._server = Server(dict(namespace), self, [])  # type: ignore[arg-type]

    def ask(
        self, question: Mapping[str, Any], services: Mapping[str, Service] | None = None, wall: float | None = None
    ) -> dict[str, Any]:
        """The answer to one question."""
        self._services = services or {}
        self._questions = [json.loads(json.dumps({**question, "id": secrets.token_hex(8), "cpu": None}))]
        self._server.serve()
        return self._answer

    def receive(self) -> dict[str, Any] | None:
        """What the server reads: the question, or the reply to its own."""
        if self._reply:
            reply, self._reply = self._reply, {}
            return reply
        return self._questions.pop() if self._questions else None

    def send(self, value: dict[str, Any]) -> None:
        """What the server writes: an answer, or a question of its own."""
        value = json.loads(json.dumps(value))
        if "service" in value:
            self._reply = served(self._services, value)
        else:
            self._answer = value

    def close(self) -> None:
        """Remove the folder."""
        remove(self.home)


def beside(namespace: dict[str, Any], limits: Limits) -> Fork | Here:
    """The best way to ask a function of the present process."""
    return Fork(namespace, limits) if hasattr(os, "fork") and sys.platform != "emscripten" else Here(namespace, limits)
