"""``ctxlab lab``: a working copy of the lessons and exercises, and JupyterLab on the first of them.

The working copy is the learner's: a file that is already there is never overwritten. What JupyterLab is told (no news
prompt, no check for updates) goes into the copy's own ``.ctxlab`` folder, so the learner's own Jupyter settings stay
as they are. The server listens on loopback only and asks no registry for extensions.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ctxlab.errors import CtxlabError
from ctxlab.kit import folder as kit_folder

START = "notebooks/00_start_here.ipynb"
PARTS = ("notebooks", "exercises")
HOST = "127.0.0.1"
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    }
}
_LEAVE_OUT = ("__pycache__", ".ipynb_checkpoints")
# Loopback is never asked for through a proxy, whatever the environment says.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class LabError(CtxlabError, RuntimeError):
    """JupyterLab is not installed or did not start. ``log``: the last lines that it wrote, where there are any."""


@dataclass(frozen=True, slots=True)
class WorkingCopy:
    """The learner's folder: which files were ``copied`` into it, and which were ``kept`` because they were there."""

    folder: Path
    copied: tuple[Path, ...]
    kept: tuple[Path, ...]

    def __str__(self) -> str:
        kept = f", {len(self.kept)} kept as you left them" if self.kept else ""
        files = "1 file" if len(self.copied) == 1 else f"{len(self.copied)} files"
        return f"{self.folder}: {files} copied{kept}"


def prepare(folder: str | os.PathLike[str] = "context-lab") -> WorkingCopy:
    """Copy lessons and exercises into ``folder``, without touching any file that is there already.

    Also writes JupyterLab's settings for this folder. Raises `LabError` where ``folder`` is a file, `KitMissing` where
    the kit's files are not installed, `OSError` where it cannot be written.
    """
    target = Path(folder).expanduser().resolve()
    if target.exists() and not target.is_dir():
        raise LabError(f"{target} is a file", hint="name a folder: ctxlab lab context-lab")
    copied: list[Path] = []
    kept: list[Path] = []
    for part in PARTS:
        source = kit_folder(part)
        for path in _files(source):
            place = target / part / path.relative_to(source)
            if place.exists():
                kept.append(place)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
            copied.append(place)
    _write_settings(target)
    return WorkingCopy(target, tuple(copied), tuple(kept))


def _files(source: Path) -> Iterator[Path]:
    for path in sorted(source.rglob("*")):
        if path.is_file() and not any(part in _LEAVE_OUT for part in path.relative_to(source).parts):
            yield path


def _write_settings(target: Path) -> None:
    place = target / ".ctxlab" / "jupyter" / "labconfig"
    place.mkdir(parents=True, exist_ok=True)
    (place / "default_setting_overrides.json").write_text(json.dumps(SETTINGS, indent=2) + "\n", "utf-8")


def environment(folder: Path) -> dict[str, str]:
    """The server's environment: the folder's own settings before the learner's, and workspaces kept in the folder."""
    own = str(folder / ".ctxlab" / "jupyter")
    before = os.environ.get("JUPYTER_CONFIG_PATH")
    return {
        **os.environ,
        # So that `ctxlab` is found in JupyterLab's own terminals, where nobody has activated anything.
        "PATH": os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath))),
        "JUPYTER_CONFIG_PATH": own if not before else os.pathsep.join((own, before)),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / ".ctxlab" / "workspaces"),
        "JUPYTER_PREFER_ENV_PATH": "1",
    }


def command(folder: Path, port: int, token: str) -> list[str]:
    """The command that starts JupyterLab. ``port`` 0: any free one."""
    return [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        f"--ServerApp.ip={HOST}",
        f"--ServerApp.port={port}",
        f"--ServerApp.root_dir={folder}",
        f"--ServerApp.allow_root={hasattr(os, 'geteuid') and os.geteuid() == 0}",
        f"--IdentityProvider.token={token}",
        "--LabApp.extension_manager=readonly",
        "--LabApp.news_url=None",
        "--ServerApp.log_level=WARN",
    ]


