"""A class's run: results as they come, taken up after a kill, graded anew only where something changed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from variants import TESTS

from ctxlab.cli import main
from ctxlab.grading import batch, grade
from ctxlab.grading.batch import grade_class
from ctxlab.grading.results import Results, ResultsRefused, from_line, to_line
from ctxlab.grading.submissions import Submission
from ctxlab.sandbox import at_level

NAMES = ("right/fork_session__through_json", "wrong/fork_session__slice", "wrong/fork_session__end_raises")


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A class of three."""
    folder = tmp_path / "class"
    for learner, name in zip(("ada", "bob", "cyd"), NAMES, strict=True):
        (folder / learner).mkdir(parents=True)
        (folder / learner / "lab.py").write_bytes((TESTS / f"{name}.py").read_bytes())
    return folder


@pytest.fixture
def graded(monkeypatch) -> list[str]:
    """The learners that are really graded, in turn; the kit stays the same meanwhile."""
    seen: list[str] = []
    real = batch.grade_submission

    def noted(submission: Submission, *rest):
        seen.append(submission.path.name)
        return real(submission, *rest)

    monkeypatch.setattr(batch, "grade_submission", noted)
    monkeypatch.setattr("ctxlab.grading.results.kit_print", lambda: "the same kit")
    return seen


def run(room: Path, file: Path, **options) -> dict:
    with Results(file, resume=True) as results:
        return grade_class([room], results, jobs=2, **options).to_json()


def test_a_class_of_files_has_the_verdicts_of_one_run_in_memory_and_one_line_each(room, tmp_path):
    told: list[tuple[int, int]] = []
    with Results(tmp_path / "r.jsonl") as results:
        report = grade_class([room], results, jobs=2, told=lambda done, of: told.append((done, of)))
        assert report.to_json() == grade(room).to_json()
        assert report.to_junit() == grade(room).to_junit()
        assert report.exit_code == 1
        assert [one.score for one in report.submissions[1:]] == [2.0, 2.75]
    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert sorted(Path(line["path"]).name for line in lines) == ["ada", "bob", "cyd"]
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_what_is_there_is_not_graded_again_and_what_changed_or_came_late_is(room, tmp_path, graded):
    first = run(room, tmp_path / "r.jsonl")
    assert sorted(graded) == ["ada", "bob", "cyd"]
    graded.clear()
    assert run(room, tmp_path / "r.jsonl") == first
    assert graded == []
    (room / "bob" / "lab.py").write_bytes((room / "ada" / "lab.py").read_bytes())
    (room / "dee.py").write_bytes((room / "cyd" / "lab.py").read_bytes())
    again = run(room, tmp_path / "r.jsonl")
    assert sorted(graded) == ["bob", "dee.py"]
    assert [one["score"] for one in again["submissions"]] == [3.0, 3.0, 2.75, 2.75]


@pytest.mark.parametrize("options", [{"seed": 1}, {"exercise": "fork_session"}])
def test_another_seed_or_exercise_grades_anew(room, tmp_path, graded, options):
    run(room, tmp_path / "r.jsonl")
    graded.clear()
    run(room, tmp_path / "r.jsonl", **options)
    assert len(graded) == 3


def test_another_kit_grades_anew(room, tmp_path, graded, monkeypatch):
    run(room, tmp_path / "r.jsonl")
    graded.clear()
    monkeypatch.setattr("ctxlab.grading.results.kit_print", lambda: "a later kit")
    run(room, tmp_path / "r.jsonl")
    assert len(graded) == 3


@pytest.mark.parametrize("cut", [1, 60])
def test_a_torn_last_line_is_dropped_and_its_submission_graded_again(room, tmp_path, graded, cut):
    first = run(room, tmp_path / "r.jsonl")
    data = (tmp_path / "r.jsonl").read_bytes()
    (tmp_path / "r.jsonl").write_bytes(data[:-cut])
    graded.clear()
    with Results(tmp_path / "r.jsonl", resume=True) as results:
        assert "line 3: torn off" in results.problems[0]
        assert grade_class([room], results).to_json() == first
    assert len(graded) == 1
    assert all(json.loads(line) for line in (tmp_path / "r.jsonl").read_bytes().splitlines())


