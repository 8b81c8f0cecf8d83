"""The learner's four functions, found by name in their exercises, and run in this very process: it is their program.

What is run of a file is the function and what it uses: imports, helpers, constants, and statements that fill those.
Trials and ``check(...)`` calls in the same notebook are left alone. A function that is still its blank runs as it was
handed out, is visibly wrong, and has its exercise-incomplete line said once. An error is cut to their own lines.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import copy
import inspect
import io
import linecache
import symtable
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxlab.errors import CtxlabError
from ctxlab.grading.exercises import EXERCISES
from ctxlab.grading.submissions import NotASubmission, Piece, Source, find, read
from ctxlab.kit import folder as kit_folder
from ctxlab.messages import as_messages

PLACES = (Path("exercises"), Path("context-lab/exercises"))
"""Where exercises are looked for when none are named; then the kit's own, untouched."""

SHOWN = 6  # of the learner's lines in an error, the innermost ones (picked)


class LearnerError(CtxlabError, RuntimeError):
    """The learner's own code broke, or returned what it cannot. ``function``; the hint holds their lines."""

    exit_code = 1


def default_exercises(here: Path = Path()) -> tuple[Path, ...]:
    """The folder of the learner's exercises: the first of `PLACES` that holds any, else the kit's untouched ones."""
    for place in PLACES:
        folder = here / place
        if folder.is_dir() and any(path.suffix in (".py", ".ipynb") for path in folder.rglob("*")):
            return (folder,)
    return (kit_folder("exercises"),)


@dataclass(frozen=True, slots=True)
class Found:
    """Which file has each function (None: nowhere but as its blank), and what in the files could not be read."""

    sources: Mapping[str, Source | None]
    notes: tuple[str, ...]


def find_functions(paths: Iterable[Path]) -> Found:
    """Looks for the four functions in notebooks and .py files; the first path that has one in earnest gives it.

    Among the files of one path, the one that was made for the exercise comes first. Raises `NotASubmission` for a path
    that is not there or holds nothing.
    """
    sources: dict[str, Source | None] = dict.fromkeys(EXERCISES)
    notes: list[str] = []
    for path in paths:
        files = [read(file) for one in find([path]) for file in one.files]
        for source in files:
            told = (source.error,) if source.error else source.notes
            notes += [f"{source.path}: {note}" for note in told if source.error or "Error" in note]
        for name in EXERCISES:
            attempts = [source for source in files if source.defines(name) == "attempted"]
            attempts.sort(key=lambda source, name=name: source.tag != name)  # type: ignore[misc]
            if sources[name] is None and attempts:
                sources[name] = attempts[0]
    return Found(sources, tuple(notes))


