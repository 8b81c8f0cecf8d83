"""One message's way from a person's input to the log and back, as stations with real data at each.

`walk` runs the way once, with the library's own functions and the scripted model, on a session in a temporary folder:
nothing that a station shows is written by hand. There are two walks, since one station depends on it: with a history
below the trigger, and with one above it, which is compressed on the way.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from ctxlab.budget import MAX_TOKENS, TRIGGER_RATIO, Budget, history_trigger
from ctxlab.compress import Compressed, compress
from ctxlab.kit import KitMissing, folder
from ctxlab.models import SHOP_TOOLS, MockModel, Shop, conversation, summarise
from ctxlab.providers import PROVIDERS, validate
from ctxlab.session import Session
from ctxlab.tokens import count_message, count_tools, estimate_tokens
from ctxlab.transcript import append_message, fork_session

ASKED: Final = "How much is shipping to Hanoi and to Lisbon?"
PATHS: Final = {"short": "below the trigger", "long": "over the trigger"}
_ROUNDS: Final = {"short": 1, "long": 7}
_WINDOW, _RESERVE, _MARGIN = 16_384, 4_096, 512  # picked: a small window, so that the numbers can be followed

LESSONS: Final = {
    0: "Start here",
    1: "The four-part budget",
    2: "When and where to cut",
    3: "Repair",
    4: "The log",
    5: "Forks",
    6: "Cut the surface, keep the record",
    7: "Memory",
}
EXERCISES: Final = {
    "estimate_tokens": "01_estimate_tokens",
    "compress_if_needed": "02_compress_if_needed",
    "append_message": "03_append_message",
    "fork_session": "04_fork_session",
}


@dataclass(frozen=True, slots=True)
class Link:
    """A lesson or an exercise. ``href`` is relative to the lessons' folder; '' where that notebook is not there."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Station:
    """One stop. ``name`` fits into a small box, ``title`` and ``what`` say what happens, ``functions`` who does it.

    ``data`` is what the message, or what travels with it, looks like here, and ``caption`` says what that is;
    ``messages`` and ``tokens`` are the history's at this point. ``skipped``: nothing had to be done here this time.
    """

    key: str
    name: str
    title: str
    what: str
    functions: tuple[str, ...]
    links: tuple[Link, ...]
    caption: str
    data: str
    messages: int
    tokens: int
    skipped: bool = False

    def to_json(self) -> dict[str, Any]:
        """The station as JSON data."""
        data = asdict(self)
        return {**data, "functions": list(self.functions), "links": [asdict(link) for link in self.links]}


@dataclass(slots=True)
class _Walk:
    """The stations so far, and the history as it stands."""

    history: list[dict[str, Any]]
    stations: list[Station] = field(default_factory=list)

    def stop(
        self,
        key: str,
        name: str,
        title: str,
        what: str,
        functions: Sequence[str],
        lessons: Sequence[int],
        caption: str,
        data: str,
        skipped: bool = False,
    ) -> None:
        links = [lesson_link(number) for number in lessons]
        links += [_exercise_link(name) for name in functions if name in EXERCISES]
        talk = [message for message in self.history if message["role"] != "system"]
        station = Station(
            key,
            name,
            title,
            what,
            tuple(functions),
            tuple(links),
            caption,
            data,
            len(talk),
            estimate_tokens(talk),
            skipped,
        )
        self.stations.append(station)


@cache
def walk(path: str = "short") -> tuple[Station, ...]:
    """The stations of one walk, ``short`` or ``long`` (a key of `PATHS`), in the order in which they are passed."""
    with tempfile.TemporaryDirectory(prefix="ctxlab-") as place:
        sessions = Path(place) / ".sessions"
        with Session.create(sessions, "main") as session:
            session.append_many(conversation(_ROUNDS[path], seed=3))
            way = _Walk(session.record())
        _in(way, sessions / "main.jsonl")
        _request(way)
        _model(way, sessions / "main.jsonl")
        _back(way, sessions)
    return tuple(way.stations)


