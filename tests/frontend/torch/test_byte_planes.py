"""Resizing of uint8 images, which agrees with eager mode to the bit where PyTorch does not decompose it first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.torch_backend import tilewright

torch = pytest.importorskip("torch", reason="needs the torch package")

SIZES = [((9, 11), (4, 5)), ((9, 11), (17, 20)), ((9, 11), (5, 23)), ((9, 120), (9, 3))]


class Resize(torch.nn.Module):
    """`interpolate` with fixed arguments."""

    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.interpolate(x, **self.how)


def image(extents: tuple[int, int]) -> Any:
    torch.manual_seed(0)
    return torch.randint(0, 256, (1, 3, *extents), dtype=torch.uint8)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("given", "size"), SIZES)
def test_exported_resizing_of_bytes_is_exact(given: Any, size: Any, mode: str, smooth: bool, corners: bool) -> None:
    module, x = Resize(size=size, mode=mode, antialias=smooth, align_corners=corners), image(given)
    (found,) = tw.compile(module, (x,)).run({"x": x.numpy()})
    np.testing.assert_array_equal(found, module(x).numpy())


@pytest.mark.filterwarnings("error::tilewright.torch_backend.FallbackWarning")
@pytest.mark.parametrize(
    ("mode", "smooth", "most"), [("bilinear", True, 0), ("bicubic", True, 0), ("bilinear", False, 1)]
)
def test_compiled_resizing_of_bytes_stays_within_a_unit(mode: str, smooth: bool, most: int) -> None:
    """Without antialias PyTorch itself decomposes it to floats, which round elsewhere, for any backend."""
    torch._dynamo.reset()
    module, x = Resize(size=(4, 20), mode=mode, antialias=smooth), image((9, 11))
    found = torch.compile(module, backend=tilewright)(x)
    assert (found.int() - module(x).int()).abs().max() <= most
