"""The README does what it says: its commands and its Python run as they are written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ctxlab.cli import main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.S | re.M)


def commands() -> list[str]:
    lines = [line.partition("  #")[0].strip() for block in blocks("console") for line in block.splitlines()]
    return [line for line in lines if line.startswith("ctxlab ") and line != "ctxlab lab"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like a checkout, so that what the commands write stays out of the real one."""
    for part in ("notebooks", "exercises", "solutions"):
        (tmp_path / part).symlink_to(ROOT / part)
    return tmp_path


@pytest.mark.parametrize("command", commands())
def test_every_command_runs_as_it_is_written(command: str, checkout: Path) -> None:
    words = [sys.executable, "-m", "ctxlab", *shlex.split(command)[1:]]
    done = subprocess.run(words, cwd=checkout, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    for written in re.findall(r"-o (\S+)", command):
        assert (checkout / written).stat().st_size > 0


@pytest.mark.parametrize(
    ("number", "printed"), [(0, ["134464", "[]", "[]"]), (1, ["Where is order A-1042?"])], ids=["functions", "session"]
)
def test_the_python_runs_and_prints_what_its_comments_say(checkout: Path, number: int, printed: list[str]) -> None:
    code = blocks("python")[number]
    env = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=checkout, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-len(printed) :] == printed


def test_there_are_commands_to_run_and_every_command_of_ctxlab_is_named() -> None:
    assert len(commands()) >= 6
    for name in main.commands:
        assert re.search(rf"`(ctxlab )?{name}\b|ctxlab {name}\b", README), f"the README does not name ctxlab {name}"


def test_every_module_is_on_the_map() -> None:
    packages = {path.stem if path.is_file() else path.name for path in (ROOT / "ctxlab").iterdir()}
    modules = {name for name in packages if not name.startswith("_") and name != "py"}
    listed = set(re.findall(r"`(\w+)`", README[README.index("## Architecture") :]))
    assert modules <= listed, f"not on the map: {sorted(modules - listed)}"


def test_every_picture_and_link_is_there() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
