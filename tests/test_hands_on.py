"""The hands-on lab: it runs on the learner's functions, keeps what they wrote, and says what is missing."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ctxlab import hands_on, repair, validate
from ctxlab.cli import main
from ctxlab.commands.hands_on import COMMANDS
from ctxlab.errors import SessionBusy, UnknownSession
from ctxlab.grading.exercises import EXERCISES
from ctxlab.grading.submissions import read
from ctxlab.hands_on import criteria
from ctxlab.hands_on.functions import Functions, LearnerError, default_exercises, used_pieces
from ctxlab.hands_on.sessions import UNANSWERED, LabSession, shared_messages
from ctxlab.kit import folder as kit_folder
from ctxlab.mock_api import serve
from ctxlab.models import MockModel, Piece
from ctxlab.session import Session

LAUNCH = (
    "from ctxlab.cli import main; from ctxlab.commands.hands_on import COMMANDS; "
    "[main.add_command(one) for one in COMMANDS]; main()"
)
PROGRAM = (sys.executable, "-c", LAUNCH)
SOLUTIONS = {name: kit_folder("solutions") / f"{one.file_stem}.py" for name, one in EXERCISES.items()}
SHANGHAI, WHERE = "I live in Shanghai, please note that", "where did I say I live?"
ORDERS = "Where are order A-1042 and order A-1043?"
PLAIN_APPEND = """
import json
from datetime import UTC, datetime
from pathlib import Path
from ctxlab import last_seq

def append_message(path, message):
    record = {"seq": last_seq(path) + 1, **message, "ts": datetime.now(UTC).isoformat()}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\\n")
    return record
"""

for one in COMMANDS:
    main.add_command(one)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh folder to work in, with no model in the environment."""
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    for name in ("MOCK", "OPENAI_API_KEY", "OPENAI_BASE_URL", "CTXLAB_MODEL"):
        monkeypatch.delenv(name, raising=False)
    path, modules = list(sys.path), set(sys.modules)
    yield place
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("your_"):
            del sys.modules[name]


def ctxlab(*words: object, mock: bool = True) -> Result:
    """One command, in this process."""
    return CliRunner().invoke(main, [str(word) for word in words], env={"MOCK": "1"} if mock else None)


def put(*names: str) -> None:
    """Puts the solutions of these exercises into ./exercises, the untouched notebooks of the others."""
    place = Path("exercises")
    place.mkdir(exist_ok=True)
    for name, exercise in EXERCISES.items():
        if name in names:
            shutil.copy(SOLUTIONS[name], place)
        else:
            shutil.copy(kit_folder("exercises") / f"{exercise.file_stem}.ipynb", place)


def write(name: str, text: str) -> Path:
    path = Path("exercises") / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def stored(name: str = "main") -> list[dict]:
    return [json.loads(line) for line in Path(f".sessions/{name}.jsonl").read_text("utf-8").splitlines()]


def messages(name: str = "main") -> list[dict]:
    """What is on disk, without seq and ts."""
    return [{k: v for k, v in one.items() if k not in ("seq", "ts")} for one in stored(name)]


# The to-do list


def test_the_unmodified_lab_prints_four_lines_and_is_visibly_wrong() -> None:
    result = ctxlab("start")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[:4] == [exercise.incomplete for exercise in EXERCISES.values()]
    assert sum(line.startswith("exercise incomplete: ") for line in lines) == 4, "each line is said once"
    assert "by your estimate_tokens: 0 -> 0 tokens" in result.stdout
    assert "the history did not get shorter" in result.stdout
    assert "restart:    0 of 49 messages are read back" in result.stdout
    assert "the fork contaminated it" in result.stdout
    assert not Path(".sessions/main.jsonl").exists()


def test_a_functions_line_goes_when_it_is_written() -> None:
    for name in EXERCISES:
        put(name)
        incomplete = json.loads(ctxlab("start", "--rounds", 1, "--session", name, "--format", "json").stdout)
        assert incomplete["incomplete"] == [other for other in EXERCISES if other != name]
        shutil.rmtree("exercises")


