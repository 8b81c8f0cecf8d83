"""The command line: data on stdout, words on stderr, and the three exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from ctxlab.cli import main
from ctxlab.terminal import cells

CALL = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
BROKEN = [
    {"role": "user", "content": "Fix the login test"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "user", "content": "continue"},
]
FINE = [BROKEN[0], BROKEN[1], {"role": "tool", "tool_call_id": "c1", "content": "ok"}, BROKEN[2]]


def run(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(BROKEN))
    return path


@pytest.fixture
def fine(tmp_path: Path) -> Path:
    path = tmp_path / "fine.json"
    path.write_text(json.dumps(FINE))
    return path


def test_validate_says_no_with_status_1_and_where(broken: Path) -> None:
    result = run("validate", broken, "--provider", "openai")
    assert result.exit_code == 1
    assert "message 1, O2" in result.stdout
    assert "c1" in result.stdout


def test_validate_says_yes_with_status_0(fine: Path) -> None:
    result = run("validate", fine)
    assert result.exit_code == 0
    assert "openai (decides): would be accepted" in result.stdout


def test_validate_for_machines_lists_every_provider(broken: Path) -> None:
    result = run("validate", broken, "--format", "json")
    data = json.loads(result.stdout)
    assert (result.exit_code, data["ok"], data["provider"]) == (1, False, "openai")
    assert data["violations"]["anthropic"][0]["rule"] == "A1"
    assert data["violations"]["openai"][0].keys() == {"rule", "index", "message", "repair", "severity"}


def test_repair_prints_the_mended_history_and_tells_each_step_on_stderr(broken: Path) -> None:
    result = run("repair", broken)
    mended = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [message["role"] for message in mended] == ["user", "assistant", "tool", "user"]
    assert mended[2]["tool_call_id"] == "c1"
    assert "message 1" in result.stderr
    assert json.loads(broken.read_text()) == BROKEN, "the file itself is never changed"


def test_repair_of_what_is_fine_changes_nothing_and_says_nothing(fine: Path) -> None:
    result = run("repair", fine)
    assert (json.loads(result.stdout), result.stderr) == (FINE, "")


def test_repair_writes_a_file_that_validates(broken: Path, tmp_path: Path) -> None:
    out = tmp_path / "mended.jsonl"
    result = run("repair", broken, "--mode", "discard", "--format", "jsonl", "-o", out)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert [json.loads(line)["role"] for line in out.read_text().splitlines()] == ["user", "user"]
    assert run("validate", out).exit_code == 0


def test_repair_never_writes_over_the_file_it_reads(broken: Path) -> None:
    result = run("repair", broken, "-o", broken)
    assert result.exit_code == 2
    assert "is the file that is read" in result.stderr
    assert json.loads(broken.read_text()) == BROKEN


def test_repair_keeps_a_lone_surrogate_readable(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text('[{"role": "user", "content": "half \\ud83d and é"}]')
    result = run("repair", path)
    assert json.loads(result.stdout)[0]["content"] == "half \ud83d and é"


def test_inspect_shows_the_four_parts_and_the_verdict(fine: Path, broken: Path) -> None:
    result = run("inspect", fine)
    assert result.exit_code == 0, result.output
    for words in (
        "system",
        "tools",
        "history",
        "reserve",
        "The biggest items",
        "Growth by round",
        "Would this be a 400?",
    ):
        assert words in result.stdout
    assert run("inspect", broken).exit_code == 1


def test_inspect_for_machines_gives_all_of_it(fine: Path) -> None:
    data = json.loads(run("inspect", fine, "--window", "64000", "--reserve", "1000", "--format", "json").stdout)
    assert data["budget"]["window"] == 64_000
    assert data["budget"]["reserve"] == 1_000
    assert {"biggest", "rounds", "triggers", "cut", "violations", "problems", "ok"} <= data.keys()


def test_a_budget_that_cannot_work_is_wrong_use(fine: Path) -> None:
    result = run("inspect", fine, "--window", "1000", "--reserve", "2000")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "hint: " in result.stderr


@pytest.mark.parametrize("command", ["inspect", "validate", "repair"])
@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "error: "), ("", "error: "), ("not json", "error: "), ('{"some": "thing"}', "error: ")],
    ids=["missing", "empty", "junk", "unknown shape"],
)
def test_unusable_input_is_one_error_with_status_2(
    command: str, content: str | None, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "input.json"
    if content is not None:
        path.write_text(content)
    result = run(command, path)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count(says) == 1
    assert "Traceback" not in result.output
    assert str(path) in result.stderr


def test_an_unknown_command_gets_the_close_one() -> None:
    result = run("inspct")
    assert result.exit_code == 2
    assert "Did you mean 'inspect'?" in result.stderr


def test_an_unknown_provider_gets_the_close_one(fine: Path) -> None:
    result = run("validate", fine, "--provider", "antropic")
    assert result.exit_code == 2
    assert "did you mean 'anthropic'?" in result.stderr


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0
    assert f"Example: ctxlab {name}" in " ".join(result.stdout.split())
    assert isinstance(main.commands[name], click.Command)


def test_bar_cells_never_hide_a_part_and_never_pass_the_width() -> None:
    assert cells([1, 1, 998], 1_000, 20) == [1, 1, 18]
    assert sum(cells([5, 5, 5], 10, 20)) <= 20
    assert cells([0, 0], 10, 20) == [0, 0]
    assert cells([50, 50], 200, 10) == [3, 2]


def test_a_log_may_come_on_standard_input() -> None:
    given = json.dumps(BROKEN)
    assert CliRunner().invoke(main, ["validate", "-"], input=given).exit_code == 1
    mended = CliRunner().invoke(main, ["repair", "-"], input=given)
    assert len(json.loads(mended.stdout)) == 4
    nothing = CliRunner().invoke(main, ["validate", "-"], input="")
    assert (nothing.exit_code, nothing.stderr.count("empty file")) == (2, 1)


@pytest.mark.parametrize("command", ["validate", "repair"])
def test_what_was_not_read_is_told(command: str, tmp_path: Path) -> None:
    two = tmp_path / "two.json"
    two.write_text(json.dumps([FINE, BROKEN]))
    assert "the file holds 2 conversations; this is number 0" in run(command, two).stderr
    torn = tmp_path / "torn.jsonl"
    torn.write_text("".join(json.dumps(message) + "\n" for message in FINE) + '{"role": "us')
    assert "note: line 5" in run(command, torn).stderr


def test_a_warning_is_told_from_a_violation(tmp_path: Path) -> None:
    path = tmp_path / "answered.json"
    path.write_text(json.dumps([*FINE, {"role": "assistant", "content": "Done."}]))
    result = run("validate", path, "--provider", "anthropic", "--warnings")
    assert result.exit_code == 0
    assert "anthropic: 1 warning\n" in result.stdout
    assert "message 4, A6 (a warning): " in result.stdout
    assert "anthropic_no_prefill: 1 violation\n" in run("validate", path).stdout


@pytest.mark.parametrize("columns", [40, 80])
def test_the_biggest_items_keep_their_numbers_in_a_narrow_terminal(columns: int, tmp_path: Path) -> None:
    path = tmp_path / "wide.json"
    call = {**CALL, "function": {"name": "a_function_with_a_rather_long_name_of_its_own", "arguments": "字" * 300}}
    path.write_text(json.dumps([BROKEN[0], {**BROKEN[1], "tool_calls": [call]}, FINE[2]]))
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["inspect", str(path)])
    lines = result.stdout.splitlines()
    biggest = lines[lines.index("The biggest items") + 1 :]
    assert biggest[0].split() == ["message", "tokens", "what", "begins"]
    assert [row.split()[0] for row in biggest[1:4]] == ["1", "0", "2"]
    assert all(cell_len(row) <= columns for row in biggest[:4])


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_text_that_the_terminal_has_no_word_for_is_escaped(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text('[{"role": "user", "content": "half \\ud83d and 字"}, {"role": "assistant", "content": ""}]')
    for command in ("inspect", "validate"):
        words = [sys.executable, "-m", "ctxlab", command, str(path)]
        env = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run(words, env=env, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
    assert (
        b"\\ud83d"
        in subprocess.run([*words[:3], "inspect", str(path)], env=env, capture_output=True, check=True).stdout
    )


# Dangling calls that are known, by file; every other recorded log has none.
DANGLING = {"pi__before_compaction_v1.jsonl": 6, "pi__large_session_v1.jsonl": 18}


def test_inspect_reads_every_recorded_log_and_is_right_about_its_dangling_calls(logs: Path) -> None:
    for path in sorted(logs.glob("*.json*")):
        result = run("inspect", path, "--format", "json")
        assert result.exit_code in (0, 1), (path.name, result.output)
        problems = json.loads(result.stdout)["problems"]
        assert sum(p["kind"] == "dangling_call" for p in problems) == DANGLING.get(path.name, 0), path.name
        assert run("inspect", path).exit_code == result.exit_code


def test_repair_of_every_recorded_log_leaves_no_pairing_fault(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "mended.json"
    for path in sorted(logs.glob("*.json*")):
        for mode in ("append", "discard"):
            assert run("repair", path, "--mode", mode, "-o", out).exit_code == 0, path.name
            data = json.loads(run("validate", out, "--format", "json").stdout)
            rules = {v["rule"] for violations in data["violations"].values() for v in violations}
            assert not rules & {"O1", "O2", "R1", "R2", "A1", "A2", "A3", "A4", "G1", "M2", "M3"}, path.name
