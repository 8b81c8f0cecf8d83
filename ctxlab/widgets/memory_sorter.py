"""MemorySorter: sort facts by three questions, then see what two hundred memories do to one request.

1. A fact comes with where each of the eight ways to answer puts it, so feedback needs no kernel; it is shown once all
   three questions are answered.
2. For each of four requests the picture holds the whole memory and the one to five items that a search picks, measured
   by `memory.compare`.
3. ``answers``, ``fact``, ``query`` and ``k`` are traits, saved with the widget's state. Without a front end there are
   two tables, the right answers folded away.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets
from traitlets import Dict, Int, List, Unicode

from ctxlab.memory import Placement, place
from ctxlab.widgets import kit
from ctxlab.widgets.memory_picture import FACTS, QUERIES, QUESTIONS, RESERVE, WINDOW, Fact, requests

PARTS = ("both", "sort", "request")


class MemorySorter(anywidget.AnyWidget):
    """Facts to sort and a request to fill. ``part``: ``both``, or one of ``sort`` and ``request``.

    ``answers``: for each fact's key three letters, y, n or - (not answered yet). ``fact`` and ``query``: the places of
    those in view. ``k``: how many items the search may pick, 1 to 5. Raises ``traitlets.TraitError`` for a place that
    does not exist, and for answers of another form.
    """

    _esm = kit.esm("memory_sorter")
    _css = kit.css("memory_sorter")

    part = traitlets.Enum(PARTS, "both").tag(sync=True)
    questions = List(Unicode()).tag(sync=True)
    facts = List(Dict()).tag(sync=True)
    answers = Dict().tag(sync=True)
    fact = Int(0, min=0, max=len(FACTS) - 1).tag(sync=True)
    requests = List(Dict()).tag(sync=True)
    window = Int(WINDOW).tag(sync=True)
    reserve = Int(RESERVE).tag(sync=True)
    query = Int(0, min=0, max=len(QUERIES) - 1).tag(sync=True)
    k = Int(4, min=1, max=5).tag(sync=True)

    def __init__(self, part: str = "both", **more: Any) -> None:
        facts = [fact.to_json() for fact in FACTS] if part != "request" else []
        shown = list(requests()) if part != "sort" else []
        super().__init__(part=part, questions=list(QUESTIONS), facts=facts, requests=shown, **more)

    @traitlets.validate("answers")
    def _check(self, proposal: Any) -> dict[str, str]:
        keys = {fact.key for fact in FACTS}
        for key, given in proposal["value"].items():
            if key not in keys or not isinstance(given, str) or len(given) != 3 or set(given) - set("yn-"):
                raise traitlets.TraitError(f"{key}: {given!r}; expected a fact's key, and three letters of y, n, -")
        return dict(proposal["value"])

    @property
    def sorted(self) -> dict[str, Placement]:
        """Where the learner's answers put each fact whose three questions are answered."""
        return {fact.key: _placed(fact, self.answers[fact.key]) for fact in FACTS if self._complete(fact)}

    @property
    def right(self) -> tuple[str, ...]:
        """The keys of the facts whose three questions were answered as the kit does."""
        return tuple(fact.key for fact in FACTS if self.answers.get(fact.key) == fact.answers)

    def _complete(self, fact: Fact) -> bool:
        return "-" not in self.answers.get(fact.key, "-")

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return kit.bundle(super()._repr_mimebundle_(**kwargs), self._html(), self._plain())

    def _plain(self) -> str:
        said = f"{len(FACTS)} facts to sort by three questions, {len(self.right)} as the kit does"
        if not self.requests:
            return said
        shown = self.requests[self.query]
        picked = shown["picks"][self.k - 1]
        request = (
            f"All {shown['all']['items']} memories make a request of {kit.number(shown['all']['request'])} tokens, "
            f"the {picked['items']} that a search picks {kit.number(picked['request'])} "
            f"(window {kit.number(self.window)}, {kit.number(self.reserve)} of it reserved)"
        )
        return f"{said}. {request}" if self.facts else request

    def _html(self) -> str:
        parts = [_facts_table()] if self.facts else []
        parts += [_requests_table(self.requests)] if self.requests else []
        return f"<div>{''.join(parts)}</div>"


def _placed(fact: Fact, answers: str) -> Placement:
    needed, expires, retrievable = (letter == "y" for letter in answers)
    return place(fact.text, needed, expires, retrievable, fact.times_seen)


def _facts_table() -> str:
    head = "".join(f"<th>{kit.escape(text)}</th>" for text in ("Fact", *QUESTIONS))
    rows = "".join(f"<tr><td>{kit.escape(fact.text)}</td><td>?</td><td>?</td><td>?</td></tr>" for fact in FACTS)
    told = "".join(
        f"<li>{kit.escape(fact.text)} {', '.join(fact.reasons)}: {_placed(fact, fact.answers).where}</li>"
        for fact in FACTS
    )
    return f"<table><tr>{head}</tr>{rows}</table><details><summary>Answers</summary><ul>{told}</ul></details>"


def _requests_table(shown: list[dict[str, Any]]) -> str:
    head = "".join(f"<th>{text}</th>" for text in ("Request", "All memories", "The best few", "What is picked"))
    rows = ""
    for one in shown:
        few = one["picks"][-1]
        cells = (
            one["query"],
            f"{kit.number(one['all']['request'])} tokens",
            f"{kit.number(few['request'])} tokens",
            "; ".join(found["text"] for found in few["found"]) or "nothing",
        )
        rows += "<tr>" + "".join(f"<td>{kit.escape(text)}</td>" for text in cells) + "</tr>"
    return f"<table><tr>{head}</tr>{rows}</table>"
