"""Where the kit's files are: lessons, exercises and their solutions, in a checkout or in an installed wheel."""

from __future__ import annotations

from pathlib import Path

from ctxlab.errors import CtxlabError

PARTS = ("notebooks", "exercises", "solutions")


class KitMissing(CtxlabError, FileNotFoundError):
    """A part of the kit is not where it was installed. ``part``, ``looked``."""


def folder(part: str) -> Path:
    """The folder of one part of the kit: ``notebooks``, ``exercises`` or ``solutions``.

    A wheel carries them inside the package, in ``_kit``; in a checkout they stand beside it. Raises `KitMissing`.
    """
    package = Path(__file__).resolve().parent
    looked = [package / "_kit" / part, package.parent / part]
    for path in looked:
        if part in PARTS and path.is_dir():
            return path
    raise KitMissing(
        f"the kit's {part} are not installed",
        hint="install ctxlab from its wheel, or run it from a checkout",
        part=part,
        looked=[str(path) for path in looked],
    )
