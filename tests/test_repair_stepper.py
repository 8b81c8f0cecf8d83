"""The repair as a picture: the library's repair laid beside what was found, and each provider's answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import traitlets
from histories import any_history, calling, result, says, user
from hypothesis import given
from test_cases import CASES
from test_cut_stepper import run_in_node

from ctxlab.errors import MalformedMessage, UnknownName
from ctxlab.messages import as_messages, to_dicts
from ctxlab.providers import PROVIDERS, validate
from ctxlab.repairs import REPAIR_MODES, explain_repair, repair
from ctxlab.widgets import RepairStepper
from ctxlab.widgets.cards import cards
from ctxlab.widgets.repair_picture import case, cases, check, picture, static_html

PARTIAL = "some-results-of-a-batch"


def lines(shown: dict[str, Any], mode: str) -> list[tuple[str, int, int | None]]:
    return [(line["kind"], line["step"], line["card"]["i"]) for line in shown["modes"][mode]["lines"]]


def test_append_puts_the_missing_result_right_behind_the_batch() -> None:
    shown = picture(case(PARTIAL).history)
    assert lines(shown, "append") == [
        ("kept", 0, 0), ("kept", 0, 1), ("kept", 0, 2), ("kept", 0, 3),
        ("new", 1, None), ("kept", 0, 4), ("kept", 0, 5),
    ]  # fmt: skip
    new = shown["modes"]["append"]["lines"][4]["card"]
    assert (new["role"], new["answers"]) == ("tool", 1)
    assert new["text"].startswith("[interrupted]")


def test_discard_strikes_the_batch_step_by_step() -> None:
    shown = picture(case(PARTIAL).history)
    assert lines(shown, "discard") == [
        ("kept", 0, 0), ("gone", 1, 1), ("gone", 2, 2), ("gone", 3, 3), ("kept", 0, 4), ("kept", 0, 5),
    ]  # fmt: skip
    assert [step["rule"] for step in shown["modes"]["discard"]["steps"]] == ["O2"] * 3


def test_a_late_result_is_shown_where_it_was_and_where_it_went() -> None:
    shown = picture(case("a-user-message-between-two-results").history)
    assert lines(shown, "append") == [
        ("kept", 0, 0), ("kept", 0, 1), ("kept", 0, 2), ("moved", 1, 4), ("kept", 0, 3), ("away", 1, 4),
    ]  # fmt: skip


def test_a_renamed_call_says_its_new_id() -> None:
    shown = picture(case("ids-from-zero-again").history)
    changed = [line for line in shown["modes"]["append"]["lines"] if line["kind"] == "changed"]
    assert [(line["card"]["i"], line["word"]) for line in changed] == [(5, "now call_0-2"), (6, "now call_0-2")]


def test_the_check_names_all_four_ways_to_be_broken() -> None:
    history = [result("x"), user(), calling("a", "b"), result("a"), result("a"), user(), result("b"), calling("c")]
    assert [text.split(":")[0] for text in check(history)] == [
        "Dangling call", "Orphan", "Duplicate", "Not adjacent",
    ]  # fmt: skip
    assert check([user(), says()]) == []


def test_every_provider_refuses_the_dangling_call_and_none_refuses_a_pairing_afterwards() -> None:
    shown = picture(case("a-refund-interrupted").history)
    assert all(shown["answers"]["before"].values())
    for mode in REPAIR_MODES:
        for answer in shown["answers"][mode].values():
            assert answer is None or (answer["also"] and answer["note"].startswith("Not about calls and results"))


def test_the_bundled_cases_are_those_of_the_corpus_or_say_that_they_are_synthetic() -> None:
    assert len(cases()) == 14
    for name, item in cases().items():
        if item.source == "synthetic":
            assert name not in CASES
        else:
            known = CASES[name]
            assert (to_dicts(item.history), item.story, item.source) == (
                known["history"], known["story"], known["source"],
            )  # fmt: skip


def test_every_bundled_case_but_one_needs_a_repair_and_is_mended_for_good() -> None:
    for name, item in cases().items():
        assert bool(explain_repair(item.history)) == (name != "finished-session-stays"), name
        before = {(provider, found.rule) for provider in PROVIDERS for found in validate(item.history, provider)}
        after = {(provider, found.rule) for provider in PROVIDERS for found in validate(repair(item.history), provider)}
        assert bool(before - after) == (name != "finished-session-stays"), name
        for mode in REPAIR_MODES:
            mended = repair(item.history, mode)
            assert repair(mended, mode) == mended


@given(any_history())
def test_the_lines_after_the_last_step_are_the_repaired_history(history: list[dict[str, Any]]) -> None:
    messages = as_messages(history)
    for mode in REPAIR_MODES:
        shown = picture(history)["modes"][mode]
        last = len(shown["steps"])
        standing = [line for line in shown["lines"] if line["kind"] not in ("gone", "away", "skip")]
        if not any(line["kind"] == "skip" for line in shown["lines"]):
            wanted = [card.preview for card in cards(repair(messages, mode))]
            assert [line["card"]["text"] for line in standing] == wanted
        assert all(0 <= line["step"] <= last for line in shown["lines"] if line["kind"] != "skip")


@given(any_history())
def test_the_lines_before_the_first_step_are_the_history_as_it_was(history: list[dict[str, Any]]) -> None:
    for mode in picture(history)["modes"].values():
        if any(line["kind"] == "skip" for line in mode["lines"]):
            continue
        there = [line for line in mode["lines"] if line["kind"] not in ("new", "moved")]
        assert [line["card"]["i"] for line in there] == list(range(len(history)))


def test_a_long_history_is_shown_near_its_faults_only() -> None:
    history = [user(), says()] * 500 + [user(), calling("x"), user()] + [says(), user()] * 500
    shown = picture(history)
    drawn = shown["modes"]["append"]["lines"]
    assert [line["kind"] for line in drawn] == ["skip", "kept", "kept", "kept", "new", "kept", "kept", "skip"]
    assert drawn[0]["count"] + drawn[-1]["count"] + 5 == len(history)
    assert len(shown["before"]) == 7


def test_the_browser_takes_one_step_after_the_other(tmp_path: Path) -> None:
    shown = picture(case("a-user-message-between-two-results").history)
    drawn = "(line) => [line.card.i, line.mark, line.struck ?? false]"
    program = f"[0, 1].map((taken) => front.linesAt(given, taken).map({drawn}))"
    assert run_in_node(tmp_path, "repair_stepper", program, shown["modes"]["append"]["lines"]) == [
        [[0, "", False], [1, "", False], [2, "", False], [3, "", False], [4, "", False]],
        [[0, "", False], [1, "", False], [2, "", False], [4, "moved", False], [3, "", False], [4, "away", True]],
    ]


def test_a_chosen_case_changes_the_picture_and_an_unknown_one_is_refused() -> None:
    stepper = RepairStepper()
    assert (stepper.case, stepper.shown["case"]) == ("a-refund-interrupted", "a-refund-interrupted")
    stepper.case = PARTIAL
    assert stepper.shown["story"].startswith("Three calls went out at once.")
    assert [message["role"] for message in stepper.repaired("discard")] == ["user", "assistant", "user"]
    with pytest.raises(traitlets.TraitError, match="expected one of a-refund-interrupted"):
        stepper.case = "own"
    with pytest.raises(UnknownName, match="unknown case"):
        case("some-result-of-a-batch")


def test_an_own_history_is_offered_beside_the_bundled_ones() -> None:
    history = [user(), calling("x"), user()]
    stepper = RepairStepper(history)
    assert stepper.kinds[0] == ["own", "Your own history"]
    assert (stepper.case, stepper.history) == ("own", history)
    assert stepper.repaired() == repair(history)
    with pytest.raises(MalformedMessage):
        RepairStepper([{"content": "no role"}])


def test_without_a_front_end_there_are_tables_and_a_sentence() -> None:
    data, _ = RepairStepper(PARTIAL)._repr_mimebundle_()
    assert data["text/plain"] == (
        "Repair. 6 messages, 1 finding(s) of the check; refused by 8 of 8 sets of provider rules. Append mends it in 1 "
        "step(s), discard in 3; afterwards 0 and 0 refuse a pairing."
    )
    for words in ("As found", "Repaired: append", "+ added", "- dropped", "After discard", "400 (O2)"):
        assert words in data["text/html"]
    assert "<script" not in data["text/html"]
    json.dumps(data)


def test_static_html_escapes_what_it_is_given() -> None:
    html = static_html(picture([user("<img src=x>"), calling("x")]), "<b>")
    assert "<img" not in html
    assert "<b>" not in html


def test_every_real_log_has_a_repair(logs: Path) -> None:
    seen = 0
    for path in sorted(logs.glob("*.json*")):
        seen += 1
        assert RepairStepper.from_log(path).shown["length"] > 0
    assert seen >= 10
