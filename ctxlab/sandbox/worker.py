"""The learner's side of the pipe: runs somebody's Python and answers questions about it.

This file is started as a script in a process of its own (``python -I -B worker.py``), before any learner's code, and
imports the standard library alone. It decides nothing: it holds no expected value, no check and no seed. A learner's
code shares this process and may change anything in it; all that it can reach is its own answers.

One JSON object a line each way. The first line gives the limits. Then each question has an ``id``, drawn by the asker
and hard to guess, which its answer must carry. A question with ``services`` may be interrupted by questions of ours
(``{"service": ..., "args": ...}``), which the asker answers first.
"""

from __future__ import annotations

import ast
import json
import linecache
import os
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

# Taken before a learner's code runs, so that a name patched by accident (``json = ...``) breaks nothing here.
_read, _write, _exit, _fstat = os.read, os.write, os._exit, os.fstat
_yield = getattr(os, "sched_yield", os.getpid)  # any system call will do where that one is not to be had (macOS)
_dump = json.JSONEncoder(ensure_ascii=True, allow_nan=False, check_circular=False).encode
_parse = json.JSONDecoder().decode

MAX_DEPTH = 60
MAX_SIZE = 4_000_000  # characters and values in one answer; picked, about the text of a million tokens
FUTURE_FLAGS = 0x1FFE000  # the compiler flags of ``from __future__`` imports


class NotPlain(Exception):
    """A value that JSON has no word for; the text says what and where."""


class Pipe:
    """JSON lines over two file descriptors."""

    def __init__(self, source: int, target: int) -> None:
        self.source, self.target, self.rest = source, target, b""

    def receive(self) -> dict[str, Any] | None:
        """The next object, or None where the asker has gone."""
        while b"\n" not in self.rest:
            chunk = _read(self.source, 1 << 16)
            if not chunk:
                return None
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        found: dict[str, Any] = _parse(line.decode())
        return found

    def send(self, value: dict[str, Any]) -> None:
        """One object as one line."""
        data = memoryview((_dump(value) + "\n").encode())
        while data:
            data = data[_write(self.target, data) :]


def plain(value: Any, where: str = "the answer", depth: int = 0, spent: list[int] | None = None) -> Any:
    """The value as JSON data, text and numbers of a subclass as what they hold; raises `NotPlain`.

    >>> plain({"a": [1, "b", None]})
    {'a': [1, 'b', None]}
    >>> plain({"a": (1,)})
    Traceback (most recent call last):
    ...
    ctxlab.sandbox.worker.NotPlain: a tuple at the answer['a']
    """
    spent = [0] if spent is None else spent
    spent[0] += 1
    kind = type(value)
    if value is None or kind is bool:
        return value
    if issubclass(kind, str):
        text = str.__str__(value)
        spent[0] += len(text)
        if spent[0] > MAX_SIZE:
            raise NotPlain(f"more than {MAX_SIZE:,} characters and values")
        return text
    if issubclass(kind, int):
        if int.bit_length(value) > 256:
            raise NotPlain(f"a number of {int.bit_length(value):,} bits at {where}")
        return int.__int__(value)
    if issubclass(kind, float):
        number = float.__float__(value)
        if number != number or number in (float("inf"), float("-inf")):
            raise NotPlain(f"the number {number} (JSON has none such) at {where}")
        return number
    if spent[0] > MAX_SIZE:
        raise NotPlain(f"more than {MAX_SIZE:,} characters and values")
    if depth >= MAX_DEPTH:
        raise NotPlain(f"more than {MAX_DEPTH} levels inside one another, or a value that holds itself")
    if issubclass(kind, list):
        return [plain(item, f"{where}[{i}]", depth + 1, spent) for i, item in enumerate(list.__iter__(value))]
    if issubclass(kind, dict):
        result = {}
        for key, item in dict.items(value):
            if not isinstance(key, str):
                raise NotPlain(f"a key of type {type(key).__name__} at {where}; JSON keys are text")
            result[str.__str__(key)] = plain(item, f"{where}[{str.__str__(key)!r}]", depth + 1, spent)
        return result
    raise NotPlain(f"a {kind.__name__} at {where}")


