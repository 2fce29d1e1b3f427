"""Sizes that depend on values, counts by parts of ranges, linear algebra and special functions against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright

torch = pytest.importorskip("torch", reason="needs the torch package")


class Call(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
COUNTS = torch.tensor([3, 1, 1, 2, 2, 2, 1])
VALUES = torch.arange(float(X.gt(0).sum()))
SQUARE = X @ X.T + torch.eye(3)

CHOSEN = {
    "nonzero": (lambda x: (x > 0).nonzero(), X),
    "masked_select": (lambda x: x.masked_select(x > 0), X),
    "mask as index": (lambda x: (x[x > 0], x[:, torch.tensor([True, False, True, True])]), X),
    "mask written": (lambda x: x.index_put((x > 0,), VALUES), X),
    "unique": (lambda x: torch.unique(x, return_inverse=True, return_counts=True), COUNTS),
    "unique rows": (lambda x: torch.unique(x, dim=0), torch.cat([X, X])),
    "unique_consecutive": (lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), COUNTS),
    "unique_consecutive columns": (lambda x: torch.unique_consecutive(x, dim=1), X[:, [0, 0, 1, 2, 2]]),
    "unique_consecutive of one axis": (lambda x: torch.unique_consecutive(x, dim=-1), COUNTS),
    "unique_consecutive of nothing": (lambda x: torch.unique_consecutive(x, True, dim=1), X[:, :0]),
    "histc of a range": (lambda x: torch.histc(x, 5, -1.0, 1.0), X),
    "histc of the values": (lambda x: (torch.histc(x, 5), torch.histc(x[:1, :1], 4)), X),
    "lookup of bounded rows": (
        lambda x: torch.nn.functional.embedding(torch.tensor([[0, 2], [2, 2]]), x * 1, max_norm=0.5),
        X,
    ),
    "repeat_interleave": (lambda x: x.repeat_interleave(torch.tensor([2, 0, 1]), 0), X),
    "nonzero_static": (lambda x: torch.nonzero_static(x > 0, size=9, fill_value=-1), X),
    "item": (lambda x: x * x.sum().item(), X),
    "histogram": (lambda x: torch.histogram(x, 4), X),
    "histogramdd": (lambda x: torch.histogramdd(x[:, :2], [2, 3]).hist, X),
    "segments": (lambda x: torch.segment_reduce(x, "max", lengths=torch.tensor([2, 0, 1]), initial=0.0), X),
    "mode": (lambda x: torch.mode(x), COUNTS),
    "nanmedian": (lambda x: torch.nanmedian(x, 1), torch.where(X > 1, torch.nan, X)),
    "svd": (lambda x: torch.linalg.svdvals(x), X),
    "solve": (lambda x: (torch.linalg.solve(x, x[:, :2]), torch.linalg.inv(x), torch.linalg.det(x)), SQUARE),
    "cholesky": (lambda x: torch.cholesky_solve(x[:, :1], torch.linalg.cholesky(x)), SQUARE),
    "lu": (lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), x), SQUARE),
    "pinv": (lambda x: (torch.linalg.pinv(x), torch.linalg.matrix_rank(x)), X),
    "lgamma": (lambda x: (torch.lgamma(x), torch.digamma(x), torch.polygamma(2, x)), X * 3),
    "erfinv": (lambda x: (torch.erfinv(x.tanh()), torch.special.log_ndtr(x * 9), torch.special.erfcx(x)), X),
    "bessel": (lambda x: (torch.i0(x), torch.special.bessel_j1(x), torch.special.bessel_y0(x.abs())), X * 20),
    "airy": (lambda x: torch.special.airy_ai(x), X * 5),
    "zeta": (lambda x: torch.special.zeta(x.abs() + 1, x.abs() + 0.5), X),
    "hermite": (lambda x: torch.special.hermite_polynomial_h(x, torch.tensor(5)), X),
    "nextafter": (lambda x: torch.nextafter(x, torch.zeros(())), X),
    "frexp": (lambda x: torch.frexp(x), X),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_compiled_as_eager(name: str) -> None:
    function, data = CHOSEN[name]
    module = Call(function)
    wanted = torch.utils._pytree.tree_leaves(module(data))
    found = tilewright.compile(torch.export.export(module, (data,), strict=False), cache=False).run({"x": data.numpy()})
    assert len(found) == len(wanted)
    for value, right in zip(found, wanted):
        assert value.dtype == right.numpy().dtype and value.shape == tuple(right.shape)
        np.testing.assert_allclose(value, right.numpy(), 1e-4, 1e-5)


def test_an_order_beyond_what_is_computed_is_nan() -> None:
    module = Call(lambda x: torch.special.legendre_polynomial_p(x, torch.tensor(41)))
    program = torch.export.export(module, (X,))
    assert np.isnan(tilewright.compile(program, cache=False)(X.numpy())).all()


def test_messages_along_a_number_of_edges_that_is_open() -> None:
    class Messages(torch.nn.Module):
        def forward(self, x: Any, edges: Any) -> Any:
            sums = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
            degree = torch.zeros(x.shape[0]).scatter_add(0, edges[1], torch.ones(edges.shape[1]))
            return sums / degree.clamp(min=1)[:, None]

    x, edges = torch.randn(5, 3), torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]])
    sizes = ({0: torch.export.Dim("nodes")}, {1: torch.export.Dim("edges")})
    model = tilewright.compile(torch.export.export(Messages(), (x, edges), dynamic_shapes=sizes), cache=False)
    for nodes, count in ((5, 6), (7, 2)):
        given = torch.randn(nodes, 3), edges[:, :count]
        (found,) = model.run({"x": given[0].numpy(), "edges": given[1].numpy()})
        np.testing.assert_allclose(found, Messages()(*given).numpy(), 1e-5, 1e-6)
