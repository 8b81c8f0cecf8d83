"""What a learner handed in, read as text: which files, which pieces of code, which functions.

Nothing is run here and nothing is imported. A *piece* is one top-level statement (a few, where they share a line) with
its place, so that one that breaks costs nothing but itself. Honest accidents are taken for what they are: a cell split
in two is put together, a copy of the untouched blank behind the solution is passed over, magics and shell lines are
left out, and a cell that was turned into markdown is read if it is the only one with the function.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxlab.errors import CtxlabError
from ctxlab.grading.exercises import EXERCISES
from ctxlab.grading.model import Exercise
from ctxlab.grading.oddities import oddities

MAX_BYTES = 100 << 20  # of one file, a notebook's outputs included; picked
MAX_SOURCE = 2 << 20  # characters of code in one file; picked
LEAVE_OUT = ("__pycache__", ".ipynb_checkpoints")
WANTED = "name a notebook, a .py file or a folder"
BODY_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")  # the cell under them is Python and is run
NOTHING: tuple[list[str], ...] = (
    ["Pass()"], ["Expr(value=Constant(value=Ellipsis))"], ["Return()"], ["Return(value=Constant(value=None))"], [],
)  # fmt: skip
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


class NotASubmission(CtxlabError, ValueError):
    """A path that holds nothing to grade. ``path``."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of code: ``place`` is its cell or file, ``line`` its first line there (from 1)."""

    place: str
    line: int
    source: str


@dataclass(frozen=True, slots=True)
class Source:
    """One file. ``status``: for each exercise whose function it defines, ``attempted`` or ``blank``; ``tag``: the
    exercise that it was made for, by its metadata or its name; ``error``: why it cannot be read at all."""

    path: Path
    pieces: tuple[Piece, ...] = ()
    status: Mapping[str, str] | None = None
    tag: str | None = None
    notes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def main(self) -> str:
        """The name of the module in which it runs: as in Jupyter, or as when it is imported."""
        return "__main__" if self.path.suffix == ".ipynb" else "submission"

    def defines(self, name: str) -> str:
        """``attempted``, ``blank`` or ``missing``."""
        return (self.status or {}).get(name, "missing")


@dataclass(frozen=True, slots=True)
class Submission:
    """What one learner handed in: one file, or the files of a folder."""

    path: Path
    files: tuple[Path, ...]


def find(paths: Iterable[str | Path]) -> list[Submission]:
    """The submissions under some paths, in the order given, those of a folder by name.

    A file is a submission. A folder is *one* submission where its files are each for another exercise, by tag or by
    name (``01_estimate_tokens.ipynb``, ...), or where it holds one file only. Any other folder is a class: each file
    in it is a submission, and so is each folder in it, with all that it holds. Raises `NotASubmission` for a path
    that is not there, for a file of another kind, and for a folder with nothing to grade.
    """
    found: list[Submission] = []
    for path in map(Path, paths):
        if path.is_dir():
            found += _in_folder(path)
        elif not path.exists():
            raise NotASubmission(f"{path}: no such file or folder", hint=WANTED, path=path)
        elif not path.is_file():
            raise NotASubmission(f"{path}: not a plain file", hint=WANTED, path=path)
        elif path.suffix not in (".py", ".ipynb"):
            raise NotASubmission(f"{path}: not a notebook and not a .py file", hint=WANTED, path=path)
        else:
            found.append(Submission(path, (path,)))
    return found


def _in_folder(folder: Path) -> list[Submission]:
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and _counts(path, folder)]
    below = [path for path in sorted(folder.iterdir()) if path.is_dir() and list(_files(path))]
    if not files and not below:
        raise NotASubmission(
            f"{folder}: no notebook and no .py file in it", hint="name the folder that holds them", path=folder
        )
    if not below:
        tags = [tag_of(path) for path in files]
        if len(files) == 1 or (None not in tags and len(set(tags)) == len(tags)):
            return [Submission(folder, tuple(files))]
    entries = sorted([*files, *below])
    return [Submission(path, tuple(_files(path)) if path.is_dir() else (path,)) for path in entries]


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and _counts(path, folder):
            yield path


