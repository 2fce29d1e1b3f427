"""Linear algebra of batches of matrices, which are the last two axes: `relay.linalg.qr` and the like, on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.op.common import Types, call, require, require_float, require_same_dtype, tensor, tensors
from tilewright.relay.op.host import register_host


def _matrices(type_: Type, square: bool = False) -> tuple[tuple[Any, ...], Any, Any, Any]:
    """(batch, rows, columns, element type) of a batch of matrices."""
    data = tensor(type_)
    require(data.ndim >= 2, f"matrices are needed, not {data}")
    require_float(data)
    rows, columns = data.shape[-2:]
    require(not square or rows == columns, f"square matrices are needed, not {data}")
    return data.shape[:-2], rows, columns, data.dtype


def _smaller(rows: Any, columns: Any) -> Any:
    known = isinstance(rows, int) and isinstance(columns, int)
    require(known or rows == columns, f"matrices of known extents are needed, not {rows} by {columns}")
    return min(rows, columns) if known else rows


def _cholesky_type(types: Types, _attrs: Attrs) -> Type:
    batch, _, _, _ = _matrices(types[0], square=True)
    return TupleType([tensor(types[0]), TensorType(batch, "int32")])


def _qr_type(types: Types, attrs: Attrs) -> Type:
    batch, rows, columns, dtype = _matrices(types[0])
    inner = rows if attrs["mode"] == "complete" else _smaller(rows, columns)
    first = TensorType((0,), dtype) if attrs["mode"] == "r" else TensorType((*batch, rows, inner), dtype)
    return TupleType([first, TensorType((*batch, inner, columns), dtype)])


def _geqrf_type(types: Types, _attrs: Attrs) -> Type:
    batch, rows, columns, dtype = _matrices(types[0])
    return TupleType([tensor(types[0]), TensorType((*batch, _smaller(rows, columns)), dtype)])


def _householder_type(types: Types, attrs: Attrs) -> Type:
    batch, rows, columns, dtype = _matrices(types[0])
    return TensorType((*batch, rows, rows if attrs["complete"] else columns), dtype)


def _svd_type(types: Types, attrs: Attrs) -> Type:
    batch, rows, columns, dtype = _matrices(types[0])
    inner = _smaller(rows, columns)
    left, right = (rows, columns) if attrs["full_matrices"] else (inner, inner)
    shapes = ((*batch, rows, left), (*batch, inner), (*batch, right, columns))
    return TupleType([TensorType(shape, dtype) for shape in shapes])


def _eigen_types(types: Types) -> tuple[TensorType, TensorType]:
    batch, rows, _, dtype = _matrices(types[0], square=True)
    return TensorType((*batch, rows), dtype), tensor(types[0])


def _eig_type(types: Types, _attrs: Attrs) -> Type:
    values, vectors = _eigen_types(types)
    return TupleType([values, values, vectors, vectors])


def _lu_type(types: Types, _attrs: Attrs) -> Type:
    batch, rows, columns, _ = _matrices(types[0])
    pivots = TensorType((*batch, _smaller(rows, columns)), "int32")
    return TupleType([tensor(types[0]), pivots, TensorType(batch, "int32")])


def _permutation_type(types: Types, attrs: Attrs) -> Type:
    return TensorType((*tensor(types[0]).shape[:-1], attrs["rows"], attrs["rows"]), attrs["dtype"])


def _right_side(types: Types) -> TensorType:
    """The type of a solution: that of the right side, whose batch is that of the matrices."""
    left, right = tensors(types)
    require_same_dtype(left, right)
    _matrices(right)
    fits = left.shape[:-2] == right.shape[:-2] and left.shape[-2] == right.shape[-2]
    require(fits, f"{left} and {right} do not fit together")
    return TensorType((*right.shape[:-2], left.shape[-1], right.shape[-1]), right.dtype)


def _solve_type(types: Types, _attrs: Attrs) -> Type:
    _matrices(types[0], square=True)
    found = _right_side(types)
    return TupleType([found, TensorType(found.shape[:-2], "int32")])


def _triangular_type(types: Types, _attrs: Attrs) -> Type:
    _matrices(types[0], square=True)
    return _right_side(types)


def _number_type(types: Types, _attrs: Attrs) -> TensorType:
    batch, _, _, dtype = _matrices(types[0], square=True)
    return TensorType(batch, dtype)


def _lstsq_type(types: Types, _attrs: Attrs) -> Type:
    batch, rows, columns, dtype = _matrices(types[0])
    values = TensorType((*batch, _smaller(rows, columns)), dtype)
    return TupleType([_right_side(types), TensorType(batch, "int64"), values])


def _exp_type(types: Types, _attrs: Attrs) -> Type:
    _matrices(types[0], square=True)
    return types[0]


register_host(
    "linalg.cholesky",
    num_inputs=1,
    type_rule=_cholesky_type,
    attributes={"upper": attr.flag(False), "refuse": attr.text("")},
)
register_host("linalg.qr", num_inputs=1, type_rule=_qr_type, attributes={"mode": attr.text("reduced")})
register_host("linalg.geqrf", num_inputs=1, type_rule=_geqrf_type)
register_host(
    "linalg.householder_product",
    num_inputs=2,
    type_rule=_householder_type,
    attributes={"complete": attr.flag(False)},
)
register_host("linalg.svd", num_inputs=1, type_rule=_svd_type, attributes={"full_matrices": attr.flag(False)})
register_host(
    "linalg.eigh",
    num_inputs=1,
    type_rule=lambda types, _attrs: TupleType(_eigen_types(types)),
    attributes={"uplo": attr.text("L")},
)
register_host("linalg.eig", num_inputs=1, type_rule=_eig_type)
register_host(
    "linalg.lu_factor", num_inputs=1, type_rule=_lu_type, attributes={"pivot": attr.flag(True), "refuse": attr.text("")}
)
register_host(
    "linalg.permutation",
    num_inputs=1,
    type_rule=_permutation_type,
    attributes={"rows": attr.integer(), "dtype": attr.dtype()},
)
register_host("linalg.solve", num_inputs=2, type_rule=_solve_type, attributes={"refuse": attr.text("")})
register_host(
    "linalg.solve_triangular",
    num_inputs=2,
    type_rule=_triangular_type,
    attributes={"upper": attr.flag(False), "unitriangular": attr.flag(False), "refuse": attr.text("")},
)
register_host(
    "linalg.slogdet",
    num_inputs=1,
    type_rule=lambda types, attrs: TupleType([_number_type(types, attrs)] * 2),
)
register_host("linalg.det", num_inputs=1, type_rule=_number_type)
register_host("linalg.lstsq", num_inputs=2, type_rule=_lstsq_type, attributes={"rcond": attr.optional(attr.number())})
register_host("linalg.matrix_exp", num_inputs=1, type_rule=_exp_type)


def cholesky(data: Expr, upper: bool = False, refuse: str = "") -> Call:
    """(L of L L^T, or its transpose with `upper`; int32 info, 0 where the matrix is positive definite).

    With `refuse`, a name for messages, a run raises `InputError` where one is not. So do `lu_factor`, `solve` and
    `solve_triangular`.
    """
    return call("linalg.cholesky", data, upper=upper, refuse=refuse)


def qr(data: Expr, mode: str = "reduced") -> Call:
    """(Q, R); `mode` "reduced", "complete", or "r" where Q is empty."""
    return call("linalg.qr", data, mode=mode)


def geqrf(data: Expr) -> Call:
    """(reflectors below the diagonal of R, their scales)."""
    return call("linalg.geqrf", data)


def householder_product(reflectors: Expr, scales: Expr, complete: bool = False) -> Call:
    """The first columns of the product of reflectors as `geqrf` returns them; all with `complete`."""
    return call("linalg.householder_product", reflectors, scales, complete=complete)


def svd(data: Expr, full_matrices: bool = False) -> Call:
    """(U, singular values from the largest, V^T)."""
    return call("linalg.svd", data, full_matrices=full_matrices)


def eigh(data: Expr, uplo: str = "L") -> Call:
    """(eigenvalues from the smallest, eigenvectors) of symmetric matrices, of which one triangle is read."""
    return call("linalg.eigh", data, uplo=uplo)


def eig(data: Expr) -> Call:
    """(real, imaginary parts of eigenvalues; real, imaginary parts of eigenvectors)."""
    return call("linalg.eig", data)


def lu_factor(data: Expr, pivot: bool = True, refuse: str = "") -> Call:
    """(L below U, int32 row exchanges from 1, int32 info, not 0 where the matrix is singular)."""
    return call("linalg.lu_factor", data, pivot=pivot, refuse=refuse)


def permutation(pivots: Expr, rows: int, dtype: str = "float32") -> Call:
    """The matrices that row exchanges as `lu_factor` returns them stand for."""
    return call("linalg.permutation", pivots, rows=rows, dtype=dtype)


def solve(matrix: Expr, right: Expr, refuse: str = "") -> Call:
    """(X of A X = B, int32 info); NaN where a matrix is singular."""
    return call("linalg.solve", matrix, right, refuse=refuse)


def solve_triangular(
    matrix: Expr, right: Expr, upper: bool = False, unitriangular: bool = False, refuse: str = ""
) -> Call:
    """X of A X = B, where A has one triangle, and ones on its diagonal with `unitriangular`."""
    return call("linalg.solve_triangular", matrix, right, upper=upper, unitriangular=unitriangular, refuse=refuse)


def slogdet(data: Expr) -> Call:
    """(sign, logarithm of the size) of determinants."""
    return call("linalg.slogdet", data)


def det(data: Expr) -> Call:
    """Determinants."""
    return call("linalg.det", data)


def lstsq(matrix: Expr, right: Expr, rcond: float | None = None) -> Call:
    """(the shortest X that minimizes |A X - B|, ranks, singular values)."""
    return call("linalg.lstsq", matrix, right, rcond=rcond)


def matrix_exp(data: Expr) -> Call:
    """Exponentials of matrices."""
    return call("linalg.matrix_exp", data)


__all__: Sequence[str] = [
    "cholesky", "det", "eig", "eigh", "geqrf", "householder_product", "lstsq", "lu_factor", "matrix_exp",
    "permutation", "qr", "slogdet", "solve", "solve_triangular", "svd",
]  # fmt: skip