def test_exercises_are_looked_for_where_the_learner_works() -> None:
    assert default_exercises() == (kit_folder("exercises"),)
    copy = Path("context-lab/exercises")
    copy.mkdir(parents=True)
    assert default_exercises() == (kit_folder("exercises"),), "an empty folder holds none"
    shutil.copy(SOLUTIONS["fork_session"], copy)
    assert default_exercises() == (copy,)
    put()
    assert default_exercises() == (Path("exercises"),)


# The criteria


def run_here(folder: Path, words: Sequence[str], options: Sequence[str]) -> criteria.Done:
    before = Path.cwd()
    os.chdir(folder)
    try:
        result = ctxlab(*words, *options)
    finally:
        os.chdir(before)
    return criteria.Done(f"ctxlab {' '.join(words)}", result.exit_code, result.stdout, result.stderr)


ALL = tuple(EXERCISES)
CHOICES = [(), *((name,) for name in ALL), ALL[:2], ALL]


@pytest.mark.parametrize("names", CHOICES, ids=lambda names: "+".join(names) or "none")
def test_each_solution_makes_its_criterion_pass(names: tuple[str, ...]) -> None:
    put(*names)
    verdicts = hands_on.check_lab([Path("exercises")], run=run_here, jobs=1)
    passed = {one.number for one in verdicts if one.passed}
    expected = {1}
    expected |= {2, 4} if "append_message" in names else set()
    expected |= {3} if {"estimate_tokens", "compress_if_needed"} <= set(names) else set()
    expected |= {5} if "fork_session" in names else set()
    assert passed == expected, [one.lines for one in verdicts]
    assert all(one.evidence for one in verdicts)


def test_check_asks_in_fresh_processes_and_says_no_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(criteria, "PROGRAM", PROGRAM)
    put("append_message", "fork_session")
    result = ctxlab("start", "--check", mock=False)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    verdicts = [line.split()[0] for line in lines if re.match(r"(passed|FAILED)  \d\.", line)]
    assert verdicts == ["passed", "passed", "FAILED", "passed", "passed"], result.output
    assert '        $ MOCK=1 ctxlab chat "where did I say I live?"' in lines
    assert "        recovered 2 messages from disk (.sessions/main.jsonl)" in lines
    assert lines[-1] == "4 of 5 criteria pass"
    assert not Path(".sessions").exists(), "the learner's own sessions are left alone"


def test_a_shallow_fork_fails_its_criterion() -> None:
    put("append_message")
    write(
        "mine.py",
        "import uuid\n\ndef fork_session(parent, at_index):\n"
        "    return {'id': uuid.uuid4().hex, 'parent_id': parent['id'], 'forked_at': at_index,\n"
        "            'messages': parent['messages'][:at_index], 'created_at': '2026-09-04T10:00:00Z'}\n",
    )
    verdict = hands_on.check_lab([Path("exercises")], run=run_here, jobs=1)[4]
    assert not verdict.passed
    assert any("shares 4 of its messages with main (the same dicts)" in line for line in verdict.evidence)


# Start


def test_start_compresses_and_says_by_how_much() -> None:
    put(*EXERCISES)
    result = ctxlab("start")
    assert result.exit_code == 0
    found = re.search(r"comparison: 49 messages, ([\d,]+) tokens -> (\d+) messages, ([\d,]+) tokens", result.stdout)
    assert found is not None, result.stdout
    before, after = (int(found[index].replace(",", "")) for index in (1, 3))
    assert 11_000 < before < 13_500
    assert after < before / 4
    assert "the threshold of 5,600 is passed" in result.stdout
    assert "restart:    49 of 49 messages are read back" in result.stdout
    calls = [len(one["tool_calls"]) for one in messages() if one.get("tool_calls")]
    assert sorted(calls) == [1] * 11 + [2], "one round calls two tools at once"
    assert validate(messages()) == []


