"""``ctxlab start``, ``chat``, ``fork``, ``show`` and ``doctor``: the hands-on lab on the command line."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ctxlab.commands import FORMAT, note, put, put_json
from ctxlab.commands.sessions import existing_store

if TYPE_CHECKING:
    from ctxlab.hands_on import Functions, Lab

SESSION = click.option("--session", default="main", show_default=True, metavar="NAME", help="Which session.")
MOCK = click.option("--mock", is_flag=True, help="The scripted model, as MOCK=1 does.")
EXERCISES = click.option(
    "--exercises",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder or file with your functions (repeatable; the first that has one gives it). Default: exercises, else "
    "context-lab/exercises, else the kit's untouched ones.",
)


@click.command()
@SESSION
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds to play; default 12 (picked), about 12,000 tokens.")
@click.option("--check", is_flag=True, help="Ask the five acceptance criteria, in fresh processes.")
@MOCK
@EXERCISES
@FORMAT
@click.pass_context
def start(
    ctx: click.Context,
    session: str,
    rounds: int | None,
    check: bool,
    mock: bool,
    exercises: tuple[Path, ...],
    form: str,
) -> None:
    """Play a conversation on your four functions.

    A scripted customer asks about orders until the threshold is passed; every message goes through your
    append_message, and at the end your compress_if_needed shortens the history. With MOCK=1 the scripted model answers,
    else the endpoint of OPENAI_BASE_URL, OPENAI_API_KEY and CTXLAB_MODEL. --rounds 30 is the lesson's worked example.

    Example: ctxlab start --mock
    """
    from ctxlab import hands_on

    if check:
        _check(ctx, exercises, form)
        return
    with _speaking(form) as say:
        lab = _lab(exercises, mock, say)
        played = hands_on.start(lab, session, hands_on.ROUNDS if rounds is None else rounds, say)
        for line in played.lines:
            say(line)
    if form == "json":
        put_json({**played.to_json(), "incomplete": list(lab.functions.blank)})


def _check(ctx: click.Context, exercises: tuple[Path, ...], form: str) -> None:
    from ctxlab.hands_on import check_lab, default_exercises

    verdicts = check_lab(exercises or default_exercises())
    if form == "json":
        put_json({"passed": all(one.passed for one in verdicts), "criteria": [one.to_json() for one in verdicts]})
    else:
        for line in (line for one in verdicts for line in one.lines):
            put(line)
        put(f"{sum(one.passed for one in verdicts)} of {len(verdicts)} criteria pass")
    ctx.exit(0 if all(one.passed for one in verdicts) else 1)


@click.command()
@click.argument("text")
@SESSION
@MOCK
@EXERCISES
@FORMAT
def chat(text: str, session: str, mock: bool, exercises: tuple[Path, ...], form: str) -> None:
    """Say something in a session, and get the answer.

    The session is read back from disk first, and it says what was recovered; your message and all that follows from it
    are appended one by one, so that nothing is lost when it is stopped.

    Example: ctxlab chat --mock "I live in Shanghai, please note that"
    """
    from ctxlab import hands_on

    with _speaking(form) as say:
        lab = _lab(exercises, mock, say)
        on_text = (lambda part: put(hands_on.visible(part), end="")) if form == "text" else None
        turn = hands_on.chat(lab, text, session, say, on_text)
        if form == "text":
            put("")  # the answer's line ends before anything else is said
        for message in turn.made:
            for call in message.get("tool_calls") or ():
                function = call.get("function") or {}
                click.echo(f"tool: {function.get('name')}({function.get('arguments')})", err=True)
    if form == "text":
        return
    found = turn.recovered
    put_json(
        {
            "session": session,
            "recovered": found.messages,
            "mended": found.mended,
            "told": str(found),
            "reply": turn.reply,
            "messages": list(turn.made),
            "incomplete": list(lab.functions.blank),
        }
    )


@click.command()
@click.argument("at", metavar="N", type=int)
@SESSION
@EXERCISES
@FORMAT
def fork(at: int, session: str, exercises: tuple[Path, ...], form: str) -> None:
    """Fork a session after its first N messages.

    Through your fork_session. Prints the new session's id, which --session takes.

    Example: ctxlab fork 4 --session main
    """
    from ctxlab import hands_on
    from ctxlab.models import MockModel

    with _speaking("json") as say:  # the id alone goes to stdout
        lab = hands_on.Lab(_functions(exercises, say), MockModel(), note)
        recovered, made = hands_on.fork(lab, at, session)
        say(str(recovered))
        say(str(made))
    if form == "text":
        put(made.id)
        return
    put_json(
        {
            "id": made.id,
            "parentId": made.parent,
            "forkedAt": made.forked_at,
            "messages": made.messages,
            "shared": made.shared,
            "told": str(made),
        }
    )


@click.command()
@click.argument("name", required=False)
@click.option("--session", metavar="NAME", help="The same as NAME; default main.")
@click.option("--store", "url", metavar="URL", help="A folder, sqlite:///... or postgresql://...; default .sessions.")
@click.option("--surface", is_flag=True, help="What the model would be sent now, and not the record.")
@click.option("--turn", type=int, metavar="N", help="Exactly what the model was sent at this turn; 1 is the first.")
@click.option("--verify", is_flag=True, help="Prove it from the hash stored with the turn; without --turn, every turn.")
@FORMAT
@click.pass_context
def show(
    ctx: click.Context,
    name: str | None,
    session: str | None,
    url: str | None,
    surface: bool,
    turn: int | None,
    verify: bool,
    form: str,
) -> None:
    """Show a session's messages.

    With their seq: the record, every message that was appended. Nothing is written. Exit status 1: a
    turn is not what was sent.

    Example: ctxlab show main
    """
    from ctxlab import hands_on

    store = None if url is None else existing_store(url)
    view = hands_on.show(name or session or "main", surface=surface, turn=turn, verify=verify, store=store)
    if form == "json":
        put_json(view.to_json())
    else:
        for one in view.notes:
            note(one)
        for line in view.lines:
            put(line)
    ctx.exit(0 if view.ok else 1)


@click.command()
@FORMAT
@click.pass_context
def doctor(ctx: click.Context, form: str) -> None:
    """Say what is installed, and how to mend what is not.

    Exit status 1: something that the base needs is broken.

    Example: ctxlab doctor
    """
    from ctxlab.doctor import examine

    found = examine()
    if form == "json":
        put_json(found.to_json())
    else:
        for line in found.lines:
            put(line)
    ctx.exit(0 if found.ok else 1)


COMMANDS = (start, chat, fork, show, doctor)


@contextlib.contextmanager
def _speaking(form: str) -> Iterator[Callable[[str], None]]:
    """How to speak to the learner: on stdout, or on stderr where stdout is for a machine; what their own functions
    print goes the same way."""
    if form == "text":
        yield put
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield lambda text: click.echo(text, err=True)


def _functions(exercises: tuple[Path, ...], say: Callable[[str], None]) -> Functions:
    from ctxlab.hands_on import Functions, default_exercises

    functions = Functions(exercises or default_exercises(), say)
    for text in functions.notes:
        note(text)
    return functions


def _lab(exercises: tuple[Path, ...], mock: bool, say: Callable[[str], None]) -> Lab:
    from ctxlab.hands_on import Lab
    from ctxlab.models import MockModel, model_from_environment

    model = MockModel() if mock else model_from_environment()
    return Lab(_functions(exercises, say), model, note)