@dataclass(frozen=True, slots=True)
class Server:
    """A running JupyterLab: where it is, and its process."""

    url: str
    base: str
    token: str
    process: subprocess.Popen[str]


@contextmanager
def serving(folder: Path, port: int = 8888, wait: float = 60.0) -> Iterator[Server]:
    """JupyterLab on ``folder`` for as long as the block runs, then its process group is ended.

    ``port``: tried first, then the next free ones; 0 takes any. ``wait``: seconds until it must answer. Raises
    `LabError` where JupyterLab is not installed, ends early, or does not answer in time.
    """
    _require_jupyterlab()
    token = secrets.token_hex(24)
    process = subprocess.Popen(
        command(folder, port, token),
        env=environment(folder),
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    log = _LogTail(process)
    try:
        base = _wait_until_up(process, token, log, wait)
        yield Server(f"{base}lab/tree/{START}?token={token}", base, token, process)
    finally:
        _end(process)
        log.close()


def open_lab(folder: str | os.PathLike[str] = "context-lab", browser: bool = True, port: int = 8888) -> int:
    """Make the working copy, start JupyterLab on the first lesson, print its URL, and stay until Ctrl-C.

    ``browser``: also open it in the web browser. ``port``: tried first, then the next free ones. Returns the exit
    status: 0 after Ctrl-C, else JupyterLab's own. Raises what `prepare` and `serving` raise.
    """
    _require_jupyterlab()
    copy = prepare(folder)
    print(copy, file=sys.stderr)  # noqa: T201 - words go to stderr, the URL to stdout
    try:
        with _ended_by_signals(), serving(copy.folder, port) as server:
            print(server.url, flush=True)  # noqa: T201
            print("Stop it with Ctrl-C; your files stay.", file=sys.stderr)  # noqa: T201
            if browser:
                webbrowser.open(server.url)
            return server.process.wait()
    except KeyboardInterrupt:
        return 0


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A closed terminal and a polite kill end the block as Ctrl-C does, so that no server is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _require_jupyterlab() -> None:
    needed = ("jupyterlab", "ipykernel", "ipywidgets", "anywidget", "plotly", "pandas")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        hint = "pip install 'ctxlab[lab]', or in a clone: pip install -e '.[lab]'"
        raise LabError(f"not installed: {', '.join(missing)}", hint=hint, log="")


class _LogTail:
    """Reads what the server writes, so that its pipe never fills, and keeps the last lines for an error."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._read, name="jupyterlab-log", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines = [*self._lines[-29:], line]

    def text(self) -> str:
        return "".join(self._lines)

    def close(self) -> None:
        self._thread.join(timeout=2)


def _wait_until_up(process: subprocess.Popen[str], token: str, log: _LogTail, wait: float) -> str:
    """The server's base URL, once it answers. The real port stands in the file that the server writes on start."""
    from time import monotonic

    deadline = monotonic() + wait
    pause = threading.Event()
    while monotonic() < deadline:
        if process.poll() is not None:
            raise LabError(
                f"JupyterLab ended with status {process.returncode} before it answered",
                hint="what it wrote last:\n" + log.text(),
                log=log.text(),
            )
        base = _base_url(process.pid)
        if base and _answers(f"{base}api/status?token={token}"):
            return base
        pause.wait(0.1)
    raise LabError(f"JupyterLab did not answer within {wait:g} seconds", hint=log.text(), log=log.text())


def _base_url(pid: int) -> str | None:
    from jupyter_core.paths import jupyter_runtime_dir

    try:
        info = json.loads(Path(jupyter_runtime_dir(), f"jpserver-{pid}.json").read_text("utf-8"))
    except (OSError, json.JSONDecodeError):
        return None
    return str(info["url"])


def _answers(url: str) -> bool:
    try:
        with _DIRECT.open(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _end(process: subprocess.Popen[str]) -> None:
    """End the server, which ends its kernels; by force after ten seconds."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            process.wait()
    if process.stderr is not None:
        process.stderr.close()


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
