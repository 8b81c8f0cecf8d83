"""Exercise 4: a second session that begins like the first."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ctxlab.grading.asking import Answer, Ask, Failed, Kept, short
from ctxlab.grading.draw import Draw
from ctxlab.grading.exercises.append_message import moment
from ctxlab.grading.model import Check, Exercise
from ctxlab.rounds import align_to_round_start, align_to_turn_start, pairing

LESSON = "notebooks/05_forks.ipynb"
Dict = dict[str, Any]


def session(draw: Draw, rounds: int = 3) -> Dict:
    """A session as it is given to be forked."""
    messages = draw.history(rounds, tools=(0, 1, 2))
    return {
        "id": f"s-{draw.random.getrandbits(32):08x}",
        "parent_id": None,
        "forked_at": None,
        "messages": messages,
        "created_at": "2026-09-04T10:00:00+00:00",
    }


def safe(draw: Draw, parent: Dict) -> int:
    """An index inside at which nothing has to move."""
    messages = parent["messages"]
    places = [i for i in range(2, len(messages)) if align_to_turn_start(messages, i) == i]
    return places[draw.number(0, len(places) - 1)]


def fork(ask: Ask, parent: Dict | Kept, at: int, size: int = 0, keep: str = "") -> Answer:
    """Ask for one fork."""
    size = size or (len(parent["messages"]) if isinstance(parent, dict) else 0)
    return ask.call(parent, at, keep=keep, shown=f"fork_session(session of {size} messages, {at})")


def child_of(answer: Answer) -> Dict:
    """The answer as the session that it must be."""
    value = answer.value
    if not isinstance(value, dict):
        answer.fail(f"{short(value)} (a {type(value).__name__})", "a dict: the new session")
    return value


def messages_of(answer: Answer) -> list[Any]:
    """The new session's messages."""
    messages = child_of(answer).get("messages")
    if not isinstance(messages, list):
        answer.fail(f"messages is {short(messages)}", "a list of messages")
    return messages


def check_id(ask: Ask, draw: Draw) -> None:
    parent = session(draw)
    seen: list[str] = []
    for _ in range(3):
        answer = fork(ask, parent, safe(draw, parent))
        name = child_of(answer).get("id")
        if not isinstance(name, str) or not name:
            answer.fail(f"id is {short(name)}", "an id: text")
        if name in (parent["id"], *seen):
            answer.fail(f"id is {short(name)}, which the parent or an earlier fork has too", "a fresh id each time")
        seen.append(name)


def check_parent_id(ask: Ask, draw: Draw) -> None:
    for _ in range(2):
        parent = session(draw)
        answer = fork(ask, parent, safe(draw, parent))
        if child_of(answer).get("parent_id") != parent["id"]:
            answer.fail(f"parent_id is {short(child_of(answer).get('parent_id'))}", short(parent["id"]))


def check_forked_at(ask: Ask, draw: Draw) -> None:
    parent = session(draw)
    for at in {safe(draw, parent), safe(draw, parent)}:
        answer = fork(ask, parent, at)
        got = child_of(answer).get("forked_at")
        if type(got) is not int or got != at:
            answer.fail(f"forked_at is {short(got)}", f"{at}: the index where it was cut")


def check_prefix(ask: Ask, draw: Draw) -> None:
    parent = session(draw)
    for at in (safe(draw, parent), safe(draw, parent)):
        answer = fork(ask, parent, at)
        _is_prefix(answer, parent, at)


def _is_prefix(answer: Answer, parent: Dict, at: int) -> None:
    got, wanted = messages_of(answer), parent["messages"][:at]
    if got == wanted:
        return
    differs = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted)))
    wrong = (
        "is not the parent's" if differs < min(len(got), len(wanted)) else "is too many" if got[at:] else "is missing"
    )
    answer.fail(
        f"{len(got)} messages came back, and the one at index {differs} {wrong}",
        f"exactly the first {at} messages of the parent" if at else "no message: a fresh start",
    )


