"""Recorded failures of other tools that concern a log or a session, each with what is right. In our own words; the
public report that each comes from is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from histories import calling, result, says, system, user

from ctxlab.compaction import CompactionPolicy
from ctxlab.compress import SUMMARY_MARKER, Compressed, Failed, Policy, Unchanged
from ctxlab.errors import ForkRefused, SessionBusy, StoreError
from ctxlab.providers import validate
from ctxlab.repairs import OUTCOME_UNKNOWN
from ctxlab.session import Session


def stored(folder: Path, *history: dict) -> None:
    session = Session.create(folder, "main")
    session.append_many(history)
    session.close()


def test_a_call_that_the_process_died_in_is_closed_before_the_next_user_message(tmp_path: Path) -> None:
    """earendil-works/pi#4189: the stored call was sent with no answer, and every later request got a 400."""
    history = [user("Fix the login test"), calling("c1")]
    stored(tmp_path, *history)
    session = Session.open(tmp_path, "main")
    session.append(user("continue"))
    assert session.surface() == [*history, result("c1", OUTCOME_UNKNOWN), user("continue")]
    assert validate(session.surface(), "anthropic") == []


def test_a_repair_in_the_middle_is_written_to_the_log_and_not_only_to_memory(tmp_path: Path) -> None:
    """huggingface/tau PR#269: the reopened log still held the open call, where a look at the tail does not see it."""
    history = [user("List the files"), calling("c1"), user("are you there?"), says("Yes, I stopped.")]
    stored(tmp_path, *history)
    Session.open(tmp_path, "main").close()
    session = Session.open(tmp_path, "main")
    assert session.recovery.repaired == 0
    session.append(user("go on"))
    assert session.surface() == [*history[:2], result("c1", OUTCOME_UNKNOWN), *history[2:], user("go on")]


def test_a_finished_call_keeps_its_result(tmp_path: Path) -> None:
    """QwenLM/qwen-code#9573: a finished call's output was replaced by a placeholder on resume."""
    history = [user("Run the tests"), calling("t1"), result("t1", "12 passed"), says("All green.")]
    stored(tmp_path, *history)
    before = (tmp_path / "main.jsonl").read_bytes()
    assert Session.open(tmp_path, "main").surface() == history
    assert (tmp_path / "main.jsonl").read_bytes() == before


def test_a_repeated_call_id_is_renamed_and_the_results_stay_apart(tmp_path: Path) -> None:
    """ducks/claux#40, openclaw/openclaw PR#43370: pairing by id could no longer tell two results apart."""
    stored(tmp_path, user("Edit two files"), calling("call_0", "call_0"), result("call_0", "a"), result("call_0", "b"))
    session = Session.open(tmp_path, "main")
    surface = session.surface()
    assert [call["id"] for call in surface[1]["tool_calls"]] == ["call_0", "call_0-2"]
    assert surface[2:] == [result("call_0", "a"), result("call_0-2", "b")]
    assert validate(surface, "anthropic") == []


def test_a_summary_is_stored_with_its_exact_sources_so_a_restart_does_not_pay_for_it_again(tmp_path: Path) -> None:
    """xiaoyu-work/claw-os#56: only the request was compressed, and every restart summarised the same stretch anew."""
    policy = Policy(trigger=100)
    stored(tmp_path, *[message for n in range(10) for message in (user(f"m{n} " + "x " * 20), says("yes " * 10))])
    calls = []
    for _ in range(3):
        session = Session.open(tmp_path, "main")
        outcome = session.compact(lambda early: calls.append(early) or "They talked.", policy)
        session.close()
    assert len(calls) == 1
    assert isinstance(outcome, Unchanged)
    replace = next(event for event in session.events if event.kind == "replace").data
    assert replace["sourceEventSeqs"] == list(range(1, replace["replace"]["endSeq"] + 1))
    assert len(replace["sourceHash"]) == 64


def test_a_span_is_never_in_neither_the_summary_nor_the_tail(tmp_path: Path) -> None:
    """blueberrycongee/wuu#142: the summariser's request was too large, and the retry dropped its oldest half."""
    history = [message for n in range(6) for message in (user(f"u{2 * n} " + "x" * 50), says(f"a{2 * n + 1}"))]
    stored(tmp_path, *history)
    session = Session.open(tmp_path, "main")

    def too_small(early: list) -> str:
        if policy.count(early) > 60:
            raise ValueError("prompt is too long")
        seen.extend(early)
        return "Part."

    seen: list[dict] = []
    policy = Policy(trigger=10, keep_recent=2)
    assert isinstance(session.compact(too_small, policy), Failed)
    assert session.surface() == history
    outcome = session.compact(too_small, CompactionPolicy(policy, max_input=60))
    assert isinstance(outcome, Compressed)
    kept = session.surface()[1:]
    assert [m for m in seen if not str(m["content"]).startswith(SUMMARY_MARKER)] + kept == history