def test_a_line_that_is_no_result_is_passed_over(room, tmp_path, graded):
    (tmp_path / "r.jsonl").write_text('{"path": 3}\n[]\nnonsense\n')
    with Results(tmp_path / "r.jsonl", resume=True) as results:
        assert len(results.problems) == 3
        assert len(grade_class([room], results).submissions) == 3


def test_results_that_are_there_are_never_written_over_nor_shared_by_two_runs(room, tmp_path):
    (tmp_path / "r.jsonl").write_text("{}\n")
    with pytest.raises(ResultsRefused, match="holds results already") as refused:
        Results(tmp_path / "r.jsonl")
    assert "--resume" in refused.value.hint
    with Results(tmp_path / "r.jsonl", resume=True), pytest.raises(ResultsRefused, match="another run"):
        Results(tmp_path / "r.jsonl", resume=True)


@pytest.mark.parametrize("jobs", [1, 2])
def test_where_the_grader_itself_fails_there_is_one_result_and_it_is_graded_again(room, tmp_path, monkeypatch, jobs):
    real = batch.grade_submission

    def faulty(submission: Submission, *rest):
        if submission.path.name == "bob":
            raise OSError("no more processes")
        return real(submission, *rest)

    monkeypatch.setattr("ctxlab.grading.results.kit_print", lambda: "the same kit")
    monkeypatch.setattr(batch, "grade_submission", faulty)
    with Results(tmp_path / "r.jsonl") as results:
        report = grade_class([room], results, jobs=jobs)
        ada, bob, cyd = report.submissions
        assert (ada.score, cyd.score) == (3.0, 2.75)
        assert "the grader itself failed (OSError: no more processes)" in (bob.error or "")
        assert all(check.grader for one in bob.exercises for check in one.checks)
    monkeypatch.setattr(batch, "grade_submission", real)
    assert [one["score"] for one in run(room, tmp_path / "r.jsonl")["submissions"]] == [3.0, 2.0, 2.75]


def test_killed_in_mid_run_and_run_again_the_scores_are_those_of_an_undisturbed_run(room, tmp_path):
    for number in range(4):
        (room / f"late{number}.py").write_bytes((room / "bob" / "lab.py").read_bytes())
    results = tmp_path / "r.jsonl"
    command = [sys.executable, "-m", "ctxlab", "grade", str(room), "--results", str(results), "--resume"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while time.monotonic() < until and not (results.exists() and results.read_bytes().count(b"\n") >= 2):
            os.sched_yield()
        process.send_signal(signal.SIGKILL)
    before = results.read_bytes().count(b"\n")
    assert 2 <= before < 7
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["submissions"] == grade(room).to_json()["submissions"]


def test_a_result_comes_back_from_its_line_as_it_was(room):
    for one in grade([room, TESTS / "wrong" / "append_message__indented.py"]).submissions:
        assert from_line(json.loads(json.dumps(to_line(one)))) == one


def test_below_the_isolation_that_is_required_nothing_is_graded(room, tmp_path):
    words = ["grade", str(room / "ada"), "--results", f"{tmp_path}/r.jsonl", "--require-isolation"]
    assert CliRunner().invoke(main, [*words, "limits"]).exit_code == 0
    with at_level("limits"):
        refused = CliRunner().invoke(main, [*words, "bubblewrap"])
    assert refused.exit_code == 2
    assert "isolation bubblewrap is required" in refused.stderr
    assert CliRunner().invoke(main, [*words, "prison"]).exit_code == 2


def test_to_go_on_with_nothing_is_wrong_use(room):
    refused = CliRunner().invoke(main, ["grade", str(room), "--resume"])
    assert refused.exit_code == 2
    assert "--results" in refused.stderr


def test_what_machines_read_stays_whole_beside_a_class_of_files(room, tmp_path):
    words = ["grade", str(room), "--csv", f"{tmp_path}/g.csv", "--format", "json"]
    done = CliRunner().invoke(main, words)
    assert json.loads(done.stdout) == grade(room).to_json()