def check_deep(ask: Ask, draw: Draw) -> None:
    """Change one side, then look at the other; which first, and where, the seed decides."""
    parent = session(draw)
    size = len(parent["messages"])
    holder = next(i for i, m in enumerate(parent["messages"]) if m.get("tool_calls"))
    paths: list[list[str | int]] = [
        ["messages", draw.number(0, size - 2), "content"],
        ["messages", holder, "tool_calls", 0, "function", "arguments"],
        ["messages", holder, "tool_calls", 0, "id"],
        ["messages", "+"],
    ]
    rounds = [(side, at) for side in ("parent", "child") for at in (size - 1, size)]
    draw.random.shuffle(rounds)
    for side, at in rounds:
        draw.random.shuffle(paths)
        kept = ask.put("parent", parent)
        answer = fork(ask, kept, at, size, keep="child")
        if answer.raised and at == size:
            continue  # another check asks whether it works at the end
        _is_prefix(answer, parent, at)
        other = "child" if side == "parent" else "parent"
        before = copy.deepcopy(parent["messages"] if other == "parent" else messages_of(answer))
        for path in paths:
            value = {"role": "user", "content": draw.code()} if path[-1] == "+" else draw.code()
            ask.change(side, path, value)
            now = ask.get(other)
            if not isinstance(now, dict) or now.get("messages") != before:
                answer.fail(
                    f"a change of the {side} at {_told(path)} is seen in the {other}",
                    "two sessions that share nothing: copy.deepcopy, or messages that cannot be changed",
                )


def _told(path: list[str | int]) -> str:
    return "".join(f"[{step!r}]" for step in path[:-1]) + (".append(...)" if path[-1] == "+" else f"[{path[-1]!r}]")


def check_parent(ask: Ask, draw: Draw) -> None:
    parent = session(draw)
    calls = next(i for i, m in enumerate(parent["messages"]) if m.get("tool_calls"))
    for at in (0, safe(draw, parent), calls + 1, len(parent["messages"])):
        answer = fork(ask, parent, at)
        if not answer.raised or at < len(parent["messages"]):  # another check asks whether it works at the end
            child_of(answer)
        if answer.after[:1] != [parent]:
            answer.fail(f"the parent is changed: {_changed(parent, answer.after)}", "the parent as it was")


def _changed(parent: Dict, after: Sequence[Any]) -> str:
    """The keys that are not what they were."""
    now = after[0] if after and isinstance(after[0], dict) else {}
    keys = [key for key in {**parent, **now} if key not in now or key not in parent or now[key] != parent[key]]
    return ", ".join(f"{key!r}" + ("" if key in parent else " (new)") for key in keys) or "more than JSON can say"


def check_created(ask: Ask, draw: Draw) -> None:
    parent = session(draw)
    answer = fork(ask, parent, safe(draw, parent))
    ts = child_of(answer).get("created_at")
    told = moment(ts)
    if told is None or told.utcoffset() is None:
        answer.fail(f"created_at is {short(ts)}", "a time with its offset, such as '2026-09-04T10:00:00Z'")
    if ts == parent["created_at"]:
        answer.fail("created_at is the parent's", "the time of the fork")


def check_ends(ask: Ask, draw: Draw) -> None:
    parent = session(draw)
    for at in (0, len(parent["messages"])):
        answer = fork(ask, parent, at)
        _is_prefix(answer, parent, at)
        if child_of(answer).get("forked_at") != at:
            answer.fail(f"forked_at is {short(child_of(answer).get('forked_at'))}", f"{at}")


def check_walks_back(ask: Ask, draw: Draw) -> None:
    parent = session(draw, rounds=draw.number(3, 5))
    messages = parent["messages"]
    unsafe = [i for i in range(len(messages)) if align_to_turn_start(messages, i) != i]
    for at in unsafe:
        answer = fork(ask, parent, at)
        cuts = (align_to_turn_start(messages, at), align_to_round_start(messages, at))
        got = child_of(answer).get("forked_at")
        size = len(messages_of(answer))
        if size not in cuts:
            answer.fail(
                f"{size} messages: a call is parted from its results",
                f"{cuts[0]} messages: a cut there walks back to before the call (an API answers 400 to a call without "
                "its result)",
            )
        if got != size:
            answer.fail(f"forked_at is {short(got)}, but {size} messages were taken", "the cut as it was aligned")
        _is_prefix(answer, parent, size)


def check_outside(ask: Ask, draw: Draw) -> None:
    parent = session(draw)
    size = len(parent["messages"])
    for at in (size + draw.number(1, 5), -draw.number(1, 3)):
        answer = fork(ask, parent, at)
        if not answer.raised:
            answer.fail(f"a session of {len(messages_of(answer))} messages", f"an error that names {at} or {size}")
        if not any(str(number) in answer.raised.split(" (")[0] for number in (abs(at), size)):
            answer.fail(f"{answer.raised}", f"an error in words, which names the index {at} or the length {size}")