def test_thirty_rounds_are_the_worked_example() -> None:
    put("estimate_tokens")
    shutil.copy(Path(__file__).parent / "right" / "compress_if_needed__plain_def.py", "exercises")
    data = json.loads(ctxlab("start", "--rounds", 30, "--format", "json").stdout)
    # 30 rounds of 4 messages are about 30,000 tokens; a summary and the last six messages are about 2,100 to 2,400.
    assert data["before"]["messages"] == 30 * 4 + 1
    assert 29_000 < data["before"]["tokens"] < 32_500
    # The place six from the end is a tool result, so the cut walks back by one: a summary and seven messages.
    assert data["after"]["messages"] == 1 + 7
    assert 1_700 < data["after"]["tokens"] < 2_600
    assert data["violations"] == []


def test_start_goes_on_in_a_session_that_is_there() -> None:
    put("append_message")
    assert ctxlab("start", "--rounds", 1).exit_code == 0
    result = ctxlab("start", "--rounds", 1)
    assert "recovered 5 messages from disk" in result.stdout, "one round with two calls at once"
    assert [one["seq"] for one in stored()] == list(range(1, len(stored()) + 1))


# Chat


def test_what_was_said_is_known_after_a_restart() -> None:
    put("append_message")
    first = ctxlab("chat", SHANGHAI)
    second = ctxlab("chat", WHERE)
    assert first.exit_code == second.exit_code == 0
    assert "recovered 2 messages from disk (.sessions/main.jsonl)" in second.stdout
    assert second.stdout.splitlines()[-1] == "You said that you live in Shanghai."
    assert [one["role"] for one in messages()] == ["user", "assistant", "user", "assistant"]
    assert not any(one["role"] == "system" for one in stored()), "the system prompt of the day is never stored"


def test_a_compressed_history_still_knows_what_the_user_stated() -> None:
    put(*EXERCISES)
    assert ctxlab("start").exit_code == 0
    assert ctxlab("chat", SHANGHAI).exit_code == 0
    assert "You said that you live in Shanghai." in ctxlab("chat", WHERE).stdout


def test_mock_may_be_an_option_and_without_a_model_one_error_says_what_to_set() -> None:
    put("append_message")
    assert ctxlab("chat", SHANGHAI, "--mock", mock=False).exit_code == 0
    result = ctxlab("chat", WHERE, mock=False)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "OPENAI_API_KEY and CTXLAB_MODEL not set" in result.stderr
    assert "MOCK=1" in result.stderr