def _in(way: _Walk, log: Path) -> None:
    message = {"role": "user", "content": ASKED}
    way.stop(
        "input",
        "Input",
        "A person writes",
        "Text becomes a message: a role and a content. More it is not, and it is lost if the program stops now.",
        (),
        (0,),
        "the new message",
        _json(message),
    )
    record = append_message(log, message)
    way.history.append(message)
    way.stop(
        "log",
        "Log",
        "Append it to the log, first of all",
        "One JSON line at the end of the session's file, flushed to disk before anything else is done. It gets its "
        "number (seq) and its time. No earlier byte changes.",
        ("append_message",),
        (4,),
        "the last line of .sessions/main.jsonl",
        _json(record),
    )


def _request(way: _Walk) -> None:
    trigger = history_trigger(MAX_TOKENS, TRIGGER_RATIO)
    tokens = estimate_tokens(way.history)
    fires = tokens >= trigger
    way.stop(
        "check",
        "Check",
        "Is the history near its budget?",
        f"Count the history and hold it against {TRIGGER_RATIO:g} of its budget of {MAX_TOKENS:,} (both picked). This "
        "is done before each request, not when the error has come.",
        ("estimate_tokens", "history_trigger"),
        (1,),
        "the count and the threshold",
        f"tokens(history) = {tokens:,}\ntrigger         = {TRIGGER_RATIO:g} of {MAX_TOKENS:,} = {trigger:,}\n"
        f"compress?         {'yes' if fires else 'no'}: {tokens:,} {'>=' if fires else '<'} {trigger:,}",
    )
    outcome = compress(way.history, summarise)
    way.history = outcome.messages
    done = isinstance(outcome, Compressed)
    way.stop(
        "compress",
        "Compress",
        "Compress, if needed",
        "The early messages become one summary; the last ones stay word for word, and the cut parts no call from its "
        "result. The log keeps every original."
        if done
        else "Not needed this time: the same history goes on, and the summariser is not called.",
        ("compress_if_needed", "align_to_turn_start"),
        (2, 6),
        "what the function said, and the summary" if done else "what the function said",
        f"{outcome.why}\n\n{_clip(outcome.summary, 9)}" if isinstance(outcome, Compressed) else outcome.why,
        skipped=not done,
    )
    prompt = f"You are the desk of a small shop. Today is {datetime.now(UTC).date()}. Never promise a delivery date."
    system = {"role": "system", "content": prompt}
    budget = Budget(_WINDOW, count_message(system), count_tools(SHOP_TOOLS), _RESERVE, _MARGIN)
    way.history = [system, *way.history]
    names = ", ".join(tool["function"]["name"] for tool in SHOP_TOOLS)
    held = budget.parts(estimate_tokens(way.history[1:]))
    way.stop(
        "request",
        "Request",
        "Assemble the request",
        "The system prompt is written afresh (it holds the date) and never stored. The tool definitions go along every "
        "time. Room for the answer is kept, and the history gets what is left.",
        ("Budget", "count_tools"),
        (1, 7),
        "the request and what its parts weigh",
        f"system:   {prompt}\ntools:    {names}\nmessages: {_roles(way.history[1:])}\n\n"
        + "\n".join(f"{name:8} {tokens:>7,}" for name, tokens in held)
        + f"\n{'window':8} {budget.window:>7,}",
    )
    way.stop(
        "validate",
        "Validate",
        "Would this be a 400?",
        "Each call has its result right behind it, roles come in an order that the API takes. What is found here is "
        "repaired here; afterwards it is an error, and a round is lost.",
        ("validate", "repair"),
        (2, 3),
        "what each provider's rules say of it",
        "\n".join(_verdict(name, way.history) for name in PROVIDERS),
    )


