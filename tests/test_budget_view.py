"""The four-part budget as a picture: right numbers, the browser's numbers, and a form for hosts without a browser."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import traitlets

from ctxlab.budget import Budget, history_trigger
from ctxlab.errors import BudgetError, UnknownName
from ctxlab.formats import Conversation
from ctxlab.tokens import count_tools
from ctxlab.widgets import BudgetView, Question, growth_chart, growth_figure, kit
from ctxlab.widgets.budget_picture import PROVIDERS, State, budget_of, picture, static_html, tool_tokens
from ctxlab.widgets.sample import library_desk

DESK = State(
    window=16_384,
    system=240,
    tools=2,
    tool_tokens=(0, 599, 1_533),
    tool_names=("the first ten", "request_interlibrary_loan"),
    reserve=4_096,
    margin=512,
    history=10_678,
    requests=24,
)


def states(count: int, seed: int = 1) -> list[State]:
    """Random states, a third of them far over the window, and the edges of each verdict."""
    pick = random.Random(seed)
    made = []
    for _ in range(count):
        window = pick.choice([1, 10, 1_000, 4_096, 16_384, 65_536, 128_000, 200_000, 327_680, 400_000, 2_000_000])

        def part(share: float, window: int = window) -> int:
            return pick.choice([0, 1, pick.randint(0, int(window * share) + 1)])

        costs = [0]
        for _ in range(pick.randint(0, 4)):
            costs.append(costs[-1] + pick.randint(0, window // 8 + 1))
        state = State(
            window=window,
            system=part(0.5),
            tools=pick.randint(0, 6),
            tool_tokens=tuple(costs),
            tool_names=tuple(f"tool_{i}" for i in range(len(costs) - 1)),
            reserve=part(1),
            margin=part(0.2),
            history=part(1.5),
            ratio=pick.choice([0.7, 0.5, 0.29, 0.8, 1.0, 0.123457]),
            provider=pick.choice(list(PROVIDERS)),
            requests=pick.choice([1, 24, 100]),
        )
        left = window - state.system - state.tools_cost - state.reserve - state.margin
        edge = [left, left + 1, left + state.margin, left + state.margin + 1, left + state.margin + state.reserve + 1]
        made.append(replace(state, history=max(0, pick.choice([state.history, *edge]))))
    return made


def as_json(state: State) -> dict[str, Any]:
    return json.loads(json.dumps(asdict(state)))


def test_ten_tools_fit_and_the_eleventh_is_refused_in_the_words_of_the_api() -> None:
    fits = picture(replace(DESK, tools=1))
    assert (fits.verdict, fits.left, fits.answer) == ("fits", 16_384 - 240 - 599 - 10_678 - 4_096 - 512, "")
    over = picture(DESK)
    assert over.verdict == "reserve"
    assert over.over == 240 + 1_533 + 10_678 + 4_096 + 512 - 16_384 == 675
    assert over.answer == (
        "400 context_length_exceeded: This model's maximum context length is 16384 tokens. However, you requested "
        "16547 tokens (10918 in the messages, 1533 in the functions, and 4096 in the completion). Please reduce the "
        "length of the messages, functions, or completion."
    )
    assert over.tool_note == (
        "Tool 2 (request_interlibrary_loan) adds 934 tokens to every request: 22,416 in 24 requests"
    )


def test_what_crosses_the_end_is_first_the_margin_then_the_reserve_then_the_prompt() -> None:
    outside = {}
    for history in (11_000, 11_500, 16_000):
        shown = picture(replace(DESK, tools=1, history=history))
        outside[shown.verdict] = {part.key for part in shown.parts if part.outside}
    assert outside == {
        "margin": {"margin"},
        "reserve": {"margin", "reserve"},
        "prompt": {"margin", "reserve", "history"},
    }


def test_what_is_past_the_end_is_the_refusals_number_and_the_margin() -> None:
    assert picture(replace(DESK, tools=1)).past == ""
    assert picture(DESK).past == "675 past the end, 512 of it margin"
    assert "163 tokens over the window" in picture(DESK).headline
    assert 675 == 163 + 512
    assert picture(replace(DESK, margin=0)).past == "163 past the end"
    inside = picture(replace(DESK, tools=1, history=11_000))
    assert (inside.verdict, inside.past) == ("margin", "63 past the end, all of it margin")


def test_gemini_and_mistral_hold_the_prompt_alone_against_the_window() -> None:
    for provider in ("gemini", "mistral"):
        shown = picture(replace(DESK, provider=provider))
        assert (shown.verdict, shown.answer) == ("short", "")
        assert shown.headline.startswith("Accepted, but 163 tokens of the output reserve are not there")


def test_the_parts_stand_end_to_end_and_add_up_to_the_window_or_what_is_over() -> None:
    for state in states(300):
        shown = picture(state)
        assert [part.start for part in shown.parts[1:]] == [part.end for part in shown.parts[:-1]]
        assert shown.parts[-1].end == shown.scale == state.window + shown.over
        assert sum(part.outside for part in shown.parts) == shown.over
        assert min(shown.left, shown.over) == 0


def test_the_picture_agrees_with_the_budget_wherever_there_is_one() -> None:
    budgets = 0
    for state in states(400):
        shown = picture(state)
        try:
            budget = budget_of(state)
        except BudgetError:
            assert shown.history_budget <= 0
            assert shown.marks[0].at is None
            continue
        budgets += 1
        assert shown.history_budget == budget.history
        assert shown.over == budget.overflow(state.history)
        error = budget.api_error(state.provider, state.history)
        assert shown.answer == ("" if error is None else f"{error.status} {error.code}: {error.text}")
        trigger = history_trigger(budget.history, state.ratio)
        assert shown.marks[0].at == state.system + state.tools_cost + trigger
        assert shown.marks[0].fired == (state.history >= trigger)
    assert budgets > 100


def test_the_pressure_line_says_which_number_decides() -> None:
    texts = {
        window: picture(State(window=window, history=1)).marks[1].text for window in (65_536, 200_000, 327_680, 400_000)
    }
    assert "never" in texts[65_536]
    assert "134,464 tokens of prompt (the headroom of 65,536 decides" in texts[200_000]
    assert "262,144 tokens of prompt (0.8 of the window and the headroom of 65,536 agree" in texts[327_680]
    assert "320,000 tokens of prompt (0.8 of the window decides" in texts[400_000]


def test_a_window_with_nothing_left_for_a_history_is_drawn_and_said() -> None:
    shown = picture(State(window=1_000, reserve=1_000))
    assert (shown.verdict, shown.headline) == ("no_room", "Accepted, but nothing is left for a history")


def test_an_unknown_provider_is_refused_with_the_closest_name() -> None:
    with pytest.raises(UnknownName) as caught:
        State(window=1, provider="opnai")
    assert "did you mean 'openai'" in caught.value.hint


def test_the_browser_computes_the_same_numbers_and_words(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here; the browser test compares the same states in Chromium")
    module, given = tmp_path / "budget_view.mjs", tmp_path / "states.json"
    module.write_text(kit.esm("budget_view"), "utf-8")
    made = states(600)
    given.write_text(json.dumps([as_json(state) for state in made]), "utf-8")
    program = (
        "import {readFileSync} from 'node:fs'; import {layout} from './budget_view.mjs';"
        "console.log(JSON.stringify(JSON.parse(readFileSync('states.json')).map(layout)))"
    )
    ran = subprocess.run(
        [node, "--input-type=module", "-e", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    for state, drawn in zip(made, json.loads(ran.stdout), strict=True):
        assert drawn == json.loads(json.dumps(picture(state).to_json())), state


def test_each_tool_of_the_sample_is_counted_as_a_provider_renders_it() -> None:
    tools = library_desk().tools
    costs = tool_tokens(tools)
    assert len(costs) == 13
    assert costs[0] == 0
    assert costs[11] == count_tools(tools[:11])
    steps = [after - before for before, after in pairwise(costs)]
    assert max(steps[:10] + steps[11:]) < 130
    assert steps[10] > 900, "the eleventh tool must hurt"


def test_the_sample_says_that_it_is_synthetic_and_has_no_defect() -> None:
    raw = json.loads((kit.HERE.parent.parent / "notebooks/data/library_desk.synthetic.json").read_text("utf-8"))
    assert raw["synthetic"] is True
    assert library_desk().problems == ()


def test_a_view_of_a_log_stands_after_its_last_round() -> None:
    view = BudgetView.from_log(library_desk(), window=16_384, reserve=4_096, margin=512, tools=10)
    assert (view.round, len(view.rounds)) == (12, 12)
    assert view.history == view.rounds[-1]["history"] == 10_678
    assert (view.system, view.requests) == (240, 24)
    assert view.budget == Budget(16_384, 240, 599, 4_096, 512)
    view.tools = 11
    assert view.picture.verdict == "reserve"


def test_a_log_without_tools_starts_with_none_and_offers_the_samples() -> None:
    view = BudgetView.from_log(Conversation(messages=[{"role": "user", "content": "hello"}]))
    assert (view.tools, view.window, view.reserve) == (0, 128_000, 16_384)
    assert len(view.tool_names) == 12
    assert view.caption.endswith("round by round (the log records no system prompt and no tool definitions)")


@pytest.mark.parametrize(
    ("format", "provider"), [("claude_code", "anthropic"), ("codex", "openai"), ("gemini", "gemini"), ("dsh", "openai")]
)
def test_a_log_is_answered_in_the_words_of_its_own_provider(format: str, provider: str) -> None:
    assert BudgetView.from_log(Conversation(messages=[], format=format)).provider == provider


def test_an_empty_conversation_has_no_rounds() -> None:
    view = BudgetView.from_log(Conversation(messages=[]))
    assert (view.rounds, view.round, view.history) == ([], 0, 0)


def test_every_real_log_has_a_budget_round_by_round(logs: Path) -> None:
    seen = 0
    for path in sorted(logs.glob("*.json*")):
        view = BudgetView.from_log(path)
        seen += 1
        assert view.round == len(view.rounds) > 0, path.name
        assert view.rounds[-1]["history"] == view.history > 0
        data, _ = view._repr_mimebundle_()
        assert "Output reserve" in data["text/html"]
    assert seen >= 10


def test_texts_and_messages_are_counted_for_the_learner() -> None:
    view = BudgetView(system="You are a librarian.", history=[{"role": "user", "content": "hello"}], tools=0)
    assert (view.system, view.history) == (5, 5)


def test_wrong_numbers_are_refused_and_too_many_tools_are_all_of_them() -> None:
    view = BudgetView(tools=99)
    assert view.tools == 12
    for name, value in (("margin", -1), ("window", 0), ("ratio", 0.0), ("ratio", 1.5), ("provider", "opnai")):
        with pytest.raises(traitlets.TraitError):
            setattr(view, name, value)


def test_without_a_front_end_there_is_a_table_and_a_sentence() -> None:
    view = BudgetView.from_log(library_desk(), window=16_384, reserve=4_096, margin=512, tools=11)
    data, _ = view._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"].endswith("output reserve 4,096, safety margin 512; 675 past the end, 512 of it margin.")
    html = data["text/html"]
    past = "163 tokens over the window; 675 past the end, 512 of it margin"
    for words in ("System prompt", "1,533", past, "16547 tokens", "(reached)"):
        assert words in html
    assert "<script" not in html
    assert "<style" not in html


def test_a_view_without_triggers_says_nothing_of_when_to_compress() -> None:
    shown = picture(DESK)
    assert "History ratio" in static_html(shown)
    assert "Window pressure" in static_html(shown)
    view = BudgetView(triggers=False)
    data, _ = view._repr_mimebundle_()
    for words in ("History ratio", "Window pressure", "(reached)"):
        assert words not in data["text/html"]


def test_static_html_escapes_what_it_is_given() -> None:
    html = static_html(picture(replace(DESK, tool_names=("a", "<b>"))), caption="<img src=x>")
    assert "<img" not in html
    assert "&lt;img src=x&gt;" in html


def test_every_part_has_a_colour_in_the_styles_and_in_the_static_table() -> None:
    css = kit.css("budget_view")
    for part in picture(DESK).parts:
        if part.key != "left":
            assert f".ctx-fill-{part.key} " in css
            assert kit.COLOURS[part.key][0] in css


def test_the_front_ends_are_single_modules_without_imports() -> None:
    for name in ("budget_view", "question"):
        text = kit.esm(name)
        assert "import " not in "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))
        assert text.count("export default") == 1
        assert "http://" not in text
        assert "https://" not in text


def test_every_control_keeps_its_keys_from_jupyterlab() -> None:
    for name in ("kit", "question"):
        text = (kit.HERE / f"{name}.js").read_text("utf-8")
        for kind in ('el("input"', 'el("button"'):
            for call in text.split(kind)[1:]:
                assert "...KEEP_KEYS" in call[: call.index("})")], f"{name}.js: {kind}"


def test_what_a_missing_extra_costs_is_said_with_the_command_that_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctxlab.widgets

    for name in ("ctxlab.widgets.budget_view", "anywidget"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(vars(ctxlab.widgets), "BudgetView", raising=False)
    with pytest.raises(ImportError, match=r"BudgetView needs anywidget: pip install 'ctxlab\[lab\]'"):
        _ = ctxlab.widgets.BudgetView


def test_growth_is_a_static_figure_with_a_table_and_a_sentence() -> None:
    figure = growth_figure(library_desk(), history_budget=10_000)
    assert type(figure).__name__ == "Figure"
    assert list(figure.data[0].y)[:2] == [0, 1_201]
    assert figure.data[2].y[-1] == 100_386
    bundle = growth_chart(library_desk())._repr_mimebundle_()
    assert bundle["application/vnd.plotly.v1+json"]["config"]["displayModeBar"] is False
    assert figure.layout.legend.y < 0, "under the plot, not over its bars"
    assert list(bundle) == ["application/vnd.plotly.v1+json", "text/html", "text/plain"]
    assert bundle["text/plain"].endswith("100,386 tokens of history have been sent and billed: 9.4 times as many.")
    assert bundle["text/html"].count("<tr>") == 13
    json.dumps(bundle)


def test_a_question_needs_a_right_answer_and_feedback_for_each() -> None:
    with pytest.raises(ValueError, match="right option"):
        Question.choice("?", [("a", False, "no")])
    with pytest.raises(ValueError, match="feedback"):
        Question.choice("?", [("a", True, "")])


def test_a_question_without_a_front_end_folds_its_answer_away() -> None:
    data, _ = Question.number("How many?", answer=934, explain="Nested objects.")._repr_mimebundle_()
    assert "<details><summary>Answer</summary><p>934 tokens. Nested objects.</p></details>" in data["text/html"]
    assert "934" not in data["text/plain"]
