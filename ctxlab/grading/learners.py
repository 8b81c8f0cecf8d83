"""Who handed in what, and which of several submissions of one learner counts.

The learner's name is the submission's: its folder's name, or its file's without the extension, without the mark that a
second copy gets (``ada (1)``, ``ada - Copy``, ``ada copy 2``, ``ada_late``). A pattern may say it otherwise: the group
``learner`` (or the first group) of a regular expression that is searched in the path.

Of several submissions of one learner all are graded and all are listed. The one with the most points counts; among
equals the last one in the order found. The time of a file decides nothing: unpacking an archive changes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ctxlab.errors import WrongArgument
from ctxlab.grading.report import Report

COPY = re.compile(r"( \(\d+\)| - copy| copy( \d+)?|[-_ ]late)$", re.I)


@dataclass(frozen=True, slots=True)
class Learner:
    """One learner: ``counts`` is the place of the submission that counts in ``report.submissions``, ``others`` are the
    places of the rest."""

    name: str
    counts: int
    others: tuple[int, ...] = ()


def learner_of(path: str, pattern: re.Pattern[str] | None = None) -> str:
    """The learner's name.

    >>> learner_of("submissions/ada"), learner_of("in/Ada Lovelace (2).ipynb"), learner_of("bob_late.py")
    ('ada', 'Ada Lovelace', 'bob')
    """
    if pattern is not None and (found := pattern.search(path)):
        named = found.groupdict().get("learner")
        return (named or found.group(1 if pattern.groups else 0) or "").strip() or path
    place = Path(path)
    name = place.stem if place.suffix in (".py", ".ipynb") else place.name or place.absolute().name
    while (shorter := COPY.sub("", name)) != name and shorter:
        name = shorter
    return name


def compiled(pattern: str | None) -> re.Pattern[str] | None:
    """The pattern, compiled. Raises `WrongArgument` for one that is no regular expression."""
    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise WrongArgument(
            f"{pattern!r} is no regular expression: {error}",
            hint=r"for example '(?P<learner>[^/_]+)_\d+\.ipynb$'",
            name="pattern",
            value=pattern,
        ) from None


def learners(report: Report, pattern: str | None = None) -> list[Learner]:
    """The learners by name. Raises `WrongArgument` for a pattern that is no regular expression."""
    named = compiled(pattern)
    found: dict[str, list[tuple[float, int]]] = {}
    for place, one in enumerate(report.submissions):
        found.setdefault(learner_of(one.path, named), []).append((one.score, place))
    return sorted(_learners(found), key=lambda one: one.name)


def _learners(found: dict[str, list[tuple[float, int]]]) -> Iterator[Learner]:
    for name, places in found.items():
        counts = max(places)[1]
        yield Learner(name, counts, tuple(place for _, place in places if place != counts))
