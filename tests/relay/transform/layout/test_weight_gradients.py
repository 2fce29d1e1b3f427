"""Gradients of kernels by their own template, the same bits on any number of workers."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.backend.kinds import backend_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Call, Function, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.transform.layout.weight_gradients import weight_gradients
from tilewright.target import Target
from tilewright.topi.reference.backward import conv2d_backward_weight

#: Batch, channels, filters, size, window, stride, padding, groups.
SHAPES = [(6, 8, 12, 17, 3, 1, 1, 1), (4, 6, 6, 9, 3, 2, 1, 6), (8, 16, 24, 8, 1, 1, 0, 1), (2, 3, 8, 32, 7, 2, 3, 1)]


def module_of(batch, channels, filters, size, window, stride, padding, groups):
    out = (size + 2 * padding - window) // stride + 1
    g = Var("g", TensorType((batch, filters, out, out)))
    x = Var("x", TensorType((batch, channels, size, size)))
    call = op.nn.conv2d_backward_weight(g, x, window, stride, padding, groups=groups)
    return IRModule.from_expr(Function([g, x], call)), call


@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_gradients_agree_and_do_not_depend_on_workers(shape):
    module, call = module_of(*shape)
    rng = np.random.default_rng(1)
    values = [rng.standard_normal(v.type_annotation.shape).astype("float32") for v in call.args]
    found = [tw.compile(module, threads=threads, cache=False)(*values) for threads in (1, 2)]
    np.testing.assert_array_equal(*found)
    wanted = conv2d_backward_weight(*[v.astype("float64") for v in values], call.attrs)
    np.testing.assert_allclose(found[0], wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


def test_the_images_of_a_turn_fit_the_cache_and_divide_the_batch():
    backend = backend_of(Target("llvm -mcpu=skylake-avx512"))
    found = []
    for batch in (32, 30, 7):
        module, _ = module_of(batch, 64, 64, 56, 3, 1, 1, 1)
        after = weight_gradients(module, backend)["main"].body
        (call,) = [node for node in post_order(after) if isinstance(node, Call)]
        assert call.op.name == "nn.contrib_conv2d_backward_weight"
        found.append(call.attrs.images)
    assert all(batch % images == 0 for batch, images in zip((32, 30, 7), found))


def test_small_planes_of_many_images_stay_convolutions():
    backend = backend_of(Target("cpu"))
    for batch, stride, name in ((32, 1, "nn.conv2d"), (6, 1, "nn.contrib_conv2d"), (32, 2, "nn.contrib_conv2d")):
        module, _ = module_of(batch, 16, 16, 8 * stride, 3, stride, 1, 1)
        assert weight_gradients(module, backend)["main"].body.op.name == f"{name}_backward_weight"


def test_wide_windows_stay_convolutions():
    module, _ = module_of(2, 4, 8, 40, 17, 1, 0, 1)
    assert weight_gradients(module, backend_of(Target("cpu")))["main"].body.op.name == "nn.conv2d_backward_weight"
