"""How things look in a terminal: rich renderings of what the pure functions returned. Nothing is decided here."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ctxlab.budget import Budget
    from ctxlab.inspection import Inspection, RoundGrowth
    from ctxlab.providers import Violation

# The same colours and letters as the widgets: the letter tells the parts apart where colour does not.
PARTS = {
    "system": ("S", "#0072B2"),
    "tools": ("T", "#E69F00"),
    "history": ("H", "#009E73"),
    "reserve": ("R", "#CC79A7"),
    "margin": ("M", "#7F7F7F"),
    "free": ("·", "default"),
    "over": ("!", "bold white on #D55E00"),
}


def cells(amounts: Sequence[int], total: int, width: int) -> list[int]:
    """How many of ``width`` cells each amount gets: at least one for anything that is not nothing, never more in all.

    >>> cells([10, 0, 90], 100, 20)
    [2, 0, 18]
    >>> cells([1, 999], 1000, 10)
    [1, 9]
    """
    if total <= 0 or not any(amounts):
        return [0] * len(amounts)
    exact = [amount * width / total for amount in amounts]
    result = [max(1, int(part)) if amount else 0 for part, amount in zip(exact, amounts, strict=True)]
    limit = min(width, max(sum(1 for amount in amounts if amount), round(sum(amounts) * width / total)))
    while sum(result) > limit and max(result) > 1:
        result[result.index(max(result))] -= 1
    order = sorted(range(len(amounts)), key=lambda i: exact[i] - int(exact[i]), reverse=True)
    for index in order:
        if sum(result) < limit and amounts[index]:
            result[index] += 1
    return result


def budget_bar(budget: Budget, history: int, width: int) -> Text:
    """One line: the parts against the window, ``width`` cells wide; what goes over is marked with ``!``."""
    over = budget.overflow(history)
    fixed = budget.system + budget.tools + budget.reserve + budget.margin
    names = ["system", "tools", "history", "reserve", "margin", "free" if not over else "over"]
    free = over if over else budget.window - fixed - history
    kept = history - over if over else history
    amounts = [budget.system, budget.tools, max(0, kept), budget.reserve, budget.margin, free]
    bar = Text()
    for name, count in zip(names, cells(amounts, sum(amounts), width), strict=True):
        letter, style = PARTS[name]
        bar.append(letter * count, style=style)
    return bar


def budget_table(budget: Budget, history: int) -> Table:
    """The parts with their tokens and their share of the window."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    table.add_column(justify="right")
    rows = [
        ("system", budget.system),
        ("tools", budget.tools),
        ("history", history),
        ("reserve", budget.reserve),
        ("margin", budget.margin),
    ]
    for name, tokens in rows:
        letter, style = PARTS[name]
        share = f"{100 * tokens / budget.window:.1f}%"
        table.add_row(Text(f"{letter} {name}", style=style), f"{tokens:,}", share)
    over = budget.overflow(history)
    last = ("! over by", over) if over else ("· free", budget.window - sum(tokens for _, tokens in rows))
    table.add_row(last[0], f"{last[1]:,}", f"{100 * last[1] / budget.window:.1f}%")
    return table


def inspection(found: Inspection, *, width: int = 100, surface: bool = False) -> RenderableType:
    """The whole report of ``ctxlab inspect``. ``surface``: what is shown is what the log's compactions left."""
    budget = found.budget
    roles = ", ".join(f"{count} {role}" for role, count in sorted(found.roles.items()))
    head = Text.assemble(
        (f"{found.format}", "bold"),
        f"{found.model and '  '}{found.model}  {many(found.messages, 'message')}{f' ({roles})' if roles else ''}, "
        f"{many(found.calls, 'tool call')}\n"
        f"window {budget.window:,} tokens, {budget.history:,} of them for the history; counted with {found.encoding}",
    )
    verdict = budget.verdict(found.history_tokens)
    parts: list[RenderableType] = [head, Text(), budget_bar(budget, found.history_tokens, min(width, 100))]
    parts.append(budget_table(budget, found.history_tokens))
    if verdict.over:
        parts.append(Text(f"A request that carries all of it: {verdict.text}.", "bold red"))
    if found.compactions and not surface:
        times = many(found.compactions, "time")
        told = f"This is the record; the log was compacted {times}. --surface shows what that left."
        parts.append(Text(told))
    parts += [Text("\nThe biggest items", "bold"), _biggest(found, width)]
    parts += [Text("\nGrowth by round", "bold"), _growth(found.rounds, width)]
    parts += [Text("\nWhere each trigger would have fired", "bold"), _firings(found)]
    parts += [Text("\nWhere the cut would land", "bold"), _cut(found)]
    parts += [Text("\nWould this be a 400?", "bold"), *_violations(found)]
    parts += [Text("\nWhat the log itself tells", "bold"), *_problems(found)]
    return Group(*parts)


