"""Who is who in a class, what each gets to read, and what the instructor sees."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from variants import ROOT, TESTS

from ctxlab.cli import main
from ctxlab.errors import WrongArgument
from ctxlab.grading import EXERCISES, grade
from ctxlab.grading.classroom import ExtraMissing, summarise, to_frame, wrong_answer
from ctxlab.grading.gradebook import plain, slug, write_grades
from ctxlab.grading.learners import learner_of, learners
from ctxlab.grading.similarity import alike, shingles

RIGHT = (TESTS / "right" / "fork_session__through_json.py").read_text()
WRONG = (TESTS / "wrong" / "fork_session__slice.py").read_text()
OWN = (TESTS / "right" / "fork_session__own_walk_back.py").read_text()


@pytest.fixture(scope="module")
def room(tmp_path_factory) -> Path:
    """Ada handed in twice, Bob and Cyd wrote the same but for names, Eve's file cannot be read."""
    folder = tmp_path_factory.mktemp("room") / "class"
    folder.mkdir()
    (folder / "ada.py").write_text(WRONG)
    (folder / "ada (1).py").write_text(RIGHT)
    (folder / "bob.py").write_text(OWN)
    (folder / "cyd.py").write_text(re.sub(r"\bmessages\b(?!\")", "items", OWN).replace("at_index", "where"))
    (folder / "=dan<b>.py").write_text(WRONG)
    (folder / "eve_fork_session.ipynb").write_text("{")
    return folder


@pytest.fixture(scope="module")
def handed_over(room, tmp_path_factory):
    """The command's whole output for that class."""
    out = tmp_path_factory.mktemp("out")
    words = ["grade", str(room), "--jobs", "2", "--results", f"{out}/r.jsonl", "--csv", f"{out}/grades.csv"]
    done = CliRunner().invoke(main, [*words, "--feedback", f"{out}/feedback", "--report", f"{out}/class.html"])
    assert done.exit_code == 1, done.output
    return out, done.stdout


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("class/ada", "ada"), ("class/Ada Lovelace.ipynb", "Ada Lovelace"), ("class/ada (12).py", "ada"),
        ("class/ada - Copy.py", "ada"), ("class/ada copy 2.py", "ada"), ("class/ada_late (1).ipynb", "ada"),
        ("class/fork_session__a.py", "fork_session__a"), ("class/dr.who", "dr.who"), ("class/ (1)", " (1)"),
    ],
)  # fmt: skip
def test_the_learner_is_the_submissions_name_without_a_copys_mark(path, name):
    assert learner_of(path) == name


def test_a_pattern_names_the_learner_where_the_file_does_not():
    pattern = re.compile(r"(?P<learner>[a-z]+)_\d+_lab")
    assert learner_of("in/lovelaceada_4711_lab.ipynb", pattern) == "lovelaceada"
    assert learner_of("in/other.py", pattern) == "other"
    with pytest.raises(WrongArgument, match="no regular expression"):
        learners(grade(TESTS / "right" / "fork_session__through_json.py"), "(")


def test_grades_csv_has_a_row_a_submission_and_the_best_of_a_learner_counts(handed_over):
    out, _ = handed_over
    rows = list(csv.DictReader((out / "grades.csv").open(encoding="utf-8")))
    found = [(row["learner"], row["score"], row["fork_session"], row["passed"], row["counts"]) for row in rows]
    assert found == [
        ("'=dan<b>", "2", "2", "no", "yes"), ("ada", "3", "3", "yes", "yes"), ("ada", "2", "2", "no", "no"),
        ("bob", "3", "3", "yes", "yes"), ("cyd", "3", "3", "yes", "yes"),
        ("eve_fork_session", "0", "0", "no", "yes"),
    ]  # fmt: skip
    assert "cannot be read" in rows[-1]["error"]


def test_each_learner_gets_one_page_that_names_nobody_else_and_runs_no_script(handed_over):
    out, _ = handed_over
    pages = {path.stem: path.read_text("utf-8") for path in (out / "feedback").iterdir()}
    assert set(pages) == {"ada", "bob", "cyd", "=dan_b_".replace("=", "_"), "eve_fork_session"}
    assert "3 of 3 points" in pages["ada"]
    assert "Also handed in: ada.py" in pages["ada"]
    assert "Why: one of the two sessions would rewrite" in pages["_dan_b_"]
    assert "=dan&lt;b&gt;" in pages["_dan_b_"]
    for name, page in pages.items():
        assert "<script" not in page
        assert "http" not in page
        assert "<b>" not in page
        assert not [other for other in ("ada", "bob", "cyd") if other != name and f">{other}" in page]


