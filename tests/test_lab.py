"""``ctxlab lab``: a working copy that is the learner's, and a JupyterLab that starts without a prompt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ctxlab import lab


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(home / name.lower()))
    monkeypatch.setenv("IPYTHONDIR", str(home / "ipython"))
    monkeypatch.delenv("JUPYTER_CONFIG_PATH", raising=False)
    return home


def test_the_first_lesson_and_its_data_are_copied(tmp_path: Path) -> None:
    copy = lab.prepare(tmp_path / "context-lab")
    names = {path.relative_to(copy.folder).as_posix() for path in copy.copied}
    assert {lab.START, "notebooks/data/library_desk.synthetic.json"} <= names
    assert copy.kept == ()
    assert not any(".ipynb_checkpoints" in name or "__pycache__" in name for name in names)


def test_a_learners_file_is_never_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "context-lab"
    lab.prepare(folder)
    mine = folder / lab.START
    mine.write_text("my notes", "utf-8")
    gone = folder / "notebooks/data/library_desk.synthetic.json"
    gone.unlink()
    again = lab.prepare(folder)
    assert mine.read_text("utf-8") == "my notes"
    assert again.copied == (gone,)
    assert mine in again.kept
    assert str(again) == f"{folder}: 1 file copied, {len(again.kept)} kept as you left them"


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "notes.txt"
    place.write_text("x", "utf-8")
    with pytest.raises(lab.LabError, match=r"notes\.txt is a file") as caught:
        lab.prepare(place)
    assert "name a folder" in caught.value.hint


def test_the_settings_are_the_folders_own_and_come_before_the_learners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "elsewhere")
    copy = lab.prepare(tmp_path / "context-lab")
    first, second = lab.environment(copy.folder)["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    written = json.loads((Path(first) / "labconfig" / "default_setting_overrides.json").read_text("utf-8"))
    assert written["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"
    assert second == "elsewhere"


def test_the_server_answers_on_loopback_with_its_token_only_and_ends_with_the_block(
    tmp_path: Path, empty_home: Path
) -> None:
    copy = lab.prepare(tmp_path / "context-lab")
    with lab.serving(copy.folder, port=0) as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert server.url.endswith(f"/lab/tree/{lab.START}?token={server.token}")
        with urllib.request.urlopen(server.url, timeout=10) as response:
            assert response.status == 200
        settings = f"{server.base}lab/api/settings/@jupyterlab/apputils-extension:notification?token={server.token}"
        with urllib.request.urlopen(settings, timeout=10) as response:
            assert json.load(response)["schema"]["properties"]["fetchNews"]["default"] == "false"
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{server.base}api/contents", timeout=10)
        assert caught.value.code == 403
    assert server.process.poll() is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_open_lab_prints_the_url_alone_on_stdout_and_leaves_no_server_behind(
    tmp_path: Path, empty_home: Path, number: signal.Signals
) -> None:
    program = "import sys; from ctxlab.lab import open_lab; sys.exit(open_lab(sys.argv[1], browser=False, port=0))"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "context-lab")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(line, timeout=10) as response:
        assert response.status == 200
    process.send_signal(number)
    rest, words = process.communicate(timeout=30)
    assert (process.returncode, rest) == (0, "")
    assert "files copied" in words
    assert "Ctrl-C" in words
    assert "Traceback" not in words
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(line, timeout=2)


def test_a_server_that_cannot_start_says_what_it_wrote(
    tmp_path: Path, empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "a-file"
    blocked.write_text("", "utf-8")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(blocked / "runtime"))
    copy = lab.prepare(tmp_path / "context-lab")
    with pytest.raises(lab.LabError, match="ended with status 1") as caught, lab.serving(copy.folder, port=0):
        pass
    assert "a-file" in caught.value.log


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = lab.find_spec
    monkeypatch.setattr(lab, "find_spec", lambda name: None if name == "plotly" else real(name))
    with pytest.raises(lab.LabError, match="not installed: plotly") as caught, lab.serving(tmp_path, port=0):
        pass
    assert caught.value.hint == "pip install 'ctxlab[lab]', or in a clone: pip install -e '.[lab]'"
