"""One cut of a history as a picture: every step from the count to the result, and what each provider would answer.

`CutPicture` holds a history and answers for one cut at a time. The steps are those of `compress` (which begin with
the walk back of `explain_cut`), with one more that says which messages are history at all. Beside the aligned result
stands the naive one: the same summary, and everything from the asked cut on, wherever it falls.

No model is called. Where no summary is given, a stand-in is written from the user's own first words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ctxlab.compress import SUMMARY_MARKER, Compressed, Policy, Refused, compress
from ctxlab.messages import Message, MessageLike, as_messages
from ctxlab.rounds import Step, explain_cut
from ctxlab.widgets.cards import NAMES, Tokens, answer_words, broken_rules, cards, ranges, role_cell, verdicts
from ctxlab.widgets.kit import escape, number

STAND_IN = "(A stand-in; no model was called.) So far the user said: "
_WORDS, _LONGEST = 80, 1_600  # characters of each user message, and of the stand-in (picked)

STATIC_ROWS = 60
"""Messages in the static table (picked); of a longer history it shows those around the cut."""


def stand_in(early: list[dict[str, Any]]) -> str:
    """A text where a summary would stand: the first words of each of the user's messages. Writes no facts."""
    said = [Message.of(message).text for message in early if message.get("role") == "user"]
    return (STAND_IN + "; ".join(" ".join(text.split())[:_WORDS] for text in said if text))[:_LONGEST]


class CutPicture:
    """A history, where it may be cut, and what follows from each cut.

    ``trigger``: tokens (system messages aside) from which one would compress. ``summary``: the text that stands for
    what is cut off, a function of the early messages that returns it, or None for the stand-in.
    """

    def __init__(
        self,
        history: Iterable[MessageLike],
        trigger: int,
        summary: str | Callable[[list[dict[str, Any]]], str] | None = None,
        encoding: str = "o200k_base",
    ) -> None:
        self.history = as_messages(history)
        self.trigger = trigger
        self.tokens = Tokens(encoding)
        self.cards = cards(self.history, self.tokens)
        self._summarize = summary if callable(summary) else (lambda early: summary) if summary else stand_in
        self._known = broken_rules(self.history)
        self.counted = self.tokens([message for message in self.history if not message.is_system])

    def row(self, cut: int, rule: str = "pair-safe") -> dict[str, Any]:
        """All that is drawn for a cut before message ``cut``, as JSON data.

        ``stages`` in order, each with ``action``, ``why``, ``rule``, ``at`` (where the cut stands by then, None before
        it is made) and ``cards`` (the messages it is about); ``landed``: the cut in the end; ``replaced`` and
        ``request``: the places that become the summary, and that stay beside it; ``result``: what is sent, in pieces;
        ``tokens``: before, after, and after the naive cut; ``answers``: by set of rules, for naive and aligned.
        Raises `CutIndexError`, `UnknownName`.
        """
        explain_cut(self.history, cut, rule)  # refuses a place or a rule that does not exist
        fires = self.counted >= self.trigger
        policy = Policy(
            trigger=self.trigger if fires else 0,
            keep_recent=len(self.history) - cut,
            rule=rule,
            count=self.tokens,
        )
        outcome = compress(self.history, self._summarize, policy)
        stages = [self._stage(step, None) for step in outcome.steps]
        at = None
        for stage in stages:
            at = stage["at"] = stage["at"] if stage["at"] is not None else at
        if not fires:
            stages[0]["why"] = (
                f"{number(self.counted)} tokens without system messages, below the trigger of {number(self.trigger)}: "
                "nothing would be done yet. The steps go on as if it had fired"
            )
        stages.insert(1, self._split())
        done = isinstance(outcome, Compressed)
        replaced = next((s.data["replaced"] for s in outcome.steps if s.action == "replace"), ()) if done else ()
        naive = self._naive(cut, outcome.summary if isinstance(outcome, (Compressed, Refused)) else None)
        return {
            "cut": cut,
            "rule": rule,
            "landed": next((s["at"] for s in reversed(stages) if s["at"] is not None), cut),
            "outcome": type(outcome).__name__,
            "stages": stages,
            "replaced": ranges(replaced),
            "request": [s.index for s in outcome.steps if s.action == "request"],
            "result": self._pieces(outcome.steps, outcome.cut) if isinstance(outcome, Compressed) else [self._whole()],
            "tokens": {
                "before": self.tokens(self.history),
                "naive": self.tokens(naive),
                "after": self.tokens(outcome.history),
                "counted": self.counted,
                "trigger": self.trigger,
            },
            "answers": {"naive": verdicts(naive, self._known), "aligned": verdicts(outcome.history, self._known)},
        }

    def _stage(self, step: Step, at: int | None) -> dict[str, Any]:
        about: list[int] = []
        if step.action in ("raw", "back", "cut", "yield"):
            at = step.index
            about = sorted({place for place in (step.data.get("from"), step.index) if place is not None})
            if step.action in ("raw", "cut"):
                about = [place for place in about if place < len(self.history)]
        elif step.index is not None:
            about = [step.index]
        return {"action": step.action, "why": _sentence(step.why), "rule": step.rule, "at": at, "cards": about}

    def _split(self) -> dict[str, Any]:
        system = [card for card in self.cards if card.role in ("system", "developer")]
        rest = len(self.cards) - len(system)
        if system:
            verb = "stays" if len(system) == 1 else "stay"
            tokens = number(sum(card.tokens for card in system))
            kept = f"{_count(len(system), 'system message')} ({tokens} tokens) {verb} out of it, word for word"
        else:
            kept = "there is no system message"
        why = f"{kept}; the other {_count(rest, 'message')} are the history"
        about = [card.index for card in system[:50]]
        return {"action": "split", "why": _sentence(why), "rule": "", "at": None, "cards": about}

    def _naive(self, cut: int, summary: object) -> tuple[Message, ...]:
        """What the obvious ``[system, summary] + history[cut:]`` sends."""
        lead = tuple(message for message in self.history[:cut] if message.is_system)
        early = [message.to_dict() for message in self.history[:cut] if not message.is_system]
        if not early:
            return self.history
        text = summary if isinstance(summary, str) and summary else self._summarize(early)
        return (*lead, Message.of({"role": "user", "content": f"{SUMMARY_MARKER}\n{text}"}), *self.history[cut:])

    def _whole(self) -> dict[str, Any]:
        return {"kind": "unchanged", "from": 0, "to": len(self.history) - 1, "tokens": self.tokens(self.history)}

    def _pieces(self, steps: Iterable[Step], cut: int) -> list[dict[str, Any]]:
        """What is sent, in order: pieces with a kind, the places they come from (None: new) and their tokens."""
        lead = 0
        while lead < len(self.history) and self.history[lead].is_system:
            lead += 1
        by = {action: [s.index for s in steps if s.action == action and s.index is not None] for action in _BESIDE}
        pieces = [self._piece("system", 0, lead - 1)] if lead else []
        pieces.append({"kind": "summary", "from": None, "to": None, "tokens": 0})
        pieces += [self._piece("system", place, place) for place in by["system"]]
        if any(step.action == "bridge" for step in steps):
            pieces.append({"kind": "bridge", "from": None, "to": None, "tokens": 0})
        pieces += [self._piece("request", place, place) for place in by["request"]]
        if cut < len(self.history):
            pieces.append(self._piece("recent", cut, len(self.history) - 1))
        return pieces

    def _piece(self, kind: str, first: int, last: int) -> dict[str, Any]:
        tokens = sum(card.tokens for card in self.cards[first : last + 1])
        return {"kind": kind, "from": first, "to": last, "tokens": tokens}


