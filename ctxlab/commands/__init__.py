"""Groups of commands, a module each; `cli` puts them on the command line.

Here is what they share: the options, and how data goes out. Data goes to stdout, words to stderr; what a command of the
lab says to the learner is its data.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from ctxlab.errors import CtxlabError

FORMAT = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="For people, or for machines."
)


def put(text: str, end: str = "\n") -> None:
    """Data to stdout: UTF-8 whatever the locale (a lone surrogate as its escape), after what was printed before it."""
    sys.stdout.flush()
    sys.stdout.buffer.write(f"{text}{end}".encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def json_text(data: Any, indent: int | None = 2) -> str:
    """JSON that any reader decodes: as written, or as escapes where it has a lone surrogate, which no UTF-8 has."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    return json.dumps(data, indent=indent) if any("\ud800" <= char <= "\udfff" for char in text) else text


def put_json(data: Any) -> None:
    """Data to stdout as JSON."""
    put(json_text(data))


def write(path: Path, text: str) -> None:
    """Data to a file that the user named. Raises `CtxlabError` where it cannot be written."""
    try:
        path.write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise CtxlabError(f"cannot write {path}: {error.strerror}", hint="choose another --output") from None


def note(text: str) -> None:
    """A remark to stderr."""
    click.echo(f"note: {text}", err=True)
