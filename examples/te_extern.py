"""Extern operations: what tensor expressions do not say, as loop IR, as Python loops, or by calling a C function.

python examples/te_extern.py
"""

from __future__ import annotations

import numpy as np

from tilewright import build, te, tir

SIZE = 12


def running_maximum(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tir.Stmt:
    """out[i] = the largest of in[0 .. i], with the builder for loop IR."""
    ib = tir.ir_builder.create()
    source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    best = ib.allocate("float32", 1, "best", scope="local")
    best[0] = source[0]
    with ib.for_range(0, ins[0].shape[0], name="i") as i:
        with ib.if_scope(source[i] > best[0]):
            best[0] = source[i]
        target[i] = best[0]
    return ib.get()


@te.hybrid.script
def histogram(x):  # type: ignore[no-untyped-def]  # the language of hybrid functions has no annotations
    """Counts of values in each of four bins of [0, 1), as Python loops."""
    counts = output_tensor((4,), "int32")  # type: ignore[name-defined]  # noqa: F821
    for b in range(4):
        counts[b] = 0
    for i in range(x.shape[0]):
        bin = int32(x[i] * 4.0)  # type: ignore[name-defined]  # noqa: F821
        if bin >= 0 and bin < 4:
            counts[bin] += 1
    return counts


def main() -> None:
    """Extern operations between computes, on the values of one vector."""
    a = te.placeholder((SIZE,), name="A")
    scaled = te.compute((SIZE,), lambda i: a[i] * 0.5, name="scaled")
    running = te.extern((SIZE,), [scaled], running_maximum, name="running")
    counted = histogram(scaled)
    copied = te.extern(
        (SIZE,),
        [running],
        lambda ins, outs: tir.call_extern(
            "handle", "memcpy", outs[0].access_ptr("w"), ins[0].access_ptr("r"), tir.const(4 * SIZE, "int64")
        ),
        name="copied",
    )
    shifted = te.compute((SIZE,), lambda i: copied[i] + 1.0, name="shifted")
    s = te.create_schedule([shifted, counted])
    print(te.schedule_to_tir(s, [a, shifted, counted]))
    values = np.random.default_rng(0).uniform(0, 2, SIZE).astype("float32")
    result, counts = np.zeros(SIZE, "float32"), np.zeros(4, "int32")
    build(te.lower(s, [a, shifted, counted]))["main"](values, result, counts)
    np.testing.assert_allclose(result, np.maximum.accumulate(values * 0.5) + 1, rtol=1e-6)
    np.testing.assert_array_equal(counts, np.histogram(values * 0.5, bins=4, range=(0, 1))[0])
    print("loop IR, Python loops and memcpy agree with NumPy")


if __name__ == "__main__":
    main()
