"""Both steppers in a real JupyterLab: by keyboard alone and by mouse, in both themes, wide and narrow, and long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from browser.notebook import READY, Notebook, Watched
from browser.test_lesson_01 import CUT_OFF

pytestmark = pytest.mark.browser

CUT, REPAIR = "02_when_and_where_to_cut", "03_repair"
Shoot = Callable[[Any, str], None]

LONG = """
from ctxlab.widgets import CutStepper

many = []
for number in range(500):
    call = {"id": f"call{number:05d}", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    many += [
        {"role": "user", "content": f"What about order {number}?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call{number:05d}", "content": "shipped " * 30},
        {"role": "assistant", "content": "It has been shipped."},
    ]
long_one = CutStepper(many, caption="Two thousand messages")
long_one
"""

SET = """
const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
await kernel.requestExecute({ code: argument }).done;
"""

# Milliseconds from an input event to the frame that shows it and the task after it, sorted.
TIMES = """
const paint = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
const root = document.querySelectorAll(".ctx-cut")[argument];
const button = (label) => root.querySelector(`button[aria-label="${label}"]`);
const scroller = root.querySelector(".ctx-history-scroll");
const handle = root.querySelector(".ctx-cut-line");
const measure = async (act) => {
  const times = [];
  for (let turn = 0; turn < 40; turn += 1) {
    const start = performance.now();
    act(turn);
    await paint();
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b);
};
return {
  step: await measure((turn) => button(turn % 8 < 4 ? "Next step" : "Step back").click()),
  scroll: await measure((turn) => { scroller.scrollTop = turn * 2_000; }),
  cut: await measure(() => handle.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }))),
  cards: root.querySelectorAll(".ctx-message").length,
};
"""


def opened(notebook: Notebook, name: str) -> None:
    notebook.open(name)
    notebook.theme("JupyterLab Light")
    assert notebook.run_all() == []
    notebook.full_width()


def set_source(notebook: Notebook, cell: str, source: str) -> None:
    """Replace a cell's source in the page (nothing is saved)."""
    notebook.js(
        READY
        + """
const [id, source] = argument;
const cell = [...panel.content.model.cells].find((item) => item.id === id);
cell.sharedModel.setSource(source);
""",
        argument=[cell, source],
    )


def refused(view: Locator, column: str) -> list[str]:
    """The state of the four main providers' answers in a column."""
    cells = [view.locator(f"[data-answer={name}-{column}]") for name in ("openai", "anthropic", "gemini", "mistral")]
    return [cell.get_attribute("data-state") or "" for cell in cells]


def looked_at(notebook: Notebook, view: Locator, shoot: Shoot, name: str) -> None:
    """Nothing is cut off in either theme at either width, and axe finds nothing."""
    kind = name.split("-")[0]
    notebook.full_width()
    view.evaluate("() => document.activeElement.blur()")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.theme(theme)
        for width in (700, 1280):
            notebook.page.set_viewport_size({"width": width, "height": 2_400})  # so that a picture has all of it
            expect(view).to_be_visible()
            assert view.evaluate(CUT_OFF) == []
            shoot(view, f"{name}-{theme.split()[1].lower()}-{width}")
        assert notebook.accessibility(kind) == []


def test_the_cut_by_keyboard_then_a_reload_keeps_it_then_by_mouse(
    notebook: Notebook, watched: Watched, shoot: Shoot
) -> None:
    opened(notebook, CUT)
    view = notebook.widget("cut")
    headline = view.locator("[data-part=headline]")
    expect(headline).to_have_text("A cut before message 6 parts get_weather (message 4) from its result (message 6)")
    assert refused(view, "naive") == ["no"] * 4
    assert refused(view, "aligned") == ["yes"] * 4

    view.get_by_role("button", name="Next step").focus()
    for _ in range(4):
        notebook.page.keyboard.press("Enter")
    expect(view.locator(".ctx-steps li[aria-current]")).to_contain_text("Message 5 is the tool result for 'wLisbon01'")
    expect(view.locator(".ctx-walk-line")).to_have_text("walking back")
    notebook.expect_value("(stepper.step, stepper.stage['at'])", "(4, 4)")

    view.get_by_role("slider", name="Your cut").focus()
    notebook.page.keyboard.press("ArrowUp")
    notebook.page.keyboard.press("ArrowUp")
    expect(headline).to_have_text("A cut before message 4 parts no call from its result")
    notebook.expect_value("(stepper.cut, stepper.landed, stepper.step)", "(4, 4, 2)")
    assert refused(view, "naive") == ["yes"] * 4
    expect(view.locator("[role=status]")).to_contain_text("parts no call from its result. Refused by 0 of 8")

    view.get_by_label("at a round's start").focus()
    notebook.page.keyboard.press("Space")
    notebook.expect_value("(stepper.rule, stepper.landed)", "('round-start', 3)")

    view.get_by_role("listbox", name="Messages").focus()
    notebook.page.keyboard.press("End")
    expect(view.locator(".ctx-message.ctx-lit[data-index='4']")).to_be_visible()
    expect(view.locator(".ctx-message.ctx-lit[data-index='6']")).to_be_visible()

    tree = view.aria_snapshot()
    for name in (
        'slider "Cut before message"',
        'slider "Your cut"',
        'slider "Step"',
        'listbox "Messages"',
        "Message 6",
    ):
        assert name in tree
    notebook.js("await window.jupyterapp.shell.currentWidget.context.save();")
    notebook.open(CUT)
    notebook.full_width()
    again = notebook.widget("cut")
    expect(again.locator("[data-part=headline]")).to_have_text("A cut before message 4 parts no call from its result")
    expect(again.get_by_label("at a round's start")).to_be_checked()
    dragged_and_looked_at(notebook, again, shoot)
    watched.assert_quiet()


