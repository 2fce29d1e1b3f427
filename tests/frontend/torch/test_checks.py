"""Errors that eager mode raises while it runs: `torch.compile` raises the same, and nothing falls back for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import InputError
from tilewright.torch_backend import FallbackWarning, tilewright

torch = pytest.importorskip("torch", reason="needs the torch package")
nn, LA = torch.nn.functional, torch.linalg

#: function of a 4 by 5 matrix and a vector of indices, indices in range, indices out of range
INDICES: dict[str, tuple[Callable[..., Any], list[int], list[list[int]]]] = {
    "embedding": (lambda x, i: nn.embedding(i, x), [0, 3], [[0, 4], [-1, 2]]),
    "x[i]": (lambda x, i: x[i], [3, -4], [[4, 0], [-5, 0]]),
    "x[:, i]": (lambda x, i: x[:, i], [4, -5], [[5, 0], [-6, 0]]),
    "x[i, i]": (lambda x, i: x[i, i], [3, -4], [[4, 0], [0, -5]]),
    "gather": (lambda x, i: x.gather(1, i[:, None]), [4, 0], [[5, 0], [-1, 0]]),
    "scatter": (lambda x, i: x.scatter(1, i[:, None], 1.0), [4, 0], [[5, 0], [-1, 0]]),
    "scatter_add": (lambda x, i: x.scatter_add(0, i[:, None], x[:2, :1]), [3, 0], [[4, 0]]),
    "index_put": (lambda x, i: x.index_put((i,), torch.ones(5)), [3, -4], [[4, 0], [-5, 0]]),
    "index_select": (lambda x, i: x.index_select(1, i), [4, 0], [[5, 0], [-1, 0]]),
    "index_add": (lambda x, i: x.index_add(0, i, x[:2]), [3, 0], [[4, 0]]),
    "index_fill": (lambda x, i: x.index_fill(0, i, 1.0), [3, -4], [[-5, 0]]),
    "take": (lambda x, i: torch.take(x, i), [19, -20], [[20, 0], [-21, 0]]),
    "cross_entropy": (lambda x, i: nn.cross_entropy(x[:2], i), [4, -100], [[5, 0], [-1, 0]]),
    "nll_loss": (lambda x, i: nn.nll_loss(x[:2], i, ignore_index=-1), [4, -1], [[-2, 0]]),
    "cross_entropy of planes": (lambda x, i: nn.cross_entropy(x[None, :2].mT, i[None]), [4, 0], [[5, 0]]),
    "one_hot": (lambda x, i: nn.one_hot(i, 5) + x[:2], [4, 0], [[5, 0], [-1, 0]]),
    "embedding_bag": (lambda x, i: nn.embedding_bag(i[None], x), [3, 0], [[4, 0]]),
    "found indices": (lambda x, i: x.gather(1, x.topk(2).indices + i[0] - i[0]), [3, 0], []),
}


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        yield


class _Of(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: Any) -> Any:
        return self.function(a)


def _error_of(function: Callable[..., Any], *args: Any) -> Exception:
    with pytest.raises((RuntimeError, IndexError)) as caught:
        function(*args)
    return caught.value


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", INDICES)
def test_indices_out_of_range(name: str, dynamic: bool) -> None:
    function, fine, wrong = INDICES[name]
    x = torch.randn(4, 5, requires_grad=name in ("embedding", "cross_entropy"))
    compiled = torch.compile(function, backend=tilewright, dynamic=dynamic)
    given = torch.tensor(fine)
    torch.testing.assert_close(compiled(x, given), function(x, given), rtol=1e-5, atol=1e-5)
    for indices in wrong:
        ours, eager = (_error_of(one, x, torch.tensor(indices)) for one in (compiled, function))
        assert type(ours) is type(eager) and str(ours).removeprefix("one_hot: ") == str(eager)
    torch.testing.assert_close(compiled(x, given), function(x, given), rtol=1e-5, atol=1e-5)


def test_checks_are_left_out_on_demand_and_where_they_are_most_of_the_work() -> None:
    x, far = torch.randn(4, 5), torch.tensor([7, 0])
    compiled = torch.compile(lambda x, i: x[i], backend=tilewright, options={"checks": False})
    torch.testing.assert_close(compiled(x, far), x[[3, 0]])
    many = torch.zeros(200, 200, dtype=torch.int64)
    many[0, 0] = 7
    found = torch.compile(lambda x, i: x.gather(0, i), backend=tilewright)(torch.ones(5, 200), many)
    torch.testing.assert_close(found, torch.ones(200, 200))


SINGULAR, INDEFINITE = [[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [2.0, 1.0]]
MATRICES: dict[str, tuple[Callable[..., Any], list[list[float]]]] = {
    "cholesky": (LA.cholesky, INDEFINITE),
    "cholesky of NaN": (LA.cholesky, [[float("nan"), 0.0], [0.0, 1.0]]),
    "inv": (LA.inv, SINGULAR),
    "solve": (lambda a: LA.solve(a, a[:, :1]), SINGULAR),
    "lu_factor": (LA.lu_factor, SINGULAR),
    "matrix_power": (lambda a: LA.matrix_power(a, -1), SINGULAR),
    "cholesky_inverse": (lambda a: torch.cholesky_inverse(a), [[1.0, 0.0], [1.0, 0.0]]),
    "cholesky_inverse of an upper one": (lambda a: torch.cholesky_inverse(a, upper=True), [[0.0, 1.0], [0.0, 1.0]]),
    "tensorinv": (lambda a: LA.tensorinv(a.reshape(2, 2, 1), ind=1), SINGULAR),
    "inv_ex": (lambda a: LA.inv_ex(a, check_errors=True), SINGULAR),
    "cholesky_ex": (lambda a: LA.cholesky_ex(a, check_errors=True), INDEFINITE),
    "solve_ex": (lambda a: LA.solve_ex(a, a[:, :1], check_errors=True), SINGULAR),
    "lu_factor_ex": (lambda a: LA.lu_factor_ex(a, check_errors=True), SINGULAR),
    "svd of NaN": (LA.svdvals, [[float("nan"), 0.0], [0.0, 1.0]]),
}


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_that_are_refused(name: str) -> None:
    function, wrong = MATRICES[name]
    compiled, fine = torch.compile(function, backend=tilewright), torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    torch.testing.assert_close(compiled(fine), function(fine))
    ours, eager = (_error_of(one, torch.tensor(wrong)) for one in (compiled, function))
    assert (type(ours), str(ours)) == (type(eager), str(eager))


@pytest.mark.parametrize("name", MATRICES)
def test_exported_programs_refuse_them_too(name: str) -> None:
    function, wrong = MATRICES[name]

    fine = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    model = tw.compile(_Of(function), (fine,))
    wanted = torch.utils._pytree.tree_leaves(function(fine))
    for found, right in zip(model.run({"a": fine.numpy()}), wanted):
        np.testing.assert_allclose(found, right.numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match=r"matrix 0 is|did not converge"):
        model.run({"a": np.array(wrong, "float32")})


def test_inverses_of_what_is_not_finite() -> None:
    a = torch.tensor([[float("nan"), 1.0], [1.0, 1.0]])
    torch.testing.assert_close(torch.compile(LA.inv, backend=tilewright)(a), LA.inv(a), equal_nan=True)


def test_exponentials_of_what_is_not_finite() -> None:
    a = torch.stack([torch.eye(2), torch.tensor([[float("inf"), 1.0], [1.0, 1.0]])])
    for run in (torch.compile(LA.matrix_exp, backend=tilewright), tw.compile(_Of(LA.matrix_exp), (a,))):
        found = torch.as_tensor(np.asarray(run(a)))
        torch.testing.assert_close(found, LA.matrix_exp(a), equal_nan=True)
