"""Messages: what comes in goes out, nothing can be changed on the way, and what is no message is said to be none."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxlab import align_to_turn_start, estimate_tokens, repair, validate
from ctxlab.errors import CtxlabError, MalformedMessage, UnknownName, unknown_name
from ctxlab.messages import FrozenDict, Message, as_messages, freeze, part_text, thaw, to_dicts

CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), json_values, max_size=4), st.text())
def test_every_key_comes_back_in_its_order(extra: dict, role: str) -> None:
    extra = {key: value for key, value in extra.items() if key not in ("content", "tool_calls")}
    source = {"role": role, **extra, "content": "x"}
    source["role"] = role
    back = Message.of(source).to_dict()
    assert back == source
    assert list(back) == list(source)


@given(json_values)
def test_thaw_undoes_freeze(value: object) -> None:
    assert thaw(freeze(value)) == value


def test_a_message_does_not_see_later_changes_of_the_dict_it_came_from() -> None:
    source = {"role": "assistant", "content": None, "tool_calls": [{**CALL, "function": dict(CALL["function"])}]}
    message = Message.of(source)
    source["tool_calls"][0]["function"]["name"] = "delete"
    assert message.tool_calls[0].name == "read"


def test_a_dict_that_came_out_can_be_changed_without_changing_the_message() -> None:
    message = Message.of({"role": "assistant", "content": None, "tool_calls": [CALL]})
    message.to_dict()["tool_calls"][0]["id"] = "other"
    assert message.tool_calls[0].id == "c1"


def test_a_message_cannot_be_assigned_to() -> None:
    message = Message.of({"role": "user", "content": "a"})
    with pytest.raises(AttributeError):
        message.role = "system"  # type: ignore[misc]
    with pytest.raises(TypeError):
        message.data["role"] = "system"  # type: ignore[index]


def test_equal_data_is_an_equal_message_with_an_equal_hash() -> None:
    one, two = Message.of({"role": "user", "content": "a"}), Message.of({"content": "a", "role": "user"})
    assert one == two
    assert hash(one) == hash(two)
    assert one != Message.of({"role": "user", "content": "b"})


def test_messages_survive_pickling() -> None:
    message = Message.of({"role": "assistant", "content": None, "tool_calls": [CALL]})
    assert pickle.loads(pickle.dumps(message)) == message


def test_text_is_the_text_parts_and_never_the_image() -> None:
    parts = [
        {"type": "text", "text": "look: "},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "text", "text": "this"},
    ]
    assert Message.of({"role": "user", "content": parts}).text == "look: this"
    assert Message.of({"role": "assistant", "content": None}).text == ""
    assert part_text({"type": "image_url", "text": "no"}) is None


def test_a_call_without_its_pieces_is_kept_and_says_none() -> None:
    call = Message.of({"role": "assistant", "tool_calls": [{"function": {"arguments": {"a": 1}}}]}).tool_calls[0]
    assert (call.id, call.name, call.arguments) == (None, None, None)
    assert thaw(call.data) == {"function": {"arguments": {"a": 1}}}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("hello", "a str where a message"),
        ({"content": "x"}, "without a role"),
        ({"role": 3, "content": "x"}, "with the role 3, which is not text"),
        ({"role": "user", "content": 5}, "content of type int"),
        ({"role": "user", "content": {"a": 1}}, "content of type FrozenDict"),
        ({"role": "assistant", "tool_calls": "c1"}, "tool_calls of type str"),
        ({"role": "assistant", "tool_calls": ["c1"]}, "expected a list of objects"),
        ({"role": "user", "content": "x", "at": object()}, "a value of type object"),
        ({"role": "user", "content": "x", 1: 2}, "JSON keys are text"),
    ],
)
def test_what_is_no_message_is_refused_with_its_index(bad: object, says: str) -> None:
    with pytest.raises(MalformedMessage, match=says) as caught:
        as_messages([{"role": "user", "content": "fine"}, bad])
    assert caught.value.index == 1
    assert str(caught.value).startswith("message 1: ")


def test_one_message_where_a_history_belongs_is_refused() -> None:
    for wrong in ({"role": "user", "content": "x"}, "text", b"bytes"):
        with pytest.raises(MalformedMessage, match="where a list of messages was expected"):
            as_messages(wrong)


def test_a_message_nested_too_deeply_is_refused_and_does_not_crash() -> None:
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(MalformedMessage, match="nested too deeply"):
        as_messages([{"role": "user", "content": deep}])


def test_histories_go_in_and_out() -> None:
    history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": [CALL]}]
    assert to_dicts(list(as_messages(history))) == history


def test_replace_keeps_the_rest() -> None:
    message = Message.of({"role": "tool", "tool_call_id": "c1", "content": "long", "ts": "now"})
    assert message.replace(content="short").to_dict() == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "short",
        "ts": "now",
    }


def test_an_error_carries_its_numbers_and_survives_pickling() -> None:
    error = MalformedMessage("message 3: no", hint="mend it", index=3)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.hint, again.index) == ("message 3: no", "mend it", 3)
    assert isinstance(again, (CtxlabError, ValueError))
    with pytest.raises(AttributeError, match="no attribute 'line'"):
        _ = error.line


def test_an_unknown_name_suggests_the_close_one() -> None:
    error = unknown_name("mode", "apend", ["append", "discard"])
    assert isinstance(error, UnknownName)
    assert error.hint == "did you mean 'append'? known: append, discard"


def test_a_frozen_mapping_compares_like_a_dict() -> None:
    assert FrozenDict({"a": 1}) == {"a": 1}
    assert repr(FrozenDict({"a": 1})) == "FrozenDict({'a': 1})"


@pytest.mark.parametrize("given", [None, 5, "hello", b"hello", {"role": "user", "content": "x"}])
def test_what_is_no_list_of_messages_is_refused_alike_everywhere(given: object) -> None:
    for ask in (as_messages, validate, repair, estimate_tokens, lambda history: align_to_turn_start(history, 0)):
        with pytest.raises(MalformedMessage, match=f"a {type(given).__name__} where a list of messages"):
            ask(given)  # type: ignore[operator]


def test_a_notebook_shows_the_sentence_the_hint_and_the_persons_own_lines() -> None:
    with pytest.raises(UnknownName) as caught:
        raise unknown_name("mode", "apend", ["append"])
    shown = caught.value._render_traceback_()
    assert shown[:2] == ["UnknownName: unknown mode 'apend'", "hint: did you mean 'append'? known: append"]
    assert shown[2].endswith('raise unknown_name("mode", "apend", ["append"])')
    assert len(shown) == 3, "nothing of the package's own insides"
