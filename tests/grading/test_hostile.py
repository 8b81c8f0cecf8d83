"""Code that fights the grader: exactly one result, no mark that was not earned, no harm to the next submission."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hostile import HOSTILE
from variants import ROOT

from ctxlab.grading import grade
from ctxlab.grading.report import Report
from ctxlab.sandbox import Limits, at_level, available

LIMITS = Limits(wall=4.0, cpu=1, load_cpu=1)
TIGHT = Limits(wall=3.0, cpu=0, load_cpu=0, memory=300 << 20)
SLOW = replace(TIGHT, wall=1.0)  # for those that do nothing but let time go by
MOST = 60.0  # seconds that any of them may take on a busy machine
RIGHT = ROOT / "tests" / "right" / "fork_session__through_json.py"
SEED = 918273645


@dataclass
class Fought:
    """What came of one hostile submission, of a right one graded directly after it, and how long the first took."""

    report: Report
    after: Report
    seconds: float


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


@pytest.fixture(scope="module")
def fought(tmp_path_factory: pytest.TempPathFactory, listener: socket.socket) -> Callable[[str], Fought]:
    """All of them at the strongest level that works here, two at a time."""
    folder = tmp_path_factory.mktemp("hostile")
    port = str(listener.getsockname()[1])

    def one(name: str) -> Fought:
        attack = HOSTILE[name]
        path = folder / f"{list(HOSTILE).index(name):02d}" / f"{attack.exercise}.py"
        path.parent.mkdir()
        path.write_text(attack.source.replace("PORT = 0", f"PORT = {port}"))
        started = time.monotonic()
        report = grade(path, seed=SEED, limits=SLOW if attack.slow else TIGHT)
        seconds = time.monotonic() - started
        return Fought(report, grade(RIGHT, seed=SEED), seconds)

    pool = ThreadPoolExecutor(2)
    found = {name: pool.submit(one, name) for name in HOSTILE}
    return lambda name: found[name].result()


def paid(report: Report, name: str) -> list[str]:
    """The checks that a hostile submission passed without having earned them."""
    [submission] = report.submissions
    [result] = submission.exercises
    assert len(result.checks) == len(result.exercise.checks)
    return [one.check.id for one in result.checks if one.passed and one.check.id not in HOSTILE[name].earns]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_submission_gets_one_result_no_mark_and_words(name, fought):
    found = fought(name)
    assert paid(found.report, name) == []
    assert not found.report.submissions[0].exercises[0].passed
    assert not found.report.submissions[0].regrade
    assert HOSTILE[name].told in found.report.to_text()
    assert "'seen'" not in found.report.to_text()
    assert found.seconds < MOST


@pytest.mark.parametrize("name", HOSTILE)
def test_the_submission_after_a_hostile_one_is_graded_as_if_nothing_had_been(name, fought):
    [after] = fought(name).after.submissions
    assert (after.score, after.passed, after.regrade) == (3.0, True, False)


def test_the_figure(fought, listener, capsys):
    unearned = [name for name in HOSTILE if paid(fought(name).report, name)]
    with capsys.disabled():
        sys.stdout.write(f"\nhostile submissions: {len(HOSTILE)} tried, {len(unearned)} paid\n")
    assert len(HOSTILE) >= 30
    assert unearned == []
    with pytest.raises(BlockingIOError):
        listener.accept()  # nobody called
    assert not [path for path in ("/etc", "/var/tmp", "/usr", "/tmp") if Path(path, "ctxlab-was-here").exists()]


SAMPLE = (
    "exits in a call", "leaves forks behind", "leaves a program behind", "patches every module", "looks at frames",
    "writes answers into every pipe", "is equal to everything", "reads the judge's memory",
    "looks for the seed", "forges result files", "crashes in C", "memory bomb", "a link for a session's folder",
)  # fmt: skip


@pytest.mark.parametrize("level", available()[:-1])
def test_at_the_weaker_levels_no_mark_is_paid_either(level, tmp_path):
    paths = []
    for name in SAMPLE:
        path = tmp_path / name.replace(" ", "-") / f"{HOSTILE[name].exercise}.py"
        path.parent.mkdir()
        path.write_text(HOSTILE[name].source)
        paths += [path, RIGHT]
    with at_level(level):
        report = grade(paths, seed=SEED, limits=LIMITS, jobs=2)
    assert report.isolation.name == level
    for name, hostile, right in zip(SAMPLE, report.submissions[0::2], report.submissions[1::2], strict=True):
        assert paid(replace(report, submissions=(hostile,)), name) == []
        assert "'seen'" not in str(hostile.to_json())
        assert (right.score, right.passed) == (3.0, True), (name, right)


# Started with the seed in its command line and its environment, as an instructor may do it.
JUDGE = """
import os, sys
from ctxlab.grading import grade
from ctxlab.sandbox import at_level
with at_level(sys.argv[1]):
    print(grade(sys.argv[2], seed=int(sys.argv[4])).to_text())
