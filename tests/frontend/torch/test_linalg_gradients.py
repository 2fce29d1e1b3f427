"""Gradients of linear algebra by `torch.compile`, in float64 and of matrices that are not symmetric."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tilewright.torch_backend import FallbackWarning, tilewright

torch = pytest.importorskip("torch", reason="needs the torch package")
LA = torch.linalg

SQUARE, TALL, WIDE, RIGHT = (2, 4, 4), (2, 5, 3), (2, 3, 5), (2, 4, 3)


def _positive(a: Any) -> Any:
    return a @ a.mT + torch.eye(a.shape[-1], dtype=a.dtype)


def _joined(parts: Any) -> Any:
    return torch.cat([part.flatten() for part in parts])


def _unsigned(parts: Any) -> Any:
    return torch.cat([part.abs().flatten() for part in parts])


def _squared(a: Any) -> Any:
    """Reads singular vectors in products and through views, which the backward graph gets as well."""
    u, s, v = LA.svd(a, full_matrices=False)
    return (u * s.unsqueeze(-2) ** 2) @ v


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "det": (LA.det, [SQUARE]),
    "det of a transpose": (lambda a: LA.det(a.mT), [SQUARE]),
    "det of a product": (lambda a: LA.det((a @ a).mT) + LA.det(a[..., ::2, 1:3]), [SQUARE]),
    "slogdet": (lambda a: LA.slogdet(a)[1], [SQUARE]),
    "logdet": (lambda a: torch.logdet(_positive(a) + 0.1 * a.triu()), [SQUARE]),
    "inv": (LA.inv, [SQUARE]),
    "solve": (LA.solve, [SQUARE, RIGHT]),
    "solve from the right": (lambda a, b: LA.solve(a, b.mT, left=False), [SQUARE, RIGHT]),
    "cholesky": (lambda a: LA.cholesky(_positive(a)), [SQUARE]),
    "cholesky, upper": (lambda a: LA.cholesky(_positive(a), upper=True), [SQUARE]),
    "cholesky_solve": (lambda a, b: torch.cholesky_solve(b, a.tril()), [SQUARE, RIGHT]),
    "qr": (lambda a: _joined(LA.qr(a)), [TALL]),
    "qr, wide": (lambda a: _joined(LA.qr(a)), [WIDE]),
    "eigh": (lambda a: _unsigned(LA.eigh(a + a.mT)), [SQUARE]),
    "eigh of one triangle": (lambda a: _unsigned(LA.eigh(a, "U")), [SQUARE]),
    "svdvals": (LA.svdvals, [TALL]),
    "svd": (_squared, [WIDE]),
    "svd of old": (lambda a: _unsigned(torch.svd(a)), [WIDE]),
    "pinv": (LA.pinv, [TALL]),
    "matrix_exp": (LA.matrix_exp, [SQUARE]),
    "lu": (lambda a: _joined(LA.lu(a)[1:]), [WIDE]),
    "lu_factor": (lambda a: LA.lu_factor(a)[0], [SQUARE]),
    "lu_solve": (lambda a, b: LA.lu_solve(*LA.lu_factor(a), b, adjoint=True), [SQUARE, RIGHT]),
    "solve_triangular": (lambda a, b: LA.solve_triangular(a, b, upper=True), [SQUARE, RIGHT]),
    "solve_triangular, from the right": (
        lambda a, b: LA.solve_triangular(a, b.mT, upper=False, left=False), [SQUARE, RIGHT],
    ),
    "matrix_power": (lambda a: LA.matrix_power(a, -2), [SQUARE]),
    "nuclear norm": (lambda a: LA.matrix_norm(a, "nuc"), [TALL]),
    "lstsq": (lambda a, b: LA.lstsq(a, b)[0], [TALL, (2, 5, 2)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gradients_agree_with_eager_mode(name: str) -> None:
    function, shapes = CASES[name]
    torch._dynamo.reset()
    torch.manual_seed(0)
    values = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    if shapes[0] == SQUARE:
        values[0] += 2 * torch.eye(4, dtype=torch.float64)
    for value in values:
        value.requires_grad_()
    wanted = function(*values)
    weight = torch.randn(wanted.shape, dtype=torch.float64)
    gradients = torch.autograd.grad((wanted * weight).sum(), values)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        found = torch.compile(function, backend=tilewright)(*values)
        ours = torch.autograd.grad((found * weight).sum(), values)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    for one, other in zip(ours, gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)
