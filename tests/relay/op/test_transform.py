"""Operators that move elements, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import const
from tilewright.relay.ir.type_of import type_of

RNG = np.random.default_rng(3)


def counting(*shape, dtype="float32"):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.parametrize(
    ("shape", "newshape"),
    [
        ((2, 12), (2, 3, 4)),
        ((2, 3, 4), (6, 4)),
        ((4, 6), (3, 8)),
        ((2, 3, 4), (-1,)),
        ((1, 6, 1), (2, 1, 3)),
        ((8,), (2, 2, 2)),
        ((6, 1, 4), (2, 12)),
        ((1,), ()),
        ((), (1, 1)),
    ],
)
def test_reshape_agrees_with_numpy(check, shape, newshape):
    for dtype in ("float32", "int64", "bool"):
        x = counting(*shape, dtype=dtype)
        check(op.reshape(const(x), newshape), x.reshape(newshape))


def test_axes_are_permuted_added_and_removed(check):
    x = counting(2, 3, 4)
    check(op.transpose(const(x)), x.T)
    check(op.transpose(const(x), (1, -1, 0)), x.transpose(1, 2, 0))
    check(op.expand_dims(const(x), -1), x[..., None])
    check(op.expand_dims(const(x), 1, 2), x[:, None, None])
    check(op.squeeze(const(x[:, None, :, :1])), x[:, :, 0])
    check(op.squeeze(const(x[:, None, :, :1]), (-1,)), x[:, None, :, 0])
    check(op.broadcast_to(const(x[:, :1]), (5, 2, 3, 4)), np.broadcast_to(x[:, :1], (5, 2, 3, 4)))


@pytest.mark.parametrize(
    ("src", "dst", "shape"),
    [
        ("NCHW", "NCHW4c", (2, 8, 3, 2)),
        ("NCHW4c", "NCHW", (2, 2, 3, 2, 4)),
        ("NCHW4c", "NCHW8c", (1, 2, 3, 2, 4)),
        ("NCHW", "NHWC", (2, 3, 4, 5)),
        ("OIHW", "OIHW2i4o", (8, 4, 3, 1)),
        ("OIHW", "OIHW1i4o", (8, 1, 3, 3)),
        ("OIHW", "OIHW4o", (8, 3, 2, 2)),
        ("OIHW", "OIHW2i4o2i", (4, 8, 1, 1)),
        ("NC", "NC4n", (8, 5)),
        ("C", "C4c", (8,)),
    ],
)
def test_layouts_are_transformed_there_and_back(check, src, dst, shape):
    x = counting(*shape)
    there = check(op.layout_transform(const(x), src, dst))
    check(op.layout_transform(const(there), dst, src), x)
    assert sorted(there.ravel()) == sorted(x.ravel())


def test_layout_transform_positions_elements(check):
    x = counting(1, 32, 2, 2)
    blocked = check(op.layout_transform(const(x), "NCHW", "NCHW16c"))
    assert blocked.shape == (1, 2, 2, 2, 16) and blocked[0, 1, 0, 1, 3] == x[0, 19, 0, 1]
    w = counting(8, 4, 1, 1)
    packed = check(op.layout_transform(const(w), "OIHW", "OIHW2i4o"))
    assert packed.shape == (2, 2, 1, 1, 2, 4) and packed[1, 0, 0, 0, 1, 2] == w[6, 1, 0, 0]


def test_joins_agree_with_numpy(check):
    parts = [counting(2, n, 3) + 100 * n for n in (1, 4, 2)]
    check(op.concatenate([const(p) for p in parts], 1), np.concatenate(parts, 1))
    check(op.concatenate([const(parts[0])], -1), parts[0])
    same = [counting(2, 3) + k for k in range(3)]
    for axis in (0, 1, -1):
        check(op.stack([const(p) for p in same], axis), np.stack(same, axis))


def test_splits_agree_with_numpy(check):
    x = counting(3, 7)
    check(op.split(const(x), 3, 0), tuple(np.split(x, 3)))
    check(op.split(const(x), (2, 3), 1), tuple(np.split(x, (2, 3), 1)))


@pytest.mark.parametrize(
    ("begin", "end", "strides", "axes", "index"),
    [
        ((1,), (3,), None, None, np.s_[1:3]),
        ((0, 5), (4, 1), (2, -2), (0, 1), np.s_[0:4:2, 5:1:-2]),
        ((-3,), (2**62,), (1,), (-1,), np.s_[:, -3:]),
        ((2**62,), (-(2**62),), (-1,), (1,), np.s_[:, ::-1]),
        ((-1,), (-100,), (-3,), (1,), np.s_[:, ::-3]),
        ((3,), (1,), (1,), (0,), np.s_[3:1]),
    ],
)
def test_slices_agree_with_numpy(check, begin, end, strides, axes, index):
    x = counting(5, 6)
    expected = x[index]
    call = op.strided_slice(const(x), begin, end, strides, axes)
    if expected.size:
        check(call, expected)
    else:
        assert type_of(call).shape == expected.shape


def test_repetitions_and_reversals_agree_with_numpy(check):
    x = counting(2, 3)
    check(op.tile(const(x), (2, 2)), np.tile(x, (2, 2)))
    check(op.tile(const(x), (3, 1, 2)), np.tile(x, (3, 1, 2)))
    check(op.tile(const(x), (2,)), np.tile(x, (2,)))
    check(op.repeat(const(x), 3, 1), np.repeat(x, 3, 1))
    check(op.reverse(const(x), -1), x[:, ::-1])


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
def test_cumsum_agrees_with_onnxruntime(check, onnxruntime_node, exclusive, backwards):
    x = RNG.standard_normal((3, 5)).astype("float32")
    (expected,) = onnxruntime_node("CumSum", [x, np.array(1)], exclusive=int(exclusive), reverse=int(backwards))
    check(op.cumsum(const(x), 1, exclusive, backwards), expected)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: op.reshape(x, (5,)), "6 elements of shape"),
        (lambda x: op.transpose(x, (0, 0)), "not a permutation"),
        (lambda x: op.squeeze(x, 0), "is not of size 1"),
        (lambda x: op.concatenate([x, op.zeros((3, 3))], 1), "the parts differ beside axis 1"),
        (lambda x: op.split(x, 2, 1), "do not divide into 2 equal sections"),
        (lambda x: op.layout_transform(x, "NC", "NC2c"), "not a multiple of 2"),
        (lambda x: op.layout_transform(x, "NC", "NH"), "their axes differ"),
        (lambda x: op.layout_transform(x, "N16", "NC"), "is not a layout"),
        (lambda x: op.broadcast_to(x, (2, 4)), "do not broadcast"),
        (lambda x: op.strided_slice(x, (0,), (1,), (0,)), "stride must not be 0"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(build, message):
    with pytest.raises(TypeMismatchError, match=message):
        type_of(build(const(counting(2, 3))))
