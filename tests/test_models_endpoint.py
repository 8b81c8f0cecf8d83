"""A real endpoint, over real HTTP against the kit's own strict server: retries, refusals, interrupts, and the key."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator

import pytest

from ctxlab.errors import ModelError, ModelRefused
from ctxlab.mock_api import MockAPI, serve
from ctxlab.models import SHOP_TOOLS, Answer, MockModel, Model, OpenAIModel, Retries, Shop, play_round
from ctxlab.models.base import tool_call
from ctxlab.models.endpoint import Secret
from ctxlab.providers import validate

openai = pytest.importorskip("openai")

KEY = "sk-test-0123456789abcdefSECRET"


def user(text: str) -> dict:
    return {"role": "user", "content": text}


ASK = [user("Check A-1042 and A-1077")]
DANGLING = [user("go"), {"role": "assistant", "content": None, "tool_calls": [tool_call("c1", "f", "{}")]}]


class Waits:
    """A clock that stands still but for the waiting that it is asked for."""

    def __init__(self, **options) -> None:
        self.waited: list[float] = []
        self.retries = Retries(
            sleep=self.waited.append, clock=lambda: float(sum(self.waited)), chance=lambda: 0.0, **options
        )


def model(api: MockAPI, waits: Waits | None = None, **options) -> OpenAIModel:
    retries = (waits or Waits()).retries
    return OpenAIModel("some-model", KEY, api.openai_base_url, retries=retries, **options)


@pytest.fixture
def api() -> Iterator[MockAPI]:
    with serve(window=8_000) as running:
        yield running


# Answers


@pytest.mark.parametrize("text", ["where do I live?", "Check A-1042 and A-1077", "I live in Lyon. Where is A-1042?"])
def test_the_answer_over_http_is_the_models_own_streamed_or_not(api: MockAPI, text: str) -> None:
    expected = MockModel().reply([user(text)], SHOP_TOOLS)
    assert model(api).reply([user(text)], SHOP_TOOLS) == expected
    answer = Answer()
    for piece in model(api).stream([user(text)], SHOP_TOOLS):
        answer.add(piece)
    assert answer.message() == expected


def test_a_whole_round_with_parallel_calls_is_valid(api: MockAPI) -> None:
    history = list(ASK)
    shown: list[str] = []
    made = play_round(model(api), history, SHOP_TOOLS, Shop().run_tool, history.append, shown.append)
    assert [message["role"] for message in made] == ["assistant", "tool", "tool", "assistant"]
    assert "".join(shown) == made[-1]["content"]
    assert validate(history) == []


def test_what_a_log_adds_to_a_message_is_not_sent(api: MockAPI) -> None:
    logged = {"seq": 1, "ts": "2026-09-04T10:00:00Z", **user("hello")}
    assert model(api).reply([logged])["role"] == "assistant"


def test_parameters_are_sent(api: MockAPI) -> None:
    reply = model(api, parameters={"max_tokens": 5}).reply([user("hello")])
    assert len(reply["content"]) < len(MockModel().reply([user("hello")])["content"])


# Refusals


@pytest.mark.parametrize("way", ["reply", "stream"])
def test_a_400_is_shown_with_the_rule_that_it_broke(api: MockAPI, way: str) -> None:
    waits = Waits()
    with pytest.raises(ModelRefused) as caught:
        list(getattr(model(api, waits), way)(DANGLING))
    error = caught.value
    assert error.status == 400
    assert "must be followed by tool messages responding to each 'tool_call_id'" in str(error)
    assert "rule O2, message 1: Put a tool message for c1" in str(error)
    assert [(one.rule, one.index) for one in error.violations] == [("O2", 1)]
    assert "repair" in error.hint
    assert waits.waited == []


def test_an_overflow_says_to_compress(api: MockAPI) -> None:
    with pytest.raises(ModelRefused) as caught:
        model(api).reply([user("hi " * 9_000)])
    assert caught.value.code == "context_length_exceeded"
    assert "maximum context length is 8000 tokens" in str(caught.value)
    assert "compress" in caught.value.hint


def test_an_unknown_model_and_a_wrong_key_say_what_to_check() -> None:
    with serve(names=["other"]) as api, pytest.raises(ModelRefused) as caught:
        model(api).reply(ASK)
    assert "CTXLAB_MODEL" in caught.value.hint
    with serve(key="another") as api, pytest.raises(ModelRefused) as caught:
        model(api).reply(ASK)
    assert "OPENAI_API_KEY" in caught.value.hint


# Retries


def test_it_waits_as_told_and_then_twice_as_long_each_time() -> None:
    waits = Waits()
    with serve(faults=[429, 503, 500]) as api:
        assert model(api, waits).reply(ASK)["role"] == "assistant"
    assert waits.waited == [1.0, 1.0, 2.0]  # Retry-After: 1; then 0.5 * 2 and 0.5 * 4


@pytest.mark.parametrize("way", ["reply", "stream"])
def test_a_dropped_connection_is_tried_again(way: str) -> None:
    waits = Waits()
    with serve(faults=["drop"]) as api:
        assert list(getattr(model(api, waits), way)(ASK))
    assert waits.waited == [0.5]


def test_after_all_attempts_it_says_how_many() -> None:
    waits = Waits(attempts=3)
    with serve(faults=[503] * 3) as api, pytest.raises(ModelError, match=r"did not answer \(3 attempts\)") as caught:
        model(api, waits).reply(ASK)
    assert (caught.value.status, caught.value.attempts) == (503, 3)
    assert waits.waited == [0.5, 1.0]


def test_the_limit_over_all_attempts_holds() -> None:
    waits = Waits(attempts=100, limit=3.0)
    with serve(faults=[503] * 9) as api, pytest.raises(ModelError):
        model(api, waits).reply(ASK)
    assert waits.waited == [0.5, 1.0]  # a third wait of 2 s would pass the 3 s


def test_a_long_retry_after_is_not_waited_for() -> None:
    waits = Waits(patience=0.5)
    with serve(faults=[429]) as api, pytest.raises(ModelError):
        model(api, waits).reply(ASK)
    assert waits.waited == []


def test_the_wait_is_shortened_at_random_by_up_to_a_half() -> None:
    retries = Retries(chance=lambda: 1.0)
    assert [retries.wait(tried, None) for tried in (1, 2, 3, 4)] == [0.25, 0.5, 1.0, None]
    assert Retries(attempts=9, chance=lambda: 0.0).wait(8, None) == 8.0  # the longest


def test_a_stream_that_breaks_in_the_middle_gives_its_text_and_is_not_asked_again() -> None:
    waits = Waits()
    with serve(faults=["cut"]) as api, pytest.raises(ModelError) as caught:
        list(model(api, waits).stream([user("hello")]))
    assert waits.waited == []
    assert caught.value.partial
    assert MockModel().reply([user("hello")])["content"].startswith(caught.value.partial)


def test_nobody_there_is_a_connection_error_with_a_hint() -> None:
    with serve() as api:
        gone = api.openai_base_url
    with pytest.raises(ModelError) as caught:
        OpenAIModel("m", KEY, gone, retries=Waits(attempts=2).retries).reply(ASK)
    assert caught.value.status is None
    assert "OPENAI_BASE_URL" in caught.value.hint


class Silent(Model):
    """A model that does not answer until it is let go."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def stream(self, messages, tools=()):
        self.released.wait(30)
        yield from MockModel().stream(messages, tools)


