"""ThresholdExplorer: both trigger rules over the window's size, with every number that somebody picked as a control.

1. The Python side holds the numbers as traits and says the same as `threshold_picture` does; ``threshold_explorer.js``
   draws. A moved control, or a click into the picture, is drawn in the browser at once; the traits follow.
2. The published sentence that has the crossing backwards stands below the picture, to be judged with its help.
3. Where there is no front end the widget shows as a table (``text/html``) and as a sentence (``text/plain``). For a
   picture that one reads there is `ctxlab.widgets.thresholds.threshold_chart`.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import anywidget
import traitlets
from traitlets import Dict, Float, Int, List, Unicode

from ctxlab.budget import HEADROOM_TOKENS, THRESHOLD_RATIO, TRIGGER_RATIO
from ctxlab.formats import Conversation, load
from ctxlab.inspection import inspect_conversation
from ctxlab.widgets import kit
from ctxlab.widgets.threshold_picture import (
    PUBLISHED,
    PUBLISHED_OPTIONS,
    State,
    Thresholds,
    static_html,
    thresholds,
)


class ThresholdExplorer(anywidget.AnyWidget):
    """When each rule compresses, for windows of every size. Numbers are tokens, the two ratios aside.

    ``window``: the size that is read off. ``ratio`` (of the window), ``headroom``, ``completion``: the window-pressure
    rule's. ``history_ratio`` and ``fixed`` (system prompt and tool definitions): the history-ratio rule's. ``claim``:
    what the learner says of the published sentence (-1: nothing yet, else the option's place).

    Raises ``traitlets.TraitError`` for a negative number or a ratio outside 0 to 1.
    """

    _esm = kit.esm("threshold_explorer")
    _css = kit.css("threshold_explorer")

    window = Int(200_000, min=1).tag(sync=True)
    ratio = Float(THRESHOLD_RATIO).tag(sync=True)
    headroom = Int(HEADROOM_TOKENS, min=0).tag(sync=True)
    completion = Int(0, min=0).tag(sync=True)
    history_ratio = Float(TRIGGER_RATIO).tag(sync=True)
    fixed = Int(0, min=0).tag(sync=True)
    caption = Unicode("When to compress, by the size of the window").tag(sync=True)
    claim = Int(-1, min=-1, max=len(PUBLISHED_OPTIONS) - 1).tag(sync=True)
    published = Unicode(PUBLISHED, read_only=True).tag(sync=True)
    options = List(
        Dict(),
        [{"text": text, "right": right, "feedback": feedback} for text, right, feedback in PUBLISHED_OPTIONS],
        read_only=True,
    ).tag(sync=True)

    @classmethod
    def from_log(
        cls,
        log: str | PathLike[str] | Conversation,
        *,
        window: int | None = None,
        reserve: int | None = None,
        **more: Any,
    ) -> ThresholdExplorer:
        """The rules as they would have held for a recorded conversation: its window, reserve, system prompt and tools.

        ``log``: a file that `load` reads, or what it gave. ``window`` and ``reserve`` default by the log's model or
        format. Raises what `load` raises, and `BudgetError` where nothing is left for a history.
        """
        conversation = log if isinstance(log, Conversation) else load(log)
        budget = inspect_conversation(conversation, window=window, reserve=reserve, top=0).budget
        settings = {
            "window": budget.window,
            "completion": budget.reserve,
            "fixed": budget.system + budget.tools,
            "caption": "When to compress this conversation, by the size of the window",
            **more,
        }
        return cls(**settings)

    @traitlets.validate("ratio", "history_ratio")
    def _between_0_and_1(self, proposal: Any) -> float:
        ratio = round(float(proposal["value"]), 6)
        if not 0 < ratio <= 1:
            raise traitlets.TraitError(
                f"{proposal['trait'].name} is {ratio:g}; expected more than 0 and at most 1, such as 0.8"
            )
        return ratio

    @property
    def state(self) -> State:
        """The numbers as they stand, as an immutable value."""
        return State(
            window=self.window,
            ratio=self.ratio,
            headroom=self.headroom,
            completion=self.completion,
            history_ratio=self.history_ratio,
            fixed=self.fixed,
        )

    @property
    def picture(self) -> Thresholds:
        """What is drawn, as numbers and words."""
        return thresholds(self.state)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        shown = self.picture
        plain = f"{self.caption}. {shown.sentence}"
        return kit.bundle(super()._repr_mimebundle_(**kwargs), static_html(shown, self.caption), plain)
