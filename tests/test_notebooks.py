"""Every lesson runs top to bottom, offline, from an empty home, and reads as a static page."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

ROOT = Path(__file__).resolve().parent.parent
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in LESSONS]
WIDGET = "application/vnd.jupyter.widget-view+json"
# A proxy that refuses: whoever asks the network in spite of it fails loudly.
NO_NETWORK = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")


def code_cells(notebook: Any) -> Iterator[Any]:
    return (cell for cell in notebook.cells if cell.cell_type == "code")


def empty_home(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Nothing of the user's around, and no network."""
    for name, value in {**NO_NETWORK, "HOME": str(home), "IPYTHONDIR": str(home / "ipython")}.items():
        patch.setenv(name, value)
    for name in ("CONFIG", "DATA", "RUNTIME"):
        patch.setenv(f"JUPYTER_{name}_DIR", str(home / name.lower()))
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        patch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Each lesson after a run in a copy of ``notebooks/``, with nothing of the user's around."""
    home = tmp_path_factory.mktemp("home")
    folder = home / "context-lab" / "notebooks"
    shutil.copytree(ROOT / "notebooks", folder, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    done = {}
    with pytest.MonkeyPatch.context() as patch:
        empty_home(patch, home)
        for path in LESSONS:
            notebook = nbformat.read(path, as_version=4)
            client = NotebookClient(
                notebook, timeout=60, store_widget_state=False, resources={"metadata": {"path": str(folder)}}
            )
            client.execute(env={**os.environ})
            done[path.stem] = notebook
    return done


def test_the_first_two_lessons_are_there() -> None:
    assert NAMES[:2] == ["00_start_here", "01_the_four_part_budget"]


@pytest.mark.parametrize("path", LESSONS, ids=NAMES)
def test_a_lesson_is_saved_clean(path: Path) -> None:
    raw = json.loads(path.read_text("utf-8"))
    nbformat.validate(nbformat.reads(path.read_text("utf-8"), as_version=4))
    assert "widgets" not in raw["metadata"]
    assert raw["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in raw["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]\d\d-[a-z0-9-]+", cell_id) for cell_id in ids), "a fixed id, such as b01-title"
    for cell in raw["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
    assert path.stat().st_size < 100_000


@pytest.mark.parametrize("path", LESSONS, ids=NAMES)
def test_the_links_of_a_lesson_lead_to_files_of_the_kit(path: Path) -> None:
    text = "\n".join(cell["source"] for cell in nbformat.read(path, as_version=4).cells)
    targets = re.findall(r"\]\(([^)#:]+)\)", text)
    assert targets
    exercises = {f"../exercises/{solution.stem}.ipynb" for solution in (ROOT / "solutions").glob("*.py")}
    for target in targets:
        assert (path.parent / target).is_file() or target in exercises, target


@pytest.mark.parametrize("path", LESSONS, ids=NAMES)
def test_a_questions_source_is_folded_because_it_holds_the_answer(path: Path) -> None:
    for cell in code_cells(nbformat.read(path, as_version=4)):
        if "Question." in cell.source:
            assert cell.metadata["jupyter"]["source_hidden"] is True, cell.id
            first = cell.source.split("\n")[0]
            assert re.fullmatch(r"(Bank)?Question\.(choice|number|write)\(", first), "all that a folded cell shows"


@pytest.mark.parametrize("path", LESSONS, ids=NAMES)
def test_visible_code_is_narrow_enough_to_be_read_without_scrolling(path: Path) -> None:
    for cell in code_cells(nbformat.read(path, as_version=4)):
        if not cell.metadata.get("jupyter", {}).get("source_hidden"):
            assert max(map(len, cell.source.split("\n"))) <= 96, cell.id


@pytest.mark.parametrize(("path", "following"), list(pairwise(LESSONS)), ids=NAMES[:-1])
def test_a_lesson_ends_with_a_link_to_the_next(path: Path, following: Path) -> None:
    title = nbformat.read(following, as_version=4).cells[0].source.split("\n")[0].removeprefix("# ")
    assert f"**Next:** [{title}]({following.name})" in nbformat.read(path, as_version=4).cells[-1].source


def test_the_first_lesson_lists_all_lessons_and_exercises_with_links_and_minutes() -> None:
    text = "\n".join(cell.source for cell in nbformat.read(LESSONS[0], as_version=4).cells)
    solutions = sorted((ROOT / "solutions").glob("*.py"))
    for target in [path.name for path in LESSONS[1:]] + [f"../exercises/{path.stem}.ipynb" for path in solutions]:
        row = next(line for line in text.split("\n") if line.startswith("|") and f"]({target})" in line)
        assert re.search(r"\| \d+[^|]*\|$", row), row


@pytest.mark.parametrize(
    ("lesson", "exercise"), [("01", "01_estimate_"), ("02", "02_compress_"), ("04", "03_append_"), ("05", "04_fork_")]
)
def test_an_exercise_is_named_by_the_lesson_that_it_follows(lesson: str, exercise: str) -> None:
    path = next(path for path in LESSONS if path.stem.startswith(lesson))
    assert f"../exercises/{exercise}" in nbformat.read(path, as_version=4).cells[-1].source


@pytest.mark.parametrize("path", LESSONS, ids=NAMES)
def test_a_lesson_has_a_question_a_prediction_a_check_and_three_lines(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells)
    assert "?" in notebook.cells[0].source + notebook.cells[1].source
    assert "Question.choice(" in text
    assert "../exercises/" in text
    take = text[text.index("## Three lines to take along") :]
    assert re.findall(r"^(\d)\. ", take, re.MULTILINE) == ["1", "2", "3"]


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_runs_to_its_end_without_an_error(executed: dict[str, Any], name: str) -> None:
    for cell in code_cells(executed[name]):
        assert cell.execution_count is not None, cell.id
        assert not [output for output in cell.outputs if output.output_type == "error"], cell.id
        assert not [output for output in cell.outputs if output.get("name") == "stderr"], cell.id


@pytest.mark.parametrize("name", NAMES)
def test_every_picture_has_a_table_and_a_sentence_beside_it(executed: dict[str, Any], name: str) -> None:
    drawn = 0
    for cell in code_cells(executed[name]):
        for output in cell.outputs:
            data = output.get("data", {})
            if WIDGET in data or "application/vnd.plotly.v1+json" in data:
                drawn += 1
                assert "<table" in data["text/html"] or "<ul>" in data["text/html"] or "<details>" in data["text/html"]
                assert len(data["text/plain"]) > 20
                assert "object at 0x" not in data["text/plain"]
    assert drawn >= 2


@pytest.mark.parametrize("name", NAMES)
def test_nbconvert_shows_a_table_in_place_of_each_widget(executed: dict[str, Any], name: str) -> None:
    page, _ = HTMLExporter().from_notebook_node(executed[name])
    words = unescape(page)
    for cell in code_cells(executed[name]):
        for output in cell.outputs:
            if WIDGET in output.get("data", {}):
                said = re.findall(r">([^<>]+)<", output["data"]["text/html"])
                assert said, cell.id
                for text in said:
                    assert unescape(text) in words, cell.id
    assert "jupyter.widget-view" not in page


def test_the_numbers_that_lesson_01_quotes_are_those_that_it_computes(executed: dict[str, Any]) -> None:
    outputs = "\n".join(
        output.get("text", "") + str(output.get("data", {}).get("text/html", "")) + str(output.get("data", ""))
        for cell in code_cells(executed["01_the_four_part_budget"])
        for output in cell.outputs
    )
    text = "\n".join(cell.source for cell in executed["01_the_four_part_budget"].cells if cell.cell_type == "markdown")
    for quoted, computed in (
        ("259 tokens are to spare", "259 tokens left"),
        ("599 tokens together", "10 tools 599"),
        ("ends at 10,678 tokens", "history 10,678"),
        ("24 requests", "in 24 requests"),
    ):
        assert quoted in text
        assert computed in outputs or computed in text
    assert "934" in outputs
    assert "100,386" in outputs


@pytest.mark.parametrize("path", sorted((ROOT / "exercises").glob("*.ipynb")), ids=lambda path: path.stem)
def test_an_untouched_exercise_runs_to_its_end_and_says_that_it_is_incomplete(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty_home(monkeypatch, tmp_path)
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute(env={**os.environ})
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert re.search("incomplete|not attempted", json.dumps(outputs))


def test_the_worked_example_of_lesson_02_counts_to_what_its_text_says(executed: dict[str, Any]) -> None:
    cells = {cell.id: cell for cell in executed["02_when_and_where_to_cut"].cells}
    printed = "".join(output.get("text", "") for output in cells["c02-sum-counted"].outputs)
    assert re.findall(r"(\d+) messages?, ([\d,]+) tokens", printed) == [
        ("120", "29,346"),
        ("1", "666"),
        ("7", "1,466"),
        ("8", "2,129"),
    ]
    told = cells["c02-sum-differs"].source
    assert all(number in told for number in ("29,346", "2,129", "666", "7 messages", str(29_346 // 30)))
