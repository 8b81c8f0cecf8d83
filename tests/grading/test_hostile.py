"""Code that fights the grader: exactly one result, no mark that was not earned, no harm to the next submission."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from variants import ROOT

from ctxlab.grading import grade
from ctxlab.sandbox import Limits

LIMITS = Limits(wall=4.0, cpu=1, load_cpu=1)
TIGHT = Limits(wall=1.5, cpu=0, load_cpu=0, memory=300 << 20)
RIGHT = (ROOT / "tests" / "right" / "fork_session__through_json.py").read_text()

# name -> code, all of them wrong answers to fork_session
HOSTILE = {
    "exits at import": "import os\nos._exit(0)\ndef fork_session(p, i): return {}\n",
    "exits in a call": "import os\ndef fork_session(p, i): os._exit(0)\n",
    "raises SystemExit in a call": "def fork_session(p, i): raise SystemExit(0)\n",
    "loops at import": "while True: pass\ndef fork_session(p, i): return {}\n",
    "loops in a call": "def fork_session(p, i):\n    while True: pass\n",
    "sleeps": "import time\ndef fork_session(p, i): time.sleep(1000)\n",
    "swallows everything": """
def fork_session(p, i):
    while True:
        try:
            while True: pass
        except BaseException:
            pass
""",
    "leaves forks behind": """
import os, time
def fork_session(p, i):
    for _ in range(5):
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
    return {}
""",
    "floods stdout": "def fork_session(p, i):\n    for _ in range(300): print('x' * 100_000)\n    return {}\n",
    "takes memory": "def fork_session(p, i): return {'messages': [bytearray(1 << 28) for _ in range(40)]}\n",
    "answers hugely": "def fork_session(p, i): return {'messages': ['x' * 1000] * 1_000_000}\n",
    "answers with a cycle": "def fork_session(p, i):\n    p['messages'].append(p)\n    return p\n",
    "prints results": """
def fork_session(p, i):
    for stream in ('{"passed": true, "score": 3.0}', '{"id": "0", "value": {"forked_at": 0}}'):
        print(stream, flush=True)
    return {}
""",
    "writes results into every pipe": """
import os
def fork_session(p, i):
    for fd in range(3, 64):
        try: os.write(fd, b'{"id": "0", "value": true, "passed": true}\\n' * 20)
        except OSError: pass
    return {}
""",
    "is equal to everything": """
class Any(dict):
    __eq__ = lambda a, b: True
    __ne__ = lambda a, b: False
    __hash__ = lambda a: 1
    def get(self, *a): return self
    def __getitem__(self, k): return self
def fork_session(p, i): return Any()
""",
    "patches what it can reach": """
import builtins, json, sys
builtins.isinstance = lambda *a: True
builtins.len = lambda *a: 0
json.dumps = lambda *a, **k: '{}'
for module in list(sys.modules.values()):
    for name in ('plain', 'Failed', 'check', 'passed'):
        try: setattr(module, name, lambda *a, **k: True)
        except Exception: pass
def fork_session(p, i): return True
""",
    "looks at frames": """
import gc, sys
def fork_session(p, i):
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            if isinstance(value, dict) and 'expected' in value: return value['expected']
        frame = frame.f_back
    for one in gc.get_objects():
        if isinstance(one, dict) and 'passed' in one: one['passed'] = True
    return {}
""",
    "crashes in C": "import ctypes\ndef fork_session(p, i): ctypes.string_at(0)\n",
    "recurses": "def fork_session(p, i): return fork_session(p, i)\n",
    "goes on in threads": """
import threading
def fork_session(p, i):
    threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()
    return {}
""",
    "exits at the end": "import atexit, os\natexit.register(lambda: os._exit(0))\ndef fork_session(p, i): return {}\n",
    "masks signals": """
import signal
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
def fork_session(p, i):
    while True: pass
""",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_code_gets_one_result_and_no_mark_for_its_tricks(name, tmp_path):
    path = tmp_path / "fork_session.py"
    path.write_text(HOSTILE[name])
    started = time.monotonic()
    report = grade(path, limits=TIGHT)
    [submission] = report.submissions
    [result] = submission.exercises
    assert len(result.checks) == len(result.exercise.checks)
    assert not result.passed
    # What an empty answer earns honestly: the parent was not touched.
    assert {one.check.id for one in result.checks if one.passed} <= {"parent-unchanged", "outside-refused", "open-turn"}
    assert not [one.message for one in result.checks if one.grader]
    assert time.monotonic() - started < 60


def test_the_next_submission_is_graded_as_if_nothing_had_been(tmp_path):
    for number, name in enumerate(("exits at import", "leaves forks behind", "patches what it can reach")):
        (tmp_path / f"{number}_a.py").write_text(HOSTILE[name])
        (tmp_path / f"{number}_b.py").write_text(RIGHT)
    report = grade(tmp_path, exercise="fork_session", limits=LIMITS)
    assert len(report.submissions) == 6
    assert [one.score for one in report.submissions[1::2]] == [3.0] * 3
    assert [one.passed for one in report.submissions[0::2]] == [False] * 3


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
    import os

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


def test_the_seed_cannot_be_read_from_the_worker(tmp_path):
    path = tmp_path / "fork_session.py"
    path.write_text(
        """
import os
def look():
    found = [str(os.environ)]
    for pid in filter(str.isdigit, os.listdir('/proc')):
        for name in ('cmdline', 'environ'):
            try:
                found.append(open(f'/proc/{pid}/{name}').read())
            except OSError:
                pass
    for folder, _, files in os.walk(os.getcwd()):
        found += [open(os.path.join(folder, name)).read() for name in files]
    return ' '.join(found)
def fork_session(p, i):
    return {'id': 'seen' if '918273645' in look() else 'not seen', 'parent_id': 1}
"""
    )
    [submission] = grade(path, seed=918273645).submissions
    [fresh] = [one for one in submission.exercises[0].checks if one.check.id == "fresh-id"]
    assert "'not seen'" in fresh.message


def test_a_session_file_that_is_a_link_or_a_pipe_is_not_followed(tmp_path):
    for trick in ("os.symlink('/dev/zero', path)", "os.mkfifo(path)"):
        path = tmp_path / "append_message.py"
        source = f"def append_message(path, message):\n    if not os.path.exists(path): {trick}\n    return message\n"
        path.write_text("import os\n" + source)
        [submission] = grade(path, limits=LIMITS).submissions
        assert submission.exercises[0].score <= 0.25
        assert not [one.message for one in submission.exercises[0].checks if one.grader]


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
