"""The order shop of the scripted model: its tools, a catalogue, orders, and what each call returns.

Everything is computed from the call alone (and from what was placed in the same `Shop`), so the same conversation gives
the same results in every process. All of it is invented.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Product:
    """``price`` in euros, ``weight`` in grams, ``contains``: what somebody may be allergic to."""

    sku: str
    name: str
    kind: str
    price: float
    weight: int
    contains: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The product as a tool result shows it."""
        return {
            "sku": self.sku,
            "name": self.name,
            "kind": self.kind,
            "price_eur": self.price,
            "weight_g": self.weight,
            "contains": list(self.contains),
        }


CATALOGUE: tuple[Product, ...] = (
    Product("TP-01", "Small clay teapot", "teapot", 34.0, 620),
    Product("TP-02", "Glass teapot with a strainer", "teapot", 45.5, 710),
    Product("TP-03", "Cast iron teapot", "teapot", 89.0, 1850),
    Product("CP-01", "Set of four tea cups", "cup", 27.5, 900),
    Product("CP-02", "Travel cup with a lid", "cup", 18.0, 260),
    Product("TE-01", "Green tea, 250 g", "tea", 12.0, 270),
    Product("TE-02", "Jasmine tea, 100 g", "tea", 9.5, 120),
    Product("BX-01", "Gift box with almond biscuits", "gift box", 24.0, 800, ("nuts", "gluten")),
    Product("BX-02", "Gift box with dried fruit", "gift box", 26.0, 850),
    Product("BX-03", "Gift box with milk chocolate", "gift box", 29.0, 780, ("milk", "nuts")),
    Product("KT-01", "Electric kettle, 1.5 l", "kettle", 52.0, 1400),
    Product("LM-01", "Reading lamp", "lamp", 39.0, 1100),
)
PRODUCTS = {product.sku: product for product in CATALOGUE}

_STATES = ("packed", "handed to the carrier", "in transit", "out for delivery", "delivered")
_HUBS = ("Rotterdam", "Leipzig", "Milan", "Lyon", "Warsaw", "Singapore", "Osaka", "Hanoi", "Toronto", "Nairobi")


def _tool(name: str, description: str, **properties: dict[str, Any]) -> dict[str, Any]:
    required = [key for key, value in properties.items() if not value.pop("optional", False)]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _text(description: str, optional: bool = False) -> dict[str, Any]:
    return {"type": "string", "description": description, "optional": optional}


def _number(description: str, kind: str = "integer", optional: bool = False) -> dict[str, Any]:
    return {"type": kind, "description": description, "optional": optional}


SHOP_TOOLS: tuple[dict[str, Any], ...] = (
    _tool(
        "search_catalog",
        "Find products by words of their name or kind.",
        query=_text("What to look for, e.g. teapot"),
        max_price_eur=_number("Leave out what costs more, in euros", "number", optional=True),
    ),
    _tool("get_order", "The state and history of one order.", order_id=_text("Such as A-1042")),
    _tool(
        "place_order",
        "Order a product and ship it.",
        sku=_text("The product, e.g. TP-01"),
        quantity=_number("How many, from 1"),
        ship_to=_text("City to ship to"),
    ),
    _tool(
        "refund",
        "Pay an order back.",
        order_id=_text("Such as A-1042"),
        reason=_text("Why, in a few words", optional=True),
    ),
    _tool(
        "shipping_quote",
        "What shipping to a city costs and how long it takes.",
        city=_text("Where to"),
        weight_g=_number("Weight in grams", optional=True),
    ),
)
"""The tool definitions, OpenAI-shaped, to send with a request."""


