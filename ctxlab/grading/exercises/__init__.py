"""The exercises, in their order: one module each, which holds everything about it."""

from __future__ import annotations

from ctxlab.errors import unknown_name
from ctxlab.grading.exercises import append_message, compress_if_needed, estimate_tokens, fork_session
from ctxlab.grading.model import Exercise

EXERCISES: dict[str, Exercise] = {
    module.EXERCISE.name: module.EXERCISE
    for module in (estimate_tokens, compress_if_needed, append_message, fork_session)
}


def get_exercise(name: str) -> Exercise:
    """The exercise of that name. Raises `UnknownName` with the closest one there is."""
    if name not in EXERCISES:
        raise unknown_name("exercise", name, list(EXERCISES))
    return EXERCISES[name]
