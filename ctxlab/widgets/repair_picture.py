"""A repair as a picture: what the check finds, and both ways to mend it side by side, step by step.

The repaired histories are those of `repairs.repair`, the steps those of `explain_repair`; here each line of the
result is laid beside the line that it came from, so that a step can be drawn where it happens. A step that is not
taken yet leaves the old line standing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from ctxlab.errors import unknown_name
from ctxlab.messages import Message, MessageLike, as_messages
from ctxlab.providers import RULES
from ctxlab.repairs import REPAIR_MODES, explain_repair, repair
from ctxlab.rounds import Step, pairing
from ctxlab.widgets.cards import NAMES, Tokens, answer_words, broken_rules, cards, role_cell, verdicts
from ctxlab.widgets.kit import HERE, escape

NEAR = 2
"""Untouched messages shown before and after one that is mended; longer stretches are summarised (picked)."""

MOST_LINES = 150
"""Lines that a column shows at most (picked); what is beyond is said in words."""

_MOVED_AWAY: Final = "away"


@dataclass(frozen=True, slots=True)
class Case:
    """A broken history with its story. ``source``: the public report that its shape was read from, or synthetic."""

    id: str
    title: str
    source: str
    story: str
    history: tuple[Message, ...]


@cache
def cases() -> dict[str, Case]:
    """The bundled broken histories by id, in the order in which they are offered."""
    data = json.loads((HERE / "repair_cases.json").read_text("utf-8"))
    return {item["id"]: Case(**{**item, "history": as_messages(item["history"])}) for item in data}


def case(name: str) -> Case:
    """One bundled case. Raises `UnknownName`."""
    known = cases()
    if name not in known:
        raise unknown_name("case", name, list(known))
    return known[name]


def picture(history: Iterable[MessageLike], encoding: str = "o200k_base") -> dict[str, Any]:
    """All that is drawn, as JSON data: ``found`` (sentences of the check), ``before`` and, by mode, ``lines`` and
    ``steps``; ``answers`` of the providers for before, append and discard. Raises `MalformedMessage`."""
    messages = as_messages(history)
    tokens = Tokens(encoding)
    known = broken_rules(messages)
    modes = {mode: _mode(messages, mode, tokens) for mode in REPAIR_MODES}
    touched = {place for mode in modes.values() for step in mode["steps"] for place in step["cards"]}
    own: list[dict[str, Any]] = [
        {"kind": "kept", "step": 0, "card": card.to_json()} for card in cards(messages, tokens)
    ]
    return {
        "length": len(messages),
        "found": check(messages),
        "before": _near(own, [line["card"]["i"] in touched for line in own]),
        "modes": {
            name: {
                "steps": mode["steps"],
                "lines": _near(
                    mode["lines"], [line["kind"] != "kept" or line["card"]["i"] in touched for line in mode["lines"]]
                ),
                "tokens": mode["tokens"],
            }
            for name, mode in modes.items()
        },
        "tokens": tokens(messages),
        "answers": {
            "before": verdicts(messages),
            **{name: _after(mode["result"], known) for name, mode in modes.items()},
        },
    }


def check(history: Sequence[MessageLike]) -> list[str]:
    """What the completeness check finds, a sentence each; [] where every call has its one result at its place.

    >>> check([{"role": "tool", "tool_call_id": "c1", "content": "4"}])
    ["Orphan: message 0 is a result for 'c1', and no call with that id comes before it"]
    """
    messages = as_messages(history)
    pairs = pairing(messages)
    dangling = [
        f"Dangling call: {messages[call.index].tool_calls[call.position].name or '?'} ({call.id!r}) in message "
        f"{call.index} has no result"
        for call in pairs.open
    ]
    orphans = [
        f"Orphan: message {place} is a result for {messages[place].tool_call_id!r}, and no call with that id comes "
        "before it"
        for place in pairs.orphans
    ]
    twice = [
        f"Duplicate: message {place} is a further result for {messages[place].tool_call_id!r}"
        for place in pairs.duplicates
    ]
    apart = [
        f"Not adjacent: the result in message {place} does not follow its call in message {pairs.call_of[place].index} "
        "directly"
        for place in pairs.misplaced
    ]
    return [*dangling, *orphans, *twice, *apart]


def _mode(messages: tuple[Message, ...], mode: str, tokens: Tokens) -> dict[str, Any]:
    steps = explain_repair(messages, mode)
    result = as_messages(repair(messages, mode))
    return {
        "steps": [_step(step) for step in steps],
        "lines": _lines(messages, result, steps, tokens),
        "tokens": tokens(result),
        "result": result,
    }


def _step(step: Step) -> dict[str, Any]:
    places = [step.index, step.data.get("result"), step.data.get("call")]
    title = RULES[step.rule].title if step.rule in RULES else ""
    return {
        "action": step.action,
        "rule": step.rule,
        "title": title,
        "why": f"{step.why[:1].upper()}{step.why[1:]}",
        "cards": sorted({place for place in places if isinstance(place, int)}),
    }


def _after(result: tuple[Message, ...], known: dict[str, set[str]]) -> dict[str, Any]:
    """The answers after a repair; what is left is not about pairing, and said to be."""
    answers = verdicts(result)
    for provider, answer in answers.items():
        if answer and not answer["pairing"]:
            end = "the repair leaves it." if answer["rule"] in known[provider] else "new since the repair."
            answer.update(also=True, note=f"Not about calls and results: {end}")
    return answers


def _lines(
    messages: tuple[Message, ...], result: tuple[Message, ...], steps: Sequence[Step], tokens: Tokens
) -> list[dict[str, Any]]:
    """Old and new lines in one order: the result's, with what is gone where it stood."""
    before, after = cards(messages, tokens), cards(result, tokens)
    number = _first_steps(steps)
    gone = {step.index for step in steps if step.action in ("drop", "discard")}
    moved = {step.index for step in steps if step.action == "move"}
    origin = _origins(messages, result, gone)
    inserts = iter([place for place, step in enumerate(steps, 1) if step.action == "insert"])
    opens = iter([place for place, step in enumerate(steps, 1) if step.action == "open"])
    lines: list[dict[str, Any]] = []
    waiting = [card for card in before if card.index in gone or card.index in moved]

    def catch_up(limit: int) -> None:
        while waiting and waiting[0].index < limit:
            card = waiting.pop(0)
            kind = _MOVED_AWAY if card.index in moved else "gone"
            lines.append({"kind": kind, "step": number.get(card.index, 1), "card": card.to_json()})

    for place, card in enumerate(after):
        came_from = origin[place]
        data = {**card.to_json(), "i": came_from}
        data.pop("answers", None)
        if card.answers is not None:
            data["answers"] = origin[card.answers]
        if came_from is None:
            which = inserts if card.role == "tool" else opens
            lines.append({"kind": "new", "step": next(which, len(steps)), "card": data})
            continue
        if came_from not in moved:
            catch_up(came_from)
        changed = messages[came_from] != result[place]
        kind = "moved" if came_from in moved else "changed" if changed else "kept"
        line = {"kind": kind, "step": 0 if kind == "kept" else number.get(came_from, 1), "card": data}
        if kind == "changed":
            line |= {"was": before[came_from].to_json(), "word": _change(came_from, steps)}
        lines.append(line)
    catch_up(len(messages))
    return lines


