"""The table that `tilewright profile` prints: what is above it, its columns, and the cells of each kernel call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.runtime.profile import KernelTime


@dataclass(frozen=True)
class ProfileTable:
    """The lines above a table, its columns and those that a narrow terminal does without first.

    `cells` has a row for each kernel call; `head` and `line` make of columns and cells the lines of a plain text.
    """

    heading: Sequence[str]
    columns: Sequence[str]
    spare: Sequence[str]
    cells: Sequence[Sequence[str]]
    head: str
    line: Callable[[Sequence[str]], str]


def schedule_text(row: KernelTime) -> str:
    """The template of a kernel and its configuration, "conv2d_NCHWc tile_rows=1 tile_blocks=2 tile_columns=14"."""
    # only when it runs: `tilewright --help` reads the module that imports this one
    from tilewright.topi.schedule.choice import Choice

    if not row.choice:
        return "copy"
    choice = Choice.from_json(row.choice)
    return f"{choice.template} {choice.config_text()}".strip()