def check_open(ask: Ask, draw: Draw) -> None:
    parent = session(draw)
    whole = draw.calls(2)
    parent["messages"] += [draw.user(1), *whole[: draw.number(1, 2)]]
    size = len(parent["messages"])
    answer = fork(ask, parent, size)
    if answer.raised:
        if len(answer.raised.split(" (")[0].split()) < 4:
            answer.fail(answer.raised, "an error in words: which call is still open, and where a fork is possible")
        return
    try:
        left = pairing(messages_of(answer)).open
    except ValueError as error:
        raise Failed(str(error), "messages", called=answer.called) from None
    if left:
        answer.fail(
            "the fork begins with a call that will never be answered in it", "an error, or a cut before the call"
        )


SHARED = "one of the two sessions would rewrite what the other one said."

EXERCISE = Exercise(
    name="fork_session",
    number=4,
    title="A second session that begins like the first",
    lesson=LESSON,
    task="""\
Write `fork_session(parent, at_index)`: a new session that begins with the first messages of the parent. A session is a
dict; the new one has

- `id`: fresh each time, and `parent_id`: the parent's `id`;
- `forked_at`: the cut, aligned with `align_to_turn_start`, so that no call is parted from its result;
- `messages`: exactly the first `forked_at` messages, as a copy that shares nothing with the parent at any depth;
- `created_at`: the time of the fork, with its offset.

The parent is not changed, then or later. `at_index` may be 0 (a fresh start) and the number of messages (all of it, the
commonest fork).""",
    given="""\
import copy
import uuid
from datetime import UTC, datetime

from ctxlab import align_to_turn_start""",
    withheld={"ctxlab.transcript": ("fork_session",)},
    blank='''\
def fork_session(parent: dict, at_index: int) -> dict:
    """A new session that begins with the parent's first messages and shares nothing with it."""
    print("exercise incomplete: fork_session shares its messages with the parent (the fork contaminates it)")
    return {"id": "fork", "parent_id": parent["id"], "forked_at": at_index, "messages": parent["messages"]}
''',
    incomplete="exercise incomplete: fork_session shares its messages with the parent (the fork contaminates it)",
    hints=(
        "Make it in two steps: first where to cut, then what to copy. Try your function with an index between a tool "
        "call and its result, and with 0.",
        "`parent['messages'][:cut]` is a new list of the **same** dicts. Change a message in the child and look at the "
        "parent: what kind of copy has its own dicts, and its own lists inside them?",
        "`cut = align_to_turn_start(parent['messages'], at_index)`, `copy.deepcopy(parent['messages'][:cut])`, "
        "`uuid.uuid4().hex`, `datetime.now(UTC).isoformat()`.",
    ),
    checks=(
        Check("fresh-id", "A fresh id each time", "two sessions of one id write into one file.", check_id, 0.25),
        Check(
            "parent-id", "parent_id names the parent", "the cost of a tree is added up by it.", check_parent_id, 0.25
        ),
        Check(
            "forked-at", "forked_at is the cut", "it says which messages are the parent's own.", check_forked_at, 0.25
        ),
        Check(
            "prefix", "Exactly the first messages", "one more or one less is another conversation.", check_prefix, 0.25
        ),
        Check(
            "deep-copy", "Nothing is shared, at any depth, either way", SHARED, check_deep, 1.0, builds_on=("prefix",)
        ),
        Check("parent-unchanged", "The parent is unchanged", SHARED, check_parent, 0.25),
        Check(
            "created-at",
            "created_at is a time with its offset",
            "branches are told apart and sorted by it, on machines in several time zones.",
            check_created,
            0.25,
        ),
        Check(
            "ends",
            "It works at 0 and at the end",
            "0 is a fresh start, the whole session the commonest fork: a published version raises IndexError there.",
            check_ends,
            0.25,
            builds_on=("prefix",),
        ),
        Check(
            "walks-back",
            "A cut between a call and its results walks back",
            "a call without its result is a 400 from nearly every provider.",
            check_walks_back,
            0.25,
            builds_on=("prefix",),
        ),
        Check(
            "outside-refused",
            "An index outside is refused in words",
            "an index outside is a caller's mistake; a slice hides it, and a negative one cuts from the other end.",
            check_outside,
            0,
            False,
        ),
        Check(
            "open-turn",
            "A call that is still being answered is noticed",
            "in the fork nobody will ever answer it.",
            check_open,
            0,
            False,
        ),
    ),
)
