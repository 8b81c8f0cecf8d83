"""A lock on an open file, held against every other process and every other handle of this one.

``flock`` where there is one, a byte range far beyond the end of the file on Windows (whose locks would hold off
readers otherwise), nothing in a browser, where there is one process. The system frees the lock when its holder dies.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from time import monotonic

PAUSE = 0.01
"""Seconds between two attempts at a lock that is waited for with a limit (picked): no system's lock has one."""


def within(seconds: float, attempt: Callable[[], bool]) -> bool:
    """Attempts once, and again until it succeeds or so many seconds are over; False where it did not."""
    deadline, pause = monotonic() + seconds, threading.Event()
    while not attempt():
        left = deadline - monotonic()
        if left <= 0:
            return False
        pause.wait(min(left, PAUSE))
    return True


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    _FAR = 2**62

    def lock(handle: int, *, wait: bool | float) -> bool:
        """Takes the lock; False where another has it. ``wait`` blocks until it is free (a number: for so many
        seconds at most)."""
        if wait is not True:
            return within(wait, lambda: _try(handle))
        while True:
            os.lseek(handle, _FAR, os.SEEK_SET)
            try:
                # LK_LOCK tries for ten seconds and then fails, so waiting is a loop of those.
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
            except OSError:
                continue
            return True

    def _try(handle: int) -> bool:
        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(handle: int) -> None:
        """Gives the lock back."""
        os.lseek(handle, _FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

elif sys.platform == "emscripten":  # pragma: no cover

    def lock(handle: int, *, wait: bool | float) -> bool:
        """There is one process, so the lock is always free."""
        return True

    def unlock(handle: int) -> None:
        """Nothing to give back."""

else:
    import fcntl

    def lock(handle: int, *, wait: bool | float) -> bool:
        """Takes the lock; False where another has it. ``wait`` blocks until it is free (a number: for so many
        seconds at most)."""
        if wait is not True:
            return within(wait, lambda: _try(handle))
        fcntl.flock(handle, fcntl.LOCK_EX)
        return True

    def _try(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(handle: int) -> None:
        """Gives the lock back."""
        fcntl.flock(handle, fcntl.LOCK_UN)


class Handle:
    """An open file that this process has opened itself, closed with its owner at the latest.

    A forked process shares the handle of its parent, and with it the lock, so `get` opens another one there.
    """

    def __init__(self, path: str | os.PathLike[str], flags: int) -> None:
        self._path = path
        self._flags = flags | getattr(os, "O_BINARY", 0)
        self._number = -1
        self._process = 0
        self._closing: weakref.finalize[[int], Handle] | None = None

    @property
    def own(self) -> bool:
        """Whether it is open, and this process opened it."""
        return self._number >= 0 and self._process == os.getpid()

    def get(self) -> int:
        """The file descriptor. Raises OSError where the file cannot be opened."""
        if not self.own:
            self.close()
            self._number = os.open(self._path, self._flags, 0o644)
            self._process = os.getpid()
            self._closing = weakref.finalize(self, os.close, self._number)
        return self._number

    def close(self) -> None:
        """Closes it; this frees a lock that is held through it, unless a parent process holds it too."""
        if self._closing is not None:
            self._closing()
            self._closing = None
        self._number = -1
