"""Linear algebra: factorizations, equations, determinants, distances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.frontend.builders.elements import diagonals
from tilewright.frontend.builders.product import matmul
from tilewright.frontend.idioms import broadcast_to, cast, full, like, rank_of, reshape, shape_of, slice_axis, swap_axes
from tilewright.frontend.torch.build import element_type
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.reduce import p_norm
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.types import is_static
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.op import linalg


def _matrix(node: TorchNode) -> Expr:
    """The operand, which has another name in some operators."""
    data: Expr = node["A"] if "A" in node.arguments else node["self"]
    return data


def _refuse(node: TorchNode) -> str:
    """The name of the operator for messages about matrices that it refuses; none where it returns `info` instead."""
    name = node.target.split(".")[1]
    by_info = name.endswith("_ex") or "with_info" in name
    return name if not by_info or node.get("check_errors") or node.checked else ""


def _triangle(data: Expr, upper: bool, unit: bool = False) -> Expr:
    """One triangle of matrices, ones on the diagonal with `unit`, zeros in the other."""
    kept = diagonals(data, int(unit), None) if upper else diagonals(data, None, -int(unit))
    return kept + Constant(np.eye(*shape_of(data)[-2:], dtype=element_type(data).numpy)) if unit else kept


def _identity(data: Expr) -> Expr:
    rows = shape_of(data)[-1]
    return broadcast_to(Constant(np.eye(rows, dtype=element_type(data).numpy)), (*shape_of(data)[:-2], rows, rows))


# ----------------------------------------------------------------------------------------------- factorizations
@converts("aten.linalg_svd", "aten._linalg_svd", "aten.svd", "aten.linalg_svdvals")
def convert_svd(node: TorchNode) -> Expr | list[Expr]:
    """Singular values and vectors; `svd` returns V, the others its transpose."""
    data = _matrix(node)
    whole = bool(node.get("full_matrices", not node.get("some", True)))
    if "svdvals" in node.target:
        return linalg.svd(data)[1]
    found = linalg.svd(data, full_matrices=whole)
    if not node.get("compute_uv", True):
        if "aten.svd" in node.target:
            return [full(0, node.shape_at(0), node.dtype), found[1], full(0, node.shape_at(2), node.dtype)]
        return [full(0, node.shape_at(index), node.dtype) if index != 1 else found[1] for index in range(3)]
    return [found[0], found[1], swap_axes(found[2]) if "aten.svd" in node.target else found[2]]


def _listed(found: Expr, count: int) -> list[Expr]:
    return [found[index] for index in range(count)]


@converts("aten.linalg_qr", "aten.qr")
def convert_qr(node: TorchNode, data: Expr) -> list[Expr]:
    return _listed(linalg.qr(data, mode=str(node.get("mode", "reduced" if node.get("some", True) else "complete"))), 2)


def _cholesky_inverse(node: TorchNode) -> Expr:
    """The inverse of the matrix that a triangle was made of."""
    return _cholesky_solution(node["self"], _identity(node["self"]), node["upper"], _refuse(node))


converts.functions({
    "aten.geqrf": lambda node: _listed(linalg.geqrf(node["self"]), 2),
    "aten.linalg_householder_product": lambda node: linalg.householder_product(node["input"], node["tau"]),
    "aten.orgqr": lambda node: linalg.householder_product(node["self"], node["input2"]),
    "aten.linalg_matrix_exp aten.matrix_exp": lambda node: linalg.matrix_exp(node["self"]),
    "aten.cholesky_inverse": _cholesky_inverse,
    "aten.cholesky_solve": lambda node: _cholesky_solution(*_together(node["input2"], node["self"]), node["upper"]),
})  # fmt: skip


@converts("aten.ormqr")
def convert_ormqr(node: TorchNode) -> Expr:
    whole: Expr = linalg.householder_product(node["self"], node["input2"], complete=True)
    whole = swap_axes(whole) if node["transpose"] else whole
    return matmul(whole, node["input3"]) if node["left"] else matmul(node["input3"], whole)


@converts("aten.linalg_cholesky", "aten.linalg_cholesky_ex", "aten.cholesky")
def convert_cholesky(node: TorchNode) -> Expr | list[Expr]:
    found = linalg.cholesky(_matrix(node), upper=bool(node["upper"]), refuse=_refuse(node))
    return [found[0], found[1]] if "_ex" in node.target else found[0]


def _cholesky_solution(factor: Expr, right: Expr, upper: bool, refuse: str = "") -> Expr:
    lower = swap_axes(factor) if upper else factor
    half = linalg.solve_triangular(lower, right, refuse=refuse)
    return linalg.solve_triangular(swap_axes(lower), half, upper=True)


@converts("aten.linalg_eigh", "aten._linalg_eigh", "aten.linalg_eigvalsh")
def convert_eigh(node: TorchNode) -> Expr | list[Expr]:
    found = linalg.eigh(_matrix(node), uplo=str(node["UPLO"]).upper())
    if "eigvalsh" in node.target:
        return found[0]
    if not node.get("compute_v", True):
        return [found[0], full(0, node.shape_at(1), node.dtype)]
    return [found[0], found[1]]


@converts("aten.linalg_lu_factor", "aten.linalg_lu_factor_ex", "aten._lu_with_info")
def convert_lu_factor(node: TorchNode) -> list[Expr]:
    found = linalg.lu_factor(_matrix(node), pivot=bool(node["pivot"]), refuse=_refuse(node))
    return [found[index] for index in range(len(node.value))]


@converts("aten.linalg_lu", "aten.lu_unpack")
def convert_lu(node: TorchNode) -> list[Expr]:
    if "unpack" in node.target:
        data, pivots = node["LU_data"], node["LU_pivots"]
        wanted = (node["unpack_pivots"], node["unpack_data"], node["unpack_data"])
    else:
        found = linalg.lu_factor(node["A"], pivot=bool(node["pivot"]))
        data, pivots, wanted = found[0], found[1], (node["pivot"], True, True)
    rows, columns = shape_of(data)[-2:]
    inner, rank = min(rows, columns), rank_of(data)
    made = [
        linalg.permutation(pivots, rows, str(node.dtype)),
        _triangle(slice_axis(data, rank - 1, 0, inner), False, unit=True),
        _triangle(slice_axis(data, rank - 2, 0, inner), True),
    ]
    return [
        value if keep else full(0, node.shape_at(index), node.dtype)
        for index, (value, keep) in enumerate(zip(made, wanted))
    ]


# ---------------------------------------------------------------------------------------------------- equations
def _together(matrix: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Both for the batch that they have together."""
    a, b = shape_of(matrix), shape_of(right)
    if a[:-2] == b[:-2]:
        return matrix, right
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    return broadcast_to(matrix, (*batch, *a[-2:])), broadcast_to(right, (*batch, *b[-2:]))