def _model(way: _Walk, log: Path) -> None:
    model, shop = MockModel(), Shop()
    answer = model.reply(way.history, SHOP_TOOLS)
    calls = answer["tool_calls"]
    way.history.append(answer)
    append_message(log, answer)
    way.stop(
        "model",
        "Model",
        "The model answers, with calls",
        "It has read the request and nothing else. It does not answer yet: it asks for two tools, in parallel. That "
        "message goes to the log as well, before a tool runs.",
        ("MockModel.reply",),
        (0,),
        "the assistant's message",
        _json(answer),
    )
    results = [{"role": "tool", "tool_call_id": call["id"], "content": shop.run_tool(call)} for call in calls]
    way.stop(
        "tools",
        "Tools",
        "The program runs the tools",
        "Not the model: your program. If it stops here, the log ends in calls without results, which recovery has to "
        "mend, since nearly every API refuses them.",
        ("Shop.run_tool",),
        (3,),
        "each call and what came back",
        "\n\n".join(
            f"{call['function']['name']}({call['function']['arguments']})\n  -> {result['content']}"
            for call, result in zip(calls, results, strict=True)
        ),
    )
    records = [append_message(log, result) for result in results]
    way.history += results
    way.stop(
        "results",
        "Results",
        "Append the results, and go round again",
        "One line each, tied to its call by the id. Then back to the check: the history is longer now, and a large "
        "result may be what fills it. The loop ends when the model calls no more tools.",
        ("append_message",),
        (4, 1),
        "two more lines of the log",
        "\n".join(_json(record) for record in records),
    )
    reply = model.reply(way.history, SHOP_TOOLS)
    way.history.append(reply)
    way.stop(
        "reply",
        "Reply",
        "The answer",
        "The second request held the results, so the model can answer. The person reads this.",
        ("MockModel.reply",),
        (0,),
        "the assistant's message",
        _json(reply),
    )
    record = append_message(log, reply)
    way.stop(
        "kept",
        "Log",
        "Append the answer",
        "The round is complete on disk: question, calls, results, answer. Whatever happens to the process now, nothing "
        "of it is lost.",
        ("append_message",),
        (4,),
        "the round's lines in the log",
        "\n".join(_line(line) for line in log.read_text("utf-8").splitlines()[record["seq"] - 5 :]),
    )


def _back(way: _Walk, sessions: Path) -> None:
    with Session.open(sessions, "main") as session:
        recovery, record, surface = session.recovery, session.record(), session.surface()
    way.history = surface
    way.stop(
        "recover",
        "Recover",
        "Tomorrow, in a new process: recover",
        "The lines are read back. A torn last line is set aside, interrupted calls are mended, what was summarised in "
        "the log stays summarised. The system prompt is not in it: it will be written afresh.",
        ("Session.open", "repair"),
        (4, 3),
        "what opening it said",
        f"{recovery}\n\nlast message: {_line(json.dumps(record[-1], ensure_ascii=False))}",
    )
    child = fork_session({"id": "main", "messages": record}, len(record) - 1)
    way.history = child["messages"]
    way.stop(
        "fork",
        "Fork",
        "Or go back, and try another answer",
        "A new session of the messages before the answer. The cut may not part calls from results, and the parent "
        "does not change by a byte. Then the way begins again, at the check.",
        ("fork_session", "Session.fork"),
        (5,),
        "the fork, without its messages",
        json.dumps({key: value for key, value in child.items() if key != "messages"}, indent=2)
        + f"\n{len(child['messages'])} messages, ending in: {_roles(child['messages'][-3:])}",
    )


def lesson_link(number: int) -> Link:
    """The link to a lesson by its number; without a target where that lesson is not installed."""
    text = f"{number:02} {LESSONS[number]}"
    return Link(f"Lesson {text}", _first("notebooks", f"{number:02}_*.ipynb", ""))


def _exercise_link(name: str) -> Link:
    return Link(f"Exercise {name}", _first("exercises", f"{EXERCISES[name]}.ipynb", "../exercises/"))


def _first(part: str, pattern: str, before: str) -> str:
    try:
        found = sorted(folder(part).glob(pattern))
    except KitMissing:
        return ""
    return f"{before}{found[0].name}" if found else ""


def _verdict(provider: str, history: Sequence[Mapping[str, Any]]) -> str:
    found = validate(history, provider)
    return f"{provider:22} {'accepted' if not found else f'{found[0].rule}: {found[0].message}'}"


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _line(text: str, length: int = 150) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _clip(text: str, lines: int) -> str:
    every = text.splitlines()
    more = [f"… ({len(every) - lines} more lines)"] if len(every) > lines else []
    return "\n".join([*(_line(line) for line in every[:lines]), *more])


def _roles(messages: Sequence[Mapping[str, Any]], most: int = 7) -> str:
    """The messages' roles, in order; of many only the last ones."""
    shown = [
        f"assistant (+{len(message['tool_calls'])} calls)" if message.get("tool_calls") else str(message["role"])
        for message in messages[-most:]
    ]
    gone = len(messages) - len(shown)
    return ", ".join([f"{gone} earlier", *shown] if gone else shown)