def described(error: BaseException) -> dict[str, Any]:
    """An exception as data: its type, its text, and the learner's own lines of the stack, innermost last."""
    try:
        text = str(error)[:2000]
    except Exception:  # noqa: BLE001 - a learner's exception may fail in its own __str__
        text = "(its text cannot be read)"
    lines: list[dict[str, Any]] = []
    trace = error.__traceback__
    while trace is not None and len(lines) < 200:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith("<") and name.endswith(">") and not name.startswith("<frozen"):
            code = linecache.getline(name, trace.tb_lineno).strip()[:200]
            lines.append({"place": name[1:-1], "line": trace.tb_lineno, "code": code})
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.lineno:
        lines.append({"place": "", "line": error.lineno, "code": (error.text or "").strip()[:200]})
    return {"type": type(error).__name__, "text": text, "lines": lines[-4:]}


class Text(str):
    """What a service answers: text that may be awaited too, so that a sync and an async learner both get it."""

    __slots__ = ()

    def __await__(self) -> Any:
        yield from ()
        return str.__str__(self)


class Number(int):
    """A number that may be awaited too."""

    __slots__ = ()

    def __await__(self) -> Any:
        yield from ()
        return int.__int__(self)


class Server:
    """Answers questions about one namespace."""

    def __init__(self, namespace: dict[str, Any], pipe: Pipe, flushes: list[int]) -> None:
        self.namespace, self.pipe, self.flushes = namespace, pipe, flushes
        self.kept: dict[str, Any] = {}
        self.flags = 0
        self.id = ""

    def serve(self) -> None:
        """Answer until the asker hangs up."""
        while (question := self.pipe.receive()) is not None:
            self.id = question["id"]
            _cpu_seconds(question["cpu"])
            try:
                answer = getattr(self, "do_" + question["do"])(question)
            except NotPlain as problem:
                answer = {"problem": str(problem)}
            except BaseException as error:  # noqa: BLE001 - whatever the learner's code raises is an answer
                answer = {"error": described(error)}
            _cpu_seconds(None)
            self.pipe.send({**answer, "id": question["id"]})

    def do_run(self, question: dict[str, Any]) -> dict[str, Any]:
        """Run one piece of the submission; ``file`` and ``line`` say where it stands in it."""
        name, line, source = f"<{question['file']}>", question["line"], question["source"]
        known = linecache.cache.get(name)
        lines = list(known[2]) if isinstance(known, tuple) and len(known) == 4 else []
        fresh = source.splitlines(keepends=True)
        lines += ["\n"] * (line - 1 + len(fresh) - len(lines))
        lines[line - 1 : line - 1 + len(fresh)] = fresh
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
        flags = self.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile("\n" * (line - 1) + source, name, "exec", flags, dont_inherit=True)
        self.flags |= code.co_flags & FUTURE_FLAGS
        if code.co_flags & 0x80:  # a coroutine: the piece awaits at top level
            _finish(types.FunctionType(code, self.namespace)())
        else:
            exec(code, self.namespace)
        return {}

    def do_withhold(self, question: dict[str, Any]) -> dict[str, Any]:
        """From now on lend out modules without some of their functions: calling one of these raises."""
        sys.meta_path.insert(0, _Withholding(question["names"]))
        return {}

    def do_names(self, question: dict[str, Any]) -> dict[str, Any]:
        """Which of the names are there and can be called."""
        return {"value": [name for name in question["names"] if callable(self.namespace.get(name))]}

    def do_install(self, question: dict[str, Any]) -> dict[str, Any]:
        """Put a service in the place of the submission's functions of those names, where it has them."""
        for name, service in question["names"].items():
            if name in self.namespace:
                self.namespace[name] = self.service(service)
        return {}

    def do_put(self, question: dict[str, Any]) -> dict[str, Any]:
        """Keep a value under a name."""
        self.kept[question["kept"]] = question["value"]
        return {}

    def do_get(self, question: dict[str, Any]) -> dict[str, Any]:
        """A kept value as it is now."""
        return {"value": plain(self.kept[question["kept"]], question["kept"])}

    def do_change(self, question: dict[str, Any]) -> dict[str, Any]:
        """Change a kept value in place: set what stands at ``path``, or append there where the path ends in '+'."""
        place, path = self.kept[question["kept"]], list(question["path"])
        last = path.pop()
        for step in path:
            place = place[step]
        if last == "+":
            place.append(question["value"])
        else:
            place[last] = question["value"]
        return {}

    def do_call(self, question: dict[str, Any]) -> dict[str, Any]:
        """Call a function of the submission; says what came back and what the arguments are afterwards."""
        arguments = [self.argument(argument) for argument in question["args"]]
        answer: dict[str, Any] = {}
        del self.flushes[:]
        before = _bytes_read()
        try:
            result = self.namespace[question["function"]](*arguments)
            if question.get("may_await") and hasattr(type(result), "__await__"):
                result = _finish(result)
            if question.get("keep"):
                self.kept[question["keep"]] = result
            answer["value"] = plain(result)
        except NotPlain as problem:
            answer["problem"] = str(problem)
        except BaseException as error:  # noqa: BLE001 - whatever the learner's code raises is an answer
            answer["error"] = described(error)
        answer |= {"flushes": list(self.flushes), "bytes_read": _bytes_read() - before, "after": []}
        for argument, value in zip(question["args"], arguments, strict=True):
            try:
                answer["after"].append(None if "service" in argument else plain(value, "the argument"))
            except NotPlain as problem:
                answer["after"].append({"not plain": str(problem)})
        return answer

    def do_race(self, question: dict[str, Any]) -> dict[str, Any]:
        """Call a function from several processes at once, each with its own list of arguments, and wait for all."""
        function = self.namespace[question["function"]]
        gate, opener = os.pipe()
        children = []
        for calls in question["calls"]:
            child = os.fork()
            if child == 0:
                _run_writer(function, calls, gate, opener)
            children.append(child)
        os.close(gate)
        os.close(opener)  # the end of the file opens the gate for all of them
        return {"value": [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]}

    def argument(self, given: dict[str, Any]) -> Any:
        """One argument: a value, a kept value, or a service."""
        if "kept" in given:
            return self.kept[given["kept"]]
        if "service" in given:
            return self.service(given["service"])
        return given["value"]

    def service(self, name: str) -> Callable[..., Any]:
        """A function whose answer comes from the asker."""

        def ask(*args: Any, **options: Any) -> Any:
            try:
                self.pipe.send({"id": self.id, "service": name, "args": plain([*args, *options.values()])})
            except NotPlain as problem:
                self.pipe.send({"id": self.id, "service": name, "problem": str(problem)})
            reply = self.pipe.receive()
            if reply is None:
                _exit(3)
            if "raise" in reply:
                raise {"TimeoutError": TimeoutError, "ValueError": ValueError}.get(reply["raise"], RuntimeError)(
                    reply["text"]
                )
            value = reply["value"]
            return Text(value) if isinstance(value, str) else Number(value) if isinstance(value, int) else value

        ask.__name__ = ask.__qualname__ = name
        return ask


