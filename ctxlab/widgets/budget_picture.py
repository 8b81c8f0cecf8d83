"""The four-part budget as a picture: where each part stands against the window, and what the API would answer.

Pure numbers and words, no drawing: `picture` gives what `budget_view.js` computes for itself in the browser (a test
holds the two equal, to the letter), `static_html` and the sentence are its form for hosts without a front end.

The parts stand in this order: system prompt, tool definitions, history, what is left, output reserve, safety margin.
So whatever crosses the window's end is what the request cannot have: first the margin (accepted, but one counting
error away), then the reserve (prompt and completion together are refused), then the prompt itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ctxlab.budget import (
    HEADROOM_TOKENS,
    THRESHOLD_RATIO,
    TRIGGER_RATIO,
    Budget,
    history_trigger,
    pressure_binds,
    pressure_trigger,
)
from ctxlab.errors import BudgetError, unknown_name
from ctxlab.tokens import count_tools
from ctxlab.widgets.kit import COLOURS, escape, number

PROVIDERS: Final = {"openai": "OpenAI", "anthropic": "Anthropic", "gemini": "Gemini", "mistral": "Mistral"}

PROMPT_ALONE: Final = ("gemini", "mistral")
"""Who holds the prompt alone against the window, and refuses nothing for the completion's sake."""

LABELS: Final = {
    "system": "System prompt",
    "tools": "Tool definitions",
    "history": "History",
    "left": "Left",
    "reserve": "Output reserve",
    "margin": "Safety margin",
}


@dataclass(frozen=True, slots=True)
class State:
    """What the learner sets. All tokens, except ``tools`` (how many tools are defined) and ``ratio``.

    ``tool_tokens[n]`` is what the first n definitions cost together; ``requests`` is how many requests the bill of
    one more tool is shown for.
    """

    window: int
    system: int = 0
    tools: int = 0
    tool_tokens: tuple[int, ...] = (0,)
    tool_names: tuple[str, ...] = ()
    reserve: int = 0
    margin: int = 0
    history: int = 0
    ratio: float = TRIGGER_RATIO
    provider: str = "openai"
    requests: int = 100

    def __post_init__(self) -> None:
        if self.provider not in PROVIDERS:
            raise unknown_name("provider", self.provider, list(PROVIDERS))

    @property
    def tools_cost(self) -> int:
        """What the defined tools cost in every request, in tokens."""
        return self.tool_tokens[min(self.tools, len(self.tool_tokens) - 1)]


@dataclass(frozen=True, slots=True)
class Part:
    """One segment of the bar, from token ``start`` to ``end``; ``outside`` of its tokens are past the window's end."""

    key: str
    label: str
    tokens: int
    start: int
    end: int
    outside: int


@dataclass(frozen=True, slots=True)
class Mark:
    """One trigger line at token ``at`` of the bar (None: the rule can never fire); ``fired``: it is reached."""

    key: str
    at: int | None
    fired: bool
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is drawn. ``verdict``: fits, no_room (nothing left for a history), margin (the margin is used), short
    (accepted, with less room for the answer than reserved), reserve or prompt (refused, since that is over the window).
    """

    parts: tuple[Part, ...]
    window: int
    scale: int
    total: int
    history_budget: int
    left: int
    over: int
    verdict: str
    headline: str
    answer: str
    marks: tuple[Mark, ...]
    tool_note: str
    sentence: str
    past: str

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON data: what the browser's ``layout`` returns for the same state."""
        data = asdict(self)
        return {**data, "parts": list(data["parts"]), "marks": list(data["marks"])}


def picture(state: State) -> Picture:
    """What to draw for ``state``.

    >>> picture(State(window=1000, system=100, reserve=200, margin=50, history=700)).headline
    'Into the safety margin by 50 tokens: still accepted, but one counting error away from a refusal'
    """
    tools = state.tools_cost
    total = state.system + tools + state.history + state.reserve + state.margin
    budget = state.window - state.system - tools - state.reserve - state.margin
    verdict = _verdict(state, total, budget)
    left, over = max(0, state.window - total), max(0, total - state.window)
    parts = _parts(state, left)
    return Picture(
        parts=parts,
        window=state.window,
        scale=max(state.window, total),
        total=total,
        history_budget=budget,
        left=left,
        over=over,
        verdict=verdict,
        headline=_headline(state, verdict, left),
        answer=_answer(state, verdict),
        marks=(_ratio_mark(state, budget), _pressure_mark(state)),
        tool_note=_tool_note(state),
        sentence=_sentence(state, left, over),
        past=_past(over, state.margin),
    )


