"""How far a worker is shut off: plain limits everywhere, and namespaces where bubblewrap works.

What holds in which case is said by `Isolation.text`, and the report of a grading run names it. Nothing here is needed
for a verdict to be right: the judge's secrets are not in the worker in either case.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")


@dataclass(frozen=True, slots=True)
class Isolation:
    """A way of starting a worker. ``name``: ``bubblewrap`` or ``limits``; ``text`` says what it holds."""

    name: str
    text: str

    def command(self, home: Path, python: list[str]) -> list[str]:
        """The command line that starts ``python`` with ``home`` as the one folder that it may write."""
        if self.name != "bubblewrap":
            return python
        return [*_bubblewrap(), "--bind", str(home), str(home), "--chdir", str(home), "--", *python]


LIMITS = Isolation(
    "limits",
    "limits: own process, session and empty home, scrubbed environment, CPU, memory, file and time limits; "
    "no namespaces, so the worker can read what its user can and can reach the network",
)
BUBBLEWRAP = Isolation(
    "bubblewrap",
    "bubblewrap: namespaces of its own for processes, network, users and files (only Python is visible, only an empty "
    "home is writable), on top of CPU, memory, file and time limits",
)


@functools.cache
def isolation() -> Isolation:
    """The strongest isolation that works here, tried once per process."""
    if not sys.platform.startswith("linux") or shutil.which("bwrap") is None:
        return LIMITS
    python = [sys.executable, "-I", "-S", "-c", "import json, resource, socket"]
    try:
        tried = subprocess.run(
            [*_bubblewrap(), "--", *python], stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return LIMITS
    return BUBBLEWRAP if tried.returncode == 0 else LIMITS


def _bubblewrap() -> list[str]:
    package = Path(__file__).resolve().parent.parent
    places = [sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))]
    places += [place for place in sys.path if place.endswith("-packages")]
    command = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
    command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for place in SYSTEM:
        command += ["--ro-bind-try", place, place]
    for place in dict.fromkeys([*places, str(package)]):
        if not place.startswith("/usr/"):
            command += ["--ro-bind-try", place, place]
    if (package / "_kit").is_dir():
        command += ["--tmpfs", str(package / "_kit")]  # the solutions are not for the learner's process to read
    return command
