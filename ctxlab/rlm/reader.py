"""The scripted model for this comparison: it writes code as the root, reads notes as a leaf, and sums up pages.

It knows the question kinds of `corpus` and nothing else, answers from the request alone, and always gives the same
answer to the same request. As a leaf it never overlooks a line, however long the text is: a real model does. So what it
shows is which information reached the model, and what that cost; not how well a model reads.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ctxlab.messages import MessageLike, as_messages
from ctxlab.models import Model, Piece, Reply, Tools, pieces
from ctxlab.rlm.corpus import NOTES, euros, most
from ctxlab.rlm.loop import ROOT_SYSTEM, TEXT_MARK

SUMMARY_SYSTEM = (
    "Sum up these pages of an order book in at most ten lines. Your summary replaces them, and questions will follow."
)
UNKNOWN = "I do not know: nothing here says so."
PART = 60
"""Lines that the scripted root gives to one sub-call (picked)."""

_LINE = re.compile(
    r'^(A-\d{4}) \| [\d-]+ \| ([^|]+) \| ([^|]+) \| [^|]+ \| ([\d.]+) EUR \| ([^|"\n]+?)(?: \| "(.*)")?$', re.M
)
_TOTALS = re.compile(r"^Orders so far: (\d+)\. By state: (.*?)\. By city: (.*?)\. Together ([\d.]+) EUR\.$", re.M)
_MEANS: Final = {"something arrived broken": "broken", "it came late": "late"}
_NOTED = re.compile(r"a note that says that (something arrived broken|it came late)")
_LOOK = 'lines = prompt.splitlines()\nprint(len(lines), "lines")\nprint(*lines[:3], sep="\\n")'
_GIVE_UP = f"answer({UNKNOWN!r})"


@dataclass(frozen=True, slots=True)
class _Seen:
    order: str
    customer: str
    city: str
    cents: int
    state: str
    note: str


class MockReader(Model):
    """The scripted model. It has no state: see the module's docstring."""

    name = "ctxlab-mock-reader"
    scripted = True  # its code is written here, so run_rlm asks for no strong isolation

    def stream(self, messages: Iterable[MessageLike], tools: Tools = ()) -> Iterator[Piece]:
        """The answer in pieces of a few characters."""
        return pieces(self.reply(messages, tools))

    def reply(self, messages: Iterable[MessageLike], tools: Tools = ()) -> Reply:
        """Code for the root of a run, a summary where one is asked for, else a short answer."""
        history = as_messages(messages)
        system = "\n".join(message.text for message in history if message.is_system)
        talk = [message for message in history if not message.is_system]
        asked = talk[-1].text.split(TEXT_MARK)[0] if talk else ""
        everything = "\n".join(message.text for message in talk)
        if system.startswith(ROOT_SYSTEM[:60]):
            return _say(_root(talk[0].text, [message.text for message in talk[1:]]))
        if system.startswith(SUMMARY_SYSTEM[:30]):
            return _say(summarise_orders(everything))
        return _say(read_answer(asked, everything))


def summarise_orders(text: str) -> str:
    """A good summary for questions that one expects: totals by state and city, and the dearest orders.

    Whoever wrote it did not know what would be asked. An earlier summary in the text is taken up, not nested.
    """
    seen = _orders(text)
    count, state, city, cents = _totals(text)
    state += Counter(order.state for order in seen)
    city += Counter(order.city for order in seen)
    lines = [
        f"Orders so far: {count + len(seen)}. By state: {_listed(state)}. By city: {_listed(city)}. "
        f"Together {euros(cents + sum(order.cents for order in seen))} EUR.",
        "The dearest:",
    ]
    dearest = sorted(_LINE.finditer(text), key=lambda found: (-_cents(found[4]), found[1]))[:3]
    lines += [f"- {found[1]}, {found[4]} EUR, {found[3]}" for found in dearest]
    return "\n".join(lines)


def read_answer(question: str, text: str) -> str:
    """What the scripted leaf answers from a text: records, and totals of a summary that stand in for some."""
    seen = _orders(text)
    if found := re.search(r"Which city did order (A-\d{4}) go to", question):
        return next((order.city for order in seen if order.order == found[1]), UNKNOWN)
    if found := re.search(r"What did order (A-\d{4}) cost", question):
        return next((euros(order.cents) for order in seen if order.order == found[1]), UNKNOWN)
    _, state, city, _ = _totals(text)
    if found := re.search(r"How many orders went to (\w+)", question):
        return str(city[found[1]] + sum(order.city == found[1] for order in seen))
    if "How many orders were refunded" in question:
        return str(state["refunded"] + sum(order.state == "refunded" for order in seen))
    if found := re.search(r"What did all orders of (.+?) cost together", question):
        return euros(sum(order.cents for order in seen if order.customer == found[1]))
    if found := _NOTED.search(question):
        fitting = [order for order in seen if order.note in NOTES[_MEANS[found[1]]]]
        if question.startswith("Which of these orders"):
            return ", ".join(order.order for order in fitting) or "none"
        if question.startswith("How many"):
            return str(len(fitting))
        return most(Counter(order.city for order in fitting))
    return UNKNOWN


