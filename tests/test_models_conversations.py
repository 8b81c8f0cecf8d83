"""Manufactured conversations, scripted summaries, and the worked example by the real counter."""

from __future__ import annotations

import pytest

from ctxlab.budget import MAX_TOKENS, history_trigger
from ctxlab.compress import Compressed, compress
from ctxlab.errors import WrongArgument
from ctxlab.models import (
    SHOP_TOOLS,
    MockModel,
    Shop,
    conversation,
    facts_in,
    play_round,
    rounds_of,
    summarise,
    summarise_carelessly,
)
from ctxlab.providers import validate
from ctxlab.rounds import split_rounds
from ctxlab.tokens import count_message, estimate_tokens

SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_thirty_rounds_of_four_messages_are_about_30_000_tokens(seed: int) -> None:
    history = conversation(30, seed)
    assert len(history) == 120
    assert [message["role"] for message in history[:4]] == ["user", "assistant", "tool", "assistant"]
    assert estimate_tokens(history) == pytest.approx(30_000, rel=0.05)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_worked_example_is_a_summary_of_600_and_1_500_of_recent_messages(seed: int) -> None:
    history = conversation(30, seed)
    outcome = compress(history, summarise)
    assert isinstance(outcome, Compressed)
    assert count_message({"role": "user", "content": outcome.summary}) == pytest.approx(600, rel=0.15)
    assert estimate_tokens(history[-6:]) == pytest.approx(1_500, rel=0.2)
    assert outcome.tokens_after == pytest.approx(2_100, rel=0.15)
    assert outcome.tokens_before / outcome.tokens_after == pytest.approx(14, rel=0.15)


def test_the_threshold_is_reached_in_the_sixth_round() -> None:
    total, reached = 0, 0
    for one in rounds_of(10, seed=1):
        total += sum(count_message(message) for message in one)
        reached += 1
        if total >= history_trigger(MAX_TOKENS):
            break
    assert reached == 6  # 5,600 tokens at about 1,000 a round


def test_the_same_seed_gives_the_same_conversation() -> None:
    assert conversation(5, 3) == conversation(5, 3)
    assert conversation(5, 3) != conversation(5, 4)
    assert conversation(8, 3)[:20] == conversation(5, 3)


@pytest.mark.parametrize("provider", ["openai", "openai_responses", "anthropic", "gemini"])
def test_a_conversation_is_valid_with_parallel_calls_too(provider: str) -> None:
    history = conversation(20, 2, parallel_every=3)
    assert validate(history[:-1], provider) == []  # as a request: it ends with the tool's results
    assert max(len(message.get("tool_calls", ())) for message in history) == 2
    assert [len(one) for one in split_rounds(history)][:3] == [4, 4, 5]


def test_the_length_of_a_round_can_be_chosen() -> None:
    for tokens in (500, 1_000, 3_000):
        assert estimate_tokens(conversation(20, 1, tokens)) / 20 == pytest.approx(tokens, rel=0.1)


def test_a_conversation_that_cannot_be_made_is_refused() -> None:
    for arguments in ((-1,), (True,), (2, 0, 100)):
        with pytest.raises(WrongArgument):
            conversation(*arguments)


def test_the_first_round_states_what_must_not_be_lost() -> None:
    stated = facts_in(conversation(1, 0))
    assert [fact.kind for fact in stated] == ["home", "budget", "never_ship"]
    assert facts_in(conversation(30, 0)) == stated


@pytest.mark.parametrize("seed", SEEDS)
def test_a_careful_summary_keeps_what_the_user_stated_and_a_careless_one_loses_it(seed: int) -> None:
    history = conversation(10, seed)
    stated = facts_in(history)
    assert facts_in(compress(history, summarise).messages) == stated
    assert facts_in(compress(history, summarise_carelessly).messages) == []


def test_a_lost_fact_is_a_wrong_answer_that_a_reader_sees() -> None:
    history = conversation(10, 0)
    home = next(fact.value for fact in facts_in(history) if fact.kind == "home")
    never = next(fact.value for fact in facts_in(history) if fact.kind == "never_ship")
    answers = {}
    for summarizer in (summarise, summarise_carelessly):
        kept = compress(history, summarizer).messages
        question = [*kept, {"role": "user", "content": "where did I say I live?"}]
        order = [*kept, {"role": "user", "content": f"order TE-01 and ship it to {never}"}]
        made = play_round(MockModel(), order, SHOP_TOOLS, Shop().run_tool)
        answers[summarizer] = (MockModel().reply(question)["content"], made[-1]["content"])
    assert answers[summarise] == (
        f"You said that you live in {home}.",
        f"I did not order it: you said never to ship to {never}.",
    )
    assert answers[summarise_carelessly][0].startswith("I do not know where you live")
    assert answers[summarise_carelessly][1].startswith("Ordered: 1 x Green tea")


def test_a_second_summary_folds_the_first_one_in() -> None:
    first = compress(conversation(10, 5), summarise).messages
    grown = [*first, *conversation(20, 5)[40:]]
    second = compress(grown, summarise)
    assert isinstance(second, Compressed)
    assert facts_in(second.messages) == facts_in(conversation(10, 5))
    assert second.summary.count("What the user stated:") == 1
    assert second.summary.count("What was done:") == 1
    assert "A-" in second.summary


def test_a_summary_names_what_was_ordered_and_refunded() -> None:
    history: list[dict] = []
    shop = Shop()
    for text in ("I live in Lyon", "buy TP-01", "refund A-1042", "how much is shipping to Oslo?", "where is B-0000?"):
        history.append({"role": "user", "content": text})
        history += play_round(MockModel(), history, SHOP_TOOLS, shop.run_tool)
    order = next(iter(shop.placed))
    assert summarise(history) == (
        "What the user stated:\n- The user lives in Lyon.\nWhat was done:\n"
        f"- Order {order}: placed, 1 x TP-01 to Lyon\n- Order A-1042: refunded"
    )


def test_the_model_writes_the_summary_when_it_is_asked_to() -> None:
    history = conversation(3, 0)
    asked = MockModel().reply([*history, {"role": "user", "content": "Summarise the conversation so far."}])
    assert asked["content"] == summarise(history)
    by_system = MockModel().reply([{"role": "system", "content": "Summarize what follows."}, *history])
    assert by_system["content"] == summarise(history)