def _counts(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    hidden = any(part.startswith(".") or part in LEAVE_OUT for part in parts)
    return path.suffix in (".py", ".ipynb") and not hidden and path.name != "__init__.py"


def tag_of(path: Path) -> str | None:
    """The exercise that a file was made for: by the notebook's metadata (which outlasts a new name), or by its name."""
    if path.suffix == ".ipynb":
        try:
            notebook = _notebook(path)
        except (OSError, ValueError, RecursionError):
            notebook = {}
        if (tag := _tag(notebook)) is not None:
            return tag
    return next((name for name in EXERCISES if name in path.stem), None)


def _tag(notebook: Mapping[str, Any]) -> str | None:
    metadata = notebook.get("metadata")
    ours = metadata.get("ctxlab") if isinstance(metadata, dict) else None
    name = ours.get("exercise") if isinstance(ours, dict) else None
    return name if isinstance(name, str) and name in EXERCISES else None


def read(path: Path) -> Source:
    """One file as pieces; one that cannot be read comes back with its ``error``."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return Source(path, error=f"larger than {MAX_BYTES >> 20} MB")
        cells = _cells(_notebook(path)) if path.suffix == ".ipynb" else _script(path.name, _text(path))
    except (OSError, ValueError, RecursionError) as error:
        return Source(path, tag=tag_of(path), error=f"cannot be read: {error}")
    if sum(len(cell.source) for cell in cells) > MAX_SOURCE:
        return Source(path, tag=tag_of(path), error=f"more than {MAX_SOURCE >> 20} MB of code")
    notes: list[str] = []
    statements: list[tuple[Piece, list[ast.stmt]]] = []
    for cell in _joined(_unmagicked(cells, notes)):
        statements += _statements(cell, notes)
    status: dict[str, str] = {}
    for _, nodes in statements:
        for name, attempted in _defined(nodes):
            status[name] = "attempted" if attempted or status.get(name) == "attempted" else "blank"
    notes += oddities((piece.place, piece.line, node) for piece, nodes in statements for node in nodes)
    kept = [_own_alone(piece, nodes, status) for piece, nodes in statements if not _spare_blank(nodes, status)]
    order = {name: status[name] for name in EXERCISES if name in status}
    return Source(path, tuple(kept), order, tag_of(path), tuple(notes))


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig", "replace")


def _notebook(path: Path) -> dict[str, Any]:
    """A notebook's JSON, with the cells of version 3 (2012 to 2015) where those of version 4 are. Raises ValueError.

    Not by way of nbformat: its import takes longer than a submission, and it refuses what can still be read.
    """
    data = json.loads(_text(path))
    if not isinstance(data, dict):
        raise ValueError("not a notebook")
    sheets = data.get("worksheets")
    if isinstance(sheets, list):
        data["cells"] = [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells", [])]
    if not isinstance(data.get("cells"), list):
        raise ValueError("not a notebook: it has no cells")
    return data


def _cells(notebook: dict[str, Any]) -> list[Piece]:
    """The code cells; a cell of another kind counts where it alone defines one of the functions."""
    code: list[Piece] = []
    other: list[Piece] = []
    for number, cell in enumerate(notebook["cells"], 1):
        if not isinstance(cell, dict):
            continue
        source = cell.get("source", cell.get("input", ""))
        text = "".join(map(str, source)) if isinstance(source, list) else str(source)
        kind = code if cell.get("cell_type") == "code" else other
        kind.append(Piece(f"cell {number}", 1, text))
    there = {name for piece in code for name, attempted in _defined(_parsed(piece.source) or []) if attempted}
    for piece in other:
        if any(attempted and name not in there for name, attempted in _defined(_parsed(piece.source) or [])):
            code.append(piece)
    return code


def _script(name: str, text: str) -> list[Piece]:
    """A .py file as its ``# %%`` cells; where it does not parse, as the parts between its top-level definitions."""
    border = r"^# ?%%.*$"
    if not re.search(border, text, re.M):
        if _parsed(text) is not None:
            return [Piece(name, 1, text)]
        border = r"^(?=(?:def|async def|class|@|import|from)\b|@)"
    cells, start = [], 0
    for end in [*(match.start() for match in re.finditer(border, text, re.M)), len(text)]:
        if text[start:end].strip():
            cells.append(Piece(name, text.count("\n", 0, start) + 1, text[start:end]))
        start = end
    return cells


def _unmagicked(cells: Iterable[Piece], notes: list[str]) -> Iterator[Piece]:
    """The cells without what only IPython understands; lines stay where they are."""
    for cell in cells:
        text = cell.source
        first = text.lstrip().split(None, 1)[0] if text.strip() else ""
        if first.startswith("%%"):
            if first not in BODY_MAGICS:
                notes.append(f"{cell.place}: left out, {first} is not Python")
                continue
            text = re.sub(r"^\s*%%.*", "", text, count=1)
        if _parsed(text) is None:
            plain = "\n".join(_without_magic(line) for line in text.split("\n"))
            if plain != text and (_parsed(plain) is not None or first[:1] in "%!?"):
                notes.append(f"{cell.place}: magics and shell lines left out")
                text = plain
        yield Piece(cell.place, cell.line, text)


def _without_magic(line: str) -> str:
    bare = line.strip()
    indent = line[: len(line) - len(line.lstrip())]
    if re.match(r"[%!?]", bare) or re.fullmatch(r"[\w.]+\?\??", bare):
        return f"{indent}pass"
    assigned = re.match(r"([\w, ]+)=\s*[%!]", bare)
    return f"{indent}{assigned[1].strip()} = None" if assigned else line


def _joined(cells: Iterable[Piece]) -> list[Piece]:
    """Cells that only make sense together, put together: a function that was split in two."""
    done: list[Piece] = []
    for cell in cells:
        first = next((line for line in cell.source.split("\n") if line.strip()), "")
        if done and done[-1].place != cell.place and (first[:1].isspace() or _parsed(cell.source) is None):
            whole = f"{done[-1].source}\n{cell.source}"
            if _parsed(whole) is not None:
                done[-1] = Piece(done[-1].place, done[-1].line, whole)
                continue
        done.append(cell)
    return done


def _parsed(source: str) -> list[ast.stmt] | None:
    try:
        return ast.parse(source).body
    except _UNREADABLE:
        return None


def _statements(cell: Piece, notes: list[str]) -> list[tuple[Piece, list[ast.stmt]]]:
    """A cell's top-level statements; those that share a line stay together."""
    try:
        body = ast.parse(cell.source).body
    except _UNREADABLE as error:
        line = (getattr(error, "lineno", None) or 1) + cell.line - 1
        notes.append(f"{cell.place}, line {line}: {type(error).__name__}: {getattr(error, 'msg', error)}")
        return []
    lines = cell.source.split("\n")
    groups: list[tuple[int, int, list[ast.stmt]]] = []
    for node in body:
        start = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        end = node.end_lineno or node.lineno
        if groups and start <= groups[-1][1]:
            groups[-1] = (groups[-1][0], end, [*groups[-1][2], node])
        else:
            groups.append((start, end, [node]))
    return [
        (Piece(cell.place, cell.line + start - 1, "\n".join(lines[start - 1 : end]) + "\n"), nodes)
        for start, end, nodes in groups
    ]


def _defined(nodes: Iterable[ast.stmt]) -> Iterator[tuple[str, bool]]:
    """The exercises' functions that these statements define, and whether there is more to each than the blank."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name in EXERCISES:
                yield node.name, not is_blank(node, EXERCISES[node.name])
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id in EXERCISES and node.value is not None:
                    yield target.id, True
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for field in ("body", "orelse", "finalbody"):
                yield from _defined(getattr(node, field, []))


def _own_alone(piece: Piece, nodes: list[ast.stmt], status: Mapping[str, str]) -> Piece:
    """A piece without imports of the library's function where the file has its own: one notebook gives what another
    asks for, and in a file that has both the import must not take the place of the learner's own."""
    node = nodes[0]
    if len(nodes) != 1 or not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] != "ctxlab":
        return piece
    names = [one for one in node.names if status.get(one.asname or one.name) != "attempted"]
    if len(names) == len(node.names):
        return piece
    source = ast.unparse(ast.ImportFrom(node.module, names, node.level)) if names else "pass"
    return Piece(piece.place, piece.line, source + "\n")


def _spare_blank(nodes: list[ast.stmt], status: Mapping[str, str]) -> bool:
    """Whether a piece is nothing but a copy of a blank whose function is written elsewhere in the file."""
    return len(nodes) == 1 and any(not attempted and status[name] == "attempted" for name, attempted in _defined(nodes))


def is_blank(node: ast.FunctionDef | ast.AsyncFunctionDef, exercise: Exercise) -> bool:
    """Whether a function is the exercise's blank as it was handed out, or does nothing: docstring, prints and comments
    apart."""
    handed_out = _parsed(exercise.blank) or []
    body = _bones(node)
    if body in NOTHING or (len(body) == 1 and body[0].startswith("Raise(") and "NotImplementedError" in body[0]):
        return True
    return any(isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and body == _bones(one) for one in handed_out)


def _bones(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    try:
        return [ast.dump(one) for one in body if not _is_print(one)]
    except RecursionError:
        return ["nested too deeply to compare"]


def _is_print(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"