def test_a_server_that_does_not_answer_in_time_is_given_up() -> None:
    silent = Silent()
    with serve(model=silent) as api:
        try:
            with pytest.raises(ModelError, match="timed out"):
                model(api, Waits(attempts=1), timeout=0.1).reply(ASK)
        finally:
            silent.released.set()


# Ctrl-C

INTERRUPTED_CALL = """
import threading
from ctxlab.mock_api import serve
from ctxlab.models import Model, OpenAIModel, Piece, play_round
from ctxlab.providers import validate

class Slow(Model):
    def stream(self, messages, tools=()):
        print("asked", flush=True)
        threading.Event().wait(30)
        yield Piece(text="late")

history = [{"role": "user", "content": "hello"}]
with serve(model=Slow()) as api:
    try:
        play_round(OpenAIModel("m", "k", api.openai_base_url), history, append=history.append)
    except KeyboardInterrupt:
        print("stopped", len(history), validate(history))
"""


def test_ctrl_c_in_the_middle_of_a_call_leaves_the_history_as_it_was() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_CALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asked\n"
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (out, err) == ("stopped 1 []\n", "")


def test_ctrl_c_in_the_middle_of_a_stream_keeps_what_was_shown(api: MockAPI) -> None:
    history = [user("hello")]

    def stop(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play_round(model(api), history, append=history.append, on_text=stop)
    assert history[-1]["role"] == "assistant"
    assert validate(history) == []
    history.append(user("where do I live?"))
    assert play_round(model(api), history, append=history.append)


# The key


def test_the_key_is_in_no_repr_no_pickle_and_no_variable(api: MockAPI) -> None:
    talker = model(api)
    talker.reply(ASK)
    for shown in (repr(talker), str(talker), repr(vars(talker)), repr(Secret(KEY)), f"{Secret(KEY)}"):
        assert KEY not in shown
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(Secret(KEY))
    assert "secret" not in repr(OpenAIModel("m", "k", "https://me:secret@example.org/v1?key=secret"))


def _all_of(error: BaseException | None) -> list[BaseException]:
    found = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


@pytest.mark.parametrize("faults", [[], [503] * 9, ["drop"] * 9])
def test_the_key_is_in_no_error_and_in_no_log(faults: list, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serve(key="another-key", faults=faults) as api, pytest.raises(ModelError) as caught:
        model(api, Waits()).reply(ASK)
    assert len(_all_of(caught.value)) == 1  # the client's own exception, which holds the request, is not carried along
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert KEY not in repr(caught.value.facts)
    assert KEY not in caplog.text
    assert KEY[-10:] not in caplog.text
    assert all(KEY not in str(one) for one in api.exchanges)


def test_an_error_that_repeats_the_key_is_cleaned() -> None:
    with serve(key="x") as api, pytest.raises(ModelRefused) as caught:
        model(api).reply(ASK)
    assert "SECRET" not in str(caught.value)
    assert "***" in str(caught.value)


def test_without_a_key_or_a_model_it_says_what_to_set() -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY and CTXLAB_MODEL not set"):
        OpenAIModel.from_environment({})
    with pytest.raises(ModelError, match="CTXLAB_MODEL not set") as caught:
        OpenAIModel.from_environment({"OPENAI_API_KEY": KEY})
    assert "MOCK=1" in caught.value.hint
    assert KEY not in str(caught.value)
    made = OpenAIModel.from_environment(
        {"OPENAI_API_KEY": KEY, "CTXLAB_MODEL": "m", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    )
    assert repr(made) == "OpenAIModel('m', base_url='http://127.0.0.1:1/v1')"


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ModelError, match="openai package is not installed") as caught:
        OpenAIModel("m", KEY).reply(ASK)
    assert "ctxlab[openai]" in caught.value.hint
