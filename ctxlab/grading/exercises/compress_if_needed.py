"""Exercise 2: when the history is nearly full, one summary stands for its early messages."""

from __future__ import annotations

from typing import Any

from ctxlab.budget import KEEP_RECENT, MAX_TOKENS, TRIGGER_RATIO
from ctxlab.grading.asking import Ask, short
from ctxlab.grading.draw import Draw, padded
from ctxlab.grading.model import Check, Exercise
from ctxlab.grading.trial import (
    TRIGGER,
    History,
    Trial,
    compress,
    long_history,
    spoken,
    tails,
    text_of,
    tokens,
    unpaired,
)
from ctxlab.sandbox import ServiceRaised
from ctxlab.tokens import estimate_tokens

LESSON = "notebooks/02_when_and_where_to_cut.ipynb"
OWN_COUNT = 0.2  # how far off a count of the learner's own may be; picked, half of what exercise 1 allows


def at(draw: Draw, tokens_wanted: int) -> History:
    """A history of exactly so many tokens, without a system message: whether that counts is another question."""
    return padded(draw.history(7)[1:], 0, tokens_wanted, estimate_tokens)


def counts_itself(trial: Trial) -> bool:
    """Whether the function used a count of its own, for which nobody can say where its threshold lies exactly."""
    return "estimate_tokens" not in trial.answer.served


def check_below(ask: Ask, draw: Draw) -> None:
    _untouched(compress(ask, draw, draw.history(3)))
    edge = compress(ask, draw, at(draw, TRIGGER - 1))
    if not edge.same() and counts_itself(edge):
        edge = compress(ask, draw, at(draw, int(TRIGGER * (1 - OWN_COUNT))))
    _untouched(edge)


def _untouched(trial: Trial) -> None:
    if not trial.same():
        trial.answer.fail(f"{len(trial.result)} messages that differ from those given", "the same history")
    if trial.summariser.asked:
        trial.answer.fail("the same history, but the summariser was called", "no call: each is paid for")


def check_at(ask: Ask, draw: Draw) -> None:
    trial = compress(ask, draw, at(draw, TRIGGER))
    if trial.same() and counts_itself(trial):
        trial = compress(ask, draw, at(draw, int(TRIGGER * (1 + OWN_COUNT))))
    trial.compressed()


def check_above(ask: Ask, draw: Draw) -> None:
    compress(ask, draw, long_history(draw)).compressed()
    compress(ask, draw, long_history(draw, at_least=14_000)).compressed()


def check_system(ask: Ask, draw: Draw) -> None:
    trial = compress(ask, draw, long_history(draw))
    trial.compressed()
    given = [message for message in trial.history if message["role"] == "system"]
    got = [message for message in trial.result if message in given]
    if got != given:
        trial.answer.fail(f"{len(got)} of the {len(given)} system messages as they were", "each, verbatim and in order")


def check_recent(ask: Ask, draw: Draw) -> None:
    for tail in tails(draw):
        trial = compress(ask, draw, long_history(draw, tail))
        trial.compressed()
        if trial.kept < KEEP_RECENT:
            trial.answer.fail(
                f"only the last {trial.kept} are those of the history (the last one: {short(trial.result[-1:])})",
                f"at least the last {KEEP_RECENT}, verbatim and in order",
            )


def check_pairs(ask: Ask, draw: Draw) -> None:
    for tail in tails(draw):
        trial = compress(ask, draw, long_history(draw, tail))
        trial.compressed()
        unpaired(trial)


def check_summariser(ask: Ask, draw: Draw) -> None:
    trial = compress(ask, draw, long_history(draw))
    trial.compressed()
    asked = trial.summariser.asked
    if len(asked) != 1:
        trial.answer.fail(f"{len(asked)} calls of the summariser", "one call: each is a model call that is paid for")
    given = asked[0][0] if asked[0] else None
    if not isinstance(given, list) or not all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in given):
        trial.answer.fail(f"summarize({short(given)})", "summarize(messages), a list of messages")
    if spoken(given) != trial.earlier:
        trial.answer.fail(
            f"the summariser was given {len(spoken(given))} messages, {_difference(spoken(given), trial.earlier)}",
            f"exactly the {len(trial.earlier)} earlier ones that are not kept, in their order",
        )


def _difference(got: History, wanted: History) -> str:
    missing = sum(message not in got for message in wanted)
    extra = sum(message not in wanted for message in got)
    return f"{missing} missing, {extra} too many" if missing or extra else "in another order"


