"""A tour of the schedule primitives: what each does to the loops of one small program.

    python examples/te_primitives.py

Every step starts from the same two computations, B = A + 1 and C = 2 B, so that what changes is the primitive's work.
All results are compared with NumPy's at the end of each step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright import build, te


def program() -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """B[i, j] = A[i, j] + 1 and C[i, j] = 2 B[i, j], of shape (8, 12)."""
    a = te.placeholder((8, 12), name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] + 1.0, name="B")
    return a, b, te.compute(a.shape, lambda i, j: b[i, j] * 2.0, name="C")


def nothing(s: te.Schedule, b: te.Tensor, c: te.Tensor) -> None:
    """The default: a loop nest for each tensor, one after the other."""


def split(s: te.Schedule, b: te.Tensor, c: te.Tensor) -> None:
    """split: blocks of five. Five does not divide twelve, so the last block is guarded."""
    s[c].split(c.op.axis[1], factor=5)


def tile(s: te.Schedule, b: te.Tensor, c: te.Tensor) -> None:
    """tile: both axes in blocks, the blocks outside."""
    s[c].tile(*c.op.axis, 4, 6)


def fuse(s: te.Schedule, b: te.Tensor, c: te.Tensor) -> None:
    """fuse: one loop over both axes, shared out over the workers."""
    s[c].parallel(s[c].fuse(*c.op.axis))


def reorder(s: te.Schedule, b: te.Tensor, c: te.Tensor) -> None:
    """reorder: columns outside, rows inside, the rows written out."""
    i, j = c.op.axis
    s[c].reorder(j, i)
    s[c].unroll(i)


def vectorize(s: te.Schedule, b: te.Tensor, c: te.Tensor) -> None:
    """vectorize: four neighbours as the lanes of one instruction."""
    s[c].vectorize(s[c].split(c.op.axis[1], factor=4)[1])


def compute_inline(s: te.Schedule, b: te.Tensor, c: te.Tensor) -> None:
    """compute_inline: B has no memory and no loops; its expression stands in C."""
    s[b].compute_inline()


def compute_at(s: te.Schedule, b: te.Tensor, c: te.Tensor) -> None:
    """compute_at: a row of B just before the row of C that reads it, in a buffer of that size."""
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].set_scope("local")


def caches(s: te.Schedule, b: te.Tensor, c: te.Tensor) -> None:
    """cache_read, cache_write: copies in other memory, to be placed and scheduled like any stage."""
    read = s.cache_read(b.op.input_tensors[0], "local", [b])
    written = s.cache_write(c, "local")
    outer, _ = s[c].split(c.op.axis[0], factor=4)
    for tensor in (written, b, read):
        s[tensor].compute_at(s[c], outer)


def double_buffer(s: te.Schedule, b: te.Tensor, c: te.Tensor) -> None:
    """double_buffer: the next rows of B are made while these are read."""
    outer, _ = s[c].split(c.op.axis[0], factor=2)
    s[b].compute_at(s[c], outer)
    s[b].double_buffer()


STEPS: tuple[Callable[[te.Schedule, te.Tensor, te.Tensor], None], ...] = (
    nothing, split, tile, fuse, reorder, vectorize, compute_inline, compute_at, caches, double_buffer,
)  # fmt: skip


def main() -> None:
    """Print each step's loops and check what they compute."""
    values = np.random.default_rng(0).standard_normal((8, 12)).astype("float32")
    for number, step in enumerate(STEPS, 1):
        a, b, c = program()
        s = te.create_schedule(c)
        step(s, b, c)
        print(f"{number}. {step.__doc__}\n")
        print(te.schedule_to_tir(s, [a, c]))
        if s.steps:
            print(f"made by:\n{s.to_text()}")
        result = np.zeros_like(values)
        build(te.lower(s, [a, c]))["main"](values, result)
        np.testing.assert_allclose(result, (values + 1) * 2, rtol=1e-6)
    print(f"all {len(STEPS)} agree with NumPy")


if __name__ == "__main__":
    main()
