"""Shapes that were recorded in public bug reports, and what each provider says of them.

The histories keep the shape of the reports, in words of their own. ``wrong`` is what was sent, ``right`` what should
have been.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctxlab import validate
from ctxlab.providers import PAIRING_RULES, PROVIDERS

CASES = json.loads((Path(__file__).parent / "corpus" / "provider_cases.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_the_recorded_request_is_refused_by_the_rule_of_its_provider(case):
    expected = [(rule, index) for rule, index in case["broken"]]
    assert [(one.rule, one.index) for one in validate(case["wrong"], case["provider"])] == expected
    assert validate(case["right"], case["provider"]) == []


@pytest.mark.parametrize("case", [c for c in CASES if c["pairing"]], ids=[c["id"] for c in CASES if c["pairing"]])
def test_a_broken_pair_is_refused_by_every_provider_and_its_right_form_by_none(case):
    for provider in PROVIDERS:
        assert any(one.rule in PAIRING_RULES for one in validate(case["wrong"], provider)), provider
        assert not any(one.rule in PAIRING_RULES for one in validate(case["right"], provider)), provider
