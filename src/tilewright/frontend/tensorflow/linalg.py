"""Matrices: inverses, determinants, factors and solutions."""

from __future__ import annotations

import numpy as np

from tilewright.frontend.idioms import constant, dtype_of, shape_of
from tilewright.frontend.tensorflow.node import TfNode
from tilewright.frontend.tensorflow.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.op import linalg


def _swapped(value: Expr) -> Expr:
    axes = list(range(len(shape_of(value))))
    return op.transpose(value, axes=[*axes[:-2], axes[-1], axes[-2]])


@converts("Cholesky")
def convert_cholesky(node: TfNode) -> Expr:
    """NaN where the matrix is not positive definite."""
    made = linalg.cholesky(node[0])
    failed = op.not_equal(made[1], constant(0, "int32"))
    failed = op.expand_dims(failed, axis=node.rank() - 2, num_newaxis=2)
    return op.where(failed, constant(np.nan, node.dtype()), made[0])


@converts("MatrixDeterminant")
def convert_determinant(node: TfNode) -> Expr:
    return linalg.det(node[0])


@converts("MatrixSolve")
def convert_solve(node: TfNode) -> Expr:
    matrix = _swapped(node[0]) if node.b("adjoint") else node[0]
    return linalg.solve(matrix, node[1])[0]


@converts("MatrixInverse")
def convert_inverse(node: TfNode) -> Expr:
    shape = shape_of(node[0])
    if not all(isinstance(extent, int) for extent in shape):
        node.unsupported("matrices of open extent; give it with input_shapes")
    eye = np.broadcast_to(np.eye(int(shape[-1])), [int(extent) for extent in shape])
    matrix = _swapped(node[0]) if node.b("adjoint") else node[0]
    return linalg.solve(matrix, constant(eye, dtype_of(matrix)))[0]


@converts("MatrixTriangularSolve")
def convert_triangular_solve(node: TfNode) -> Expr:
    lower, adjoint = node.b("lower", True), node.b("adjoint")
    matrix = _swapped(node[0]) if adjoint else node[0]
    return linalg.solve_triangular(matrix, node[1], upper=lower == adjoint)
