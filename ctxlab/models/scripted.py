"""The scripted model: it reads the messages that it is given, and answers from nothing else.

It plays the assistant of an order shop. What the user stated (`facts`) it finds in the context or does not know: a
compression that lost the user's city makes it say so, and one that lost "never ship to Berlin" makes it ship there. It
calls tools one at a time or in parallel, goes on from their results, and the same request always gets the same answer.
It is no language model: it knows some twenty turns of phrase, all of them in this package.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ctxlab.messages import Message, MessageLike, as_messages
from ctxlab.models.answers import answer_fact, answer_results, noted, read
from ctxlab.models.base import Model, Piece, Reply, Tools, pieces, tool_call
from ctxlab.models.facts import Fact, asked_about, facts_in, language, own_words
from ctxlab.models.shop import CATALOGUE, SHOP_TOOLS
from ctxlab.models.summaries import is_summary_text, summarise

_ORDER_ID = re.compile(r"\b[AB]-\d{4}\b", re.IGNORECASE)
_SUMMARISE = re.compile(r"\bsummari[sz]e\b|\bwrite a summary\b|总结|摘要|tóm tắt", re.IGNORECASE)
_REFUND = re.compile(r"\brefund\b|\bmoney back\b|退款|hoàn tiền", re.IGNORECASE)
_BUY = re.compile(r"\b(?:order|buy|purchase)\b|(?:买|订购)|\b(?:mua|đặt)\b", re.IGNORECASE)
_FIND = re.compile(r"\b(?:find|search|look(?:ing)? for|show me|do you have|sell)\b|找|\btìm\b", re.IGNORECASE)
_QUOTE = re.compile(
    r"\b(?:shipping|ship|deliver|delivery|postage)\b.*\b(?:cost|price|long|quote|compare|much)|"
    r"\b(?:cost|price|long|quote|compare|much)\b.*\b(?:shipping|ship|deliver|delivery|postage)\b",
    re.IGNORECASE | re.DOTALL,
)
_CITIES = re.compile(r"\bto ((?:[A-Z]\w+(?: [A-Z]\w+)*)(?:(?:, and |, or |, | and | or )(?:[A-Z]\w+(?: [A-Z]\w+)*))*)")
_SHIP_TO = re.compile(r"\b(?:ship|send|deliver)(?: it| them| this)? to ([A-Z]\w+(?: [A-Z]\w+)*)")
_SKU = re.compile(r"\b[A-Z]{2}-\d{2}\b")
_AMOUNT = re.compile(r"(?<![-\w.])(\d{1,3})(?![-\w.%])")
_KINDS = sorted({product.kind for product in CATALOGUE}, key=len, reverse=True)

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Round:
    """What the model is at: the request, what is known of the user, which tools there are, and their results so far."""

    request: str
    facts: tuple[Fact, ...]
    stated: tuple[Fact, ...]
    tools: Mapping[str, Mapping[str, Any]]
    results: tuple[tuple[str, dict[str, Any], str], ...]

    def known(self, kind: str) -> list[str]:
        """The values of the facts of a kind."""
        return [fact.value for fact in self.facts if fact.kind == kind]

    def done(self, name: str) -> bool:
        """Whether the tool was called in this round."""
        return any(called == name for called, _, _ in self.results)

    def forbidden(self, city: str) -> bool:
        """Whether the user said never to ship there."""
        return city.casefold() in (place.casefold() for place in self.known("never_ship"))


class MockModel(Model):
    """The scripted model. It has no state at all: see the module's docstring.

    >>> MockModel().reply([{"role": "user", "content": "Where did I say I live?"}])["content"]
    'I do not know where you live: nothing that I was given says so.'
    """

    name = "ctxlab-mock"

    def stream(self, messages: Iterable[MessageLike], tools: Tools = ()) -> Iterator[Piece]:
        """The answer in pieces of a few characters."""
        return pieces(self.reply(messages, tools))

    def reply(self, messages: Iterable[MessageLike], tools: Tools = ()) -> Reply:
        """The answer: text, or tool calls (with a word before them). Never raises for a valid history."""
        history = as_messages(messages)
        if _wants_summary(history):
            return _say(summarise([message.to_dict() for message in history]))
        turn = _round(history, tools)
        outcome = _decide(turn)
        if isinstance(outcome, str):
            return _say(outcome)
        return _calls(history, outcome, _preamble(turn))


def _decide(turn: _Round) -> str | list[Call]:
    """A text, or the calls to make."""
    text = turn.request
    if turn.results:
        ordered = turn.done("place_order")
        told = [one for one in turn.results if not (ordered and one[0] == "search_catalog")]
        return _order_of_search(turn) or answer_results(told)
    if ids := list(dict.fromkeys(match.upper() for match in _ORDER_ID.findall(text))):
        name = "refund" if _REFUND.search(text) else "get_order"
        return _if_offered(turn, [(name, {"order_id": order_id}) for order_id in ids])
    if kind := asked_about(text):
        return answer_fact(kind, turn.known(kind), language(text))
    if _QUOTE.search(text) and (cities := _cities(turn)):
        return _quotes(turn, cities)
    if query := _product(text):
        if _BUY.search(text) and not _destination(turn):
            return "Where should it go? I do not know where you live."
        budget = turn.known("budget")
        limit = {"max_price_eur": float(budget[-1])} if budget else {}
        return _if_offered(turn, [("search_catalog", {"query": query, **limit})])
    if own := _other_tool(turn):
        return [own]
    return noted(turn.stated, language(text)) if turn.stated else _small_talk(text)


def _order_of_search(turn: _Round) -> str | list[Call]:
    """After a search that was made in order to buy: the order, or why not; '' where nothing is to be ordered."""
    if not (_BUY.search(turn.request) and turn.done("search_catalog")) or turn.done("place_order"):
        return ""
    _, arguments, result = next(one for one in turn.results if one[0] == "search_catalog")
    found = read(result)
    products = _products(found.get("found"))
    allergies = [value.casefold().rstrip("s") for value in turn.known("allergy")]
    safe = [p for p in products if not any(a in str(what) for what in p["contains"] for a in allergies)]
    amount = _amount(turn.request)
    budget = turn.known("budget")
    affordable = [p for p in safe if not budget or p["price_eur"] * amount <= float(budget[-1])]
    if products and not safe:
        return f"I did not order it: it contains {products[0]['contains'][0]}, and you are allergic to that."
    if not affordable:
        if budget and (safe or found.get("too_dear")):
            return f"I did not order it: it costs more than your budget of {budget[-1]} euros."
        return f"I found nothing for {arguments.get('query')!r}, so I ordered nothing."
    city = _destination(turn)
    if turn.forbidden(city):
        return f"I did not order it: you said never to ship to {city}."
    return _if_offered(turn, [("place_order", {"sku": affordable[0]["sku"], "quantity": amount, "ship_to": city})])


def _products(found: Any) -> list[dict[str, Any]]:
    """What a search found, as far as it has the form of the shop's products: a tool may be somebody else's."""
    kinds: dict[str, type | tuple[type, ...]] = {"sku": str, "price_eur": (int, float), "contains": list}
    listed = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [one for one in listed if all(isinstance(one.get(key), kind) for key, kind in kinds.items())]


def _quotes(turn: _Round, cities: list[str]) -> str | list[Call]:
    allowed = [city for city in cities if not turn.forbidden(city)]
    if not allowed:
        return f"You said never to ship to {' and '.join(cities)}, so I asked for no price."
    return _if_offered(turn, [("shipping_quote", {"city": city}) for city in allowed])


def _if_offered(turn: _Round, calls: list[Call]) -> str | list[Call]:
    """The calls, if the request offers their tool."""
    name = calls[0][0]
    return calls if name in turn.tools else f"I would need the tool {name} for that, and I was not given it."


def _cities(turn: _Round) -> list[str]:
    named = [city for match in _CITIES.findall(turn.request) for city in re.split(r", and |, or |, | and | or ", match)]
    return list(dict.fromkeys(named)) or turn.known("home")


def _destination(turn: _Round) -> str:
    named = _SHIP_TO.search(turn.request)
    home = turn.known("home")
    return named[1] if named else home[-1] if home else ""


def _product(text: str) -> str:
    """What to search for: an article number, or a kind of product, where the text asks to find or to buy one."""
    if not (_BUY.search(text) or _FIND.search(text)):
        return ""
    if sku := _SKU.search(text):
        return sku[0]
    return next((kind for kind in _KINDS if re.search(rf"\b{kind}s?\b", text, re.IGNORECASE)), "")


def _amount(text: str) -> int:
    """How many: the first number that is no part of an article number."""
    match = _AMOUNT.search(_SKU.sub("", text))
    return max(1, int(match[1])) if match else 1


def _other_tool(turn: _Round) -> Call | None:
    """A tool of somebody else's that the user names: its arguments are filled in by their types."""
    shop = {tool["function"]["name"] for tool in SHOP_TOOLS}
    for name, parameters in turn.tools.items():
        words = name.replace("_", " ").replace("-", " ")
        if name not in shop and re.search(
            rf"\b(?:{re.escape(name)}|{re.escape(words)})\b", turn.request, re.IGNORECASE
        ):
            properties = parameters.get("properties")
            schemas = properties if isinstance(properties, Mapping) else {}
            return name, {key: _value(schema, turn.request) for key, schema in schemas.items()}
    return None