def _verdict(state: State, total: int, budget: int) -> str:
    prompt = state.system + state.tools_cost + state.history
    if prompt > state.window:
        return "prompt"
    if prompt + state.reserve > state.window:
        return "short" if state.provider in PROMPT_ALONE else "reserve"
    if total > state.window:
        return "margin"
    return "fits" if budget > 0 else "no_room"


def _parts(state: State, left: int) -> tuple[Part, ...]:
    sizes = {
        "system": state.system,
        "tools": state.tools_cost,
        "history": state.history,
        "left": left,
        "reserve": state.reserve,
        "margin": state.margin,
    }
    parts, start = [], 0
    for key, tokens in sizes.items():
        end = start + tokens
        parts.append(Part(key, LABELS[key], tokens, start, end, max(0, end - max(start, state.window))))
        start = end
    return tuple(parts)


def _headline(state: State, verdict: str, left: int) -> str:
    prompt = state.system + state.tools_cost + state.history
    past = prompt + state.reserve - state.window
    return {
        "fits": f"Fits: {number(left)} tokens left for the history",
        "no_room": "Accepted, but nothing is left for a history",
        "margin": f"Into the safety margin by {number(past + state.margin)} tokens: still accepted, "
        "but one counting error away from a refusal",
        "short": f"Accepted, but {number(past)} tokens of the output reserve are not there: "
        "the answer may be cut short",
        "reserve": f"Refused: prompt and output reserve are {number(past)} tokens over the window",
        "prompt": f"Refused: the prompt alone is {number(prompt - state.window)} tokens over the window",
    }[verdict]


def _answer(state: State, verdict: str) -> str:
    """What the API answers, in its words; they are those of `Budget.api_error`, which says where each was seen.

    A `Budget` refuses what leaves nothing for a history, and a learner may push the controls there, so the words
    stand here once more; a test holds the two equal wherever there is a `Budget`.
    """
    if verdict not in ("reserve", "prompt"):
        return ""
    prompt = state.system + state.tools_cost + state.history
    if state.provider == "openai":
        return f"400 context_length_exceeded: {_openai(state, prompt)}"
    if state.provider == "gemini":
        return (
            f"400 INVALID_ARGUMENT: The input token count ({prompt}) exceeds the maximum number of tokens allowed "
            f"({state.window})."
        )
    if state.provider == "mistral":
        return (
            f"400 invalid_request: Prompt contains {prompt} tokens, too large for model with {state.window} maximum "
            "context length"
        )
    if verdict == "prompt":
        return f"400 invalid_request_error: prompt is too long: {prompt} tokens > {state.window} maximum"
    return (
        f"400 invalid_request_error: input length and `max_tokens` exceed context limit: {prompt} + "
        f"{state.reserve} > {state.window}, decrease input length or `max_tokens` and try again"
    )


def _openai(state: State, prompt: int) -> str:
    tools, completion = state.tools_cost, state.reserve
    counts = [f"{prompt - tools} in the messages"]
    counts += [f"{tools} in the functions"] if tools else []
    counts += [f"{completion} in the completion"] if completion else []
    shorter = ["messages", *(["functions"] if tools else []), *(["completion"] if completion else [])]
    verb = f"you requested {prompt + completion} tokens" if completion else f"your messages resulted in {prompt} tokens"
    detail = f" ({_list(counts, 'and')})" if len(counts) > 1 else ""
    return (
        f"This model's maximum context length is {state.window} tokens. However, {verb}{detail}. "
        f"Please reduce the length of the {_list(shorter, 'or')}."
    )


def _list(words: Sequence[str], last: str) -> str:
    """Words as these APIs list them: two with a comma between counts, three with a word before the last."""
    if len(words) > 2:
        return f"{', '.join(words[:-1])}, {last} {words[-1]}"
    return (" or " if last == "or" else ", ").join(words)


def _ratio_mark(state: State, budget: int) -> Mark:
    if budget <= 0:
        return Mark(
            "ratio", None, False, "History ratio: no history budget is left, so there is nothing to compress to"
        )
    trigger = history_trigger(budget, state.ratio)
    fired = state.history >= trigger
    text = (
        f"History ratio: compress from {number(trigger)} tokens of history "
        f"({state.ratio:g} of {number(budget)}; {state.ratio:g} is a picked number)"
    )
    return Mark("ratio", state.system + state.tools_cost + trigger, fired, text)


