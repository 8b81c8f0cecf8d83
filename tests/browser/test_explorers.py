"""ThresholdExplorer, MessagePath, question bank and checklist in a real JupyterLab, by mouse and by keyboard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect
from test_threshold_explorer import as_json, states

from browser.notebook import IDLE, READY, Notebook, Watched
from browser.test_layout import call
from browser.test_lesson_01 import CUT_OFF
from ctxlab import lab as lab_module
from ctxlab.widgets.message_stations import walk
from ctxlab.widgets.threshold_picture import thresholds

pytestmark = pytest.mark.browser

BANK = "10_question_bank"
Shoot = Callable[[Any, str], None]

# For axe, as one selector: of the 22 questions one that is answered, and those that are written.
ALL_KINDS = "thresholds, .ctx-path, .ctx-checklist, .ctx-bank:has(textarea), .ctx-bank:has([data-part=points] li)"


@pytest.fixture(scope="module")
def seen(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    yield Watched(context.new_page())
    context.close()


@pytest.fixture(scope="module")
def opened(lab: lab_module.Server, seen: Watched) -> Notebook:
    """The question bank, opened and run once: each test sets the widgets that it needs from Python."""
    notebook = Notebook(seen.page, lab.base, lab.token)
    notebook.open(BANK)
    notebook.theme("JupyterLab Light")
    assert notebook.run_all() == []
    notebook.full_width()
    return notebook


@pytest.fixture
def bank(opened: Notebook) -> Notebook:
    opened.page.set_viewport_size({"width": 1280, "height": 1000})
    opened.theme("JupyterLab Light")
    return opened


def run(notebook: Notebook, code: str) -> None:
    """Run Python in the notebook's kernel, outside of its cells."""
    body = """const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    await kernel.requestExecute({ code: argument }).done;"""
    notebook.js(body, argument=code)


def way(notebook: Notebook, station: int, path: str = "short") -> Locator:
    run(notebook, f"way.path, way.station = {path!r}, {station}")
    view = notebook.widget("path")
    expect(view.locator("[data-part=count]")).to_have_text(f"Station {station + 1} of 13")
    return view


def explorer(notebook: Notebook, settings: str = "") -> Locator:
    if settings:
        run(notebook, settings)
    return notebook.widget("thresholds")


@pytest.fixture(autouse=True)
def named(opened: Notebook) -> None:
    """The explorer of the bank has no name in the notebook; its cell's output has one in the kernel."""
    code = """
explorer = next(value for value in list(Out.values()) if isinstance(value, ThresholdExplorer))
explorer.window, explorer.ratio, explorer.headroom, explorer.completion, explorer.claim = 200_000, 0.8, 65_536, 0, -1
"""
    run(opened, code)


def test_layout_in_the_browser_is_the_picture_in_python(watched: Watched) -> None:
    made = states(150, seed=2)
    drawn = call(watched.page, "threshold_explorer", "layout", [as_json(state) for state in made])
    for state, shown in zip(made, drawn, strict=True):
        assert shown == json.loads(json.dumps(thresholds(state).to_json())), state


def test_the_window_slider_passes_the_crossing_and_the_kernel_follows(bank: Notebook, seen: Watched) -> None:
    view = explorer(bank)
    headline = view.locator("[data-part=headline]")
    expect(headline).to_have_text("At a window of 200,000 the reserve decides: compress from 134,464 tokens of prompt")
    view.locator("input[name=window]").focus()
    for _ in range(3):
        bank.page.keyboard.press("ArrowRight")
    expect(headline).to_have_text("At a window of 400,000 the ratio decides: compress from 320,000 tokens of prompt")
    bank.expect_value("(explorer.window, explorer.picture.trigger)", "(400000, 320000)")
    view.locator("input[name=window]").press("Home")
    expect(headline).to_contain_text("nothing is left: completion and headroom take 65,536")
    expect(view.locator(".ctx-tag-never")).to_have_count(1)
    expect(view.locator("[role=status]")).to_contain_text("the rule never fires")
    bank.expect_value("explorer.picture.verdict", "'nothing'")
    seen.assert_quiet()


def test_ratio_headroom_and_completion_move_the_crossing_by_keyboard(bank: Notebook) -> None:
    view = explorer(bank)
    note = view.locator("[data-part=crossing]")
    view.locator("input[name=completion]").press("ArrowRight")
    expect(note).to_contain_text("= 332,800; each token of completion moves it by 5.")
    view.locator("input[name=ratio]").press("ArrowLeft")
    expect(note).to_contain_text("(1 - 0.79)")
    view.locator("input[name=headroom]").press("Home")
    expect(note).to_contain_text("(0 headroom + 1,024 completion)")
    bank.expect_value("(explorer.ratio, explorer.headroom, explorer.completion)", "(0.79, 0, 1024)")


