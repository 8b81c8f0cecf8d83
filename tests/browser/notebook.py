"""Drive one notebook in JupyterLab: open, wait for the kernel, run, ask the kernel, change the theme."""

from __future__ import annotations

from importlib.resources import files
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page

# JupyterLab's own indicator says "idle" before there is a kernel, so each stage is awaited by itself.
READY = """
const app = window.jupyterapp;
await app.restored;
const panel = app.shell.currentWidget;
await panel.context.ready;
await panel.revealed;
await panel.sessionContext.ready;
const kernel = panel.sessionContext.session.kernel;
await kernel.info;
"""
IDLE = """
const calm = () => kernel.connectionStatus === "connected" && kernel.status === "idle";
while (!calm()) await new Promise((resolve) => kernel.statusChanged.connect(function once() {
  kernel.statusChanged.disconnect(once); resolve();
}));
"""


class Watched:
    """A page, what its console complained of, and the hosts that it asked for anything."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname or ""))
        page.on("websocket", lambda socket: self.hosts.add(urlsplit(socket.url).hostname or ""))

    def assert_quiet(self) -> None:
        """No console error, and no request to anything but loopback (data: and blob: URLs have no host)."""
        assert self.errors == [], self.errors
        assert self.hosts <= {"", "127.0.0.1", "localhost"}


class Notebook:
    """A lesson in a page. Every wait ends: ``seconds`` at most."""

    def __init__(self, page: Page, base: str, token: str) -> None:
        self.page, self._base, self._token = page, base, token

    def open(self, name: str, seconds: float = 60) -> None:
        """Open ``notebooks/name.ipynb`` in a clean workspace and wait until its kernel answers."""
        self.page.goto(f"{self._base}lab/tree/notebooks/{name}.ipynb?token={self._token}&reset")
        self.page.wait_for_function(
            "window.jupyterapp && window.jupyterapp.shell.currentWidget?.context", timeout=seconds * 1000
        )
        self.js(READY + IDLE, seconds)

    def js(self, body: str, seconds: float = 30, argument: Any = None) -> Any:
        """What the async function with this body returns; an error after ``seconds``, where evaluate would hang."""
        return self.page.evaluate(
            f"""([argument, ms]) => Promise.race([
              (async () => {{ {body} }})(),
              new Promise((_, reject) => setTimeout(() => reject(new Error(`nothing after ${{ms}} ms`)), ms)),
            ])""",
            [argument, seconds * 1000],
        )

    def run_all(self, seconds: float = 90) -> list[str]:
        """Run every cell; returns the errors of code cells (none, if all is well)."""
        return self.js(
            READY
            + """await app.commands.execute("notebook:run-all-cells");"""
            + IDLE
            + """
const cells = [...panel.content.model.cells].filter((cell) => cell.type === "code");
const late = cells.filter((cell) => cell.executionCount === null).map((cell) => `${cell.id}: not run`);
const failed = cells.flatMap((cell) => Array.from({ length: cell.outputs.length }, (_, i) => cell.outputs.get(i))
  .filter((output) => output.type === "error").map(() => `${cell.id}: error`));
return [...late, ...failed];
""",
            seconds,
        )

    def ask(self, expression: str, seconds: float = 20) -> str:
        """``repr`` of a Python expression in the notebook's kernel."""
        return self.js(
            READY
            + """
const future = kernel.requestExecute({ code: "", silent: true, user_expressions: { value: argument } });
const reply = await future.done;
const value = reply.content.user_expressions.value;
return value.status === "ok" ? value.data["text/plain"] : `${value.ename}: ${value.evalue}`;
""",
            seconds,
            expression,
        )

    def expect_value(self, expression: str, expected: str, seconds: float = 10) -> None:
        """Wait until ``repr`` of a Python expression in the kernel is ``expected``.

        A widget saves once a frame, and its manager holds a save back while another is under way.
        """
        deadline = monotonic() + seconds
        while (found := self.ask(expression)) != expected:
            assert monotonic() < deadline, f"{expression} is {found} in the kernel; expected {expected}"

    def theme(self, name: str) -> None:
        """Change JupyterLab's theme, such as ``JupyterLab Dark``."""
        self.js("""await window.jupyterapp.commands.execute("apputils:change-theme", { theme: argument });""", 20, name)
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)

    def full_width(self) -> None:
        """Hide the file browser, so that the notebook has the whole window."""
        self.js("""window.jupyterapp.shell.collapseLeft(); window.jupyterapp.shell.collapseRight();""")

    def widget(self, kind: str, index: int = 0) -> Locator:
        """The ``index``-th widget with class ``ctx-<kind>``, scrolled into view."""
        found = self.page.locator(f".jp-OutputArea-output .ctx-{kind}").nth(index)
        found.scroll_into_view_if_needed()
        return found

    def accessibility(self, widget: str) -> list[str]:
        """What axe-core finds against WCAG A and AA in all widgets of class ``ctx-<widget>``: rule, and where."""
        source = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
        self.page.evaluate(source)
        return self.js(
            """const found = await window.axe.run(`.ctx-${argument}`, {
  runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] },
});
return found.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.html} ${node.failureSummary}`));
""",
            60,
            widget,
        )

    def dialogs(self) -> int:
        """How many dialogs and notification pop-ups are open."""
        return self.page.locator(".jp-Dialog, .Toastify__toast").count()