def _biggest(found: Inspection, width: int) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("message", justify="right", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("what", no_wrap=True)
    table.add_column("begins", no_wrap=True)
    # Cut to size here: rich takes from all columns alike, and a number that is cut is a wrong number.
    room = max(24, width - 20)  # beside "message", the largest count, and two spaces between columns
    for item in found.biggest:
        what, begins = Text(item.what), Text(item.preview)
        what.truncate(min(32, room // 3), overflow="ellipsis")
        begins.truncate(room - min(32, room // 3) - 2, overflow="ellipsis")
        table.add_row("" if item.index is None else str(item.index), f"{item.tokens:,}", what, begins)
    return table


def _growth(rounds: Sequence[RoundGrowth], width: int, most: int = 15) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("round", "messages", "added", "history", "billed so far"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    largest = max((growth.history for growth in rounds), default=1) or 1
    step = max(1, -(-len(rounds) // most))
    shown = [growth for index, growth in enumerate(rounds) if index % step == 0 or index == len(rounds) - 1]
    for growth in shown:
        table.add_row(
            str(growth.round),
            f"{growth.start}-{growth.end - 1}",
            f"{growth.added:,}",
            f"{growth.history:,}",
            f"{growth.billed:,}",
            Text("▇" * round(growth.history / largest * max(8, width - 60)), PARTS["history"][1]),
        )
    return table


def _firings(found: Inspection) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for firing in found.firings:
        if firing.trigger is None:
            told = f"cannot work: {firing.why}"
        elif firing.index is None:
            told = f"at {firing.trigger:,} tokens ({firing.why}): never reached"
        else:
            told = f"at {firing.trigger:,} tokens ({firing.why}): at message {firing.index}, with {firing.tokens:,}"
        table.add_row(firing.rule, told)
    return table


def _cut(found: Inspection) -> RenderableType:
    cut = found.cut
    lines = [
        f"keeping the last {cut.keep_recent} messages cuts at {cut.raw}; "
        f"pair-safe at {cut.pair_safe}; at the round's start at {cut.round_start}"
    ]
    lines += [f"  {step['why']}" for step in cut.steps[:8]]
    if len(cut.steps) > 8:
        lines.append(f"  ... and {len(cut.steps) - 8} more steps")
    return Text("\n".join(lines))


def violations(found: Iterable[Violation], *, most: int = 10) -> list[RenderableType]:
    """Each violation: where, which rule, what the API would say, and what mends it. A warning says that it is one."""
    listed = list(found)
    lines: list[RenderableType] = []
    for violation in listed[:most]:
        place = "the request" if violation.index is None else f"message {violation.index}"
        rule = violation.rule if violation.severity == "error" else f"{violation.rule} (a warning)"
        lines.append(Text.assemble(("  ✗ ", "red"), (f"{place}, {rule}: ", "bold"), violation.message))
        if violation.repair:
            lines.append(Text(f"      mend: {violation.repair}", "dim"))
    if len(listed) > most:
        lines.append(Text(f"  ... and {len(listed) - most} more; --format json lists all"))
    return lines


def tally(found: Sequence[Violation]) -> str:
    """How many violations and warnings: ``2 violations and 1 warning``; without any, that it would be accepted."""
    errors = sum(violation.severity == "error" for violation in found)
    counts = ((errors, "violation"), (len(found) - errors, "warning"))
    return " and ".join(many(count, name) for count, name in counts if count) or "would be accepted"


def many(count: int, name: str) -> str:
    """A number of things: ``1 call``, ``1,332 calls``."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _violations(found: Inspection) -> list[RenderableType]:
    own = found.violations[found.provider]
    parts: list[RenderableType] = [Text(f"{found.provider}: {tally(own) if own else 'no'}")]
    parts += violations(own)
    others = [f"{name} {len(listed)}" for name, listed in found.violations.items() if name != found.provider]
    parts.append(Text(f"the same history elsewhere, in violations: {', '.join(others)}", "dim"))
    return parts


def _problems(found: Inspection, most: int = 12) -> list[RenderableType]:
    if not found.problems:
        return [Text("nothing unusual")]
    lines: list[RenderableType] = []
    for problem in found.problems[:most]:
        place = f"line {problem.line}" if problem.line is not None else ""
        place = place or (f"message {problem.index}" if problem.index is not None else "the file")
        text = problem.text if problem.text.startswith(place) else f"{place}: {problem.text}"
        lines.append(Text(f"  {text}"))
    if len(found.problems) > most:
        lines.append(Text(f"  ... and {len(found.problems) - most} more; --format json lists all"))
    return lines


def console() -> Console:
    """The console that commands print on. What the stream's encoding has no word for is written as an escape."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return Console(highlight=False, soft_wrap=False)