def test_a_click_into_the_picture_sets_the_window(bank: Notebook) -> None:
    view = explorer(bank)
    box = view.locator("svg.ctx-plot").bounding_box()
    view.locator("svg.ctx-plot").click(position={"x": box["width"] * 0.8, "y": box["height"] * 0.4})
    expect(view.locator("[data-part=headline]")).to_contain_text("the ratio decides")
    shown = view.locator("input[name=window-exact]").input_value()
    assert 380_000 < int(shown) < 440_000
    bank.expect_value("explorer.window", shown)


def test_the_published_sentence_is_judged_by_keyboard(bank: Notebook) -> None:
    view = explorer(bank)
    feedback = view.locator("[data-part=claim-feedback]")
    expect(feedback).to_be_hidden()
    view.get_by_label("It is right as it stands").focus()
    bank.page.keyboard.press("Space")
    expect(feedback).to_contain_text("Not quite. Look at 200,000")
    bank.page.keyboard.press("ArrowDown")
    bank.page.keyboard.press("ArrowDown")
    expect(feedback).to_contain_text("Yes. A fixed 65,536")
    bank.expect_value("explorer.claim", "2")


def test_the_way_is_walked_by_keyboard_alone(bank: Notebook, seen: Watched) -> None:
    view = way(bank, 0)
    title = view.locator("[data-part=title]")
    view.locator("[data-station=input]").focus()
    titles = []
    for station in walk("short")[1:]:
        bank.page.keyboard.press("ArrowRight")
        expect(title).to_have_text(station.title)
        titles.append(station.title)
        expect(view.locator("[aria-current=step]")).to_be_focused()
    assert len(titles) == 12
    bank.expect_value("way.here.key", "'fork'")
    bank.page.keyboard.press("Home")
    bank.expect_value("way.station", "0")
    view.get_by_role("button", name="Next station").focus()
    bank.page.keyboard.press("Enter")
    expect(title).to_have_text("Append it to the log, first of all")
    expect(view.locator("[data-part=data]")).to_contain_text('"seq": 5')
    expect(view.locator("[role=status]")).to_contain_text("Station 2 of 13")
    seen.assert_quiet()


def test_a_long_history_is_compressed_on_the_way(bank: Notebook) -> None:
    view = way(bank, 3)
    expect(view.locator("[data-station=compress]")).to_contain_text("not needed")
    view.get_by_label("over the trigger").check()
    expect(view.locator("[data-part=data]")).to_contain_text("What the user stated:")
    expect(view.locator("[data-part=weight]")).to_contain_text("7 messages")
    bank.expect_value("(way.path, way.here.skipped)", "('long', False)")
    view.locator("[data-station=fork]").click()
    expect(view.locator("[data-part=data]")).to_contain_text('"parent_id": "main"')
    bank.expect_value("way.station", "12")


def test_a_link_opens_the_lesson_in_the_same_jupyterlab(bank: Notebook) -> None:
    view = way(bank, 2)
    view.get_by_role("link", name="Lesson 01").click()
    bank.page.wait_for_function(
        "window.jupyterapp.shell.currentWidget?.context?.path === 'notebooks/01_the_four_part_budget.ipynb'"
    )
    assert len(bank.page.context.pages) == 1
    # The lesson is ready before its page is left: what is still starting would ask for the focus later.
    bank.js(f"{READY}{IDLE}", 60)
    bank.js(
        f"await window.jupyterapp.commands.execute('docmanager:open', {{ path: argument }}); {READY}",
        argument=f"notebooks/{BANK}.ipynb",
    )
    assert bank.ask("way.station") == "2"
    expect(bank.widget("path")).to_be_visible()


