"""Builders that move and choose elements, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.frontend.running import run
from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.builders import elements, window_rules
from tilewright.frontend.builders.product import diagonal, kron, linear, matmul
from tilewright.frontend.builders.reductions import in_top_k
from tilewright.frontend.graph_node import GraphNode
from tilewright.frontend.idioms import constant, with_axes, without_axes
from tilewright.frontend.outputs import module_of
from tilewright.relay.ir.expr import Expr, var
from tilewright.te.itervar import size_var

NODE = GraphNode("Test", "node", [])
X = np.random.default_rng(4).standard_normal((3, 5, 5)).astype(np.float32)
BATCHED = np.array([[0, 4], [2, 2], [1, 0]])

CASES: dict[str, tuple[Callable[[Expr], Expr], Any]] = {
    "rolled": (lambda x: elements.rolled(x, 7, 1), np.roll(X, 7, 1)),
    "rolled back": (lambda x: elements.rolled(x, -2, 2), np.roll(X, -2, 2)),
    "not rolled": (lambda x: elements.rolled(x, 5, 1), X),
    "band": (lambda x: elements.band(x, 1, 0), np.tril(np.triu(X, -1))),
    "whole band below": (lambda x: elements.band(x, -1, 2), np.tril(X, 2)),
    "diagonals from a negative one": (lambda x: elements.diagonals(x, None, -1), np.tril(X, -1)),
    "on diagonals": (elements.on_diagonal, np.stack([[np.diag(row) for row in matrix] for matrix in X])),
    "diagonal above": (lambda x: diagonal(x, 2), np.diagonal(X, 2, 1, 2)),
    "diagonal below": (lambda x: diagonal(x, -1), np.diagonal(X, -1, 1, 2)),
    "no diagonal": (lambda x: diagonal(x, 6), np.diagonal(X, 6, 1, 2)),
    "kronecker": (lambda x: kron(x, constant([[1, 2]])), np.kron(X, np.array([[[1, 2]]], np.float32))),
    "new axes": (lambda x: with_axes(x, [2, 0]), X[None, :, None]),
    "ones left out": (lambda x: without_axes(with_axes(x, [1]), []), X),
    "slice": (lambda x: elements.python_slice(x, 1, -4, None, 2), X[:, -4::2]),
    "slice backwards": (lambda x: elements.python_slice(x, 2, None, None, -2), X[:, :, ::-2]),
    "empty slice": (lambda x: elements.python_slice(x, 1, 3, 1, 1), X[:, 3:1]),
    "padded": (lambda x: elements.padded(NODE, x, [(0, 1), (2, 0), (0, 0)], value=2.0),
               np.pad(X, [(0, 1), (2, 0), (0, 0)], constant_values=2)),
    "symmetric": (lambda x: elements.padded(NODE, x, [(0, 0), (2, 1), (0, 0)], "symmetric"),
                  np.pad(X, [(0, 0), (2, 1), (0, 0)], "symmetric")),
    "edge": (lambda x: elements.padded(NODE, x, [(1, 0), (0, 0), (0, 2)], "replicate"),
             np.pad(X, [(1, 0), (0, 0), (0, 2)], "edge")),
    "windows": (lambda x: elements.windows_along(NODE, x, 1, 3, 2),
                np.lib.stride_tricks.sliding_window_view(X, 3, 1)[:, ::2].transpose(0, 1, 3, 2)),
    "batched": (lambda x: elements.batched_take(x, constant(BATCHED, "int32"), 2, 1),
                np.stack([X[n][:, BATCHED[n]] for n in range(3)])),
    "by coordinates": (lambda x: elements.gather_nd(x, constant([[0, 1], [2, 4]], "int32")), X[[0, 2], [1, 4]]),
    "from the front": (lambda x: elements.from_front(constant([-1, 0, -5], "int32"), 5), np.array([4, 0, 0])),
    "channels": (lambda x: elements.shuffled_channels(NODE, x, 1), X),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_elements_agree_with_numpy(name: str) -> None:
    build, wanted = CASES[name]
    x = var("x", shape=X.shape)
    (found,) = run(module_of([x], [build(x)], ["y"]), {"x": X})
    np.testing.assert_array_equal(found, wanted)


def test_scattered_updates_replace_elements() -> None:
    x = var("x", shape=(3, 2))
    made = elements.scatter_nd(x, constant([[1], [0]], "int32"), constant([[5, 6], [7, 8]], "float32"))
    (found,) = run(module_of([x], [made], ["y"]), {"x": np.zeros((3, 2), np.float32)})
    np.testing.assert_array_equal(found, [[7, 8], [5, 6], [0, 0]])


@pytest.mark.parametrize("bounds", [(1, None, 1), (-3, -1, 1), (None, 3, 2), (None, None, -1), (9, None, 1)])
def test_slices_of_symbolic_extent_are_those_of_python(bounds: tuple[int | None, int | None, int]) -> None:
    x = var("x", shape=(3, size_var("n")))
    (found,) = run(module_of([x], [elements.python_slice(x, 1, *bounds)], ["y"]), {"x": X[0][:3, :4]})
    np.testing.assert_array_equal(found, X[0][:3, :4][:, slice(*bounds)])


def test_products_of_matrices_to_be_transposed_and_of_several_axes() -> None:
    x, (y, z) = var("x", shape=X.shape), np.random.default_rng(5).standard_normal((2, 4, 25)).astype(np.float32)
    made = [
        matmul(x, constant(y[:, :5]), transpose_left=True, transpose_right=True),
        linear(x, constant(z), constant([1, 2, 3, 4]), 1), linear(x, constant(z[:, :5])),
    ]  # fmt: skip
    found = run(module_of([x], made, ["a", "b", "c"]), {"x": X})
    wanted = [X.swapaxes(1, 2) @ y[:, :5].T, X.reshape(3, 25) @ z.T + [1, 2, 3, 4], X @ z[:, :5].T]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_target_that_is_no_class_is_not_among_the_highest_scores() -> None:
    x = var("x", shape=(4, 3))
    scores = np.array([[1, 3, 2], [1, 3, 2], [1, 3, 2], [1, 3, 2]], np.float32)
    made = in_top_k(x, constant([1, 2, 0, 3], "int32"), 2)
    np.testing.assert_array_equal(run(module_of([x], [made], ["y"]), {"x": scores})[0], [True, True, False, False])


def test_what_does_not_fit_is_refused() -> None:
    x = var("x", shape=(2, 5, 4))
    with pytest.raises(ModelError, match="5 channels do not make 2 groups"):
        elements.shuffled_channels(NODE, x, 2)
    with pytest.raises(ModelError, match="windows of 6"):
        elements.windows_along(NODE, x, 1, 6, 1)
    with pytest.raises(UnsupportedError, match="padding by 'wrap'"):
        elements.padded(NODE, x, [(0, 0)] * 3, "wrap")
    with pytest.raises(UnsupportedError, match="padding SAME of symbolic dimensions"):
        window_rules.same_edges(NODE, ["n"], [3], [1], [1])


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_same_edges_leave_as_many_windows_as_the_stride_says(stride: int) -> None:
    (before,), (behind,) = window_rules.same_edges(NODE, [7], [4], [stride], [1], larger_first=True)
    assert before >= behind
    assert (7 + before + behind - 4) // stride + 1 == -(-7 // stride)
    (size,) = window_rules.transposed_sizes([-(-7 // stride)], [4], [stride], ([before], [behind]), [1])
    assert 7 - stride < size <= 7
