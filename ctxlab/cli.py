"""The command line: one group; the commands are in `commands`, thin: parse, call, print.

Data goes to stdout, words to stderr. Exit status: 0 fine, 1 the answer is no (violations found, checks fail), 2 wrong
use or unusable input, with one clear error and a hint.
"""

from __future__ import annotations

import difflib
import os
import sys
from typing import Any

import click

from ctxlab import __version__
from ctxlab.commands import grading, hands_on, lab, logs, sessions
from ctxlab.errors import CtxlabError


class Commands(click.Group):
    """The group: an unknown command gets the closest one that exists, and an error its hint."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with *did you mean*."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not close:
                raise
            raise click.UsageError(f"{error.message} Did you mean {close[0]!r}?", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of ours becomes its sentence, its hint and its exit status."""
        try:
            return super().invoke(ctx)
        except CtxlabError as error:
            click.echo(f"error: {error}", err=True)
            if error.hint:
                click.echo(f"hint: {error.hint}", err=True)
            ctx.exit(error.exit_code)
        except BrokenPipeError:
            # The reader (head, less) went away: that is not an error, and nothing more can be said to it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="ctxlab")
def main() -> None:
    """What goes into a fixed context window: look at it, mend it, learn it, grade it."""


for group in (logs, grading, hands_on, sessions, lab):
    for command in group.COMMANDS:
        main.add_command(command)