def test_a_real_endpoint_over_http_refuses_nothing_that_the_lab_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    put(*EXERCISES)
    with serve(window=128_000) as api:
        monkeypatch.setenv("OPENAI_BASE_URL", api.openai_base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-any-key")
        monkeypatch.setenv("CTXLAB_MODEL", "ctxlab-mock")
        for text in (SHANGHAI, ORDERS):
            result = ctxlab("chat", text, mock=False)
            assert result.exit_code == 0, result.output
        result = ctxlab("start", "--rounds", 6, "--session", "shop", mock=False)
        assert result.exit_code == 0, result.output
        assert "times shorter" in result.stdout
        assert "Shanghai" in ctxlab("chat", WHERE, "--session", "main", mock=False).stdout
    assert "sk-any-key" not in Path(".sessions/main.jsonl").read_text()
    assert validate(messages()) == validate(messages("shop")) == []


def test_an_endpoint_that_does_not_answer_leaves_a_session_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    put("append_message")
    with serve(window=400) as api:
        monkeypatch.setenv("OPENAI_BASE_URL", api.openai_base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("CTXLAB_MODEL", "ctxlab-mock")
        refused = ctxlab("chat", f"{SHANGHAI}. {'word ' * 2000}", mock=False)
    assert refused.exit_code == 2
    assert "over the window" in refused.stderr
    after = ctxlab("chat", WHERE)
    assert "mended a turn that was cut off (1 message)" in after.stdout
    assert "You said that you live in Shanghai." in after.stdout
    assert [one["content"] for one in messages()][1] == UNANSWERED


def test_ctrl_c_in_mid_answer_keeps_the_text_so_far() -> None:
    class Interrupted(MockModel):
        def stream(self, messages, tools=()):
            yield Piece(text="Well, ")
            raise KeyboardInterrupt

    put("append_message")
    lab = hands_on.Lab(Functions([Path("exercises")], print), Interrupted(), print)
    with pytest.raises(KeyboardInterrupt):
        hands_on.chat(lab, SHANGHAI, "main", print)
    assert messages()[1] == {"role": "assistant", "content": "Well, "}
    assert "You said that you live in Shanghai." in ctxlab("chat", WHERE).stdout


def test_a_summary_that_fails_sends_the_whole_history() -> None:
    put(*EXERCISES)
    write(
        "mine.py",
        "from ctxlab import estimate_tokens\n\nasync def compress_if_needed(history, summarize):\n"
        "    return [{'role': 'user', 'content': await summarize(history[:-2])}, *history[-2:]]\n",
    )
    Path("exercises/02_compress_if_needed.py").unlink()

    class Silent(MockModel):
        def reply(self, messages, tools=()):
            if "summary" in str(list(messages)[-1]["content"]):
                from ctxlab.errors import ModelError

                raise ModelError("the summary model is not available")
            return super().reply(messages, tools)

    notes: list[str] = []
    lab = hands_on.Lab(Functions([Path("exercises")], print), Silent(), notes.append)
    turn = hands_on.chat(lab, SHANGHAI, "main", print)
    assert turn.reply == "Noted: you live in Shanghai."
    assert notes == ["no summary (the summary model is not available): the whole history is sent"]


def test_a_second_process_is_told_that_the_session_is_in_use() -> None:
    put("append_message")
    session = LabSession("main", Functions([Path("exercises")], print))
    with session.held():
        result = ctxlab("chat", SHANGHAI)
        assert result.exit_code == SessionBusy.exit_code == 2
        assert "session 'main' is in use by another process" in result.stderr
        assert ctxlab("chat", SHANGHAI, "--session", "other").exit_code == 0
    assert ctxlab("chat", SHANGHAI).exit_code == 0


# A crash at any moment

KILLED = (
    PLAIN_APPEND.replace("import json\n", "import json\nimport os\nimport signal\n", 1)
    .replace("def append_message", "COUNT = [0]\n\ndef append_message")
    .replace(
        '        file.write(json.dumps(record) + "\\n")',
        """        line = json.dumps(record) + "\\n"
        COUNT[0] += 1
        if f"{COUNT[0]} before" == os.environ.get("KILL"):
            os.kill(os.getpid(), signal.SIGKILL)
        if f"{COUNT[0]} half" == os.environ.get("KILL"):
            file.write(line[: len(line) // 2])
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        file.write(line)
        file.flush()
        if f"{COUNT[0]} after" == os.environ.get("KILL"):
            os.kill(os.getpid(), signal.SIGKILL)""",
    )
)


@pytest.mark.parametrize(
    ("moment", "kept"),
    [("1 before", 2), ("1 half", 2), ("1 after", 3), ("2 half", 3), ("2 after", 4), ("3 after", 5), ("4 half", 5),
     ("5 before", 6)],
)  # fmt: skip
def test_after_a_kill_the_next_chat_recovers_says_so_and_answers_right(moment: str, kept: int) -> None:
    write("append.py", KILLED)
    assert ctxlab("chat", SHANGHAI).exit_code == 0
    killed = subprocess.run(
        [*PROGRAM, "chat", ORDERS], env={**os.environ, "MOCK": "1", "KILL": moment}, capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    result = ctxlab("chat", WHERE)
    assert result.exit_code == 0, result.output
    told, answer = result.stdout.splitlines()[0], result.stdout.splitlines()[-1]
    assert told.startswith(f"recovered {kept} messages from disk (.sessions/main.jsonl)")
    assert ("of an incomplete last line aside in" in told) == ("half" in moment)
    assert ("mended a turn that was cut off" in told) == (kept > 2)
    assert answer == "You said that you live in Shanghai."
    assert validate(messages()) == []
    assert validate([*messages(), {"role": "user", "content": "x"}], "mistral") == [], (
        "a user message never follows a tool's or a user's"
    )
    assert [one["seq"] for one in stored()] == list(range(1, len(stored()) + 1))
    again = ctxlab("chat", "thank you")
    assert again.stdout.startswith(f"recovered {len(messages()) - 2} messages from disk (.sessions/main.jsonl)\n")


def test_a_bad_line_in_the_middle_loses_that_line_only_and_is_told() -> None:
    put("append_message")
    ctxlab("chat", SHANGHAI)
    path = Path(".sessions/main.jsonl")
    path.write_text(path.read_text() + "half a li\n")
    result = ctxlab("chat", WHERE)
    assert result.stdout.startswith("recovered 2 messages from disk (.sessions/main.jsonl); problem: ")
    assert "line 3" in result.stdout
    assert "Shanghai" in result.stdout.splitlines()[-1]


def test_what_dangles_further_up_is_mended_for_the_request_and_the_file_keeps_its_bytes() -> None:
    put("append_message")
    call = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": "{}"}}
    path = Path(".sessions/main.jsonl")
    path.parent.mkdir()
    history = [
        {"seq": 1, "role": "user", "content": SHANGHAI},
        {"seq": 2, "role": "assistant", "content": None, "tool_calls": [call]},
        {"seq": 3, "role": "user", "content": "hello?"},
        {"seq": 4, "role": "assistant", "content": "Hello."},
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in history))
    before = path.read_bytes()
    result = ctxlab("chat", WHERE)
    assert "recovered 4 messages" in result.stdout
    assert "mended" in result.stdout
    assert "400" not in result.stderr
    assert path.read_bytes().startswith(before)
    assert validate(repair(messages())) == []


# The learner's own errors


def test_an_error_shows_the_learners_own_lines_and_leaves_the_session_valid() -> None:
    write("append.py", PLAIN_APPEND)
    write(
        "mine.py",
        "def helper(history):\n    return history[0]['contents']\n\n\n"
        "def compress_if_needed(history, summarize):\n    return helper(history)\n",
    )
    result = ctxlab("chat", SHANGHAI)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: your compress_if_needed raised KeyError: 'contents'\n")
    lines = [line.strip() for line in result.stderr.splitlines()]
    assert "exercises/mine.py, line 6, in compress_if_needed" in lines
    assert "return helper(history)" in lines
    assert "exercises/mine.py, line 2, in helper" in lines
    assert "ctxlab/hands_on" not in result.stderr
    Path("exercises/mine.py").unlink()
    assert "You said that you live in Shanghai." in ctxlab("chat", WHERE).stdout


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def estimate_tokens(history):\n    return 1.5\n", "estimate_tokens returned 1.5 (a float); expected an int"),
        ("def estimate_tokens(history):\n    exit()\n", "your estimate_tokens raised SystemExit"),
        ("def compress_if_needed(history, summarize):\n    history.reverse()\n", "returned None (a NoneType)"),
        ("def compress_if_needed(history, summarize):\n    return [{'content': 'x'}]\n", "without a role"),
        ("def fork_session(parent, at_index):\n    return parent['messages'][:at_index]\n", "expected a dict with id"),
        ("LIMIT = unknown\n\ndef estimate_tokens(history):\n    return LIMIT\n", "name 'unknown' is not defined"),
    ],
)  # fmt: skip
def test_a_wrong_answer_is_said_in_words(text: str, says: str) -> None:
    write("mine.py", text)
    result = ctxlab("start", "--rounds", 1)
    assert result.exit_code == 1
    assert says in result.stderr
    assert "Traceback" not in result.output


