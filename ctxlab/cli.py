"""The command line, thin: parse, call, print.

Data goes to stdout, words to stderr. Exit status: 0 fine, 1 the answer is no (violations found, checks fail), 2 wrong
use or unusable input, with one clear error and a hint.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctxlab import __version__
from ctxlab.errors import CtxlabError

if TYPE_CHECKING:
    from ctxlab.formats import Conversation

FORMAT = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="For people, or for machines."
)
PROVIDER = click.option("--provider", default=None, metavar="NAME", help="Whose rules: openai, anthropic, gemini, ...")
CONVERSATION = click.option(
    "--conversation", default=0, metavar="N", help="Which one, in a file that holds several; from 0."
)
LOG = click.argument("file", type=click.Path(path_type=Path))  # "-" is standard input


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


def _json(data: object, indent: int | None = 2) -> str:
    """JSON that any reader can decode: as it is written, but a lone surrogate (no UTF-8 has one) as its escape."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    return (
        text
        if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)
        else json.dumps(data, indent=indent)
    )


def _print(text: str) -> None:
    """Data to stdout: UTF-8 whatever the locale, newlines as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8"))
    sys.stdout.buffer.flush()


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8", newline="")
    except OSError as error:
        raise CtxlabError(f"cannot write {path}: {error.strerror}", hint="choose another --output") from None


def _load(file: Path, conversation: int, *, surface: bool = False, told: bool = True) -> Conversation:
    """The log in ``file``, or on standard input. ``told``: say on stderr what is not in what was read."""
    from ctxlab.formats import load

    source = sys.stdin.buffer if str(file) == "-" else file
    loaded = load(source, conversation=conversation, surface=surface)
    for problem in loaded.problems:
        if told and problem.kind in ("bad_line", "torn_line", "bad_record", "bad_encoding", "conversations"):
            click.echo(f"note: {problem.text}", err=True)
    return loaded


@main.command()
@LOG
@click.option("--window", type=click.IntRange(min=1), help="Tokens of the model's window; default by model or format.")
@click.option(
    "--reserve", type=click.IntRange(min=0), help="Tokens kept for the completion; default by model or format."
)
@click.option("--margin", type=click.IntRange(min=0), default=0, show_default=True, help="Tokens of safety margin.")
@click.option("--keep-recent", type=click.IntRange(min=0), help="Messages that the cut keeps; default 6 (picked).")
@click.option("--encoding", default="o200k_base", show_default=True, help="Which tokenizer counts.")
@click.option("--surface", is_flag=True, help="What the next request carries, once the log's compactions are applied.")
@CONVERSATION
@PROVIDER
@FORMAT
@click.pass_context
def inspect(
    ctx: click.Context,
    file: Path,
    window: int | None,
    reserve: int | None,
    margin: int,
    keep_recent: int | None,
    encoding: str,
    surface: bool,
    conversation: int,
    provider: str | None,
    form: str,
) -> None:
    """Show where the tokens of a log went.

    And what a request that carries all of it would meet: it looks at the record, every message that the log holds;
    --surface looks at what is left of it after the log's own compactions. FILE may be - for standard input. Exit
    status 1: such a request would be refused (over the window, or a rule of its provider is broken).

    Example: ctxlab inspect ~/.claude/projects/app/session.jsonl --window 200000
    """
    from ctxlab.budget import KEEP_RECENT
    from ctxlab.inspection import inspect_conversation

    found = inspect_conversation(
        _load(file, conversation, surface=surface, told=False),
        window=window,
        reserve=reserve,
        margin=margin,
        encoding=encoding,
        keep_recent=KEEP_RECENT if keep_recent is None else keep_recent,
        provider=provider,
    )
    if form == "json":
        _print(_json({"file": str(file), **found.to_json()}) + "\n")
    else:
        from ctxlab import terminal

        console = terminal.console()
        console.print(terminal.inspection(found, width=console.width, surface=surface))
    ctx.exit(0 if found.ok else 1)


@main.command()
@LOG
@PROVIDER
@click.option("--warnings", is_flag=True, help="Also what only some versions or servers refuse.")
@CONVERSATION
@FORMAT
@click.pass_context
def validate(
    ctx: click.Context, file: Path, provider: str | None, warnings: bool, conversation: int, form: str
) -> None:
    """Would this history be a 400?

    Without --provider, every provider is asked and the log's own decides. FILE may be - for standard input. Exit
    status 1: a violation was found.

    Example: ctxlab validate history.json --provider anthropic
    """
    from ctxlab.inspection import NATIVE_PROVIDER, violation_json
    from ctxlab.providers import PROVIDERS
    from ctxlab.providers import validate as ask

    loaded = _load(file, conversation)
    decides = provider or NATIVE_PROVIDER.get(loaded.format, "openai")
    names = [provider] if provider else list(dict.fromkeys((decides, *PROVIDERS)))
    found = {name: ask(loaded.messages, name, warnings=warnings) for name in names}
    errors = [violation for violation in found[decides] if violation.severity == "error"]
    if form == "json":
        listed = {name: [violation_json(v) for v in violations] for name, violations in found.items()}
        _print(_json({"file": str(file), "provider": decides, "ok": not errors, "violations": listed}) + "\n")
    else:
        from ctxlab import terminal

        console = terminal.console()
        for name, violations in found.items():
            decided = " (decides)" if name == decides and len(names) > 1 else ""
            console.print(f"{name}{decided}: {terminal.tally(violations)}")
            for line in terminal.violations(violations):
                console.print(line)
    ctx.exit(1 if errors else 0)


@main.command()
@LOG
@click.option(
    "--mode", type=click.Choice(["append", "discard"]), default="append", show_default=True,
    help="Answer dangling calls with a message that says so, or drop the round that they belong to.",
)  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write the history here and not to stdout.")
@CONVERSATION
@click.option(
    "--format", "form", type=click.Choice(["json", "jsonl"]), default="json", show_default=True,
    help="One JSON list, or a message a line.",
)  # fmt: skip
def repair(file: Path, mode: str, output: Path | None, conversation: int, form: str) -> None:
    """Mend a broken history.

    Its messages go to stdout as OpenAI-shaped JSON, each step to stderr. The file itself is never changed. FILE may be
    - for standard input.

    Example: ctxlab repair broken.json --mode discard -o mended.json
    """
    from ctxlab.repairs import explain_repair
    from ctxlab.repairs import repair as mend

    messages = _load(file, conversation).messages
    for step in explain_repair(messages, mode):
        click.echo(step.why, err=True)
    mended = mend(messages, mode)
    lines = [_json(mended)] if form == "json" else [_json(message, indent=None) for message in mended]
    text = "".join(f"{line}\n" for line in lines)
    if output is None:
        _print(text)
        return
    if output.exists() and file.exists() and output.samefile(file):
        raise CtxlabError(f"{output} is the file that is read", hint="write the mended history beside it")
    _write(output, text)
    click.echo(f"wrote {len(mended)} messages to {output}", err=True)


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--exercise", metavar="NAME", help="Grade exactly this one; default: those that a submission is for.")
@click.option("--seed", type=int, default=0, show_default=True, help="The checks' values are drawn from it.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Workers at once.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "junit"]), default="text", show_default=True,
    help="For people, for machines, or JUnit XML for CI.",
)  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write the report here and not to stdout.")
@click.pass_context
def grade(
    ctx: click.Context,
    paths: tuple[Path, ...],
    exercise: str | None,
    seed: int,
    jobs: int,
    form: str,
    output: Path | None,
) -> None:
    """Grade a class's submissions.

    A submission is a notebook, a .py file, or a folder of them. A learner's code runs in a process of its own; what it
    answers is compared outside of it. Exit status: 0 every required check passed, 1 not so, 2 nothing that was given
    could be read.

    Example: ctxlab grade submissions --seed 7 --format junit -o report.xml
    """
    from ctxlab.grading import grade as grade_all

    report = grade_all(paths, exercise=exercise, seed=seed, jobs=jobs)
    if form == "text" and output is None:
        from ctxlab import terminal

        terminal.console().print(report)
    else:
        texts = {"json": lambda: _json(report.to_json()) + "\n", "junit": report.to_junit}
        text = texts.get(form, lambda: report.to_text(passed=True) + "\n")()
        if output is None:
            _print(text)
        else:
            _write(output, text)
    ctx.exit(report.exit_code)


@main.command()
@click.option("--target", type=click.Path(path_type=Path), help="Folder of the notebooks; default: the kit's own.")
@click.option("--source", type=click.Path(path_type=Path), help="Folder of the solutions; default: the kit's own.")
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 where a rebuild would change something.")
@FORMAT
@click.pass_context
def release(ctx: click.Context, target: Path | None, source: Path | None, check: bool, form: str) -> None:
    """Generate the exercises from the solutions.

    A notebook for each. A rebuild of what is up to date changes nothing.

    Example: ctxlab release --check
    """
    from ctxlab.grading import release as rebuild

    done = rebuild(target, source, write=not check)
    if form == "json":
        _print(_json(done.to_json()) + "\n")
    else:
        click.echo(done)
    ctx.exit(1 if check and not done.up_to_date else 0)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("context-lab"), required=False)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option("--port", type=click.IntRange(0, 65535), default=8888, show_default=True, help="Tried first; 0 is any.")
@click.pass_context
def lab(ctx: click.Context, folder: Path, no_browser: bool, port: int) -> None:
    """Open the lessons in JupyterLab.

    On a working copy of the lessons and exercises, in FOLDER. What is in the folder already is never written over.

    Example: ctxlab lab context-lab
    """
    from ctxlab.lab import open_lab

    ctx.exit(open_lab(folder, browser=not no_browser, port=port))
