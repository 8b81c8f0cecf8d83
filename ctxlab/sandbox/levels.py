"""Which isolation works here: found out by trying, strongest first, with an attempt to break out of each.

A level counts where a worker starts behind its walls and cannot do, from inside, what the level forbids. A container
may allow namespaces but not a fresh /proc, a kernel may have Landlock switched off: nothing is
concluded from a version.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ctxlab.errors import CtxlabError, unknown_name
from ctxlab.sandbox.host import Broken, Limits, Worker, WorkerError
from ctxlab.sandbox.jail import KNOWN, LEVELS, LIMITS, Isolation

ESCAPE = """
import os, socket
def escape(secret, folder, port, parent):
    import ctypes, json, decimal
    done = []
    try: open(secret).read(); done.append("files")
    except OSError: pass
    try: open(folder + "/here", "w").close(); done.append("files")
    except OSError: pass
    try: socket.create_connection(("127.0.0.1", port), timeout=2).close(); done.append("network")
    except OSError: pass
    if os.path.exists(f"/proc/{parent}/cmdline"): done.append("processes")
    open("mine", "w").close()
    return done
"""
FORBIDDEN = {
    "limits": set(), "landlock": {"files", "network"}, "namespaces": {"files", "network", "processes"},
    "bubblewrap": {"files", "network", "processes"},
}  # fmt: skip
_forced: list[Isolation] = []


class IsolationTooWeak(CtxlabError, RuntimeError):
    """This machine cannot shut a worker off as far as was asked for. ``wanted``, ``found``: names of levels."""


def isolation() -> Isolation:
    """The isolation that workers of this process get: the strongest that works here, tried once per process."""
    return _forced[-1] if _forced else _strongest()


def require_isolation(name: str) -> None:
    """Raise `IsolationTooWeak` unless workers here are shut off at least as far as the level ``name``.

    Raises `UnknownName` for a name that is none of `LEVELS` (``limits``, ``landlock``, ``namespaces``, ``bubblewrap``).
    """
    if name not in LEVELS:
        raise unknown_name("isolation level", name, list(LEVELS))
    found = isolation()
    if found.level < LEVELS.index(name):
        raise IsolationTooWeak(
            f"isolation {name} is required, but the strongest that works here is {found.text}",
            hint="install bubblewrap and allow user namespaces, or grade on a machine that has both",
            wanted=name,
            found=found.name,
        )


@contextmanager
def at_level(name: str) -> Iterator[Isolation]:
    """In this block, workers get this level and no stronger one. Raises `IsolationTooWeak` where it does not work."""
    if name not in LEVELS:
        raise unknown_name("isolation level", name, list(LEVELS))
    found = tried(name)
    if found is None:
        raise IsolationTooWeak(f"isolation {name} does not work here", wanted=name, found=_strongest().name)
    _forced.append(found)
    try:
        yield found
    finally:
        _forced.remove(found)


def available() -> tuple[str, ...]:
    """The names of the levels that work here, weakest first."""
    return tuple(name for name in LEVELS if tried(name) is not None)


@functools.cache
def _strongest() -> Isolation:
    return next((found for name in reversed(LEVELS) if (found := tried(name)) is not None), LIMITS)


@functools.cache
def tried(name: str) -> Isolation | None:
    """The level, if it works here; with a user of its own for each worker if that works too."""
    if name != "limits" and not sys.platform.startswith("linux"):
        return None
    for changes_user in (True, False):
        how = replace(KNOWN[name], changes_user=changes_user)
        if not changes_user:
            how = replace(how, text=f"{how.text}; the worker is this very user, and root's processes have no limit")
        try:
            if not _escaped(how) & FORBIDDEN[name]:
                return how
        except (WorkerError, Broken, OSError):
            continue
    return None


def _escaped(how: Isolation) -> set[str]:
    """What a worker could do at this level of the things that a stronger level forbids."""

    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        secret = Path(folder) / "secret"
        secret.write_text("secret")
        if os.name == "posix":
            os.chmod(folder, 0o777)  # so that it is the wall that holds, and not the permissions
        with Worker(Limits(), how=how) as worker:
            worker.channel.ask({"do": "run", "file": "trial", "line": 1, "source": ESCAPE})
            args = [{"value": value} for value in (str(secret), folder, listener.getsockname()[1], os.getpid())]
            answer = worker.channel.ask({"do": "call", "function": "escape", "args": args}, wall=20.0)
    done = answer.get("value")
    if not isinstance(done, list):
        raise Broken("died", str(answer))
    return {str(one) for one in done}
