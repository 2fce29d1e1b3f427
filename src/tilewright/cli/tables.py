"""Tables on a terminal, by the package rich where it is installed (`pip install tilewright[rich]`); else plain lines.

rich takes 32 ms to import (Intel Xeon with AMX), more than click: it stays an extra, and is asked for only where a
table goes to a terminal.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence

import click


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], plain: Iterable[str]) -> None:
    """Print `rows` under `columns`, fitted to the terminal; elsewhere, or without rich, the lines `plain`.

    Columns whose cells begin with a digit stand to the right.
    """
    if sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
        _print_rich(columns, rows)
        return
    for line in plain:
        click.echo(line)


def _print_rich(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    # an optional package, and slow to import
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        numbers = all(row[index][:1].isdigit() for row in rows if row[index])
        table.add_column(column, justify="right" if numbers else "left", no_wrap=numbers, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # as it is: names of nodes may hold square brackets
    Console().print(table)
