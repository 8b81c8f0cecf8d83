"""Forks by reference, their tree and their bill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from histories import calling, result, says, system, user

from ctxlab.compress import Policy
from ctxlab.cost import PRICES, Bill, Price
from ctxlab.errors import CutIndexError, ForkRefused, ParentLost, SessionExists, UnknownName
from ctxlab.session import Session
from ctxlab.tokens import count_message

TALK = [user("u1"), says("a1"), user("u2"), calling("c1", "c2"), result("c1"), result("c2"), says("a2"), user("u3")]
LONG = "a word or two of what was said here and there, and then some more of it"


@pytest.fixture
def main(tmp_path: Path) -> Session:
    session = Session.create(tmp_path, "main", system="be brief")
    session.append_many(TALK)
    return session


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith("main")}


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("at", [0, 1, 2, 3, 6, 7, 8, None])
def test_a_fork_is_the_first_messages_and_the_parents_bytes_do_not_change(
    tmp_path: Path, main: Session, at: int | None, deep: bool
) -> None:
    before = files(tmp_path)
    child = main.fork(at, name="child", deep=deep)
    taken = TALK[:at]
    assert (child.parent_id, child.forked_at) == ("main", len(taken))
    assert child.surface() == child.record() == taken
    assert child.messages == [system("be brief"), *taken]
    child.append(says("another way"))
    child.surface()[:1] = [user("changed")]
    assert files(tmp_path) == before
    main.append(says("the old way"))
    child.close()
    again = Session.open(tmp_path, "child")
    assert again.record() == [*taken, says("another way")]
    assert main.record() == [*TALK, says("the old way")]
    meta = json.loads((tmp_path / "child.meta.json").read_text())
    assert (meta["id"], meta["parentId"], meta["forkedAt"]) == ("child", "main", len(taken))
    assert meta["createdAt"].endswith("Z")


def test_a_fork_of_everything_has_what_other_writers_added_meanwhile(tmp_path: Path, main: Session) -> None:
    with Session.open(tmp_path, "main") as other:
        other.append(says("from elsewhere"))
    assert main.fork().record() == [*TALK, says("from elsewhere")]


def test_the_meta_data_of_a_fork_can_be_made_again_from_its_log(tmp_path: Path, main: Session) -> None:
    main.fork(3, name="child").close()
    path = tmp_path / "child.meta.json"
    right = path.read_text()
    path.unlink()
    Session.open(tmp_path, "child").close()
    assert json.loads(path.read_text()) == json.loads(right)


@pytest.mark.parametrize("at", [4, 5])
def test_a_fork_in_an_open_turn_is_refused_with_the_two_nearest_legal_cuts(main: Session, at: int) -> None:
    with pytest.raises(ForkRefused, match="nearest legal cuts are 3 and 6") as caught:
        main.fork(at)
    assert (caught.value.before, caught.value.after) == (3, 6)
    assert main.fork(at, open_turn="before").forked_at == 3
    assert main.fork(at, open_turn="after").forked_at == 6
    with pytest.raises(UnknownName):
        main.fork(at, open_turn="befor")


def test_a_fork_while_the_tool_still_runs_names_the_cut_before_it(main: Session) -> None:
    with main.turn():
        main.append(calling("g1"))
        with pytest.raises(ForkRefused, match="the turn is still open") as caught:
            main.fork()
        assert (caught.value.before, caught.value.after) == (8, None)
        assert main.fork(open_turn="before").record() == TALK
        main.append(result("g1"))
        assert main.fork().record() == [*TALK, calling("g1"), result("g1")]


@pytest.mark.parametrize("at", [-1, 9, True, "3"])
def test_a_fork_outside_is_refused_in_words(main: Session, at: int) -> None:
    with pytest.raises(CutIndexError, match="8 messages; 0 <= index <= 8"):
        main.fork(at)


def test_a_fork_of_a_fork_of_a_fork_is_stitched(tmp_path: Path, main: Session) -> None:
    child = main.fork(7, name="child")
    child.append_many([user("c"), says("d")])
    grandchild = child.fork(8, name="grandchild")
    grandchild.append(says("e"))
    last = grandchild.fork(1, name="last")
    assert grandchild.record() == [*TALK[:7], user("c"), says("e")]
    assert last.record() == TALK[:1]
    for session in (child, grandchild, last):
        session.close()
    assert Session.open(tmp_path, "grandchild").record() == [*TALK[:7], user("c"), says("e")]
    assert [event.seq for event in Session.open(tmp_path, "grandchild").events] == list(range(1, 12))


def test_a_copy_of_a_fork_stands_alone(tmp_path: Path, main: Session) -> None:
    child = main.fork(0, name="child")
    child.append(user("x"))
    copy = child.fork(name="copy", deep=True)
    child.close()
    for name in ("main", "child"):
        main.store.delete(name)
    copy.close()
    again = Session.open(tmp_path, "copy")
    assert again.record() == [user("x")]
    assert again.parent_id == "child"


def test_a_fork_into_a_summarised_stretch_has_the_originals(tmp_path: Path) -> None:
    main = Session.create(tmp_path, "main", durability="os")
    for number in range(10):
        main.append_many([user(f"q{number} {LONG}"), says(f"a{number} {LONG}")])
    main.compact(lambda early: "They talked.", Policy(trigger=100))
    main.append_many([user("later"), says("yes")])
    early, late, end = main.fork(4), main.fork(21), main.fork()
    assert early.surface() == main.record()[:4]
    assert early.watermark == 0
    assert late.surface() == [*main.surface()[:-2], user("later")]
    assert end.surface() == main.surface()
    assert end.record() == main.record()
    assert end.watermark == main.watermark > 0
    end.append_many([user(f"q {LONG}"), says(LONG)] * 6)
    end.compact(lambda early: "Further.", Policy(trigger=100))
    end.close()
    assert Session.open(tmp_path, end.id).surface()[0]["content"].endswith("Further.")


def test_five_forks_of_a_long_session_cost_bytes_and_not_five_histories(tmp_path: Path) -> None:
    main = Session.create(tmp_path, "main", durability="os")
    main.append_many([user("x" * 400), says("y" * 400)] * 500)
    before = sum(path.stat().st_size for path in tmp_path.iterdir())
    for _ in range(5):
        main.fork(500).close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) - before < 5_000


def test_regenerate_takes_back_the_last_answer_alone(main: Session) -> None:
    assert main.regenerate().record() == TALK[:6]
    main.append(says("a3"))
    assert main.regenerate().record() == TALK


def test_regenerate_after_a_call_that_was_never_answered_takes_back_the_call(tmp_path: Path) -> None:
    session = Session.create(tmp_path, "main")
    session.append_many([user("go"), calling("c")])
    assert session.regenerate().record() == [user("go")]


def test_ab_asks_two_prompts_on_the_same_history(main: Session) -> None:
    a, b = main.ab("be brief", lambda: "be long")
    assert a.messages == [system("be brief"), *TALK]
    assert b.messages == [system("be long"), *TALK]
    assert a.parent_id == b.parent_id == "main"


def test_reproduce_makes_the_same_session_in_another_store(tmp_path: Path, main: Session) -> None:
    main.request()
    main.append(says("a3"))
    child = main.fork(name="child")
    child.append(user("more"))
    child.request()
    child.append(says("a4"))
    there = Session.reproduce(tmp_path, "child", tmp_path / "elsewhere")
    assert (there.id, there.parent_id) == ("child", None)
    assert there.record() == child.record()
    assert there.turns == child.turns == 5
    assert [there.verify(turn).ok for turn in (4, 5)] == [True, True]
    with pytest.raises(SessionExists):
        Session.reproduce(main.store, "child", tmp_path / "elsewhere")
    assert Session.reproduce(main.store, "child", main.store, as_name="mine").record() == child.record()
    there.close()
    assert Session.open(tmp_path / "elsewhere", "child").recovery.problems == ()


def test_a_deleted_parent_is_noticed_by_its_children(tmp_path: Path, main: Session) -> None:
    main.fork(3, name="child").close()
    main.store.delete("main")
    with pytest.raises(ParentLost, match="a fork of 'main', which is gone"):
        Session.open(tmp_path, "child")
    assert not list(tmp_path.glob("main*"))


@pytest.mark.parametrize("damage", ["bit", "line", "rewritten"])
def test_a_damaged_parent_is_noticed_by_its_children(tmp_path: Path, main: Session, damage: str) -> None:
    main.fork(3, name="child").close()
    path = tmp_path / "main.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    if damage == "bit":
        lines[1] = lines[1].replace(b"a1", b"a9")
    elif damage == "line":
        del lines[1]
    else:
        lines[1] = b'{"seq":2,"role":"assistant","content":"forged"}\n'
    path.write_bytes(b"".join(lines))
    with pytest.raises(ParentLost, match="are not what they were"):
        Session.open(tmp_path, "child")


def test_damage_behind_the_cut_is_the_parents_alone(tmp_path: Path, main: Session) -> None:
    main.fork(3, name="child").close()
    path = tmp_path / "main.jsonl"
    path.write_bytes(path.read_bytes().replace(b"a2", b"a9"))
    assert Session.open(tmp_path, "child").record() == TALK[:3]
    assert len(Session.open(tmp_path, "main", readonly=True).record()) == 7


def test_a_damaged_first_line_of_a_fork_is_said_to_be_the_tie_to_its_parent(tmp_path: Path, main: Session) -> None:
    child = main.fork(3, name="child")
    child.append(says("own"))
    child.close()
    path = tmp_path / "child.jsonl"
    path.write_bytes(path.read_bytes().replace(b"parentSeq", b"parentSeQ", 1))
    session = Session.open(tmp_path, "child", readonly=True)
    assert session.record() == [says("own")]
    assert "was forked from 'main' is lost" in str(session.problems[0])


def test_the_tree_starts_at_the_root_from_wherever_it_is_asked_for(main: Session) -> None:
    child = main.fork(3, name="child")
    child.append(says("b"))
    child.fork(name="grandchild")
    other = main.fork(8, name="other")
    text = (
        "main, 8 messages of its own\n"
        "  child forked at 3, 1 message of its own\n"
        "    grandchild forked at 4, 0 messages of its own\n"
        "  other forked at 8, 0 messages of its own"
    )
    assert str(main.tree()) == str(other.tree()) == str(child.tree()) == text


def test_a_broken_branch_is_shown_in_the_tree_with_what_is_wrong(tmp_path: Path, main: Session) -> None:
    main.fork(3, name="child").close()
    main.fork(2, name="other").close()
    path = tmp_path / "main.jsonl"
    path.write_bytes(path.read_bytes().replace(b"u2", b"u9"))
    lines = str(Session.open(tmp_path, "other").tree()).splitlines()
    assert lines[0] == "main, 7 messages of its own"
    assert "child forked at 3, session 'child' is a fork of 'main', whose first 3 events are not" in lines[1]
    assert lines[2] == "  other forked at 2, 0 messages of its own"


def size(*messages: dict) -> int:
    return sum(count_message(message) for message in messages)


def test_each_branch_pays_for_its_own_requests_and_the_shared_part_is_counted_once(main: Session) -> None:
    main.system = None
    child = main.fork(3, name="child")
    child.append_many([says("b1"), user("v"), says("b2")])
    cost = main.cost()
    own_in = size(*TALK[:1]) + size(*TALK[:3]) + size(*TALK[:6]) + 3 * 3
    own_out = size(TALK[1]) + size(TALK[3]) + size(TALK[6])
    assert cost.own == Bill(3, own_in, own_out)
    child_in = size(*TALK[:3]) + size(*TALK[:3], says("b1"), user("v")) + 2 * 3
    assert cost.children[0].own == Bill(2, child_in, size(says("b1"), says("b2")))
    assert cost.total == Bill(5, own_in + child_in, own_out + size(says("b1"), says("b2")))
    assert child.cost().total == cost.children[0].total


def test_money_is_tokens_times_the_price_that_was_given(tmp_path: Path) -> None:
    session = Session.create(tmp_path, "main")
    usage = {"prompt_tokens": 2_000_000, "completion_tokens": 500_000}
    session.append_many([user("q"), {**says("a"), "usage": usage}])
    bill = session.cost("m", prices={"m": Price(3.0, 8.0, "2026-01-01", "made up")}).own
    assert bill == Bill(1, 2_000_000, 500_000, money=10.0)
    with pytest.raises(UnknownName, match="unknown model 'gpt-5o'"):
        session.cost("gpt-5o")
    assert all(price.date and price.source for price in PRICES.values())


def test_a_compressed_history_is_billed_at_its_compressed_length_and_the_summary_is_billed_too(tmp_path: Path) -> None:
    session = Session.create(tmp_path, "main", durability="os")
    session.append_many([user(LONG), says(LONG)] * 10)
    before = session.cost().own
    session.compact(lambda early: "They talked.", Policy(trigger=100))
    surface = session.surface()
    session.append_many([user("q"), says("a")])
    after = session.cost().own
    assert after.input_tokens - before.input_tokens == size(*surface, user("q")) + 3
    assert after.summary_calls == 1
    assert after.summary_input_tokens > after.summary_output_tokens > 0


def test_the_bill_of_a_tree_names_the_branch_that_cannot_be_read(main: Session, tmp_path: Path) -> None:
    main.system = None
    child = main.fork(3, name="child")
    child.append(says("a word"))
    child.fork(name="below").close()
    child.close()
    log = next(tmp_path.rglob("child.jsonl"))
    log.write_bytes(log.read_bytes().replace(b"a word", b"a ward"))
    cost = main.cost("m", prices={"m": Price(1.0, 1.0, "2026-01-01", "made up")})
    (below,) = cost.children[0].children
    assert "'below' is a fork of 'child', whose first 5 events are not what they were" in below.problem
    assert below.own == Bill(money=0.0)
    assert cost.total == cost.own + cost.children[0].own
    assert f"    below: not counted, {below.problem}" in str(cost).splitlines()


def test_the_bill_of_a_tree_reads_as_text(main: Session) -> None:
    main.system = None
    usage = {"input_tokens": 1_000_000, "output_tokens": 0}
    main.fork(1, name="child").append({**says("b"), "usage": usage})
    text = str(main.cost("m", prices={"m": Price(1.0, 1.0, "2026-01-01", "made up")}))
    own, child = text.splitlines()
    assert own.startswith("main: 3 requests, ")
    assert own.endswith(" with forks")
    assert child == "  child: 1 requests, 1,000,000 tokens in, 0 out, $1.0000 own, $1.0000 with forks"


def test_parents_that_lead_in_a_circle_are_an_error_and_not_a_hang(tmp_path: Path, main: Session) -> None:
    main.fork(0, name="child").close()
    main.close()
    made = json.loads((tmp_path / "child.jsonl").read_text())
    made.pop("crc")
    for name, parent in (("main", "child"), ("child", "main")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({**made, "parentId": parent, "parentEvents": 1}) + "\n")
    with pytest.raises(ParentLost):
        Session.open(tmp_path, "child")


def test_a_request_that_was_never_answered_is_billed_for_what_it_sent(tmp_path: Path) -> None:
    session = Session.create(tmp_path, "main")
    session.append(user("q"))
    session.request()
    session.request()
    session.append(says("a"))
    session.request()
    q, a = size(user("q")), size(says("a"))
    assert session.cost().own == Bill(3, 2 * (q + 3) + q + a + 3, a)