_BESIDE = ("system", "request")


def _count(number_of: int, noun: str) -> str:
    return f"{number(number_of)} {noun}{'' if number_of == 1 else 's'}"


def _sentence(why: str) -> str:
    return f"{why[:1].upper()}{why[1:]}"


def sentence(row: dict[str, Any]) -> str:
    """A row in one sentence, for a screen reader and a terminal."""
    tokens = row["tokens"]
    moved = f"moves back to {row['landed']}" if row["landed"] != row["cut"] else "stays where it is"
    refused = [name for name, answer in row["answers"]["naive"].items() if answer and not answer["also"]]
    aligned = [name for name, answer in row["answers"]["aligned"].items() if answer and not answer["also"]]
    return (
        f"A cut before message {row['cut']} {moved} ({row['rule']}). Uncorrected, {len(refused)} of "
        f"{len(row['answers']['naive'])} sets of provider rules refuse it; corrected, {len(aligned)}. "
        f"{number(tokens['before'])} tokens become {number(tokens['after'])}."
    )


def static_html(picture: CutPicture, row: dict[str, Any], caption: str) -> str:
    """A row as tables with inline colours: the messages with both cuts, the steps, the answers. No script."""
    first, last = _window(len(picture.cards), row)
    body = []
    for card in picture.cards[first:last]:
        body += [_line(text) for place, text in _cuts(row) if place == card.index]
        answers = f" (answers message {card.answers})" if card.answers is not None else ""
        body.append(
            f'<tr><td style="text-align:right">{card.index}</td>{role_cell(card.role)}'
            f'<td style="text-align:left">{escape(card.preview)}{answers}</td>'
            f'<td style="text-align:right">{number(card.tokens)}</td></tr>'
        )
    body += [_line(text) for place, text in _cuts(row) if place >= last]
    steps = "".join(f"<li><strong>{stage['action']}</strong>: {escape(stage['why'])}</li>" for stage in row["stages"])
    answers_by = "".join(
        f'<tr><td style="text-align:left">{NAMES[name]}</td>'
        + "".join(
            f'<td style="text-align:left">{escape(answer_words(row["answers"][kind][name]))}</td>'
            for kind in ("naive", "aligned")
        )
        + "</tr>"
        for name in row["answers"]["naive"]
    )
    return (
        f"<div><p><strong>{escape(caption)}.</strong> {escape(sentence(row))}</p>"
        "<table><thead><tr><th>Message</th><th>Role</th><th>Text</th><th>Tokens</th></tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table><ol>{steps}</ol>"
        "<table><thead><tr><th>Provider rules</th><th>Naive cut</th><th>Aligned cut</th></tr></thead>"
        f"<tbody>{answers_by}</tbody></table></div>"
    )


def _cuts(row: dict[str, Any]) -> list[tuple[int, str]]:
    if row["cut"] == row["landed"]:
        return [(row["cut"], "the cut, asked for and aligned")]
    return [(row["landed"], f"the aligned cut ({row['rule']})"), (row["cut"], "the cut that was asked for")]


def _line(text: str) -> str:
    return f'<tr><td colspan="4" style="border-top:3px solid #D55E00;text-align:left">{escape(text)}</td></tr>'


def _window(length: int, row: dict[str, Any]) -> tuple[int, int]:
    """Which messages the static table shows."""
    if length <= STATIC_ROWS:
        return 0, length
    first = max(0, min(row["landed"] - 5, length - STATIC_ROWS))
    return first, first + STATIC_ROWS