def test_an_error_in_a_notebook_names_its_cell() -> None:
    notebook = json.loads((kit_folder("exercises") / "01_estimate_tokens.ipynb").read_text("utf-8"))
    cell = next(i for i, one in enumerate(notebook["cells"]) if "def estimate_tokens" in "".join(one["source"]))
    notebook["cells"][cell]["source"] = "# mine\ndef estimate_tokens(history):\n    return 1 / len(history[:0])\n"
    path = write("renamed.ipynb", json.dumps(notebook))
    result = ctxlab("start", "--rounds", 1)
    assert f"{path}, cell {cell + 1}, line 3, in estimate_tokens\n    return 1 / len(history[:0])" in result.stderr


def test_a_cell_that_does_not_parse_is_told_and_its_function_is_incomplete() -> None:
    write("mine.py", "# %%\ndef estimate_tokens(history:\n    return 1\n# %%\nX = 1\n")
    result = ctxlab("start", "--rounds", 1)
    assert "note: exercises/mine.py: mine.py, line 2: SyntaxError" in result.stderr
    assert EXERCISES["estimate_tokens"].incomplete in result.stdout


# What is run of a learner's file


def test_only_the_function_and_what_it_uses_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    path = write(
        "mine.py",
        """\
from __future__ import annotations
import re, json as data
from ctxlab import check, count_tokens as count
TABLE = {}
TABLE["frame"] = FRAME = 4
WORDS = []
WORDS.append("x")
UNUSED = 1 / 0
def helper(message):
    return count(message.get("content") or "") + TABLE["frame"]
def estimate_tokens(history):
    messages = history
    return sum(helper(one) for one in messages)
messages = [{"role": "user", "content": "a trial"}]
print("a trial that prints")
check(estimate_tokens)
""",
    )
    pieces = used_pieces(read(path), "estimate_tokens")
    firsts = [piece.source.split("\n")[0] for piece in pieces]
    assert firsts == [
        "from __future__ import annotations",
        "from ctxlab import check, count_tokens as count",
        "TABLE = {}",
        'TABLE["frame"] = FRAME = 4',
        "def helper(message):",
        "def estimate_tokens(history):",
    ]
    functions = Functions([path], print)
    assert functions.estimate([{"role": "user", "content": "hello world"}]) == 2 + 4
    assert "trial" not in capsys.readouterr().out


