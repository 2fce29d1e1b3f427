"""A recurrent network's cell as a scan: state[t] = tanh(input[t] + state[t - 1] W), for any number of steps.

python examples/te_scan.py
"""

from __future__ import annotations

import numpy as np

from tilewright import build, te, tir

BATCH, UNITS = 4, 32


def main() -> None:
    """Build the cell, schedule it, print its loops and run it on sequences of several lengths."""
    steps = te.size_var("steps")
    x = te.placeholder((steps, BATCH, UNITS), name="x")
    w = te.placeholder((UNITS, UNITS), name="w")
    state = te.placeholder((steps, BATCH, UNITS), name="state")  # what the recurrence reads of itself

    first = te.compute((1, BATCH, UNITS), lambda _, b, u: tir.tanh(x[0, b, u]), name="first")
    k = te.reduce_axis((0, UNITS), "k")
    product = te.compute(
        (steps, BATCH, UNITS), lambda t, b, u: te.sum(state[t - 1, b, k] * w[k, u], axis=k), name="product"
    )
    update = te.compute((steps, BATCH, UNITS), lambda t, b, u: tir.tanh(x[t, b, u] + product[t, b, u]), name="update")
    out = te.scan(first, update, state, inputs=[x], name="out")

    s = te.create_schedule(out)
    _, b, u = update.op.axis
    s[update].vectorize(u)
    s[product].compute_at(s[update], b)  # within a step: the row of the product just before it is used
    s[product].set_scope("local")
    s[product].reorder(k, product.op.axis[2])
    s[product].vectorize(product.op.axis[2])
    print(te.schedule_to_tir(s, [x, w, out]))

    cell = build(te.lower(s, [x, w, out]))["main"]  # one function: `steps` is read off the arrays
    rng = np.random.default_rng(0)
    weights = rng.uniform(-0.3, 0.3, (UNITS, UNITS)).astype("float32")
    for length in (1, 5, 60):
        inputs = rng.standard_normal((length, BATCH, UNITS)).astype("float32")
        result = np.zeros_like(inputs)
        cell(inputs, weights, result)
        h = np.zeros((BATCH, UNITS), "float32")
        for t in range(length):
            h = np.tanh(inputs[t] + h @ weights)
            np.testing.assert_allclose(result[t], h, rtol=1e-3, atol=1e-4)
        print(f"{length} steps agree with NumPy")


if __name__ == "__main__":
    main()