def _pressure_mark(state: State) -> Mark:
    headroom = number(HEADROOM_TOKENS)
    try:
        at = pressure_trigger(state.window, state.reserve)
    except BudgetError:
        text = f"Window pressure: never; the {headroom} tokens of headroom and the reserve leave nothing of this window"
        return Mark("pressure", None, False, text)
    prompt = state.system + state.tools_cost + state.history
    by = {
        "ratio": f"{THRESHOLD_RATIO:g} of the window decides",
        "reserve": f"the headroom of {headroom} decides",
        "both": f"{THRESHOLD_RATIO:g} of the window and the headroom of {headroom} agree",
    }[pressure_binds(state.window, state.reserve)]
    text = f"Window pressure: compress from {number(at)} tokens of prompt ({by}; both are picked numbers)"
    return Mark("pressure", at, prompt >= at, text)


def _tool_note(state: State) -> str:
    count = min(state.tools, len(state.tool_tokens) - 1)
    if count == 0:
        return "No tools defined"
    cost = state.tool_tokens[count] - state.tool_tokens[count - 1]
    name = f" ({state.tool_names[count - 1]})" if count <= len(state.tool_names) else ""
    return (
        f"Tool {count}{name} adds {number(cost)} tokens to every request: "
        f"{number(cost * state.requests)} in {number(state.requests)} requests"
    )


def _sentence(state: State, left: int, over: int) -> str:
    end = _past(over, state.margin) or f"{number(left)} tokens left"
    return (
        f"Window {number(state.window)}: system prompt {number(state.system)}, {state.tools} tools "
        f"{number(state.tools_cost)}, history {number(state.history)}, output reserve {number(state.reserve)}, "
        f"safety margin {number(state.margin)}; {end}."
    )


def _past(over: int, margin: int) -> str:
    """What is past the window's end, and how much of that is margin: "675 past the end, 512 of it margin"."""
    if not over:
        return ""
    share = "all of it margin" if over <= margin else f"{number(margin)} of it margin"
    return f"{number(over)} past the end{f', {share}' if margin else ''}"


def budget_of(state: State) -> Budget:
    """The same as a `Budget`. Raises `BudgetError` where nothing is left for a history."""
    return Budget(state.window, state.system, state.tools_cost, state.reserve, state.margin)


def static_html(shown: Picture, caption: str = "The four-part budget", *, triggers: bool = True) -> str:
    """The picture as two tables with inline colours: a bar, and the numbers. No script, no style sheet.

    ``triggers``: whether the two trigger rules are listed.
    """
    bar = "".join(_cell(part, shown.scale) for part in shown.parts if part.tokens)
    rows = "".join(_row(part, shown.window) for part in shown.parts)
    said = shown.marks if triggers else ()
    marks = "".join(f"<li>{escape(mark.text)}{' (reached)' if mark.fired else ''}</li>" for mark in said)
    pieces = [
        f"<p><strong>{escape(caption)}.</strong> {escape('; '.join(filter(None, (shown.headline, shown.past))))}.</p>",
        f'<table style="width:100%;border-collapse:collapse;table-layout:fixed"><tbody><tr>{bar}</tr></tbody></table>',
        f'<p><code style="color:#a33b00">{escape(shown.answer)}</code></p>' if shown.answer else "",
        '<table><thead><tr><th style="text-align:left">Part</th><th style="text-align:right">Tokens</th>',
        '<th style="text-align:right">Of the window</th></tr></thead>',
        f"<tbody>{rows}</tbody></table><ul><li>{escape(shown.tool_note)}</li>{marks}</ul>",
    ]
    return f"<div>{''.join(pieces)}</div>"


def _cell(part: Part, scale: int) -> str:
    fill, ink = COLOURS["over"] if part.outside == part.tokens else COLOURS[part.key]
    width = 100 * part.tokens / max(1, scale)
    label = escape(part.label) if width > 9 else "&nbsp;"
    style = f"width:{width:.2f}%;background-color:{fill};color:{ink};padding:10px 2px;text-align:center"
    return f'<td title="{escape(part.label)}: {number(part.tokens)} tokens" style="{style}">{label}</td>'


def _row(part: Part, window: int) -> str:
    fill, _ = COLOURS[part.key]
    share = 100 * part.tokens / max(1, window)
    over = f" ({number(part.outside)} past the end)" if part.outside else ""
    cells = (
        f'<td style="text-align:left;border-left:14px solid {fill};padding-left:8px">{escape(part.label)}</td>',
        f'<td style="text-align:right">{number(part.tokens)}{over}</td>',
        f'<td style="text-align:right">{share:.1f}%</td>',
    )
    return f"<tr>{''.join(cells)}</tr>"


def tool_tokens(definitions: Sequence[Mapping[str, Any]], encoding: str = "o200k_base") -> tuple[int, ...]:
    """What the first n tool definitions cost together, for n from 0 to all of them, in tokens of every request."""
    return tuple(count_tools(definitions[:count], encoding) if count else 0 for count in range(len(definitions) + 1))