def test_their_functions_call_each_other_and_a_blank_is_never_called_for_the_librarys() -> None:
    put("compress_if_needed")
    long = [{"role": role, "content": "word " * 200} for _ in range(20) for role in ("user", "assistant")]
    with_blank = Functions([Path("exercises")], print).compress(long, lambda messages: "short")
    assert len(with_blank) < len(long), "in place of a blank estimate_tokens the library's counts"
    write("mine.py", "def estimate_tokens(history):\n    return 7\n")
    assert Functions([Path("exercises")], print).compress(long, lambda messages: "short") == long


@pytest.mark.parametrize("path", sorted((Path(__file__).parent / "right").glob("*.py")), ids=lambda path: path.stem)
def test_every_right_way_runs_in_the_lab(path: Path) -> None:
    shutil.copy(path, write("x.py", "").parent)
    Path("exercises/x.py").unlink()
    result = ctxlab("start", "--rounds", 7)
    assert result.exit_code == 0, result.output
    name = path.stem.split("__")[0]
    assert EXERCISES[name].incomplete not in result.stdout
    if name == "append_message":
        assert validate(messages()) == []


# Fork and show


def test_a_fork_leaves_its_parent_untouched() -> None:
    put("append_message", "fork_session")
    ctxlab("chat", "Where is order A-1042?")
    ctxlab("chat", SHANGHAI)
    parent = Path(".sessions/main.jsonl").read_bytes()
    made = ctxlab("fork", 4, mock=False)
    name = made.stdout.strip()
    assert re.fullmatch(r"s-[0-9a-f]+", name), "the id alone is on stdout"
    assert ctxlab("chat", "I moved to Hanoi", f"--session={name}").exit_code == 0
    assert Path(".sessions/main.jsonl").read_bytes() == parent
    assert messages(name)[:4] == messages()[:4]
    assert [one["seq"] for one in stored(name)] == [1, 2, 3, 4, 5, 6]
    meta = json.loads(Path(f".sessions/{name}.meta.json").read_text())
    assert (meta["id"], meta["parentId"], meta["forkedAt"]) == (name, "main", 4)
    assert "Shanghai" in ctxlab("chat", WHERE).stdout
    assert "Hanoi" in ctxlab("chat", WHERE, "--session", name).stdout


