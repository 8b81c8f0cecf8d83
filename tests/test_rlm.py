"""A recursive language model: right answers with a bill, a trace as a tree, and code that can hurt nobody."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxlab.errors import ModelError, WrongArgument
from ctxlab.messages import MessageLike, as_messages
from ctxlab.models import Model, OpenAIModel, Piece, Reply, Tools, pieces
from ctxlab.rlm import (
    COMPACTION,
    DEFAULT_LIMITS,
    FULL,
    RLM,
    Compared,
    MockReader,
    RlmLimits,
    Run,
    Usage,
    as_text,
    code_in,
    compare_ways,
    records,
    run_rlm,
    tasks,
    to_json,
)
from ctxlab.rlm.loop import NO_CODE, NOTHING, TEXT_MARK, leaf_messages, root_messages
from ctxlab.rlm.reader import summarise_orders
from ctxlab.tokens import count_tokens, estimate_tokens

QUICK = RlmLimits(cpu_seconds=1, seconds=20)


class Says(Model):
    """Writes the given code, one piece a step (the last one again and again), and answers sub-calls with ``leaf``."""

    scripted = True

    def __init__(self, *code: str, leaf: str = "seven") -> None:
        self.code, self.leaf, self.seen = code, leaf, []  # type: ignore[var-annotated]

    def stream(self, messages: Iterable[MessageLike], tools: Tools = ()) -> Iterator[Piece]:
        return pieces(self.reply(messages, tools))

    def reply(self, messages: Iterable[MessageLike], tools: Tools = ()) -> Reply:
        history = as_messages(messages)
        self.seen.append([message.to_dict() for message in history])
        if TEXT_MARK in history[-1].text:
            return {"role": "assistant", "content": self.leaf}
        step = sum(message.role == "assistant" for message in history)
        return {"role": "assistant", "content": fenced(self.code[min(step, len(self.code) - 1)])}


class Broken(Says):
    """Fails on the n-th request."""

    def __init__(self, at: int, *code: str) -> None:
        super().__init__(*code)
        self.at = at

    def reply(self, messages: Iterable[MessageLike], tools: Tools = ()) -> Reply:
        if len(self.seen) + 1 == self.at:
            self.seen.append([])
            raise ModelError("no answer: 503", status=503, attempts=4)
        return super().reply(messages, tools)


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def play(*code: str, prompt: str = "one\ntwo\nthree", limits: RlmLimits = QUICK, leaf: str = "seven") -> Run:
    return run_rlm("What is it?", prompt, Says(*code, leaf=leaf), limits)


# --- the loop ---------------------------------------------------------------------------------------------------------


def test_code_looks_at_the_prompt_and_answers() -> None:
    run = play("lines = prompt.splitlines()\nprint(len(lines))", "answer(lines[1])")
    assert run.answer == "two"
    assert [step.output for step in run.steps] == ["3", NOTHING]
    assert run.stopped == ""


def test_the_model_is_never_sent_the_text_unless_it_prints_it() -> None:
    model = Says("print(prompt[:3])", "answer(1)")
    run_rlm("What?", "abc" + "SECRET" * 1000, model, QUICK)
    assert "SECRET" not in json.dumps(model.seen)
    assert model.seen[1][-1]["content"] == "abc"


def test_a_sub_call_gets_the_question_and_the_snippet_and_nothing_else() -> None:
    model = Says("answer(llm('How many?', prompt[:5]) + '!')", leaf="12")
    run = run_rlm("What?", "0123456789", model, QUICK)
    assert run.answer == "12!"
    assert model.seen[1] == leaf_messages("How many?", "01234")
    (call,) = run.steps[0].calls
    assert (call.question, call.characters, call.answer, call.error, call.run) == ("How many?", 5, "12", "", None)


def test_the_bill_is_the_sum_of_all_requests_and_answers() -> None:
    model = Says("x = llm('a', 'b')", "answer(x)", leaf="seven words are not in this one")
    run = run_rlm("What?", "text", model, QUICK)
    replies = [fenced("x = llm('a', 'b')"), model.leaf, fenced("answer(x)")]
    assert run.usage == Usage(3, sum(map(estimate_tokens, model.seen)), sum(map(count_tokens, replies)))
    parts = [step.usage for step in run.steps] + [call.usage for step in run.steps for call in step.calls]
    assert sum(parts, Usage()) == run.usage


def test_an_error_is_shown_to_the_model_with_its_line_and_it_may_try_again() -> None:
    run = play("x = 1\nprint('so far')\nx / 0", "answer(x)")
    assert run.steps[0].output == "so far\nError: line 3: ZeroDivisionError: division by zero"
    assert run.answer == "1", "what was set before the error is still there"


def test_code_that_does_not_parse_is_an_error_with_its_line() -> None:
    assert play("x = 1\nif", "answer(0)").steps[0].error.startswith("line 2: SyntaxError")


def test_a_reply_without_code_is_told_so() -> None:
    class Talks(Says):
        def reply(self, messages: Iterable[MessageLike], tools: Tools = ()) -> Reply:
            history = as_messages(messages)
            text = fenced("answer(1)") if len(history) > 2 else "It is probably four."
            return {"role": "assistant", "content": text}

    run = run_rlm("What?", "text", Talks(), QUICK)
    assert (run.steps[0].code, run.steps[0].output, run.answer) == ("", NO_CODE, "1")


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("```python\na\n```", "a\n"),
        ("Look:\n```py\na\n```\nand\n```repl\nb\n```", "a\n\nb\n"),
        ("```\na\n```", "a\n"),
        ("  ```Python\r\na\r\n  ```", "a\n"),
        ("```json\n{}\n```", ""),
        ("```python\nprint('```')\n```", "print('```')\n"),
        ("no code, and `answer(1)` in a sentence", ""),
    ],
)
def test_code_is_what_stands_in_the_fences(reply: str, code: str) -> None:
    assert code_in(reply) == code


@given(st.text(alphabet="`python\n ab", max_size=60))
def test_no_reply_makes_the_parser_raise(reply: str) -> None:
    assert isinstance(code_in(reply), str)


# --- limits -----------------------------------------------------------------------------------------------------------


def test_steps_calls_and_tokens_each_end_a_run() -> None:
    assert play("print(1)", limits=replace(QUICK, steps=3)).stopped == "no answer after 3 steps"
    assert play("print(1)", limits=replace(QUICK, calls=2)).stopped == "all 2 model calls are spent"
    assert "of 700 tokens are spent" in play("print(1)", limits=replace(QUICK, tokens=700)).stopped


def test_the_calls_of_the_whole_tree_count_and_the_code_is_told() -> None:
    run = play("print([llm('q', str(i)) for i in range(9)])", "answer('gave up')", limits=replace(QUICK, calls=5))
    assert run.steps[0].error == "line 1: RuntimeError: all 5 model calls are spent"
    assert [call.error for call in run.steps[0].calls] == ["", "", "", "", "all 5 model calls are spent"]
    assert (run.answer, run.usage.calls) == (None, 5)


def test_a_snippet_over_the_window_is_refused_before_it_is_sent() -> None:
    run = play("llm('q', prompt)", "answer(0)", prompt="word " * 3_000, limits=replace(QUICK, window=2_000))
    assert "with the reserve; the window has 2,000" in run.steps[0].error
    assert run.usage.calls == 2


def test_depth_0_has_no_sub_calls_and_depth_2_gives_each_a_run_of_its_own() -> None:
    flat = play("llm('q', 'x')", "answer(0)", limits=replace(QUICK, depth=0))
    assert "no sub-calls are allowed here" in flat.steps[0].error
    deep = play(
        "answer(llm('q', prompt[:-1]) if len(prompt) > 1 else 'end')", prompt="ab", limits=replace(QUICK, depth=2)
    )
    (call,) = deep.steps[0].calls
    assert call.run is not None
    assert (call.run.characters, call.run.answer, deep.answer) == (1, "end", "end")
    assert call.usage == call.run.usage
    assert deep.usage.calls == 2


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"depth": -1}, {"calls": True}, {"window": 1.5}])
def test_a_limit_that_means_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(WrongArgument, match="expected a whole number"):
        RlmLimits(**wrong)
    with pytest.raises(WrongArgument, match="not a text"):
        run_rlm("q", None, Says("answer(1)"))  # type: ignore[arg-type]


def test_a_model_that_fails_ends_the_run_at_the_root_and_an_error_at_a_leaf() -> None:
    assert run_rlm("q", "text", Broken(1, "answer(1)"), QUICK).stopped == "no answer: 503"
    run = run_rlm("q", "text", Broken(2, "llm('q', 'x')", "answer('went on')"), QUICK)
    assert run.steps[0].error == "line 1: RuntimeError: no answer: 503"
    assert run.answer == "went on"


# --- code that means harm ---------------------------------------------------------------------------------------------


def test_an_endless_loop_is_stopped_and_the_next_step_has_the_prompt_again() -> None:
    run = play("x = 1\nwhile True: pass", "answer(len(prompt) + ('x' in globals()))")
    assert run.steps[0].error.startswith("stopped: ")
    assert "the variables are lost" in run.steps[0].error
    assert run.answer == str(len("one\ntwo\nthree"))


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'{}\\n')\n    except OSError: pass",
        "import sys; sys.exit(3)",
        "raise KeyboardInterrupt",
        "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd",
        "x = bytearray(2 << 30)",
        "def f(): f()\nf()",
        "import builtins; builtins.compile = None; builtins.exec = None; x / 0",
        "llm(1, 2, 3)",
        "llm('q', b'bytes')",
    ],
)
def test_whatever_the_code_does_is_an_error_in_the_trace(code: str) -> None:
    run = play(code, "answer('still here')", limits=replace(QUICK, memory=512 << 20, steps=3))
    assert run.steps[0].error
    assert run.stopped == "" or run.steps[-1].error, "the last one may have broken its own worker for good"


def test_code_that_asks_on_and_on_fills_neither_the_trace_nor_the_memory() -> None:
    ask = "for _ in range(400):\n    try: llm('q' * 9000, 'x' * 5000)\n    except RuntimeError as error: last = error\n"
    code = ask + "print(last)"
    run = play(code, "answer(1)", limits=replace(QUICK, calls=4, window=1_000))
    assert len(run.steps[0].calls) == 5
    assert {len(call.question) for call in run.steps[0].calls} == {500}
    assert run.steps[0].output == "more than 4 sub-calls in one step"
    long = play("llm('q', 'x' * 3 * 10**6)", "answer(1)", limits=replace(QUICK, window=1_000))
    assert "characters, far over the window of 1,000 tokens" in long.steps[0].error


def test_what_is_printed_is_capped_and_the_model_is_told_how_much_is_missing() -> None:
    run = play("for _ in range(2000): print('x' * 999)", "answer(1)", limits=replace(QUICK, output=500))
    shown = run.steps[0].output
    assert shown.endswith("[1,999,500 more characters were printed and are not shown: print less]")
    assert len(shown) < 600


def test_an_answer_is_text_and_capped() -> None:
    assert play("answer({'a': 1})").answer == "{'a': 1}"
    assert play("answer('y' * 10**6)", limits=replace(QUICK, output=300)).answer == "y" * 300


def test_text_that_no_request_can_carry_is_cleaned_on_its_way_out() -> None:
    model = Says("print('a\\ud800')\nllm('q\\ud800', 'b\\udfff')", "answer('\\ud800')")
    run = run_rlm("q", "text", model, QUICK)
    json.dumps(model.seen, ensure_ascii=False).encode("utf-8")
    assert (run.steps[0].output, run.steps[0].calls[0].question, run.answer) == ("a?", "q?", "?")


def test_an_answer_counts_though_the_code_catches_everything() -> None:
    assert play("try: answer(5)\nexcept BaseException: pass").answer == "5"


def test_the_code_sees_no_file_of_ours_and_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ctxlab.sandbox import LEVELS, isolation

    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-seen")
    secret = tmp_path / "secret"
    secret.write_text("secret", "utf-8")
    run = play(
        "import os; print(os.environ.get('OPENAI_API_KEY'))", f"print(open({str(secret)!r}).read())", "answer(1)"
    )
    assert run.steps[0].output == "None"
    if isolation().level >= LEVELS.index("landlock"):
        assert "secret" not in run.steps[1].output.split("Error:")[0]
        assert run.steps[1].error


def test_a_real_models_code_is_not_run_where_the_machine_cannot_shut_it_off() -> None:
    from ctxlab.sandbox import IsolationTooWeak, at_level

    class Stranger(Says):
        scripted = False

    with at_level("limits"):
        with pytest.raises(IsolationTooWeak, match="landlock is required"):
            run_rlm("q", "text", Stranger("answer(1)"), QUICK)
        assert run_rlm("q", "text", Stranger("answer(1)"), QUICK, isolation="limits").answer == "1"
        assert run_rlm("q", "text", Says("answer(1)"), QUICK).answer == "1"


# --- the trace --------------------------------------------------------------------------------------------------------


def test_the_trace_is_frozen_and_prints_as_a_tree() -> None:
    run = play("print(llm('Which?', 'abc'))", "answer(2)")
    with pytest.raises(FrozenInstanceError):
        run.answer = "3"  # type: ignore[misc]
    lines = run.tree().splitlines()
    assert lines[0] == "What is it?  [13 characters]"
    assert lines[2] == "    > print(llm('Which?', 'abc'))"
    assert lines[3].startswith("    llm('Which?', 3 characters) -> seven  [1 call, ")
    assert lines[4] == "    seven"
    assert lines[-1].startswith("  answer: 2  [3 calls, ")
    assert json.loads(json.dumps(to_json(run)))["steps"][0]["calls"][0]["answer"] == "seven"


# --- records, questions, and the scripted model -----------------------------------------------------------------------


def test_records_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    assert records(50, seed=3) == records(50, seed=3)
    assert records(50, seed=3) != records(50, seed=4)
    assert 20_000 < count_tokens(as_text(records())) < 30_000


def test_the_right_answers_are_counted_by_hand_on_three_records() -> None:
    orders = tuple(
        replace(order, city=city, state=state, means=means, customer="Mei Tan", cents=cents)
        for order, (city, state, means, cents) in zip(
            records(3),
            [
                ("Lyon", "refunded", "late", 1050),
                ("Porto", "refunded", "broken", 205),
                ("Lyon", "delivered", "late", 5),
            ],
            strict=True,
        )
    )
    expected = {task.question: task.expected for task in tasks(orders)}
    assert expected["How many orders were refunded?"] == "2"
    assert expected["What did all orders of Mei Tan cost together, in euros?"] == "12.60"
    assert expected["How many orders have a note that says that something arrived broken?"] == "1"
    assert expected["Which city has the most orders with a note that says that it came late?"] == "Lyon"


def test_no_word_finds_the_broken_parcels() -> None:
    orders = records()
    assert not any("broken" in order.note for order in orders if order.means == "broken")
    assert any("broken" in order.note for order in orders if order.means == "praise")


@pytest.mark.parametrize("seed", range(3))
def test_the_scripted_model_answers_every_question_over_any_records(seed: int) -> None:
    orders = records(150, seed)
    for task in tasks(orders, seed):
        assert run_rlm(task.question, as_text(orders), MockReader(), QUICK).answer == task.expected, task


def test_the_scripted_model_plays_it_two_levels_deep() -> None:
    orders = records(120, 5)
    task = tasks(orders, 5)[5]
    run = run_rlm(task.question, as_text(orders), MockReader(), replace(QUICK, depth=2))
    assert run.answer == task.expected
    assert all(call.run is not None and call.run.answer == call.answer for step in run.steps for call in step.calls)


def test_the_scripted_model_says_that_it_does_not_know_what_it_was_not_made_for() -> None:
    run = run_rlm("What is the meaning of this?", as_text(records(5)), MockReader(), QUICK)
    assert run.answer == "I do not know: nothing here says so."


def test_a_second_summary_takes_up_the_first() -> None:
    orders = records(60)
    once = summarise_orders(as_text(orders))
    twice = summarise_orders(summarise_orders(as_text(orders[:25])) + "\n" + as_text(orders[25:]))
    assert once.splitlines()[0] == twice.splitlines()[0]
    assert once.startswith("Orders so far: 60. By state: delivered ")


# --- three ways -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared() -> Compared:
    return compare_ways(limits=QUICK)


def right(compared: Compared, way: str) -> int:
    return sum(one.right for one in compared.of(way))


def test_over_the_window_full_context_answers_nothing_and_a_summary_keeps_what_its_author_expected(
    compared: Compared,
) -> None:
    assert (right(compared, FULL), right(compared, COMPACTION), right(compared, RLM)) == (0, 2, 7)
    assert compared.bill(FULL) == Usage()
    kept = [one.task.question for one in compared.of(COMPACTION) if one.right]
    assert kept == ["How many orders went to Kyiv?", "How many orders were refunded?"]
    assert compared.summaries == compared.shared.calls == 2


def test_the_bills_add_up(compared: Compared) -> None:
    totals = {row["way"]: row for row in compared.totals()}
    assert totals[COMPACTION]["model calls"] == 7 + compared.summaries
    spent = sum((one.usage for one in compared.of(COMPACTION)), compared.shared)
    assert totals[COMPACTION]["tokens in"] == spent.tokens_in
    runs = [one.run for one in compared.of(RLM)]
    assert totals[RLM]["tokens in"] == sum(run.usage.tokens_in for run in runs if run is not None)


def test_in_a_window_that_is_large_enough_all_three_are_right_and_the_bills_differ() -> None:
    orders = records(200)
    wide = compare_ways(orders, limits=replace(QUICK, window=65_536))
    assert [right(wide, way) for way in (FULL, COMPACTION, RLM)] == [7, 7, 7]
    assert wide.summaries == 0
    text = count_tokens(as_text(orders))
    assert wide.bill(FULL).tokens_in > 7 * text > wide.bill(RLM).tokens_in


def test_the_numbers_that_lesson_09_quotes_are_those_that_it_computes(compared: Compared) -> None:
    lesson = (Path(__file__).parent.parent / "notebooks" / "09_the_other_way.ipynb").read_text("utf-8")
    wrong = [one.answer or "" for one in compared.of(COMPACTION) if not one.right]
    assert sum(answer.startswith("I do not know") for answer in wrong) == 2
    assert wrong[2:] == ["0.00", "13", "Osaka"]
    assert "Twice it says that it does not know" in lesson
    assert "Three times it gives" in lesson
    assert "answers '13' to 'how many arrived broken?', and 53 is right" in lesson
    assert compared.of(RLM)[5].answer == "53"
    assert round(compared.corpus_tokens, -3) == 24_000
    assert compared.bill(RLM).tokens_in == pytest.approx(compared.corpus_tokens, rel=0.05), "about once the text"


def test_the_comparison_is_the_same_each_time(compared: Compared) -> None:
    assert compare_ways(limits=QUICK) == compared


def test_rows_carry_the_right_answer_and_a_mark(compared: Compared) -> None:
    rows = compared.rows()
    assert list(rows[0]) == ["question", "expected", FULL, COMPACTION, RLM]
    assert rows[0][RLM] == f"✓ {rows[0]['expected']}"
    assert rows[0][COMPACTION].startswith("✗ I do not know")


# --- a real endpoint --------------------------------------------------------------------------------------------------


def test_over_http_a_strict_endpoint_accepts_every_request_and_the_answer_is_right() -> None:
    pytest.importorskip("openai")
    from ctxlab.mock_api import serve

    orders = records(90, 2)
    task = tasks(orders, 2)[5]
    with serve(window=16_384, model=MockReader()) as api:
        model = OpenAIModel("any", "any-key", api.openai_base_url)
        run = run_rlm(task.question, as_text(orders), model, replace(QUICK, seconds=60), isolation="limits")
    assert run.answer == task.expected
    assert run == run_rlm(task.question, as_text(orders), MockReader(), replace(QUICK, seconds=60))


def test_the_system_prompt_names_what_the_environment_has() -> None:
    system = root_messages("q", "text", DEFAULT_LIMITS)[0]["content"]
    for name in ("prompt:", "llm(question, snippet)", "answer(value)", "print(...)", "16,384", "2,000"):
        assert name in system
