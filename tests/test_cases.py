"""Recorded failures of other tools, in our own words (corpus/cases.jsonl), each with what is right.

A line has an id, its public source, the story, a history, and what to expect of the pure functions. In an expected
history a text in angle brackets stands for a message, or a content, that the library writes; ``{"repeat": text,
"times": n}`` stands for a long text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctxlab.compress import SUMMARY_MARKER, Policy, compress
from ctxlab.messages import as_messages
from ctxlab.providers import validate
from ctxlab.repairs import NEVER_STARTED, OPENING, OUTCOME_UNKNOWN, explain_repair, repair
from ctxlab.rounds import explain_cut


def repeated(found: dict[str, Any]) -> Any:
    return found["repeat"] * found["times"] if found.keys() == {"repeat", "times"} else found


LINES = (Path(__file__).parent / "corpus" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
CASES = {case["id"]: case for case in (json.loads(line, object_hook=repeated) for line in LINES)}
STANDS_FOR = {
    "<interrupted>": OUTCOME_UNKNOWN,
    "<opening>": {"role": "user", "content": OPENING},
    "<summary>": {"role": "user", "content": f"{SUMMARY_MARKER}\nshort"},
    "<bridge>": {"role": "assistant", "content": "Understood. I go on from this summary."},
}


def written_out(history: list[Any]) -> list[Any]:
    out = [STANDS_FOR[item] if isinstance(item, str) else item for item in history]
    return [{**m, "content": OUTCOME_UNKNOWN} if m["content"] == "<interrupted>" else m for m in out]


def summarizer(text: str | None) -> Any:
    def summarize(early: list[dict[str, Any]]) -> str:
        if text is None:
            raise ValueError("the request is too large")
        return text

    return summarize


def meets(case: dict[str, Any], expected: dict[str, Any]) -> None:
    history = case["history"]
    match expected["do"]:
        case "validate":
            rules = {found.rule for found in validate(history, expected["provider"])}
            assert rules == set(expected["rules"])
        case "repair":
            assert repair(history, expected["mode"]) == written_out(expected["gives"])
            assert bool(explain_repair(history, expected["mode"])) == (expected["gives"] != history)
        case "cut":
            assert explain_cut(history, expected["at"], expected["rule"])[-1].index == expected["gives"]
        case "compress":
            policy = Policy(**{**expected["policy"], "facts": tuple(expected["policy"].get("facts", ()))})
            outcome = compress(history, summarizer(expected["summary"]), policy)
            assert type(outcome).__name__ == expected["outcome"], outcome.why
            if expected["gives"] is not None:
                assert outcome.messages == written_out(expected["gives"])
        case "why":
            assert expected["says"] in compress(history, summarizer("s"), Policy(**expected["policy"])).why
        case other:
            raise AssertionError(f"a case asks for {other!r}")


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(case, expected, id=f"{name}-{number}-{expected['do']}")
        for name, case in CASES.items()
        for number, expected in enumerate(case["expect"])
    ],
)
def test_a_recorded_failure_comes_out_right(case: dict[str, Any], expected: dict[str, Any]) -> None:
    meets(case, expected)


def test_every_line_of_the_corpus_names_its_source_and_expects_something() -> None:
    assert len(CASES) == len(LINES) > 20
    assert all(case["source"] and case["story"] and case["expect"] for case in CASES.values())


def test_what_ran_and_what_never_started_get_different_answers() -> None:
    history = CASES["ran-but-not-stored"]["history"]
    assert "outcome is unknown" in repair(history)[2]["content"]
    by_call = repair(history, text=lambda call: NEVER_STARTED if call.name == "refund" else OUTCOME_UNKNOWN)
    assert by_call[2]["content"] == NEVER_STARTED


def test_a_message_of_a_history_cannot_be_changed_through_another() -> None:
    """nesquena/hermes-webui PR#1391: a fork by list slice shared its messages with the parent."""
    history = [{"role": "user", "content": [{"type": "text", "text": "draft?"}]}]
    parent = as_messages(history)
    child = repair(parent)
    child[0]["content"][0]["text"] = "other"
    assert parent[0].text == "draft?"
    with pytest.raises(TypeError):
        parent[0].data["content"] = "other"