def _change(place: int, steps: Sequence[Step]) -> str:
    """What a changed message was changed by, in a word or two."""
    names = [str(s.data["new"]) for s in steps if s.action == "rename" and place in (s.index, s.data.get("result"))]
    return f"now {', '.join(names)}" if names else "id dropped"


def _first_steps(steps: Sequence[Step]) -> dict[int, int]:
    """For each message, the number (from 1) of the first step that is about it; inserts are about a new message."""
    found: dict[int, int] = {}
    for number, step in enumerate(steps, 1):
        if step.action in ("insert", "open"):
            continue
        for place in (step.index, step.data.get("result") if step.action == "rename" else None):
            if isinstance(place, int):
                found.setdefault(place, number)
    return found


def _origins(messages: tuple[Message, ...], result: tuple[Message, ...], gone: set[int | None]) -> list[int | None]:
    """For each message of the result the place it had, None for a new one: the same data, else the same but for ids."""
    places: dict[Message, list[int]] = {}
    alike: dict[Message, list[int]] = {}
    for place, message in enumerate(messages):
        if place not in gone:
            places.setdefault(message, []).append(place)
            alike.setdefault(_without_ids(message), []).append(place)
    used: set[int] = set()
    origin: list[int | None] = [None] * len(result)
    for pool, name in ((places, lambda message: message), (alike, _without_ids)):
        for at, message in enumerate(result):
            if origin[at] is None:
                free = next((place for place in pool.get(name(message), ()) if place not in used), None)
                if free is not None:
                    origin[at] = free
                    used.add(free)
    return origin