class Functions:
    """The four functions, ready to be called. ``say`` gets the exercise-incomplete lines, each once.

    Every call raises `LearnerError` where the learner's code breaks. Raises `NotASubmission`.
    """

    def __init__(self, paths: Sequence[Path], say: Callable[[str], object]) -> None:
        found = find_functions(paths)
        self.notes = found.notes
        self._say = say
        self._told: set[str] = set()
        self._files: set[str] = set()
        self.blank = tuple(name for name, source in found.sources.items() if source is None)
        self._functions: dict[str, Callable[..., Any]] = {}
        self._broken_files: dict[str, LearnerError] = {}  # said when the function is called, not before
        modules = []
        for name, source in found.sources.items():
            try:
                modules.append(self._module(name, source))
                self._functions[name] = getattr(modules[-1], name)
            except LearnerError as error:
                self._broken_files[name] = error
        self._connect(modules)

    def tell_incomplete(self) -> None:
        """Says the line of every function that is still its blank: the to-do list."""
        for name in self.blank:
            self._tell(name)

    def estimate(self, history: Sequence[Mapping[str, Any]]) -> int:
        """The learner's count of a history's tokens."""
        value = self._call("estimate_tokens", copy.deepcopy(list(history)))
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong("estimate_tokens", value, "an int")
        return value

    def compress(
        self, history: Sequence[Mapping[str, Any]], summarize: Callable[[list[dict[str, Any]]], str]
    ) -> list[dict[str, Any]]:
        """The learner's shorter history. ``summarize`` gets messages and returns text; the learner may await it."""
        given = copy.deepcopy(list(history))
        value = self._call("compress_if_needed", given, lambda messages: AwaitableText(summarize(messages)))
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self._wrong("compress_if_needed", value, "a list of messages")
        try:
            as_messages(value)
        except CtxlabError as error:
            raise self._wrong("compress_if_needed", value, f"messages ({error})") from None
        return value

    def append(self, path: Path, message: Mapping[str, Any]) -> None:
        """One message through the learner's append_message."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._call("append_message", str(path), copy.deepcopy(dict(message)))

    def fork(self, parent: dict[str, Any], at_index: int) -> dict[str, Any]:
        """The learner's fork; it gets the parent itself and no copy, since sharing is what the exercise is about."""
        child = self._call("fork_session", parent, at_index)
        if not isinstance(child, dict) or not isinstance(child.get("messages"), list):
            raise self._wrong("fork_session", child, "a dict with id, parent_id, forked_at, messages and created_at")
        for key, kind in (("id", str), ("forked_at", int)):
            if not isinstance(child.get(key), kind):
                raise self._wrong("fork_session", child, f"a dict whose {key} is of type {kind.__name__}")
        return child

    def _call(self, name: str, *args: Any) -> Any:
        self._tell(name)
        if name in self._broken_files:
            raise self._broken_files[name]
        # A blank says its line each time that it is called; here once is enough.
        quiet = contextlib.redirect_stdout(io.StringIO()) if name in self.blank else contextlib.nullcontext()
        try:
            with quiet:
                value = self._functions[name](*args)
                return asyncio.run(_finish(value)) if inspect.isawaitable(value) else value
        except (Exception, SystemExit) as error:
            raise self._broken(name, error) from error

    def _tell(self, name: str) -> None:
        if name in self.blank and name not in self._told:
            self._told.add(name)
            self._say(EXERCISES[name].incomplete)

    def _module(self, name: str, source: Source | None) -> types.ModuleType:
        """A module with the function in it, and what the function uses."""
        module = types.ModuleType(f"your_{name}")
        sys.modules[module.__name__] = module  # so that a dataclass of theirs finds its module
        if source is None:
            exercise = EXERCISES[name]
            exec(f"{exercise.given}\n{exercise.blank}", module.__dict__)
            return module
        module.__file__ = str(source.path)
        if (beside := str(source.path.parent.resolve())) not in sys.path:
            sys.path.insert(0, beside)  # a helper module of theirs beside the exercise
        pieces = used_pieces(source, name)
        self._files |= remember(source, pieces)
        try:
            for piece in pieces:
                text = "\n" * (piece.line - 1) + piece.source
                exec(compile(text, label(source, piece), "exec", dont_inherit=True), module.__dict__)
        except (Exception, SystemExit) as error:
            raise self._broken(name, error) from error
        if not callable(getattr(module, name, None)):
            raise LearnerError(f"{source.path}: {name} is no function once the file has run", function=name)
        return module

    def _connect(self, modules: Iterable[types.ModuleType]) -> None:
        """Where one of their functions calls another one of the four as the library has it, it gets theirs, if there
        is one in earnest: this is their program. In place of a blank the library's own stays."""
        import ctxlab

        theirs = {name: function for name, function in self._functions.items() if name not in self.blank}
        for module in modules:
            for key, value in list(vars(module).items()):
                name = next((name for name in theirs if value is getattr(ctxlab, name)), None)
                if name is not None:
                    setattr(module, key, theirs[name])

    def _broken(self, name: str, error: BaseException) -> LearnerError:
        frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename in self._files]
        lines = [f"  {one.filename}, line {one.lineno}, in {one.name}\n    {one.line}" for one in frames[-SHOWN:]]
        said = f": {error}" if str(error) else ""
        return LearnerError(
            "\n".join([f"your {name} raised {type(error).__name__}{said}", *lines]),
            hint=f"nothing is lost: what was written before stays. Ask for more with check({name}) in its notebook",
            function=name,
        )

    def _wrong(self, name: str, value: object, expected: str) -> LearnerError:
        shown = repr(value)
        shown = shown if len(shown) <= 120 else f"{shown[:117]}..."
        return LearnerError(
            f"your {name} returned {shown} (a {type(value).__name__}); expected {expected}",
            hint=f"check({name}) in its notebook says more",
            function=name,
        )


