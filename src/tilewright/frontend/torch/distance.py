"""Distances between the rows of matrices, and their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.frontend.idioms import like, rank_of, shape_of
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.reduce import p_norm
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


def _differences(left: Expr, right: Expr) -> Expr:
    """Each row of one matrix less each of the other: [..., rows, rows, columns]."""
    return op.expand_dims(left, axis=rank_of(left) - 1) - op.expand_dims(right, axis=rank_of(right) - 2)


@converts("aten.cdist", "aten._cdist_forward")
def convert_cdist(x1: Expr, x2: Expr, p: Any) -> Expr:
    difference = _differences(x1, x2)
    return p_norm(difference, (rank_of(difference) - 1,), p, False)


@converts("aten.pdist", "aten._pdist_forward")
def convert_pdist(node: TorchNode) -> Expr:
    first, second = _pairs(node)
    rows = [op.take(node["self"], Constant(positions), axis=0, mode="clip") for positions in (first, second)]
    return p_norm(rows[0] - rows[1], (1,), node["p"], False)


def _pairs(node: TorchNode) -> tuple[np.ndarray, np.ndarray]:
    count = shape_of(node["self"])[0]
    if not isinstance(count, int):
        node.unsupported("a number of rows that is not known")
    return np.triu_indices(count, 1)


@converts("aten._cdist_backward")
def convert_cdist_backward(node: TorchNode) -> Expr:
    return _pulled(_differences(node["x1"], node["x2"]), node["cdist"], _gradient(node), node["p"])


def _gradient(node: TorchNode) -> Expr:
    """The gradient that a backward operator is given, by either of the names that versions of PyTorch have for it."""
    return node["grad" if "grad" in node.arguments else "grad_output"]


@converts("aten._pdist_backward")
def convert_pdist_backward(node: TorchNode) -> Expr:
    """The gradient of the rows whose distances were taken; those and their gradients as a symmetric square."""
    rows, (first, second) = node["self"], _pairs(node)
    count = shape_of(rows)[0]
    positions = np.full((count, count), len(first), np.int64)  # of the zero that is put behind, for the diagonal
    positions[first, second] = positions[second, first] = np.arange(len(first))
    squares = [
        op.take(op.nn.pad(value, pad_width=((0, 1),)), Constant(positions), axis=0, mode="clip")
        for value in (node["pdist"], _gradient(node))
    ]
    return _pulled(_differences(rows, rows), squares[0], squares[1], node["p"])


def _pulled(difference: Expr, distance: Expr, gradient: Expr, p: float) -> Expr:
    """Gradients of distances as those of the rows they begin at; a distance of 0 pulls nowhere."""
    last = rank_of(difference) - 1
    distance, gradient = op.expand_dims(distance, axis=last), op.expand_dims(gradient, axis=last)
    zero, size = like(0, difference), op.abs(difference)
    pull = op.sign(difference) * gradient
    if p == 0:
        pull = pull * zero
    elif math.isinf(p):
        pull = op.where(op.equal(size, distance), pull, zero)
    elif p != 1:
        ratio = size / op.where(op.equal(distance, zero), 1, distance)
        grown = pull * op.power(ratio, like(p - 1, ratio))
        pull = op.where(op.equal(size, zero), zero, grown)
    return op.sum(op.where(op.equal(distance, zero), zero, pull), axis=(last - 1,))
