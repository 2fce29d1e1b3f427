"""Convolutions of bytes by dot products in vectors: tiles of several rows, epilogues with a residual sum."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tilewright import build, te, tir, topi
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of
from tilewright.target import Target
from tilewright.topi.reference.conv import conv2d_nchw
from tilewright.topi.reference.layout import layout_transform

VNNI = Target("llvm -mcpu=icelake-server -cores=1")
ZERO = 119


class _Layer:
    """A 3x3 convolution of 7x7 pixels with a residual sum, whose operand is centred in the epilogue."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.x, self.residual = (rng.integers(0, 256, (1, 32, 7, 7)).astype("uint8") for _ in range(2))
        self.w = rng.integers(-128, 128, (32, 32, 3, 3)).astype("int8")
        images = [layout_transform(image, "NCHW", "NCHW16c") for image in (self.x, self.residual)]
        self.operands = [images[0], layout_transform(self.w, "OIHW", "OIHW4i16o4i"), images[1]]
        data, kernel, other = (te.placeholder(v.shape, str(v.dtype)) for v in self.operands)
        centred = topi.subtract(topi.cast(other, "int32"), topi.full((1,), "int32", ZERO))
        conv = topi.nn.conv2d_dot_NCHWc(data, kernel, (1, 1), (1, 1, 1, 1))
        self.tensors = [data, kernel, other, topi.add(centred, conv)]

    def lowered(self, config: Mapping[str, int] | None = None) -> tir.PrimFunc:
        return te.lower(schedule([self.tensors[-1]], VNNI, config), self.tensors)

    def exact(self) -> np.ndarray:
        padded = np.pad(self.x.astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
        return conv2d_nchw(padded, self.w.astype("float64"), (1, 1)) + self.residual - ZERO


def test_operands_of_the_epilogue_are_computed_in_it() -> None:
    """The centred image comes before the convolution in the order of the graph, and is not written to memory."""
    text = str(_Layer().lowered())
    assert "T_cast" not in text.split(":", 1)[1]
    assert "constant = " not in text


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_tiles_of_several_rows_leave_a_shorter_one(rows: int) -> None:
    if not VNNI.is_host:
        pytest.skip("this machine has no VNNI")
    layer = _Layer()
    ranked = [config for _, config in space_of([layer.tensors[-1]], VNNI).ranked]
    config = next(c for c in ranked if c["tile_rows"] == rows and c["tile_columns"] == 7)
    result = np.zeros((1, 2, 7, 7, 16), "int32")
    build(layer.lowered(config), target=VNNI)["main"](*layer.operands, result)
    np.testing.assert_array_equal(layout_transform(result, "NCHW16c", "NCHW"), layer.exact())


def test_short_rows_share_a_tile() -> None:
    """Two rows of 7 pixels read each weight half as often as one does, and a tile of 14 pixels fits the registers."""
    assert space_of([_Layer().tensors[-1]], VNNI).cheapest[1]["tile_rows"] == 2
