"""The package as a whole: light to import, every public name there, the core free of everything but Python."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ctxlab

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("pandas", "plotly", "jupyterlab", "ipywidgets", "anywidget", "IPython", "tiktoken", "nbformat", "sqlalchemy")

CORE = [
    "errors", "messages", "tokens", "rounds", "budget", "providers", "formats", "repairs", "compress",
    "log", "store", "store.jsonl", "session", "transcript",
]  # fmt: skip
# What a browser's Python has not got, or what the core must not need.
BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top != "ctxlab":
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Block())
import importlib
for name in %r:
    importlib.import_module("ctxlab." + name)
print("ok")
"""


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_importing_ctxlab_imports_nothing_heavy() -> None:
    loaded = json.loads(run("import ctxlab, sys, json; print(json.dumps(sorted(sys.modules)))"))
    tops = {name.partition(".")[0] for name in loaded}
    assert not tops & set(HEAVY)


def test_importing_ctxlab_takes_at_most_three_times_json_plus_50_ms() -> None:
    """The best of seven each, so that another process on the machine does not decide it."""

    def best(code: str) -> float:
        seconds = []
        for _ in range(7):
            start = time.perf_counter()
            run(code)
            seconds.append(time.perf_counter() - start)
        return min(seconds)

    assert best("import ctxlab") <= 3 * best("import json") + 0.050


def test_the_core_imports_with_the_standard_library_alone() -> None:
    assert run(BLOCK % (CORE,)) == "ok"


@pytest.mark.parametrize("name", ctxlab.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(ctxlab, name)
    if callable(value):
        assert value.__doc__
        assert value.__module__.startswith("ctxlab.") or name == "get_encoding"
    assert name in dir(ctxlab)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'compres'"):
        _ = ctxlab.compres


LONGEST = 450  # lines, picked
# The worker runs as a script of its own, where nothing of ctxlab can be imported: it cannot be split.
LONGER = {"sandbox/worker.py": 600}


def modules() -> list[Path]:
    return sorted(path for path in (ROOT / "ctxlab").rglob("*.py") if "_kit" not in path.parts)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_decides_and_stays_readable(path: Path) -> None:
    source = path.read_text("utf-8")
    assert ast.get_docstring(ast.parse(source)), f"{path} has no docstring"
    limit = LONGER.get(path.relative_to(ROOT / "ctxlab").as_posix(), LONGEST)
    assert source.count("\n") <= limit, f"{path} is longer than {limit} lines"