class _Withholding:
    """An import hook: in the modules of ``names`` the functions listed are replaced by ones that say no."""

    def __init__(self, names: dict[str, list[str]]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self.names:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                load(module)
                for function in self.names[name]:
                    setattr(module, function, _withheld(function))

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _withheld(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise NotImplementedError(f"the library's own {name} is not lent out while {name} is graded: write it yourself")

    return refuse


def _finish(awaitable: Any) -> Any:
    """Wait for an awaitable in an event loop of its own."""
    import asyncio

    async def wait() -> Any:
        return await awaitable

    return asyncio.run(wait())


def _run_writer(function: Callable[..., Any], calls: list[list[Any]], gate: int, opener: int) -> NoReturn:
    """In a child: wait for the gate, then make the calls, giving way at each line so that the writers meet."""

    def give_way(frame: Any, event: str, arg: Any) -> Any:
        _yield()
        return give_way

    status = 0
    try:
        os.close(opener)
        _read(gate, 1)
        sys.settrace(give_way)
        for arguments in calls:
            function(*arguments)
    except BaseException:  # noqa: BLE001 - the exit status says it; nothing of the child may run on
        status = 1
    _exit(status)


def _bytes_read() -> int:
    """How many bytes this process has read so far; 0 where the system does not say."""
    try:
        with open("/proc/self/io") as io:
            return int(io.readline().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _cpu_seconds(allowed: int | None) -> None:
    """Let this process use so many seconds of CPU from now (None: as many as the hard limit leaves)."""
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if allowed is None or hard == resource.RLIM_INFINITY:
        soft = hard
    else:
        used = resource.getrusage(resource.RUSAGE_SELF)
        soft = min(hard, int(used.ru_utime + used.ru_stime) + 1 + allowed)
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
    except (OSError, ValueError):
        return  # the limit was tightened from inside: then the tighter one holds


def limit(limits: dict[str, int]) -> None:
    """Set the process's limits, soft and hard, so that what runs later cannot raise them."""
    try:
        import resource
    except ImportError:
        return
    for name, value in limits.items():
        which = getattr(resource, name, None)
        if which is None:
            continue
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(which, (value, value))
        except (OSError, ValueError):
            continue  # this system does not have it (RLIMIT_AS on macOS); the asker's own clock still holds


def watch_flushes() -> list[int]:
    """Note each flush to disk (the file's size at that moment), by ``fsync``, ``fdatasync`` or a file opened O_SYNC."""
    seen: list[int] = []

    def wrap(flush: Callable[[Any], None]) -> Callable[[Any], None]:
        def noted(file: Any) -> None:
            flush(file)
            seen.append(_fstat(file if isinstance(file, int) else file.fileno()).st_size)

        return noted

    for name in ("fsync", "fdatasync"):
        if hasattr(os, name):
            setattr(os, name, wrap(getattr(os, name)))
    sync = getattr(os, "O_SYNC", 0) | getattr(os, "O_DSYNC", 0)

    def opened(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[2], int) and args[2] & sync:
            seen.append(-1)

    sys.addaudithook(opened)
    return seen


def put_up_walls(plan: dict[str, Any], pipe: Pipe) -> None:
    """Shut this process off as the plan says; raises OSError. The module for it lies beside this file."""
    if plan:
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location("walls", os.path.join(os.path.dirname(os.path.abspath(__file__)), "walls.py"))
        if spec is None or spec.loader is None:
            raise OSError("walls.py cannot be loaded")
        walls = module_from_spec(spec)
        spec.loader.exec_module(walls)
        walls.enter(plan, (pipe.source, pipe.target))


def main() -> None:
    """Started as a script: ``worker.py READ WRITE`` with the two ends of the pipes."""
    source, target = (int(number) for number in sys.argv[1:3])
    pipe = Pipe(source, target)
    opening = pipe.receive()
    if opening is None:
        return
    # Away from the numbers that stood in the command line; children that a learner's code starts do not inherit them.
    pipe.source, pipe.target = os.dup(source), os.dup(target)
    os.close(source)
    os.close(target)
    sys.argv[:] = [opening["main"]]
    try:
        put_up_walls(opening["plan"], pipe)
    except OSError as error:
        pipe.send({"id": opening["id"], "refused": str(error)})
        return
    limit(opening["limits"])
    # A module of its own, found under its name, so that dataclasses, pickling and type hints of the submission work.
    module = types.ModuleType(opening["main"])
    keep = sys.modules["__main__"]
    sys.modules[opening["main"]] = module
    if opening["package"] not in sys.path:
        sys.path.insert(0, opening["package"])  # the same ctxlab as the asker's, installed or not
    sys.path.insert(0, os.getcwd())
    server = Server(module.__dict__, pipe, watch_flushes())
    pipe.send({"id": opening["id"], "value": "ready"})
    server.serve()
    del keep
    _exit(0)


if __name__ == "__main__":
    main()
