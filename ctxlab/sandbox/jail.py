"""How far a worker is shut off: four levels, each of which holds all that the ones before it hold.

What is in force is said by `Isolation.text`, and the report of a grading run names it. Nothing here is needed for a
verdict to be right: the judge's secrets are not in the worker at any level. Which level works on a machine is found
out by trying (`ctxlab.sandbox.levels`).
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
PACKAGE = Path(__file__).resolve().parent.parent
KIT = PACKAGE / "_kit"  # the solutions, in an installed ctxlab: not for the learner's process to read
USERS = range(2_000_000_000, 2_100_000_000)  # picked: above every range that distributions and systemd hand out


@dataclass(frozen=True, slots=True)
class Isolation:
    """A way of starting a worker. ``name`` is one of `LEVELS`; ``text`` says what it holds, for people.

    ``changes_user``: started by root, the worker becomes a user that nobody else is.
    """

    name: str
    text: str
    changes_user: bool = True

    @property
    def level(self) -> int:
        """How strong: the place of the name in `LEVELS`, 0 for the weakest."""
        return LEVELS.index(self.name)

    @property
    def has_processes_of_its_own(self) -> bool:
        """Whether the worker's processes are in a namespace that ends with the worker."""
        return self.name in ("namespaces", "bubblewrap")

    def command(self, home: Path, python: list[str], uid: int) -> list[str]:
        """The command line that starts ``python`` with ``home`` as the one folder that it may write."""
        if self.name != "bubblewrap":
            return python
        bind = [*_ways(str(home)), "--bind", str(home), str(home)]
        return [*_bubblewrap(uid), *bind, "--chdir", "/", "--", *python]

    def plan(self, home: Path, uid: int) -> dict[str, Any]:
        """What the worker itself does before it runs anything, for `ctxlab.sandbox.walls.enter`; {} for nothing."""
        if not sys.platform.startswith("linux"):
            return {}
        outside = self.name == "bubblewrap"  # bubblewrap has put up the walls; what is left is to be another user
        landlock = self.name in ("landlock", "namespaces")
        readable, listed = _readable() if landlock else ([], [])
        proc = "/proc" if self.name == "namespaces" else "/proc/self"
        return {
            "namespaces": self.name == "namespaces",
            "landlock": landlock,
            "uid": uid,
            "home": str(home),
            "open": [] if outside else [*python_places(), str(PACKAGE), str(home)],
            "readable": [*readable, *SYSTEM, *DEVICES, proc],
            "writable": [str(home), "/dev/null"],
            "listed": listed,
        }


LEVELS = ("limits", "landlock", "namespaces", "bubblewrap")
_LIMITS = "CPU, memory, process, file and time limits, an empty home, a scrubbed environment"
LIMITS = Isolation(
    "limits", f"limits: {_LIMITS}; the worker can read what its user can and can reach the network, nothing hides that"
)
LANDLOCK = Isolation(
    "landlock",
    f"landlock: of the files only Python's and an empty home, no TCP, on top of {_LIMITS}; "
    "UDP and the names of other processes are not hidden",
)
NAMESPACES = Isolation(
    "namespaces",
    "namespaces: own processes, network and users, and by Landlock of the files only Python's and an empty home, "
    f"on top of {_LIMITS}",
)
BUBBLEWRAP = Isolation(
    "bubblewrap",
    "bubblewrap: own processes, network, users and file system, in which only Python and an empty home exist, "
    f"on top of {_LIMITS}",
)
KNOWN = {one.name: one for one in (LIMITS, LANDLOCK, NAMESPACES, BUBBLEWRAP)}


def spare_uid() -> int:
    """A user that nobody is, for one worker: root's processes meet no process limit, and root may do anything.

    0 where the present user is not root and so cannot become another one.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not sys.platform.startswith("linux"):
        return 0
    try:
        with open("/proc/self/uid_map") as uid_map:
            spans = [tuple(map(int, line.split())) for line in uid_map]
    except (OSError, ValueError):
        return 0
    inside = [span for span in spans if len(span) == 3 and span[0] <= USERS.start and span[0] + span[2] > USERS.stop]
    # In a container whose users are mapped, high numbers do not exist; 60,000 upwards belong to nobody on most systems.
    return USERS.start + secrets.randbelow(len(USERS)) if inside else 60_000 + secrets.randbelow(1_000)


def python_places() -> list[str]:
    """The folders that Python needs, those under /usr left out."""
    places = [sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))]
    places += [place for place in sys.path if place.endswith("-packages")]
    return [place for place in dict.fromkeys(places) if not place.startswith("/usr/")]


def _readable() -> tuple[list[str], list[str]]:
    """What Landlock leaves to read, without the solutions; and the folders whose names may be listed, for imports."""
    children = list(_without(KIT, PACKAGE))
    readable = [part for place in python_places() for part in _without(KIT, Path(place))]
    listed = {str(folder) for folder in (PACKAGE.parent, PACKAGE)} | set(python_places())
    return [*readable, *children], sorted(listed)


def _without(hidden: Path, wanted: Path) -> Iterator[str]:
    """The place ``wanted``, taken apart where ``hidden`` lies in it: Landlock can allow, but not take back."""
    if not hidden.exists() or not hidden.is_relative_to(wanted):
        yield str(wanted)
        return
    for child in wanted.iterdir():
        if child != hidden:
            yield from _without(hidden, child)


def _ways(place: str) -> list[str]:
    """Options that make the folders on the way to a place, open to every user: bubblewrap's are its own alone."""
    folders = [str(folder) for folder in reversed(Path(place).parents[:-1])]
    return [word for folder in folders for word in ("--perms", "0755", "--dir", folder)]


def _bubblewrap(uid: int) -> list[str]:
    """Bubblewrap's options. For root there is no user namespace: the worker becomes user ``uid`` by itself."""
    command = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session"]
    if uid:
        command += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-all"]
    command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for place in SYSTEM:
        command += ["--ro-bind-try", place, place]
    for place in dict.fromkeys([*python_places(), str(PACKAGE)]):
        if not place.startswith("/usr/"):
            command += [*_ways(place), "--ro-bind-try", place, place]
    if KIT.is_dir():
        command += ["--tmpfs", str(KIT)]
    return command
