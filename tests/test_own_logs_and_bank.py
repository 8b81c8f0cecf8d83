"""What lesson 08 and the question bank say is what the library computes."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from ctxlab.budget import crossing, history_trigger, pressure_trigger
from ctxlab.formats import load
from ctxlab.widgets import kit

NOTEBOOKS = kit.HERE.parent.parent / "notebooks"


def cells(name: str) -> dict[str, str]:
    data = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))
    return {cell["id"]: "".join(cell["source"]) for cell in data["cells"]}


@pytest.fixture
def lesson(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of lesson 08 after its first cells, up to the table of what pruning saves."""
    monkeypatch.chdir(NOTEBOOKS)
    names: dict[str, Any] = {}
    source = cells("08_your_own_logs")
    for cell in ("l08-load", "l08-who-wrote", "l08-shares", "l08-prune-table"):
        exec(compile(source[cell], cell, "exec"), names)  # the lesson's own cells
    return names


def questions() -> list[ast.Call]:
    """The calls of BankQuestion in the bank, in order."""
    trees = [ast.parse(source) for cell, source in cells("10_question_bank").items() if cell.endswith("-ask")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if ast.unparse(call.func) in ("BankQuestion.choice", "BankQuestion.write")]


def test_pruning_results_saves_nothing_where_the_text_is_in_the_arguments(lesson: dict[str, Any]) -> None:
    writer, desk = lesson["pruned"](lesson["writer"]), lesson["pruned"](lesson["log"].history)
    assert writer["results pruned"] == writer["as it is"]
    assert writer["results and arguments pruned"] * 8 < writer["as it is"], "nine tenths, about"
    assert desk["results pruned"] < 0.6 * desk["as it is"]
    assert desk["results and arguments pruned"] == desk["results pruned"]
    went = lesson["where_it_went"](lesson["writer"])
    assert went["call arguments"] > 0.99 * sum(went.values())


def test_in_a_real_log_of_an_agent_that_writes_the_arguments_are_nearly_all(lesson: dict[str, Any], logs: Path) -> None:
    went = lesson["where_it_went"](load(logs / "langchain__deerflow_5aa47db1_zh.json").history)
    assert 0.9 < went["call arguments"] / sum(went.values()) < 0.96


def test_the_bank_has_an_analysis_and_key_points_for_each_question() -> None:
    found = questions()
    assert len(found) == 22
    for call in found:
        given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        question = ast.literal_eval(call.args[0])
        assert len(given["analysis"]) > 250, question
        assert len(given["points"]) == 3, question


def test_a_choice_of_the_bank_has_one_right_option_and_says_something_to_each() -> None:
    choices = [call for call in questions() if ast.unparse(call.func) == "BankQuestion.choice"]
    assert len(choices) == 18
    places = []
    for call in choices:
        options = ast.literal_eval(call.args[1])
        assert [right for _, right, _ in options].count(True) == 1
        assert all(len(feedback) > 20 for *_, feedback in options)
        places.append([right for _, right, _ in options].index(True))
    assert {0, 1} <= set(places), "not always in the same place"


def test_the_numbers_of_the_bank_are_the_librarys() -> None:
    text = " ".join(cells("10_question_bank").values())
    for number in (
        pressure_trigger(200_000),
        pressure_trigger(400_000),
        pressure_trigger(327_680),
        pressure_trigger(100_000),
        crossing(),
        history_trigger(8_000),
    ):
        assert f"{number:,}" in text
