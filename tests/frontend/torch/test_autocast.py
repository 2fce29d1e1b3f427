"""Regions of `torch.autocast` stay in bfloat16: exported programs and compiled functions against eager PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import op_names
from tilewright import torch_backend
from tilewright.backend import backend_of
from tilewright.frontend.torch import from_pytorch
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.quantize.bfloat16_products import bfloat16_products
from tilewright.relay.transform.quantize.compute_in_float32 import compute_in_float32
from tilewright.relay.transform.simplify.fold_constant import fold_constant
from tilewright.target import Target

torch = pytest.importorskip("torch", reason="needs the torch package")

#: A rounding of bfloat16.
_ROUNDING = 2.0**-8


class Layers(torch.nn.Module):
    """Two layers in a region, and a sum in float32 behind it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = torch.nn.Linear(256, 512), torch.nn.Linear(512, 256)

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            y = self.second(torch.nn.functional.gelu(self.first(x)))
            scores = torch.matmul(y, y.transpose(-1, -2))
        return y, scores, x + y


X = torch.randn(2, 64, 256, generator=torch.Generator().manual_seed(0))


def _agree(found: Any, wanted: Any) -> None:
    """Equal types, and a few roundings of bfloat16 of the largest element in between."""
    for one, right in zip(found, wanted, strict=True):
        assert str(one.dtype).removeprefix("torch.") == str(right.dtype).removeprefix("torch.")
        exact = right.double().numpy()
        np.testing.assert_allclose(
            np.asarray(one).astype("f8"), exact, rtol=0, atol=3 * _ROUNDING * np.abs(exact).max()
        )


def _pairs(mod: IRModule) -> int:
    """Products of bfloat16 by weights with matrix registers."""
    backend = backend_of(Target("llvm -mcpu=sapphirerapids"))
    made = bfloat16_products(fold_constant(compute_in_float32(mod, backend=backend)), backend)
    return op_names(made).count("nn.contrib_dense_bfloat16")


def test_regions_of_exported_programs() -> None:
    layers = Layers().eval()
    with torch.no_grad():
        wanted, program = layers(X), torch.export.export(layers, (X,))
    assert any("wrap_with_autocast" in str(node.target) for node in program.graph.nodes)
    mod, _ = from_pytorch(program)
    assert _pairs(mod) == 2
    _agree(tw.compile(mod, cache=False).run({"x": X.numpy()}), wanted)


def test_regions_without_gradients() -> None:
    class Frozen(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                y = x * 2
            return y + 1

    mod, _ = from_pytorch(torch.export.export(Frozen(), (X,)))
    np.testing.assert_array_equal(tw.compile(mod, cache=False).run({"x": X.numpy()})[0], (2 * X + 1).numpy())


def test_regions_of_compiled_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[IRModule] = []

    def recorded(mod: IRModule, *args: Any, **kwargs: Any) -> Any:
        compiled.append(mod)
        return tw.compile(mod, *args, **kwargs)

    monkeypatch.setattr(torch_backend, "compile_model", recorded)
    layers = Layers().eval()
    with torch.no_grad():
        wanted = layers(X)
        found = torch.compile(layers, backend="tilewright", options={"strict": True})(X)
    _agree([one.float() if one.dtype == torch.bfloat16 else one for one in found], [one.float() for one in wanted])
    assert [one.dtype for one in found] == [one.dtype for one in wanted]
    assert [_pairs(mod) for mod in compiled] == [2]
