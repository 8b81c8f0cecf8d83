"""Messages as cards: what a stepper draws of a history, and how its front end is put together.

A card is a message's place, role, tokens and first words; an arc joins a call to the result that answers it
(`rounds.pairing` decides which). Verdicts are those of `providers.validate`, once for each set of rules. All of it is
data; the steppers' front ends share ``cards.js`` and ``cards.css`` and hold no rule of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ctxlab.messages import Message, MessageLike, as_messages, part_text
from ctxlab.providers import RULES, validate
from ctxlab.rounds import pairing
from ctxlab.tokens import REPLY_PRIMING, count_message
from ctxlab.widgets import kit

PREVIEW = 180
"""Characters of a message that a card shows (picked: more than a line of the widest card)."""

LANES = 5
"""Arcs that are drawn side by side (picked); a history with more at one place draws some over each other."""

NAMES: Final = {
    "openai": "OpenAI chat",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "mistral": "Mistral",
    "openai_responses": "OpenAI Responses",
    "anthropic_2024": "Anthropic, 2024",
    "anthropic_no_prefill": "Anthropic, no prefill",
    "mistral_api_2025": "Mistral API, 2025",
}
"""What a person calls each set of rules; the first four are always on view, the others fold out."""

FILLS: Final = {
    "system": ("#0072B2", "#ffffff"),
    "developer": ("#0072B2", "#ffffff"),
    "user": ("#56B4E9", "#111111"),
    "assistant": ("#009E73", "#111111"),
    "tool": ("#E69F00", "#111111"),
}
"""Fill and text colour of each role, as in cards.css (Okabe and Ito's colours); the role is always written as well."""


@dataclass(frozen=True, slots=True)
class Card:
    """One message as it is drawn. ``calls`` are the names of the functions it calls, ``answers`` the message whose
    call it is the result of (None where there is none)."""

    index: int
    role: str
    tokens: int
    preview: str
    calls: tuple[str, ...]
    answers: int | None

    def to_json(self) -> dict[str, Any]:
        """The card as JSON data, short keys left out where they say nothing."""
        data: dict[str, Any] = {"i": self.index, "role": self.role, "tokens": self.tokens, "text": self.preview}
        if self.calls:
            data["calls"] = list(self.calls)
        if self.answers is not None:
            data["answers"] = self.answers
        return data


@dataclass(frozen=True, slots=True)
class Arc:
    """A call and its result, by place: ``call`` < ``result``. ``lane`` keeps arcs at one place apart."""

    call: int
    result: int
    id: str
    name: str
    lane: int

    def to_json(self) -> dict[str, Any]:
        """The arc as JSON data."""
        return {"call": self.call, "result": self.result, "id": self.id, "name": self.name, "lane": self.lane}


class Tokens:
    """Tokens of a list of messages, as `estimate_tokens` has them, each message counted once and remembered."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        self._encoding = encoding
        self._seen: dict[Message, int] = {}

    def of(self, message: Message) -> int:
        """Tokens of one message."""
        if (found := self._seen.get(message)) is None:
            found = self._seen[message] = count_message(message, self._encoding)
        return found

    def __call__(self, messages: Sequence[Message]) -> int:
        return sum(map(self.of, messages)) + REPLY_PRIMING if messages else 0


def cards(history: Iterable[MessageLike], tokens: Tokens | None = None) -> tuple[Card, ...]:
    """One card for each message, in order. Raises `MalformedMessage`."""
    messages = as_messages(history)
    count = tokens or Tokens()
    call_of = pairing(messages).call_of
    return tuple(
        Card(
            index=index,
            role=message.role,
            tokens=count.of(message),
            preview=preview(message),
            calls=tuple(call.name or "?" for call in message.tool_calls),
            answers=call_of[index].index if index in call_of else None,
        )
        for index, message in enumerate(messages)
    )


def arcs(history: Iterable[MessageLike]) -> tuple[Arc, ...]:
    """One arc for each call that has its result, by the call's place and then the result's."""
    messages = as_messages(history)
    found = []
    free: list[int] = []  # for each lane, the last place that its arc covers
    answered = [call for call in pairing(messages).calls if call.result is not None]
    for call in sorted(answered, key=lambda item: (item.index, item.result or 0)):
        result = call.result or 0
        lane = next((lane for lane, end in enumerate(free) if end < call.index), len(free))
        free[lane : lane + 1] = [result]
        name = messages[call.index].tool_calls[call.position].name or "?"
        found.append(Arc(call.index, result, call.id or "", name, lane % LANES))
    return tuple(found)


def parted(found: Iterable[Arc], cut: int) -> tuple[Arc, ...]:
    """The arcs that a cut before message ``cut`` parts: the call before it, the result after it."""
    return tuple(arc for arc in found if arc.call < cut <= arc.result)


def preview(message: Message) -> str:
    """A message's first words on one line: its text, a word for what is not text, then its calls.

    >>> call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    >>> preview(Message.of({"role": "assistant", "content": "Let me see.", "tool_calls": [call]}))
    'Let me see. add({"a": 1})'
    """
    pieces = [message.content] if isinstance(message.content, str) else []
    if isinstance(message.content, tuple):
        for part in message.content:
            text = part_text(part)
            kind = part.get("type", "part") if not isinstance(part, str) else "part"
            pieces.append(f"[{kind}]" if text is None else text)
    pieces += [f"{call.name or '?'}({call.arguments or ''})" for call in message.tool_calls]
    line = " ".join(" ".join(piece[: 2 * PREVIEW] for piece in pieces if piece).split())
    return line if len(line) <= PREVIEW else line[: PREVIEW - 1] + "…"


def verdicts(history: Sequence[Message], known: dict[str, set[str]] | None = None) -> dict[str, dict[str, Any] | None]:
    """What each set of rules answers: None for accepted, else the first violation as data.

    ``rule`` and ``title``, the ``text`` a person would see, ``index`` in the list that is sent, ``repair``, how
    many violations there are (``count``), and ``also``: the rule is in ``known``, so the uncut history breaks it too.
    """
    answers: dict[str, dict[str, Any] | None] = {}
    for provider in NAMES:
        found = validate(history, provider)
        before = (known or {}).get(provider, set())
        fresh = [one for one in found if one.rule not in before]
        if not found:
            answers[provider] = None
            continue
        first = (fresh or found)[0]
        answers[provider] = {
            "rule": first.rule,
            "title": RULES[first.rule].title if first.rule in RULES else "",
            "text": first.message,
            "index": first.index,
            "repair": first.repair,
            "count": len(found),
            "pairing": first.pairing,
            "also": not fresh,
            "note": "" if fresh else "The uncut history has it too.",
        }
    return answers


def broken_rules(history: Sequence[Message]) -> dict[str, set[str]]:
    """For each set of rules, those that this history breaks."""
    return {provider: {one.rule for one in validate(history, provider)} for provider in NAMES}


def ranges(places: Iterable[int]) -> list[list[int]]:
    """Places as inclusive ranges.

    >>> ranges([1, 2, 3, 7])
    [[1, 3], [7, 7]]
    """
    found: list[list[int]] = []
    for place in places:
        if found and place == found[-1][1] + 1:
            found[-1][1] = place
        else:
            found.append([place, place])
    return found


def answer_words(answer: dict[str, Any] | None) -> str:
    """A verdict as words."""
    if answer is None:
        return "accepted"
    return f"400 ({answer['rule']}): {answer['text']}"


def esm(name: str) -> str:
    """The front end of a stepper as one ES module: the kit, the cards, then the stepper's own file."""
    return f"{kit.esm('cards')}\n{(kit.HERE / f'{name}.js').read_text('utf-8')}"


def css(name: str) -> str:
    """The styles of a stepper: the kit's, the cards', then its own."""
    return f"{kit.css('cards')}\n{(kit.HERE / f'{name}.css').read_text('utf-8')}"


def role_cell(role: str) -> str:
    """A role as a table cell with inline colours."""
    fill, ink = FILLS.get(role, ("#dddddd", "#111111"))
    return f'<td style="background-color:{fill};color:{ink};padding:2px 8px">{kit.escape(role)}</td>'
