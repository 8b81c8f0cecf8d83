"""BankQuestion: a question of the question bank, with the analysis before the key points, both folded until answered.

1. `BankQuestion.choice` has options, each with its own feedback; `BankQuestion.write` asks for an answer in one's own
   words, which is kept in the notebook's widget and judged by nobody.
2. Once there is an answer the analysis unfolds (how one gets there), and after it, on demand, the key points (what an
   answer should hold). Nothing is graded or sent anywhere.
3. Without a front end the question shows as text with both parts folded away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anywidget
from traitlets import Bool, Dict, Int, List, Unicode

from ctxlab.widgets import kit


class BankQuestion(anywidget.AnyWidget):
    """One question. Make it with `BankQuestion.choice` or `BankQuestion.write`.

    ``chosen`` is the place of the chosen option (-1: none yet), ``words`` what was written, ``answered`` whether the
    analysis is unfolded, ``pointed`` whether the key points are.
    """

    _esm = kit.esm("bank_question")
    _css = kit.css("bank_question")

    title = Unicode("Question").tag(sync=True)
    question = Unicode().tag(sync=True)
    options = List(Dict()).tag(sync=True)
    chosen = Int(-1, min=-1).tag(sync=True)
    words = Unicode().tag(sync=True)
    analysis = Unicode().tag(sync=True)
    points = List(Unicode()).tag(sync=True)
    answered = Bool(False).tag(sync=True)
    pointed = Bool(False).tag(sync=True)

    @classmethod
    def choice(
        cls,
        question: str,
        options: Sequence[tuple[str, bool, str]],
        *,
        analysis: str,
        points: Sequence[str],
        title: str = "Question",
    ) -> BankQuestion:
        """A question with ``options``: text, whether it is right, and what to say when it is chosen.

        Raises ``ValueError`` unless an option is right, each has feedback, and there are an analysis and points.
        """
        if not any(right for _, right, _ in options) or not all(feedback for *_, feedback in options):
            raise ValueError("a question needs at least one right option, and feedback for each")
        made = [{"text": text, "right": right, "feedback": feedback} for text, right, feedback in options]
        return cls(title=title, question=question, options=made, **_told(analysis, points))

    @classmethod
    def write(cls, question: str, *, analysis: str, points: Sequence[str], title: str = "Question") -> BankQuestion:
        """A question to answer in one's own words. Raises ``ValueError`` without an analysis or points."""
        return cls(title=title, question=question, **_told(analysis, points))

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        plain = f"{self.title}: {self.question} (Analysis and key points are folded.)"
        return kit.bundle(super()._repr_mimebundle_(**kwargs), self._html(), plain)

    def _html(self) -> str:
        options = "".join(f"<li>{kit.escape(option['text'])}</li>" for option in self.options)
        right = "".join(
            f"<p>{kit.escape(option['text'])}: {kit.escape(option['feedback'])}</p>"
            for option in self.options
            if option["right"]
        )
        points = "".join(f"<li>{kit.escape(point)}</li>" for point in self.points)
        told = f"{right}<p>{kit.escape(self.analysis)}</p>"
        return (
            f"<div><p><strong>{kit.escape(self.title)}.</strong> {kit.escape(self.question)}</p>"
            f"{f'<ul>{options}</ul>' if options else ''}"
            f"<details><summary>Analysis</summary>{told}</details>"
            f"<details><summary>Key points</summary><ul>{points}</ul></details></div>"
        )


def _told(analysis: str, points: Sequence[str]) -> dict[str, Any]:
    if not analysis or not points:
        raise ValueError("a question of the bank needs an analysis and at least one key point")
    return {"analysis": analysis, "points": list(points)}