def check_summary(ask: Ask, draw: Draw) -> None:
    trial = compress(ask, draw, long_history(draw))
    trial.compressed()
    before = spoken(trial.result)[: len(spoken(trial.result)) - max(trial.kept, 1)]
    if any(m["role"] == "user" and trial.summariser.text in text_of(m) for m in before):
        return
    found = [m["role"] for m in trial.result if trial.summariser.text in text_of(m)]
    got = (
        f"it stands in a message of the role {found[0]!r}, or after the kept ones"
        if found
        else "it is nowhere in the result"
    )
    trial.answer.fail(
        f"the summary: {got} (before the kept messages: {short(before)})", "it in a user message before them"
    )


def check_input(ask: Ask, draw: Draw) -> None:
    for history in (long_history(draw), long_history(draw, tails(draw)[1])):
        trial = compress(ask, draw, history)
        trial.compressed()
        if trial.answer.after[:1] != [history]:
            trial.answer.fail("the list that was given is another one now", "a new list, and the given one as it was")


def check_failure(ask: Ask, draw: Draw) -> None:
    for fails in ("RuntimeError", "TimeoutError"):
        trial = compress(ask, draw, long_history(draw), fails=fails)
        if not trial.answer.raised and not trial.same():
            trial.answer.fail(
                f"{len(trial.result)} of {len(trial.history)} messages after the summariser raised {fails}",
                "the history as it was, or the error raised on",
            )
        if trial.answer.after[:1] != [trial.history]:
            trial.answer.fail("the list that was given is another one now", "the list as it was")


def check_failure_kept(ask: Ask, draw: Draw) -> None:
    for fails in ("RuntimeError", "TimeoutError"):
        trial = compress(ask, draw, long_history(draw), fails=fails)
        if not trial.same():
            trial.answer.fail(f"{len(trial.result)} messages", "the history as it was, and no error: the turn goes on")


def check_bad_summary(ask: Ask, draw: Draw) -> None:
    for text, what in (("", "an empty summary"), (" \n", "a blank summary"), (draw.english(500), "a longer summary")):
        trial = compress(ask, draw, long_history(draw), text=text)
        if not trial.answer.raised and not trial.same():
            trial.answer.fail(
                f"{len(trial.result)} messages, {tokens(trial.result):,} tokens after {what}", "the history as it was"
            )


def check_folded(ask: Ask, draw: Draw) -> None:
    first = compress(ask, draw, long_history(draw))
    first.compressed()
    history = list(first.result)
    while estimate_tokens(history) < MAX_TOKENS:
        history += draw.round(1, 3)
    second = compress(ask, draw, history)
    second.compressed()
    said = [text_of(m) for args in second.summariser.asked for m in (args[0] if args else []) if isinstance(m, dict)]
    if not any(first.summariser.text in text for text in said):
        second.answer.fail("the second summary was made without the first", "the first among what is summarised")
    if any(first.summariser.text in text_of(message) for message in second.result):
        second.answer.fail("both summaries in the result", "one summary, which stands for the first too")


def check_round_start(ask: Ask, draw: Draw) -> None:
    for tail in tails(draw)[:3]:
        trial = compress(ask, draw, long_history(draw, tail))
        trial.compressed()
        kept = spoken(trial.result)[-trial.kept :] if trial.kept else []
        if not kept or kept[0]["role"] != "user":
            trial.answer.fail(
                f"the kept messages begin with {short(kept[0])}" if kept else "the result ends with no kept message",
                "the user message that this round answers, before it",
            )


def check_tool_loop(ask: Ask, draw: Draw) -> None:
    history = [draw.system(), draw.user()]
    while estimate_tokens(history) < MAX_TOKENS:
        history += draw.calls(draw.number(1, 2), 3)
    trial = compress(ask, draw, history)
    trial.compressed()
    unpaired(trial)
    if history[1] not in trial.result:
        trial.answer.fail("the user's request is not there any more", "the only request, as the user wrote it")


def count_service(args: list[Any]) -> int:
    """What the judge answers where a submission calls ``estimate_tokens`` in this exercise."""
    try:
        return estimate_tokens(args[0] if args else [])
    except (TypeError, ValueError) as error:
        raise ServiceRaised("ValueError", str(error)) from None


SILENT = "what is lost here is lost without a word: the next answer is just worse."

