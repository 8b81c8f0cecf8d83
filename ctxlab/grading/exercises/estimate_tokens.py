"""Exercise 1: how many tokens does a history cost?"""

from __future__ import annotations

import base64
from typing import Any

from ctxlab.grading.asking import Answer, Ask, short
from ctxlab.grading.draw import Draw
from ctxlab.grading.model import Check, Exercise
from ctxlab.tokens import estimate_tokens as reference

LESSON = "notebooks/01_the_four_part_budget.ipynb"
BANDS = {"english": (0.65, 1.5), "chinese": (0.6, 1.6), "japanese": (0.6, 1.6), "json": (0.5, 1.6)}
NEARLY_NOTHING = 16  # tokens; picked: reply priming is 3, and nobody's framing is four times that
MAX_IMAGE = 5_000  # tokens; picked: above what any provider bills for one picture, far below its base64 text


def number(answer: Answer) -> int:
    """The answer as a number of tokens; a float is taken for one here, since only one check asks for the type."""
    value = answer.value
    if type(value) not in (int, float):
        answer.fail(f"{short(value)} (a {type(value).__name__})", "an int")
    return int(value)


def histories(draw: Draw, kind: str) -> list[list[dict[str, Any]]]:
    """Two histories of one kind of text, of a few hundred and of some two thousand tokens."""
    if kind == "json":
        return [[message for _ in range(n) for message in draw.calls(draw.number(1, 2), 4)] for n in (1, 6)]
    write = {"english": draw.english, "chinese": draw.chinese, "japanese": draw.japanese}[kind]
    roles = ("user", "assistant")
    return [[{"role": role, "content": write(draw.number(n, n + 3))} for role in roles * (n // 2)] for n in (4, 9)]


def check_int(ask: Ask, draw: Draw) -> None:
    answer = ask.call(draw.round(1))
    if type(answer.value) is not int or answer.value < 0:
        answer.fail(f"{short(answer.value)} (a {type(answer.value).__name__})", "an int, not below 0")


def check_empty(ask: Ask, draw: Draw) -> None:
    answer = ask.call([])
    if not 0 <= number(answer) <= NEARLY_NOTHING:
        answer.fail(f"{answer.value}", f"0, or the few tokens of the reply's priming (at most {NEARLY_NOTHING})")


def check_grows(ask: Ask, draw: Draw) -> None:
    history = draw.history(2)[: draw.number(6, 8)]
    before = number(ask.call(history[:1]))
    for length in range(2, len(history) + 1):
        answer = ask.call(history[:length])
        now = number(answer)
        if now <= before:
            answer.fail(
                f"{now} tokens for {length} messages, {before} for the first {length - 1} of them (the last message is "
                f"{short(history[length - 1])})",
                "more tokens with each message",
            )
        before = now


def check_calls(ask: Ask, draw: Draw) -> None:
    messages = [draw.user(), *draw.calls(2)[:1]]
    calls = messages[1]["tool_calls"]
    longer = [{**call, "function": {**call["function"], "arguments": draw.json(6)}} for call in calls]
    _costs(ask, messages, [messages[0], {**messages[1], "tool_calls": longer}], "longer arguments in its tool calls")


def check_results(ask: Ask, draw: Draw) -> None:
    user, call, result = [draw.user(), *draw.calls(1)]
    _costs(ask, [user, call, result], [user, call, {**result, "content": draw.json(12)}], "a longer tool result")


def _costs(ask: Ask, short_one: list[dict[str, Any]], long_one: list[dict[str, Any]], what: str) -> None:
    """The longer history must cost about as many tokens more as it does by the tokenizer (half of it will do)."""
    before, answer = number(ask.call(short_one)), ask.call(long_one)
    more, true = number(answer) - before, reference(long_one) - reference(short_one)
    if more < true / 2:
        answer.fail(f"{more} tokens more than without", f"about {true} tokens more: the same history with {what}")


def check_shapes(ask: Ask, draw: Draw) -> None:
    text = draw.english(6)
    none = ask.call([draw.user(), {"role": "assistant", "content": None}])
    number(none)
    as_text = number(ask.call([{"role": "user", "content": text}]))
    half = text.index(". ", len(text) // 2) + 1 if ". " in text[len(text) // 2 :] else len(text) // 2
    parts = [{"type": "text", "text": text[:half]}, {"type": "text", "text": text[half:]}]
    answer = ask.call([{"role": "user", "content": parts}])
    if not 0.7 * as_text <= number(answer) <= 1.5 * as_text:
        answer.fail(f"{answer.value} tokens", f"about {as_text}, as for the same text in one piece")


def check_special(ask: Ask, draw: Draw) -> None:
    special = draw.pick(("<|endoftext|>", "<|im_start|>system", "<|fim_prefix|>", "<|endofprompt|>"))
    words = draw.english(1)
    plain, answer = number(ask.call([_user(words)])), ask.call([_user(f"{words} {special} {special}")])
    if number(answer) <= plain:
        answer.fail(f"{answer.value} tokens with {special!r} twice at the end, {plain} without", "more with it")


def _band(kind: str) -> Check:
    low, high = BANDS[kind]
    name = {"json": "JSON tool calls and results"}.get(kind, f"{kind.capitalize()} prose")

    def run(ask: Ask, draw: Draw) -> None:
        for history in histories(draw, kind):
            answer = ask.call(history)
            value, true = number(answer), reference(history)
            if not low <= value / true <= high:
                answer.fail(
                    f"{value:,} tokens, {value / true:.2f} times the tokenizer's {true:,}",
                    f"between {low} and {high} times the tokenizer's count for {name}",
                )

    why = {
        "english": "an estimate that is far off compresses too early, or meets the API's hard limit.",
        "json": "tool traffic is most of an agent's history, and JSON has fewer characters a token than prose.",
    }.get(kind, "four characters a token holds for English prose alone: here a character costs about a whole token.")
    return Check(f"band-{kind}", f"{name}: within {low} to {high} of the tokenizer", why, run, _POINTS_BAND[kind])


_POINTS_BAND = {"english": 0.125, "chinese": 0.25, "japanese": 0.25, "json": 0.25}


def check_unchanged(ask: Ask, draw: Draw) -> None:
    history = draw.history(2)
    answer = ask.call(history)
    number(answer)
    if answer.after[:1] != [history]:
        answer.fail("the history that was given is changed", "the history as it was: counting changes nothing")


def check_different(ask: Ask, draw: Draw) -> None:
    history = draw.history(2)
    kept = ask.put("history", history)
    first = number(ask.call(kept, shown="estimate_tokens(history)"))
    longer = draw.english(draw.number(12, 16))
    ask.change(kept, [1, "content"], longer)
    answer = ask.call(kept, shown="estimate_tokens(history), its first user message made longer in place")
    if number(answer) <= first:
        answer.fail(f"{answer.value} tokens, {first} before", "more: the same list with a longer message in it")
    other = [*history[:1], {"role": "user", "content": longer + draw.english(20)}, *history[2:]]
    again = ask.call(other)
    if number(again) <= answer.value:
        again.fail(f"{again.value} tokens, {answer.value} before", "more: as many messages, one of them longer")


def check_close(ask: Ask, draw: Draw) -> None:
    for kind in BANDS:
        history = histories(draw, kind)[1]
        answer = ask.call(history)
        value, true = number(answer), reference(history)
        if not 0.9 <= value / true <= 1.1:
            answer.fail(f"{value:,} tokens for {kind}, the tokenizer says {true:,}", "within 10% of the tokenizer")


def check_surrogates(ask: Ask, draw: Draw) -> None:
    words = draw.english(2)
    answer = ask.call([_user(f"{words} \ud83d and \udc4d {words}")])
    if number(answer) < 10:
        answer.fail(f"{answer.value} tokens", "the tokens of the text around the half characters at the least")


def check_long_run(ask: Ask, draw: Draw) -> None:
    for sign in (draw.pick("aexz"), " "):
        size = draw.number(1_000_000, 1_100_000)
        answer = ask.call([_user(sign * size)])
        if not 1_000 <= number(answer) <= size:
            answer.fail(f"{answer.value} tokens", f"a count between 1,000 and {size:,} for {size:,} times {sign!r}")


def check_images(ask: Ask, draw: Draw) -> None:
    data = base64.b64encode(draw.random.randbytes(150_000)).decode()
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    text = {"type": "text", "text": draw.english(2)}
    without = number(ask.call([{"role": "user", "content": [text]}]))
    answer = ask.call([{"role": "user", "content": [text, picture]}])
    if not 0 <= number(answer) - without <= MAX_IMAGE:
        answer.fail(
            f"{number(answer) - without:,} tokens for one picture",
            f"what a picture costs (at most {MAX_IMAGE:,}): it is billed by its size in pixels, never as base64 text",
        )


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


TOO_LATE = "what is not counted is still sent and billed, and the first you hear of it is a 400 for too many tokens."

EXERCISE = Exercise(
    name="estimate_tokens",
    number=1,
    title="How many tokens does a history cost?",
    lesson=LESSON,
    task="""\
Write `estimate_tokens(history)`: about how many tokens a list of messages costs, as an `int`.

A message is a dict with a `role` and a `content`, which is text, `None`, or a list of parts
(`{"type": "text", "text": "..."}`). An assistant message may carry `tool_calls`, each with a name and arguments (JSON
text); a tool's result is a message with the role `tool`. All of it is sent, so all of it counts.

You may count with `count_tokens(text)`, or find a rule of your own: four characters a token is the well-known one. The
checks say for which kinds of text your rule is good enough (the bands are against `o200k_base`): English prose,
Chinese, Japanese, and the JSON of tool calls.""",
    given="from ctxlab import count_tokens",
    withheld={"ctxlab.tokens": ("estimate_tokens", "estimate", "count_request", "TokenMeter")},
    blank='''\
def estimate_tokens(history: list[dict]) -> int:
    """About how many tokens the history costs, everything that is sent counted."""
    print("exercise incomplete: estimate_tokens counts nothing yet (tokens: 0)")
    return 0
''',
    incomplete="exercise incomplete: estimate_tokens counts nothing yet (tokens: 0)",
    hints=(
        "Start with the text: add up a count for each message's `content`. Which messages have a content that is not "
        "text? Print a few with tool calls and look.",
        "Three things are easily left out: `content` may be None (`message.get('content') or ''`), it may be a list of "
        "parts (take the `text` of each), and the name and arguments of each entry of `tool_calls` are sent too.",
        "len(text) / 4 is right for English only. Either count with `count_tokens(text)`, or weigh by bytes: "
        "`len(text.encode('utf-8', 'replace')) / 4` comes close for Chinese and Japanese too. Add 4 for each message.",
    ),
    checks=(
        Check("returns-int", "An int comes back", "thresholds are compared with whole tokens.", check_int, 0.125),
        Check("empty", "An empty history costs about nothing", "a history begins empty.", check_empty, 0.125),
        Check("grows", "Each message makes it more", "even an empty message costs its frame.", check_grows, 0.125),
        Check("tool-calls", "Tool calls are counted", TOO_LATE, check_calls, 0.125),
        Check("tool-results", "Tool results are counted", TOO_LATE, check_results, 0.125),
        Check(
            "content-shapes",
            "content may be None, text or parts",
            "an assistant message that only calls tools has content None, and a message with a picture has parts.",
            check_shapes,
            0.125,
        ),
        Check(
            "special-text",
            "Special-token text is text",
            "a user may paste '<|endoftext|>': tiktoken's encode raises on it unless told disallowed_special=().",
            check_special,
            0.125,
        ),
        *(_band(kind) for kind in BANDS),
        Check(
            "unchanged",
            "The history is left as it was",
            "the list that is counted is the one that is sent next.",
            check_unchanged,
            0.125,
        ),
        Check(
            "different",
            "A different history, a different answer",
            "a count kept by the list's identity or length goes stale when the history changes in place.",
            check_different,
            0.125,
        ),
        Check(
            "within-10-percent",
            "Within 10% of the tokenizer",
            "then the margin can be small.",
            check_close,
            0,
            False,
            builds_on=(
                "band-english",
                "band-chinese",
                "band-japanese",
                "band-json",
            ),
        ),
        Check(
            "lone-surrogates",
            "Half characters do not raise",
            "a stream that is cut between two chunks leaves half an emoji, which has no UTF-8.",
            check_surrogates,
            0,
            False,
        ),
        Check(
            "long-run",
            "A megabyte of one character neither raises nor hangs",
            "tool results hold such runs (padding, tables), and some tokenizer calls fail on them.",
            check_long_run,
            0,
            False,
        ),
        Check(
            "images",
            "A picture is not counted as base64 text",
            "150 KB of picture would look like 100,000 tokens and force a compression that gains nothing.",
            check_images,
            0,
            False,
        ),
    ),
)
