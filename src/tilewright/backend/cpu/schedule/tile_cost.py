"""The cycles of products in matrix registers (AMX), as `tile_intrin` writes them."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backend.cpu.schedule.tile_intrin import tile_groups
from tilewright.machine import Machine
from tilewright.target import Target
from tilewright.tir.dot_product import GROUP
from tilewright.tir.matrix_tiles import ROWS


def multiplies_tiles(itemsize: int, target: Target) -> bool:
    """True if the target has matrix registers for operands of so many bytes."""
    return (
        bool(target.machine.tile_product)
        and target.kind != "c"
        and target.supports("amx-int8" if itemsize == 1 else "amx-bf16")
    )


def tile_steps(
    lines: int, high: int, starts: Sequence[int], panels: int, step: int, machine: Machine
) -> tuple[float, float]:
    """Cycles of a step of the depth for `lines` of tiles by `panels` of 16 columns: of products, of loads.

    A register is loaded row by row; a step of fewer bytes has as few rows of weights.
    """
    if len(starts) == 1:
        groups, lines = tile_groups(lines, lines, panels), 1
    else:
        groups = tile_groups(len(starts), sum(start == i * high for i, start in enumerate(starts)), panels)
    product = machine.tile_begin + (machine.tile_product - machine.tile_begin) * high / ROWS
    products = loaded = 0.0
    for group in groups:
        times = lines * group.times * panels // group.across
        products += times * group.down * group.across
        loaded += times * (group.down * high + group.across * step / GROUP)
    return products * product, loaded / machine.vector_loads
