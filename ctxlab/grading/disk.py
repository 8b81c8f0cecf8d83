"""The judge's own look at the folder in which a learner's code runs, and what it puts there.

The learner's code may change anything in that folder at any moment, and the judge may be root: no link is followed,
neither at the end of a path nor on the way, nothing but a plain file is read, and no more than `MAX_FILE` bytes of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ctxlab.grading.asking import Failed

MAX_FILE = 32 << 20  # bytes of a session file that the judge reads; no check comes near it
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
STEPWISE = os.open in os.supports_dir_fd and os.mkdir in os.supports_dir_fd
ODD = "there is something other than plain files and folders on the way to the session file"


@contextmanager
def _folder(home: Path, path: Path, *, make: bool = False) -> Iterator[int | None]:
    """The folder that holds ``path``, opened step by step from ``home``; None where paths have to do (Windows)."""
    if not STEPWISE:
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
        yield None
        return
    flags = os.O_RDONLY | os.O_DIRECTORY
    handle = os.open(home, flags)
    try:
        for step in path.parent.relative_to(home).parts:
            if make:
                _make(step, handle)
            below = os.open(step, flags | NO_LINK, dir_fd=handle)
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


def _make(name: str, handle: int) -> None:
    try:
        os.mkdir(name, dir_fd=handle)
    except FileExistsError:
        return
    below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | NO_LINK, dir_fd=handle)
    os.fchmod(below, 0o777)  # the learner's code may be another user; nobody else can reach its home
    os.close(below)


def write_file(home: Path, path: Path, data: bytes) -> None:
    """Put a new file there, and the folders on the way, for the learner's code to go on with."""
    try:
        with _folder(home, path, make=True) as folder:
            name = path if folder is None else path.name
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, 0o600, dir_fd=folder)
            with open(handle, "wb") as file:
                if hasattr(os, "fchmod"):
                    os.fchmod(handle, 0o666)
                file.write(data)
    except OSError as error:
        raise Failed(f"{ODD} ({error.strerror})", "a folder that is left alone until it is written to") from None


def make_folder(home: Path, folder: Path) -> None:
    """Make a folder there, if it is missing."""
    try:
        with _folder(home, folder / "file", make=True):
            pass
    except OSError as error:
        raise Failed(f"{ODD} ({error.strerror})", "a folder that is left alone until it is written to") from None


def read_file(home: Path, path: Path) -> bytes:
    """A file that a learner's process wrote; b"" where there is none. Ends the check where it is something else."""
    try:
        with _folder(home, path) as folder:
            name = path if folder is None else path.name
            handle = os.open(name, os.O_RDONLY | NO_LINK | getattr(os, "O_NONBLOCK", 0), dir_fd=folder)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise Failed(f"the session file cannot be read: {error.strerror}", "a plain file, not a link") from None
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Failed("the session file is not a plain file", "a plain file")
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise Failed(f"a session file of more than {MAX_FILE:,} bytes", "a line a message")
    return data
