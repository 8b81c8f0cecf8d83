"""Start something that stays: ``lab`` (JupyterLab), ``mock-api`` (a strict API on loopback)."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
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


@click.command("mock-api")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0 is any free one.")
@click.option("--window", type=click.IntRange(min=1), default=128_000, show_default=True, help="Tokens of the window.")
@click.option("--key", help="Refuse every other key; default: any key is good.")
def mock_api(port: int, window: int, key: str | None) -> None:
    """Serve a strict API on loopback, until Ctrl-C.

    OpenAI- and Anthropic-shaped: it refuses what the real ones refuse, in their words, counts tokens and overflows.
    Each request is one line on stderr, with the rule that a refused one broke.

    Example: ctxlab mock-api --window 8192
    """
    from ctxlab.mock_api import run

    run(port, window=window, key=key)


COMMANDS = (lab, mock_api)