@converts("aten.linalg_solve", "aten.linalg_solve_ex", "aten._linalg_solve_ex")
def convert_solve(node: TorchNode, matrix: Expr, B: Expr) -> Expr | list[Expr]:
    """X of A X = B, or of X A = B; vectors where B is one or a batch of them."""
    a, b = shape_of(matrix), shape_of(B)
    vectors = len(b) == 1 or (len(b) == len(a) - 1 and b == a[:-1])
    B = reshape(B, (*b, 1)) if vectors else B
    from_left = bool(node["left"]) or vectors
    left, values = _together(matrix, B) if from_left else _together(swap_axes(matrix), swap_axes(B))
    found = linalg.solve(left, values, refuse=_refuse(node))
    result = found[0] if from_left else swap_axes(found[0])
    result = reshape(result, node.shape_at(0))
    if not isinstance(node.value, tuple | list):
        return result
    if len(node.value) == 2:
        return [result, reshape(_first_of(found[1], node.shape_at(1)), node.shape_at(1))]
    parts = linalg.lu_factor(matrix)
    return [result, parts[0], parts[1], parts[2]]


def _first_of(value: Expr, shape: tuple[Any, ...]) -> Expr:
    """The part of a result for a larger batch, in which it is the same along the axes that `shape` lacks."""
    for axis in range(rank_of(value) - len(shape)):
        value = slice_axis(value, axis, 0, 1)
    return value