def _value(schema: Any, text: str) -> Any:
    schema = schema if isinstance(schema, Mapping) else {}
    if options := schema.get("enum"):
        return options[0]
    number = _AMOUNT.search(text)
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return int(number[1]) if number else 1
    if kind == "boolean":
        return True
    if kind in ("array", "object"):
        return [] if kind == "array" else {}
    named = re.findall(r"\"([^\"]+)\"|(?<!^)\b([A-Z]\w+(?: [A-Z]\w+)*)", text)
    return next((quoted or name for quoted, name in named), text.strip()[:200])


def _small_talk(text: str) -> str:
    if re.search(r"\b(?:thanks|thank you|cảm ơn)\b|谢谢", text, re.IGNORECASE):
        return "You are welcome."
    if not text.strip():
        return "What can I do for you?"
    return "I look after the orders of this shop: ask me about an order, a product, a refund or shipping."


def _preamble(turn: _Round) -> str | None:
    return noted(turn.stated, language(turn.request)) if turn.stated and not turn.results else None


def _round(history: tuple[Message, ...], tools: Tools) -> _Round:
    """The current round: from the last message of the user on that is no summary."""
    users = [i for i, message in enumerate(history) if message.role == "user" and not is_summary_text(message.text)]
    start = users[-1] if users else len(history)
    while start - 1 in users:  # two user messages in a row are one request
        start -= 1
    own = [message for message in history[start:] if message.role == "user"]
    calls: dict[str, tuple[str, dict[str, Any]]] = {}
    results = []
    for message in history[start:] if users else history:
        for call in message.tool_calls:
            calls[call.id or ""] = (call.name or "", read(call.arguments or ""))
        if message.role == "tool" and message.tool_call_id in calls:
            results.append((*calls[message.tool_call_id], message.text))
    offered = {}
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            schema = function.get("parameters")
            offered[function["name"]] = schema if isinstance(schema, Mapping) else {}
    answered = bool(history) and history[-1].role == "tool"
    return _Round(
        own_words("\n".join(message.text for message in own)),
        tuple(facts_in(history)),
        tuple(facts_in(own)),
        offered,
        tuple(results) if answered else (),
    )


