"""The cut as a picture: the steps of the library, each provider's answer to both cuts, and a form without a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import traitlets
from histories import calling, result, says, system, user, well_formed
from hypothesis import given

from ctxlab.compress import Policy, compress
from ctxlab.errors import CutIndexError
from ctxlab.providers import PROVIDERS, RULES, validate
from ctxlab.rounds import CUT_RULES, align_to_round_start, align_to_turn_start, explain_cut
from ctxlab.tokens import estimate_tokens
from ctxlab.widgets import CutStepper, kit
from ctxlab.widgets.cards import NAMES, Arc, Tokens, arcs, cards, esm, parted, ranges
from ctxlab.widgets.cut_picture import CutPicture, stand_in
from ctxlab.widgets.cut_stepper import SHORT
from ctxlab.widgets.sample import library_desk
from ctxlab.widgets.toy import TOY, TOY_SUMMARY

PAIRS = [user("first"), calling("a", "b"), result("b"), result("a"), says(), user("second")]


def toy() -> CutPicture:
    return CutPicture(TOY, trigger=140, summary=TOY_SUMMARY)


def refused(row: dict[str, Any], kind: str) -> set[str]:
    return {name for name, answer in row["answers"][kind].items() if answer and not answer["also"]}


def test_the_walk_back_is_the_one_of_the_library() -> None:
    row = toy().row(6)
    walk = explain_cut(TOY, 6)
    shown = [stage for stage in row["stages"] if stage["action"] in ("raw", "back", "cut")]
    assert [(stage["action"], stage["at"]) for stage in shown] == [(step.action, step.index) for step in walk]
    assert [stage["at"] for stage in shown] == [6, 5, 4, 4]
    assert shown[1]["why"] == "Message 6 is the tool result for 'wOslo0001'; it may not part from its call"
    assert shown[1]["cards"] == [5, 6]


def test_the_steps_go_from_the_threshold_to_the_result() -> None:
    row = toy().row(6)
    actions = [stage["action"] for stage in row["stages"]]
    assert actions == ["count", "split", "raw", "back", "back", "cut", "request", "bridge", "replace", "summary"]
    assert row["stages"][0]["why"] == "173 tokens without system messages, at or over the trigger of 140"
    assert row["stages"][1]["why"].startswith(
        "1 system message (14 tokens) stays out of it, word for word; the other 6"
    )
    assert (row["landed"], row["replaced"], row["request"], row["outcome"]) == (4, [[1, 2]], [3], "Compressed")
    assert [(piece["kind"], piece["from"], piece["to"]) for piece in row["result"]] == [
        ("system", 0, 0), ("summary", None, None), ("bridge", None, None), ("request", 3, 3), ("recent", 4, 6),
    ]  # fmt: skip


def test_every_provider_refuses_the_two_cuts_inside_the_parallel_batch_and_no_aligned_one() -> None:
    picture = toy()
    naive = {cut: refused(picture.row(cut), "naive") for cut in range(8)}
    assert naive[5] == naive[6] == set(PROVIDERS)
    assert [cut for cut in range(8) if not naive[cut]] == [0, 1, 2, 4, 7]
    assert naive[3] == {"anthropic_2024"}, "the summary is a user message, and message 3 is one too"
    for rule in CUT_RULES:
        for cut in range(8):
            assert refused(picture.row(cut, rule), "aligned") == set()


def test_below_the_trigger_the_steps_say_that_nothing_would_be_done_yet() -> None:
    row = CutPicture(TOY, trigger=5_600).row(6)
    assert "below the trigger of 5,600: nothing would be done yet" in row["stages"][0]["why"]
    assert row["landed"] == 4


def test_what_cannot_be_gained_is_said_and_nothing_is_replaced() -> None:
    row = toy().row(1)
    assert (row["outcome"], row["stages"][-1]["action"], row["replaced"]) == ("Unchanged", "stop", [])
    assert row["tokens"]["after"] == row["tokens"]["before"] == estimate_tokens(TOY)


def test_a_fault_that_the_uncut_history_has_too_is_not_blamed_on_the_cut() -> None:
    row = CutPicture([user("hi " * 200), says("hello"), user("bye"), says("goodbye")], trigger=1).row(2)
    answer = row["answers"]["aligned"]["mistral"]
    assert (answer["rule"], answer["also"], answer["note"]) == ("M4", True, "The uncut history has it too.")


@given(well_formed())
def test_the_landing_is_that_of_the_rule_unless_the_users_turn_would_follow_the_summary(
    history: list[dict[str, Any]],
) -> None:
    picture = CutPicture(history, trigger=0)
    for rule, align in (("pair-safe", align_to_turn_start), ("round-start", align_to_round_start)):
        for cut in {0, len(history) // 2, len(history)}:
            row = picture.row(cut, rule)
            yielded = [stage["at"] for stage in row["stages"] if stage["action"] == "yield"]
            assert row["landed"] == (yielded[-1] if yielded else align(history, cut))
            assert not parted(arcs(history), row["landed"])


@given(well_formed())
def test_the_pieces_are_what_compress_sends(history: list[dict[str, Any]]) -> None:
    cut = len(history) // 2
    row = CutPicture(history, trigger=0, summary="s").row(cut)
    outcome = compress(history, lambda early: "s", Policy(trigger=0, keep_recent=len(history) - cut))
    sent = sum(1 if piece["from"] is None else piece["to"] - piece["from"] + 1 for piece in row["result"])
    assert sent == len(outcome.history)
    assert row["tokens"]["after"] == estimate_tokens(outcome.messages)
    aligned = {name for name, answer in row["answers"]["aligned"].items() if answer}
    assert aligned == {name for name in PROVIDERS if validate(outcome.messages, name)}


def test_arcs_join_each_result_to_the_nearest_open_call_before_it() -> None:
    assert arcs(PAIRS) == (Arc(1, 2, "b", "read_file", 0), Arc(1, 3, "a", "read_file", 1))
    again = [user(), calling("0"), result("0"), user(), calling("0"), result("0")]
    assert [(arc.call, arc.result, arc.lane) for arc in arcs(again)] == [(1, 2, 0), (4, 5, 0)]


def test_a_cut_parts_the_arcs_that_it_crosses() -> None:
    found = arcs(PAIRS)
    assert [len(parted(found, cut)) for cut in range(7)] == [0, 0, 2, 1, 0, 0, 0]


def test_a_card_has_role_tokens_and_first_words() -> None:
    card = cards(TOY)[4]
    assert card.to_json() == {
        "i": 4, "role": "assistant", "tokens": 49, "calls": ["get_weather", "get_weather"],
        "text": 'get_weather({"city": "Lisbon"}) get_weather({"city": "Oslo"})',
    }  # fmt: skip
    assert cards(TOY)[6].answers == 4
    assert cards([user([{"type": "image_url", "image_url": {"url": "data:,"}}])])[0].preview == "[image_url]"
    assert len(cards([user("x" * 9_000)])[0].preview) == 180


def test_tokens_are_those_of_the_library() -> None:
    count = Tokens()
    history = CutPicture(TOY, 0).history
    assert count(history) == estimate_tokens(TOY)
    assert count(()) == 0


def test_places_become_ranges() -> None:
    assert ranges([]) == []
    assert ranges([4, 5, 9]) == [[4, 5], [9, 9]]


def test_a_stand_in_says_that_no_model_was_called() -> None:
    assert stand_in([user("Hello\nthere"), says("hi")]) == (
        "(A stand-in; no model was called.) So far the user said: Hello there"
    )


def test_every_set_of_rules_has_a_name_and_the_four_providers_come_first() -> None:
    assert set(NAMES) == set(PROVIDERS)
    assert list(NAMES)[:4] == ["openai", "anthropic", "gemini", "mistral"]


def test_the_toy_is_a_system_prompt_and_six_messages_that_everybody_accepts() -> None:
    assert [message["role"] for message in TOY] == ["system", "user", "assistant", "user", "assistant", "tool", "tool"]
    assert all(validate(TOY, provider) == [] for provider in PROVIDERS)


def test_the_stepper_starts_at_the_cut_that_the_obvious_line_would_make() -> None:
    assert (CutStepper().cut, CutStepper().landed) == (6, 4)
    desk = CutStepper.from_log(library_desk(), history_budget=10_937)
    assert (len(desk.cards), desk.cut, desk.landed) == (51, 45, 44)
    assert refused(desk.row, "naive") == set(PROVIDERS)
    assert refused(desk.row, "aligned") == set()


def test_traits_follow_each_other_and_a_cut_outside_is_brought_inside() -> None:
    stepper = CutStepper()
    stepper.rule = "round-start"
    assert (stepper.landed, stepper.row["rule"]) == (3, "round-start")
    stepper.cut = 99
    assert (stepper.cut, stepper.landed) == (7, 7)
    stepper.step = 99
    assert stepper.stage["action"] == "summary"
    with pytest.raises(traitlets.TraitError):
        stepper.rule = "anywhere"
    with pytest.raises(CutIndexError):
        toy().row(-1)


def test_a_short_history_comes_with_all_of_its_cuts_and_a_long_one_with_the_one_on_view() -> None:
    short, long = CutStepper(TOY), CutStepper([user(), says()] * SHORT)
    assert [row["cut"] for row in short.rows["pair-safe"]] == list(range(len(TOY) + 1))
    assert long.rows == {}
    long.cut = 3
    assert long.row["cut"] == 3


@pytest.mark.parametrize("history", [[], [system()], [user()], [result("x")]], ids=["none", "system", "user", "orphan"])
def test_the_smallest_histories_have_a_picture(history: list[dict[str, Any]]) -> None:
    stepper = CutStepper(history)
    data, _ = stepper._repr_mimebundle_()
    assert len(stepper.cards) == len(history)
    assert "<table" in data["text/html"]


def test_without_a_front_end_there_are_tables_and_a_sentence() -> None:
    data, _ = CutStepper()._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == (
        "Where to cut. A cut before message 6 moves back to 4 (pair-safe). Uncorrected, 8 of 8 sets of provider rules "
        "refuse it; corrected, 0. 187 tokens become 153."
    )
    html = data["text/html"]
    for words in ("the cut that was asked for", "the aligned cut (pair-safe)", "OpenAI chat", "400 (O1)", "accepted"):
        assert words in html
    assert "<script" not in html
    assert "<style" not in html


def test_the_static_table_escapes_what_it_is_given_and_shows_a_long_history_around_the_cut() -> None:
    html = CutStepper([user("<img src=x>"), says()])._repr_mimebundle_()[0]["text/html"]
    assert "<img" not in html
    html = CutStepper([user("u"), says("s")] * 200)._repr_mimebundle_()[0]["text/html"]
    assert 60 <= html.count("<tr>") < 90
    assert ">394<" in html


def test_every_real_log_can_be_cut_at_its_last_six_messages(logs: Path) -> None:
    seen = 0
    for path in sorted(logs.glob("*.json*")):
        stepper = CutStepper.from_log(path)
        seen += 1
        known = {name: answer for name, answer in stepper.row["answers"]["aligned"].items() if answer}
        assert all(RULES[answer["rule"]] for answer in known.values())
        assert not parted(arcs(stepper.picture.history), stepper.landed)
    assert seen >= 10


def run_in_node(tmp_path: Path, widget: str, program: str, given: Any) -> Any:
    """What ``program`` prints as JSON, with the widget's module as ``front`` and ``given`` as data."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here; the browser tests draw the same in Chromium")
    (tmp_path / "front.mjs").write_text(esm(widget), "utf-8")
    (tmp_path / "given.json").write_text(json.dumps(given), "utf-8")
    head = (
        "import {readFileSync} from 'node:fs'; import * as front from './front.mjs';"
        "const given = JSON.parse(readFileSync('given.json'));"
    )
    ran = subprocess.run(
        [node, "--input-type=module", "-e", f"{head} console.log(JSON.stringify({program}))"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return json.loads(ran.stdout)


def test_the_browser_finds_the_same_parted_pairs(tmp_path: Path) -> None:
    found = [arc.to_json() for arc in arcs(PAIRS)]
    drawn = run_in_node(
        tmp_path, "cut_stepper", "[0,1,2,3,4,5,6].map((cut) => front.partedBy(given, cut).length)", found
    )
    assert drawn == [len(parted(arcs(PAIRS), cut)) for cut in range(7)]


def test_the_browser_says_what_becomes_of_each_message(tmp_path: Path) -> None:
    stepper = CutStepper()
    given = {"cards": stepper.cards, "row": stepper.row}
    program = "[0, 2, 9].map((step) => given.cards.map((card) => front.fateOf(card, given.row, step)[0]))"
    assert run_in_node(tmp_path, "cut_stepper", program, given) == [
        ["", "", "", "", "", "", ""],
        ["system", "gone", "gone", "gone", "gone", "gone", "stays"],
        ["system", "gone", "gone", "request", "stays", "stays", "stays"],
    ]


def test_the_front_ends_are_single_modules_without_imports_and_keep_their_keys() -> None:
    for name in ("cut_stepper", "repair_stepper"):
        text = esm(name)
        assert "import " not in "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))
        assert text.count("export default") == 1
        assert "https://" not in text
    for name in ("cards", "cut_stepper", "repair_stepper"):
        text = (kit.HERE / f"{name}.js").read_text("utf-8")
        for kind in ('el("input"', 'el("button"', 'el("select"', "tabindex:"):
            for call in text.split(kind)[1:]:
                assert "...KEEP_KEYS" in call[: call.index("})")], f"{name}.js: {kind}"