def test_the_class_report_shows_the_distribution_the_failures_and_a_flag(handed_over):
    out, shown = handed_over
    page = (out / "class.html").read_text("utf-8")
    assert "5 learners, 6 submissions" in page
    assert "A flag and not a verdict" in page
    assert "bob, cyd (the same but for names)" in page
    assert "ada: handed in more than once" in page
    assert "eve_fork_session: cannot be read" in page
    assert re.search(r'deep-copy</span></th><td class="n">1 of 4', page)
    assert "<script" not in page
    assert "src=" not in page
    assert len(page) < 60_000
    assert shown.splitlines()[-1].startswith("6 submissions, 3 passed every required check; isolation: ")


def test_the_numbers_of_a_class_are_counted_right(room):
    report = grade([room / name for name in ("ada.py", "ada (1).py", "bob.py", "=dan<b>.py")], jobs=2)
    found = learners(report)
    summary = summarise(report, found)
    assert (summary.learners, summary.submissions, summary.several) == (3, 4, ["ada"])
    assert summary.bins == [0, 0, 0, 0, 0, 0, 1, 0, 0, 2]
    assert summary.exercises["fork_session"] == {"passed": 2, "not passed": 1}
    hardest = summary.hardest[0]
    assert (hardest.check.required, hardest.missed, hardest.asked) == (True, 1, 3)
    frame = to_frame(report, found)
    assert len(frame) == 4 * len(EXERCISES["fork_session"].checks)
    assert frame[frame.counts].groupby("learner").earned.sum().to_dict() == {"=dan<b>": 2, "ada": 3, "bob": 3}


def test_without_pandas_the_frame_names_the_extra(room, monkeypatch):
    report = grade(room / "bob.py")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ExtraMissing) as missing:
        to_frame(report, learners(report))
    assert missing.value.hint == "pip install 'ctxlab[lab]'"


def test_one_mistake_reads_the_same_whoever_made_it():
    one = "fork_session(session of 9 messages, 3): id is 's-8f3a91c2', which another session has. Expected: x. Why: y"
    assert wrong_answer(one) == wrong_answer(one.replace("8f3a91c2", "00ff00ff").replace("9 messages", "7 messages"))
    raised = "f(x): it raised KeyError: 'a' (lab.py, line 4: m['a']). Expected: an answer. Why: y"
    assert wrong_answer(raised) == "it raised KeyError: 'a'"


@pytest.mark.parametrize(
    ("text", "kept"), [("=1+1", "'=1+1"), ("@x", "'@x"), ("a\nb\t=", "a b ="), ("-3", "'-3"), ("ada", "ada")]
)
def test_no_cell_is_a_formula(text, kept):
    assert plain(text) == kept


def test_a_learners_name_is_a_safe_file_name():
    assert slug("../../etc/passwd") == "_.._etc_passwd"
    assert slug("...") == "_"
    assert len(slug("x" * 500)) == 100


def test_two_names_that_become_one_file_name_keep_their_own_pages(tmp_path):
    (tmp_path / "a?.py").write_text(RIGHT)
    (tmp_path / "a*.py").write_text(RIGHT)
    report = grade(tmp_path)
    from ctxlab.grading.gradebook import write_feedback

    written = write_feedback(report, learners(report), tmp_path / "feedback")
    assert sorted(path.name for path in written) == ["a_-.html", "a_.html"]
    write_grades(report, learners(report), tmp_path / "new" / "grades.csv")
    assert (tmp_path / "new" / "grades.csv").read_text().count("\n") == 3


def test_names_layout_and_docstrings_do_not_hide_a_copy_and_a_changed_line_does_little(tmp_path):
    renamed = OWN.replace("messages =", "m =").replace('"""', '"""In other words: ', 1)
    changed = OWN + "\nEXTRA = 1\n"
    paths = {"a": OWN, "b": renamed, "c": changed, "d": RIGHT}
    for name, text in paths.items():
        (tmp_path / f"{name}.py").write_text(text)
    [group] = alike((name, [tmp_path / f"{name}.py"]) for name in paths)
    assert group.exercise == "fork_session"
    assert set(group.names) == {"a", "b", "c"}
    assert not group.solution


def test_the_kits_own_solution_is_named_as_such_and_one_learner_is_no_group(tmp_path):
    from ctxlab.grading.rebuild import solution_cells

    cells = solution_cells(EXERCISES["fork_session"], ROOT / "solutions")
    solved = f"{cells['']}\n{cells['solution']}"
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(solved + f"\nprint(fork_session({{}}, {name!r}))\n")
    files = [(name, [tmp_path / f"{name}.py"]) for name in ("a", "b")]
    [group] = alike(files, {"fork_session": solved})
    assert group.solution
    assert group.least == 1.0
    assert alike([files[0], files[0]], {"fork_session": solved}) == []


def test_code_that_does_not_parse_has_no_shingles():
    assert shingles("def f(:") == frozenset()
