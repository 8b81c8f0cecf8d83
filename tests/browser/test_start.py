"""The URL that ``ctxlab lab`` prints opens on the first lesson with nothing in the learner's way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from browser.notebook import IDLE, READY, Notebook, Watched
from ctxlab.lab import START, Server

pytestmark = pytest.mark.browser


def test_the_printed_url_opens_the_first_lesson_with_its_kernel_and_no_prompt(
    lab: Server, notebook: Notebook, watched: Watched, shoot: Callable[[Any, str], None]
) -> None:
    watched.page.goto(lab.url)
    watched.page.wait_for_function(
        "path => window.jupyterapp?.shell.currentWidget?.context?.path === path", arg=START, timeout=60_000
    )
    notebook.js(READY + IDLE, 60)
    assert notebook.dialogs() == 0
    assert notebook.run_all() == []
    expect(notebook.widget("budget").locator("[data-part=headline]")).to_have_text(
        "Fits: 45,030 tokens left for the history"
    )
    expect(notebook.widget("budget").locator(".ctx-marks")).to_be_hidden()
    folded = watched.page.locator(".jp-InputPlaceholder:visible").first
    folded.scroll_into_view_if_needed()
    expect(folded).to_contain_text("Question.choice(")
    shoot(watched.page, "lab-start")
    assert notebook.dialogs() == 0
    watched.assert_quiet()


def test_a_reload_with_the_kernel_alive_keeps_what_was_set(notebook: Notebook) -> None:
    notebook.open("00_start_here")
    assert notebook.run_all() == []
    view = notebook.widget("budget")
    view.locator("input[name=reserve]").focus()
    notebook.page.keyboard.press("End")
    expect(view.locator("[data-part=headline]")).to_contain_text("Refused")
    notebook.expect_value("view.reserve", "128000")
    notebook.js("await window.jupyterapp.shell.currentWidget.context.save();")
    notebook.open("00_start_here")
    again = notebook.widget("budget")
    expect(again.locator("[data-part=headline]")).to_contain_text("Refused")
    expect(again.locator("input[name=reserve-exact]")).to_have_value("128000")
