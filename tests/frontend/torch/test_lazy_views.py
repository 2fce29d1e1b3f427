"""Tensors that are not what their memory says: signs and conjugates kept in a bit, whichever way they come in."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.runtime.tensor import Tensor
from tilewright.torch_backend import tilewright

torch = pytest.importorskip("torch", reason="needs the torch package")


class Plus(torch.nn.Module):
    """Adds a weight."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, x: Any) -> Any:
        return x + self.weight


def negated() -> tuple[Any, Any]:
    """A tensor whose memory holds it with the other sign, and what it is."""
    lazy = torch.complex(torch.zeros(4), torch.arange(4.0)).conj().imag
    assert lazy.is_neg()
    return lazy, -np.arange(4, dtype="float32")


def test_as_input_of_a_model() -> None:
    lazy, right = negated()
    model = tw.compile(Plus(torch.zeros(4)), (torch.zeros(4),))
    np.testing.assert_array_equal(model(lazy), right)
    np.testing.assert_array_equal(model.run({"x": lazy})[0], right)


def test_a_negated_view_is_resolved_by_dlpack() -> None:
    lazy, right = negated()
    np.testing.assert_array_equal(Tensor.from_dlpack(lazy).numpy(), right)


def test_a_negated_view_is_resolved_as_a_weight() -> None:
    lazy, right = negated()
    np.testing.assert_array_equal(tw.compile(Plus(lazy), (torch.zeros(4),))(np.zeros(4, "float32")), right)


@pytest.mark.parametrize("frozen", [True, False])
def test_under_torch_compile(frozen: bool) -> None:
    torch._dynamo.reset()
    lazy, right = negated()
    run = torch.compile(Plus(lazy), backend=tilewright, options={"freezing": frozen})
    with torch.no_grad():
        np.testing.assert_array_equal(run(lazy).numpy(), 2 * right)


def test_a_conjugated_view_is_resolved() -> None:
    torch._dynamo.reset()
    lazy = torch.complex(torch.arange(4.0), torch.ones(4)).conj()
    found = torch.compile(lambda x: x * 2, backend=tilewright)(lazy)
    torch.testing.assert_close(found, (lazy * 2).resolve_conj())


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_float8_by_dlpack(name: str) -> None:
    given = torch.tensor([0.5, -2.0, 8.0]).to(getattr(torch, name))
    taken = Tensor.from_dlpack(given).numpy()
    assert taken.dtype == np.dtype(getattr(ml_dtypes, name))
    np.testing.assert_array_equal(taken.astype("float32"), given.float().numpy())
