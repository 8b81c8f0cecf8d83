"""The four parts, both triggers (with what the published lessons get wrong), and what an API answers at overflow."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxlab.budget import (
    KEEP_RECENT,
    MAX_TOKENS,
    TRIGGER_RATIO,
    Budget,
    billed_tokens,
    crossing,
    history_trigger,
    pressure_binds,
    pressure_trigger,
)
from ctxlab.errors import BudgetError, UnknownName

counts = st.integers(0, 200_000)


def test_the_labs_constants():
    assert (MAX_TOKENS, TRIGGER_RATIO, KEEP_RECENT) == (8_000, 0.7, 6)


# --- the four parts -------------------------------------------------------------------------------------------------


def test_a_128k_window_never_means_128k_of_history():
    budget = Budget(128_000, system=2_000, tools=9_000, reserve=16_384, margin=4_000)
    assert budget.history == 96_616
    assert 0.6 < budget.history / budget.window < 0.8


def test_parts_come_in_drawing_order_and_fill_the_window():
    budget = Budget(1_000, system=100, tools=200, reserve=300, margin=50)
    assert budget.parts(150) == (
        ("system", 100),
        ("tools", 200),
        ("reserve", 300),
        ("margin", 50),
        ("history", 150),
        ("free", 200),
    )
    assert dict(budget.parts(500))["free"] == 0


def test_overflow_counts_from_the_historys_budget_and_over_window_from_the_window():
    budget = Budget(1_000, system=100, tools=200, reserve=300, margin=50)
    assert [budget.overflow(tokens) for tokens in (0, 350, 351, 400, 401)] == [0, 0, 1, 50, 51]
    assert [budget.over_window(tokens) for tokens in (0, 350, 351, 400, 401)] == [0, 0, 0, 0, 1]


def test_the_verdict_says_who_is_over_and_by_how_much():
    budget = Budget(1_000, system=100, tools=200, reserve=300, margin=50)
    assert (budget.verdict(350).state, budget.verdict(350).text) == ("fits", "fits: 0 tokens are free")
    assert (budget.verdict(360).state, budget.verdict(360).over) == ("margin", 10)
    over = budget.verdict(700)
    assert (over.state, over.over, over.over_window, over.largest) == ("over", 350, 300, "history")
    assert Budget(1_000, tools=800).verdict(300).largest == "tools"


def test_a_budget_that_leaves_nothing_is_refused_when_it_is_made_with_the_number_to_lower():
    with pytest.raises(BudgetError) as caught:
        Budget(8_192, system=500, tools=1_200, reserve=8_192)
    assert "reserve 8,192" in str(caught.value)
    assert caught.value.hint.startswith("lower reserve to at most 6,491")
    assert (caught.value.largest, caught.value.at_most) == ("reserve", 6_491)
    assert Budget(8_192, system=500, tools=1_200, reserve=6_491).history == 1
    assert isinstance(caught.value, ValueError)


def test_where_lowering_one_part_is_not_enough_the_hint_says_all():
    with pytest.raises(BudgetError) as caught:
        Budget(100, system=300, tools=300, reserve=300)
    assert caught.value.hint.startswith("lower all of them")


@pytest.mark.parametrize("field", ["window", "system", "tools", "reserve", "margin"])
@pytest.mark.parametrize("value", [-1, 1.0, "8000", None, True, math.nan])
def test_numbers_that_are_no_token_counts_are_refused_by_name(field, value):
    with pytest.raises(BudgetError, match=field):
        Budget(**{"window": 10_000, field: value})


def test_a_window_of_nothing_and_a_history_that_is_no_count_are_refused():
    with pytest.raises(BudgetError, match="window"):
        Budget(0)
    for value in (-1, 2.5, True, None):
        with pytest.raises(BudgetError, match="history_tokens"):
            Budget(100).overflow(value)


@given(st.integers(1, 1_000_000), counts, counts, counts, counts, counts)
def test_every_budget_either_adds_up_or_is_refused(window, system, tools, reserve, margin, history):
    if system + tools + reserve + margin >= window:
        with pytest.raises(BudgetError) as caught:
            Budget(window, system, tools, reserve, margin)
        assert caught.value.hint
        return
    budget = Budget(window, system, tools, reserve, margin)
    assert budget.history >= 1
    parts = dict(budget.parts(history))
    assert sum(parts.values()) - budget.overflow(history) == window
    fits = system + tools + reserve + history <= window
    assert (budget.over_window(history) == 0) == fits
    assert (budget.api_error("openai", history) is None) == fits


# --- what the API answers -------------------------------------------------------------------------------------------


def test_openais_answer_by_what_the_request_holds():
    plain = Budget(128_000).api_error("openai", 204_308)
    assert plain is not None
    assert plain.text == (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens. "
        "Please reduce the length of the messages."
    )
    assert (plain.status, plain.code) == (400, "context_length_exceeded")
    tools = Budget(128_000, tools=101).api_error("openai", 202_767)
    assert tools is not None
    assert "resulted in 202868 tokens (202767 in the messages, 101 in the functions)" in tools.text
    completion = Budget(4_097, reserve=256).api_error("openai", 4_012)
    assert completion is not None
    assert "you requested 4268 tokens (4012 in the messages, 256 in the completion)" in completion.text
    whole = Budget(8_192, tools=730, reserve=800).api_error("openai", 6_683)
    assert whole is not None
    assert whole.text == (
        "This model's maximum context length is 8192 tokens. However, you requested 8213 tokens (6683 in the messages, "
        "730 in the functions, and 800 in the completion). Please reduce the length of the messages, functions, or "
        "completion."
    )


def test_anthropics_answer_tells_a_long_prompt_from_a_large_max_tokens():
    prompt = Budget(200_000, system=8_310).api_error("anthropic", 200_000)
    both = Budget(200_000, reserve=64_000).api_error("anthropic_2024", 178_959)
    assert prompt is not None
    assert both is not None
    assert prompt.text == "prompt is too long: 208310 tokens > 200000 maximum"
    assert both.text == (
        "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or "
        "`max_tokens` and try again"
    )


def test_gemini_and_mistral_hold_the_prompt_alone_against_the_window():
    gemini = Budget(1_048_576).api_error("gemini", 1_200_293)
    assert gemini is not None
    assert gemini.text == "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."
    assert Budget(10_000, reserve=5_000).api_error("gemini", 9_000) is None
    assert Budget(10_000, reserve=5_000).api_error("mistral_api_2025", 9_000) is None
    mistral = Budget(131_072).api_error("mistral", 300_000)
    assert mistral is not None
    assert mistral.text == "Prompt contains 300000 tokens, too large for model with 131072 maximum context length"


def test_every_error_names_where_its_text_was_seen_and_an_unknown_provider_is_refused():
    for provider in ("openai", "openai_responses", "anthropic_no_prefill", "gemini", "mistral"):
        error = Budget(100).api_error(provider, 101)
        assert error is not None
        assert error.source
        assert Budget(100).api_error(provider, 100) is None
    with pytest.raises(UnknownName) as caught:
        Budget(100).api_error("opnai", 5)
    assert "did you mean 'openai'?" in caught.value.hint


# --- the lab's trigger ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "ratio", "expected"),
    [
        (8_000, 0.7, 5_600),
        (10, 0.7, 7),
        (9, 0.7, 7),  # 6.3: seven is the first whole number that reaches it
        (100, 0.07, 7),  # 7.000000000000001 in floats, whose ceiling is 8
        (100, 0.29, 29),  # 28.999999999999996 in floats
        (1_000, 0.57, 570),
        (1, 0.7, 1),
        (8_000, 1, 8_000),
        (3, Fraction(1, 3), 1),
        (10, Decimal("0.7"), 7),
    ],
)
def test_the_history_trigger_is_exact_at_the_edge(budget, ratio, expected):
    assert history_trigger(budget, ratio) == expected


@given(st.integers(1, 10**9), st.integers(1, 1_000))
def test_the_history_trigger_is_the_least_count_that_reaches_the_ratio(budget, thousandths):
    trigger = history_trigger(budget, thousandths / 1_000)
    assert trigger * 1_000 >= thousandths * budget > (trigger - 1) * 1_000


@pytest.mark.parametrize("ratio", [0, -0.1, 1.1, math.nan, math.inf, True, "0.7", None, Decimal("NaN")])
def test_a_ratio_that_cannot_work_is_refused(ratio):
    with pytest.raises(BudgetError, match="ratio"):
        history_trigger(8_000, ratio)
    with pytest.raises(BudgetError, match="threshold_ratio"):
        pressure_trigger(200_000, threshold_ratio=ratio)


@pytest.mark.parametrize("budget", [0, -5, 1.5, True, None])
def test_a_history_budget_that_cannot_work_is_refused(budget):
    with pytest.raises(BudgetError, match="history_budget"):
        history_trigger(budget)


# --- the harness's trigger ------------------------------------------------------------------------------------------


def test_below_the_crossing_the_reserve_binds_and_above_it_the_ratio():
    assert pressure_trigger(200_000) == min(160_000, 134_464) == 134_464
    assert pressure_binds(200_000) == "reserve"
    assert pressure_trigger(400_000) == min(320_000, 334_464) == 320_000
    assert pressure_binds(400_000) == "ratio"


def test_at_327680_both_rules_give_262144():
    assert crossing() == 327_680
    assert pressure_trigger(327_680) == 262_144 == 327_680 - 65_536
    assert pressure_binds(327_680) == "both"
    assert (pressure_binds(327_679), pressure_binds(327_681)) == ("reserve", "ratio")


@pytest.mark.parametrize("completion", [0, 1, 1_000, 8_192, 64_000])
def test_with_completion_tokens_the_crossing_moves_by_five_times_as_many(completion):
    assert crossing(completion) == 327_680 + 5 * completion
    assert pressure_binds(crossing(completion), completion) == "both"


@pytest.mark.parametrize("completion", [0, 4_096, 70_000])
def test_at_or_below_headroom_and_completion_nothing_is_left(completion):
    edge = 65_536 + completion
    assert pressure_trigger(edge + 1, completion) == 1
    for window in (edge, edge - 1, 1):
        with pytest.raises(ValueError, match="nothing is left") as caught:
            pressure_trigger(window, completion)
        assert "lower" in caught.value.hint
    with pytest.raises(BudgetError) as caught:
        pressure_trigger(edge, completion)
    repaired = {"completion_tokens": completion, "headroom_tokens": 65_536} | {
        caught.value.largest: caught.value.at_most
    }
    assert pressure_trigger(edge, **repaired) == 1


@given(st.integers(1, 2_000_000), st.integers(0, 100_000), st.integers(1, 100), st.integers(0, 100_000))
def test_the_pressure_trigger_is_the_floor_of_the_smaller_rule(window, completion, percent, headroom):
    left = window - completion - headroom
    if left <= 0:
        with pytest.raises(BudgetError):
            pressure_trigger(window, completion, percent / 100, headroom)
    else:
        expected = min(window * percent // 100, left)
        assert pressure_trigger(window, completion, percent / 100, headroom) == expected


@given(st.integers(0, 100_000), st.integers(1, 99), st.integers(0, 100_000))
def test_the_crossing_is_the_first_window_where_the_reserve_no_longer_decides(completion, percent, headroom):
    edge = crossing(completion, percent / 100, headroom)
    if edge > completion + headroom:
        assert pressure_binds(edge, completion, percent / 100, headroom) != "reserve"
    if edge - 1 > completion + headroom:
        assert pressure_binds(edge - 1, completion, percent / 100, headroom) == "reserve"


def test_a_ratio_of_one_has_no_crossing():
    with pytest.raises(BudgetError, match="never decides"):
        crossing(threshold_ratio=1)


# --- the bill -------------------------------------------------------------------------------------------------------


def test_the_bill_grows_with_the_square_of_the_rounds():
    assert billed_tokens(3, 1_000) == 1_000 + 2_000 + 3_000
    assert billed_tokens(30, 1_000) == 465_000
    assert billed_tokens(60, 1_000) == 1_830_000  # twice the rounds, almost four times the bill
    assert billed_tokens(30, 1_000, fixed=500) == 465_000 + 30 * 500
    assert billed_tokens(0, 1_000) == 0


def test_a_compressed_history_is_billed_at_its_compressed_length():
    # Rounds 1 to 6 send 1,000 to 6,000: 21,000. Then six times over: one call for the summary (6,000, later 6,100
    # tokens) and four rounds of 3,100 to 6,100: 18,400.
    assert billed_tokens(30, 1_000, trigger=5_600, compressed_to=2_100) == 21_000 + 6_000 + 5 * 6_100 + 6 * 18_400


@given(st.integers(0, 80), st.integers(1, 2_000), st.integers(0, 3_000))
def test_a_trigger_that_is_never_reached_changes_nothing(rounds, per_round, fixed):
    never = rounds * per_round + 1
    assert billed_tokens(rounds, per_round, fixed, trigger=never) == billed_tokens(rounds, per_round, fixed)


def test_a_summary_that_is_not_below_the_trigger_is_refused():
    with pytest.raises(BudgetError, match="not below the trigger"):
        billed_tokens(10, 100, trigger=500, compressed_to=500)
    with pytest.raises(BudgetError, match="rounds"):
        billed_tokens(-1, 100)


# --- numbers of other kinds -----------------------------------------------------------------------------------------


class Whole:
    """Like ``numpy.int64``, which is no int but can stand for one."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Share(float):
    """Like ``numpy.float64``, whose repr is not the number alone."""

    def __repr__(self):
        return f"share({float(self)})"


def test_a_table_s_numbers_count_as_the_numbers_they_are():
    budget = Budget(Whole(1_000), reserve=Whole(300))
    assert (budget, type(budget.window)) == (Budget(1_000, reserve=300), int)
    assert history_trigger(Whole(8_000), Share(0.7)) == 5_600
    assert pressure_trigger(Whole(200_000), Whole(0)) == 134_464


def test_the_refusal_shows_its_sum_and_the_number_to_lower():
    with pytest.raises(BudgetError) as caught:
        Budget(8_000, system=500, reserve=9_000)
    assert str(caught.value) == (
        "nothing is left for the history: system 500 + tools 0 + reserve 9,000 + margin 0 = 9,500 of a window of 8,000"
    )
    assert caught.value.hint == "lower reserve to at most 7,499, or take a model with a larger window"
    with pytest.raises(BudgetError) as caught:
        pressure_trigger(1_000, completion_tokens=2_000, headroom_tokens=3_000)
    assert caught.value.hint == "lower both completion_tokens and headroom_tokens"
    with pytest.raises(BudgetError) as caught:
        pressure_trigger(4_000, completion_tokens=3_000, headroom_tokens=1_000)
    assert caught.value.hint == "lower completion_tokens to at most 2,999"