"""
LOOK = f"""
import glob, os, sys
def look():
    found = [str(os.environ), str(sys.argv), str(sys.orig_argv)]
    for name in (*glob.glob('/proc/[0-9]*/cmdline'), *glob.glob('/proc/[0-9]*/environ'), '/proc/self/stat'):
        try: found.append(open(name, errors='replace').read())
        except OSError: pass
    for folder, _, names in os.walk(os.getcwd()):
        found += [open(os.path.join(folder, name), errors='replace').read() for name in names]
    return ' '.join(found)
def fork_session(p, i):
    return {{'id': 'seen' if str({SEED} + 0) in look() else 'not seen', 'parent_id': 1}}
"""


@pytest.mark.parametrize("level", available())
def test_the_seed_cannot_be_read_from_the_worker(level, tmp_path):
    path = tmp_path / "fork_session.py"
    path.write_text(LOOK.replace(str(SEED), "918_273_645"))
    script = tmp_path / "judge.py"
    script.write_text(JUDGE)
    said = subprocess.run(
        [sys.executable, script, level, path, "--seed", str(SEED)],
        capture_output=True, text=True, check=True, env={**os.environ, "CTXLAB_SEED": str(SEED)},
    ).stdout  # fmt: skip
    assert "'not seen'" in said
    assert "'seen'" not in said


def test_no_learners_code_runs_in_the_judge(tmp_path):
    path = tmp_path / "fork_session.py"
    path.write_text(
        "import sys, os\nsys.ctxlab_was_here = True\nos.environ['CTXLAB_WAS_HERE'] = '1'\n"
        "import builtins\nbuiltins.ctxlab_was_here = True\n"
        "def fork_session(p, i, _=setattr(sys, 'ctxlab_default', 1)): return {}\n"
    )
    before = set(sys.modules)
    grade(path)
    import builtins

    assert not hasattr(sys, "ctxlab_was_here")
    assert not hasattr(sys, "ctxlab_default")
    assert not hasattr(builtins, "ctxlab_was_here")
    assert "CTXLAB_WAS_HERE" not in os.environ
    assert not [name for name in set(sys.modules) - before if "fork_session" in name and not name.startswith("ctxlab")]


@pytest.mark.parametrize(
    "source",
    [
        "import ctxlab\nfork_session = ctxlab.fork_session\n",
        "from ctxlab import fork_session as theirs\ndef fork_session(p, i): return theirs(p, i)\n",
        "from ctxlab.transcript import fork_session\nfork_session = fork_session\n",
        "def fork_session(p, i):\n    import ctxlab.transcript as t\n    return t.fork_session(p, i)\n",
    ],
)
def test_the_librarys_own_function_is_not_lent_out(source, tmp_path):
    (tmp_path / "mine.py").write_text(source)
    [submission] = grade(tmp_path / "mine.py", exercise="fork_session").submissions
    assert submission.score <= 0.25
    assert not submission.passed


def test_rubbish_answers_never_make_the_grader_itself_fail(tmp_path):
    rubbish = [
        "None", "[]", "[None]", "[[]]", "{}", "'x'", "3", "[{'role': 3}]", "[{'role': 'user'}]", "{'messages': [1]}",
        "[{'role': 'tool', 'content': 5}]", "[{'role': 'user', 'content': [{}, 3]}]",
        "[{'role': 'assistant', 'tool_calls': [{'id': {}}], 'content': None}]",
        "{'messages': {}, 'id': [], 'forked_at': 'x', 'created_at': 7}",
        "{'id': 'a', 'messages': [{'role': 'assistant', 'tool_calls': 3}], 'forked_at': True}",
    ]  # fmt: skip
    for name in ("estimate_tokens", "compress_if_needed", "append_message", "fork_session"):
        for number, value in enumerate(rubbish):
            (tmp_path / f"{name}__{number}.py").write_text(f"def {name}(*given):\n    return {value}\n")
    report = grade(tmp_path, jobs=2, limits=LIMITS)
    failed = [
        (Path(one.path).name, check.check.id, check.message)
        for one in report.submissions
        for result in one.exercises
        for check in result.checks
        if check.grader
    ]
    assert failed == []
