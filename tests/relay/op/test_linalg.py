"""Linear algebra against its definition: products of the factors give the matrix back, compiled as interpreted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import relay
from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.op import linalg

DATA = np.random.default_rng(0).standard_normal((2, 3, 4, 4))
SYMMETRIC = DATA @ np.swapaxes(DATA, -1, -2) + np.eye(4)
TALL = np.random.default_rng(1).standard_normal((2, 5, 3))


def results(function: Callable[..., Call], *arrays: np.ndarray) -> list[Any]:
    """The results of the call of `function`, compiled."""
    params = [relay.var(f"x{i}", shape=array.shape, dtype="float64") for i, array in enumerate(arrays)]
    module = relay.IRModule.from_expr(relay.Function(params, function(*params)))
    return tilewright.compile(module, cache=False).run({f"x{i}": array for i, array in enumerate(arrays)})


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, 1e-9, 1e-9)


def turned(matrix: Any) -> Any:
    return np.swapaxes(matrix, -1, -2)


@pytest.mark.parametrize("upper", [False, True])
def test_the_cholesky_factor_multiplies_to_the_matrix(upper: bool) -> None:
    factor, info = results(lambda a: linalg.cholesky(a, upper=upper), SYMMETRIC)
    close(turned(factor) @ factor if upper else factor @ turned(factor), SYMMETRIC)
    assert not info.any() and info.dtype == np.int32


def test_cholesky_counts_the_minor_that_is_not_positive() -> None:
    _, info = results(linalg.cholesky, np.diag([1.0, 2.0, -1.0, 3.0]))
    assert info == 3


@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr_multiplies_to_the_matrix_and_q_is_orthogonal(mode: str) -> None:
    q, r = results(lambda a: linalg.qr(a, mode=mode), TALL)
    close(q @ r, TALL)
    close(turned(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (2, q.shape[-1], q.shape[-1])))


def test_reflectors_give_the_columns_of_qr() -> None:
    reflectors, scales = results(linalg.geqrf, TALL)
    (q,) = results(linalg.householder_product, reflectors, scales)
    close(q @ np.triu(reflectors)[:, :3], TALL)


def test_the_singular_value_decomposition_multiplies_to_the_matrix() -> None:
    u, s, vt = results(linalg.svd, TALL)
    close((u * s[:, None]) @ vt, TALL)


def test_eigenvectors_of_one_triangle() -> None:
    for uplo, part in (("L", np.tril), ("U", np.triu)):
        values, vectors = results(lambda a: linalg.eigh(a, uplo=uplo), part(SYMMETRIC))  # noqa: B023
        close(SYMMETRIC @ vectors, vectors * values[..., None, :])


def test_eigenvalues_in_parts() -> None:
    real, imaginary, vectors, more = results(linalg.eig, DATA)
    whole = vectors + 1j * more
    close(DATA @ whole, whole * (real + 1j * imaginary)[..., None, :])


@pytest.mark.parametrize("data", [DATA, TALL, turned(TALL).copy()], ids=["square", "tall", "wide"])
def test_lu_with_its_permutation(data: np.ndarray) -> None:
    factors, pivots, info = results(linalg.lu_factor, data)
    rows, inner = data.shape[-2], min(data.shape[-2:])
    lower = np.tril(factors, -1)[..., :inner] + np.eye(rows, inner)
    module = relay.var("p", shape=pivots.shape, dtype="int32")
    order = relay.IRModule.from_expr(relay.Function([module], linalg.permutation(module, rows, "float64")))
    close(tilewright.compile(order, cache=False)(pivots) @ lower @ np.triu(factors)[..., :inner, :], data)
    assert not info.any()


def test_solutions_satisfy_their_systems() -> None:
    right = DATA[..., :2]
    found, info = results(linalg.solve, DATA, right)
    close(DATA @ found, right)
    assert not info.any()
    upper = np.triu(DATA) + 2 * np.eye(4)
    close(upper @ results(lambda a, b: linalg.solve_triangular(a, b, upper=True), upper, right)[0], right)
    unit = np.tril(DATA, -1) + np.eye(4)
    close(unit @ results(lambda a, b: linalg.solve_triangular(a, b, unitriangular=True), DATA, right)[0], right)


def test_a_singular_matrix_has_no_solution() -> None:
    found, info = results(linalg.solve, np.stack([np.eye(2), np.ones((2, 2))]), np.ones((2, 2, 1)))
    close(found[0], 1)
    assert np.isnan(found[1]).all() and info.tolist() == [0, 2]


def test_least_squares_agree_with_numpy() -> None:
    right = np.random.default_rng(2).standard_normal((2, 5, 1))
    found, rank, values = results(linalg.lstsq, TALL, right)
    close(turned(TALL) @ (TALL @ found - right), 0)
    close(values, np.linalg.svd(TALL, compute_uv=False))
    assert rank.tolist() == [3, 3]


def test_numbers_of_matrices() -> None:
    sign, size = results(linalg.slogdet, DATA)
    close(sign * np.exp(size), results(linalg.det, DATA)[0])
    values, vectors = np.linalg.eigh(SYMMETRIC)
    exact = (vectors * np.exp(values)[..., None, :]) @ turned(vectors)
    np.testing.assert_allclose(results(linalg.matrix_exp, SYMMETRIC)[0], exact, 1e-8)


CASES: Sequence[Callable[..., Call]] = [linalg.cholesky, linalg.eigh, linalg.det, linalg.matrix_exp]


@pytest.mark.parametrize("function", CASES, ids=["cholesky", "eigh", "det", "matrix_exp"])
def test_what_needs_square_matrices_refuses_others(function: Callable[..., Call]) -> None:
    x = relay.var("x", shape=(2, 3, 4), dtype="float32")
    with pytest.raises(TypeMismatchError, match="square matrices are needed"):
        infer_type(relay.IRModule.from_expr(relay.Function([x], function(x))))
