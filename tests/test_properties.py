"""What holds for every history: nothing that ctxlab does makes a provider refuse what it would have taken."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from histories import Dict, any_history, user, well_formed
from hypothesis import assume, given
from hypothesis import strategies as st

from ctxlab.compress import Compressed, Policy, Refused, Unchanged, compress, explain_compress
from ctxlab.messages import Message, as_messages
from ctxlab.providers import PAIRING_RULES, PROVIDERS, validate
from ctxlab.pruning import explain_prune, prune_history, prune_tool_result
from ctxlab.repairs import REPAIR_MODES, explain_repair, repair
from ctxlab.rounds import align_to_round_start, align_to_turn_start, explain_cut, pairing, split_rounds

HISTORIES = st.one_of(well_formed(plain=True), well_formed())
MENDED = PAIRING_RULES | {"A3", "G2", "R3"}
"""What a repair mends: the pairing rules, and three rules about ids, order and reasoning that it can mend as well."""


def takers(history: list[Dict]) -> list[str]:
    return [provider for provider in PROVIDERS if not validate(history, provider)]


def refusals(history: list[Dict], providers: list[str]) -> list[tuple[str, str, int | None]]:
    return [(provider, found.rule, found.index) for provider in providers for found in validate(history, provider)]


def systems(history: list[Dict]) -> list[Dict]:
    return [message for message in history if message["role"] in ("system", "developer")]


def talk(history: list[Dict]) -> list[Dict]:
    return [message for message in history if message["role"] not in ("system", "developer")]


def in_order(needles: list[Any], hay: list[Any]) -> bool:
    rest = iter(hay)
    return all(needle in rest for needle in needles)


def pairing_faults(history: list[Dict]) -> list[tuple[str, str, int | None]]:
    """Broken rules that a repair has to mend, warnings included. A call without a function's name (G6 at an assistant
    message) is not about which result answers which call."""
    return [
        (provider, found.rule, found.index)
        for provider in PROVIDERS
        for found in validate(history, provider, warnings=True)
        if found.rule in MENDED and not (found.rule == "G6" and history[found.index or 0]["role"] == "assistant")
    ]


# Cuts and forks


@given(HISTORIES, st.data())
def test_a_pair_safe_cut_parts_no_call_from_its_result(history: list[Dict], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(history)))
    cut = align_to_turn_start(history, index)
    assert 0 <= cut <= index
    assert align_to_turn_start(history, cut) == cut
    assert all((c.index < cut) == (c.result < cut) for c in pairing(history).calls if c.result is not None)


@given(any_history(), st.data())
def test_a_cut_is_safe_in_a_broken_history_too(history: list[Dict], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(history)))
    for rule, align in (("pair-safe", align_to_turn_start), ("round-start", align_to_round_start)):
        cut = align(history, index)
        assert all((c.index < cut) == (c.result < cut) for c in pairing(history).calls if c.result is not None)
        steps = explain_cut(history, index, rule)
        assert [steps[0].index, steps[-1].index] == [index, cut]
        assert all(a.index > b.index for a, b in pairwise(steps[:-1]))


@given(HISTORIES, st.data())
def test_what_follows_a_round_start_cut_is_taken_by_whoever_took_the_whole(
    history: list[Dict], data: st.DataObject
) -> None:
    cut = align_to_round_start(history, data.draw(st.integers(0, len(history))))
    assume(cut < len(history))
    assert cut == 0 or history[cut]["role"] == "user"
    assert refusals([*systems(history[:cut]), *history[cut:]], takers(history)) == []


@given(HISTORIES, st.data())
def test_what_follows_a_pair_safe_cut_is_taken_behind_a_user_message(history: list[Dict], data: st.DataObject) -> None:
    cut = align_to_turn_start(history, data.draw(st.integers(0, len(history))))
    rest = talk(history[cut:])
    lead = [user("what was said before")] if rest and rest[0]["role"] == "assistant" else []
    assume(rest)
    front = [m for m in history[:cut] if m["role"] == "system"]
    assert refusals([*front, *lead, *history[cut:]], takers(history)) == []


@given(HISTORIES, st.data())
def test_a_fork_is_taken_by_whoever_took_the_parent(history: list[Dict], data: st.DataObject) -> None:
    fork = history[: align_to_turn_start(history, data.draw(st.integers(0, len(history))))]
    if not talk(fork) or talk(fork)[-1]["role"] not in ("user", "tool"):
        fork = [*fork, user("go on from here")]  # a fork is made to be gone on with
    assert refusals(fork, takers(history)) == []


@given(any_history())
def test_rounds_cover_the_history_once_and_each_but_the_first_begins_with_the_user(history: list[Dict]) -> None:
    rounds = split_rounds(history)
    assert [index for one in rounds for index in one] == list(range(len(history)))
    assert all(history[one.start]["role"] == "user" for one in rounds[1:])
    assert all(history[index]["role"] != "user" for one in rounds for index in one[1:])


# Compression

POLICIES = st.builds(
    Policy,
    trigger=st.sampled_from([0, 1, 40, 120, 400]),
    keep_recent=st.integers(0, 8),
    rule=st.sampled_from(["pair-safe", "round-start"]),
)


@given(HISTORIES, POLICIES, st.sampled_from(["s", "They talked about files.", "long " * 400]))
def test_a_compression_shrinks_the_history_or_returns_it_with_the_reason(
    history: list[Dict], policy: Policy, text: str
) -> None:
    before = json.dumps(history)
    asked: list[list[Dict]] = []
    outcome = compress(history, lambda early: asked.append(early) or text, policy)
    assert json.dumps(history) == before
    assert outcome.why
    assert outcome.steps[: len(explain_compress(history, policy))] == tuple(explain_compress(history, policy))
    if not isinstance(outcome, Compressed):
        assert isinstance(outcome, (Unchanged, Refused))
        assert outcome.messages == history
        assert len(asked) == isinstance(outcome, Refused)
        return
    short = outcome.messages
    assert policy.count(as_messages(short)) < policy.count(as_messages(history))
    assert systems(short) == systems(history)
    assert asked == [talk(history[: outcome.cut])]
    assert policy.keep_recent == 0 or short[-policy.keep_recent :] == history[-policy.keep_recent :]
    assert refusals(short, takers(history)) == []


@given(HISTORIES, st.integers(1, 8))
def test_compressing_again_keeps_one_summary(history: list[Dict], keep: int) -> None:
    policy = Policy(trigger=1, keep_recent=keep)
    first = compress(history, lambda _: "one", policy)
    assume(isinstance(first, Compressed))
    again = compress([*first.messages, *talk(history)], lambda _: "two", policy)
    assume(isinstance(again, Compressed))
    assert sum("[Summary of" in Message.of(message).text for message in again.messages) == 1
    assert refusals(again.messages, takers([*history, *talk(history)])) == []


@given(HISTORIES, st.integers(0, 8))
def test_the_request_at_work_stays_verbatim(history: list[Dict], keep: int) -> None:
    outcome = compress(history, lambda _: "s", Policy(trigger=1, keep_recent=keep))
    last = max(index for index, message in enumerate(history) if message["role"] == "user")
    answered = talk(history)[-1]["role"] == "assistant" and not talk(history[len(history) - keep :])
    assert answered or history[last] in outcome.messages


# Pruning

LIMITS = st.tuples(st.integers(0, 60), st.integers(0, 40), st.integers(0, 40)).filter(lambda n: n[1] + n[2] <= n[0])


@given(HISTORIES, LIMITS, st.booleans())
def test_pruning_makes_no_provider_refuse_and_nothing_longer(
    history: list[Dict], limits: tuple[int, int, int], arguments: bool
) -> None:
    limit, head, tail = limits
    pruned = prune_history(history, limit=limit, head=head, tail=tail, arguments=arguments)
    assert refusals(pruned, takers(history)) == []
    assert systems(pruned) == systems(history)
    assert [m for m in pruned if m["role"] != "tool"] == [m for m in history if m["role"] != "tool"]
    assert all(len(a.text) <= len(b.text) for a, b in zip(as_messages(pruned), as_messages(history), strict=True))
    steps = explain_prune(history, limit=limit, head=head, tail=tail, arguments=arguments)
    assert [s.index for s in steps] == [i for i, (a, b) in enumerate(zip(pruned, history, strict=True)) if a != b]


@given(st.text(), st.integers(1, 6), LIMITS)
def test_a_pruned_text_keeps_its_ends_is_never_longer_and_is_not_pruned_again(
    text: str, times: int, limits: tuple[int, int, int]
) -> None:
    text *= times * 20
    limit, head, tail = limits
    pruned = prune_tool_result(text, limit, head, tail)
    assert len(pruned) <= len(text)
    assert pruned.startswith(text[:head])
    assert pruned.endswith(text[len(text) - tail :] if tail < len(text) else text)
    assert prune_tool_result(pruned, limit, head, tail) == pruned


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.booleans(), LIMITS)
def test_pruned_arguments_are_json_of_the_same_shape(
    value: Any, ascii_only: bool, limits: tuple[int, int, int]
) -> None:
    def shape(of: Any) -> Any:
        if isinstance(of, dict):
            return {key: shape(item) for key, item in of.items()}
        if isinstance(of, list):
            return [shape(item) for item in of]
        return "text" if isinstance(of, str) else of

    limit, head, tail = limits
    text = json.dumps({"value": value}, ensure_ascii=ascii_only)
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": text}}
    history = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    (pruned,) = prune_history(history, limit=limit, head=head, tail=tail, arguments=True)
    after = pruned["tool_calls"][0]["function"]["arguments"]
    assert shape(json.loads(after)) == shape(json.loads(text))
    assert len(after) <= len(text)


# Repair


@pytest.mark.parametrize("mode", REPAIR_MODES)
@given(history=any_history())
def test_after_a_repair_no_pairing_rule_of_any_provider_is_broken(mode: str, history: list[Dict]) -> None:
    before = json.dumps(history)
    mended = repair(history, mode)
    assert json.dumps(history) == before
    assert pairing_faults(mended) == []


@pytest.mark.parametrize("mode", REPAIR_MODES)
@given(history=any_history())
def test_repairing_twice_changes_nothing(mode: str, history: list[Dict]) -> None:
    once = repair(history, mode)
    assert repair(once, mode) == once
    assert explain_repair(once, mode) == []
    assert repair(once, "discard") == repair(once, "append") == once


@pytest.mark.parametrize("mode", REPAIR_MODES)
@given(history=any_history())
def test_a_repair_touches_nothing_that_was_valid_and_explains_whatever_it_does(mode: str, history: list[Dict]) -> None:
    changed = repair(history, mode) != history
    assert changed == bool(explain_repair(history, mode))
    empty_ids = any(c.get("id") == "" for message in history for c in message.get("tool_calls", []))
    assert not changed or pairing_faults(history) or empty_ids


@pytest.mark.parametrize("mode", REPAIR_MODES)
@given(history=HISTORIES)
def test_a_well_formed_history_with_unique_ids_comes_back_equal(mode: str, history: list[Dict]) -> None:
    assert repair(history, mode, unique_ids=False) == history
    names = [c["id"] for message in history for c in message.get("tool_calls", [])]
    if len(set(names)) == len(names):
        assert repair(history, mode) == history


@pytest.mark.parametrize("mode", REPAIR_MODES)
@given(history=any_history())
def test_a_repair_loses_no_user_and_no_system_message(mode: str, history: list[Dict]) -> None:
    mended = repair(history, mode)
    assert systems(mended) == systems(history)
    assert in_order([m for m in history if m["role"] == "user"], [m for m in mended if m["role"] == "user"])


@given(any_history())
def test_an_appending_repair_loses_no_call_and_no_result_that_has_one(history: list[Dict]) -> None:
    mended = repair(history)
    pairs = pairing(history)
    placed = Counter(json.dumps(history[place]["content"]) for place in pairs.call_of)
    there = Counter(json.dumps(message["content"]) for message in mended if message["role"] == "tool")
    assert placed <= there
    assert there.total() == len(pairs.calls) == sum(len(m.get("tool_calls") or []) for m in mended)