@converts("aten.linalg_inv", "aten.linalg_inv_ex", "aten.inverse")
def convert_inverse(node: TorchNode) -> Expr | list[Expr]:
    data = _matrix(node)
    found = linalg.solve(data, _identity(data), refuse=_refuse(node))
    return [found[0], found[1]] if "_ex" in node.target else found[0]


@converts("aten.linalg_solve_triangular", "aten.triangular_solve")
def convert_solve_triangular(node: TorchNode) -> Expr | list[Expr]:
    upper, unit = bool(node["upper"]), bool(node["unitriangular"])
    if "aten.triangular_solve" in node.target:
        matrix, right = _together(node["A"], node["self"])
        turned = swap_axes(matrix) if node["transpose"] else matrix
        found = linalg.solve_triangular(turned, right, upper=upper != bool(node["transpose"]), unitriangular=unit)
        return [found, matrix]
    matrix, right = _together(node["self"], node["B"])
    if node["left"]:
        return linalg.solve_triangular(matrix, right, upper=upper, unitriangular=unit)
    turned_back = linalg.solve_triangular(swap_axes(matrix), swap_axes(right), upper=not upper, unitriangular=unit)
    return swap_axes(turned_back)


@converts("aten.linalg_lu_solve", "aten.lu_solve")
def convert_lu_solve(node: TorchNode) -> Expr:
    data, pivots = (node[name] for name in (("LU", "pivots") if "LU" in node.arguments else ("LU_data", "LU_pivots")))
    right = node["B"] if "B" in node.arguments else node["self"]
    from_left, turned = bool(node.get("left", True)), bool(node.get("adjoint", False))
    if not from_left:  # X A = B is A^T X^T = B^T
        right, turned = swap_axes(right), not turned
    rows = shape_of(data)[-1]
    order: Expr = linalg.permutation(pivots, rows, str(node.dtype))
    batch = np.broadcast_shapes(shape_of(data)[:-2], shape_of(right)[:-2])
    data, order, right = (broadcast_to(v, (*batch, *shape_of(v)[-2:])) for v in (data, order, right))
    made: Expr
    if turned:
        half = linalg.solve_triangular(swap_axes(data), right)
        found = linalg.solve_triangular(swap_axes(data), half, upper=True, unitriangular=True)
        made = matmul(order, found)
    else:
        half = linalg.solve_triangular(data, matmul(swap_axes(order), right), unitriangular=True)
        made = linalg.solve_triangular(data, half, upper=True)
    return made if from_left else swap_axes(made)


@converts("aten.linalg_lstsq")
def convert_lstsq(node: TorchNode, matrix: Expr, b: Expr, rcond: Any = None) -> list[Expr]:
    """The solution of least squares, what is left over, ranks and singular values where the driver returns them."""
    vectors = rank_of(b) == rank_of(matrix) - 1
    b = reshape(b, (*shape_of(b), 1)) if vectors else b
    matrix, b = _together(matrix, b)
    rows, columns = shape_of(matrix)[-2:]
    found = linalg.lstsq(matrix, b, rcond=rcond)
    results = [reshape(found[0], node.shape_at(0))]
    if rows > columns and product_is_positive(node.shape_at(1)):
        left_over = matmul(matrix, found[0]) - b
        results.append(op.sum(left_over * left_over, axis=(rank_of(left_over) - 2,)))
        results[1] = reshape(results[1], node.shape_at(1))
    else:
        results.append(full(0, node.shape_at(1), node.dtype))
    for index in (1, 2):
        shape = node.shape_at(index + 1)
        fits = product_is_positive(shape) or shape == shape_of(found[index])
        results.append(reshape(found[index], shape) if fits else full(0, shape, node.dtype_at(index + 1)))
    return results


def product_is_positive(shape: tuple[Any, ...]) -> bool:
    """True where a tensor of this shape has elements."""
    return shape != (0,) and all(not isinstance(extent, int) or extent > 0 for extent in shape)


