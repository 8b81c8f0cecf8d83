"""A grading run's results as they come: one JSON line a submission, on disk before the next one is asked for.

A line holds the submission's path, its result, and a key: a hash of all that decides a verdict (the files, the seed,
the exercise, the limits and the kit's own code). A run that was killed is taken up by it: a line whose key still holds
is not graded again. The file is only appended to; of two lines for one path the last one counts. A torn last line
(the run was killed in mid-write) is dropped, and its submission graded again.

`Results` is read back line by line, so a class of any size needs the memory of one submission.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, overload

from ctxlab import __version__
from ctxlab.errors import CtxlabError
from ctxlab.grading.exercises import EXERCISES
from ctxlab.grading.model import CheckResult, ExerciseResult, SubmissionResult
from ctxlab.grading.submissions import Submission


class ResultsRefused(CtxlabError, ValueError):
    """A file of results that a run cannot write to. ``path``."""


@functools.cache
def kit_print() -> str:
    """The kit's version and a hash of its code: a changed check grades anew, also between two versions."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def key_of(submission: Submission, *settings: object) -> str:
    """A hash of all that decides a submission's verdict. A file that cannot be read counts as its error."""
    digest = hashlib.sha256("\0".join([kit_print(), *map(repr, settings)]).encode())
    for path in submission.files:
        try:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            content = type(error).__name__
        digest.update(f"\0{path.name}\0{content}".encode(errors="surrogateescape"))
    return digest.hexdigest()


class Results:
    """The results of one run, in a file (a temporary one where ``path`` is None); a context manager.

    ``problems`` says what was wrong with the lines that were there. Raises `ResultsRefused` for a file that holds
    something already when ``resume`` is not set, and for one that another run is writing to.
    """

    def __init__(self, path: Path | None = None, *, resume: bool = False) -> None:
        self.problems: list[str] = []
        self._places: dict[str, tuple[int, int]] = {}
        self._keys: dict[str, str] = {}
        self._durable = path is not None
        self._file: IO[bytes] = tempfile.TemporaryFile() if path is None else _opened(path)  # noqa: SIM115
        if path is not None:
            try:
                _lock(self._file, path)
                if os.fstat(self._file.fileno()).st_size and not resume:
                    raise ResultsRefused(
                        f"{path} holds results already",
                        hint="--resume goes on with them; or name another file",
                        path=path,
                    )
                self._take_up(path)
            except ResultsRefused:
                self._file.close()
                raise

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def holds(self, path: str, key: str) -> bool:
        """Whether the result of that path is here, and all that decided it is as it was."""
        return self._keys.get(path) == key

    def add(self, result: SubmissionResult, key: str) -> None:
        """Append a result; it is on disk when this returns. A fault of the grader's is graded again on the next run."""
        line = {"path": result.path, "key": "" if result.regrade else key, "result": to_line(result)}
        data = json.dumps(line).encode() + b"\n"
        start = self._file.seek(0, os.SEEK_END)
        self._file.write(data)
        self._file.flush()
        if self._durable:
            os.fsync(self._file.fileno())
        self._places[result.path] = (start, len(data))
        self._keys[result.path] = key

    def read(self, path: str) -> SubmissionResult:
        """The result of one path."""
        start, size = self._places[path]
        self._file.seek(start)
        return from_line(json.loads(self._file.read(size))["result"])

    def of(self, paths: Iterable[str]) -> Kept:
        """The results of these paths, in their order, each read when it is looked at."""
        return Kept(self, tuple(paths))

    def _take_up(self, path: Path) -> None:
        """Find the lines that are there; drop a torn tail."""
        self._file.seek(0)
        start = 0
        for number, data in enumerate(self._file, 1):
            if not data.endswith(b"\n"):
                self.problems.append(f"{path}, line {number}: torn off in mid-write, dropped; it is graded again")
                os.ftruncate(self._file.fileno(), start)
                break
            try:
                line = json.loads(data)
                name, key = line["path"], line["key"]
                if not (isinstance(name, str) and isinstance(key, str) and isinstance(line["result"], dict)):
                    raise TypeError
            except (ValueError, TypeError, KeyError):
                self.problems.append(f"{path}, line {number}: not a result, passed over")
            else:
                self._places[name], self._keys[name] = (start, len(data)), key
            start += len(data)


class Kept(Sequence[SubmissionResult]):
    """Results in an order, read from their file one at a time."""

    def __init__(self, results: Results, paths: tuple[str, ...]) -> None:
        self._results, self._paths = results, paths

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[SubmissionResult]:
        return (self._results.read(path) for path in self._paths)

    @overload
    def __getitem__(self, index: int) -> SubmissionResult: ...
    @overload
    def __getitem__(self, index: slice) -> Kept: ...
    def __getitem__(self, index: int | slice) -> SubmissionResult | Kept:
        if isinstance(index, slice):
            return Kept(self._results, self._paths[index])
        return self._results.read(self._paths[index])


def to_line(result: SubmissionResult) -> dict[str, Any]:
    """A result as its line holds it: as in ``ctxlab grade --format json``, and which file each exercise was in."""
    return {**result.to_json(), "where": {one.exercise.name: one.where for one in result.exercises}}


def from_line(data: dict[str, Any]) -> SubmissionResult:
    """The result that a line of this very kit holds."""
    exercises = []
    for one in data["exercises"]:
        exercise = EXERCISES[one["name"]]
        known = {check.id: check for check in exercise.checks}
        checks = tuple(
            CheckResult(
                known[told["id"]], told["outcome"], told["message"], "grader" in told, skipped="skipped" in told
            )
            for told in one["checks"]
        )
        exercises.append(ExerciseResult(exercise, checks, one["error"], data["where"][one["name"]]))
    return SubmissionResult(data["path"], tuple(exercises), tuple(data["notes"]), data["error"])


def _opened(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab+")
    except OSError as error:
        raise ResultsRefused(f"cannot write {path}: {error.strerror}", hint="name another file", path=path) from None


def _lock(file: IO[bytes], path: Path) -> None:
    """Hold the file for this run: two that append would grade everybody twice."""
    try:
        import fcntl
    except ImportError:  # Windows, where no submission is graded in a process of its own anyway
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ResultsRefused(
            f"another run is writing to {path}", hint="wait for it, or name another file", path=path
        ) from None
