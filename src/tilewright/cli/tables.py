"""Tables on a terminal, by the package rich where it is installed (`pip install tilewright[rich]`); else plain lines.

rich takes 32 ms to import (Intel Xeon with AMX), more than click: it stays an extra, and is used only where a
table goes to a terminal.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

#: Columns of space between two columns of a table.
_GAP = 1


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], plain: Iterable[str], spare: Sequence[str] = ()
) -> None:
    """Print `rows` under `columns`, fitted to the terminal; elsewhere, or without rich, the lines `plain`.

    Columns whose cells begin with a digit stand to the right. A terminal too narrow for all does without the columns
    `spare`, in their order, as far as that is needed; no name or number is ever cut.
    """
    if sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
        _print_rich(columns, rows, spare)
        return
    for line in plain:
        click.echo(line)


def fitting(columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str], width: int) -> list[int]:
    """The columns, by their numbers, that fit into `width` characters once those of `spare` are left out as needed."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    kept = list(range(len(columns)))
    for name in spare:
        if sum(widths[index] + _GAP for index in kept) - _GAP <= width:
            break
        if name in columns:
            kept.remove(columns.index(name))
    return kept


def rich_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str], width: int, title: str | None = None
) -> Any:
    """A table of the package rich that fits into `width` characters, as far as leaving out columns makes it."""
    # an optional package, and slow to import
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, title=title)
    kept = fitting(columns, rows, spare, width)
    for index in kept:
        numbers = all(row[index][:1].isdigit() for row in rows if row[index])
        table.add_column(columns[index], justify="right" if numbers else "left", no_wrap=True, overflow="ignore")
    for row in rows:
        table.add_row(*(Text(row[index]) for index in kept))  # as it is: names of nodes may hold square brackets
    return table


def _print_rich(columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str]) -> None:
    # an optional package, and slow to import
    from rich.console import Console
    from rich.measure import Measurement

    console = Console()
    table = rich_table(columns, rows, spare, console.width)
    needed = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    # a line that is still too long is the terminal's to break
    Console(width=max(console.width, needed)).print(table, soft_wrap=True)
