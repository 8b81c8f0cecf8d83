"""The Anthropic shape, asked by the official client over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ctxlab.mock_api import MockAPI, serve
from ctxlab.models import SHOP_TOOLS, MockModel, Shop
from ctxlab.models.base import tool_call
from ctxlab.tokens import count_request

anthropic = pytest.importorskip("anthropic")

TOOLS = [
    {
        "name": tool["function"]["name"],
        "description": tool["function"]["description"],
        "input_schema": tool["function"]["parameters"],
    }
    for tool in SHOP_TOOLS
]
USER = {"role": "user", "content": "Check A-1042 and A-1077"}
USE = {"type": "tool_use", "id": "c1", "name": "get_order", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "done"}
TEXT = {"type": "text", "text": "and?"}


def says(*blocks: dict) -> dict:
    return {"role": "assistant", "content": list(blocks)}


def gets(*blocks: dict) -> dict:
    return {"role": "user", "content": list(blocks)}


@pytest.fixture(scope="module")
def api() -> Iterator[MockAPI]:
    with serve(window=8_000, max_output=1_000) as running:
        yield running


def client(api: MockAPI, key: str = "any"):
    return anthropic.Anthropic(api_key=key, base_url=api.anthropic_base_url, max_retries=0)


def create(api: MockAPI, messages: list[dict], max_tokens: int = 200, **options):
    return client(api).messages.create(model="some-model", max_tokens=max_tokens, messages=messages, **options)


def refused(api: MockAPI, messages: list[dict], **options) -> str:
    """The text of the 400, whose status, type and form are checked here."""
    with pytest.raises(anthropic.BadRequestError) as caught:
        create(api, messages, **options)
    body = caught.value.body
    assert caught.value.status_code == 400
    assert caught.value.type == "invalid_request_error"
    assert set(body) == {"type", "error", "request_id"}
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    return body["error"]["message"]


# Answers


def test_text_comes_back_with_the_tokens_that_the_counter_gives(api: MockAPI) -> None:
    messages = [{"role": "user", "content": "where do I live?"}]
    answer = create(api, messages, system="The user lives in Lyon.")
    assert [(block.type, block.text) for block in answer.content] == [("text", "You said that you live in Lyon.")]
    assert answer.stop_reason == "end_turn"
    expected = count_request([{"role": "system", "content": "The user lives in Lyon."}, *messages])
    assert answer.usage.input_tokens == expected


def test_parallel_calls_are_blocks_and_their_results_one_message(api: MockAPI) -> None:
    answer = create(api, [USER], tools=TOOLS)
    assert answer.stop_reason == "tool_use"
    assert [block.input for block in answer.content] == [{"order_id": "A-1042"}, {"order_id": "A-1077"}]
    results = [
        {
            "type": "tool_result",
            "tool_use_id": block.id,
            "content": Shop().run_tool(tool_call(block.id, block.name, json.dumps(block.input))),
        }
        for block in answer.content
    ]
    last = create(api, [USER, {"role": "assistant", "content": answer.content}, gets(*results)], 500, tools=TOOLS)
    assert last.stop_reason == "end_turn"
    assert "A-1077" in last.content[0].text


def test_a_stream_of_parallel_calls_is_put_together_by_the_client(api: MockAPI) -> None:
    text = "I live in Lyon. Check A-1042 and A-1077"
    messages = [{"role": "user", "content": text}]
    with client(api).messages.stream(model="m", max_tokens=200, messages=messages, tools=TOOLS) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_message()
    whole = create(api, messages, tools=TOOLS)
    assert [block.type for block in streamed.content] == ["text", "tool_use", "tool_use"]
    assert [block.model_dump(exclude={"parsed_output"}) for block in streamed.content] == [
        block.model_dump(exclude={"parsed_output"}) for block in whole.content
    ]
    assert (streamed.stop_reason, streamed.usage.output_tokens) == ("tool_use", whole.usage.output_tokens)
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")


def test_streamed_text_is_the_text(api: MockAPI) -> None:
    messages = [{"role": "user", "content": "hello"}]
    with client(api).messages.stream(model="m", max_tokens=200, messages=messages) as stream:
        assert "".join(stream.text_stream) == MockModel().reply(messages)["content"]


def test_an_answer_over_its_limit_is_cut_and_says_so(api: MockAPI) -> None:
    answer = create(api, [{"role": "user", "content": "hello"}], max_tokens=3)
    assert answer.stop_reason == "max_tokens"


def test_tokens_can_be_counted_without_asking(api: MockAPI) -> None:
    counted = client(api).messages.count_tokens(model="m", messages=[USER], tools=TOOLS, system="Be kind.")
    assert counted.input_tokens == create(api, [USER], tools=TOOLS, system="Be kind.").usage.input_tokens


def test_consecutive_messages_of_one_role_and_a_text_after_results_are_accepted(api: MockAPI) -> None:
    assert create(api, [USER, USER])
    assert create(api, [USER, says(USE), gets(RESULT, TEXT)])


def test_blocks_that_only_anthropic_has_pass(api: MockAPI) -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    cached = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}
    search = {"type": "web_search_20250305", "name": "web_search"}
    assert create(api, [gets(image, cached), says(thinking, USE), gets(RESULT)], tools=[search, *TOOLS])
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [TEXT, image], "is_error": True}
    assert create(api, [USER, says(thinking, USE), gets(result)], system=[{"type": "text", "text": "Be kind."}])


def test_the_models_are_listed(api: MockAPI) -> None:
    assert [model.id for model in client(api).models.list()] == ["ctxlab-mock"]


# Refusals of the history


def test_a_dangling_call_is_refused_in_anthropics_words(api: MockAPI) -> None:
    text = (
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: c1. Each `tool_use` "
        "block must have a corresponding `tool_result` block in the next message."
    )
    assert refused(api, [USER, says(USE), gets(TEXT)]) == text
    assert refused(api, [USER, says(USE)]) == text
    assert refused(api, [USER, says(USE), gets(TEXT, RESULT)]) == text  # results come first


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        (
            [USER, says(TEXT), gets(RESULT)],
            "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: c1. Each `tool_result` "
            "block must have a corresponding `tool_use` block in the previous message.",
        ),
        ([USER, says(USE, USE), gets(RESULT)], "messages.1.content.1: `tool_use` ids must be unique"),
        (
            [USER, says(USE), gets(RESULT, RESULT)],
            "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with "
            "id: c1",
        ),
        ([], "messages: at least one message is required"),
        (
            [{"role": "system", "content": "x"}],
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system" '
            "as an input message role.",
        ),
        ([gets({"type": "tool_use", "id": "c", "name": "f", "input": {}})], None),
        ([USER, says(RESULT)], None),
        (
            [USER, says({**USE, "id": "a b"}), gets({**RESULT, "tool_use_id": "a b"})],
            "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        ),
        ([{"role": "user"}], "messages.0.content: Field required"),
        ([gets({"type": "text"})], "messages.0.content.0.text.text: Field required"),
        ([says({"type": "tool_use", "id": "c"})], "messages.0.content.0.tool_use.name: Field required"),
        ([says({**USE, "input": "x"})], "messages.0.content.0.tool_use.input: Input should be a valid dictionary"),
        (["hello"], "messages.0: Input should be a valid dictionary"),
        ([{"content": "x"}], "messages.0.role: Field required"),
        ([{"role": "user", "content": 5}], "messages.0.content: Input should be a valid list"),
        ([gets("x")], "messages.0.content.0: Input should be a valid dictionary"),
        ([gets({"text": "x"})], "messages.0.content.0.type: Field required"),
    ],
)
def test_each_refusal_has_its_text(api: MockAPI, messages: list[dict], text: str | None) -> None:
    said = refused(api, messages)
    assert text is None or said == text


def test_a_block_of_an_unknown_type_is_refused(api: MockAPI) -> None:
    said = refused(api, [gets({"type": "image_url"})])
    assert said.startswith("messages.0.content.0: Input tag 'image_url' found using 'type' does not match any of the")


def test_an_empty_message_is_refused(api: MockAPI) -> None:
    assert "non-empty content" in refused(api, [{"role": "user", "content": ""}, says(TEXT), USER])


def test_a_model_without_prefill_refuses_an_answer_at_the_end() -> None:
    with serve(anthropic="anthropic_no_prefill") as api:
        assert refused(api, [USER, says(TEXT)]) == (
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )


def test_a_refused_history_names_its_rule_in_a_header(api: MockAPI) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        create(api, [USER, says(USE)])
    assert caught.value.response.headers["x-ctxlab-rule"] == "A1"
    assert caught.value.request_id


# The window


def test_an_overflow_is_anthropics(api: MockAPI) -> None:
    messages = [{"role": "user", "content": "hi " * 9_000}]
    assert refused(api, messages) == f"prompt is too long: {count_request(messages)} tokens > 8000 maximum"


def test_the_completion_counts_into_the_window(api: MockAPI) -> None:
    messages = [{"role": "user", "content": "hi " * 7_500}]
    count = count_request(messages)
    assert create(api, messages, max_tokens=8_000 - count)
    assert refused(api, messages, max_tokens=1_000) == (
        f"input length and `max_tokens` exceed context limit: {count} + 1000 > 8000, decrease input length or "
        "`max_tokens` and try again"
    )


# Refusals of the request


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"max_tokens": 5_000},
            "max_tokens: 5000 > 1000, which is the maximum allowed number of output tokens for some-model",
        ),
        ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
        ({"tools": [{"name": "f"}]}, "tools.0.custom.input_schema: Field required"),
        ({"extra_body": {"max_tokens": None}}, "max_tokens: Field required"),
        ({"extra_body": {"model": None}}, "model: Field required"),
        ({"extra_body": {"model": 5}}, "model: Input should be a valid string"),
        ({"extra_body": {"max_tokens": "5"}}, "max_tokens: Input should be a valid integer"),
        ({"extra_body": {"system": 5}}, "system: Input should be a valid string"),
        ({"extra_body": {"tools": {}}}, "tools: Input should be a valid list"),
        ({"extra_body": {"tools": ["f"]}}, "tools.0: Input should be a valid dictionary"),
        ({"extra_body": {"messages": "hello"}}, "messages: Input should be a valid list"),
    ],
)
def test_a_request_that_is_wrong_in_itself_is_refused(api: MockAPI, options: dict, text: str) -> None:
    assert refused(api, [USER], **options) == text


def test_a_missing_and_a_wrong_key_are_401() -> None:
    with serve(key="right") as api:
        assert client(api, "right").models.list()
        with pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key") as caught:
            client(api, "wrong").models.list()
        assert caught.value.type == "authentication_error"


def test_a_model_that_does_not_exist_is_404() -> None:
    with serve(names=["small"]) as api, pytest.raises(anthropic.NotFoundError) as caught:
        create(api, [USER])
    assert (caught.value.type, caught.value.body["error"]["message"]) == ("not_found_error", "model: some-model")


def test_faults_have_anthropics_types() -> None:
    with serve(faults=[429, 500, 529]) as api:
        for kind in ("rate_limit_error", "api_error", "overloaded_error"):
            with pytest.raises(anthropic.APIStatusError) as caught:
                create(api, [USER])
            assert caught.value.type == kind
        assert create(api, [USER])
