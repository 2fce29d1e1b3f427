"""Linear algebra on the host: factorizations, solutions, functions of matrices, of the last two axes of batches.

What they compute is what LAPACK's routines of the names in the docstrings do; `info` is 0, or as LAPACK counts the
leading minor or pivot that spoiled the factorization.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.registry import host_op

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


def _each(*values: Array) -> list[tuple[Array, ...]]:
    """The matrices of batches, one tuple an entry."""
    return list(zip(*[value.reshape(math.prod(value.shape[:-2]), *value.shape[-2:]) for value in values]))


def _stacked(parts: list[Array], batch: tuple[int, ...], shape: tuple[int, ...], dtype: Any) -> Array:
    """Results of single matrices as a batch, of which there may be none."""
    made = np.stack(parts) if parts else np.empty((0, *shape))
    return np.asarray(made, dtype).reshape(*batch, *shape)


@host_op("linalg.cholesky")
def cholesky(attrs: Attrs, data: Array) -> tuple[Array, Array]:
    """(L of L L^T, or of `upper` its transpose; info), as POTRF: only one triangle is read."""
    upper, size = attrs["upper"], data.shape[-1]
    whole = np.triu(data) if upper else np.tril(data)
    whole = whole + np.swapaxes(np.triu(whole, 1) if upper else np.tril(whole, -1), -1, -2)
    factors, infos = [], []
    for (matrix,) in _each(whole):
        bad = _first_indefinite(matrix)
        infos.append(bad)
        factors.append(np.zeros_like(matrix) if bad else np.linalg.cholesky(matrix))
    _refuse(attrs, infos, "is not positive definite: the leading minor of order {} is not positive")
    made = _stacked(factors, data.shape[:-2], (size, size), data.dtype)
    return np.ascontiguousarray(np.swapaxes(made, -1, -2)) if upper else made, _infos(infos, data.shape[:-2])


def _first_indefinite(matrix: Array) -> int:
    """The order of the first leading minor that is not positive definite; 0 where there is none."""
    if _is_definite(matrix):
        return 0
    return next(order for order in range(1, len(matrix) + 1) if not _is_definite(matrix[:order, :order]))


def _is_definite(matrix: Array) -> bool:
    try:
        return not np.isnan(np.linalg.cholesky(matrix)).any()
    except np.linalg.LinAlgError:
        return False


def _refuse(attrs: Attrs, infos: Any, fault: str) -> None:
    """Raise `InputError` for the first matrix with an info other than 0, where the attribute `refuse` says so."""
    bad = np.flatnonzero(infos)
    if attrs.get("refuse") and bad.size:
        raise InputError(f"{attrs['refuse']}: the matrix {bad[0]} {fault.format(np.ravel(infos)[bad[0]])}")


_SINGULAR = "is singular: the pivot {} is 0"


def _infos(infos: list[int], batch: tuple[int, ...]) -> Array:
    return np.asarray(infos, np.int32).reshape(batch)


@host_op("linalg.qr")
def qr(attrs: Attrs, data: Array) -> tuple[Array, Array]:
    """(Q, R) as GEQRF and ORGQR return them; `mode` "reduced", "complete" or "r", where Q is empty."""
    factors: Any = np.linalg.qr(data, mode=attrs["mode"])
    if attrs["mode"] == "r":
        return np.empty(0, data.dtype), factors
    return factors[0], factors[1]


@host_op("linalg.geqrf")
def geqrf(attrs: Attrs, data: Array) -> tuple[Array, Array]:
    """(reflectors below the diagonal of R, their scales), as GEQRF."""
    reflectors, scales = np.linalg.qr(data, mode="raw")
    return np.ascontiguousarray(np.swapaxes(reflectors, -1, -2)), scales


@host_op("linalg.householder_product")
def householder_product(attrs: Attrs, reflectors: Array, scales: Array) -> Array:
    """The first columns of the product of reflectors, as ORGQR; all of them with `complete`."""
    rows, columns = reflectors.shape[-2:]
    width = rows if attrs["complete"] else columns
    made = np.broadcast_to(np.eye(rows, width, dtype=reflectors.dtype), (*reflectors.shape[:-2], rows, width)).copy()
    for position in range(scales.shape[-1] - 1, -1, -1):
        vector = np.tril(reflectors, -1)[..., position]
        vector[..., position] = 1
        along = np.einsum("...r,...rc->...c", vector, made)
        made -= scales[..., position, None, None] * vector[..., None] * along[..., None, :]
    return made


@host_op("linalg.svd")
def svd(attrs: Attrs, data: Array) -> tuple[Array, Array, Array]:
    """(U, singular values, V^T), as GESDD; all columns with `full_matrices`."""
    found = _converged(np.linalg.svd, data, full_matrices=attrs["full_matrices"])
    return found[0], found[1], found[2]


@host_op("linalg.eigh")
def eigh(attrs: Attrs, data: Array) -> tuple[Array, Array]:
    """(eigenvalues in order, eigenvectors) of symmetric matrices, of which the triangle `uplo` is read, as SYEVD."""
    found = _converged(np.linalg.eigh, data, UPLO=attrs["uplo"])
    return found[0], found[1]


@host_op("linalg.eig")
def eig(attrs: Attrs, data: Array) -> tuple[Array, Array, Array, Array]:
    """Eigenvalues and eigenvectors, real and imaginary parts apart, as GEEV."""
    values, vectors = _converged(np.linalg.eig, data)
    return tuple(np.asarray(part, data.dtype) for part in (values.real, values.imag, vectors.real, vectors.imag))  # type: ignore[return-value]


def _converged(function: Any, data: Array, **options: Any) -> Any:
    try:
        return function(data, **options)
    except np.linalg.LinAlgError as error:
        raise InputError(f"linalg.{function.__name__}: {error}") from None


@host_op("linalg.lu_factor")
def lu_factor(attrs: Attrs, data: Array) -> tuple[Array, Array, Array]:
    """(L below U, pivots from 1, info), rows exchanged where `pivot` says, as GETRF."""
    rows, columns = data.shape[-2:]
    count = min(rows, columns)
    factors, pivots, infos = [], [], []
    for (matrix,) in _each(data.copy()):
        order, info = np.arange(1, count + 1, dtype=np.int32), 0
        for position in range(count):
            best = position + int(np.abs(matrix[position:, position]).argmax()) if attrs["pivot"] else position
            order[position] = best + 1
            matrix[[position, best]] = matrix[[best, position]]
            if matrix[position, position] == 0:
                info = info or position + 1
                continue
            matrix[position + 1 :, position] /= matrix[position, position]
            matrix[position + 1 :, position + 1 :] -= np.outer(
                matrix[position + 1 :, position], matrix[position, position + 1 :]
            )
        factors.append(matrix)
        pivots.append(order)
        infos.append(info)
    _refuse(attrs, infos, _SINGULAR)
    batch = data.shape[:-2]
    return (
        _stacked(factors, batch, (rows, columns), data.dtype),
        _stacked(pivots, batch, (count,), np.int32),
        _infos(infos, batch),
    )


@host_op("linalg.permutation")
def permutation(attrs: Attrs, pivots: Array) -> Array:
    """The matrices P of P L U that sequences of row exchanges stand for; as many rows as `rows`."""
    flat, rows = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1]), attrs["rows"]
    made = np.zeros((len(flat), rows, rows), attrs["dtype"])
    for matrix, exchanges in zip(made, flat):
        order = np.arange(rows)
        for position, other in enumerate(exchanges - 1):
            order[[position, other]] = order[[other, position]]
        matrix[order, np.arange(rows)] = 1
    return made.reshape(*pivots.shape[:-1], rows, rows)


@host_op("linalg.solve")
def solve(attrs: Attrs, matrix: Array, right: Array) -> tuple[Array, Array]:
    """(X of A X = B, info); where a matrix is singular its solution is NaN and info says at which pivot."""
    batch = np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    left, values = (np.broadcast_to(v, (*batch, *v.shape[-2:])) for v in (matrix, right))
    infos = lu_factor({"pivot": True}, np.ascontiguousarray(left))[2]
    _refuse(attrs, infos, _SINGULAR)
    finite = (infos == 0) & np.isfinite(left).all((-1, -2))
    regular = np.where(finite[..., None, None], left, np.eye(left.shape[-1], dtype=left.dtype))
    found = np.linalg.solve(regular, values)
    return np.where(finite[..., None, None], found, np.nan).astype(right.dtype), infos


@host_op("linalg.solve_triangular")
def solve_triangular(attrs: Attrs, matrix: Array, right: Array) -> Array:
    """X of A X = B, A of one triangle (`upper`), its diagonal read as ones with `unitriangular`, as TRTRS."""
    size = matrix.shape[-1]
    zeros = np.diagonal(matrix, axis1=-2, axis2=-1) == 0
    _refuse(attrs, np.where(zeros.any(-1), zeros.argmax(-1) + 1, 0) if size else 0, _SINGULAR)
    batch = np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    made = np.broadcast_to(right, (*batch, *right.shape[-2:])).copy()
    for step in range(size):
        row = size - 1 - step if attrs["upper"] else step
        known = slice(row + 1, size) if attrs["upper"] else slice(0, row)
        made[..., row, :] -= np.einsum("...k,...kc->...c", matrix[..., row, known], made[..., known, :])
        if not attrs["unitriangular"]:
            made[..., row, :] /= matrix[..., row, row, None]
    return made


@host_op("linalg.slogdet")
def slogdet(attrs: Attrs, data: Array) -> tuple[Array, Array]:
    """(sign, logarithm of the size) of determinants."""
    sign, size = np.linalg.slogdet(data)
    return np.asarray(sign, data.dtype), np.asarray(size, data.dtype)


@host_op("linalg.det")
def det(attrs: Attrs, data: Array) -> Array:
    """Determinants."""
    return np.asarray(np.linalg.det(data), data.dtype)


@host_op("linalg.lstsq")
def lstsq(attrs: Attrs, matrix: Array, right: Array) -> tuple[Array, Array, Array]:
    """(the shortest X that minimizes |A X - B|, ranks, singular values), as GELSD; `rcond` None for its own."""
    rows, columns = matrix.shape[-2:]
    batch, count = right.shape[:-2], min(rows, columns)
    rcond = attrs["rcond"] if attrs["rcond"] is not None else np.finfo(matrix.dtype).eps * max(rows, columns)
    found = [np.linalg.lstsq(a, b, rcond) for a, b in _each(matrix, right)]
    return (
        _stacked([entry[0] for entry in found], batch, (columns, right.shape[-1]), right.dtype),
        np.asarray([entry[2] for entry in found], np.int64).reshape(batch),
        _stacked([entry[3] for entry in found], batch, (count,), right.dtype),
    )


@host_op("linalg.matrix_exp")
def matrix_exp(attrs: Attrs, data: Array) -> Array:
    """Exponentials of matrices: of a small enough part by the series, then squared as often as it was halved."""
    wide = data.astype(np.float64)
    norm = np.abs(wide).sum(-2).max(-1, initial=0) if wide.size else np.zeros(data.shape[:-2])
    finite = np.isfinite(norm)  # of others all elements are NaN
    wide = np.where(finite[..., None, None], wide, np.nan)
    halvings = np.where(finite, np.maximum(np.ceil(np.log2(np.maximum(norm, 1e-300))) + 1, 0), 0)
    small = wide / np.exp2(halvings)[..., None, None]
    term = made = np.broadcast_to(np.eye(data.shape[-1]), wide.shape)
    for order in range(1, 20):
        term = term @ small / order
        made = made + term
    for step in range(int(halvings.max(initial=0))):
        made = np.where((halvings > step)[..., None, None], made @ made, made)
    return made.astype(data.dtype)
