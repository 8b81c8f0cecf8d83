"""What the judge's own process does for its protection while a worker runs that is not in namespaces of its own.

- It adopts what the worker's processes leave behind (Linux: "child subreaper"), so that a child that forked twice,
  changed its session and environment and ran another program is still found, and ended (`end_all`).
- It closes its memory, environment and open files to other processes of its user ("not dumpable").
- `hide_argument` takes a secret out of its own command line, which every process of a machine can read.

Elsewhere than on Linux these do nothing. Sources: the manual pages prctl(2), proc(5) and kill(2).
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

GET_DUMPABLE, SET_DUMPABLE, SET_SUBREAPER, GET_SUBREAPER = 3, 4, 36, 37
ROUNDS = 200  # of killing; picked, so that what forks for ever cannot hold the judge for ever

PATIENCE = 10  # seconds for a killed process to be gone; picked, it takes the kernel less than a thousandth of that

LINUX = sys.platform.startswith("linux")
_lock = threading.Lock()
_ours: set[int] = set()  # the workers that this process started and still waits for
_before = (0, 1)  # subreaper and dumpable, as they were before the first worker that needs the guard
_guarded = 0


def start(begin: Callable[[], subprocess.Popen[bytes]], guarded: bool) -> subprocess.Popen[bytes]:
    """Start a worker's process. ``guarded``: it has no process namespace, so this process takes care."""
    global _before, _guarded
    with _lock:
        if guarded and LINUX:
            if not _guarded:
                _before = (_get(GET_SUBREAPER), _prctl(GET_DUMPABLE, 0))
                _prctl(SET_SUBREAPER, 1)
                _prctl(SET_DUMPABLE, 0)
            _guarded += 1
        try:
            process = begin()
        except OSError:
            _leave(guarded)
            raise
        _ours.add(process.pid)
        return process


def end_all(process: subprocess.Popen[bytes], uid: int, guarded: bool) -> None:
    """Kill a worker's process and all that came out of it. ``uid``: the user that this worker alone is, or 0."""
    below = [] if guarded else _handles_below(process.pid)
    _kill_group(process.pid)
    process.wait()
    _until_gone(below)
    if guarded and LINUX:
        for _ in range(ROUNDS):
            if not (_end_user(uid) if uid else _end_adopted()):
                break
    with _lock:
        _ours.discard(process.pid)
        _leave(guarded)


def _handles_below(pid: int) -> list[int]:
    """A pidfd for each process under ``pid``: the first of a process namespace, and all that it holds."""
    if not LINUX:
        return []
    parents = {one: _parent(one) for one in _pids()}
    family = {pid}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    handles = []
    for one in family - {pid}:
        with suppress(OSError):  # it ended in between
            handles.append(os.pidfd_open(one))
    return handles


def _until_gone(handles: list[int]) -> None:
    """Wait until each process has ended: who waits for the outermost alone returns while the kernel is still ending
    the others of its namespace."""
    for handle in handles:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        poller.poll(PATIENCE * 1000)
        os.close(handle)


def _leave(guarded: bool) -> None:
    global _guarded
    if guarded and LINUX:
        _guarded -= 1
        if not _guarded:
            _prctl(SET_SUBREAPER, _before[0])
            _prctl(SET_DUMPABLE, _before[1])


def _end_user(uid: int) -> bool:
    """Kill every process of a user at one stroke, before any of them can fork; whether there were any."""
    found = [pid for pid in _pids() if _owner(pid) == uid]
    if not [pid for pid in found if not _reaped(pid)]:
        return False
    # kill(-1) reaches all processes of the caller's user, and nobody else's: the caller has to be that user.
    subprocess.run(["/bin/sh", "-c", "kill -9 -1"], user=uid, group=uid, extra_groups=[], check=False, cwd="/")
    return True


def _end_adopted() -> bool:
    """Kill what this process has adopted from workers, and what came out of that; whether there was any.

    A worker's processes are known by *no new privileges*, which they cannot take back, and which the children that the
    rest of a program starts by itself do not have.
    """
    with _lock:
        parents = {pid: _parent(pid) for pid in _pids()}
        found = {
            pid for pid, parent in parents.items()
            if parent == os.getpid() and pid not in _ours and _cannot_gain_privileges(pid)
        }  # fmt: skip
        family = set(found)
        while more := {pid for pid, parent in parents.items() if parent in family} - family:
            family |= more
        for pid in family:
            _kill(pid)
        for pid in found:
            _wait(pid)
    return bool(family)


def hide_argument(text: str) -> None:
    """Blot out an argument of this process's command line, alone or behind an '=', where others could read it."""
    if not LINUX or not text:
        return
    try:
        with open("/proc/self/stat") as stat:
            start, end = map(int, stat.read().rpartition(")")[2].split()[45:47])
    except (OSError, ValueError):
        return
    if not start or not 0 < end - start < 1 << 20:
        return
    place = start
    for argument in ctypes.string_at(start, end - start).split(b"\0"):
        if argument == text.encode() or argument.endswith(b"=" + text.encode()):
            size = len(text.encode())
            ctypes.memset(place + len(argument) - size, ord("*"), size)
        place += len(argument) + 1


def _prctl(option: int, value: int) -> int:
    return int(ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def _get(option: int) -> int:
    found = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(option, ctypes.byref(found), 0, 0, 0)
    return found.value


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _owner(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def _fields(pid: int) -> list[str]:
    """The fields of a process's stat behind its name: state, parent, ..."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()
    except OSError:
        return ["X", "-1"]


def _parent(pid: int) -> int:
    return int(_fields(pid)[1])


def _reaped(pid: int) -> bool:
    """Whether a process is dead; one that is dead and ours is taken off the list."""
    state, parent = _fields(pid)[:2]
    if state not in "ZX":
        return False
    if int(parent) == os.getpid() and pid not in _ours:
        _wait(pid)
    return True


def _cannot_gain_privileges(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status") as status:
            return "NoNewPrivs:\t1" in status.read()
    except OSError:
        return False


def _wait(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
