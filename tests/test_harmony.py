"""Exact counts for gpt-oss."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ctxlab import harmony
from ctxlab.errors import RanksError
from ctxlab.harmony import harmony_tokens
from ctxlab.texts import count_tokens

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
LOOP = [
    {"role": "system", "content": "Answer briefly."},
    {"role": "user", "content": "Weather in Oslo?"},
    {"role": "assistant", "content": None, "reasoning_content": "I need the tool.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": '{"c": 4}'},
    {"role": "assistant", "content": "4 degrees."},
    {"role": "user", "content": "And tomorrow?"},
]
TOOL = {"type": "function", "function": {"name": "weather", "description": "Tells the weather"}}


def test_it_works_with_no_network_and_leaves_the_environment_alone():
    code = (
        "import os, socket\n"
        "def refuse(*a, **k): raise AssertionError('network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "os.environ['HTTPS_PROXY'] = os.environ['HTTP_PROXY'] = 'http://127.0.0.1:9'\n"
        "from ctxlab.harmony import harmony_tokens\n"
        "print(harmony_tokens([{'role': 'user', 'content': 'hi'}]) > 50, 'TIKTOKEN_ENCODINGS_BASE' in os.environ)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["True", "False"], done.stderr


def test_the_same_text_more_costs_exactly_its_tokens():
    short = harmony_tokens([{"role": "user", "content": "a"}])
    text = "The committee will publish its findings. 上海 <|end|>"
    longer = harmony_tokens([{"role": "user", "content": text}])
    assert longer - short == count_tokens(text, "o200k_harmony") - 1


def test_each_message_and_the_tools_add_to_the_prompt():
    totals = [harmony_tokens(LOOP[:n]) for n in range(1, 5)]
    assert totals == sorted(totals)
    assert harmony_tokens(LOOP[:2], [TOOL]) > harmony_tokens(LOOP[:2])
    assert harmony_tokens([LOOP[1]], [TOOL]) > harmony_tokens([LOOP[1]])
    assert harmony_tokens(LOOP[:2], date="2025-06-28") > harmony_tokens(LOOP[:2])


def test_old_reasoning_is_dropped_as_the_format_asks():
    assert harmony_tokens(LOOP) < harmony_tokens(LOOP, drop_old_reasoning=False)


def test_a_very_long_run_is_counted_and_does_not_overflow_the_renderer():
    base = harmony_tokens([{"role": "user", "content": "x"}])
    assert harmony_tokens([{"role": "user", "content": "a" * 1_300_000}]) == base - 1 + 162_500
    assert harmony_tokens([{"role": "user", "content": "\ud800"}]) > 0


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai_harmony", None)
    with pytest.raises(RanksError, match="not installed") as caught:
        harmony_tokens(LOOP)
    assert "pip install openai-harmony" in caught.value.hint
    assert harmony.LONG_TEXT > 0