EXERCISE = Exercise(
    name="compress_if_needed",
    number=2,
    title="One summary for the early messages",
    lesson=LESSON,
    task=f"""\
Write `compress_if_needed(history, summarize)`, as an `async def` or a plain `def`. Below {TRIGGER_RATIO} of the
history's budget (`MAX_TOKENS`, {MAX_TOKENS:,} tokens: the threshold is {TRIGGER:,}) it returns the history as it is. At
the threshold and above it returns a **new**, shorter list:

1. the system messages, verbatim: they are not history;
2. one `user` message with the summary of the earlier messages (`await summarize(earlier)` gives its text);
3. the last `KEEP_RECENT` ({KEEP_RECENT}) messages or a few more, verbatim: the cut is aligned with
   `align_to_turn_start`, so that no tool result is parted from its call (nearly every API answers 400 to that).

The summary is a model call. It takes time and can fail: then nothing may be lost. Count with `estimate_tokens`; the
checks put a right one in its place, so that a slip in exercise 1 costs nothing here.""",
    given="from ctxlab import KEEP_RECENT, MAX_TOKENS, TRIGGER_RATIO, align_to_turn_start, estimate_tokens",
    withheld={"ctxlab.compress": ("compress_if_needed", "compress", "compress_async")},
    blank='''\
async def compress_if_needed(history: list[dict], summarize) -> list[dict]:
    """The history, or a shorter one in which a summary stands for the early messages."""
    print(f"exercise incomplete: compress_if_needed never shortens the history ({len(history)} messages)")
    return history
''',
    incomplete="exercise incomplete: compress_if_needed never shortens the history",
    hints=(
        "Two questions, one after the other: is `estimate_tokens(history)` at the threshold yet? And if it is, where "
        "does the kept part begin? Write the second one down before you call `summarize`.",
        "`cut = align_to_turn_start(history, len(history) - KEEP_RECENT)`. Then the earlier messages are those before "
        "`cut` that are not system messages, and the kept ones are those from `cut` on.",
        "`system + [{'role': 'user', 'content': text}] + kept`, where `text = await summarize(earlier)` stands inside "
        "try/except that returns `history` on an exception. Build new lists: `del history[:cut]` changes the caller's.",
    ),
    checks=(
        Check(
            "below-threshold",
            "Below the threshold nothing happens",
            "a summary too early costs a call and detail.",
            check_below,
            0.25,
        ),
        Check(
            "at-threshold",
            f"At exactly {TRIGGER_RATIO} of the budget it compresses",
            "the rule is >=; the gap above it is the room in which a summary may fail.",
            check_at,
            0.25,
        ),
        Check(
            "above-threshold",
            "Above the threshold it gets shorter",
            "the next request would meet the limit.",
            check_above,
            0.25,
        ),
        Check(
            "system-verbatim",
            "System messages stay, verbatim",
            SILENT,
            check_system,
            0.25,
            builds_on=("above-threshold",),
        ),
        Check(
            "keeps-recent",
            f"At least the last {KEEP_RECENT} messages stay, verbatim and in order",
            SILENT,
            check_recent,
            0.5,
            builds_on=("above-threshold",),
        ),
        Check(
            "pairs-whole",
            "No call without its result, no result without its call",
            "nearly every provider refuses such a request, and every retry of it.",
            check_pairs,
            0.5,
            builds_on=("above-threshold",),
        ),
        Check(
            "summariser-input",
            "One call of the summariser, with exactly the earlier messages",
            SILENT,
            check_summariser,
            0.25,
            builds_on=("above-threshold",),
        ),
        Check(
            "summary-message",
            "The summary is a user message before the kept ones",
            "the model reads it in its place in time, and it is not an instruction of the application.",
            check_summary,
            0.25,
            builds_on=("above-threshold",),
        ),
        Check(
            "input-unchanged",
            "The list that was given is not changed",
            "whoever else holds it (a log, a screen, a fork) would lose its messages too.",
            check_input,
            0.25,
            builds_on=("above-threshold",),
        ),
        Check(
            "failure-loses-nothing",
            "When the summariser raises, nothing is lost",
            "a summary is a model call: it fails on some day, with the only copy in your hands.",
            check_failure,
            0.25,
        ),
        Check(
            "failure-returns-history",
            "When the summariser raises, the history comes back as it was",
            "the room above the threshold is there so that the turn can go on.",
            check_failure_kept,
            0,
            False,
            builds_on=("failure-loses-nothing",),
        ),
        Check(
            "bad-summary-refused",
            "An empty or a longer summary is refused",
            "an empty one wipes the past; one that is not smaller makes it worse (7,959 to 17,446 tokens, once).",
            check_bad_summary,
            0,
            False,
        ),
        Check(
            "summary-folded",
            "A second compression folds the first summary in",
            "summaries that are never summarised pile up until they are the history.",
            check_folded,
            0,
            False,
            builds_on=("above-threshold",),
        ),
        Check(
            "round-start",
            "The cut is at a round's start",
            "a pair-safe cut may leave a call and its result without the user message that they answer.",
            check_round_start,
            0,
            False,
            builds_on=("above-threshold",),
        ),
        Check(
            "only-request-kept",
            "The only request of a long tool loop is kept",
            "an agent that loses its only instruction goes on working at nothing.",
            check_tool_loop,
            0,
            False,
            builds_on=(
                "above-threshold",
                "pairs-whole",
            ),
        ),
    ),
    may_await=True,
    services={"estimate_tokens": "estimate_tokens"},
)
