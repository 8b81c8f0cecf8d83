"""The front end's pure functions in Chromium, without JupyterLab: the numbers are Python's, to the letter."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from test_budget_view import as_json, states

from browser.notebook import Watched
from ctxlab.widgets import (
    BudgetView,
    CutStepper,
    MessagePath,
    Question,
    RepairStepper,
    ThresholdExplorer,
    kit,
)
from ctxlab.widgets.bank_question import BankQuestion
from ctxlab.widgets.budget_picture import picture
from ctxlab.widgets.memory_sorter import MemorySorter
from ctxlab.widgets.sample import library_desk

pytestmark = pytest.mark.browser


def call(page: Page, widget: str, function: str, states: list[dict[str, Any]]) -> Any:
    """What ``function`` of a widget's module gives for each state."""
    url = "data:text/javascript;base64," + base64.b64encode(kit.esm(widget).encode()).decode()
    return page.evaluate(
        "async ([url, name, states]) => { const module = await import(url); return states.map(module[name]); }",
        [url, function, states],
    )


WIDGETS: dict[str, Callable[[], Any]] = {
    "budget_view": lambda: BudgetView.from_log(library_desk(), window=16_384, reserve=4_096, margin=512, tools=11),
    "cut_stepper": CutStepper,
    "repair_stepper": RepairStepper,
    "threshold_explorer": ThresholdExplorer,
    "message_path": MessagePath,
    "memory_sorter": MemorySorter,
    "question": lambda: Question.number("How many tokens will the eleventh tool add?", answer=934, explain="Nested."),
    "bank_question": lambda: BankQuestion.choice(
        "Which?", [("a", True, "yes"), ("b", False, "no")], analysis="Why.", points=["One."]
    ),
}

# A widget outside JupyterLab, in a cell of a given width, with a model that only holds and tells.
DRAW = """
async ([source, css, state, width]) => {
  const { default: widget } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const heard = {};
  const model = {
    get: (name) => state[name],
    set: (name, value) => { state[name] = value; (heard[`change:${name}`] ?? []).forEach((tell) => tell()); },
    on: (event, tell) => { (heard[event] ??= []).push(tell); }, off: () => {}, save_changes: () => {}, send: () => {},
  };
  const style = document.createElement("style");
  style.textContent = css;
  const cell = document.createElement("div");
  Object.assign(cell.style, { width: `${width}px`, overflow: "auto" });
  const root = document.createElement("div");
  cell.append(root);
  document.body.replaceChildren(style, cell);
  widget.render({ model, el: root });
  for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
  return [cell.scrollWidth, cell.clientWidth];
}
"""


def drawn_in(page: Page, widget: str, width: int) -> tuple[int, int]:
    """How wide the content of a cell of ``width`` pixels is, and how wide the cell, with ``widget`` drawn in it."""
    made = WIDGETS[widget]()
    state = {name: value for name, value in made.get_state().items() if name in made.keys and name[0] != "_"}
    content, cell = page.evaluate(DRAW, [made._esm, made._css, json.loads(json.dumps(state)), width])
    return content, cell


@pytest.mark.parametrize("widget", WIDGETS)
def test_a_widget_is_never_wider_than_its_cell(
    watched: Watched, shoot: Callable[[Any, str], None], widget: str
) -> None:
    for width in (420, 560, 700, 850, 950, 1_019, 1_025, 1_100, 1_400):
        content, cell = drawn_in(watched.page, widget, width)
        assert content <= cell, f"{widget} in a cell of {width} pixels is {content} wide"
        shoot(watched.page.locator("body > div"), f"{widget}-cell-{width}")
    watched.assert_quiet()


def test_a_typed_number_out_of_bounds_is_told_and_counts_as_the_bound(watched: Watched) -> None:
    drawn_in(watched.page, "budget_view", 1_100)
    for name, typed, counted, words in (
        ("margin", "-5", "0", "-5 is too small here: counted as 0"),
        ("window", "0", "1", "0 is too small here: counted as 1"),
        ("tools", "99", "12", "99 is too large here: counted as 12"),
    ):
        row = watched.page.locator(f"[data-control={name}]")
        told = row.locator("[data-part=told]")
        expect(told).to_have_text("")
        row.locator("input[type=number]").fill(typed)
        expect(told).to_contain_text(words)
        expect(row.locator("input[type=number]")).to_have_value(counted)
        row.locator("input[type=number]").fill("7")
        expect(told).to_have_text("")


def test_what_is_past_the_end_is_said_with_its_margin_and_no_stripes_lie_over_a_label(
    watched: Watched, shoot: Callable[[Any, str], None]
) -> None:
    drawn_in(watched.page, "budget_view", 1_100)
    page = watched.page
    expect(page.locator(".ctx-past")).to_have_text("675 past the end, 512 of it margin")
    page.locator("input[name=reserve-exact]").fill("200000")
    label = page.locator("[data-part=reserve] .ctx-segment-label")
    expect(label).to_be_visible()
    shoot(page.locator("body > div"), "budget-reserve-over")
    bar, end = page.locator(".ctx-track").bounding_box(), page.locator(".ctx-end span").bounding_box()
    assert bar is not None
    assert end is not None
    assert bar["x"] <= end["x"], "the label of the window's end is whole, however early it ends"
    on_top = """node => { const box = node.getBoundingClientRect();
      document.querySelector(".ctx-past").style.pointerEvents = "auto";
      return node.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)); }"""
    assert label.evaluate(on_top)
    assert label.evaluate("node => getComputedStyle(node).backgroundColor") == "rgb(204, 121, 167)"


def test_compare_without_a_number_asks_for_one_and_a_number_is_answered(watched: Watched) -> None:
    drawn_in(watched.page, "question", 850)
    feedback = watched.page.locator("[data-part=feedback]")
    watched.page.get_by_role("button", name="Compare").click()
    expect(feedback).to_have_text("There is no number yet: type your guess, in tokens, and press Compare again.")
    watched.page.locator("input[name=guess]").fill("900")
    watched.page.keyboard.press("Enter")
    expect(feedback).to_have_text("934 tokens: within a tenth of your 900. Nested.")


def test_layout_in_the_browser_is_the_picture_in_python(watched: Watched) -> None:
    made = states(300, seed=2)
    drawn = call(watched.page, "budget_view", "layout", [as_json(state) for state in made])
    for state, shown in zip(made, drawn, strict=True):
        assert shown == json.loads(json.dumps(picture(state).to_json())), state


def test_a_guess_is_told_how_far_it_was_and_never_wrong(watched: Watched) -> None:
    base = {"options": [], "guessed": True, "answer": 934, "unit": "tokens", "explain": "Nested."}
    told = call(
        watched.page,
        "question",
        "verdict",
        [*({**base, "guess": guess} for guess in (70, 900, 934, 5_000, 0)), {**base, "guessed": False, "guess": 0}],
    )
    assert [item["text"] for item in told] == [
        "934 tokens: 13.3 times your 70. Nested.",
        "934 tokens: within a tenth of your 900. Nested.",
        "934 tokens: exactly that. Nested.",
        "934 tokens: less than your 5,000. Nested.",
        "934 tokens: more than your 0. Nested.",
        "",
    ]
    assert [item["mood"] for item in told] == ["told", "right", "right", "told", "told", "none"]
