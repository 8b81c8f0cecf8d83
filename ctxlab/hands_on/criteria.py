"""The lab's five acceptance criteria, each asked in a fresh folder with fresh processes, with the evidence shown.

The commands are the ones that a learner types, under ``MOCK=1``. A criterion judges what it names: where criterion 5
(fork_session) needs something on disk and append_message is still its blank, the kit's own stands in, and it is said.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxlab.grading.exercises import EXERCISES
from ctxlab.hands_on.functions import find_functions
from ctxlab.hands_on.play import THRESHOLD
from ctxlab.kit import folder as kit_folder

PROGRAM = (sys.executable, "-m", "ctxlab")
LONGEST = 120.0  # seconds that one command may take (picked)

ORDERS = "Where are order A-1042 and order A-1043?"
HOME = "I live in Shanghai, please note that"
QUESTION = "where did I say I live?"


@dataclass(frozen=True, slots=True)
class Done:
    """A command that was run: as a learner types it, its exit status, and what it wrote."""

    command: str
    status: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        """Its output as a JSON object; {} where it is none."""
        try:
            value = json.loads(self.out)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def shown(self) -> list[str]:
        """The command, and why it failed where it did."""
        failed = [f"  {line}" for line in self.err.splitlines()[:8]] if self.status else []
        return [f"$ {self.command}", *failed]


Run = Callable[[Path, Sequence[str], Sequence[str]], Done]
"""Runs a command of ``ctxlab`` in a folder: its words as a learner types them, and options that only the check adds."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One criterion: whether it holds, and the evidence, a line each."""

    number: int
    title: str
    passed: bool
    evidence: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """For people."""
        return [
            f"{'passed' if self.passed else 'FAILED'}  {self.number}. {self.title}",
            *(f"        {line}" for line in self.evidence),
        ]

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "number": self.number,
            "title": self.title,
            "passed": self.passed,
            "evidence": list(self.evidence),
        }


@dataclass(frozen=True, slots=True)
class Trial:
    """What a criterion works with: an empty folder, the learner's exercises, which are still blank, how to run."""

    folder: Path
    exercises: tuple[Path, ...]
    blank: tuple[str, ...]
    run: Run

    def ctxlab(self, *words: str, exercises: Sequence[Path] | None = None) -> Done:
        """Run one command on the learner's exercises, for a machine to read."""
        paths = self.exercises if exercises is None else exercises
        more = [part for path in paths for part in ("--exercises", str(path))]
        return self.run(self.folder, words, [*([] if words[0] == "show" else more), "--format", "json"])


Outcome = tuple[bool, list[str]]


def check_lab(exercises: Sequence[Path], *, run: Run | None = None, jobs: int | None = None) -> list[Verdict]:
    """Asks all five criteria. ``jobs``: how many at once; None is one a processor. Raises `NotASubmission`."""
    paths = tuple(path.resolve() for path in exercises)
    blank = tuple(name for name, source in find_functions(paths).sources.items() if source is None)

    def ask(number: int) -> Verdict:
        title, criterion = CRITERIA[number]
        with tempfile.TemporaryDirectory(prefix="ctxlab-criterion-") as folder:
            passed, evidence = criterion(Trial(Path(folder), paths, blank, run or run_fresh))
        return Verdict(number, title, passed, tuple(evidence))

    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        return list(pool.map(ask, CRITERIA))