def test_a_fork_inside_a_call_is_moved_back_by_the_learners_function() -> None:
    put("append_message", "fork_session")
    ctxlab("chat", ORDERS)
    made = json.loads(ctxlab("fork", 3, "--format", "json", mock=False).stdout)
    assert (made["forkedAt"], made["messages"], made["shared"]) == (1, 1, 0)


def test_the_blank_fork_has_its_parents_file_so_the_parent_is_contaminated() -> None:
    put("append_message")
    ctxlab("chat", SHANGHAI)
    made = ctxlab("fork", 1, mock=False)
    assert made.stdout == "fork\n"
    assert EXERCISES["fork_session"].incomplete in made.stderr
    assert "what is said to one is said to both" in made.stderr
    ctxlab("chat", "I moved to Hanoi", "--session=fork")
    assert "I moved to Hanoi" in ctxlab("show", "main").stdout
    assert "Hanoi" in ctxlab("chat", WHERE).stdout
    assert ctxlab("fork", 1, mock=False).exit_code == 0


def test_a_fork_that_takes_an_id_again_is_refused() -> None:
    put("append_message")
    write(
        "mine.py", "def fork_session(parent, at_index):\n    return {'id': 'again', 'forked_at': 0, 'messages': []}\n"
    )
    ctxlab("chat", SHANGHAI)
    assert ctxlab("fork", 0, mock=False).exit_code == 0
    second = ctxlab("fork", 0, mock=False)
    assert second.exit_code == 1
    assert "your fork_session gave the id 'again', which a session has already" in second.stderr
    assert ctxlab("show", "again").exit_code == 0, "an empty fork is a session"


def test_a_fork_outside_of_the_session_is_the_learners_own_error() -> None:
    put("append_message", "fork_session")
    ctxlab("chat", SHANGHAI)
    result = ctxlab("fork", 9, mock=False)
    assert result.exit_code == 1
    assert "your fork_session raised IndexError: cannot fork at 9: the session has 2 messages" in result.stderr


def test_shared_messages_are_found_at_any_depth() -> None:
    parts = [{"type": "text", "text": "a"}]
    message = {"role": "user", "content": parts}
    assert shared_messages([message], [{"role": "user", "content": parts}]) == 1
    assert shared_messages([message], [{"role": "user", "content": [parts[0]]}]) == 1
    assert shared_messages([message], json.loads(json.dumps([message]))) == 0
    assert shared_messages([], [message]) == 0


def test_show_prints_seq_role_and_text() -> None:
    put("append_message")
    ctxlab("chat", ORDERS)
    result = ctxlab("show", mock=False)
    lines = result.stdout.splitlines()
    assert lines[0] == f"1  user       {ORDERS}"
    assert lines[1].startswith("2  assistant  -> get_order({")
    assert lines[2].lstrip().startswith("-> get_order({"), "a call a line"
    data = json.loads(ctxlab("show", "--session", "main", "--format", "json", mock=False).stdout)
    assert [(one["seq"], one["role"]) for one in data["messages"]] == [
        (1, "user"),
        (2, "assistant"),
        (3, "tool"),
        (4, "tool"),
        (5, "assistant"),
    ]
    assert data["messages"][0]["content"] == ORDERS


def test_a_terminal_obeys_nothing_that_a_message_says() -> None:
    put("append_message")
    ctxlab("chat", "I live in \x1b[31mShanghai\x1b[0m, please note\rthat")
    shown = ctxlab("show", mock=False).stdout
    assert "\x1b" not in shown
    assert shown.splitlines()[0] == "1  user       I live in Shanghai, please notethat"
    assert "\x1b[31m" in messages()[0]["content"], "the file keeps every character"


