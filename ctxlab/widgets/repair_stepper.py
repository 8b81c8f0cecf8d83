"""RepairStepper: a broken history, the check, and both repairs side by side, step by step.

1. The Python side repairs with `repairs.repair` and asks each provider's rules before and after; `picture` lays it
   out as data, and ``repair_stepper.js`` draws. A chosen case is drawn when the kernel has answered.
2. ``case`` and ``step`` are traits: setting them moves the picture, and what the learner chose can be read.
3. Where there is no front end the widget shows as tables and a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any

import anywidget
import traitlets
from traitlets import Dict, Int, List, Unicode

from ctxlab.formats import Conversation, load
from ctxlab.messages import MessageLike, as_messages
from ctxlab.repairs import repair
from ctxlab.widgets import cards, kit
from ctxlab.widgets.repair_picture import case, cases, picture, sentence, static_html

OWN = "own"


class RepairStepper(anywidget.AnyWidget):
    """A broken history and its repair.

    ``history``: the name of a bundled case (`ctxlab.widgets.repair_picture.cases` lists them), or a list of messages
    of your own, which is then offered beside the bundled ones. ``step``: how many steps of each repair are taken.
    Raises ``traitlets.TraitError`` for a case that does not exist, `MalformedMessage` for what is not a history.
    """

    _esm = cards.esm("repair_stepper")
    _css = cards.css("repair_stepper")

    caption = Unicode("Repair").tag(sync=True)
    case = Unicode("a-refund-interrupted").tag(sync=True)
    kinds = List(List(Unicode())).tag(sync=True)
    step = Int(0, min=0).tag(sync=True)
    names = Dict().tag(sync=True)
    shown = Dict().tag(sync=True)

    def __init__(
        self,
        history: str | Iterable[MessageLike] = "a-refund-interrupted",
        *,
        encoding: str = "o200k_base",
        **more: Any,
    ) -> None:
        self._encoding = encoding
        self._own = None if isinstance(history, str) else as_messages(history)
        own = [] if self._own is None else [[OWN, "Your own history"]]
        super().__init__(
            kinds=[*own, *([item.id, item.title] for item in cases().values())],
            names=cards.NAMES,
            case=history if isinstance(history, str) else OWN,
            **more,
        )
        self._follow()
        self.observe(self._follow, ["case"])

    @classmethod
    def from_log(cls, log: str | PathLike[str] | Conversation, **more: Any) -> RepairStepper:
        """The repair of a recorded conversation. ``log``: a file that `load` reads, or what it gave. Raises what
        `load` raises. Other arguments as for `RepairStepper`."""
        conversation = log if isinstance(log, Conversation) else load(log)
        return cls(conversation.messages, **more)

    @traitlets.validate("case")
    def _known(self, proposal: Any) -> str:
        name = str(proposal["value"])
        known = [*([] if self._own is None else [OWN]), *cases()]
        if name not in known:
            raise traitlets.TraitError(f"case is {name!r}; expected one of {', '.join(known)}")
        return name

    @property
    def history(self) -> list[dict[str, Any]]:
        """The broken history that is on view, as fresh dicts."""
        return [message.to_dict() for message in self._messages]

    def repaired(self, mode: str = "append") -> list[dict[str, Any]]:
        """The history on view, repaired: `repairs.repair`."""
        return repair(self._messages, mode)

    @property
    def _messages(self) -> Any:
        return self._own if self.case == OWN and self._own is not None else case(self.case).history

    def _follow(self, _change: Any = None) -> None:
        about = None if self.case == OWN else case(self.case)
        self.shown = {
            **picture(self._messages, self._encoding),
            "case": self.case,
            "story": about.story if about else "Your own history.",
            "source": about.source if about else "",
        }

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        html = static_html(self.shown, self.caption)
        return kit.bundle(super()._repr_mimebundle_(**kwargs), html, f"{self.caption}. {sentence(self.shown)}")
