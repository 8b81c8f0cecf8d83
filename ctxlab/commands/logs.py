"""Look at recorded conversations: ``inspect``, ``validate``, ``repair``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ctxlab.commands import FORMAT, json_text, note, put, put_json, write
from ctxlab.errors import CtxlabError

if TYPE_CHECKING:
    from ctxlab.formats import Conversation

PROVIDER = click.option("--provider", default=None, metavar="NAME", help="Whose rules: openai, anthropic, gemini, ...")
CONVERSATION = click.option(
    "--conversation", default=0, metavar="N", help="Which one, in a file that holds several; from 0."
)
LOG = click.argument("file", type=click.Path(path_type=Path))  # "-" is standard input


def _load(file: Path, conversation: int, *, surface: bool = False, told: bool = True) -> Conversation:
    """The log in ``file``, or on standard input. ``told``: say on stderr what is not in what was read."""
    from ctxlab.formats import load

    source = sys.stdin.buffer if str(file) == "-" else file
    loaded = load(source, conversation=conversation, surface=surface)
    for problem in loaded.problems:
        if told and problem.kind in ("bad_line", "torn_line", "bad_record", "bad_encoding", "conversations"):
            note(problem.text)
    return loaded


@click.command()
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
        put_json({"file": str(file), **found.to_json()})
    else:
        from ctxlab import terminal

        console = terminal.console()
        console.print(terminal.inspection(found, width=console.width, surface=surface))
    ctx.exit(0 if found.ok else 1)


@click.command()
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
        put_json({"file": str(file), "provider": decides, "ok": not errors, "violations": listed})
    else:
        from ctxlab import terminal

        console = terminal.console()
        for name, violations in found.items():
            decided = " (decides)" if name == decides and len(names) > 1 else ""
            console.print(f"{name}{decided}: {terminal.tally(violations)}")
            for line in terminal.violations(violations):
                console.print(line)
    ctx.exit(1 if errors else 0)


@click.command()
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
    lines = [json_text(mended)] if form == "json" else [json_text(message, indent=None) for message in mended]
    text = "".join(f"{line}\n" for line in lines)
    if output is None:
        put(text, end="")
        return
    if output.exists() and file.exists() and output.samefile(file):
        raise CtxlabError(f"{output} is the file that is read", hint="write the mended history beside it")
    write(output, text)
    click.echo(f"wrote {len(mended)} messages to {output}", err=True)


COMMANDS = (inspect, validate, repair)
