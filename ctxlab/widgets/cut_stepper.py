"""CutStepper: where a history may be cut, step by step, and what each provider would answer.

1. The Python side holds the history and asks `CutPicture` for the steps and the verdicts; ``cut_stepper.js`` draws.
2. A short history comes with the answers for all of its cuts, so a dragged cut is drawn whole at once. A long one is
   drawn at once as far as the arcs tell (which pairs the cut parts); the steps and verdicts follow from the kernel.
3. ``cut``, ``rule`` and ``step`` are traits: ``stepper.cut`` in a cell is what was dragged, and setting it moves the
   picture. Where there is no front end the widget shows as tables and a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any

import anywidget
import traitlets
from traitlets import Dict, Int, List, Unicode

from ctxlab.budget import KEEP_RECENT, MAX_TOKENS, TRIGGER_RATIO, history_trigger
from ctxlab.formats import Conversation, load
from ctxlab.messages import MessageLike
from ctxlab.rounds import CUT_RULES
from ctxlab.widgets import cards, kit
from ctxlab.widgets.cut_picture import CutPicture, sentence, static_html
from ctxlab.widgets.toy import TOY, TOY_BUDGET, TOY_KEEP, TOY_SUMMARY

SHORT = 40
"""Messages up to which the answers for every cut are computed beforehand (picked: about a second)."""


class CutStepper(anywidget.AnyWidget):
    """A history with its cut, to be stepped through and dragged.

    ``messages``: a list of messages; without it a toy conversation of six messages and a system prompt.
    ``history_budget`` and ``ratio`` give the trigger (the lab's 8,000 and 0.7, both picked); ``keep_recent`` messages
    at the end say where the cut is asked for at first, ``cut`` says it outright. ``rule``: ``pair-safe`` or
    ``round-start``. ``summary``: a text, or a function of the early messages, that stands for what is cut off (a
    stand-in without a model by default). Raises ``traitlets.TraitError`` for a rule that does not exist; a cut outside
    the history is brought inside.
    """

    _esm = cards.esm("cut_stepper")
    _css = cards.css("cut_stepper")

    caption = Unicode("Where to cut").tag(sync=True)
    cut = Int(0, min=0).tag(sync=True)
    rule = traitlets.Enum(CUT_RULES, "pair-safe").tag(sync=True)
    step = Int(0, min=0).tag(sync=True)
    cards = List(Dict()).tag(sync=True)
    arcs = List(Dict()).tag(sync=True)
    names = Dict().tag(sync=True)
    row = Dict().tag(sync=True)
    rows = Dict().tag(sync=True)

    def __init__(
        self,
        messages: Iterable[MessageLike] | None = None,
        *,
        cut: int | None = None,
        history_budget: int | None = None,
        ratio: float = TRIGGER_RATIO,
        keep_recent: int | None = None,
        summary: str | Callable[[list[dict[str, Any]]], str] | None = None,
        encoding: str = "o200k_base",
        **more: Any,
    ) -> None:
        toy = messages is None
        budget = history_budget or (TOY_BUDGET if toy else MAX_TOKENS)
        keep = keep_recent if keep_recent is not None else TOY_KEEP if toy else KEEP_RECENT
        self.picture = CutPicture(
            TOY if messages is None else messages,
            history_trigger(budget, ratio),
            TOY_SUMMARY if toy and summary is None else summary,
            encoding,
        )
        length = len(self.picture.cards)
        super().__init__(
            cards=[card.to_json() for card in self.picture.cards],
            arcs=[arc.to_json() for arc in cards.arcs(self.picture.history)],
            names=cards.NAMES,
            cut=max(0, length - keep) if cut is None else cut,
            **more,
        )
        if length <= SHORT:
            self.rows = {rule: [self.picture.row(place, rule) for place in range(length + 1)] for rule in CUT_RULES}
        self._follow()
        self.observe(self._follow, ["cut", "rule"])

    @classmethod
    def from_log(cls, log: str | PathLike[str] | Conversation, **more: Any) -> CutStepper:
        """The cut of a recorded conversation. ``log``: a file that `load` reads, or what it gave. Raises what `load`
        raises. Other arguments as for `CutStepper`."""
        conversation = log if isinstance(log, Conversation) else load(log)
        return cls(conversation.messages, **more)

    @traitlets.validate("cut")
    def _inside(self, proposal: Any) -> int:
        return min(int(proposal["value"]), len(self.picture.cards))

    def _follow(self, _change: Any = None) -> None:
        self.row = self.rows[self.rule][self.cut] if self.rows else self.picture.row(self.cut, self.rule)

    @property
    def landed(self) -> int:
        """Where the cut lands by the rule: the first message that stays."""
        return int(self.row["landed"])

    @property
    def stage(self) -> dict[str, Any]:
        """The step that is on view: ``action``, ``why``, ``at`` (where the cut stands), ``cards``."""
        stages = self.row["stages"]
        return dict(stages[min(self.step, len(stages) - 1)])

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        html = static_html(self.picture, self.row, self.caption)
        return kit.bundle(super()._repr_mimebundle_(**kwargs), html, f"{self.caption}. {sentence(self.row)}")