def test_a_torn_last_line_does_not_swallow_the_next_record(tmp_path: Path) -> None:
    """github/copilot-cli#4098, PrimeIntellect-ai/prime-agent PR#1785: the torn bytes stayed, the next was glued on."""
    one, two = ({"seq": 1, **user("one")}, {"seq": 2, **says("two")})
    path = tmp_path / "main.jsonl"
    path.write_text(f'{json.dumps(one)}\n{json.dumps(two)}\n{{"seq":3,"role":"user","cont')
    session = Session.open(tmp_path, "main")
    session.append(user("three"))
    session.close()
    assert Session.open(tmp_path, "main").surface() == [user("one"), says("two"), user("three")]
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_bad_line_in_the_middle_is_said_and_the_session_does_not_end_there(tmp_path: Path) -> None:
    """anthropics/claude-code#50347: everything after a damaged line was silently ignored."""
    lines = [json.dumps({"seq": 1, **user("one")}), '{"seq":2,"role":"assis']
    lines += [json.dumps({"seq": 3, **user("three")}), json.dumps({"seq": 4, **says("four")})]
    (tmp_path / "main.jsonl").write_text("".join(f"{line}\n" for line in lines))
    session = Session.open(tmp_path, "main")
    assert session.surface() == [user("one"), user("three"), says("four")]
    (problem,) = session.recovery.problems
    assert (problem.line, problem.offset, problem.seq) == (2, len(lines[0]) + 1, 2)


def test_two_processes_never_take_the_same_seq(tmp_path: Path) -> None:
    """openma-ai/deepseek-harness-acp#17, bug-ops/zeph#5487: two records with one number, and no load ever after."""
    stored(tmp_path)
    a, b = Session.open(tmp_path, "main"), Session.open(tmp_path, "main")
    with a.turn():
        a.append(user("from A"))
        with pytest.raises(SessionBusy):
            b.append(user("from B"))
        a.append(says("reply A"))
    assert [b.append(user("from B"))["seq"], b.append(says("reply B"))["seq"]] == [3, 4]


def test_a_retried_request_stores_its_input_once(tmp_path: Path) -> None:
    """openai/openai-agents-python#3852: a failed request rewound the session, and the reply stood without question."""
    session = Session.create(tmp_path, "main")
    session.append(user("Q"))
    for _ in range(3):  # two requests fail, the third is answered
        assert session.request() == [user("Q")]
    session.append(says("A1"))
    session.close()
    again = Session.open(tmp_path, "main")
    assert again.surface() == again.record() == [user("Q"), says("A1")]
    assert again.turns == 3


def test_a_failed_write_of_a_result_is_tried_again_and_not_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """openai/openai-agents-python#4615: the tool ran, storing its result failed, and later runs forgot the refund."""
    from ctxlab.store import jsonl

    session = Session.create(tmp_path, "main")
    session.append_many([user("Refund order 7"), calling("refund7")])
    session.tool_started("refund7")

    def fail(handle: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(jsonl, "flush", fail)
    with pytest.raises(StoreError):
        session.append(result("refund7", "receipt-7"))
    monkeypatch.undo()
    session.append(result("refund7", "receipt-7"))
    session.append(says("Refund done"))
    session.close()
    assert Session.open(tmp_path, "main").surface()[2] == result("refund7", "receipt-7")


def test_a_tool_that_ran_and_whose_result_was_never_stored_is_to_be_checked_and_not_repeated(tmp_path: Path) -> None:
    """The same report, where the process dies in place of a second try."""
    session = Session.create(tmp_path, "main")
    session.append_many([user("Refund order 7"), calling("refund7")])
    session.tool_started("refund7")
    session.close()
    assert Session.open(tmp_path, "main").surface()[2] == result("refund7", OUTCOME_UNKNOWN)


def test_the_system_prompt_of_a_resumed_session_is_the_one_of_today(tmp_path: Path) -> None:
    """MoonshotAI/kimi-code#446: the stored prompt still said the date of four weeks ago, and a fork copied it."""
    stored(tmp_path, system("Today is 2026-05-08."), user("plan my week"), says("ok"))
    session = Session.open(tmp_path, "main", system=lambda: "Today is 2026-06-05.")
    session.append(user("and today?"))
    right = [system("Today is 2026-06-05."), user("plan my week"), says("ok"), user("and today?")]
    assert session.messages == right
    assert session.fork().messages == right


def test_a_change_in_a_fork_does_not_reach_its_parent(tmp_path: Path) -> None:
    """nesquena/hermes-webui PR#1391: a list slice shared its messages."""
    parent = Session.create(tmp_path, "main")
    parent.append_many([user("hello"), says("hi"), user("draft?"), {**says("v1"), "extra": {"list": [1]}}])
    before, data = parent.surface(), (tmp_path / "main.jsonl").read_bytes()
    for deep in (False, True):
        child = parent.fork(deep=deep)
        for messages in (child.surface(), child.record(), child.messages):
            messages[3]["extra"]["list"].append(2)
            messages[3]["content"] = "v2"
        assert child.surface() == before
    assert parent.surface() == before
    assert (tmp_path / "main.jsonl").read_bytes() == data


def test_a_fork_does_not_inherit_a_running_call(tmp_path: Path) -> None:
    """anomalyco/opencode PR#43994: the child had a call that would never be answered in it."""
    parent = Session.create(tmp_path, "main")
    parent.append_many([user("search"), calling("g1")])
    with pytest.raises(ForkRefused):
        parent.fork()
    child = parent.fork(open_turn="before")
    child.append(user("try another way"))
    assert child.surface() == [user("search"), user("try another way")]


def test_a_fork_from_before_a_compaction_has_the_originals_and_no_summary(tmp_path: Path) -> None:
    """vellum-ai/vellum-assistant PR#36149: the child got the summary of messages that it had before it."""
    parent = Session.create(tmp_path, "main")
    early = [user("u1 " + "x " * 40), says("a1 " + "y " * 40), user("u2 " + "x " * 40), says("a2 " + "y " * 40)]
    parent.append_many(early)
    parent.compact(lambda _: "Of u1 to a2.", Policy(trigger=10, keep_recent=0))
    parent.append_many([user("u3"), says("a3")])
    assert SUMMARY_MARKER in parent.surface()[0]["content"]
    assert parent.fork(4).surface() == early
