"""``ctxlab doctor``: what is there, what is not, and how to mend it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctxlab import doctor
from ctxlab.commands.hands_on import doctor as command
from ctxlab.errors import RanksError


def item(name: str, environ: dict[str, str] | None = None) -> doctor.Item:
    return next(one for one in doctor.examine(environ).items if one.name == name)


def test_here_the_base_works() -> None:
    found = doctor.examine()
    assert found.ok
    assert found.lines[-1] == "the base works"
    names = {one.name for one in found.items}
    assert {
        "Python",
        "ctxlab",
        "click",
        "jupyterlab",
        "psycopg",
        "isolation",
        "Chromium",
        "Node",
        "PostgreSQL",
    } <= names
    assert all(one.mend for one in found.items if one.state != "ok"), "what is not ok says how to mend it"


def test_the_ranks_are_checked_and_not_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(name: str) -> bytes:
        raise RanksError(f"the rank data of {name} has SHA-256 00", hint="pip install it again", encoding=name)

    monkeypatch.setattr("ctxlab.ranks.rank_bytes", damaged)
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 1
    assert "broken   ranks of o200k_base: the rank data of o200k_base has SHA-256 00" in result.stdout
    assert "-> pip install it again" in result.stdout
    assert result.stdout.splitlines()[-1] == "the base is broken: ranks of o200k_base, ranks of cl100k_base"


def test_without_tiktoken_it_is_slower_and_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxlab.ranks.has_tiktoken", lambda: False)
    found = item("counting")
    assert (found.state, found.mend) == ("weak", "pip install tiktoken")
    assert doctor.examine().ok


def test_a_package_that_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in ("plotly", "rich") else real(name))
    assert item("plotly").mend == "pip install 'ctxlab[lab]'"
    assert (item("rich").mend, item("rich").needed) == ("pip install rich", True)
    assert not doctor.examine().ok


def test_a_folder_that_cannot_be_written_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "cwd", classmethod(lambda cls: tmp_path / "gone"))
    found = item("this folder")
    assert (found.state, found.needed) == ("broken", True)
    assert "No such file" in found.found


def test_no_key_is_ever_shown() -> None:
    environ = {"OPENAI_API_KEY": "sk-very-secret", "CTXLAB_MODEL": "m"}
    assert item("an endpoint", environ).state == "ok"
    assert "very-secret" not in json.dumps(doctor.examine(environ).to_json())
    assert item("the scripted model", {"MOCK": "1"}).state == "ok"
    assert item("a model", {"MOCK": "0"}).found == "not set: OPENAI_API_KEY, CTXLAB_MODEL"


def test_for_machines_it_gives_all_of_it() -> None:
    result = CliRunner().invoke(command, ["--format", "json"])
    data = json.loads(result.stdout)
    assert (result.exit_code, data["ok"]) == (0, True)
    assert data["items"][0].keys() == {"group", "name", "state", "found", "mend", "needed"}


def test_a_named_browser_that_is_not_there_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert item("Chromium", {"CTXLAB_CHROMIUM": "/nowhere/chromium"}).state == "missing"
    assert item("Node").mend == "install Node (node); only the front ends' tests need it"
