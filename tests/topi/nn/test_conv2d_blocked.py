"""Properties that the CPU schedules rely on: tags, order of the reduction axes, workload, padding as a stage."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.cpu.schedule.kernels import run, sample
from tilewright import te, topi
from tilewright.topi.reference.conv import conv2d_nchw
from tilewright.topi.reference.layout import layout_transform


def names(tensor):
    return [axis.var.name for axis in tensor.op.reduce_axis]


def test_the_blocked_convolution_has_the_axes_and_tags_of_schedules():
    data, kernel = te.placeholder((1, 2, 38, 38, 4)), te.placeholder((3, 2, 3, 3, 4, 8))
    out = topi.nn.conv2d_NCHWc(data, kernel, (2, 2), (1, 1, 1, 1))
    assert names(out) == ["ic_outer", "kh", "kw", "ic_inner"]
    assert out.op.tag == "conv2d_NCHWc" and out.op.attrs["strides"] == (2, 2) and out.op.attrs["oc_block"] == 8
    padded = out.op.input_tensors[0]
    assert padded.op.tag == "pad" and topi.util.constant_shape(padded) == (1, 2, 40, 40, 4)


@pytest.mark.parametrize("size", [(7, 14), (14, 7), (5, 33), (2, 9)])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [((3, 3), 2, (0, 0, 1, 1)), ((5, 3), 1, (2, 1, 2, 1))])
def test_rows_beside_small_images_are_left_out(size, kernel, stride, padding):
    data, weight = sample(1, 8, *size), sample(16, 8, *kernel, seed=1)
    expected = conv2d_nchw(data, weight, (stride, stride), padding)
    blocked = run(
        lambda x, w: topi.nn.conv2d_NCHWc(x, w, (stride, stride), padding),
        layout_transform(data, "NCHW", "NCHW8c"),
        layout_transform(weight, "OIHW", "OIHW8i16o"),
    )
    np.testing.assert_allclose(layout_transform(blocked, "NCHW16c", "NCHW"), expected, rtol=1e-5, atol=1e-4)
    first = run(
        lambda x, w: topi.nn.conv2d_first_NCHWc(x, w, (stride, stride), padding),
        data,
        layout_transform(weight, "OIHW", "OIHW16o"),
    )
    np.testing.assert_allclose(layout_transform(first, "NCHW16c", "NCHW"), expected, rtol=1e-5, atol=1e-4)


def test_no_stage_for_no_padding():
    data, kernel = te.placeholder((1, 2, 8, 8, 4)), te.placeholder((2, 1, 3, 3, 1, 4))
    out = topi.nn.depthwise_conv2d_NCHWc(data, kernel, (1, 1), (0, 0, 0, 0))
    assert out.op.input_tensors[0] is data and names(out) == ["kh", "kw"]
    assert out.op.tag == "depthwise_conv2d_NCHWc"


def test_first_layer_shares_the_blocked_template():
    data, kernel = te.placeholder((1, 3, 8, 8)), te.placeholder((2, 3, 3, 3, 8))
    out = topi.nn.conv2d_first_NCHWc(data, kernel, (1, 1), (1, 1, 1, 1))
    assert "conv2d_NCHWc" in out.op.tag.split(",") and names(out) == ["ic", "kh", "kw"]
    assert topi.util.constant_shape(out) == (1, 2, 8, 8, 8)


def test_transposed_convolution_multiplies_no_inserted_zero():
    """A kernel of 4 and a stride of 2: every phase sums 2x2 taps, not 4x4."""
    data, kernel = te.placeholder((1, 3, 5, 5)), te.placeholder((3, 2, 4, 4))
    out = topi.nn.conv2d_transpose_nchw(data, kernel, (2, 2), (1, 1, 1, 1))
    (phases,) = out.op.input_tensors
    assert [int(axis.dom.extent.value) for axis in phases.op.reduce_axis] == [3, 2, 2]