def _wants_summary(history: tuple[Message, ...]) -> bool:
    """Whether the last message, or the system prompt, asks for a summary (in its first or last words)."""
    asking = [message for message in history[-1:] if message.role in ("user", "system", "developer")]
    asking += [message for message in history[:1] if message.is_system]
    texts = [message.text for message in asking if not is_summary_text(message.text)]
    return any(_SUMMARISE.search(text[:300]) or _SUMMARISE.search(text[-300:]) for text in texts)


def _say(text: str) -> Reply:
    return {"role": "assistant", "content": text}


def _calls(history: tuple[Message, ...], calls: list[Call], text: str | None) -> Reply:
    """The calls as an assistant message. Ids are nine letters and digits, as the strictest provider wants them, and
    come from all of the context, so that they do not repeat in a conversation, not even after a compression."""
    digest = hashlib.sha256()
    for message in history:
        digest.update(f"{message.role}\n{message.text}\n{message.tool_call_id}\n".encode("utf-8", "replace"))
        digest.update("".join(f"{call.id}{call.arguments}" for call in message.tool_calls).encode("utf-8", "replace"))
    made = []
    for index, (name, arguments) in enumerate(calls):
        own = hashlib.sha256(digest.digest() + bytes([index % 256])).hexdigest()[:9]
        made.append(tool_call(own, name, json.dumps(arguments, ensure_ascii=False)))
    return {"role": "assistant", "content": text, "tool_calls": made}
