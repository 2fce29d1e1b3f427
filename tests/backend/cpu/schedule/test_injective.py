"""Elementwise and data-moving operators, against NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright.topi as topi
from tests.backend.cpu.schedule.kernels import TARGET, Array, run, sample
from tilewright import te
from tilewright.backend.cpu.schedule.dispatch import schedule
from tilewright.topi.image import resize2d
from tilewright.topi.reference import resize as reference


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1, 40, 12, 64), (0, 2, 1, 3)),
        ((1, 12, 40, 64), (0, 1, 3, 2)),
        ((1, 40, 12, 64), (0, 2, 3, 1)),
        ((1, 64, 30, 9), (0, 2, 3, 1)),
        ((1, 30, 9, 64), (0, 3, 1, 2)),
        ((1, 7, 7, 200), (0, 3, 1, 2)),
        ((197, 197), (1, 0)),
        ((128, 256), (1, 0)),
        ((5, 3), (1, 0)),
        ((1, 9000), (1, 0)),
        ((30, 20, 25), (2, 1, 0)),
    ],
)
@pytest.mark.sample(10)
def test_transposes_agree_with_numpy(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    x = sample(*shape, dtype=dtype)
    np.testing.assert_array_equal(run(lambda t: topi.transpose(t, axes), x), x.transpose(axes))


def _blocked(x: Array, block: int) -> Array:
    n, c, h, w = x.shape
    return np.ascontiguousarray(x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2))


@pytest.mark.parametrize("block", [16, 8, 4])
@pytest.mark.parametrize("shape", [(1, 64, 14, 14), (2, 48, 7, 7), (1, 32, 35, 35), (1, 16, 1, 1), (1, 160, 8, 33)])
@pytest.mark.sample(5)
def test_blocked_layouts_are_packed_and_repacked(shape: tuple[int, ...], block: int) -> None:
    x = sample(*shape)
    blocked, layout = _blocked(x, block), f"NCHW{block}c"
    np.testing.assert_array_equal(run(lambda t: topi.layout_transform(t, "NCHW", layout), x), blocked)
    np.testing.assert_array_equal(run(lambda t: topi.layout_transform(t, layout, "NCHW"), blocked), x)
    other = 8 if block == 16 else 16
    if shape[1] % other == 0:
        got = run(lambda t: topi.layout_transform(t, layout, f"NCHW{other}c"), blocked)
        np.testing.assert_array_equal(got, _blocked(x, other))


def test_short_rows_are_transposed_as_one() -> None:
    """14 pixels would be blocks of 8, 4 and 2; 196 are 12 of 16 and one of 4."""
    image = te.placeholder((1, 512, 14, 14), name="image")
    out = topi.layout_transform(image, "NCHW", "NCHW16c")
    text = str(te.lower(schedule([out], TARGET), [image, out], "kernel"))
    loaded = {int(lanes) for lanes in re.findall(r"row\w* = image\[ramp\(.*, 1, (\d+)\)\]", text)}
    assert loaded == {16, 4}


def test_layout_transform_of_a_sum() -> None:
    x, y = sample(1, 32, 20, 21), sample(32, 1, 1, seed=1)
    got = run(lambda a, b: topi.layout_transform(topi.add(a, b), "NCHW", "NCHW16c"), x, y)
    np.testing.assert_array_equal(got, _blocked(x + y, 16))
    z = _blocked(x, 16)
    got = run(lambda a, b: topi.add(topi.layout_transform(a, "NCHW16c", "NCHW"), b), z, y)
    np.testing.assert_array_equal(got, x + y)


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        ([(1, 4, 9, 9, 16), (1, 2, 9, 9, 16), (1, 1, 9, 9, 16)], 1),
        ([(1, 5, 7, 7), (1, 3, 7, 7)], 1),
        ([(64, 64), (64, 32), (64, 7)], 1),
        ([(3, 50), (200, 50)], 0),
    ],
)
def test_concatenations_agree_with_numpy(shapes: list[tuple[int, ...]], axis: int) -> None:
    arrays = [sample(*shape, seed=i) for i, shape in enumerate(shapes)]
    np.testing.assert_array_equal(run(lambda *t: topi.concatenate(t, axis), *arrays), np.concatenate(arrays, axis))


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_nearest_in_blocks(factor: int) -> None:
    x = sample(1, 2, 9, 5, 16)
    attrs = {
        "size": (9 * factor, 5 * factor),
        "layout": "NCHW16c",
        "method": "nearest_neighbor",
        "coordinate_transformation_mode": "asymmetric",
        "rounding_method": "floor",
        "scales": (factor, factor),
    }
    np.testing.assert_array_equal(run(lambda t: resize2d(t, attrs), x), x.repeat(factor, 2).repeat(factor, 3))


@pytest.mark.parametrize(("size", "apart"), [((40, 51), True), ((3, 9), False)])
def test_columns_are_interpolated_once_where_rows_become_more(size: tuple[int, int], apart: bool) -> None:
    attrs = {
        "size": size,
        "layout": "NCHW",
        "method": "linear",
        "cubic_alpha": -0.75,
        "cubic_exclude": 0,
        "coordinate_transformation_mode": "half_pixel",
        "scales": (),
    }
    x, bias = sample(2, 3, 8, 11), sample(3, 1, 1, seed=1)

    def build(image: te.Tensor, shift: te.Tensor) -> te.Tensor:
        return topi.add(resize2d(image, attrs), shift)

    inputs = [te.placeholder(x.shape, "float32", "x"), te.placeholder(bias.shape, "float32", "bias")]
    out = build(*inputs)
    function = te.lower(schedule([out], TARGET), [*inputs, out], "kernel")
    assert ("resize2d_columns" in str(function)) == apart
    np.testing.assert_allclose(run(build, x, bias), reference.resize2d(x, attrs) + bias, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 6, 20, 20, 16), (1, 6, 1, 1, 16)),
        ((1, 20, 31, 33), (20, 1, 1)),
        ((1, 20, 7, 7), (1, 20, 7, 7)),
        ((1, 1, 120, 130), (1,)),
        ((1, 100001), (1, 1)),
        ((1, 1, 1, 9000), (9000,)),
        ((4000, 3), (3,)),
        ((4000, 3), (4000, 1)),
        ((3, 1, 5), (1, 4, 1)),
        ((50, 1), (1, 300)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_broadcast_products_agree_with_numpy(left: tuple[int, ...], right: tuple[int, ...], dtype: str) -> None:
    x, y = sample(*left, dtype=dtype), sample(*right, dtype=dtype, seed=1)
    np.testing.assert_array_equal(run(topi.multiply, x, y), x * y)


def test_padding_and_slices_of_short_rows() -> None:
    x = sample(3, 40, 7)
    np.testing.assert_array_equal(run(lambda t: topi.nn.pad(t, (0, 1, 2)), x), np.pad(x, [(0, 0), (1, 1), (2, 2)]))
    got = run(lambda t: topi.strided_slice(t, (0, 1, 0), (3, 40, 7), (1, 3, 2)), x)
    np.testing.assert_array_equal(got, x[:, 1::3, ::2])
    np.testing.assert_array_equal(run(lambda t: topi.reshape(t, (7, 120)), x), x.reshape(7, 120))
    np.testing.assert_array_equal(run(lambda t: topi.reverse(t, 2), x), x[:, :, ::-1])


def test_short_rows_that_follow_each_other_are_one_row() -> None:
    x = te.placeholder((1, 64, 7, 7), name="x")
    out = topi.nn.relu(x)
    (stage,) = [st for st in schedule([out], TARGET).stages if st.op is out.op]
    assert any(getattr(r, "fused", None) is not None for r in stage.relations)