def _root(first: str, rest: list[str]) -> str:
    """What the root writes: a look, then the plan for the question's kind; where that failed, that it does not know."""
    question = first.removeprefix("Question: ").split("\n")[0]
    turns = len(rest) // 2
    if turns == 0:
        return f"I look at how the text is built.\n```python\n{_LOOK}\n```"
    code = _plan(question) if turns == 1 else _GIVE_UP
    return f"One order a line.\n```python\n{code}\n```"


def _plan(question: str) -> str:
    if found := re.search(r"Which city did order (A-\d{4}) go to", question):
        return _find(found[1], 'line.split(" | ")[3]')
    if found := re.search(r"What did order (A-\d{4}) cost", question):
        return _find(found[1], 'line.split(" | ")[5].removesuffix(" EUR")')
    if found := re.search(r"How many orders went to (\w+)", question):
        return f'answer(sum(line.split(" | ")[3] == {found[1]!r} for line in lines))'
    if "How many orders were refunded" in question:
        return 'answer(sum(line.split(" | ")[6] == "refunded" for line in lines))'
    if found := re.search(r"What did all orders of (.+?) cost together", question):
        return (
            f'paid = [line.split(" | ")[5] for line in lines if line.split(" | ")[2] == {found[1]!r}]\n'
            'cents = sum(int(price.removesuffix(" EUR").replace(".", "")) for price in paid)\n'
            'answer(f"{cents // 100}.{cents % 100:02}")'
        )
    found = _NOTED.search(question)
    return _judge(question, found[1]) if found else _GIVE_UP


def _find(order: str, field: str) -> str:
    return (
        f"line = next((line for line in lines if line.startswith({order + ' '!r})), None)\n"
        f"print(line)\nanswer({field} if line else {UNKNOWN!r})"
    )


def _judge(question: str, meaning: str) -> str:
    """Notes have to be read, so each part of them goes to a sub-call; what code can do with its answers, code does."""
    asked = f"Which of these orders have a note that says that {meaning}? Give their numbers."
    parts = PART // 3 if question == asked else PART
    ends = {
        "How many": "answer(len(found))",
        "Which city": "from collections import Counter\n"
        'counts = Counter(line.split(" | ")[3] for line in lines if line[:6] in found)\n'
        "answer(min(counts, key=lambda city: (-counts[city], city)))",
    }
    end = next(
        (code for start, code in ends.items() if question.startswith(start)), 'answer(", ".join(found) or "none")'
    )
    return (
        "import re\n"
        "noted = [line for line in lines if line.endswith('\"')]\n"
        f'parts = ["\\n".join(noted[i:i + {parts}]) for i in range(0, len(noted), {parts})]\n'
        "found = []\n"
        "for part in parts:\n"
        f'    found += re.findall(r"A-\\d{{4}}", llm({asked!r}, part))\n'
        'print(len(noted), "notes in", len(parts), "parts;", len(found), "fit")\n'
        f"{end}"
    )


def _orders(text: str) -> list[_Seen]:
    return [
        _Seen(found[1], found[2], found[3], _cents(found[4]), found[5], found[6] or "")
        for found in _LINE.finditer(text)
    ]


def _totals(text: str) -> tuple[int, Counter[str], Counter[str], int]:
    """Number of orders, by state, by city, and cents, of the summaries in a text."""
    count, state, city, cents = 0, Counter[str](), Counter[str](), 0
    for found in _TOTALS.finditer(text):
        count += int(found[1])
        state += _read(found[2])
        city += _read(found[3])
        cents += _cents(found[4])
    return count, state, city, cents


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {counts[name]}" for name in sorted(counts))


def _read(text: str) -> Counter[str]:
    pairs = (entry.rsplit(" ", 1) for entry in text.split(", ") if " " in entry)
    return Counter({name: int(number) for name, number in pairs})


def _cents(text: str) -> int:
    return int(text.replace(".", ""))


def _say(text: str) -> Reply:
    return {"role": "assistant", "content": text}
