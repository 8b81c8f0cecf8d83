"""The kit's check of itself finds what it is for, and says it in words."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from variants import ROOT, TESTS

from ctxlab.cli import main
from ctxlab.grading import EXERCISES, devcheck
from ctxlab.grading.devcheck import NoCheckout, check_kit, named, strays, uncaught, words


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """A small checkout with one mistake and one other right way, both as they should be."""
    for part in ("exercises", "solutions"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns(*devcheck.LEFT_OVER))
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    for kind, name in (("wrong", "fork_session__slice"), ("right", "fork_session__through_json")):
        (tmp_path / "tests" / kind).mkdir(parents=True)
        (tmp_path / "tests" / kind / f"{name}.py").write_bytes((TESTS / kind / f"{name}.py").read_bytes())
    return tmp_path


@pytest.fixture
def one_exercise(monkeypatch):
    """Only the last exercise, whose checks are quick, is graded."""
    real = devcheck._cases
    monkeypatch.setattr(
        devcheck, "_cases", lambda place: [case for case in real(place) if case.exercise.name == "fork_session"]
    )
    monkeypatch.setattr(devcheck, "uncaught", lambda place: [])


def problems(kit: Path) -> list[str]:
    return [str(one) for one in check_kit(kit, jobs=2).problems]


def test_the_kit_as_it_is_has_its_words_its_exercises_no_stray_file_and_a_mistake_a_check():
    assert [*words(ROOT), *devcheck.built(ROOT), *strays(ROOT), *uncaught(ROOT)] == []


def test_a_sound_kit_is_sound_and_the_command_says_so(kit, one_exercise):
    done = CliRunner().invoke(main, ["dev", "check", "--root", str(kit), "--format", "json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"ok": True, "graded": 4, "problems": []}


def test_each_kind_of_unsoundness_is_found_and_said(kit, one_exercise):
    solution = kit / "solutions" / "04_fork_session.py"
    solution.write_text(solution.read_text().replace("copy.deepcopy(messages[:cut])", "messages[:cut]"))
    exercise = kit / "exercises" / "04_fork_session.ipynb"
    exercise.write_text(exercise.read_text().replace('\\"messages\\": parent', '\\"messages\\": [] and parent'))
    wrong, right = kit / "tests" / "wrong", kit / "tests" / "right"
    mistake = (wrong / "fork_session__slice.py").read_text().split("\n", 1)[1]
    (wrong / "fork_session__slice.py").write_text("# fails: deep-copy, ends\n" + mistake)
    (wrong / "fork_session__shy.py").write_text("# fails: parent-id\n" + mistake)
    (wrong / "fork_session__mute.py").write_text(mistake)
    (right / "fork_session__not.py").write_text(mistake)
    (right / "notes.txt").write_text("x")
    (kit / "exercises" / "05_more.ipynb").write_text("{}")
    (kit / "solutions" / "helper.py").write_text("x = 1\n")
    found = problems(kit)
    for start in (
        "exercises/04_fork_session.ipynb: is not what its solution gives",
        "exercises/04_fork_session.ipynb: is untouched, but not as not attempted: ",
        "exercises/05_more.ipynb: is a stray file",
        "solutions/04_fork_session.py: is the solution, but does not pass deep-copy (",
        "solutions/helper.py: is a stray file",
        "tests/right/fork_session__not.py: is right, but is refused by deep-copy (",
        "tests/right/notes.txt: is a stray file",
        "tests/wrong/fork_session__mute.py: names no check",
        "tests/wrong/fork_session__shy.py: is not caught by parent-id and fails deep-copy",
        "tests/wrong/fork_session__slice.py: is not caught by ends",
    ):
        assert [one for one in found if one.startswith(start)], (start, found)
    done = CliRunner().invoke(main, ["dev", "check", "--root", str(kit)])
    assert done.exit_code == 1
    assert done.stdout.splitlines()[:-1] == found
    assert done.stdout.splitlines()[-1] == f"{len(found)} problems; 4 exercises, 7 files graded"


def test_a_check_without_a_mistake_and_a_mistake_without_a_check_are_found(kit):
    (kit / "tests" / "wrong" / "fork_session__other.py").write_text("# fails: forked-at, no-such\n")
    said = [str(one) for one in uncaught(kit)]
    assert "fork_session: no mistake in tests/wrong is caught by the check ends" in said
    assert "fork_session: a mistake in tests/wrong names the check no-such, which does not exist" in said
    assert not [one for one in said if one.endswith((" deep-copy", " forked-at"))]


def test_an_exercise_without_its_words_is_found(kit, monkeypatch):
    mute = replace(EXERCISES["fork_session"].checks[0], why=" ")
    bare = replace(EXERCISES["fork_session"], hints=("a", "", "c"), lesson="notebooks/none.ipynb", checks=(mute,))
    monkeypatch.setitem(EXERCISES, "fork_session", bare)
    assert [one.what for one in words(kit)] == [
        "does not have three hints",
        "points to notebooks/none.ipynb, which is not there",
        "the check fresh-id does not say what it asks, or why",
    ]


def test_a_folder_that_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(NoCheckout, match="no exercises, solutions, tests/wrong, tests/right"):
        check_kit(tmp_path)
    assert CliRunner().invoke(main, ["dev", "check", "--root", str(tmp_path)]).exit_code == 2


def test_the_checks_that_a_mistake_names_stand_in_its_first_line(tmp_path):
    (tmp_path / "a.py").write_text("# fails: x-y, z\npass\n")
    (tmp_path / "b.py").write_text("pass\n# fails: x\n")
    assert (named(tmp_path / "a.py"), named(tmp_path / "b.py")) == (["x-y", "z"], [])
