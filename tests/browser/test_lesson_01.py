"""Lesson 01 in a real JupyterLab: the picture is pushed by keyboard, and the kernel sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from browser.notebook import Notebook, Watched

pytestmark = pytest.mark.browser

LESSON = "01_the_four_part_budget"
Shoot = Callable[[Any, str], None]

# Class names of what sticks out of the widget on the right; the one pixel for screen readers may.
CUT_OFF = """
root => [...root.querySelectorAll("*")].filter((node) => {
  const box = node.getBoundingClientRect();
  return box.width > 2 && box.right > root.getBoundingClientRect().right + 4;
}).map((node) => node.className)
"""


@pytest.fixture
def lesson(notebook: Notebook) -> Notebook:
    notebook.open(LESSON)
    assert notebook.dialogs() == 0, "a dialog or a pop-up stands in the learner's way"
    notebook.theme("JupyterLab Light")
    assert notebook.run_all() == []
    notebook.full_width()
    return notebook


def test_the_eleventh_tool_is_one_key_press_and_a_refusal(lesson: Notebook, watched: Watched, shoot: Shoot) -> None:
    view = lesson.widget("budget")
    headline, answer = view.locator("[data-part=headline]"), view.locator("[data-part=answer]")
    bar = view.locator(".ctx-segment[data-part=tools]")
    expect(headline).to_have_text("Fits: 259 tokens left for the history")
    expect(answer).to_be_hidden()
    assert bar.get_attribute("data-tokens") == "599"
    before = bar.bounding_box()
    shoot(view, "budget-fits-light-1280")

    view.locator("input[name=tools]").focus()
    lesson.page.keyboard.press("ArrowRight")

    expect(headline).to_have_text("Refused: prompt and output reserve are 163 tokens over the window")
    expect(answer).to_contain_text("However, you requested 16547 tokens (10918 in the messages, 1533 in the functions")
    expect(view.locator(".ctx-past")).to_be_visible()
    expect(view.locator("[role=status]")).to_contain_text("675 past the end, 512 of it margin")
    assert bar.bounding_box()["width"] > 2 * before["width"]
    lesson.expect_value("(view.tools, view.budget.tools, view.picture.verdict)", "(11, 1533, 'reserve')")
    shoot(view, "budget-over-light-1280")

    view.get_by_label("Anthropic").focus()
    lesson.page.keyboard.press("Space")
    expect(answer).to_contain_text("input length and `max_tokens` exceed context limit: 12451 + 4096 > 16384")
    lesson.expect_value("view.provider", "'anthropic'")
    watched.assert_quiet()
    assert lesson.dialogs() == 0


def test_every_control_moves_by_keyboard_and_the_kernel_follows(lesson: Notebook, watched: Watched) -> None:
    view = lesson.widget("budget")
    for name in ("window", "system", "tools", "history", "reserve", "margin", "round"):
        before = lesson.ask(f"view.{name}")
        view.locator(f"input[name={name}]").focus()
        lesson.page.keyboard.press("ArrowLeft")
        expect(view.locator(f"input[name={name}-exact]")).not_to_have_value(before)
        shown = view.locator(f"input[name={name}-exact]").input_value()
        assert shown != before
        lesson.expect_value(f"view.{name}", shown)
    watched.assert_quiet()


def test_python_moves_the_slider(lesson: Notebook) -> None:
    view = lesson.widget("budget")
    lesson.js(
        """const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
        await kernel.requestExecute({ code: argument }).done;""",
        argument="view.history = 1_234",
    )
    expect(view.locator("input[name=history-exact]")).to_have_value("1234")
    expect(view.locator(".ctx-segment[data-part=history]")).to_have_attribute("data-tokens", "1234")


def test_the_round_slider_takes_the_history_back(lesson: Notebook) -> None:
    view = lesson.widget("budget")
    view.locator("input[name=round]").focus()
    lesson.page.keyboard.press("Home")
    expect(view.locator("[data-part=round-note]")).to_contain_text("Round 1 added 1,201 tokens")
    lesson.expect_value("(view.round, view.history)", "(1, 1201)")


def test_a_typed_number_counts_and_an_empty_box_changes_nothing(lesson: Notebook) -> None:
    view = lesson.widget("budget")
    box = view.locator("input[name=margin-exact]")
    box.fill("")
    lesson.expect_value("view.margin", "512")
    box.fill("800")
    expect(view.locator("[data-part=headline]")).to_contain_text("Into the safety margin by 29 tokens")
    lesson.expect_value("view.margin", "800")


def test_the_picture_has_names_and_a_sentence_for_a_screen_reader(lesson: Notebook) -> None:
    tree = lesson.widget("budget").aria_snapshot()
    for name in ("Window", "System prompt", "Tools", "History", "Output reserve", "Safety margin", "After round"):
        assert f'slider "{name}"' in tree
        assert f'spinbutton "{name}, exact number"' in tree
    assert 'radio "OpenAI" [checked]' in tree
    assert 'img "Window 16,384: system prompt 240, 10 tools 599, history 10,678' in tree


def test_nothing_is_cut_off_in_either_theme_at_either_width(lesson: Notebook, watched: Watched, shoot: Shoot) -> None:
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        lesson.theme(theme)
        for width in (1280, 700):
            lesson.page.set_viewport_size({"width": width, "height": 1000})
            view = lesson.widget("budget")
            view.locator("input[name=tools]").fill("11")
            expect(view.locator("[data-part=answer]")).to_be_visible()
            assert view.evaluate(CUT_OFF) == []
            shoot(view, f"budget-over-{theme.split()[1].lower()}-{width}")
            view.locator("input[name=tools]").fill("10")
            expect(view.locator("[data-part=answer]")).to_be_hidden()
            shoot(view, f"budget-fits-{theme.split()[1].lower()}-{width}")
    watched.assert_quiet()


@pytest.mark.parametrize("width", [1280, 1400])
def test_beside_the_open_file_browser_nothing_scrolls_sideways(
    notebook: Notebook, watched: Watched, shoot: Shoot, width: int
) -> None:
    watched.page.set_viewport_size({"width": width, "height": 1000})
    notebook.open(LESSON)
    notebook.theme("JupyterLab Light")
    assert notebook.run_all() == []
    assert watched.page.locator(".jp-DirListing").is_visible(), "the file browser is open, as the lab opens"
    view = notebook.widget("budget")
    view.locator("input[name=tools]").fill("11")
    assert view.evaluate(CUT_OFF) == []
    # A label is measured, then put in its place: what counts is where everything has come to rest.
    fits = """() => [...document.querySelectorAll(".jp-OutputArea-output, .jp-OutputArea-output .ctx-widget")]
      .every((node) => node.scrollWidth <= node.clientWidth)"""
    watched.page.wait_for_function(fits, timeout=10_000)
    shoot(view, f"budget-beside-files-{width}")
    shoot(watched.page, f"lab-{width}")


def test_axe_finds_nothing_against_wcag_a_or_aa_in_either_theme(lesson: Notebook) -> None:
    view = lesson.widget("budget")
    view.locator("input[name=tools]").fill("11")
    question = lesson.page.locator(".ctx-question", has_text="What is the history's budget?")
    question.get_by_label("128,000").check()
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        lesson.theme(theme)
        assert lesson.accessibility("budget") == []
        assert lesson.accessibility("question") == []


def test_a_question_gives_feedback_by_keyboard(lesson: Notebook, shoot: Shoot) -> None:
    guess = lesson.widget("question", 0)
    guess.locator("input[name=guess]").fill("70")
    lesson.page.keyboard.press("Enter")
    expect(guess.locator("[data-part=feedback]")).to_contain_text("934 tokens: 13.3 times your 70.")
    shoot(guess, "question-number-light")
    budget = lesson.page.locator(".ctx-question", has_text="What is the history's budget?")
    budget.scroll_into_view_if_needed()
    budget.get_by_label("128,000").focus()
    lesson.page.keyboard.press("Space")
    expect(budget.locator("[data-part=feedback]")).to_contain_text("Not quite. That is the window.")
    lesson.page.keyboard.press("ArrowDown")
    lesson.page.keyboard.press("ArrowDown")
    expect(budget.locator("[data-part=feedback]")).to_contain_text("Yes.")
    shoot(budget, "question-choice-light")


def test_the_chart_is_drawn(lesson: Notebook, shoot: Shoot) -> None:
    chart = lesson.page.locator(".js-plotly-plot").first
    chart.scroll_into_view_if_needed()
    expect(chart.locator(".barlayer .point path")).to_have_count(24, timeout=20_000)
    chart.scroll_into_view_if_needed()
    shoot(chart, "growth-light")