def _without_ids(message: Message) -> Message:
    data = {key: value for key, value in message.data.items() if key not in ("id", "requires", "tool_call_id")}
    if message.tool_calls:
        data["tool_calls"] = [{key: value for key, value in c.data.items() if key != "id"} for c in message.tool_calls]
    return Message.of(data)


def _near(lines: list[dict[str, Any]], touched: list[bool]) -> list[dict[str, Any]]:
    """The lines near a touched one, and how many are left out between; a short list whole."""
    if len(lines) <= 4 * NEAR + 8:
        return lines
    keep: set[int] = set()
    for place, is_touched in enumerate(touched):
        if is_touched:
            keep.update(range(max(0, place - NEAR), min(len(lines), place + NEAR + 1)))
    shown: list[dict[str, Any]] = []
    skipped = 0
    for place, line in enumerate(lines):
        if place in keep and len(shown) < MOST_LINES:
            shown += [{"kind": "skip", "count": skipped}] if skipped else []
            shown.append(line)
            skipped = 0
        else:
            skipped += 1
    return [*shown, {"kind": "skip", "count": skipped}] if skipped else shown


def sentence(shown: dict[str, Any]) -> str:
    """The whole picture in one sentence, for a screen reader and a terminal."""
    refused = {
        name: sum(1 for answer in answers.values() if answer and not answer["also"])
        for name, answers in shown["answers"].items()
    }
    steps = {name: len(mode["steps"]) for name, mode in shown["modes"].items()}
    return (
        f"{shown['length']} messages, {len(shown['found'])} finding(s) of the check; refused by {refused['before']} of "
        f"{len(shown['answers']['before'])} sets of provider rules. Append mends it in {steps['append']} step(s), "
        f"discard in {steps['discard']}; afterwards {refused['append']} and {refused['discard']} refuse a pairing."
    )


def static_html(shown: dict[str, Any], caption: str) -> str:
    """The picture as tables with inline colours: as found, both results with their steps, the answers. No script."""
    found = "".join(f"<li>{escape(text)}</li>" for text in shown["found"]) or "<li>The check finds nothing</li>"
    pieces = [f"<p><strong>{escape(caption)}.</strong> {escape(sentence(shown))}</p><ul>{found}</ul>"]
    pieces.append(_static_list("As found", shown["before"]))
    for name, mode in shown["modes"].items():
        steps = "".join(f"<li>{escape(step['why'])} (rule {step['rule']})</li>" for step in mode["steps"])
        pieces.append(_static_list(f"Repaired: {name}", mode["lines"]) + (f"<ol>{steps}</ol>" if steps else ""))
    rows = "".join(
        f'<tr><td style="text-align:left">{NAMES[name]}</td>'
        + "".join(
            f'<td style="text-align:left">{escape(answer_words(answers[name]))}</td>'
            for answers in shown["answers"].values()
        )
        + "</tr>"
        for name in shown["answers"]["before"]
    )
    head = "".join(f"<th>{text}</th>" for text in ("Provider rules", "As found", "After append", "After discard"))
    pieces.append(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")
    return f"<div>{''.join(pieces)}</div>"


_STATIC_MARKS: Final = {
    "new": "+ added",
    "gone": "- dropped",
    _MOVED_AWAY: "- moved from here",
    "moved": "+ moved here",
}


def _static_list(title: str, lines: Sequence[dict[str, Any]]) -> str:
    rows = []
    for line in lines:
        if line["kind"] == "skip":
            rows.append(
                f'<tr><td colspan="4" style="text-align:left">({line["count"]} messages as they were)</td></tr>'
            )
            continue
        card = line["card"]
        word = f"~ {line['word']}" if line["kind"] == "changed" else _STATIC_MARKS.get(line["kind"], "")
        place = "new" if card["i"] is None else card["i"]
        rows.append(
            f'<tr><td style="text-align:right">{place}</td>{role_cell(card["role"])}'
            f'<td style="text-align:left">{escape(card["text"])}</td><td style="text-align:left">{word}</td></tr>'
        )
    return (
        f"<p><strong>{escape(title)}</strong></p><table><thead><tr><th>Message</th><th>Role</th><th>Text</th>"
        f"<th>Repair</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )
