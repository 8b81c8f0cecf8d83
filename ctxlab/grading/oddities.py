"""What is unusual in a submission's code, in words for the person who reads the report.

Read from the text, before anything runs, so that nothing that the code does can take it out of the report again. It
decides nothing: an honest solution may start a thread, and code that hides what it does is not seen through. The walls
hold in either case; this is where to look.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

MOST = 8  # notes for one file; picked

# What code does, and the names that show it; a name with a star is the beginning of one.
NAMES: dict[str, tuple[str, ...]] = {
    "ends the process at once": ("os._exit", "os.abort"),
    "starts processes that may outlive it": ("os.fork*", "os.posix_spawn*", "multiprocessing"),
    "starts other programs": ("subprocess", "os.system", "os.popen", "os.exec*", "pty"),
    "leaves its session, so as not to be ended with it": ("os.setsid", "os.setpgid", "os.setpgrp"),
    "sends signals to processes": ("os.kill", "os.killpg"),
    "changes how signals are met": ("signal",),
    "leaves code to be run at the exit": ("atexit",),
    "starts threads that go on": ("threading.Thread", "_thread"),
    "reaches into memory through C": ("ctypes",),
    "searches all objects of the interpreter": ("gc.get*",),
    "looks into the frames of the code that calls it": (
        "sys._getframe",
        "inspect.stack",
        "f_back",
        "tb_frame",
        "f_locals",
    ),
    "reaches into modules that others loaded": ("sys.modules",),
    "watches or changes how other code runs": ("sys.settrace", "sys.setprofile", "sys.meta_path", "sys.addaudithook"),
    "raises the limit of recursion": ("sys.setrecursionlimit",),
    "changes its limits": ("resource",),
    "uses the network": ("socket", "urllib", "requests", "http.client"),
    "writes into open files by their numbers": ("os.write",),
    "puts a link or a pipe in the place of a file": ("os.symlink", "os.link", "os.mkfifo"),
    "reaches into the grader's own modules": ("ctxlab.grading", "ctxlab.sandbox"),
    "takes the library's own answer": ("ctxlab.transcript",),
    "catches every exception, exits too": ("BaseException",),
    "loads a module again": ("importlib.reload",),
    "waits": ("time.sleep",),
}
TEXTS = {
    r"^/proc\b": "looks at other processes and at their memory (/proc)",
    r"^/(etc|root|home|tmp|var|usr|dev|sys|work)\b": "names a place outside its folder",
    r"(^|/)\.\.(/|$)": "names a place outside its folder",
    r"\b(solutions?|_kit)\b(?=.*[/.]|$)": "names the solutions",
    r"\b(results\.json|gradebook|grades\.csv)\b": "names a file of results",
    r'"(passed|score|value)"\s*:': "writes what looks like a verdict or an answer",
}


def oddities(pieces: Iterable[tuple[str, int, ast.stmt]]) -> list[str]:
    """Notes on some statements, each with its place and the line that its own first line has there.

    >>> oddities([("cell 2", 5, ast.parse("import os; os._exit(0)").body[1])])
    ['for a person to look at: cell 2, line 5 ends the process at once (os._exit)']
    """
    found: dict[str, str] = {}
    names: dict[str, str] = {}
    for place, line, statement in pieces:
        names |= _imported(statement)
        for node in ast.walk(statement):
            for words, what in _in(node, names):
                at = line + getattr(node, "lineno", statement.lineno) - statement.lineno
                found.setdefault(words, f"for a person to look at: {place}, line {at} {words} ({what})")
    notes = list(found.values())
    more = [f"for a person to look at: {len(notes) - MOST} more things of this kind"] if len(notes) > MOST else []
    return notes[:MOST] + more


def _imported(statement: ast.stmt) -> dict[str, str]:
    """What the names that a statement imports stand for."""
    names: dict[str, str] = {}
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            names |= {one.asname: one.name for one in node.names if one.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return names


def _in(node: ast.AST, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        module = getattr(node, "module", None) or ""
        for one in node.names:
            yield from _named(f"{module}.{one.name}".lstrip("."))
    elif isinstance(node, ast.Attribute | ast.Name):
        yield from _named(_dotted(node, names))
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and _dotted(node.value, names) in (
            "builtins", "json", "os", "sys", "copy", "ctxlab",
        ):  # fmt: skip
            yield "puts something of its own into a module that others use", _dotted(node, names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        text = node.value if isinstance(node.value, str) else node.value.decode(errors="replace")
        yield from ((words, repr(text[:40])) for mark, words in TEXTS.items() if re.search(mark, text))
    elif isinstance(node, ast.ClassDef):
        if any(name in ("__eq__", "__ne__") for name in _members(node)):
            yield "makes objects that decide for themselves what they are equal to", node.name
    elif isinstance(node, ast.ExceptHandler) and node.type is None:
        yield "catches every exception, exits too", "except:"
    elif isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
        if not any(isinstance(one, ast.Break | ast.Return | ast.Raise) for one in ast.walk(node)):
            yield "has a loop without an end", "while True"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec", "setattr"):
        yield "makes or changes code while it runs", node.func.id


def _named(name: str) -> Iterator[tuple[str, str]]:
    last = name.rpartition(".")[2]
    for words, marks in NAMES.items():
        for mark in marks:
            begins = mark.rstrip("*")
            if name == begins or name.startswith(begins if mark.endswith("*") else f"{begins}.") or last == begins:
                yield words, name or begins


def _dotted(node: ast.AST, names: Mapping[str, str]) -> str:
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, names)}.{node.attr}"
    return ""


def _members(node: ast.ClassDef) -> Iterator[str]:
    for one in node.body:
        if isinstance(one, ast.FunctionDef):
            yield one.name
        elif isinstance(one, ast.Assign):
            yield from (target.id for target in one.targets if isinstance(target, ast.Name))
