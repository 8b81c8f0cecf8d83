"""Shut the present process off from the machine: namespaces, Landlock, another user. Linux, standard library alone.

The worker reads this file and calls `enter` before any code of a learner's runs; nothing is undone afterwards. What it
is to do comes as a plan (plain data, see `ctxlab.sandbox.jail`). A wall that cannot be put up raises OSError: a worker
never runs with less than was promised.

Sources: the kernel's documentation of Landlock (userspace-api/landlock), and the manual pages unshare(2),
user_namespaces(7), pid_namespaces(7) and prctl(2).
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Any, NoReturn

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
SET_PDEATHSIG, SET_DUMPABLE, SET_NO_NEW_PRIVS = 1, 4, 38
SIGKILL = 9

# Landlock's system calls have these numbers on every architecture but Alpha.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1, 2, 4, 8, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # the rights that a rule on a file may give
# What each version of Landlock's interface can refuse: in the file system, on the network, across the wall.
FILES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
TCP_BIND_AND_CONNECT, ABSTRACT_SOCKETS_AND_SIGNALS = 3, 3

_libc = ctypes.CDLL(None, use_errno=True)


def enter(plan: dict[str, Any], pipes: tuple[int, int]) -> None:
    """Put up the walls of a plan. With ``namespaces``, returns in a grandchild, which alone keeps the pipes open.

    ``uid``: the user to become (0: stay). ``home``: the folder to be in. ``open``: folders that this user must be able
    to reach. ``readable``, ``writable`` and ``listed`` (names only): the paths that Landlock leaves, where ``landlock``
    is set.
    """
    _prctl(SET_NO_NEW_PRIVS, 1)
    namespaces, uid = bool(plan["namespaces"]), int(plan["uid"])
    if namespaces:
        _unshare(NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET | (0 if uid else NEWUSER))
    barred = _barred(plan["open"]) if uid else None
    if namespaces or barred:
        if not namespaces:
            _unshare(NEWNS)
        _mount("none", "/", "", MS_REC | MS_PRIVATE)
    while barred:
        _open_way(barred, [place for place in plan["open"] if place.startswith(barred + "/")])
        barred = _barred(plan["open"])
    if namespaces:
        _fork_and_follow(pipes)
        _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _become(uid)
    os.chdir(plan["home"])  # only now may it be entered, and it is not seen by the way of a folder that was covered
    if namespaces and not uid:
        _drop_capabilities()
    if namespaces:
        _fork_and_follow(pipes)
    if plan["landlock"]:
        _landlock(plan["readable"], plan["writable"], plan["listed"])


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(option: int, value: int) -> None:
    _checked(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl({option})")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    arguments = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())
    _checked(_libc.mount(*arguments), f"mount {target}")


def _unshare(flags: int) -> None:
    """New namespaces; in a new user namespace this user stays who it is, and is nobody else's."""
    uid, gid = os.getuid(), os.getgid()
    _checked(_libc.unshare(flags), "unshare")
    if flags & NEWUSER:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def _barred(places: list[str]) -> str | None:
    """The first folder on the way to one of the places through which only its owner may go (``/root``)."""
    for place in places:
        parts = place.split("/")
        for end in range(2, len(parts)):
            folder = "/".join(parts[:end])
            if os.path.isdir(folder) and not os.stat(folder).st_mode & 0o001:
                return folder
    return None


def _open_way(barred: str, places: list[str]) -> None:
    """In this mount namespace, put an empty folder over a barred one, in which only the places can be seen."""
    held = [(place, os.open(place, os.O_PATH)) for place in places]
    _mount("none", barred, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k")
    for place, handle in held:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            os.makedirs(place, mode=0o755, exist_ok=True)
            _mount(f"/proc/self/fd/{handle}", place, "", MS_BIND | MS_REC)
        os.close(handle)


def _fork_and_follow(pipes: tuple[int, int]) -> None:
    """Go on in a child, which ends when this process does; this process waits for it and ends as it ended."""
    parent = os.getpid()
    child = os.fork()
    if child:
        for fd in pipes:
            os.close(fd)
        _follow(child)
    _prctl(SET_PDEATHSIG, SIGKILL)
    if os.getppid() not in (parent, 0):  # 0: the parent is in the outer process namespace
        os._exit(1)


def _follow(child: int) -> NoReturn:
    """Reap whatever ends, until the child does."""
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            os._exit(1)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _become(uid: int) -> None:
    """Become another user, for good; and let it look at its own /proc, which the change forbids."""
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        _prctl(SET_DUMPABLE, 1)


def _drop_capabilities() -> None:
    """Give up what being the founder of a user namespace allows inside it."""
    header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
    _checked(_libc.capset(header, nothing), "capset")


def landlock_version() -> int:
    """The version of Landlock's interface; 0 where the kernel has none, or has it switched off."""
    version: int = _libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    return max(0, version)


def _landlock(readable: list[str], writable: list[str], listed: list[str]) -> None:
    """From now on only these paths; no TCP (version 4), no signal to a process outside (version 6)."""
    version = landlock_version()
    if not version:
        raise OSError("this kernel has no Landlock")
    files = FILES[min(version, max(FILES))]
    network = TCP_BIND_AND_CONNECT if version >= 4 else 0
    scope = ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0
    fields = [files, network, scope][: 1 if version < 4 else 2 if version < 6 else 3]
    words = struct.pack(f"{len(fields)}Q", *fields)
    rules = _checked(_libc.syscall(CREATE_RULESET, words, ctypes.c_size_t(len(words)), 0), "landlock_create_ruleset")
    for paths, rights in ((readable, READ), (writable, files), (listed, READ_DIR)):
        for path in paths:
            _allow(rules, path, rights & files)
    _checked(_libc.syscall(RESTRICT_SELF, rules, 0), "landlock_restrict_self")
    os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not on this machine: nothing to allow
    if not os.path.isdir(path):
        rights &= ON_FILES
    rule = struct.pack("=Qi", rights, handle)
    _checked(_libc.syscall(ADD_RULE, rules, 1, rule, 0), f"landlock_add_rule for {path}")
    os.close(handle)
