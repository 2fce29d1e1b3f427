"""Register tiles: how many output rows and vectors one innermost step of a convolution or matrix product keeps.

A step loads `vectors` vectors of weights, broadcasts `rows` activations and does `rows * vectors` fused
multiply-adds into as many accumulators. The tile must fit the register file, hide the latency of the multiply-add and
keep the load ports below the arithmetic.
"""

from __future__ import annotations

from tilewright.target import Target

#: How sharply the longer of arithmetic and loads hides the shorter: the order of the mean of both.
_BALANCE = 4


def registers_of(rows: int, vectors: int) -> int:
    """Registers of a step: its accumulators, the vectors, and the value that is broadcast.

    That of a single vector is spread while it is multiplied and takes none, so one is left to spare.
    """
    return rows * vectors + vectors + 1


def fits(rows: int, vectors: int, target: Target) -> bool:
    """True if a step of `rows` by `vectors` vectors fits the registers."""
    return registers_of(rows, vectors) < target.vector_registers


def step_cycles(rows: int, vectors: int, target: Target) -> float:
    """Cycles of one innermost step with operands in the first-level cache: multiply-adds or loads, whichever are more.

    Near balance each kind waits for the other now and then: with two multiply-adds and two loads a cycle tiles of
    28 by 1 reach 80 % of the peak and those of 14 by 2 97 %.
    """
    machine = target.machine
    arithmetic = max(rows * vectors / machine.fma_per_cycle, machine.fma_latency)
    loads = vectors / machine.vector_loads + rows / machine.broadcast_loads
    return (arithmetic**_BALANCE + loads**_BALANCE) ** (1 / _BALANCE)


def dot_fits(rows: int, vectors: int, target: Target) -> bool:
    """True if a tile of `rows` by `vectors` sums of dot products of any bytes fits the registers.

    Without an instruction for them, even and odd bytes of both operands are held apart, and their products apart.
    """
    if target.supports("avx512vnni") or target.supports("avxvnni") or target.supports("dotprod"):
        return True
    return rows * vectors + 2 * vectors + 3 <= max(target.vector_registers, 3 * vectors + 3)