# --------------------------------------------------------------------------------------- functions of matrices
@converts("aten.linalg_det", "aten.det", "aten._linalg_det")
def convert_det(node: TorchNode) -> Expr | list[Expr]:
    data = _matrix(node)
    found = linalg.det(data)
    if "_linalg_det" not in node.target:
        return found
    parts = _factors_for_gradient(node, data)
    return [found, parts[0], parts[1]]


@converts("aten.linalg_slogdet", "aten.slogdet", "aten._linalg_slogdet", "aten.logdet")
def convert_slogdet(node: TorchNode) -> Expr | list[Expr]:
    """Sign and logarithm of determinants; `logdet` is NaN for negative ones."""
    data = _matrix(node)
    found = linalg.slogdet(data)
    if "aten.logdet" in node.target:
        return op.where(found[0] < 0, math.nan, found[1])
    results: list[Expr] = [found[0], found[1]]
    if "_linalg" in node.target:
        parts = _factors_for_gradient(node, data)
        results += [parts[0], parts[1]]
    return results


def _factors_for_gradient(node: TorchNode, data: Expr) -> Expr:
    """The factorization that PyTorch's backward formulas of determinants expect: of the transpose where the matrix
    lies row by row, which they find out from the matrix and not from the factors."""
    given = node.metas["A"]
    return linalg.lu_factor(swap_axes(data) if given.is_contiguous() and not given.is_complex() else data)


@converts("aten.linalg_pinv")
def convert_pinv(node: TorchNode, data: Expr, hermitian: bool = False) -> Expr:
    """The inverse of what is not singular: singular values below the bounds count as none."""
    if not is_static(shape_of(data)[-2:]):
        node.unsupported("a matrix of symbolic extent")
    if any(extent == 0 for extent in shape_of(data)):
        return full(0, node.shape, node.dtype)
    if hermitian:
        values, vectors = (linalg.eigh(data)[index] for index in range(2))
        return _inverted(node, data, vectors, values, swap_axes(vectors))
    found = linalg.svd(data)
    return _inverted(node, data, found[0], found[1], found[2])


def _inverted(node: TorchNode, data: Expr, left: Expr, values: Expr, right: Expr) -> Expr:
    keep = singular_values_above(node, data, values)
    inverse = op.where(keep, 1 / op.where(keep, values, 1), 0)
    scaled = swap_axes(right) * op.expand_dims(inverse, axis=rank_of(inverse) - 1)
    return matmul(scaled, swap_axes(left))


def singular_values_above(node: TorchNode, data: Expr, values: Expr) -> Expr:
    """True where a singular value is above both bounds, that of `rtol` relative to the largest."""
    size = op.abs(values)
    largest = op.max(size, axis=(rank_of(values) - 1,), keepdims=True)
    given, absolute = node.get("rtol", node.get("rcond", node.get("tol"))), node.get("atol")
    if "tol" in node.arguments and given is not None:  # the old spelling: a bound by itself
        given, absolute = 0.0, given
    nothing = absolute is None or (not isinstance(absolute, Expr) and absolute == 0)
    if given is None:
        precision = float(np.finfo(element_type(data).numpy).eps) * max(shape_of(data)[-2:])
        given = precision if nothing else 0.0
        if isinstance(absolute, Expr):
            there = absolute > 0
            given = op.where(there, like(0, data), like(precision, data))
    bounds = [_bound(value, data) for value in (0.0 if absolute is None else absolute, given)]
    return size > op.maximum(bounds[0], bounds[1] * largest)


def _bound(value: Any, data: Expr) -> Expr:
    if not isinstance(value, Expr):
        return like(value, data)
    made = cast(value, element_type(data))
    return op.expand_dims(made, axis=rank_of(made)) if rank_of(made) else made


@converts("aten.linalg_matrix_rank")
def convert_matrix_rank(node: TorchNode) -> Expr:
    data = node["input"] if "input" in node.arguments else node["self"]
    if any(extent == 0 for extent in shape_of(data)):
        return full(0, node.shape, node.dtype)
    values = linalg.eigh(data)[0] if node.get("hermitian") else linalg.svd(data)[1]
    return op.sum(cast(singular_values_above(node, data, values), "int64"), axis=(rank_of(values) - 1,))


# ------------------------------------------------------------------------------------------------------------ Distances
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
