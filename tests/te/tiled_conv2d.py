"""A convolution under a schedule of three levels of tiles, lowered; run as a program it prints what that cost.

The counts are those of a fresh process, so they are the same on every machine.
"""

from __future__ import annotations

import time

from tilewright import te, tir
from tilewright.support import trace


def tiled_conv2d() -> tuple[te.Schedule, list[te.Tensor]]:
    """conv2d 3x3 of 128 channels at 28x28, its ReLU tiled over blocks, rows and registers, the sums in registers."""
    X = te.placeholder((1, 8, 30, 30, 16), name="X")
    W = te.placeholder((8, 8, 3, 3, 16, 16), name="W")
    ic, b = te.reduce_axis((0, 8), "ic"), te.reduce_axis((0, 16), "b")
    kh, kw = te.reduce_axis((0, 3), "kh"), te.reduce_axis((0, 3), "kw")
    C = te.compute(
        (1, 8, 28, 28, 16),
        lambda n, c, h, w, o: te.sum(X[n, ic, h + kh, w + kw, b] * W[c, ic, kh, kw, b, o], axis=[ic, kh, kw, b]),
        name="C",
    )
    R = te.compute(C.shape, lambda *i: tir.maximum(C(*i), 0.0), name="R")
    s = te.create_schedule(R)
    n, c, h, w, o = R.op.axis
    c_outer, c_inner = s[R].split(c, factor=4)
    h_outer, h_inner = s[R].split(h, factor=14)
    w_outer, w_inner = s[R].split(w, factor=14)
    w_tile, w_register = s[R].split(w_inner, factor=7)
    s[R].reorder(n, c_outer, h_outer, w_outer, c_inner, h_inner, w_tile, w_register, o)
    s[R].vectorize(o)
    s[R].parallel(s[R].fuse(n, c_outer))
    s[C].compute_at(s[R], w_tile)
    s[C].set_scope("local")
    n, c, h, w, o = C.op.axis
    ic_outer, ic_inner = s[C].split(ic, factor=2)
    b_outer, b_inner = s[C].split(b, factor=4)
    s[C].reorder(ic_outer, kh, kw, ic_inner, b_outer, b_inner, n, c, h, w, o)
    s[C].vectorize(o)
    s[C].unroll(w)
    s[C].unroll(b_inner)
    return s, [X, W, R]


if __name__ == "__main__":
    with trace.collect() as report:
        te.lower(*tiled_conv2d())
    for name, value in report.counters.items():
        print(name, value)
    seconds = []
    for _ in range(10):
        schedule, args = tiled_conv2d()
        start = time.process_time()
        te.lower(schedule, args)
        seconds.append(time.process_time() - start)
    print(f"milliseconds {min(seconds) * 1e3:.1f}")