def dragged_and_looked_at(notebook: Notebook, view: Locator, shoot: Shoot) -> None:
    """By mouse: drag the cut, point at a card; then the last step, in both themes at both widths."""
    mouse = notebook.page.mouse
    grip, target = view.locator(".ctx-cut-line span").bounding_box(), view.locator("[data-index='3']").bounding_box()
    assert grip is not None
    assert target is not None
    mouse.move(grip["x"] + 20, grip["y"] + 8)
    mouse.down()
    mouse.move(grip["x"] + 20, target["y"] - 8, steps=6)
    mouse.up()
    expect(view.locator("[data-part=headline]")).to_have_text("A cut before message 3 parts no call from its result")
    notebook.expect_value("(stepper.cut, stepper.landed)", "(3, 3)")
    view.locator("[data-index='5']").hover()
    expect(view.locator(".ctx-lit")).to_have_count(2)
    expect(view.locator(".ctx-arc-lit")).to_have_count(1)

    notebook.js(
        SET,
        argument="stepper.rule = 'pair-safe'; stepper.cut = 6; stepper.step = 9",
    )
    expect(view.locator(".ctx-token-bar").nth(1)).to_contain_text("65 ✗ refused")
    view.locator(".ctx-steps li[data-step='3']").hover()
    expect(view.locator(".ctx-lit")).to_have_count(2)
    expect(view.locator(".ctx-pieces")).to_contain_text("current request · message 3")
    mouse.move(0, 0)
    looked_at(notebook, view, shoot, "cut-end")


@pytest.mark.slow  # it measures: on a machine that is doing something else, a frame may well be late
def test_two_thousand_messages_step_scroll_and_drag_within_50_ms(
    notebook: Notebook, watched: Watched, shoot: Shoot
) -> None:
    notebook.open(CUT)
    set_source(notebook, "c02-own-log", LONG)
    assert notebook.run_all() == []
    view = notebook.page.locator(".ctx-cut", has_text="Two thousand messages")
    view.scroll_into_view_if_needed()
    index = notebook.page.locator(".ctx-cut").count() - 1
    best = dict.fromkeys(("step", "scroll", "cut"), 1_000.0)
    cut = 1_994
    for _ in range(4):  # the best of four, so that another process on the machine does not decide it
        found = notebook.js(TIMES, 60, index)
        cut -= 40
        assert found["cards"] < 40, "only the cards in sight are in the page"
        best = {act: min(p95, found[act][37]) for act, p95 in best.items()}
        if max(best.values()) <= 50:
            break
    assert max(best.values()) <= 50, f"p95 in ms: {best}"
    expect(view.locator("[data-part=headline]")).to_contain_text(f"A cut before message {cut} parts look_up")
    expect(view.locator("[data-answer=openai-naive]")).to_have_attribute("data-state", "no")
    notebook.expect_value("(long_one.cut, long_one.landed)", f"({cut}, {cut - 1})")
    shoot(view, "cut-long-light-1280")
    watched.assert_quiet()


def test_the_repair_by_keyboard_alone_and_a_reload_keeps_it(notebook: Notebook, watched: Watched, shoot: Shoot) -> None:
    opened(notebook, REPAIR)
    view = notebook.widget("repair")
    append, discard = view.locator("[data-column=append]"), view.locator("[data-column=discard]")
    expect(view.locator(".ctx-found")).to_have_text(
        "Dangling call: pay_refund ('refund812') in message 1 has no result"
    )
    assert refused(view, "before") == ["no"] * 4
    assert refused(view, "append") == ["waiting"] * 4
    view.get_by_role("button", name="Next step").focus()
    notebook.page.keyboard.press("Enter")
    expect(append.locator("[data-mark=new]")).to_contain_text("[interrupted]")
    expect(discard.locator("[data-mark=gone]")).to_have_count(1)
    assert refused(view, "append") == refused(view, "discard") == ["yes"] * 4
    notebook.expect_value("stepper.step", "1")

    view.get_by_label("What is broken").select_option("some-results-of-a-batch")
    expect(view.locator(".ctx-story")).to_contain_text("Three calls went out at once.")
    notebook.expect_value("(stepper.case, stepper.step)", "('some-results-of-a-batch', 0)")
    for step in range(3):
        expect(view.locator(".ctx-step-place")).to_have_text(f"{step} of 3" if step else "3 to take")
        view.get_by_role("button", name="Next step").press("Enter")
    expect(discard.locator("[data-mark=gone]")).to_have_count(3)
    append.locator("[data-index='0']").focus()
    notebook.page.keyboard.press("ArrowDown")
    notebook.page.keyboard.press("ArrowDown")
    expect(append.locator(".ctx-lit")).to_have_count(2)
    expect(discard.locator(".ctx-step-lit")).to_have_count(1)
    expect(view.locator("[role=status]")).to_contain_text("Dangling call: get_price")
    notebook.page.keyboard.press("Escape")
    notebook.js("await window.jupyterapp.shell.currentWidget.context.save();")
    notebook.open(REPAIR)
    again = notebook.widget("repair")
    expect(again.locator(".ctx-step-place")).to_have_text("3 of 3")
    looked_at(notebook, again, shoot, "repair-batch")
    watched.assert_quiet()
