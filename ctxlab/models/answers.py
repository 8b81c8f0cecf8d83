"""What the scripted model says: about a fact, after a statement, and about the results of its tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ctxlab.models.facts import KINDS, Fact

Result = tuple[str, dict[str, Any], str]
"""Name of the tool, arguments, the result's text."""

_NOTED = {"en": "Noted: ", "zh": "记下了：", "vi": "Tôi đã ghi nhớ: "}
_JOIN = {"en": " and ", "zh": "和", "vi": " và "}


def answer_fact(kind: str, values: Sequence[str], language: str) -> str:
    """The answer to a question about what the user stated; that it is not known where it is not.

    >>> answer_fact("home", ["Shanghai"], "en")
    'You said that you live in Shanghai.'
    """
    entry = KINDS[kind]
    return entry.answer[language].format(_JOIN[language].join(values)) if values else entry.unknown[language]


def noted(facts: Iterable[Fact], language: str) -> str:
    """That a statement was understood. It repeats the values, so a reader sees what was taken up."""
    said = [KINDS[fact.kind].answer[language].format(fact.value).rstrip(".。") for fact in facts]
    if language == "zh":
        return f"{_NOTED[language]}{'；'.join(said)}。"
    plain = (text.removeprefix("You said that ").removeprefix("You said ") for text in said)
    return f"{_NOTED[language]}{'; '.join(text[:1].lower() + text[1:] for text in plain)}."


def answer_results(results: Iterable[Result]) -> str:
    """What the tools returned, in words; several results (parallel calls) one after another."""
    return "\n\n".join(_told(*result) for result in results)


def line_of(name: str, arguments: dict[str, Any], text: str) -> str:
    """One result in one line, for a summary; '' where there is nothing to keep of it."""
    data = read(text)
    if not data or "error" in data:
        return ""
    writers = {"get_order": _order_line, "place_order": _placed_line, "refund": _refund_line}
    try:
        return writers[name](data) if name in writers else ""
    except (KeyError, TypeError, IndexError):
        return ""


def read(text: str) -> dict[str, Any]:
    """A result as an object; {} where it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _told(name: str, arguments: dict[str, Any], text: str) -> str:
    data = read(text)
    if "error" in data:
        return f"The shop could not do that: {data['error']}."
    tellers = {
        "get_order": _order,
        "place_order": _placed,
        "refund": _refunded,
        "shipping_quote": _quoted,
        "search_catalog": _found,
    }
    try:
        return tellers[name](data)
    except (KeyError, TypeError, IndexError, ValueError):  # somebody else's tool, or a result cut short
        return f"The tool {name} answered: {text[:500]}"


def _order(data: dict[str, Any]) -> str:
    items = ", ".join(f"{item['quantity']} x {item['name']}" for item in data["items"])
    text = f"Order {data['order_id']} ({items}, {data['total_eur']:.2f} euros) is {data['status']}."
    if data.get("refunded"):
        text += " It was refunded."
    events = data.get("events") or []
    if not events:
        return f"{text} It goes to {data['ship_to']}." if "ship_to" in data else text
    way = "\n".join(
        f"- {event['at'][:10]} at {event['at'][11:16]}: {event['state']}"
        + (f", seen in {event['hub']}" if "hub" in event else "")
        for event in events
    )
    return f"{text} Its way so far:\n{way}\n{_NEXT.get(data['status'], '')}".rstrip()


_NEXT = {
    "handed to the carrier": "The carrier has it now; the next scan usually follows within a day or two, and I can "
    "look again then. Nothing is needed from your side.",
    "in transit": "It is on its way and nothing points to a delay. If the next scan does not come within three days, "
    "tell me, and I will ask the carrier where it is.",
    "out for delivery": "It should arrive today. If nobody is in, the carrier leaves a card and tries once more on the "
    "next working day.",
    "delivered": "The carrier has recorded the delivery. If it did not reach you, tell me, and I will ask for the "
    "proof of delivery.",
}


def _placed(data: dict[str, Any]) -> str:
    item = data["items"][0]
    return (
        f"Ordered: {item['quantity']} x {item['name']} for {data['total_eur']:.2f} euros, "
        f"shipped to {data['ship_to']}. The order is {data['order_id']}."
    )


def _refunded(data: dict[str, Any]) -> str:
    return f"Order {data['order_id']}: {data['status']}, {data['refund_eur']:.2f} euros paid back."


def _quoted(data: dict[str, Any]) -> str:
    price = f"{data['price_eur']:.2f} euros"
    return f"Shipping {data['weight_g']} g to {data['city']} costs {price} and takes {data['days']} days."


def _found(data: dict[str, Any]) -> str:
    found = data["found"]
    dear = f" {data['too_dear']} more would be over your budget." if data.get("too_dear") else ""
    if not found:
        return f"I found nothing for {data['query']!r}.{dear}"
    lines = "\n".join(f"- {p['sku']}: {p['name']}, {p['price_eur']:.2f} euros" for p in found)
    return f"I found {len(found)} for {data['query']!r}:\n{lines}{dear and chr(10)}{dear.strip()}"


def _order_line(data: dict[str, Any]) -> str:
    seen = [event["hub"] for event in data.get("events") or () if "hub" in event]
    items = ", ".join(f"{item['quantity']} x {item['sku']}" for item in data["items"])
    return f"Order {data['order_id']}: {items}, {data['status']}" + (f", last seen in {seen[-1]}" if seen else "")


def _placed_line(data: dict[str, Any]) -> str:
    item = data["items"][0]
    return f"Order {data['order_id']}: placed, {item['quantity']} x {item['sku']} to {data['ship_to']}"


def _refund_line(data: dict[str, Any]) -> str:
    return f"Order {data['order_id']}: refunded"
