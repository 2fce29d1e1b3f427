"""Computations for the tests of sketches, and what they give by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import te, tir

Tensors = list[te.Tensor]
Case = tuple[Tensors, Callable[..., Any]]


def product(n: int = 24, m: int = 40, depth: int = 17) -> Case:
    """relu(a @ b + bias)."""
    a, b, bias = (
        te.placeholder((n, depth), name="a"),
        te.placeholder((depth, m), name="b"),
        te.placeholder((m,), name="bias"),
    )
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    added = te.compute((n, m), lambda i, j: c[i, j] + bias[j], name="added")
    out = te.compute((n, m), lambda i, j: tir.maximum(added[i, j], tir.const(0.0, "float32")), name="out")
    return [a, b, bias, out], lambda a, b, bias: np.maximum(a @ b + bias, 0)


def products(n: int = 16) -> Case:
    """a @ b @ c, both products outputs."""
    a, b, c = (te.placeholder((n, n), name=name) for name in "abc")
    k, r = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "r")
    d = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="d")
    e = te.compute((n, n), lambda i, j: te.sum(d[i, r] * c[r, j], axis=r), name="e")
    return [a, b, c, d, e], lambda a, b, c: (a @ b, a @ b @ c)


def convolution(channels: int = 6, size: int = 9, stride: int = 1) -> Case:
    """A padded 3x3 convolution in NCHW."""
    x, w = te.placeholder((1, channels, size, size), name="x"), te.placeholder((8, channels, 3, 3), name="w")
    zero = tir.const(0.0, "float32")

    def padded(n: Any, c: Any, i: Any, j: Any) -> Any:
        inside = tir.all(i >= 1, i < size + 1, j >= 1, j < size + 1)
        return tir.if_then_else(inside, x[n, c, i - 1, j - 1], zero)

    pad = te.compute((1, channels, size + 2, size + 2), padded, name="pad")
    c, r, q = te.reduce_axis((0, channels), "c"), te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 3), "q")
    out = (size - 1) // stride + 1
    conv = te.compute(
        (1, 8, out, out),
        lambda n, f, i, j: te.sum(pad[n, c, i * stride + r, j * stride + q] * w[f, c, r, q], axis=[c, r, q]),
        name="conv",
    )
    return [x, w, conv], lambda x, w: _convolved(x, w, stride)


def _convolved(x: Any, w: Any, stride: int) -> Any:
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwrq,fcrq->nfhw", windows, w)


def softmax(rows: int = 7, columns: int = 33) -> Case:
    """Softmax of rows."""
    a = te.placeholder((rows, columns), name="a")
    k, r = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "r")
    largest = te.compute((rows,), lambda i: te.max(a[i, k], axis=k), name="largest")
    raised = te.compute((rows, columns), lambda i, j: tir.exp(a[i, j] - largest[i]), name="raised")
    total = te.compute((rows,), lambda i: te.sum(raised[i, r], axis=r), name="total")
    out = te.compute((rows, columns), lambda i, j: raised[i, j] / total[i], name="out")

    def expected(a: Any) -> Any:
        raised = np.exp(a - a.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)

    return [a, out], expected


def norm(size: int = 8192) -> Case:
    """The length of a vector: one result of many terms."""
    a = te.placeholder((1, size), name="a")
    k = te.reduce_axis((0, size), "k")
    squares = te.compute((1,), lambda i: te.sum(a[i, k] * a[i, k], axis=k), name="squares")
    out = te.compute((1,), lambda i: tir.sqrt(squares[i]), name="out")
    return [a, out], lambda a: np.sqrt((a.astype(np.float64) ** 2).sum(axis=1)).astype(np.float32)


def transposed(n: int = 20, m: int = 34) -> Case:
    """A matrix, transposed."""
    a = te.placeholder((n, m), name="a")
    return [a, te.compute((m, n), lambda i, j: a[j, i] + 1.0, name="t")], lambda a: a.T + 1


def columns(rows: int = 50, width: int = 21) -> Case:
    """The largest of each column."""
    a = te.placeholder((rows, width), name="a")
    k = te.reduce_axis((0, rows), "k")
    return [a, te.compute((width,), lambda j: te.max(a[k, j], axis=k), name="largest")], lambda a: a.max(axis=0)


def single() -> Case:
    """The sum of all, without axes."""
    a = te.placeholder((100,), name="a")
    k = te.reduce_axis((0, 100), "k")
    return [a, te.compute((), lambda: te.sum(a[k], axis=k), name="total")], lambda a: a.sum()


CASES: dict[str, Callable[[], Case]] = {
    "product": product, "products": products, "convolution": convolution,
    "strided convolution": lambda: convolution(stride=2), "softmax": softmax, "norm": norm, "transposed": transposed,
    "columns": columns, "single": single,
}  # fmt: skip