def run_fresh(folder: Path, words: Sequence[str], options: Sequence[str]) -> Done:
    """One command in a process of its own, with the scripted model."""
    environment = {**os.environ, "MOCK": "1", "PYTHONIOENCODING": "utf-8"}
    command = "MOCK=1 ctxlab " + " ".join(f'"{word}"' if " " in word else word for word in words)
    try:
        done = subprocess.run(
            [*PROGRAM, *words, *options],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Done(command, -1, "", f"no end within {LONGEST:g} seconds")
    return Done(
        command, done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )


def to_do_list(trial: Trial) -> Outcome:
    """Criterion 1: the untouched lab prints the four lines; and the learner's prints one for each that is blank."""
    untouched = trial.ctxlab("start", exercises=[kit_folder("exercises")])
    lines = [line for line in untouched.err.splitlines() if line.startswith("exercise incomplete: ")]
    own = trial.ctxlab("start", "--session", "own", "--rounds", "1")
    left = [line.split()[2] for line in own.err.splitlines() if line.startswith("exercise incomplete: ")]
    evidence = [*untouched.shown, *lines, f"on your exercises: {', '.join(left) or 'no line is left'}"]
    return len(lines) == len(EXERCISES) and set(left) == set(trial.blank), evidence


def lines_on_disk(trial: Trial) -> Outcome:
    """Criterion 2: each message is one JSON line, the tool messages among them."""
    done = trial.ctxlab("chat", ORDERS)
    path = trial.folder / ".sessions" / "main.jsonl"
    if not path.exists():
        return False, [*done.shown, f"{path.name} was not written: append_message writes nothing"]
    lines = path.read_bytes().decode("utf-8", "replace").splitlines()
    records = [_object(line) for line in lines]
    roles = [record.get("role") for record in records]
    seqs = [record.get("seq") for record in records]
    wanted = ["user", "assistant", "tool", "tool", "assistant"]
    shown = [f"{path.name}: {line[:96]}" for line in lines]
    if roles != wanted:
        shown.append(f"the roles are {roles}; expected {wanted}, one JSON object a line")
    if seqs != list(range(1, len(lines) + 1)):
        shown.append(f"seq is {seqs}; expected 1 to {len(lines)}")
    return done.status == 0 and roles == wanted and seqs == [1, 2, 3, 4, 5], [*done.shown, *shown]


def one_summary(trial: Trial) -> Outcome:
    """Criterion 3: past the threshold the early messages become one summary, and the cut parts no call."""
    done = trial.ctxlab("start")
    data = done.data
    if done.status or not data:
        return False, done.shown
    before, after = data["before"], data["after"]
    shown = [
        f"comparison: {before['messages']} messages, {before['tokens']:,} tokens -> {after['messages']} messages, "
        f"{after['tokens']:,} tokens",
        f"by your estimate_tokens: {before['estimate']:,} -> {after['estimate']:,} tokens",
        *(f"the shorter history would be a 400: {one}" for one in data["violations"]),
    ]
    counted = before["estimate"] >= THRESHOLD and 0 < after["estimate"] < before["estimate"]
    shorter = after["tokens"] < before["tokens"] and after["messages"] < before["messages"]
    if not counted:
        shown.append(f"estimate_tokens does not see the threshold of {THRESHOLD:,} passed, or the reduction")
    if not shorter:
        shown.append("compress_if_needed did not shorten the history")
    return counted and shorter and not data["violations"], [*done.shown, *shown]


def remembered(trial: Trial) -> Outcome:
    """Criterion 4: what was said in one process is known in the next."""
    first, second = trial.ctxlab("chat", HOME), trial.ctxlab("chat", QUESTION)
    count, reply = second.data.get("recovered", 0), str(second.data.get("reply", ""))
    told = str(second.data.get("told", "nothing was recovered"))
    passed = not first.status and not second.status and count == 2 and "Shanghai" in reply
    return passed, [*first.shown, str(first.data.get("reply", "")), *second.shown, told, reply]


def untouched_parent(trial: Trial) -> Outcome:
    """Criterion 5: a round in the fork leaves the parent as it was."""
    exercises, said = trial.exercises, []
    if "append_message" in trial.blank:
        exercises = (*exercises, kit_folder("solutions") / f"{EXERCISES['append_message'].file_stem}.py")
        said.append("append_message is still its blank: the kit's own stands in for it here")
    for text in (ORDERS.split(" and ")[0], HOME):
        if (done := trial.ctxlab("chat", text, exercises=exercises)).status:
            return False, [*said, *done.shown]
    before = trial.ctxlab("show", "main")
    forked = trial.ctxlab("fork", "4", exercises=exercises)
    name = forked.data.get("id")
    if forked.status or not isinstance(name, str):
        return False, [*said, *forked.shown]
    more = trial.ctxlab("chat", "I moved to Hanoi", f"--session={name}", exercises=exercises)
    child, after = trial.ctxlab("show", name), trial.ctxlab("show", "main")
    parent = before.data.get("messages", [])
    theirs, now = child.data.get("messages", []), after.data.get("messages", [])
    said += [*forked.shown, f"{forked.data.get('told')}", *more.shown, *child.shown]
    said.append(f"the fork {name}: {len(theirs)} messages")
    said += [*after.shown, f"the parent main: {len(parent)} messages before, {len(now)} after"]
    same = bool(parent) and _without_time(now) == _without_time(parent)
    begins = _without_time(theirs[:4]) == _without_time(parent[:4]) and len(theirs) == 6
    said.append("the parent is untouched" if same else "the parent changed: the fork contaminated it")
    if same and not begins:
        said.append("the fork is not the parent's first 4 messages and the new round")
    return same and begins and not forked.data.get("shared"), said


CRITERIA: dict[int, tuple[str, Callable[[Trial], Outcome]]] = {
    1: ("the untouched lab prints its four exercise-incomplete lines", to_do_list),
    2: ("append_message: each message one JSON line, the tool messages among them", lines_on_disk),
    3: ("estimate_tokens and compress_if_needed: one summary in place of the early messages", one_summary),
    4: ("append_message: a new process recovers the conversation and answers right", remembered),
    5: ("fork_session: a round in the fork leaves the parent untouched", untouched_parent),
}


def _object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _without_time(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in message.items() if key != "ts"} for message in messages]
