"""Latency hiding: a matrix product on a machine whose load, compute and store units are joined by tokens only.

Two virtual threads share the units: while one computes on a tile, the next tile of the other is loaded. The machine is
the one the tests run programs on, `tests/tir/transform/dae_machine.py`.

python examples/te_latency_hiding.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from tilewright import te
from tilewright.tir import PrimFunc

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the machine is not part of the package
from tests.tir.transform.dae_machine import Instruction, Machine, dma, priority

ROWS, COLUMNS, DEPTH, TILE = 4, 16, 32, 4
LOAD_CYCLES_PER_ELEMENT, COMPUTE_CYCLES_PER_PRODUCT = 4, 1
MACHINE = te.Accelerator(name="decoupled", copy=dma)


def program(threads: int) -> PrimFunc:
    """The product c = a w, its columns dealt to `threads` virtual threads, as instructions and tokens."""
    a, w = te.placeholder((ROWS, DEPTH), name="a"), te.placeholder((DEPTH, COLUMNS), name="w")
    k = te.reduce_axis((0, DEPTH), name="k")
    c = te.compute((ROWS, COLUMNS), lambda i, j: te.sum(a[i, k] * w[k, j], axis=k), name="c")

    s = te.create_schedule(c)
    total = s.cache_write(c, "dae.accumulator")
    rows, tiles = s.cache_read(a, "dae.input", [total]), s.cache_read(w, "dae.weight", [total])
    i, j = s[c].op.axis
    i_outer, i_inner = s[c].split(i, factor=TILE)
    j_outer, j_inner = s[c].split(j, factor=TILE)
    j_thread, j_outer = s[c].split(j_outer, nparts=threads)
    s[c].reorder(i_outer, j_thread, j_outer, i_inner, j_inner)
    s[c].bind(j_thread, te.thread_axis("vthread"))
    s[c].pragma(i_inner, "dma_copy")

    s[total].compute_at(s[c], j_outer)
    k_outer, k_inner = s[total].split(s[total].op.reduce_axis[0], factor=TILE)
    s[total].reorder(k_outer, *s[total].op.axis, k_inner)
    s[total].pragma(s[total].op.axis[0], "coproc_scope", "compute")

    s[rows].compute_at(s[c], i_outer)
    s[tiles].compute_at(s[total], k_outer)
    for tensor in (rows, tiles):
        s[tensor].pragma(s[tensor].op.axis[0], "dma_copy")

    return te.lower(s, [a, w, c], target=MACHINE)


def latency(instruction: Instruction) -> int:
    """The number of cycles that the machine takes for an instruction."""
    return instruction.work * (COMPUTE_CYCLES_PER_PRODUCT if instruction.unit == 2 else LOAD_CYCLES_PER_ELEMENT)


def main() -> dict[int, tuple[int, dict[str, float]]]:
    """Run the program with one virtual thread and with two; cycles and utilization of each."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((ROWS, DEPTH)).astype("float32")
    w = rng.standard_normal((DEPTH, COLUMNS)).astype("float32")
    print(program(2))
    figures = {}
    for threads in (1, 2):
        c = np.zeros((ROWS, COLUMNS), "float32")
        machine = Machine(program(threads), a, w, c)
        machine.execute(priority((1, 2, 3)))  # loads as early as tokens let them
        np.testing.assert_allclose(c, a @ w, rtol=1e-4, atol=1e-4)
        cycles, busy = figures[threads] = machine.simulate(latency)
        shares = ", ".join(f"{unit} {share:.0%}" for unit, share in busy.items())
        print(f"{threads} virtual thread{'s' * (threads > 1)}: {cycles} cycles; busy: {shares}")
    return figures


if __name__ == "__main__":
    main()
