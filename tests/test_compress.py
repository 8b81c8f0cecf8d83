"""Compressing a list, pruning a tool result: what is kept, what is dropped, and what is said when nothing is."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from histories import Dict, calling, result, says, system, user

from ctxlab.compress import (
    DEFAULT_POLICY,
    SUMMARY_MARKER,
    Compressed,
    Failed,
    Policy,
    Refused,
    Unchanged,
    compress,
    compress_async,
    compress_if_needed,
    explain_compress,
    is_summary,
    prune_history,
    prune_tool_result,
)
from ctxlab.errors import UnknownName, WrongArgument
from ctxlab.pruning import explain_prune
from ctxlab.tokens import estimate_tokens

WORDS = "the quick brown fox jumps over the lazy dog and runs away from the hounds "


def talk(rounds: int, words: int = 8) -> list[Dict]:
    """Rounds of four messages (user, call, result, answer) with one id in each, as the lab's mock makes them."""
    history: list[Dict] = []
    for number in range(rounds):
        said = f"{number}: " + WORDS * words
        history += [user(said), calling(f"c{number}"), result(f"c{number}", said), says(said)]
    return history


def summary(text: str = "short") -> Dict:
    return user(f"{SUMMARY_MARKER}\n{text}")


def once(text: Any = "short") -> tuple[list[list[Dict]], Callable[[list[Dict]], Any]]:
    """A summariser that answers ``text``, and the list of what it was asked."""
    asked: list[list[Dict]] = []

    def summarize(early: list[Dict]) -> Any:
        asked.append(early)
        return text

    return asked, summarize


def test_below_the_trigger_the_same_history_comes_back_and_nobody_is_asked() -> None:
    asked, summarize = once()
    history = talk(3)
    outcome = compress(history, summarize)
    assert isinstance(outcome, Unchanged)
    assert outcome.messages == history
    assert asked == []
    assert "below the trigger of 5,600" in outcome.why


def test_at_exactly_the_trigger_it_fires_and_one_token_below_it_does_not() -> None:
    history = talk(30)
    tokens = estimate_tokens(history)
    assert isinstance(compress(history, once()[1], Policy(trigger=tokens)), Compressed)
    assert isinstance(compress(history, once()[1], Policy(trigger=tokens + 1)), Unchanged)


def test_the_worked_example_becomes_a_fourteenth() -> None:
    """30 rounds of 4 messages are about 30,000 tokens; a summary of about 600 and the last messages of about 1,500
    are about 2,100."""
    history = talk(30, words=20)
    assert 28_000 < estimate_tokens(history) < 32_000
    outcome = compress(history, once("fact " * 600)[1])
    assert isinstance(outcome, Compressed)
    # 113, not 114: the message at 114 is a result, and its call goes with it
    assert outcome.cut == 113
    assert outcome.messages[1:] == history[113:]
    assert outcome.tokens_after < outcome.tokens_before / 10


def test_the_lab_rule_summarises_exactly_the_earlier_messages_in_order() -> None:
    history = [system("You are terse."), *talk(30)]
    before = copy.deepcopy(history)
    asked, summarize = once("They ran thirty rounds.")
    short = asyncio.run(compress_if_needed(history, summarize))
    assert history == before
    assert short == [history[0], summary("They ran thirty rounds."), *history[114:]]
    assert asked == [history[1:114]]


def test_the_lab_rule_takes_an_async_summariser() -> None:
    async def summarize(early: list[Dict]) -> str:
        await asyncio.sleep(0)
        return f"{len(early)} messages"

    short = asyncio.run(compress_if_needed(talk(30), summarize))
    assert short[0] == summary("113 messages")


