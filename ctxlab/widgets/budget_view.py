"""BudgetView: the four-part budget of a request as a bar that one can push.

1. The Python side holds the numbers as traits, counts what it is given (texts, messages, tool definitions), and says
   the same as `budget_picture` does. The front end, ``budget_view.js``, draws.
2. A moved control is drawn in the browser at once; the traits follow. So ``view.history`` in a cell is what the
   slider shows, ``view.observe`` works as on any ipywidget, and setting a trait in Python moves the slider.
3. Where there is no front end the widget shows as a table (``text/html``) and as a sentence (``text/plain``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

import anywidget
import traitlets
from traitlets import Bool, Dict, Float, Int, List, Unicode

from ctxlab.budget import TRIGGER_RATIO, Budget
from ctxlab.formats import Conversation, load
from ctxlab.inspection import NATIVE_PROVIDER, growth, limits
from ctxlab.messages import MessageLike, as_messages
from ctxlab.tokens import count_message, count_tokens
from ctxlab.widgets import kit
from ctxlab.widgets.budget_picture import PROVIDERS, Picture, State, budget_of, picture, static_html, tool_tokens
from ctxlab.widgets.sample import library_desk

# Whose words a recorded conversation is answered in: the rule sets that `inspection` names, as this view has them.
_FAMILY = {"openai_responses": "openai", "anthropic": "anthropic", "gemini": "gemini", "mistral": "mistral"}


class BudgetView(anywidget.AnyWidget):
    """The four parts of a request against the window, with every number as a control.

    ``window``, ``reserve``, ``margin``: tokens. ``system``: tokens, or the text of a system prompt. ``history``:
    tokens, or a list of messages. ``definitions``: tool definitions (OpenAI-shaped dicts; those of the kit's sample
    conversation by default), of which the first ``tools`` are in the request. ``ratio``: of the history's budget, at
    which to compress. ``provider``: whose words a refusal is shown in: ``openai``, ``anthropic``,
    ``gemini`` or ``mistral``. ``requests``: for
    how many requests the bill of one more tool is shown. ``triggers``: whether the two trigger rules are shown.

    Raises ``traitlets.TraitError`` for a negative number, an unknown provider or a ratio outside 0 to 1.
    """

    _esm = kit.esm("budget_view")
    _css = kit.css("budget_view")

    window = Int(16_384, min=1).tag(sync=True)
    system = Int(0, min=0).tag(sync=True)
    tools = Int(0, min=0).tag(sync=True)
    reserve = Int(0, min=0).tag(sync=True)
    margin = Int(0, min=0).tag(sync=True)
    history = Int(0, min=0).tag(sync=True)
    ratio = Float(TRIGGER_RATIO).tag(sync=True)
    provider = traitlets.Enum(tuple(PROVIDERS), "openai").tag(sync=True)
    requests = Int(100, min=1).tag(sync=True)
    caption = Unicode("The four-part budget").tag(sync=True)
    tool_tokens = List(Int(), [0]).tag(sync=True)
    tool_names = List(Unicode()).tag(sync=True)
    rounds = List(Dict()).tag(sync=True)
    round = Int(0, min=0).tag(sync=True)
    triggers = Bool(True).tag(sync=True)

    def __init__(
        self,
        *,
        window: int = 16_384,
        system: int | str = 300,
        tools: int = 10,
        definitions: Sequence[Mapping[str, Any]] | None = None,
        reserve: int = 2_048,
        margin: int = 512,
        history: int | Iterable[MessageLike] = 8_000,
        encoding: str = "o200k_base",
        **more: Any,
    ) -> None:
        known = list(library_desk().tools) if definitions is None else list(definitions)
        names = [str(tool.get("function", tool).get("name", "?")) for tool in known]
        super().__init__(
            tool_tokens=list(tool_tokens(known, encoding)),
            tool_names=names,
            window=window,
            system=count_tokens(system, encoding) if isinstance(system, str) else system,
            tools=tools,
            reserve=reserve,
            margin=margin,
            history=history if isinstance(history, int) else _count(history, encoding),
            **more,
        )

    @classmethod
    def from_log(
        cls,
        log: str | PathLike[str] | Conversation,
        *,
        window: int | None = None,
        reserve: int | None = None,
        encoding: str = "o200k_base",
        **more: Any,
    ) -> BudgetView:
        """The budget of a recorded conversation, with a slider over its rounds, standing after the last one.

        ``log``: a file that `load` reads, or what it gave. ``window`` and ``reserve`` default by the log's model or
        format, and the answer is in the words of the provider that it was recorded with. A log that records no tool
        definitions starts with none, and the sample's can be added. Other arguments as for `BudgetView`. Raises what
        `load` raises.
        """
        conversation = log if isinstance(log, Conversation) else load(log)
        messages = as_messages(conversation.messages)
        instructions = [message for message in messages if message.is_system]
        system = _count(instructions, encoding)
        if conversation.system and not any(message.text == conversation.system for message in instructions):
            system += count_tokens(conversation.system, encoding)
        rounds = growth((message for message in messages if not message.is_system), encoding=encoding)
        usual_window, usual_reserve = limits(conversation.model or "", conversation.format)
        settings: dict[str, Any] = {
            "definitions": conversation.tools or None,
            "tools": len(conversation.tools),
            "margin": 0,
            "caption": _caption(system, len(conversation.tools)),
            "provider": _FAMILY.get(NATIVE_PROVIDER.get(conversation.format, "openai"), "openai"),
            "requests": max(1, sum(message.role == "assistant" for message in messages)),
            **more,
        }
        return cls(
            window=window or usual_window,
            reserve=usual_reserve if reserve is None else reserve,
            system=system,
            history=rounds[-1].history if rounds else 0,
            rounds=[{"round": part.round, "added": part.added, "history": part.history} for part in rounds],
            round=len(rounds),
            encoding=encoding,
            **settings,
        )

    @traitlets.validate("tools")
    def _at_most_all_tools(self, proposal: Any) -> int:
        return min(int(proposal["value"]), len(self.tool_tokens) - 1)

    @traitlets.validate("ratio")
    def _ratio_between_0_and_1(self, proposal: Any) -> float:
        ratio = float(proposal["value"])
        if not 0 < ratio <= 1:
            raise traitlets.TraitError(f"ratio is {ratio:g}; expected more than 0 and at most 1, such as 0.7")
        return round(ratio, 6)

    @property
    def state(self) -> State:
        """The numbers as they stand, as an immutable value."""
        return State(
            window=self.window,
            system=self.system,
            tools=self.tools,
            tool_tokens=tuple(self.tool_tokens),
            tool_names=tuple(self.tool_names),
            reserve=self.reserve,
            margin=self.margin,
            history=self.history,
            ratio=self.ratio,
            provider=self.provider,
            requests=self.requests,
        )

    @property
    def picture(self) -> Picture:
        """What is drawn: parts, trigger lines, verdict and the API's answer, as numbers and words."""
        return picture(self.state)

    @property
    def budget(self) -> Budget:
        """The same as a `Budget`. Raises `BudgetError` where nothing is left for a history."""
        return budget_of(self.state)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        shown = self.picture
        plain = f"{self.caption}. {shown.headline}. {shown.sentence}"
        return kit.bundle(
            super()._repr_mimebundle_(**kwargs), static_html(shown, self.caption, triggers=self.triggers), plain
        )


def _count(messages: Iterable[MessageLike], encoding: str) -> int:
    return sum(count_message(message, encoding) for message in as_messages(messages))


def _caption(system: int, tools: int) -> str:
    missing = [name for name, there in (("system prompt", system), ("tool definitions", tools)) if not there]
    note = f" (the log records no {' and no '.join(missing)})" if missing else ""
    return f"The four-part budget, round by round{note}"
