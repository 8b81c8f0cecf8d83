"""Other session stores for `sessions.py --peers`, behind one small interface, in an environment of their own.

Each one keeps 10,000 messages as its own documentation shows. What it has no call for is done as its user would have
to: a fork of OpenAI Agents' ``SQLiteSession`` is a copy of the items, one of LangGraph's ``SqliteSaver`` an update of
an old checkpoint.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import venv
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

PACKAGES = ("openai-agents", "langgraph", "langgraph-checkpoint-sqlite", "orjson", "sqlalchemy")


class Contender(Protocol):
    """A store under test. ``append`` writes ``group`` messages a call, ``load`` reads everything in a new handle."""

    def append(self, messages: list[dict], group: int = 1) -> None: ...
    def load(self) -> int: ...
    def fork(self, at: int) -> None: ...
    def disk(self) -> int: ...


def files(folder: Path) -> int:
    """Bytes of all files in a folder, when a database has taken its write-ahead log in."""
    for path in folder.glob("*.db"):
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def parts(messages: list[dict], group: int) -> list[list[dict]]:
    """The messages in pieces of ``group``."""
    return [messages[start : start + group] for start in range(0, len(messages), group)]


class Ctxlab:
    """ctxlab's own session, in a folder or in SQLite."""

    def __init__(self, folder: Path, database: bool = False) -> None:
        from ctxlab.session import Session

        folder.mkdir()
        self.folder, self.url = folder, f"sqlite:///{folder / 'store.db'}" if database else str(folder)
        self.open = Session.open
        self.session = Session.create(self.url, "bench")

    def append(self, messages: list[dict], group: int = 1) -> None:
        for part in parts(messages, group):
            self.session.append_many(part)

    def load(self) -> int:
        with self.open(self.url, "bench") as session:
            return len(session.journal.log.messages())

    def fork(self, at: int) -> None:
        self.session.fork(at).close()

    def disk(self) -> int:
        return files(self.folder)


class Agents:
    """OpenAI Agents SDK, ``SQLiteSession``."""

    def __init__(self, folder: Path) -> None:
        from agents import SQLiteSession

        folder.mkdir()
        self.folder, self.make, self.forks = folder, SQLiteSession, 0
        self.run: Callable[[Any], Any] = asyncio.new_event_loop().run_until_complete
        self.session = SQLiteSession("bench", folder / "agents.db")

    def append(self, messages: list[dict], group: int = 1) -> None:
        for part in parts(messages, group):
            self.run(self.session.add_items(part))

    def load(self) -> int:
        session = self.make("bench", self.folder / "agents.db")
        found = len(self.run(session.get_items()))
        session.close()
        return found

    def fork(self, at: int) -> None:
        self.forks += 1
        items = self.run(self.session.get_items())[:at]
        self.run(self.make(f"fork-{self.forks}", self.folder / "agents.db").add_items(items))

    def disk(self) -> int:
        return files(self.folder)


class LangGraph:
    """LangGraph, ``SqliteSaver`` under a graph with ``MessagesState``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.thread = folder, {"configurable": {"thread_id": "bench"}}
        self.graph = self._graph()
        self.last: dict[int, Any] = {}  # the checkpoint after so many messages
        self.count = 0

    def _graph(self) -> Any:
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.graph import MessagesState, StateGraph

        built = StateGraph(MessagesState).add_node("model", lambda state: state).set_entry_point("model")
        database = sqlite3.connect(self.folder / "langgraph.db", check_same_thread=False)
        return built.compile(checkpointer=SqliteSaver(database))

    def _update(self, config: Any, messages: list[dict]) -> Any:
        from langchain_core.messages import convert_to_messages

        return self.graph.update_state(config, {"messages": convert_to_messages(messages)}, as_node="model")

    def append(self, messages: list[dict], group: int = 1) -> None:
        for part in parts(messages, group):
            self.count += len(part)
            self.last[self.count] = self._update(self.thread, part)

    def load(self) -> int:
        return len(self._graph().get_state(self.thread).values["messages"])

    def fork(self, at: int) -> None:
        self._update(self.last[at], [{"role": "user", "content": "another way"}])

    def disk(self) -> int:
        return files(self.folder)


def contenders(folder: Path) -> dict[str, Contender]:
    """All of them, each in a folder of its own, empty."""
    folder.mkdir()
    return {
        "ctxlab, folder": Ctxlab(folder / "folder"),
        "ctxlab, sqlite": Ctxlab(folder / "sqlite", database=True),
        "OpenAI Agents SQLiteSession": Agents(folder / "agents"),
        "LangGraph SqliteSaver": LangGraph(folder / "langgraph"),
    }


def in_own_environment(folder: Path, script: Path, arguments: list[str]) -> int:
    """Installs the peers into a new virtual environment and runs the script there; its exit status."""
    place = folder / "venv"
    venv.create(place, with_pip=True)
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    print(f"installing {', '.join(PACKAGES)} into {place}", file=sys.stderr)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    environment = {**os.environ, "PYTHONPATH": str(script.resolve().parent.parent)}
    return subprocess.run([python, script, *arguments], env=environment, check=False).returncode
