"""What platforms read: Gradescope, GitHub, its classroom reporter, JUnit; and what a release hands to them."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import jsonschema
import pytest
import xmlschema
import yaml
from click.testing import CliRunner
from variants import ROOT, TESTS

from ctxlab.cli import main
from ctxlab.errors import UnknownName
from ctxlab.grading import EXERCISES, Report, grade
from ctxlab.grading.cells import require
from ctxlab.grading.handout import HandoutRefused, hand_out
from ctxlab.grading.model import CheckResult, ExerciseResult, SubmissionResult
from ctxlab.grading.platforms import (
    MAX_SUMMARY,
    classroom_result,
    job_summary,
    line_of,
    to_gradescope,
    workflow_errors,
)
from ctxlab.sandbox import isolation

WRONG = TESTS / "wrong" / "fork_session__slice.py"
# The fields as Gradescope's autograder specification gives them.
GRADESCOPE = {
    "type": "object",
    "required": ["score", "tests"],
    "additionalProperties": False,
    "properties": {
        "score": {"type": "number", "minimum": 0},
        "output": {"type": "string"},
        "output_format": {"enum": ["simple_format", "text", "html", "md", "ansi"]},
        "visibility": {"enum": ["hidden", "after_due_date", "after_published", "visible"]},
        "stdout_visibility": {"enum": ["hidden", "after_due_date", "after_published", "visible"]},
        "extra_data": {"type": "object"},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "score": {"type": "number"}, "max_score": {"type": "number"},
                    "status": {"enum": ["passed", "failed"]}, "name": {"type": "string"},
                    "number": {"type": "string"}, "output": {"type": "string"},
                    "output_format": {"enum": ["simple_format", "text", "html", "md", "ansi"]},
                    "visibility": {"enum": ["hidden", "after_due_date", "after_published", "visible"]},
                },
            },
        },
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def report() -> Report:
    """The solutions, and one mistake."""
    return grade([ROOT / "solutions", WRONG], jobs=2)


def hostile(text: str) -> Report:
    """A failed check whose message is ``text``."""
    exercise = EXERCISES["fork_session"]
    verdicts = tuple(CheckResult(check, "failed", text) for check in exercise.checks)
    return Report((SubmissionResult("a,b:c.py", (ExerciseResult(exercise, verdicts),)),), isolation(), 0)


def test_gradescope_gets_a_test_a_check_and_the_score(report):
    right, wrong = (to_gradescope(Report((one,), report.isolation, 0)) for one in report.submissions)
    for data in (right, wrong):
        jsonschema.validate(json.loads(json.dumps(data)), GRADESCOPE)
        assert data["score"] == sum(test["score"] for test in data["tests"])
    assert right["score"] == sum(test["max_score"] for test in right["tests"]) == 10.0
    assert wrong["score"] == 2.0
    [failed] = [test for test in wrong["tests"] if test["status"] == "failed" and test["max_score"]]
    assert "Nothing is shared" in failed["name"]
    assert "Why: " in failed["output"]


def test_a_second_file_with_the_same_function_is_not_paid_twice(report):
    one = report.submissions[1]
    fork = next(result for result in report.submissions[0].exercises if result.exercise.name == "fork_session")
    copies = tuple(SubmissionResult(name, (fork,)) for name in ("a.py", "b.py"))
    for files in ((one, *copies), (*copies, one)):
        twice = Report(files, report.isolation, 0)
        data = to_gradescope(twice)
        assert data["score"] == 3.0 == sum(test["score"] for test in data["tests"])
        room = json.loads(base64.b64decode(classroom_result(twice)))
        assert room["max_score"] == 3.0 == sum(test["score"] for test in room["tests"])


def test_the_classroom_gets_a_sum_that_is_what_its_reporter_prints(report):
    for one in report.submissions:
        data = json.loads(base64.b64decode(classroom_result(Report((one,), report.isolation, 0))))
        tests = data["tests"]
        sent = sum(test["score"] for test in tests)
        printed = sum(test["status"] == "pass" for test in tests) / len(tests) * data["max_score"]
        assert (sent, printed, data["max_score"]) == (one.score, one.score, one.max_score)
        assert data["version"] == 3
        assert data["status"] == ("pass" if one.passed else "fail")
    assert all(test["line_no"] == line_of(WRONG, "fork_session") for test in tests)


def test_an_annotation_stands_on_the_functions_line(report):
    lines = list(workflow_errors(report))
    text = WRONG.read_text().splitlines()
    number = next(place for place, line in enumerate(text, 1) if line.startswith("def fork_session"))
    assert len(lines) == 1
    assert lines[0].startswith(f"::error file={WRONG},line={number},title=fork_session%3A Nothing is shared")
    assert line_of(ROOT / "exercises" / "04_fork_session.ipynb", "fork_session") == 0
    assert line_of(Path("nowhere.py"), "fork_session") == 0


def test_a_learners_text_cannot_become_a_command_or_markup():
    report = hostile("x\n::set-output name=result::1\r\n<img src=x onerror=alert(1)> | `a` [b](c) \x1b[31m @all #1")
    lines = list(workflow_errors(report))
    assert all(line.startswith("::error file=a%2Cb%3Ac.py") and "\n" not in line and "\r" not in line for line in lines)
    summary = job_summary(report)
    assert "<img" not in summary
    assert "\n::" not in summary
    assert "\x1b" not in summary
    assert "[b](c)" not in summary
    assert len({line.count(" | ") for line in summary.splitlines() if "✗" in line}) == 1


def test_a_summary_stays_below_what_github_takes():
    summary = job_summary(hostile("long " * 50_000))
    assert len(summary.encode()) < MAX_SUMMARY + 100
    assert summary.endswith("GitHub takes 1 MiB.\n")


def test_in_a_workflow_the_summary_and_the_result_go_to_their_files(tmp_path):
    env = {"GITHUB_STEP_SUMMARY": f"{tmp_path}/summary", "GITHUB_OUTPUT": f"{tmp_path}/output"}
    (tmp_path / "output").write_text("earlier=1\n")
    done = CliRunner(env=env).invoke(main, ["grade", str(WRONG), "--format", "github"])
    assert done.exit_code == 1
    assert done.stdout.startswith("::error file=")
    assert "2 of 3 points" in (tmp_path / "summary").read_text("utf-8")
    earlier, result = (tmp_path / "output").read_text().splitlines()
    assert earlier == "earlier=1"
    assert json.loads(base64.b64decode(result.removeprefix("result=")))["max_score"] == 3.0


def test_junit_keeps_to_its_schema(report):
    schema = xmlschema.XMLSchema(TESTS / "grading" / "junit.xsd")
    unreadable = SubmissionResult("broken", (), error="cannot be read")
    for one in (report, hostile("a\x00\x1b<&]]>"), Report((unreadable,), report.isolation, 0)):
        schema.validate(one.to_junit())
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        schema.validate(report.to_junit().replace('name="prefix"', 'name="ends"'))


def test_the_gradescope_zip_is_the_same_each_time_and_its_scripts_may_be_run(tmp_path):
    wheel = tmp_path / "ctxlab-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    for name in ("a.zip", "b.zip"):
        hand_out("gradescope", tmp_path / name, package=str(wheel), seed=7)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.namelist() == [wheel.name, "run_autograder", "setup.sh"]
        assert all(archive.getinfo(name).external_attr >> 16 & stat.S_IXUSR for name in ("setup.sh", "run_autograder"))
        assert f"./{wheel.name}" in archive.read("setup.sh").decode()
        assert "--seed 7 " in archive.read("run_autograder").decode()


@pytest.mark.parametrize(("handed_in", "score"), [("right", 3.0), ("twice", 3.0), ("nothing", 0)])
def test_run_autograder_writes_results_json_whatever_was_handed_in(tmp_path, handed_in, score):
    hand_out("gradescope", tmp_path / "autograder.zip")
    with zipfile.ZipFile(tmp_path / "autograder.zip") as archive:
        archive.extractall(tmp_path / "source")
    (tmp_path / "submission").mkdir()
    for name in {"right": ("lab.py",), "twice": ("lab.py", "again.py"), "nothing": ()}[handed_in]:
        text = (TESTS / "right" / "fork_session__through_json.py").read_text()
        (tmp_path / "submission" / name).write_text(text)
    env = {**os.environ, "AUTOGRADER_ROOT": str(tmp_path), "CTXLAB_PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", str(tmp_path / "source" / "run_autograder")], env=env, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "results" / "results.json").read_text("utf-8"))
    jsonschema.validate(data, GRADESCOPE)
    assert data["score"] == score == sum(test["score"] for test in data["tests"])
    assert "no notebook" in data["output"] or score


def test_setup_sh_installs_what_was_named_and_takes_the_solutions_away(tmp_path):
    hand_out("gradescope", tmp_path / "autograder.zip", package="ctxlab @ https://example.org/ctxlab.whl")
    with zipfile.ZipFile(tmp_path / "autograder.zip") as archive:
        archive.extractall(tmp_path)
    for script in ("setup.sh", "run_autograder"):
        subprocess.run(["bash", "-n", str(tmp_path / script)], check=True)
    text = (tmp_path / "setup.sh").read_text()
    assert "'ctxlab @ https://example.org/ctxlab.whl'" in text
    assert 'rmtree(folder("solutions"))' in text


def test_the_github_folder_is_the_exercises_and_a_workflow_that_knows_the_reporter(tmp_path):
    made = hand_out("github", tmp_path / "template", seed=5)
    for exercise in EXERCISES.values():
        name = f"{exercise.file_stem}.ipynb"
        assert (tmp_path / "template" / "exercises" / name).read_bytes() == (ROOT / "exercises" / name).read_bytes()
    workflow = (tmp_path / "template" / ".github" / "workflows" / "grade.yml").read_text()
    for fact in ("--format github", "autograding-grading-reporter@v1", "CTXLAB_RESULTS", "runners: ctxlab", "|| '5'"):
        assert fact in workflow
    steps = yaml.safe_load(workflow)["jobs"]["grade"]["steps"]
    assert [step.get("id") for step in steps if "ctxlab grade" in step.get("run", "")] == ["ctxlab"]
    assert hand_out("github", tmp_path / "template", seed=5) == made
    (tmp_path / "template" / "exercises" / "04_fork_session.ipynb").write_text("mine")
    with pytest.raises(HandoutRefused, match="04_fork_session"):
        hand_out("github", tmp_path / "template", seed=5)


def test_an_export_says_what_is_wrong_with_it(tmp_path):
    with pytest.raises(UnknownName, match="unknown target 'canvas'"):
        hand_out("canvas", tmp_path)
    with pytest.raises(HandoutRefused, match="no such wheel"):
        hand_out("gradescope", tmp_path / "a.zip", package="nowhere.whl")
    for words in (["--to", "otter"], ["--output", "x"], ["--to", "otter", "-o", "x", "--check"]):
        assert CliRunner().invoke(main, ["release", *words]).exit_code == 2


@pytest.mark.parametrize("target", ["nbgrader", "otter"])
def test_the_assignment_has_every_point_and_none_of_the_solution_outside_its_marks(tmp_path, target):
    done = CliRunner().invoke(main, ["release", "--to", target, "-o", str(tmp_path), "--format", "json"])
    [path] = [tmp_path / name for name in json.loads(done.stdout)["files"] if name.endswith(".ipynb")]
    notebook = json.loads(path.read_text("utf-8"))
    sources = ["".join(cell["source"]) for cell in notebook["cells"]]
    answers = [text for text in sources if "BEGIN SOLUTION\n    " in text]
    assert len(answers) == 4
    assert all(text.rstrip().endswith("END SOLUTION") for text in answers)
    if target == "nbgrader":
        graded = [cell["metadata"].get("nbgrader", {}).get("points", 0) for cell in notebook["cells"]]
        assert sum(graded) == 10.0
    else:
        assert sum(text.count("require(") for text in sources) == sum(
            check.required for one in EXERCISES.values() for check in one.checks
        )
    [submission] = grade(path).submissions
    assert (submission.score, submission.max_score) == (10.0, 10.0)


def fork_session(parent, at_index):
    return {
        **parent,
        "id": "x",
        "parent_id": parent["id"],
        "forked_at": at_index,
        "messages": parent["messages"][:at_index],
    }


def test_a_test_cell_asks_one_check_and_raises_its_message():
    require(fork_session, "prefix")
    with pytest.raises(AssertionError, match=r"A fresh id each time: .*Expected: "):
        require(fork_session, "fresh-id")
    with pytest.raises(UnknownName, match="unknown check 'fresh'"):
        require(fork_session, "fresh")
    from ctxlab import fork_session as borrowed

    with pytest.raises(AssertionError, match="the library's own"):
        require(borrowed, "prefix")
