"""Small histories that the provider tests build from, and two ways to read what `validate` found."""

from __future__ import annotations

from ctxlab import validate

SYSTEM = {"role": "system", "content": "Be brief."}
GO = {"role": "user", "content": "go"}
DONE = {"role": "assistant", "content": "done"}


def user(text="go"):
    return {"role": "user", "content": text}


def call(*ids, content=None):
    """An assistant message with one call for each id."""
    calls = [{"id": i, "type": "function", "function": {"name": "look", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(call_id, content="ok"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def found(history, provider, warnings=False):
    """(rule, index) of every violation."""
    return [(one.rule, one.index) for one in validate(history, provider, warnings=warnings)]


def text_of(history, provider, rule, warnings=False):
    texts = [one.message for one in validate(history, provider, warnings=warnings) if one.rule == rule]
    assert texts, f"{rule} not found"
    return texts[0]


ROUND = [SYSTEM, GO, call("aaaaaaaa1", "aaaaaaaa2"), result("aaaaaaaa2"), result("aaaaaaaa1"), DONE, user("thanks")]
DANGLING = [GO, call("aaaaaaaa1"), user("continue")]
ORPHAN = [user("[summary]"), result("aaaaaaaa1"), user("next")]
PARTED = [GO, call("aaaaaaaa1"), user("are you there?"), result("aaaaaaaa1")]
LONE = {"role": "assistant", "content": None}
NARRATOR = {"role": "narrator", "content": "x"}
REASONING = {"role": "assistant", "type": "reasoning", "id": "rs_1", "content": None}
PROOF = {"role": "assistant", "content": "proof part 1", "id": "msg_1", "requires": "rs_1"}
