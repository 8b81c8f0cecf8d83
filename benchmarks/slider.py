"""From a key press on a slider to the painted frame, measured inside the page: BudgetView beside plotly's FigureWidget.

Both draw the same four-part bar in a real JupyterLab, driven by a real Chromium on loopback. The clock starts at the
key's own time stamp and stops in the first task after the frame in which the picture changed: the browser has handed
that frame to its compositor. (It is not the time at which a screen shows it.) One after the other, 60 presses each.

Run it with ``python benchmarks/slider.py``; it needs the ``dev`` extra and a Chromium. Goal: a median within one frame
of 16.7 ms for BudgetView.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))  # the driver of the browser tests

from browser.notebook import Notebook

from ctxlab import lab

PRESSES = 60
FRAME_MS = 16.7

BUDGET_VIEW = """
from ctxlab.widgets import BudgetView
view = BudgetView(window=128_000, history=30_000, reserve=16_000)
view
"""

FIGURE_WIDGET = """
import ipywidgets
import plotly.graph_objects as go

NAMES = ("system", "tools", "history", "left", "reserve", "margin")
figure = go.FigureWidget([go.Bar(y=["window"], x=[0], name=name, orientation="h") for name in NAMES])
figure.update_layout(barmode="stack", height=220)
slider = ipywidgets.IntSlider(30_000, 0, 192_000, 1_000, description="history")

def draw(change=None):
    sizes = [300, 599, slider.value, max(0, 111_000 - slider.value), 16_000, 512]
    with figure.batch_update():
        for bar, size in zip(figure.data, sizes):
            bar.x = [size]

slider.observe(draw, "value")
draw()
ipywidgets.VBox([slider, figure])
"""

# In the page: one time for each press, from the key's time stamp to the first task after the frame that changed.
MEASURE = """
window.times = [];
let pressed = null;
document.addEventListener("keydown", (event) => { pressed = event.timeStamp; }, true);
new MutationObserver(() => {
  if (pressed === null) return;
  const since = pressed;
  pressed = null;
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => window.times.push(performance.now() - since);
    channel.port2.postMessage(0);
  });
}).observe(document.querySelector(argument), { subtree: true, childList: true, attributes: true });
"""


def write_notebooks(folder: Path) -> None:
    for name, source in (("budget_view", BUDGET_VIEW), ("figure_widget", FIGURE_WIDGET)):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source.strip(), id="c1")])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, folder / "notebooks" / f"{name}.ipynb")


def press(page: Page, notebook: Notebook, picture: str, slider: str) -> list[float]:
    """Press an arrow key 60 times, each after the frame of the one before; milliseconds of each."""
    notebook.js(MEASURE, argument=picture)
    page.locator(slider).first.focus()
    for count in range(1, PRESSES + 1):
        page.keyboard.press("ArrowRight")
        page.wait_for_function("count => window.times.length >= count", arg=count, timeout=10_000)
    return page.evaluate("window.times")


def measure(page: Page, server: lab.Server, name: str, picture: str, slider: str) -> dict[str, Any]:
    """First paint after the cell ran (seconds, the driver's time included) and the times of the presses."""
    sent = {"bytes": 0}
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: _count(sent, frame)))
    notebook = Notebook(page, server.base, server.token)
    notebook.open(name)
    before, start = sent["bytes"], time.perf_counter()
    errors = notebook.run_all()
    if errors:
        raise SystemExit(f"{name}: {errors}")
    page.locator(picture).first.wait_for(timeout=60_000)
    first, first_bytes = time.perf_counter() - start, sent["bytes"] - before
    times = sorted(press(page, notebook, picture, slider))
    return {
        "name": name,
        "first_paint_s": round(first, 2),
        "first_paint_kb": round(first_bytes / 1000, 1),
        "median_ms": round(statistics.median(times), 1),
        "p95_ms": round(times[int(0.95 * len(times)) - 1], 1),
        "presses": len(times),
    }


def _count(sent: dict[str, int], frame: str | bytes) -> None:
    sent["bytes"] += len(frame)


def chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("CTXLAB_CHROMIUM") or next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise SystemExit("no Chromium: install one (Debian: apt-get install chromium), or name it in CTXLAB_CHROMIUM")
    return found


def run() -> list[dict[str, Any]]:
    """Both pictures in one JupyterLab, from an empty home."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        (home / "config").mkdir()
        config = {"LabApp": {"expose_app_in_browser": True}}
        (home / "config" / "jupyter_lab_config.json").write_text(json.dumps(config), "utf-8")
        os.environ.update(
            HOME=str(home),
            JUPYTER_CONFIG_DIR=str(home / "config"),
            JUPYTER_DATA_DIR=str(home / "data"),
            JUPYTER_RUNTIME_DIR=str(home / "runtime"),
            IPYTHONDIR=str(home / "ipython"),
        )
        copy = lab.prepare(home / "context-lab")
        write_notebooks(copy.folder)
        with lab.serving(copy.folder, port=0) as server, sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
            return [
                measure(browser.new_page(), server, *case)
                for case in (
                    ("budget_view", ".ctx-budget .ctx-track", ".ctx-budget input[name=history]"),
                    ("figure_widget", ".js-plotly-plot .barlayer", ".widget-slider .noUi-handle"),
                )
            ]


def main() -> None:
    """Print both rows, and whether the goal is met."""
    rows = run()
    print(f"{'':<14}{'first paint s':>14}{'received kB':>13}{'median ms':>11}{'p95 ms':>9}")
    for row in rows:
        numbers = (row["first_paint_s"], row["first_paint_kb"], row["median_ms"], row["p95_ms"])
        print(f"{row['name']:<14}{numbers[0]:>14}{numbers[1]:>13}{numbers[2]:>11}{numbers[3]:>9}")
    met = rows[0]["median_ms"] <= FRAME_MS
    print(f"goal: median within one frame of {FRAME_MS} ms: {'met' if met else 'NOT met'}")
    if "--json" in sys.argv:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
