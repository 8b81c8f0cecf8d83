"""Question: a prediction to make before the answer is shown, or a self-check with feedback for every choice.

1. `Question.choice` has options, each with its own feedback: a wrong one says what it would take for it to be right.
2. `Question.number` asks for a guess, then shows the answer beside it. A guess is never wrong, only far or near.
3. Nothing is graded or sent anywhere. Without a front end the question shows as a list with the answer folded away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anywidget
from traitlets import Bool, Dict, Int, List, Unicode

from ctxlab.widgets import kit


class Question(anywidget.AnyWidget):
    """One question. Make it with `Question.choice` or `Question.number`.

    ``chosen`` is the place of the chosen option (-1: none yet); ``guess`` is the guessed number, ``guessed`` whether
    there is one. Both may be read in a cell, as on any ipywidget.
    """

    _esm = kit.esm("question")
    _css = kit.css("question")

    title = Unicode("Predict first").tag(sync=True)
    question = Unicode().tag(sync=True)
    options = List(Dict()).tag(sync=True)
    chosen = Int(-1, min=-1).tag(sync=True)
    answer = Int(0).tag(sync=True)
    unit = Unicode().tag(sync=True)
    explain = Unicode().tag(sync=True)
    guess = Int(0).tag(sync=True)
    guessed = Bool(False).tag(sync=True)

    @classmethod
    def choice(cls, question: str, options: Sequence[tuple[str, bool, str]], title: str = "Check yourself") -> Question:
        """A question with ``options``: text, whether it is right, and what to say when it is chosen.

        Raises ``ValueError`` unless at least one option is right and each has feedback.
        """
        if not any(right for _, right, _ in options) or not all(feedback for *_, feedback in options):
            raise ValueError("a question needs at least one right option, and feedback for each")
        made = [{"text": text, "right": right, "feedback": feedback} for text, right, feedback in options]
        return cls(title=title, question=question, options=made)

    @classmethod
    def number(
        cls, question: str, answer: int, explain: str, unit: str = "tokens", title: str = "Predict first"
    ) -> Question:
        """A question whose ``answer`` is a whole number in ``unit``; ``explain`` is shown with it."""
        return cls(title=title, question=question, answer=answer, explain=explain, unit=unit)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return kit.bundle(super()._repr_mimebundle_(**kwargs), self._html(), f"{self.title}: {self.question}")

    def _html(self) -> str:
        head = f"<p><strong>{kit.escape(self.title)}.</strong> {kit.escape(self.question)}</p>"
        if not self.options:
            told = f"<p>{kit.number(self.answer)} {kit.escape(self.unit)}. {kit.escape(self.explain)}</p>"
            return f"<div>{head}<details><summary>Answer</summary>{told}</details></div>"
        items = "".join(f"<li>{kit.escape(option['text'])}</li>" for option in self.options)
        right = "".join(
            f"<p>{kit.escape(option['text'])}: {kit.escape(option['feedback'])}</p>"
            for option in self.options
            if option["right"]
        )
        return f"<div>{head}<ul>{items}</ul><details><summary>Answer</summary>{right}</details></div>"
