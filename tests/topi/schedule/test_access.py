"""The templates' analysis of the walk through memory."""

from __future__ import annotations

import tilewright.topi as topi
from tilewright import te, tir
from tilewright.topi import reduction
from tilewright.topi.schedule.access import flattened_axes, reads_through, row_axes, stride, unbroken_lanes


def test_strides_are_seen_through_stages_between() -> None:
    x = te.placeholder((4, 6, 10), name="x")
    moved = topi.transpose(x, (0, 2, 1))
    out = topi.nn.relu(moved)
    (load,) = reads_through(out, lambda _: False)
    axes = list(out.op.axis)
    assert load.producer is x
    assert [stride(load, iv, axes) for iv in axes] == [60, 1, 10]


def test_stride_that_depends_on_data_is_unknown() -> None:
    x, i = te.placeholder((4, 6), name="x"), te.placeholder((3,), "int32", "i")
    out = topi.take(x, i, axis=1)
    loads = {load.producer: load for load in reads_through(out, lambda _: False)}
    assert stride(loads[x], out.op.axis[1], out.op.axis) is None
    assert stride(loads[i], out.op.axis[1], out.op.axis) == 1


def test_row_axes_of_a_reduction() -> None:
    x = te.placeholder((2, 3, 5, 7), name="x")
    assert [iv.dom.extent.value for iv in row_axes(reduction.sum(x, (2, 3)))] == [5, 7]
    assert [iv.dom.extent.value for iv in row_axes(reduction.sum(x, (1, 3)))] == [7]
    assert row_axes(reduction.sum(x, (1, 2))) == []


def test_axes_that_all_accesses_share_are_flattened() -> None:
    x, bias = te.placeholder((2, 3, 5, 7), name="x"), te.placeholder((3, 1, 1), name="b")
    assert flattened_axes(topi.nn.relu(x)) == 4
    assert flattened_axes(topi.add(x, bias)) == 2
    assert flattened_axes(topi.transpose(x, (0, 2, 3, 1))) == 1
    assert flattened_axes(topi.transpose(x, (0, 2, 3, 1)), -2) == 2
    assert flattened_axes(topi.transpose(x, (0, 2, 3, 1)), 0) == 1
    assert flattened_axes(topi.nn.pad(x, (0, 0, 1, 1))) == 1
    iota = te.compute((4, 4), lambda i, j: x(0, 0, i, j) + tir.cast("float32", j), name="iota")
    assert flattened_axes(iota) == 1


def test_lanes_are_unbroken_up_to_the_smaller_block() -> None:
    x = te.placeholder((1, 4, 5, 5, 8), name="x")
    assert unbroken_lanes(topi.layout_transform(x, "NCHW8c", "NCHW16c"), 16) == 8
    assert unbroken_lanes(topi.nn.relu(x), 8) == 8
