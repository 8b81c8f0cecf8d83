"""Hypothesis strategies for histories: well-formed ones, and any list of messages at all.

*Well-formed* is what a program that keeps its history right can hold: rounds, parallel calls answered in any order
directly after their batch, ids that are unique or numbered from 0 again in each batch, content as text, parts or
None, system messages in mid-history. *Any* is what a log may hold after crashes, two writers, and careless trimming.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import strategies as st

Dict = dict[str, Any]

WORDS = st.sampled_from(
    ["go on", "Ja, bitte.", "查一下天气", "x" * 60, "a longer sentence of the kind that people type", "é"]
)
IMAGE: Dict = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def call(name: str | None, function: str = "read_file", arguments: str = "{}") -> Dict:
    """One tool call; with ``name`` None it has no id."""
    made = {"type": "function", "function": {"name": function, "arguments": arguments}}
    return made if name is None else {"id": name, **made}


def calling(*names: str | None, content: str | None = None) -> Dict:
    """An assistant message with one call for each name."""
    return {"role": "assistant", "content": content, "tool_calls": [call(name) for name in names]}


def result(name: str | None, content: Any = "done") -> Dict:
    """A tool message."""
    made = {"role": "tool", "content": content}
    return made if name is None else {"role": "tool", "tool_call_id": name, "content": content}


def user(content: Any = "please") -> Dict:
    return {"role": "user", "content": content}


def says(content: Any = "well") -> Dict:
    """An assistant message without calls."""
    return {"role": "assistant", "content": content}


def system(content: str = "be brief") -> Dict:
    return {"role": "system", "content": content}


@st.composite
def contents(draw: st.DrawFn) -> Any:
    text = draw(WORDS)
    shape = draw(st.integers(0, 5))
    if shape == 0:
        return [{"type": "text", "text": text}]
    if shape == 1:
        return [{"type": "text", "text": text}, IMAGE]
    return text


@st.composite
def batches(draw: st.DrawFn, fresh: Any) -> list[Dict]:
    """A batch of calls and directly after it its results, in any order."""
    names = [fresh() for _ in range(draw(st.integers(1, 3)))]
    speech = draw(st.sampled_from([None, None, "", "Let me look."]))
    results = [result(name, draw(contents())) for name in names]
    return [calling(*names, content=speech), *draw(st.permutations(results))]


@st.composite
def well_formed(draw: st.DrawFn, plain: bool = False) -> list[Dict]:
    """A well-formed history. ``plain``: of the strict kind that every provider takes (roles alternate, system messages
    in front only, unique ids of nine letters or digits, the user or a result last)."""
    style = "unique" if plain else draw(st.sampled_from(["unique", "unique", "batch", "words"]))
    numbers = count()
    history: list[Dict] = [system(draw(WORDS)) for _ in range(draw(st.integers(0, 2)))]
    if not plain and draw(st.integers(0, 9)) == 0:
        history.append(says("Welcome."))
    rounds = draw(st.integers(1, 6))
    for number in range(rounds):
        history.append(user(draw(contents())))
        if not plain:
            history += draw(st.sampled_from([[], [], [], [user("and")], [system("answer in French")]]))
        for _ in range(draw(st.integers(0, 3))):
            inside = count()
            fresh = {
                "unique": lambda: f"call{next(numbers):05}",
                "batch": lambda inside=inside: f"call_{next(inside)}",
                "words": lambda: f"toolu_{next(numbers)}",
            }[style]
            history += draw(batches(fresh))
            if not plain:
                history += draw(st.sampled_from([[], [], [], [], [says("So far so good.")], [system("hurry")]]))
        last = number == rounds - 1
        ends = not last if plain else draw(st.integers(0, 3)) > 0
        if ends:
            history.append(says(draw(contents())))
            if not plain:
                history += draw(st.sampled_from([[], [], [], [], [system("from now on, no tools")]]))
    return history


IDS = st.sampled_from([None, "", "a", "a", "b", "c", "call_0", "call_0", "call00001", "a-2", "x" * 64])


@st.composite
def messages(draw: st.DrawFn) -> Dict:
    kind = draw(st.integers(0, 11))
    if kind < 4:
        made = calling(*draw(st.lists(IDS, min_size=1, max_size=3)), content=draw(st.sampled_from([None, "hm"])))
        return {**made, "id": "msg_1", "requires": "rs_1"} if draw(st.integers(0, 9)) == 0 else made
    if kind < 8:
        return result(draw(IDS), draw(contents()))
    if kind == 8:
        return draw(st.sampled_from([says("I see."), {"role": "assistant", "content": None, "tool_calls": []}]))
    if kind == 9:
        return draw(
            st.sampled_from(
                [
                    system("be kind"),
                    {"role": "developer", "content": "no"},
                    {"role": "narrator", "content": "meanwhile"},
                    {"role": "assistant", "type": "reasoning", "id": "rs_1", "content": "because"},
                    {"role": "assistant", "id": "msg_2", "requires": "rs_1", "content": "so"},
                ]
            )
        )
    return user(draw(contents()))


@st.composite
def damaged(draw: st.DrawFn) -> list[Dict]:
    """A well-formed history after some messages were lost, doubled, moved or put in between."""
    history = draw(well_formed())
    for _ in range(draw(st.integers(1, 4))):
        if not history:
            break
        place = draw(st.integers(0, len(history) - 1))
        what = draw(st.sampled_from(["lose", "double", "move", "insert"]))
        if what == "lose":
            history.pop(place)
        elif what == "double":
            history.insert(draw(st.integers(0, len(history))), history[place])
        elif what == "move":
            history.insert(draw(st.integers(0, len(history) - 1)), history.pop(place))
        else:
            history.insert(place, draw(messages()))
    return history


def any_history() -> st.SearchStrategy[list[Dict]]:
    """Any list of messages: well-formed, damaged, or thrown together."""
    return st.one_of(st.lists(messages(), max_size=12), damaged(), well_formed())
