"""A class on a Dask cluster: the same verdicts, nobody lost with a worker that dies, nobody graded twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import distributed
import pytest
from click.testing import CliRunner
from variants import TESTS

from ctxlab.cli import main
from ctxlab.grading import grade
from ctxlab.grading.batch import grade_class
from ctxlab.grading.results import Results

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
PATHS = [TESTS / "right" / "fork_session__through_json.py", *sorted((TESTS / "wrong").glob("fork_session__s*.py"))]


@pytest.fixture
def cluster():
    """Two workers, processes of their own, which are started again when they die."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made:
        yield made


def test_a_worker_that_is_killed_in_mid_run_loses_nothing_and_grades_nobody_twice(cluster, tmp_path):
    handed_in = []
    for number in range(3):
        for path in PATHS:
            (tmp_path / "class").mkdir(exist_ok=True)
            handed_in.append(tmp_path / "class" / f"{path.stem}{number}.py")
            handed_in[-1].write_bytes(path.read_bytes())
    victims = [worker.pid for worker in cluster.workers.values()][:1]

    def told(done: int, of: int) -> None:
        if done == 2 and victims:
            os.kill(victims.pop(), signal.SIGKILL)

    address = cluster.scheduler_address
    with Results(tmp_path / "r.jsonl") as results:
        report = grade_class([tmp_path / "class"], results, jobs=2, told=told, scheduler=address).to_json()
    assert not victims
    assert report["submissions"] == grade(tmp_path / "class", jobs=2).to_json()["submissions"]
    lines = [json.loads(line)["path"] for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert Counter(lines) == Counter(map(str, handed_in))


def test_with_one_worker_the_same_code_gives_the_same_report(tmp_path):
    words = ["grade", str(PATHS[0]), str(PATHS[1]), "--format", "json", "--seed", "4"]
    done = CliRunner().invoke(main, [*words, "--scheduler", "local"])
    assert done.exit_code == 1, done.output
    assert json.loads(done.stdout) == grade(PATHS[:2], seed=4).to_json()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense"])
def test_a_scheduler_that_is_not_there_is_wrong_use(address):
    # In a process of its own: a client that could not connect leaves Dask's event loop behind in this one.
    command = [sys.executable, "-m", "ctxlab", "grade", str(PATHS[0]), "--scheduler", address]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert refused.returncode == 2
    assert f"no Dask scheduler answers at {address}" in refused.stderr


def test_without_distributed_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("ctxlab.grading.cluster.DASK", "distributed_that_is_nowhere")
    refused = CliRunner().invoke(main, ["grade", str(PATHS[0]), "--scheduler", "local"])
    assert refused.exit_code == 2
    assert "pip install 'ctxlab[cluster]'" in refused.stderr


def test_a_folder_of_results_is_taken_up_on_a_cluster_too(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("ctxlab.grading.results.kit_print", lambda: "the same kit")
    file: Path = tmp_path / "r.jsonl"
    for _ in range(2):
        with Results(file, resume=True) as results:
            grade_class(PATHS[:2], results, scheduler=cluster.scheduler_address)
    assert file.read_bytes().count(b"\n") == 2
