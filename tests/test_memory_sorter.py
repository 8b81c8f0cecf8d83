"""MemorySorter: feedback that is `memory.place`'s, numbers that are `memory.compare`'s, and the browser's own sums."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import traitlets

from ctxlab.memory import PLACES, place
from ctxlab.tokens import estimate_tokens
from ctxlab.widgets import kit
from ctxlab.widgets.memory_picture import ALL_ANSWERS, FACTS, QUERIES, RESERVE, WINDOW, filled, memories, requests
from ctxlab.widgets.memory_sorter import MemorySorter

BY_KEY = {fact.key: fact for fact in FACTS}


def in_node(folder: Path, program: str) -> Any:
    """What a program that imports the widget's pure functions prints, as data."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here; the browser test looks at the same words in Chromium")
    (folder / "sorter.mjs").write_text(kit.esm("memory_sorter"), "utf-8")
    command = [node, "--input-type=module", "-e", f"import {{told, barsOf}} from './sorter.mjs'; {program}"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(ran.stdout)


def test_the_facts_cover_every_place_and_both_sides_of_recurrence() -> None:
    where = {fact.key: fact.to_json()["places"][fact.answers]["where"] for fact in FACTS}
    assert set(where.values()) == set(PLACES)
    assert where == {
        "nuts": "long-term",
        "order": "retrieve",
        "draft": "short-term",
        "away": "short-term",
        "leave": "long-term",
        "style": "short-term",
        "french": "long-term",
        "rate": "short-term",
    }
    assert BY_KEY["away"].answers == BY_KEY["leave"].answers, "the same answers, and one of them recurred"


def test_each_of_the_eight_ways_to_answer_says_what_place_says() -> None:
    for fact in FACTS:
        data = fact.to_json()["places"]
        assert tuple(data) == ALL_ANSWERS
        for answers, shown in data.items():
            found = place(fact.text, *(letter == "y" for letter in answers), fact.times_seen)
            assert (shown["where"], shown["why"]) == (found.where, found.why)


def test_two_hundred_memories_are_two_hundred_different_ones() -> None:
    assert len(set(memories())) == 200
    assert "The user's mother is allergic to nuts." in memories()


def test_all_memories_are_over_the_window_and_the_best_few_fit() -> None:
    for request in requests():
        assert request["all"]["items"] == 200
        assert not request["all"]["fits"]
        assert request["all"]["request"] + RESERVE > WINDOW
        for k, few in enumerate(request["picks"], start=1):
            assert few["fits"]
            assert len(few["found"]) == few["items"] <= k
            assert few["request"] == request["all"]["request"] - request["all"]["memory"] + few["memory"]


def test_the_search_brings_back_what_matters_in_either_language_and_misses_a_synonym() -> None:
    picked = {one["query"]: [found["text"] for found in one["picks"][4]["found"]] for one in requests()}
    assert picked[QUERIES[0]][0] == "The user's mother is allergic to nuts."
    assert "The team dinner is always on a Thursday." in picked[QUERIES[1]]
    assert picked[QUERIES[2]] == ["妈妈喜欢喝茉莉花茶，不喝绿茶。", "妈妈住在河内。"]
    assert not any("apartment" in text for text in picked[QUERIES[3]])


def test_the_shown_tokens_are_those_of_the_request() -> None:
    from ctxlab.memory import inject_all
    from ctxlab.models import conversation

    with filled(memories()) as store:
        whole = inject_all([*conversation(1), {"role": "user", "content": QUERIES[0]}], store.items())
    assert requests()[0]["all"]["request"] == estimate_tokens(whole)


def test_the_numbers_that_lesson_07_quotes_are_those_that_are_measured() -> None:
    lesson = (Path(__file__).parent.parent / "notebooks" / "07_memory.ipynb").read_text("utf-8")
    every, four = requests()[0]["all"]["memory"], requests()[0]["picks"][3]["memory"]
    assert (every, four) == (2_345, 54)
    assert f"from {300 + every:,} down to {300 + four}" in lesson
    assert f"two hundred memories are {every:,}" in lesson


def test_answers_in_the_widget_become_placements() -> None:
    view = MemorySorter(answers={"nuts": "ynn", "order": "yy-", "away": "ynn"})
    assert {key: found.where for key, found in view.sorted.items()} == {"nuts": "long-term", "away": "long-term"}
    assert view.right == ("nuts",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("answers", {"nuts": "yes"}),
        ("answers", {"no such fact": "ynn"}),
        ("answers", {"nuts": "yn"}),
        ("fact", len(FACTS)),
        ("query", -1),
        ("k", 6),
        ("part", "neither"),
    ],
)
def test_a_value_that_means_nothing_is_refused(name: str, value: Any) -> None:
    with pytest.raises(traitlets.TraitError):
        setattr(MemorySorter(), name, value)


def test_half_a_widget_carries_half_the_data() -> None:
    assert MemorySorter("sort").requests == []
    assert MemorySorter("request").facts == []
    assert MemorySorter().facts
    assert MemorySorter().requests


def test_without_a_front_end_there_are_tables_and_the_answers_are_folded_away() -> None:
    data, _ = MemorySorter()._repr_mimebundle_()
    assert data["text/html"].count("<table>") == 2
    assert data["text/html"].index("<details>") < data["text/html"].index("long-term")
    assert data["text/plain"].startswith("8 facts to sort by three questions, 0 as the kit does. All 200 memories make")
    only, _ = MemorySorter("request")._repr_mimebundle_()
    assert only["text/plain"].startswith("All 200 memories")


def test_the_browser_gives_no_feedback_before_the_third_answer(tmp_path: Path) -> None:
    fact = json.dumps(BY_KEY["order"].to_json())
    said = in_node(
        tmp_path,
        f"const f = {fact}; console.log(JSON.stringify(['---', 'yy-', 'yyy', 'yny', 'nyy'].map((g) => told(f, g))))",
    )
    assert [one["mood"] for one in said] == ["none", "none", "right", "wrong", "wrong"]
    assert said[1]["lines"] == ["", "", ""]
    assert said[2]["text"].startswith("By your answers: retrieve. It changes and its source can be asked")
    assert said[3]["lines"][1] == "We say yes: it changes with every scan."
    assert said[3]["text"].endswith("Our answers put it elsewhere: retrieve.")


def test_the_browser_says_where_the_place_is_right_for_another_reason(tmp_path: Path) -> None:
    fact = json.dumps(BY_KEY["rate"].to_json())
    (said,) = in_node(tmp_path, f"console.log(JSON.stringify([told({fact}, 'nnn')]))")
    assert (said["mood"], said["place"]) == ("wrong", "short-term")
    assert said["text"].endswith("The place is right all the same.")


def test_the_bars_stay_inside_their_track_and_keep_their_proportions(tmp_path: Path) -> None:
    program = f"console.log(JSON.stringify({json.dumps(requests())}.map((r) => barsOf(r, 3, {WINDOW}, {RESERVE}))))"
    for request, drawn in zip(requests(), in_node(tmp_path, program), strict=True):
        everything, few = drawn["rows"]
        wide = everything["memory"] + everything["rest"] + everything["reserve"]
        assert wide == pytest.approx(100)
        assert drawn["mark"] == pytest.approx(100 * WINDOW / (request["all"]["request"] + RESERVE))
        assert few["memory"] + few["rest"] + few["reserve"] < drawn["mark"]
        assert everything["text"].endswith("Over the window: refused.")
        assert few["text"].endswith("Fits.")
