"""``ctxlab tree``: the branches of a session, what each holds and what each cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ctxlab.cli import main
from ctxlab.commands.sessions import tree
from ctxlab.cost import PRICES
from ctxlab.errors import StoreError, UnknownName
from ctxlab.session import Session


def run(*args: object) -> Result:
    return CliRunner().invoke(tree, [str(arg) for arg in args], catch_exceptions=False)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """main: four messages of its own; a: cut at 2, two of its own; b: a fork of a, cut at 4, one; other: a root."""
    place = tmp_path / "sessions"
    main = Session.create(place, "main")
    main.append_many([said("user", "one"), said("assistant", "two"), said("user", "three"), said("assistant", "four")])
    a = main.fork(2, name="a")
    a.append_many([said("user", "five"), said("assistant", "six")])
    b = a.fork(name="b")
    b.append(said("user", "seven"))
    Session.create(place, "other").close()
    for session in (main, a, b):
        session.close()
    return place


def said(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def test_the_tree_counts_a_shared_prefix_once(store: Path) -> None:
    (main,) = json.loads(run("main", "--store", store, "--format", "json").stdout)
    a = main["children"][0]
    b = a["children"][0]
    assert [(node["id"], node["forked_at"], node["messages"]) for node in (main, a, b)] == [
        ("main", None, {"own": 4, "tree": 7}),
        ("a", 2, {"own": 2, "tree": 3}),
        ("b", 4, {"own": 1, "tree": 1}),
    ]


def test_each_branch_pays_for_its_own_requests_and_the_bill_adds_up(store: Path) -> None:
    (main,) = json.loads(run("main", "--store", store, "--model", "gpt-4o", "--format", "json").stdout)
    a = main["children"][0]
    bill = Session.open(store, "main", readonly=True).cost("gpt-4o")
    assert (main["own"]["requests"], a["own"]["requests"], main["total"]["requests"]) == (2, 1, 3)
    assert main["total"]["input_tokens"] == main["own"]["input_tokens"] + a["own"]["input_tokens"]
    assert main["total"]["money"] == pytest.approx(bill.total.money)
    price = PRICES["gpt-4o"]
    own = (a["own"]["input_tokens"] * price.input + a["own"]["output_tokens"] * price.output) / 1_000_000
    assert a["own"]["money"] == pytest.approx(own)


def test_any_session_of_a_tree_shows_the_whole_tree(store: Path) -> None:
    assert run("b", "--store", store).stdout == run("main", "--store", store).stdout


def test_the_text_draws_the_tree_and_lines_up(store: Path) -> None:
    lines = run("main", "--store", store).stdout.splitlines()
    assert [line[:9].rstrip() for line in lines] == ["session", "main", "└─ a", "   └─ b"]
    assert len({len(line) for line in lines}) == 1
    assert lines[1].split() == ["main", "4", "7", "2", *lines[1].split()[-2:]]


def test_without_a_session_every_tree_of_the_store_is_shown(store: Path) -> None:
    assert [one["id"] for one in json.loads(run("--store", store, "--format", "json").stdout)] == ["main", "other"]


def test_money_says_of_what_day_the_price_is_and_whose(store: Path) -> None:
    result = run("main", "--store", store, "--model", "gpt-4o")
    assert "with forks $" in result.stdout
    assert f"prices of {PRICES['gpt-4o'].date}" in result.stderr
    assert PRICES["gpt-4o"].source in result.stderr


def test_a_branch_whose_parent_is_gone_is_shown_with_what_is_wrong(store: Path) -> None:
    (store / "a.jsonl").unlink()
    lines = run("--store", store).stdout.splitlines()
    assert any(line.startswith("b ") and "is a fork of 'a', which is gone" in line for line in lines)
    assert any(line.startswith("main ") and line.split()[1:4] == ["4", "4", "2"] for line in lines)


def test_looking_at_a_store_that_is_not_there_makes_none(tmp_path: Path) -> None:
    for url in (tmp_path / "none", f"sqlite:///{tmp_path}/none.db"):
        with pytest.raises(StoreError, match="it is not there"):
            run("--store", url)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_session_or_model_gets_the_closest_one(store: Path) -> None:
    with pytest.raises(UnknownName) as unknown:
        run("mian", "--store", store)
    assert "main" in unknown.value.hint
    with pytest.raises(UnknownName):
        run("main", "--store", store, "--model", "gpt-4oo")


def test_looking_changes_nothing_on_disk(store: Path) -> None:
    before = {path: path.read_bytes() for path in store.iterdir()}
    run("--store", store, "--model", "gpt-4o")
    assert {path: path.read_bytes() for path in store.iterdir()} == before


def test_a_store_in_sqlite_has_a_tree_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    main = Session.create(url, "main")
    main.append(said("user", "one"))
    main.fork(name="a").close()
    main.close()
    assert "└─ a" in run("main", "--store", url).stdout


def test_looking_by_a_file_url_makes_no_folder_either(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(StoreError, match="it is not there"):
        run("--store", nowhere.as_uri())
    assert not nowhere.exists()


def test_a_log_that_cannot_be_read_is_a_branch_with_its_problem(tmp_path: Path) -> None:
    (tmp_path / "main.jsonl").mkdir()
    assert "cannot be read: the log of 'main' could not be read: Is a directory" in run("--store", tmp_path).output


def test_show_proves_a_turn_of_a_session_in_a_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    with Session.create(url, "main") as session:
        session.append({"role": "user", "content": "Where is order A-1042?"})
        session.request()
    result = CliRunner().invoke(main, ["show", "main", "--store", url, "--turn", "1", "--verify"])
    assert result.exit_code == 0, result.output
    assert "Where is order A-1042?" in result.stdout
    assert "turn 1: proved, 1 messages" in result.stdout
    assert CliRunner().invoke(main, ["show", "--store", f"sqlite:///{tmp_path / 'no.db'}"]).exit_code == 2