class Shop:
    """The shop behind the tools. It remembers what was ordered and refunded in it, and nothing else."""

    def __init__(self) -> None:
        self.placed: dict[str, dict[str, Any]] = {}
        self.refunded: set[str] = set()

    def run_tool(self, call: Mapping[str, Any]) -> str:
        """The result of a tool call, as JSON text; ``{"error": ...}`` for one that cannot be run. Never raises."""
        function = call.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
        tool = self._tools().get(name) if isinstance(name, str) else None
        if tool is None or not isinstance(function, Mapping):
            return _json({"error": f"there is no tool {name!r}", "tools": sorted(self._tools())})
        try:
            arguments = json.loads(function.get("arguments") or "{}")
        except (TypeError, ValueError):
            return _json({"error": "the arguments are not JSON"})
        if not isinstance(arguments, dict):
            return _json({"error": "the arguments are not an object"})
        try:
            return _json(tool(arguments))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            return _json({"error": f"wrong arguments for {name}: {type(error).__name__}: {error}"})

    def _tools(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        return {
            "search_catalog": self._search,
            "get_order": self._order,
            "place_order": self._place,
            "refund": self._refund,
            "shipping_quote": self._quote,
        }

    def _search(self, arguments: dict[str, Any]) -> dict[str, Any]:
        words = _words(str(arguments["query"]))
        limit = arguments.get("max_price_eur")
        most = float("inf") if limit is None else float(limit)
        fits = [p for p in CATALOGUE if all(word in _words(f"{p.sku} {p.name} {p.kind}") for word in words)]
        found = sorted((p for p in fits if p.price <= most), key=lambda p: p.price)
        return {"query": arguments["query"], "found": [p.to_dict() for p in found], "too_dear": len(fits) - len(found)}

    def _order(self, arguments: dict[str, Any]) -> dict[str, Any]:
        order_id = str(arguments["order_id"]).upper()
        if order_id in self.placed:
            return self.placed[order_id] | {"refunded": order_id in self.refunded}
        number = re.fullmatch(r"A-(1\d{3})", order_id)
        if not number:
            return {"error": f"there is no order {order_id}"}
        return _old_order(order_id, int(number[1])) | {"refunded": order_id in self.refunded}

    def _place(self, arguments: dict[str, Any]) -> dict[str, Any]:
        product = PRODUCTS[str(arguments["sku"]).upper()]
        quantity = int(arguments["quantity"])
        if not 1 <= quantity <= 1000:
            raise ValueError(f"quantity {quantity}")
        key = _json([product.sku, quantity, arguments["ship_to"], len(self.placed)])
        order_id = f"B-{int(hashlib.sha256(key.encode()).hexdigest(), 16) % 9000 + 1000}"
        order = {
            "order_id": order_id,
            "status": "placed",
            "items": [{"sku": product.sku, "name": product.name, "quantity": quantity}],
            "total_eur": round(product.price * quantity, 2),
            "ship_to": str(arguments["ship_to"]),
        }
        self.placed[order_id] = order
        return order

    def _refund(self, arguments: dict[str, Any]) -> dict[str, Any]:
        order = self._order(arguments)
        if "error" in order:
            return order
        again = order["order_id"] in self.refunded
        self.refunded.add(order["order_id"])
        note = "was refunded before" if again else "refunded"
        return {"order_id": order["order_id"], "refund_eur": 0.0 if again else order["total_eur"], "status": note}

    def _quote(self, arguments: dict[str, Any]) -> dict[str, Any]:
        city = str(arguments["city"])
        weight = max(1, int(arguments.get("weight_g") or 1000))
        dice = random.Random(f"quote {city.lower()}")
        price = round(3.5 + dice.randrange(20, 160) / 10 + weight / 1000 * 1.8, 2)
        return {"city": city, "weight_g": weight, "price_eur": price, "days": dice.randrange(2, 12)}


def run_tool(call: Mapping[str, Any]) -> str:
    """`Shop.run_tool` in a shop of its own, in which nothing was ordered yet."""
    return Shop().run_tool(call)


def _old_order(order_id: str, number: int) -> dict[str, Any]:
    """An order from before the conversation, the same for the same number."""
    dice = random.Random(number)
    product = dice.choice(CATALOGUE)
    quantity = dice.randrange(1, 4)
    steps = dice.randrange(3, len(_STATES) + 1)
    day = dice.randrange(1, 15)
    events = [
        {"at": f"2026-09-{day + step:02}T{dice.randrange(6, 22):02}:{dice.randrange(60):02}:00Z", "state": state}
        | ({"hub": dice.choice(_HUBS), "scan": f"{dice.randrange(16**6):06x}"} if step else {})
        for step, state in enumerate(_STATES[:steps])
    ]
    return {
        "order_id": order_id,
        "status": _STATES[steps - 1],
        "items": [{"sku": product.sku, "name": product.name, "quantity": quantity}],
        "total_eur": round(product.price * quantity, 2),
        "events": events,
    }


def _words(text: str) -> list[str]:
    """The words of a text in lower case, without an s at the end."""
    return [word.rstrip("s") for word in re.findall(r"\w+", text.lower())]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
