"""Which submissions read nearly the same: a flag for a human to look at, never a verdict.

A submission's function becomes a row of tokens in which names of variables and the docstring are gone: what is left is
the shape of its syntax tree, with the names of attributes and functions and the values of literals. Rows of eight
tokens (shingles) are hashed; two submissions are alike where they share most of theirs (Jaccard index). What the kit
hands out is left out, and so is what more than a tenth of the different answers have, since that is the exercise
speaking and not a neighbour. Short answers are never flagged: there are few ways to write them.

The way is that of moss (Schleimer, Wilkerson, Aiken: "Winnowing", SIGMOD 2003), on a syntax tree. All numbers are
picked.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from ctxlab.grading.exercises import EXERCISES
from ctxlab.grading.model import Exercise
from ctxlab.grading.submissions import read

SHINGLE = 8  # tokens
LEAST = 40  # shingles, below which an answer is too short to say anything
ALIKE = 0.8  # Jaccard index from which two answers are shown together
COMMON = 0.1  # share of the different answers, above which a shingle is the exercise's own; never below 4 of them


@dataclass(frozen=True, slots=True)
class Alike:
    """A group of submissions whose answers to one exercise read nearly the same. ``least`` is the smallest Jaccard
    index by which one of them joined the group; ``solution``: the kit's own solution is one of them."""

    exercise: str
    names: tuple[str, ...]
    least: float
    solution: bool = False


@dataclass(slots=True)
class Answers:
    """The answers to one exercise, collected one submission at a time: hashes only."""

    exercise: Exercise
    handed_out: frozenset[int] = frozenset()
    by_shape: dict[frozenset[int], list[str]] = field(default_factory=dict)

    def add(self, name: str, source: str) -> None:
        """Take the code that answers the exercise."""
        found = shingles(source) - self.handed_out
        if len(found) >= LEAST:
            self.by_shape.setdefault(found, []).append(name)

    def groups(self) -> Iterator[Alike]:
        """The groups of at least two that are alike, the largest first."""
        shapes = list(self.by_shape)
        parent = list(range(len(shapes)))
        least = [1.0] * len(shapes)
        for first, second, index in _pairs(shapes):
            a, b = _root(parent, first), _root(parent, second)
            low = min(least[a], least[b], index)
            parent[b] = a
            least[a] = low
        together: dict[int, list[str]] = defaultdict(list)
        for place, shape in enumerate(shapes):
            together[_root(parent, place)] += self.by_shape[shape]
        for place, names in sorted(together.items(), key=lambda item: -len(item[1])):
            people = sorted({name for name in names if name})
            if len(people) >= 2:
                yield Alike(self.exercise.name, tuple(people), least[place], solution="" in names)


def alike(
    submissions: Iterable[tuple[str, Sequence[Path]]],
    solutions: Mapping[str, str] | None = None,
    handed_out: Mapping[str, Sequence[str]] | None = None,
) -> list[Alike]:
    """The groups among submissions, given as (learner's name, files).

    ``solutions``: the kit's own, by exercise; ``handed_out``: code that everybody was given, by exercise. Two
    submissions of one name are one person's and never a group.
    """
    answers = {}
    for name, exercise in EXERCISES.items():
        given = [exercise.given, exercise.blank, *(handed_out or {}).get(name, ())]
        answers[name] = Answers(exercise, frozenset().union(*map(shingles, given)))
    for name, source in (solutions or {}).items():
        answers[name].add("", source)
    for name, files in submissions:
        for path in files:
            for exercise_name, source in answers_in(path):
                answers[exercise_name].add(name, source)
    return [group for one in answers.values() for group in one.groups()]


def answers_in(path: Path) -> Iterator[tuple[str, str]]:
    """The exercises that a file attempts, each with its code: its function and what stands beside it (helpers,
    constants, imports), but for the functions of the other exercises and for bare calls."""
    source = read(path)
    attempted = [name for name, status in (source.status or {}).items() if status == "attempted"]
    pieces = [(piece.source, _defines(piece.source)) for piece in source.pieces]
    for name in attempted:
        yield name, "".join(text for text, names in pieces if names is not None and names <= {name})


def _defines(source: str) -> set[str] | None:
    """The exercises' functions that a piece defines; None for one that only does something."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if all(isinstance(node, ast.Expr) for node in body):
        return None
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)} & set(EXERCISES)


def shingles(source: str) -> frozenset[int]:
    """The hashed shingles of some code; none where it does not parse."""
    try:
        row = list(_tokens(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    rows = (" ".join(row[start : start + SHINGLE]) for start in range(len(row) - SHINGLE + 1))
    return frozenset(int.from_bytes(hashlib.blake2b(one.encode(), digest_size=8).digest()) for one in rows)


def _tokens(tree: ast.AST) -> Iterator[str]:
    """The tree in its order, without recursion: kinds of nodes, attributes, called names, literals."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.expr_context | ast.Load):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        yield _told(node)
        stack += reversed(list(ast.iter_child_nodes(node)))


def _told(node: ast.AST) -> str:
    kind = type(node).__name__
    if isinstance(node, ast.Attribute):
        return f"{kind}.{node.attr}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return f"{kind}:{node.func.id}"
    if isinstance(node, ast.Constant):
        return f"{kind}={node.value!r}"[:60]
    return kind


def _pairs(shapes: Sequence[frozenset[int]]) -> Iterator[tuple[int, int, float]]:
    """The pairs of different answers that are alike, by an index of who has which shingle."""
    having: dict[int, list[int]] = defaultdict(list)
    for place, shape in enumerate(shapes):
        for one in shape:
            having[one].append(place)
    limit = max(4, int(COMMON * len(shapes)))
    own = [{one for one in shape if len(having[one]) <= limit} for shape in shapes]
    shared: Counter[tuple[int, int]] = Counter()
    for places in having.values():
        if 1 < len(places) <= limit:
            shared.update(combinations(places, 2))
    for (first, second), both in shared.items():
        if min(len(own[first]), len(own[second])) >= LEAST // 4:
            whole = shapes[first] & shapes[second]
            index = len(whole) / len(shapes[first] | shapes[second])
            rare = both / len(own[first] | own[second])
            if min(index, rare) >= ALIKE:
                yield first, second, index


def _root(parent: list[int], place: int) -> int:
    while parent[place] != place:
        parent[place] = parent[parent[place]]
        place = parent[place]
    return place
