"""Operators with symbolic dimensions and random attributes, at random sizes, against the reference at those sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.test_dynamic import H, Shapes, W, model, random, shape_of, weight
from tilewright.relay import op
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.symbolic import substitute_dims

hypothesis = pytest.importorskip("hypothesis", reason="the sweep draws its cases with hypothesis")
st = hypothesis.strategies

#: A graph, the shapes of its inputs, and the least height and width that it takes.
Case = tuple[Callable[..., Any], Shapes, int]
Draw = Callable[[Any], Any]


def conv2d(draw: Draw) -> Case:
    kernel, strides = draw(st.sampled_from([1, 2, 3, 5])), draw(st.sampled_from([(1, 1), (2, 2), (1, 2)]))
    groups, ins, outs = draw(st.sampled_from([(1, 3, 8), (1, 16, 32), (1, 20, 35), (2, 16, 16), (4, 12, 20)]))
    padding, dilation = draw(st.tuples(*[st.integers(0, 2)] * 4)), draw(st.integers(1, 2)) if kernel > 1 else 1
    wide = (kernel - 1) * dilation + 1
    attrs = {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups}
    filters = weight(outs, ins // groups, kernel, kernel)
    return lambda x: op.nn.relu(op.nn.conv2d(x, filters, **attrs)), ((draw(batch), ins, H, W),), wide


def depthwise(draw: Draw) -> Case:
    kernel, channels = draw(st.sampled_from([3, 5])), draw(st.sampled_from([6, 16, 32]))
    attrs = {"strides": draw(st.integers(1, 2)), "padding": draw(st.integers(0, kernel // 2)), "groups": channels}
    filters, mixing = weight(channels, 1, kernel, kernel), weight(16, channels, 1, 1)
    pointwise = draw(st.booleans())

    def build(x: Expr) -> Expr:
        out = op.nn.conv2d(x, filters, **attrs)
        return op.nn.conv2d(out, mixing) if pointwise else out

    return build, ((1, channels, H, W),), kernel


def conv2d_transpose(draw: Draw) -> Case:
    kernel, stride = draw(st.sampled_from([2, 3, 4])), draw(st.integers(1, 2))
    attrs = {
        "strides": (stride, stride),
        "padding": draw(st.integers(0, 1)),
        "output_padding": draw(st.integers(0, stride - 1)),
    }
    ins, outs = draw(st.sampled_from([(16, 16), (5, 3), (24, 8)]))
    return lambda x: op.nn.conv2d_transpose(x, weight(ins, outs, kernel, kernel), **attrs), ((1, ins, H, W),), 2


def pooling(draw: Draw) -> Case:
    pool, size, stride = (
        draw(st.sampled_from([op.nn.max_pool2d, op.nn.avg_pool2d])),
        draw(st.integers(2, 3)),
        draw(st.integers(1, 3)),
    )
    attrs = {"pool_size": (size, size), "strides": (stride, stride), "padding": (draw(st.integers(0, 1)),) * 4}
    attrs["ceil_mode"] = draw(st.booleans())
    return lambda x: pool(x, **attrs), ((draw(batch), draw(st.sampled_from([3, 16])), H, W),), size


def dense(draw: Draw) -> Case:
    inside, outside = draw(st.sampled_from([(64, 100), (7, 3), (33, 48)]))
    return lambda x: op.nn.relu(op.nn.dense(x, weight(outside, inside))), ((H, inside),), 1


def batch_matmul(draw: Draw) -> Case:
    inside = draw(st.sampled_from([5, 64, H + W]))
    return lambda x, y: op.nn.batch_matmul(x, y), ((2, H, inside), (2, W, inside)), 1


def softmax(draw: Draw) -> Case:
    axis = draw(st.sampled_from([0, 1, -1]))
    return lambda x: op.nn.softmax(x, axis=axis), ((H, draw(st.sampled_from([3, 17])), W),), 1


def reduction(draw: Draw) -> Case:
    reduce = draw(st.sampled_from([op.sum, op.mean, op.max, op.argmax]))
    axis = draw(
        st.sampled_from([0, 1, 2]) if reduce is op.argmax else st.sampled_from([[0], [2], [0, 2], [1, 2], [0, 1, 2]])
    )
    keepdims = draw(st.booleans())
    return lambda x: reduce(x, axis=axis, keepdims=keepdims), ((H, 5, W),), 1


def concatenate(draw: Draw) -> Case:
    axis, widths = draw(st.integers(0, 1)), [H, W, H * 2, 3]
    parts = [*draw(st.lists(st.sampled_from(widths), min_size=1, max_size=2)), H if axis == 0 else W]
    shapes = tuple((n, W) if axis == 0 else (H, n) for n in parts)
    return lambda *xs: op.concatenate([op.exp(x) for x in xs], axis), shapes, 1


def strided_slice(draw: Draw) -> Case:
    begin, end, step = draw(st.integers(0, 1)), draw(st.sampled_from([2**31 - 1, -1, 3])), draw(st.integers(1, 3))
    return lambda x: op.strided_slice(x, [begin, 0], [end, -1], [step, 1], axes=[0, 1]), ((H, W),), 5


def resize(draw: Draw) -> Case:
    scale, method = draw(st.integers(1, 3)), draw(st.sampled_from(["linear", "nearest_neighbor"]))
    mode = draw(st.sampled_from(["half_pixel", "asymmetric", "align_corners"]))
    attrs = {"method": method, "coordinate_transformation_mode": mode}

    def build(x: Expr) -> Expr:
        return op.image.resize2d(x, (shape_of(x)[2] * scale, shape_of(x)[3] * 2), **attrs)

    return build, ((1, draw(st.sampled_from([3, 16])), H, W),), 2


batch = st.sampled_from([1, 2])
FAMILIES = [
    conv2d, depthwise, conv2d_transpose, pooling, dense, batch_matmul, softmax, reduction, concatenate, strided_slice,
    resize,
]  # fmt: skip


def numbers(shapes: Shapes, h: int, w: int) -> Shapes:
    """`shapes` with numbers for H and W, in sums too."""
    return tuple(tuple(substitute_dims(dim, {H: h, W: w}) for dim in shape) for shape in shapes)


def check(family: Callable[[Draw], Case], data: Any) -> None:
    """One compilation, run at four sizes."""
    build, shapes, least = family(data.draw)
    extent = st.integers(least, 40)
    sizes = data.draw(st.lists(st.tuples(extent, extent), min_size=4, max_size=4))
    exe = tw.compile(model(build, shapes), threads=2, cache=False)
    for h, w in sizes:
        there = numbers(shapes, h, w)
        arrays = random(there)
        (wanted,) = interpret(model(build, there), arrays)
        got = exe(*arrays)
        assert got.shape == wanted.shape, (h, w)
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-4, err_msg=f"at {h} x {w}")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=2, deadline=None, phases=[hypothesis.Phase.generate])
@pytest.mark.sample(4)
def test_a_few_sizes_agree_with_the_reference(family: Callable[[Draw], Case], data: Any) -> None:
    check(family, data)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=25, deadline=None)
def test_many_sizes_agree_with_the_reference(family: Callable[[Draw], Case], data: Any) -> None:
    check(family, data)
