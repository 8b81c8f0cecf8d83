"""MemorySorter in a real JupyterLab: sorted by keyboard alone, the kernel sees it, nothing is cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from browser.notebook import Notebook, Watched
from browser.test_lesson_01 import CUT_OFF
from ctxlab import lab as lab_module

pytestmark = pytest.mark.browser

LESSON = "07_memory"
Shoot = Callable[[Any, str], None]


@pytest.fixture(scope="module")
def seen(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    yield Watched(context.new_page())
    context.close()


@pytest.fixture(scope="module")
def lesson(lab: lab_module.Server, seen: Watched) -> Notebook:
    """Lesson 07, opened and run once."""
    notebook = Notebook(seen.page, lab.base, lab.token)
    notebook.open(LESSON)
    notebook.theme("JupyterLab Light")
    assert notebook.run_all() == []
    notebook.full_width()
    return notebook


def test_a_fact_is_sorted_by_keyboard_and_the_feedback_comes_with_the_third_answer(
    lesson: Notebook, seen: Watched
) -> None:
    view = lesson.widget("sorter", 0)
    placed = view.locator("[data-part=placed]")
    questions = view.locator(".ctx-sorter-question")
    for index, place in enumerate((0, 1)):
        questions.nth(index).locator("input").nth(place).focus()
        lesson.page.keyboard.press("Space")
    expect(placed).to_have_text("Answer all three questions.")
    questions.nth(2).locator("input").nth(1).focus()
    lesson.page.keyboard.press("Space")
    expect(placed).to_contain_text("By your answers: long-term.")
    expect(view.locator("[data-part=count]")).to_have_text("1 of 8 sorted as we do")
    lesson.expect_value("(sorter.answers, sorter.right)", "({'nuts': 'ynn'}, ('nuts',))")

    view.get_by_role("button", name="Next fact").press("Enter")
    expect(view.locator("[data-part=fact]")).to_have_text("Where order A-1042 is right now.")
    for index in range(3):
        questions.nth(index).get_by_label("no", exact=True).check()
    expect(placed).to_contain_text("Our answers put it elsewhere: retrieve.")
    expect(view.locator("[role=status]")).to_contain_text("By your answers: short-term.")
    lesson.expect_value("(sorter.fact, sorter.answers['order'])", "(1, 'nnn')")
    seen.assert_quiet()


def test_all_memories_burst_the_window_and_the_picked_ones_are_named(lesson: Notebook) -> None:
    view = lesson.widget("sorter", 1)
    bars = view.locator("[data-part=bar]")
    expect(bars.first).to_contain_text("200 memories, 2,345 tokens; with the reserve 4,344 of 4,096. Over the window")
    expect(bars.last).to_contain_text("Fits.")
    view.get_by_label("5", exact=True).focus()
    lesson.page.keyboard.press("Space")
    expect(view.locator("[data-part=found] li")).to_have_count(5)
    view.get_by_label("给妈妈买什么茶好？").check()
    expect(view.locator("[data-part=found] li")).to_have_count(2)
    lesson.expect_value("(filler.query, filler.k)", "(2, 5)")


def test_nothing_is_cut_off_and_axe_is_content_in_either_theme(lesson: Notebook, seen: Watched, shoot: Shoot) -> None:
    for theme in ("Light", "Dark"):
        lesson.theme(f"JupyterLab {theme}")
        for width in (1280, 700):
            lesson.page.set_viewport_size({"width": width, "height": 1000})
            for index, name in enumerate(("sort", "request")):
                view = lesson.widget("sorter", index)
                assert view.evaluate(CUT_OFF) == [], (name, theme, width)
                shoot(view, f"memory-{name}-{theme.lower()}-{width}")
        assert lesson.accessibility("sorter") == [], theme
    seen.assert_quiet()


def test_a_reload_with_the_kernel_alive_keeps_the_answers(lesson: Notebook) -> None:
    lesson.js("await window.jupyterapp.shell.currentWidget.context.save();")
    lesson.open(LESSON)
    view = lesson.widget("sorter", 0)
    expect(view.locator("[data-part=count]")).to_have_text("1 of 8 sorted as we do")
    expect(view.locator("[data-part=fact]")).to_have_text("Where order A-1042 is right now.")
