"""The OpenAI shape, asked by the official client over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ctxlab.mock_api import MockAPI, serve
from ctxlab.models import SHOP_TOOLS, MockModel, Shop, play_round
from ctxlab.models.base import tool_call
from ctxlab.providers import validate
from ctxlab.tokens import count_request, count_tokens

openai = pytest.importorskip("openai")

TOOLS = list(SHOP_TOOLS)
USER = {"role": "user", "content": "Check A-1042 and A-1077"}
CALL = tool_call("c1", "get_order", "{}")
ASSISTANT = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "done"}


@pytest.fixture(scope="module")
def api() -> Iterator[MockAPI]:
    with serve(window=8_000, max_output=1_000) as running:
        yield running


def client(api: MockAPI, key: str = "any"):
    return openai.OpenAI(api_key=key, base_url=api.openai_base_url, max_retries=0)


def create(api: MockAPI, messages: list[dict], **options):
    return client(api).chat.completions.create(model="some-model", messages=messages, **options)


def refused(api: MockAPI, messages: list[dict], **options):
    with pytest.raises(openai.BadRequestError) as caught:
        create(api, messages, **options)
    error = caught.value
    assert (error.status_code, error.type) == (400, "invalid_request_error")
    return error


# Answers


def test_an_answer_carries_the_usage_that_the_counter_gives(api: MockAPI) -> None:
    messages = [{"role": "system", "content": "You are kind."}, {"role": "user", "content": "where do I live?"}]
    response = create(api, messages, tools=TOOLS)
    assert response.choices[0].message.content == MockModel().reply(messages)["content"]
    assert response.choices[0].finish_reason == "stop"
    assert response.usage.prompt_tokens == count_request(messages, TOOLS)
    assert response.usage.total_tokens == response.usage.prompt_tokens + response.usage.completion_tokens


def test_parallel_calls_come_with_ids_of_their_own(api: MockAPI) -> None:
    choice = create(api, [USER], tools=TOOLS).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert [json.loads(call.function.arguments) for call in choice.message.tool_calls] == [
        {"order_id": "A-1042"},
        {"order_id": "A-1077"},
    ]
    assert len({call.id for call in choice.message.tool_calls}) == 2


def test_a_stream_of_parallel_calls_is_put_together_by_the_client(api: MockAPI) -> None:
    with client(api).chat.completions.stream(model="m", messages=[USER], tools=TOOLS) as stream:
        streamed = stream.get_final_completion().choices[0]
    whole = create(api, [USER], tools=TOOLS).choices[0]
    assert streamed.finish_reason == whole.finish_reason == "tool_calls"
    assert [(call.id, call.function.name, call.function.arguments) for call in streamed.message.tool_calls] == [
        (call.id, call.function.name, call.function.arguments) for call in whole.message.tool_calls
    ]


def test_streamed_text_is_the_text_and_the_usage_comes_last_if_asked_for(api: MockAPI) -> None:
    messages = [{"role": "user", "content": "hello"}]
    chunks = list(create(api, messages, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == MockModel().reply(messages)["content"]
    assert len(chunks) > 4
    assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert all(chunk.usage is None for chunk in create(api, messages, stream=True))


def test_an_answer_over_its_limit_is_cut_and_says_so(api: MockAPI) -> None:
    choice = create(api, [{"role": "user", "content": "hello"}], max_completion_tokens=5).choices[0]
    assert choice.finish_reason == "length"
    assert count_tokens(choice.message.content) <= 5


def test_tool_choice_none_calls_nothing(api: MockAPI) -> None:
    assert create(api, [USER], tools=TOOLS, tool_choice="none").choices[0].message.tool_calls is None


def test_a_whole_conversation_with_tools_goes_through(api: MockAPI) -> None:
    history = [USER]
    for _ in range(2):
        message = create(api, history, tools=TOOLS).choices[0].message
        history.append(message.model_dump(exclude_none=True))
        history += [
            {"role": "tool", "tool_call_id": call.id, "content": Shop().run_tool(call.model_dump())}
            for call in message.tool_calls or ()
        ]
    assert [message["role"] for message in history] == ["user", "assistant", "tool", "tool", "assistant"]
    assert "A-1077" in history[-1]["content"]
    assert validate(history) == []


def test_the_models_are_listed_and_found(api: MockAPI) -> None:
    assert [model.id for model in client(api).models.list()] == ["ctxlab-mock"]
    assert client(api).models.retrieve("ctxlab-mock").id == "ctxlab-mock"
    with pytest.raises(openai.NotFoundError) as caught:
        client(api).models.retrieve("gpt-0")
    assert caught.value.code == "model_not_found"


# Refusals of the history


def test_a_dangling_call_is_refused_in_openais_words(api: MockAPI) -> None:
    error = refused(api, [USER, ASSISTANT])
    assert error.body["message"] == (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        "The following tool_call_ids did not have response messages: c1"
    )
    assert (error.code, error.param) == (None, "messages.[1].role")
    assert error.response.headers["x-ctxlab-rule"] == "O2"
    between = refused(api, [USER, ASSISTANT, USER, RESULT])
    assert (between.param, between.response.headers["x-ctxlab-rule"]) == ("messages.[2].role", "O2")


def test_a_dangling_call_is_refused_before_anything_is_streamed(api: MockAPI) -> None:
    assert "tool_call_ids" in str(refused(api, [USER, ASSISTANT], stream=True))


@pytest.mark.parametrize(
    ("messages", "text", "param", "code"),
    [
        (
            [USER, RESULT],
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
            "'tool_calls'.",
            "messages.[1].role",
            None,
        ),
        ([], "[] is too short - 'messages'", None, None),
        (
            [{"role": "user", "content": None}],
            "Invalid value for 'content': expected a string, got null.",
            "messages.[0].content",
            None,
        ),
        (
            [USER, {"role": "assistant", "content": "a", "tool_calls": []}],
            "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1, but got an empty "
            "array instead.",
            "messages[1].tool_calls",
            "empty_array",
        ),
        (
            [USER, {**ASSISTANT, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f"}}]}, RESULT],
            "Missing required parameter: 'messages[1].tool_calls[0].function.arguments'.",
            "messages[1].tool_calls[0].function.arguments",
            "missing_required_parameter",
        ),
        ([{"content": "x"}], "Missing required parameter: 'messages[0].role'.", "messages[0].role", None),
    ],
)
def test_each_refusal_has_its_text_and_parameter(api: MockAPI, messages, text, param, code) -> None:
    error = refused(api, messages)
    assert (error.body["message"], error.param) == (text, param)
    assert code is None or error.code == code


def test_what_the_validator_finds_is_what_the_endpoint_refuses(api: MockAPI) -> None:
    histories = ([USER, ASSISTANT], [USER, ASSISTANT, RESULT, RESULT], [RESULT], [{"role": "robot", "content": "x"}])
    for history in histories:
        assert refused(api, history).response.headers["x-ctxlab-rule"] == validate(history)[0].rule


# The window


def test_an_overflow_is_openais(api: MockAPI) -> None:
    messages = [{"role": "user", "content": "hi " * 9_000}]
    count = count_request(messages)
    error = refused(api, messages)
    assert error.body == {
        "message": f"This model's maximum context length is 8000 tokens. However, your messages resulted in {count} "
        "tokens. Please reduce the length of the messages.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }


def test_the_completion_and_the_tools_count_into_the_window(api: MockAPI) -> None:
    messages = [{"role": "user", "content": "hi " * 7_300}]
    total = count_request(messages, TOOLS)
    assert total < 8_000
    assert create(api, messages, tools=TOOLS)
    text = str(refused(api, messages, tools=TOOLS, max_tokens=1_000))
    assert f"you requested {total + 1_000} tokens" in text
    assert "in the functions, and 1000 in the completion" in text


def test_exactly_the_window_fits(api: MockAPI) -> None:
    messages = [{"role": "user", "content": "hello"}]
    fits = [{"role": "user", "content": "hi" + " hi" * (8_000 - 100 - count_request(messages))}]
    assert count_request(fits) == 7_900
    assert create(api, fits, max_tokens=100)
    refused(api, fits, max_tokens=101)


def test_a_small_window_with_large_tools_is_an_overflow_too() -> None:
    with serve(window=100, max_output=99) as api:
        assert refused(api, [USER], tools=TOOLS, max_tokens=99).code == "context_length_exceeded"


# Refusals of the request


@pytest.mark.parametrize(
    ("options", "text", "code", "param"),
    [
        (
            {"max_tokens": 5_000},
            "max_tokens is too large: 5000. This model supports at most 1000 completion tokens, whereas you provided "
            "5000.",
            "invalid_value",
            "max_tokens",
        ),
        (
            {"max_tokens": 0},
            "Invalid 'max_tokens': integer below minimum value. Expected a value >= 1, but got 0 instead.",
            "integer_below_min_value",
            "max_tokens",
        ),
        (
            {"tools": [{"type": "function"}]},
            "Missing required parameter: 'tools[0].function'.",
            "missing_required_parameter",
            "tools[0].function",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "a b", "parameters": {}}}]},
            "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the "
            "pattern '^[a-zA-Z0-9_-]+$'.",
            "invalid_value",
            "tools[0].function.name",
        ),
    ],
)
def test_a_request_that_is_wrong_in_itself_is_refused(api: MockAPI, options, text, code, param) -> None:
    error = refused(api, [USER], **options)
    assert (error.body["message"], error.code, error.param) == (text, code, param)


def test_a_missing_and_a_wrong_key_are_401() -> None:
    with serve(key="right-key-of-the-server") as api:
        assert client(api, "right-key-of-the-server").models.list()
        with pytest.raises(openai.AuthenticationError) as caught:
            client(api, "wrong-key-of-a-client").models.list()
        assert caught.value.code == "invalid_api_key"
        assert "wrong-key-of-a-client" not in str(caught.value)
        with pytest.raises(openai.AuthenticationError, match="You didn't provide an API key"):
            client(api).models.list(extra_headers={"Authorization": openai.Omit()})


def test_a_model_that_does_not_exist_is_404() -> None:
    with serve(names=["small"]) as api, pytest.raises(openai.NotFoundError) as caught:
        create(api, [USER])
    assert caught.value.body["message"] == ("The model `some-model` does not exist or you do not have access to it.")


def test_the_clients_own_retries_get_through_faults() -> None:
    with serve(faults=[429, 500, 503]) as api:
        patient = openai.OpenAI(api_key="k", base_url=api.openai_base_url, max_retries=0)
        for kind in (openai.RateLimitError, openai.InternalServerError, openai.InternalServerError):
            with pytest.raises(kind):
                patient.models.list()
        assert patient.models.list()


def test_a_lesson_may_hold_another_set_of_rules() -> None:
    with serve(openai="mistral") as api:
        error = refused(api, [USER, {"role": "assistant", "content": "done"}])
    assert error.response.headers["x-ctxlab-rule"] == "M4"


def test_the_scripted_loop_over_the_clients_is_the_one_without(api: MockAPI) -> None:
    expected = play_round(MockModel(), [USER], TOOLS, Shop().run_tool)
    first = create(api, [USER], tools=TOOLS).choices[0].message
    assert [call.id for call in first.tool_calls] == [call["id"] for call in expected[0]["tool_calls"]]
