"""The package's errors: one small tree.

Every error says what was found, where, and how to mend it. The sentence is ``str(error)``; the way out is
``error.hint``; the numbers are attributes (``error.index``, ``error.line``, ...), so that a caller never parses
a sentence. Each class also derives from the builtin that a caller would expect to catch.
"""

from __future__ import annotations

from typing import Any


class CtxlabError(Exception):
    """Base of every error that ctxlab raises on purpose.

    ``hint`` says how to mend it (may be empty). ``facts`` are the numbers and names behind the sentence; each is
    also an attribute. ``exit_code`` is what the command line returns for it: 2, wrong use or unusable input.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "", **facts: Any) -> None:
        super().__init__(message)
        self.hint = hint
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the sentence, the hint, and the lines of the person's own code that led here."""
        import traceback

        here = __file__.rpartition("errors.py")[0]
        frames = traceback.extract_tb(self.__traceback__)
        own = [frame for frame in frames if not frame.filename.startswith(here) and "/IPython/" not in frame.filename]
        hint = [f"hint: {self.hint}"] if self.hint else []
        lines = [f"  line {frame.lineno}: {frame.line}" for frame in own if frame.line]
        return [f"{type(self).__name__}: {self}", *hint, *lines]

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), self.hint, self.facts)


def _rebuild(kind: type[CtxlabError], message: str, hint: str, facts: dict[str, Any]) -> CtxlabError:
    return kind(message, hint=hint, **facts)


class MalformedMessage(CtxlabError, ValueError):
    """Something that should be a chat message is not one. ``index``: its place in the list, or None."""


class UnknownName(CtxlabError, ValueError):
    """A name (of an encoding, a provider, a mode, an exercise, ...) that does not exist. ``name``, ``known``."""


class RanksError(CtxlabError, RuntimeError):
    """The tokenizer's rank data is missing or is not the data that tiktoken expects. ``encoding``."""


class BudgetError(CtxlabError, ValueError):
    """A budget or a threshold that cannot work: nothing is left for the history."""


class CutIndexError(CtxlabError, IndexError):
    """A cut or a fork outside the history. ``index``, ``length``."""


class LogFormatError(CtxlabError, ValueError):
    """A file that is not a log which ctxlab reads. ``file``, ``line`` (1-based, or None), ``expected``."""


def unknown_name(what: str, name: object, known: list[str]) -> UnknownName:
    """The error for a name that does not exist, with the closest one that does.

    >>> print(unknown_name("provider", "opnai", ["openai", "gemini"]).hint)
    did you mean 'openai'? known: openai, gemini
    """
    import difflib

    close = difflib.get_close_matches(str(name), known, n=1)
    start = f"did you mean {close[0]!r}? " if close else ""
    return UnknownName(
        f"unknown {what} {name!r}", hint=f"{start}known: {', '.join(known) or 'none'}", name=name, known=known
    )


class LogRefused(CtxlabError, ValueError):
    """An event that the log's rules forbid, such as a replace that does not list all that it shadows. ``seq``."""


class SessionBusy(CtxlabError, RuntimeError):
    """Another writer holds the session, or a compaction of it is running. ``session``."""


class UnknownSession(CtxlabError, LookupError):
    """No session of that id in the store. ``session``, ``known``."""


class SessionExists(CtxlabError, ValueError):
    """A session of that id is there already. ``session``."""


class StoreError(CtxlabError, OSError):
    """The store could not write or read; what was acknowledged before is whole. ``session``."""


class ParentLost(CtxlabError, LookupError):
    """A fork's parent is gone, or is no longer the log that was forked. ``session``, ``parent``."""


class ForkRefused(CtxlabError, ValueError):
    """A fork inside an open turn. ``index``, ``before`` and ``after``: the nearest legal cuts (after may be None)."""


class MalformedTool(CtxlabError, ValueError):
    """Something that should be a tool definition is not one. ``index``: its place in the list, or None."""


class WrongArgument(CtxlabError, ValueError):
    """An argument that a function cannot work with. ``name``, ``value``."""


class ModelError(CtxlabError, RuntimeError):
    """A model that did not answer. ``status`` (HTTP, or None), ``code``, ``attempts``, ``partial``: the text so far."""


class ModelRefused(ModelError):
    """The API refused the request itself (a 4xx). ``status``, ``code``, ``text``, ``violations``: the broken rules."""


class UnknownItem(CtxlabError, LookupError):
    """No item of that id in the memory. ``item``."""


class Superseded(CtxlabError, ValueError):
    """An item of the memory that was replaced already. ``item``, ``by``: the item that holds now."""