def test_a_session_that_is_not_there_is_said_with_those_that_are() -> None:
    result = ctxlab("show", "main", mock=False)
    assert (result.exit_code, result.stdout) == (UnknownSession.exit_code, "")
    assert "no session 'main'" in result.stderr
    assert not Path(".sessions").exists(), "showing writes nothing"
    put("append_message")
    ctxlab("chat", SHANGHAI)
    assert "there are: main" in ctxlab("show", "mian", mock=False).stderr
    assert ctxlab("show", "../main", mock=False).exit_code == 2


def test_a_production_session_is_shown_turn_by_turn_and_proved_but_not_talked_to() -> None:
    put("append_message")
    with Session.create(".sessions", "real", system="Be brief.") as session:
        for number in range(3):
            session.append({"role": "user", "content": f"question {number}"})
            session.request()
            session.append({"role": "assistant", "content": f"answer {number}"})
        session.compact(lambda messages: "So far: questions and answers.", force=True)
    shown = ctxlab("show", "real", "--turn", 2, "--verify", mock=False)
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines[:3]] == ["question 0", "answer 0", "question 1"]
    assert lines[3].startswith("turn 2: proved, 3 messages with SHA-256 ")
    assert len(ctxlab("show", "real", mock=False).stdout.splitlines()) == 6
    assert ctxlab("show", "real", "--turn", 9, mock=False).exit_code == 2
    every = json.loads(ctxlab("show", "real", "--verify", "--format", "json", mock=False).stdout)
    assert [one["ok"] for one in every["verified"]] == [True, True, True]
    refused = ctxlab("chat", "hello", "--session", "real")
    assert refused.exit_code == 2
    assert "not the lab's" in refused.stderr


def test_a_session_is_never_half_changed_by_a_broken_append() -> None:
    put()
    write("append.py", PLAIN_APPEND.replace("    return record", "    raise RuntimeError('the disk is full')"))
    result = ctxlab("chat", SHANGHAI)
    assert result.exit_code == 1
    assert "your append_message raised RuntimeError: the disk is full" in result.stderr
    write("append.py", PLAIN_APPEND)
    assert "You said that you live in Shanghai." in ctxlab("chat", WHERE).stdout


def test_every_error_of_theirs_is_told_apart_from_wrong_use() -> None:
    assert LearnerError.exit_code == 1
    assert ctxlab("chat", "x", "--exercises", "nowhere").exit_code == 2


def test_the_pages_commands_run_as_written_one_after_another() -> None:
    put(*EXERCISES)
    page = (Path(__file__).parent.parent / "docs" / "hands_on.md").read_text("utf-8")
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    commands = [line for line in lines if "ctxlab " in line and line not in ("ctxlab lab", "ctxlab start --check")]
    assert len(commands) == 7
    said, fork = [], ""
    for command in commands:
        words = shlex.split(command.replace("ID", fork))
        result = ctxlab(*words[words.index("ctxlab") + 1 :], mock=words[0] == "MOCK=1")
        assert result.exit_code == 0, result.output
        said.append(result.stdout)
        fork = result.stdout.strip() if "fork" in words else fork
    assert said[3].endswith("You said that you live in Shanghai.\n")
    assert "recovered 5 messages" not in said[0]
    assert "I moved to Hanoi" not in said[-1], "the parent is untouched"


@pytest.mark.parametrize("words", [("chat", "hi"), ("start",), ("fork", "1")])
def test_a_place_where_no_session_can_be_kept_is_one_error(folder: Path, words: tuple[str, ...]) -> None:
    (folder / ".sessions").touch()
    done = ctxlab(*words)
    assert done.exit_code == 2
    assert "error: sessions cannot be kept in .sessions: File exists" in done.stderr


def test_the_answers_line_ends_before_the_tools_are_told() -> None:
    done = ctxlab("chat", "Where is order A-1042?")
    assert "\ntool: get_order(" in done.output