@pytest.mark.parametrize("answer", [ValueError("no"), "", "  \n", None, {"content": "text"}, "long " * 40_000])
def test_whatever_goes_wrong_the_history_is_as_it_was_and_the_log_says_why(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    def summarize(early: list[Dict]) -> Any:
        early.clear()  # even one that breaks what it was given
        if isinstance(answer, Exception):
            raise answer
        return answer

    history = talk(30)
    with caplog.at_level(logging.WARNING, "ctxlab.compress"):
        assert asyncio.run(compress_if_needed(history, summarize)) == history == talk(30)
    assert len(caplog.records) == 1


def test_where_there_is_nothing_to_complain_of_the_log_stays_empty(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ctxlab.compress"):
        assert asyncio.run(compress_if_needed(talk(1), once()[1])) == talk(1)
        assert len(asyncio.run(compress_if_needed(talk(30), once()[1]))) < len(talk(30))
    assert not caplog.records


def test_a_summariser_that_raises_is_a_failure_with_its_error() -> None:
    def summarize(early: list[Dict]) -> str:
        raise ConnectionError("no route")

    outcome = compress(talk(30), summarize)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, ConnectionError)
    assert outcome.why == "the summariser failed (ConnectionError: no route); the history is as it was"


def test_a_summariser_that_takes_too_long_is_a_failure() -> None:
    async def summarize(early: list[Dict]) -> str:
        await asyncio.Event().wait()
        return "never"

    for run in (
        lambda: compress(talk(30), summarize, Policy(timeout=0.01)),
        lambda: asyncio.run(compress_async(talk(30), summarize, Policy(timeout=0.01))),
    ):
        outcome = run()
        assert isinstance(outcome, Failed)
        assert isinstance(outcome.error, TimeoutError)


def test_a_cancellation_and_an_interrupt_go_through() -> None:
    def interrupted(early: list[Dict]) -> str:
        raise KeyboardInterrupt

    async def cancelled(early: list[Dict]) -> str:
        raise asyncio.CancelledError

    with pytest.raises(KeyboardInterrupt):
        compress(talk(30), interrupted)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(compress_if_needed(talk(30), cancelled))


def test_a_sync_compress_runs_an_async_summariser_but_not_inside_a_loop() -> None:
    async def summarize(early: list[Dict]) -> str:
        return "short"

    async def inside() -> object:
        return compress(talk(30), summarize)

    assert isinstance(compress(talk(30), summarize), Compressed)
    with pytest.raises(WrongArgument) as caught:
        asyncio.run(inside())
    assert "compress_async" in caught.value.hint


def test_an_empty_summary_would_wipe_the_past_and_is_refused() -> None:
    outcome = compress(talk(30), once(f"{SUMMARY_MARKER}\n ")[1])
    assert isinstance(outcome, Refused)
    assert "empty" in outcome.why


def test_the_summarys_text_is_kept_as_it_was_written() -> None:
    outcome = compress(talk(30), once(" - one\n - two\n")[1])
    assert outcome.messages[0] == summary(" - one\n - two\n")


def test_a_summary_that_is_not_smaller_is_refused() -> None:
    outcome = compress(talk(30), once(WORDS * 2000)[1])
    assert isinstance(outcome, Refused)
    assert "not smaller" in outcome.why
    assert outcome.messages == talk(30)


def characters(messages: Sequence[Any]) -> int:
    return sum(len(message.text) for message in messages)


def test_a_summary_of_the_same_size_is_refused_and_one_smaller_by_one_is_not() -> None:
    history = [user("a" * 25), user("b" * 25), says("c" * 150), user("d"), says("e")]  # no bridge, 200 to replace
    policy = Policy(trigger=150, keep_recent=2, count=characters)
    room = 200 - len(SUMMARY_MARKER) - 1
    assert isinstance(compress(history, once("s" * room)[1], policy), Refused)
    assert isinstance(compress(history, once("s" * (room - 1))[1], policy), Compressed)


def test_a_summary_that_is_no_text_is_refused() -> None:
    outcome = compress(talk(30), once(["a", "list"])[1])
    assert isinstance(outcome, Refused)
    assert outcome.why.startswith("the summariser returned a list, not text")
    assert outcome.summary == ["a", "list"]


def test_a_summary_that_loses_a_fact_is_refused_and_the_fact_is_named() -> None:
    policy = Policy(facts=("Shanghai", "the lazy dog"))
    outcome = compress(talk(30), once("They live somewhere.")[1], policy)
    assert isinstance(outcome, Refused)
    assert "Shanghai" in outcome.why
    assert "dog" not in outcome.why  # the kept messages have it
    assert isinstance(compress(talk(30), once("They live in SHANGHAI.")[1], policy), Compressed)


def test_a_second_compression_folds_the_first_summary_in() -> None:
    first = compress(talk(30), once("one")[1])
    asked, summarize = once(f"{SUMMARY_MARKER}\ntwo")  # an answer that echoes the marker it has seen
    second = compress([*first.messages, *talk(30)], summarize)
    assert isinstance(second, Compressed)
    assert asked[0][0] == summary("one")
    assert [is_summary(message) for message in second.messages] == [True, *[False] * (len(second.messages) - 1)]
    assert second.messages[0] == summary("two")


def test_a_summary_alone_is_not_summarised_again() -> None:
    history = [summary("word " * 3000), *talk(2, words=1)[2:]]
    asked, summarize = once()
    outcome = compress(history, summarize, Policy(trigger=100))
    assert isinstance(outcome, Unchanged)
    assert "nothing new" in outcome.why
    assert asked == []


def test_six_messages_over_the_budget_are_said_to_be_and_pruning_is_offered() -> None:
    huge = "one line of a log file\n" * 10_000
    history = [
        *talk(1, words=1),
        user("read it"),
        calling("big"),
        result("big", huge),
        says("read"),
        user("so?"),
        says("x"),
    ]
    asked, summarize = once()
    outcome = compress(history, summarize)
    assert isinstance(outcome, Unchanged)
    assert asked == []
    assert "reaches the trigger of 5,600 by itself" in outcome.why
    pruned = estimate_tokens(prune_history(history))
    assert f"pruning tool results over 8,192 characters (prune_history) would bring it to {pruned:,}" in outcome.why


def test_a_compression_that_cannot_reach_the_goal_but_gains_much_is_done_and_says_so() -> None:
    history = [*talk(40), user("read it"), calling("big"), result("big", "one line of a log file\n" * 1200)]
    outcome = compress(history, once()[1])
    assert isinstance(outcome, Compressed)
    assert "Still at or over the trigger" in outcome.why
    assert "prune_history" in outcome.why


def test_a_long_system_prompt_does_not_fire() -> None:
    history = [system(WORDS * 1000), *talk(2)]
    assert estimate_tokens(history) > 8000
    assert isinstance(compress(history, once()[1]), Unchanged)


def test_system_messages_stay_verbatim_and_never_move_ahead_of_what_they_referred_to() -> None:
    middle = {"role": "developer", "content": "from here on in French"}
    history = [system(), *talk(10), middle, *talk(20)]
    outcome = compress(history, once()[1])
    assert isinstance(outcome, Compressed)
    assert outcome.messages[:3] == [system(), summary(), middle]
    told = [step for step in outcome.steps if step.action == "system"]
    assert [step.index for step in told] == [41]
    assert "moves behind the summary" in told[0].why


def test_the_only_request_of_a_long_tool_loop_stays_verbatim() -> None:
    loop = [message for n in range(40) for message in (calling(f"c{n}"), result(f"c{n}", WORDS * 12))]
    history = [user("Do X, then Y. Never touch prod."), *loop]
    asked, summarize = once()
    outcome = compress(history, summarize)
    assert isinstance(outcome, Compressed)
    bridge = outcome.messages[1]
    assert bridge["role"] == "assistant"
    assert outcome.messages == [summary(), bridge, history[0], *history[-6:]]
    assert asked == [history[:-6]]


def test_a_long_tool_loop_has_no_round_to_cut_at() -> None:
    loop = [message for n in range(40) for message in (calling(f"c{n}"), result(f"c{n}", WORDS * 12))]
    outcome = compress([user("Do X."), *loop], once()[1], Policy(rule="round-start"))
    assert isinstance(outcome, Unchanged)
    assert "nothing new stands before the cut at 0" in outcome.why


def test_no_two_user_messages_in_a_row_where_it_can_be_avoided() -> None:
    """Six from the end is a user message; the assistant's turn before it stays between the summary and it."""
    history = [message for n in range(20) for message in (user(f"{n} " + WORDS * 6), says(WORDS * 6))]
    outcome = compress(history, once()[1], Policy(trigger=1000))
    assert isinstance(outcome, Compressed)
    assert outcome.messages == [summary(), *history[-7:]]
    at_round = compress(history, once()[1], Policy(trigger=1000, rule="round-start"))
    assert [m["role"] for m in at_round.messages[:3]] == ["user", "assistant", "user"]
    assert at_round.messages[2:] == history[-6:]


def test_the_cut_does_not_go_back_where_that_would_lose_most_of_the_gain() -> None:
    history = [user("hi"), says(WORDS * 90), user("and?"), says("so")]
    outcome = compress(history, once()[1], Policy(trigger=1000, keep_recent=2))
    assert isinstance(outcome, Compressed)
    assert outcome.cut == 2
    assert [m["role"] for m in outcome.messages] == ["user", "assistant", "user", "assistant"]
    assert outcome.messages[2:] == history[2:]


def test_where_users_already_stand_in_a_row_nothing_is_put_between() -> None:
    history = [message for n in range(20) for message in (user(WORDS * 6), user("and"), says(WORDS * 6))]
    outcome = compress(history, once()[1], Policy(trigger=1000, rule="round-start"))
    assert outcome.messages == [summary(), *history[outcome.cut :]]


def test_a_round_start_cut_keeps_the_round_whole() -> None:
    history = talk(30)
    outcome = compress(history, once()[1], Policy(rule="round-start"))
    assert isinstance(outcome, Compressed)
    assert outcome.cut == 112
    assert outcome.messages[2:] == history[112:]


def test_explain_tells_the_steps_before_anybody_is_asked() -> None:
    history = talk(30)
    steps = explain_compress(history)
    assert [(step.action, step.index) for step in steps] == [
        ("count", None),
        ("raw", 114),
        ("back", 113),
        ("cut", 113),
        ("replace", None),
    ]
    assert dict(steps[0].data) == {"tokens": estimate_tokens(history), "trigger": 5600}
    assert steps[-1].data["replaced"] == tuple(range(113))
    assert compress(history, once()[1]).steps[:-1] == tuple(steps)
    assert [step.action for step in explain_compress([])] == ["count", "stop"]


def test_the_numbers_of_an_outcome_are_those_of_its_messages() -> None:
    outcome = compress([system(), *talk(30)], once()[1])
    assert outcome.tokens_before == estimate_tokens(talk(30))
    assert outcome.tokens_after == estimate_tokens(outcome.messages[1:])


@pytest.mark.parametrize(
    "wrong", [{"trigger": -1}, {"keep_recent": -1}, {"keep_recent": 2.0}, {"trigger": True}, {"rule": "anywhere"}]
)
def test_a_policy_that_cannot_work_is_refused_when_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises((WrongArgument, UnknownName)) as caught:
        Policy(**wrong)
    assert isinstance(caught.value, ValueError)


def test_the_default_policy_is_the_labs() -> None:
    assert (DEFAULT_POLICY.trigger, DEFAULT_POLICY.keep_recent, DEFAULT_POLICY.rule) == (5600, 6, "pair-safe")


# Pruning


def test_a_long_result_keeps_its_head_and_tail_and_says_how_much_went() -> None:
    text = "".join(chr(97 + n % 26) for n in range(10_000))
    pruned = prune_tool_result(text)
    assert pruned == f"{text[:4096]}\n[... 4,880 of 10,000 characters pruned ...]\n{text[-1024:]}"
    assert prune_tool_result(pruned) == pruned


def test_a_result_of_exactly_the_limit_stays() -> None:
    assert prune_tool_result("x" * 8192) == "x" * 8192
    assert len(prune_tool_result("x" * 8193)) < 8192


def test_a_result_never_gets_longer() -> None:
    assert prune_tool_result("x" * 11, limit=10, head=5, tail=5) == "x" * 11
    assert prune_tool_result("", limit=0, head=0, tail=0) == ""


@pytest.mark.parametrize(
    ("whole", "length"),
    [("e\u0301", 2), ("👩\u200d🚀", 3), ("👍🏽", 2), ("🇫🇷", 2), ("\ud83d\ude00", 2), ("☁\ufe0f", 2)],
)
def test_a_composed_character_at_the_edge_is_kept_whole(whole: str, length: int) -> None:
    assert len(whole) == length
    text = "a" * 9 + whole + "b" * 400 + whole + "c" * 9
    pruned = prune_tool_result(text, limit=100, head=10, tail=10)
    assert pruned.startswith("a" * 9 + whole + "\n[... ")
    assert pruned.endswith(" ...]\n" + whole + "c" * 9)


@pytest.mark.parametrize(
    "wrong", [{"limit": -1}, {"head": -1}, {"tail": 1.5}, {"limit": 100, "head": 60, "tail": 60}, {"limit": True}]
)
def test_sizes_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(WrongArgument):
        prune_tool_result("text", **wrong)


def test_only_tool_results_are_pruned_each_text_part_on_its_own() -> None:
    long = "x" * 9000
    image = {"type": "image_url", "image_url": {"url": "data:," + long}}
    history = [
        user(long),
        calling("a"),
        result("a", [{"type": "text", "text": long}, image, {"type": "text", "text": "s"}]),
    ]
    pruned = prune_history(history)
    assert pruned[:2] == history[:2]
    assert pruned[2]["content"] == [
        {"type": "text", "text": prune_tool_result(long)},
        image,
        {"type": "text", "text": "s"},
    ]


def test_call_arguments_are_pruned_on_request_and_stay_json() -> None:
    body = "line\n" * 4000
    arguments = '{"path": "a.py",  "size": 1e400, "body": ' + json.dumps(body) + "}"
    call = {"id": "a", "type": "function", "function": {"name": "write", "arguments": arguments}}
    history = [{"role": "assistant", "content": None, "tool_calls": [call]}, result("a")]
    assert prune_history(history) == history
    after = prune_history(history, arguments=True)[0]["tool_calls"][0]["function"]["arguments"]
    assert after.startswith('{"path": "a.py",  "size": 1e400, "body": "line\\n')
    assert json.loads(after)["body"] == prune_tool_result(body)
    (step,) = explain_prune(history, arguments=True)
    assert dict(step.data) == {"before": len(arguments), "after": len(after)}


def test_arguments_that_are_no_json_and_keys_are_left_alone() -> None:
    for arguments in ("{'path': " + "x" * 9000, json.dumps({"k" * 9000: 1})):
        call = {"id": "a", "type": "function", "function": {"name": "write", "arguments": arguments}}
        history = [{"role": "assistant", "content": None, "tool_calls": [call]}, result("a")]
        assert prune_history(history, arguments=True) == history


def test_half_a_surrogate_pair_in_arguments_stays_an_escape() -> None:
    arguments = '{"body": "\\ud83d' + "é" * 9000 + '"}'
    call = {"id": "a", "type": "function", "function": {"name": "write", "arguments": arguments}}
    pruned = prune_history([{"role": "assistant", "content": None, "tool_calls": [call]}], arguments=True)
    assert "characters pruned" in pruned[0]["tool_calls"][0]["function"]["arguments"]
    assert json.dumps(pruned, ensure_ascii=False).encode()  # UTF-8 has no half of a pair
