"""``ctxlab tree``: the sessions of a store as trees of forks, with messages, tokens and money."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctxlab.commands import FORMAT, note, put, put_json

if TYPE_CHECKING:
    from ctxlab.cost import Bill, Cost
    from ctxlab.forks import Branch
    from ctxlab.journal import Journal
    from ctxlab.store import Store

HEADS = ("session", "cut at", "own msgs", "in tree", "requests", "tokens in", "out", "own $", "with forks $")


@click.command()
@click.argument("session", required=False)
@click.option("--store", "url", default=".sessions", show_default=True, help="A folder, sqlite:///... or postgresql://")
@click.option("--model", metavar="NAME", help="Whose list prices: gpt-4o, claude-sonnet-4, ... Without it: no money.")
@FORMAT
def tree(session: str | None, url: str, model: str | None, form: str) -> None:
    """Show how sessions were forked, and what each branch cost.

    SESSION's whole tree, from its root; without SESSION every tree of the store. "own msgs" are the messages that a
    branch has for itself, "in tree" those of it and of all forks below it: what they share is counted once. Requests
    and tokens are the branch's own (a request sends the shared part again, and is billed for it; the summariser's
    tokens are among them); the last column adds up the forks below.

    Example: ctxlab tree main --model gpt-4o
    """
    from ctxlab.errors import unknown_name
    from ctxlab.forks import family

    store = existing_store(url)
    names = store.names()
    if session is not None and session not in names:
        raise unknown_name("session", session, names)
    roots = (
        [family(store, session)[0]] if session is not None else list(dict.fromkeys(family(store, n)[0] for n in names))
    )
    trees = [_grown(store, root, model) for root in roots]
    if form == "json":
        put_json([_data(branch, cost) for branch, cost in trees])
        return
    if not trees:
        note(f"no sessions in {store.url}")
        return
    put(table([row for branch, cost in trees for row in _rows(branch, cost, "", "")], money=model is not None))
    price = trees[0][1].price
    if price is not None:
        note(f"prices of {price.date}, ${price.input:g} in and ${price.output:g} out a million tokens ({price.source})")


def existing_store(url: str) -> Store:
    """The store of a URL that is there already: to look at sessions must not make a store. Raises `StoreError`."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    from ctxlab.errors import StoreError
    from ctxlab.store import open_store

    scheme, colon, rest = url.partition("://")
    places = {"sqlite": rest.removeprefix("/"), "file": url2pathname(urlsplit(url).path), "": url}
    place = places.get(scheme.partition("+")[0] if colon else "", "")
    if place and not Path(place).exists():
        raise StoreError(f"no sessions in {place}: it is not there", hint="name the store: --store FOLDER-OR-URL")
    return open_store(url)


def _grown(store: Store, root: str, model: str | None) -> tuple[Branch, Cost]:
    """The tree from a root down and its bill; each session is read once."""
    from ctxlab.cost import PRICES, cost_of
    from ctxlab.forks import family, tree_of
    from ctxlab.journal import Journal

    opened: dict[str, Journal] = {}

    def open_branch(name: str) -> Journal:
        if name not in opened:
            opened[name] = Journal.open(store, name, readonly=True)
        return opened[name]

    _, children = family(store, root)
    return (
        tree_of(store, root, open_branch, children),
        cost_of(root, children, open_branch, model=model, prices=PRICES, overhead=0),
    )


def _messages(branch: Branch) -> int:
    """The messages of a branch and of all below it, each counted once."""
    return branch.own + sum(_messages(child) for child in branch.children)


def _tokens(bill: Bill) -> tuple[int, int]:
    return bill.input_tokens + bill.summary_input_tokens, bill.output_tokens + bill.summary_output_tokens


def _data(branch: Branch, cost: Cost) -> dict[str, Any]:
    """One branch for machines, its forks nested in it."""
    return {
        "id": branch.id,
        "parent_id": branch.parent_id,
        "forked_at": branch.forked_at,
        "messages": {"own": branch.own, "tree": _messages(branch)},
        "own": asdict(cost.own),
        "total": asdict(cost.total),
        "problem": branch.problem,
        "children": [_data(*pair) for pair in zip(branch.children, cost.children, strict=True)],
    }


def _rows(branch: Branch, cost: Cost, lead: str, below: str) -> list[tuple[str, ...]]:
    """A row for a branch and for each fork below it; ``lead`` draws its line, ``below`` that of its forks."""
    cut = "" if branch.forked_at is None else f"{branch.forked_at:,}"
    if branch.problem:
        rows: list[tuple[str, ...]] = [(lead + branch.id, cut, f"cannot be read: {branch.problem}")]
    else:
        tokens = _tokens(cost.own)
        money = [f"{bill.money:.4f}" for bill in (cost.own, cost.total) if bill.money is not None]
        numbers = (branch.own, _messages(branch), cost.own.requests, *tokens)
        rows = [(lead + branch.id, cut, *(f"{number:,}" for number in numbers), *money)]
    last = len(branch.children) - 1
    for place, pair in enumerate(zip(branch.children, cost.children, strict=True)):
        corner, line = ("└─ ", "   ") if place == last else ("├─ ", "│  ")
        rows += _rows(*pair, below + corner, below + line)
    return rows


def table(rows: list[tuple[str, ...]], *, money: bool) -> str:
    """Rows as text: the first column to the left, numbers to the right; a row that is short ends in words."""
    heads = HEADS if money else HEADS[:-2]
    whole = [row for row in [heads, *rows] if len(row) == len(heads)]
    widths = [max(len(row[place]) for row in whole) for place in range(len(heads))]
    widths[0] = max(len(row[0]) for row in [heads, *rows])

    def said(row: tuple[str, ...]) -> str:
        first, *rest = row
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=False)]
        if len(row) < len(heads):
            cells[-1] = rest[-1]
        return "  ".join([first.ljust(widths[0]), *cells]).rstrip()

    return "\n".join(map(said, [heads, *rows]))


COMMANDS = (tree,)