def test_the_analysis_unfolds_after_the_answer_and_the_points_after_the_analysis(bank: Notebook, shoot: Shoot) -> None:
    question = bank.page.locator(".ctx-bank", has_text="What happens?").first
    question.scroll_into_view_if_needed()
    analysis, points = question.locator("[data-part=analysis]"), question.locator("[data-part=points]")
    expect(analysis).to_be_hidden()
    expect(points).to_be_hidden()
    question.locator("input").first.focus()
    bank.page.keyboard.press("Space")
    expect(analysis).to_be_visible()
    expect(points).to_be_hidden()
    question.get_by_role("button", name="Show the key points").press("Enter")
    expect(points.locator("li")).to_have_count(3)
    shoot(question, "bank-question-light")

    written = bank.page.locator(".ctx-bank", has_text="Why does one act well before the limit?")
    written.scroll_into_view_if_needed()
    written.get_by_role("button", name="Compare").click()
    expect(written.locator("[data-part=analysis]")).to_be_hidden()
    written.locator("textarea").press_sequentially("Rescue room")
    written.get_by_role("button", name="Compare").press("Enter")
    expect(written.locator("[data-part=analysis]")).to_be_visible()


def test_a_tick_is_on_disk_and_there_again_in_a_new_checklist(bank: Notebook, shoot: Shoot) -> None:
    view = bank.widget("checklist")
    view.locator("input[data-item=cut]").focus()
    bank.page.keyboard.press("Space")
    expect(view.locator("[data-part=count]")).to_have_text("1 of 11 done")
    bank.expect_value("checklist.done", "['cut']")
    bank.expect_value("Checklist().done", "['cut']")
    shoot(view, "checklist-light")
    view.locator("input[data-item=cut]").press("Space")
    bank.expect_value("Checklist().done", "[]")


def test_names_and_a_sentence_for_a_screen_reader(bank: Notebook) -> None:
    tree = explorer(bank).aria_snapshot()
    for name in ("Window", "Threshold ratio", "Headroom", "Completion reserve"):
        assert f'slider "{name}"' in tree
        assert f'spinbutton "{name}, exact number"' in tree
    assert 'img "At a window of 200,000 the reserve decides' in tree
    tree = way(bank, 4).aria_snapshot()
    assert 'group "Stations"' in tree
    assert 'button "5 Request Budget"' in tree
    assert 'radio "below the trigger" [checked]' in tree


def test_nothing_is_cut_off_and_axe_is_content_in_either_theme(bank: Notebook, seen: Watched, shoot: Shoot) -> None:
    question = bank.page.locator(".ctx-bank").first
    question.locator("input").first.check()
    if question.get_by_role("button", name="Show the key points").is_visible():
        question.get_by_role("button", name="Show the key points").click()
    for theme in ("Light", "Dark"):
        bank.theme(f"JupyterLab {theme}")
        for width in (1280, 700):
            bank.page.set_viewport_size({"width": width, "height": 1000 if width > 1000 else 1300})
            for name, view in (
                ("threshold", explorer(bank, "explorer.claim = 2")),
                ("path", way(bank, 8, "long")),
                ("bank", bank.widget("bank")),
                ("checklist", bank.widget("checklist")),
            ):
                view.scroll_into_view_if_needed()
                assert view.evaluate(CUT_OFF) == [], (name, theme, width)
                shoot(view, f"{name}-{theme.lower()}-{width}")
        assert bank.accessibility(ALL_KINDS) == [], theme
    seen.assert_quiet()


def test_a_reload_with_the_kernel_alive_keeps_place_and_numbers(bank: Notebook) -> None:
    way(bank, 6, "long")
    explorer(bank, "explorer.completion = 10_000")
    bank.js("await window.jupyterapp.shell.currentWidget.context.save();")
    bank.open(BANK)
    expect(bank.widget("path").locator("[data-part=count]")).to_have_text("Station 7 of 13")
    expect(bank.widget("thresholds").locator("[data-part=crossing]")).to_contain_text("= 377,680")
    bank.full_width()


def test_lesson_08_runs_on_the_sample_and_its_chart_is_drawn(bank: Notebook, seen: Watched, shoot: Shoot) -> None:
    bank.js(
        f"await window.jupyterapp.commands.execute('docmanager:open', {{ path: argument }}); {READY}{IDLE}",
        60,
        argument="notebooks/08_your_own_logs.ipynb",
    )
    assert bank.run_all() == []
    chart = bank.page.locator(".js-plotly-plot").first
    chart.scroll_into_view_if_needed()
    expect(chart.locator(".scatterlayer .trace")).to_have_count(4, timeout=20_000)
    expect(chart.locator(".annotation-text", has_text="crossing 348,160")).to_be_visible()
    shoot(chart, "threshold-chart-light")
    headline = bank.page.locator(".ctx-thresholds [data-part=headline]").last
    expect(headline).to_contain_text("At a window of 16,384 nothing is left: completion and headroom take 69,632")
    seen.assert_quiet()
