"""The toy conversation of the cut: a system prompt and six messages, with two parallel calls at the end.

Written by hand. It is small enough to read whole, holds one thing that must not be lost (the nuts), and its last round
is still open, so every provider would take it as it stands.
"""

from __future__ import annotations

from typing import Any, Final


def _call(name: str, city: str) -> dict[str, Any]:
    function = {"name": "get_weather", "arguments": f'{{"city": "{city}"}}'}
    return {"id": name, "type": "function", "function": function}


TOY: Final[list[dict[str, Any]]] = [
    {"role": "system", "content": "You plan weekend trips. Answer in one sentence."},
    {
        "role": "user",
        "content": "Before we start: I am allergic to nuts, I pay 120 euros a night at most, I travel on Friday after "
        "five, and last year in Rome the hotel was next to a night club, which I do not want to go through again.",
    },
    {
        "role": "assistant",
        "content": "Noted: no nuts, up to 120 euros a night, leaving on Friday after five, and a quiet street.",
    },
    {"role": "user", "content": "Which is warmer today, Lisbon or Oslo?"},
    {"role": "assistant", "content": None, "tool_calls": [_call("wLisbon01", "Lisbon"), _call("wOslo0001", "Oslo")]},
    {"role": "tool", "tool_call_id": "wLisbon01", "content": "Lisbon: 24 degrees, sunny"},
    {"role": "tool", "tool_call_id": "wOslo0001", "content": "Oslo: 9 degrees, rain"},
]

TOY_SUMMARY: Final = (
    "The user is allergic to nuts, pays up to 120 euros a night, leaves Friday after five, wants quiet."
)

TOY_BUDGET: Final = 200
"""The history's budget in the toy (picked, so that it fires), in tokens."""

TOY_KEEP: Final = 1
"""The messages that the toy's naive cut keeps (picked, so that it falls between two results)."""
