"""`torch.compile` with this package as its backend, against eager mode."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tilewright.torch_backend import FallbackWarning, tilewright

torch = pytest.importorskip("torch", reason="needs the torch package")


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)


def network() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3))


def test_inference_agrees() -> None:
    module, x = network().eval(), torch.randn(4, 6)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        found = torch.compile(module, backend=tilewright)(x)
        torch.testing.assert_close(found, module(x), rtol=1e-5, atol=1e-5)


def test_sizes_may_change() -> None:
    module = network().eval()
    compiled = torch.compile(module, backend=tilewright, dynamic=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for rows in (3, 5, 9):
            x = torch.randn(rows, 6)
            torch.testing.assert_close(compiled(x), module(x), rtol=1e-5, atol=1e-5)


def test_an_unsupported_graph_runs_in_torch_with_a_warning() -> None:
    x = torch.randn(4, 4)
    with pytest.warns(FallbackWarning, match="igamma"):
        found = torch.compile(lambda x: torch.igamma(x.abs(), x.abs()) + 1, backend=tilewright)(x)
    torch.testing.assert_close(found, torch.igamma(x.abs(), x.abs()) + 1)


def test_training_gives_the_same_gradients() -> None:
    module, x = network(), torch.randn(4, 6)
    wanted = torch.autograd.grad(module(x).square().sum(), list(module.parameters()))
    compiled = torch.compile(module, backend=tilewright)
    found = torch.autograd.grad(compiled(x).square().sum(), list(module.parameters()))
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