class AwaitableText(str):
    """A text that may be awaited too, so that a sync and an async compress_if_needed both get their summary."""

    def __await__(self) -> Any:
        yield from ()
        return str(self)


async def _finish(value: Any) -> Any:
    return await value


def label(source: Source, piece: Piece) -> str:
    """What a traceback calls the place of a piece: the file, and the cell in a notebook."""
    return f"{source.path}, {piece.place}" if source.path.suffix == ".ipynb" else str(source.path)


def remember(source: Source, pieces: Iterable[Piece]) -> set[str]:
    """Keeps the lines of some pieces, so that a traceback can show them. Returns their labels."""
    texts: dict[str, list[str]] = {}
    for piece in pieces:
        lines = texts.setdefault(label(source, piece), [])
        lines += ["\n"] * (piece.line - 1 - len(lines))
        lines += piece.source.splitlines(keepends=True)
    for name, lines in texts.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    return set(texts)


def used_pieces(source: Source, name: str) -> list[Piece]:
    """The pieces of a file that define a function, and all that it uses, in their order."""
    known = [(piece, *_names(piece)) for piece in source.pieces]
    needed, before = {name}, 0
    while before != len(needed):
        before = len(needed)
        for _, defines, uses, changes in known:
            if "*" in defines or (defines | changes) & needed:
                needed |= defines | uses
    return [piece for piece, defines, _, changes in known if "*" in defines or (defines | changes) & needed]


def _names(piece: Piece) -> tuple[set[str], set[str], set[str]]:
    """The global names that a piece binds, that it uses, and whose values it changes in place ("*": any name)."""
    try:
        table = symtable.symtable(piece.source, piece.place, "exec")
        body = ast.parse(piece.source).body
    except SyntaxError:  # a trial that awaits at top level: a notebook may, a module may not
        return set(), set(), set()
    defines = {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    if any(isinstance(node, ast.ImportFrom) and _takes_all(node) for node in body):
        defines.add("*")
    uses = {one.get_name() for one in table.get_symbols() if one.is_referenced()}
    waiting = list(table.get_children())
    while waiting:
        inner = waiting.pop()
        uses |= {one.get_name() for one in inner.get_symbols() if one.is_global()}
        waiting += inner.get_children()
    changes = set().union(*(_changed(node) for node in body)) if body else set()
    return defines, uses, changes


def _takes_all(node: ast.ImportFrom) -> bool:
    return node.module == "__future__" or any(one.name == "*" for one in node.names)


def _changed(node: ast.stmt) -> set[str]:
    """The names whose values a top-level statement changes in place: ``TABLE["x"] = 1``, ``NAMES.append("x")``."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return set()
    found = set()
    for one in ast.walk(node):
        place: ast.expr | None = None
        if isinstance(one, ast.Subscript | ast.Attribute) and isinstance(one.ctx, ast.Store):
            place = one
        elif isinstance(one, ast.Expr) and isinstance(one.value, ast.Call):
            place = one.value.func
        if isinstance(place, ast.Subscript | ast.Attribute):
            while isinstance(place, ast.Subscript | ast.Attribute):
                place = place.value
            if isinstance(place, ast.Name):
                found.add(place.id)
    return found


__all__ = ["Found", "Functions", "LearnerError", "NotASubmission", "default_exercises", "find_functions"]
