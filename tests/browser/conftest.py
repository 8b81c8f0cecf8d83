"""A real Chromium against a real JupyterLab, on loopback, from an empty home.

`lab` is the kit's own `ctxlab.lab.serving` on a fresh working copy; `page` records console errors and every request;
`notebook` opens a lesson and waits until its kernel is really there. Nothing waits for a fixed time: every promise
that is awaited in the page races a timer, because Playwright's ``evaluate`` has none of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from browser.notebook import Notebook, Watched
from ctxlab import lab as lab_module

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
SHOTS = Path(os.environ.get("CTXLAB_SCREENSHOTS", "")) if os.environ.get("CTXLAB_SCREENSHOTS") else None


def _found() -> str | None:
    named = os.environ.get("CTXLAB_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The machine's Chromium; else the one of the system's packages; else a failure that says what to install."""
    if path := _found():
        return path
    if shutil.which("apt-get") and os.geteuid() == 0:
        for command in (
            ["apt-get", "update", "-q"],
            ["apt-get", "install", "-y", "-q", "chromium", "fonts-dejavu-core"],
        ):
            subprocess.run(command, check=False, capture_output=True, timeout=280)
        if path := _found():
            return path
    pytest.fail(
        "no Chromium: install one (Debian: apt-get install chromium), or name it in CTXLAB_CHROMIUM", pytrace=False
    )


@pytest.fixture(scope="session")
def playwright_driver() -> Iterator[Playwright]:
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="session")
def browser(playwright_driver: Playwright, chromium: str) -> Iterator[Browser]:
    running = playwright_driver.chromium.launch(executable_path=chromium, args=ARGS)
    yield running
    running.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab_module.Server]:
    """JupyterLab as ``ctxlab lab`` starts it, with an empty home, and with its app reachable from the page."""
    home = tmp_path_factory.mktemp("home")
    config = home / "config"
    config.mkdir()
    (config / "jupyter_lab_config.json").write_text(json.dumps({"LabApp": {"expose_app_in_browser": True}}), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("JUPYTER_CONFIG_DIR", str(config))
        for name in ("DATA", "RUNTIME"):
            patch.setenv(f"JUPYTER_{name}_DIR", str(home / name.lower()))
        patch.setenv("IPYTHONDIR", str(home / "ipython"))
        patch.setenv("JUPYTERLAB_SETTINGS_DIR", str(home / "settings"))
        patch.delenv("JUPYTER_CONFIG_PATH", raising=False)
        copy = lab_module.prepare(home / "context-lab")
        with lab_module.serving(copy.folder, port=0) as server:
            yield server


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    yield Watched(context.new_page())
    context.close()


@pytest.fixture
def notebook(lab: lab_module.Server, watched: Watched) -> Notebook:
    """Opens lessons by name: ``notebook.open("01_the_four_part_budget")``."""
    return Notebook(watched.page, lab.base, lab.token)


@pytest.fixture
def shoot(watched: Watched) -> object:
    """``shoot(locator, name)`` saves a picture where CTXLAB_SCREENSHOTS names a folder, and does nothing elsewhere."""

    def save(locator: object, name: str) -> None:
        if SHOTS is not None:
            SHOTS.mkdir(parents=True, exist_ok=True)
            locator.screenshot(path=SHOTS / f"{name}.png")  # type: ignore[attr-defined]

    return save
