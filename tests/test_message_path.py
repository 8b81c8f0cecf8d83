"""The way of a message, the questions of the bank and the checklist: real data, every place named, ticks that last."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import traitlets

import ctxlab
from ctxlab.budget import history_trigger
from ctxlab.providers import PROVIDERS
from ctxlab.widgets import kit
from ctxlab.widgets.bank_question import BankQuestion
from ctxlab.widgets.checklist import ITEMS, Checklist, load
from ctxlab.widgets.message_path import MessagePath
from ctxlab.widgets.message_stations import ASKED, PATHS, walk

FRONT_ENDS = ("message_path", "bank_question", "checklist")


def at(key: str, path: str = "short") -> dict[str, object]:
    return next(station.to_json() for station in walk(path) if station.key == key)


@pytest.mark.parametrize("path", PATHS)
def test_the_way_goes_from_input_through_the_loop_to_the_log_and_back(path: str) -> None:
    assert [station.key for station in walk(path)] == [
        "input",
        "log",
        "check",
        "compress",
        "request",
        "validate",
        "model",
        "tools",
        "results",
        "reply",
        "kept",
        "recover",
        "fork",
    ]


@pytest.mark.parametrize("path", PATHS)
def test_every_station_names_a_lesson_and_functions_that_exist(path: str) -> None:
    from ctxlab import models

    for station in walk(path):
        assert any(link.text.startswith("Lesson ") for link in station.links), station.key
        for name in station.functions:
            owner, _, method = name.partition(".")
            found = getattr(models if hasattr(models, owner) else ctxlab, owner)
            assert not method or hasattr(found, method), name


def test_every_link_leads_to_a_notebook_of_the_kit() -> None:
    notebooks = kit.HERE.parent.parent / "notebooks"
    links = [link for path in PATHS for station in walk(path) for link in station.links]
    assert {link.href for link in links} >= {"00_start_here.ipynb", "../exercises/02_compress_if_needed.ipynb"}
    for link in links:
        assert not link.href or (notebooks / link.href).is_file(), link


def test_a_short_history_passes_the_compression_and_a_long_one_is_compressed_there() -> None:
    short, long = at("compress"), at("compress", "long")
    assert short["skipped"]
    assert short["messages"] == at("check")["messages"] == 5
    trigger = history_trigger(ctxlab.MAX_TOKENS)
    assert at("check")["tokens"] < trigger <= at("check", "long")["tokens"]
    assert not long["skipped"]
    assert long["tokens"] < trigger
    assert "What the user stated:" in str(long["data"])
    assert at("kept", "long")["messages"] == long["messages"] + 4, "calls, two results and the answer"


@pytest.mark.parametrize("path", PATHS)
def test_the_log_keeps_every_message_whatever_was_compressed(path: str) -> None:
    before = at("log", path)
    record = json.loads(str(before["data"]))
    assert (record["role"], record["content"], record["seq"]) == ("user", ASKED, before["messages"])
    assert record["ts"].endswith("Z")
    whole = int(str(before["messages"])) + 4
    assert str(at("recover", path)["data"]).startswith(f"recovered {whole} messages from disk")
    lines = str(at("kept", path)["data"]).splitlines()
    assert [f'"seq":{seq}' in line for seq, line in enumerate(lines, start=whole - 4)] == [True] * 5
    assert json.loads(str(at("fork", path)["data"]).rpartition("}")[0] + "}")["forked_at"] == whole - 1


@pytest.mark.parametrize("path", PATHS)
def test_each_call_has_its_result_and_every_provider_accepts_the_request(path: str) -> None:
    calls = json.loads(str(at("model", path)["data"]))["tool_calls"]
    results = [json.loads(line) for line in str(at("results", path)["data"]).splitlines()]
    assert [call["id"] for call in calls] == [result["tool_call_id"] for result in results]
    assert [json.loads(result["content"])["city"] for result in results] == ["Hanoi", "Lisbon"]
    verdicts = str(at("validate", path)["data"]).splitlines()
    assert [line.split() for line in verdicts] == [[name, "accepted"] for name in PROVIDERS]


def test_the_map_stays_inside_its_width_and_no_two_stations_overlap(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here; the browser test looks at the boxes in Chromium")
    (tmp_path / "path.mjs").write_text(kit.esm("message_path"), "utf-8")
    program = (
        "import {mapOf} from './path.mjs'; console.log(JSON.stringify([560, 640, 759, 760, 1000, 1400].map(mapOf)))"
    )
    command = [node, "--input-type=module", "-e", program]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    for drawn in json.loads(ran.stdout):
        boxes = list(drawn["boxes"].items())
        assert {key for key, _ in boxes} == {station.key for station in walk("short")}
        for index, (key, box) in enumerate(boxes):
            assert 0 <= box["x"] <= drawn["width"] - box["w"], key
            assert box["y"] + box["h"] <= drawn["height"]
            for other, second in boxes[index + 1 :]:
                apart = (
                    box["x"] + box["w"] < second["x"]
                    or second["x"] + second["w"] < box["x"]
                    or box["y"] + box["h"] < second["y"]
                    or second["y"] + second["h"] < box["y"]
                )
                assert apart, (key, other)


def test_the_widget_stands_at_a_station_that_exists() -> None:
    view = MessagePath(station=12, path="long")
    assert view.here.key == "fork"
    assert set(view.walks) == {"short", "long"}
    for name, value in (("station", 13), ("station", -1), ("path", "middle")):
        with pytest.raises(traitlets.TraitError):
            setattr(view, name, value)


def test_without_a_front_end_the_way_is_a_table_and_a_sentence() -> None:
    data, _ = MessagePath()._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/html"].count("<tr>") == 14
    assert '<a href="00_start_here.ipynb">Lesson 00 Start here</a>' in data["text/html"]
    assert data["text/plain"].endswith(
        "Input, Log, Check, Compress, Request, Validate, Model, Tools, Results, Reply, Log, Recover, Fork"
    )


def test_a_bank_question_needs_feedback_an_analysis_and_points() -> None:
    good = [("a", True, "yes"), ("b", False, "no")]
    for options, analysis, points in (
        ([("a", False, "no")], "x", ["y"]),
        ([("a", True, "")], "x", ["y"]),
        (good, "", ["y"]),
        (good, "x", []),
    ):
        with pytest.raises(ValueError, match="needs"):
            BankQuestion.choice("?", options, analysis=analysis, points=points)
    with pytest.raises(ValueError, match="needs an analysis"):
        BankQuestion.write("?", analysis="", points=["y"])


def test_a_bank_question_without_a_front_end_folds_analysis_and_points_away() -> None:
    shown = BankQuestion.choice("Why?", [("a", True, "yes")], analysis="Because of <b>.", points=["first"])
    data, _ = shown._repr_mimebundle_()
    html = data["text/html"]
    assert "<details><summary>Analysis</summary><p>a: yes</p><p>Because of &lt;b&gt;.</p></details>" in html
    assert html.index("Analysis") < html.index("Key points")
    assert data["text/plain"] == "Question: Why? (Analysis and key points are folded.)"


def test_ticks_are_on_disk_and_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTXLAB_PROGRESS", str(tmp_path / "kept" / "progress.json"))
    first = Checklist()
    assert first.done == []
    first.done = ["cut", "path"]
    assert json.loads((tmp_path / "kept" / "checklist.json").read_text("utf-8")) == {"cut": True, "path": True}
    again = Checklist()
    assert again.done == ["path", "cut"], "in the order of the list"
    again.done = ["cut"]
    assert Checklist().done == ["cut"]
    assert again._repr_mimebundle_()[0]["text/plain"] == f"The checklist: 1 of {len(ITEMS)} done"


def test_a_file_that_cannot_be_read_or_written_costs_the_ticks_and_says_so(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{", "utf-8")
    assert load(broken) == set()
    assert Checklist(place=broken).done == []
    (tmp_path / "file").write_text("", "utf-8")
    stuck = Checklist(place=tmp_path / "file" / "checklist.json")
    stuck.done = ["cut"]
    assert stuck.note.startswith("not kept: cannot write")


def test_ticks_of_another_list_in_the_same_file_stay(tmp_path: Path) -> None:
    place = tmp_path / "checklist.json"
    Checklist({"a": "A"}, place=place).done = ["a"]
    Checklist({"b": "B"}, place=place).done = ["b"]
    assert load(place) == {"a", "b"}


def test_the_published_checklist_is_in_it() -> None:
    text = " ".join(ITEMS.values())
    for words in ("whole path from input to being written", "four parts", "why the cut aligns"):
        assert words in text


def test_the_front_ends_are_single_modules_without_imports() -> None:
    for name in FRONT_ENDS:
        text = kit.esm(name)
        assert "import " not in "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))
        assert text.count("export default") == 1
        assert "https://" not in text


def test_every_control_keeps_its_keys_from_jupyterlab() -> None:
    for name in (*FRONT_ENDS, "threshold_explorer"):
        text = (kit.HERE / f"{name}.js").read_text("utf-8")
        for kind in ('el("input"', 'el("button"', 'el("textarea"', 'el("a"'):
            for call in text.split(kind)[1:]:
                assert "...KEEP_KEYS" in call.partition("}")[0], f"{name}.js: {kind}"
