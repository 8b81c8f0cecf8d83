"""The front end's pure functions in Chromium, without JupyterLab: the numbers are Python's, to the letter."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from playwright.sync_api import Page
from test_budget_view import as_json, states

from browser.notebook import Watched
from ctxlab.widgets import kit
from ctxlab.widgets.budget_picture import picture

pytestmark = pytest.mark.browser


def call(page: Page, widget: str, function: str, states: list[dict[str, Any]]) -> Any:
    """What ``function`` of a widget's module gives for each state."""
    url = "data:text/javascript;base64," + base64.b64encode(kit.esm(widget).encode()).decode()
    return page.evaluate(
        "async ([url, name, states]) => { const module = await import(url); return states.map(module[name]); }",
        [url, function, states],
    )


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
