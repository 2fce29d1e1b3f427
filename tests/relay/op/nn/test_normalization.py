"""Softmax and normalizations against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import const
from tilewright.relay.ir.type_of import type_of

RNG = np.random.default_rng(21)


def normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_agrees_with_onnxruntime(check, onnxruntime_node, axis):
    x = normal(3, 4, 5) * 20
    check(op.nn.softmax(const(x), axis), *onnxruntime_node("Softmax", [x], axis=axis))
    check(op.nn.log_softmax(const(x), axis), *onnxruntime_node("LogSoftmax", [x], axis=axis), atol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_softmax_of_other_floats_agrees_with_float64(check, dtype):
    x = normal(2, 7).astype(dtype)
    wide = np.exp(x.astype(np.float64))
    check(op.nn.softmax(const(x)), wide / wide.sum(1, keepdims=True), rtol=2e-3, atol=1e-6)


def test_layer_norm_agrees_with_onnxruntime_along_any_axis(check, onnxruntime_node):
    x, gamma, beta = normal(2, 3, 8), normal(8), normal(8)
    (expected,) = onnxruntime_node("LayerNormalization", [x, gamma, beta], axis=-1, epsilon=1e-3)
    check(op.nn.layer_norm(const(x), const(gamma), const(beta), epsilon=1e-3), expected, rtol=1e-4, atol=1e-5)
    middle = np.moveaxis(x, 2, 1).copy()
    call = op.nn.layer_norm(const(middle), const(gamma), const(beta), axis=1, epsilon=1e-3)
    check(call, np.moveaxis(expected, 2, 1), rtol=1e-4, atol=1e-5)


def test_layer_norm_of_large_means_is_stable(check):
    x = normal(2, 64) + 1000
    centred = x.astype(np.float64) - x.astype(np.float64).mean(1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    check(op.nn.layer_norm(const(x), const(np.ones(64, "f4")), const(np.zeros(64, "f4"))), expected, atol=1e-2)


def test_instance_and_group_norm(check, onnxruntime_node):
    x, gamma, beta = normal(2, 6, 3, 4), normal(6), normal(6)
    (expected,) = onnxruntime_node("InstanceNormalization", [x, gamma, beta], epsilon=1e-4)
    check(op.nn.instance_norm(const(x), const(gamma), const(beta), epsilon=1e-4), expected, rtol=1e-4, atol=1e-5)
    parts = x.reshape(2, 3, -1)
    scaled = (parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 1e-4)
    expected = scaled.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]
    check(op.nn.group_norm(const(x), const(gamma), const(beta), 3, epsilon=1e-4), expected, rtol=1e-4, atol=1e-5)


def test_batch_norm_agrees_with_onnxruntime_in_every_layout(check, onnxruntime_node):
    x, (gamma, beta, mean) = normal(2, 3, 4, 4), normal(3, 3)
    variance = np.abs(normal(3)) + 0.1
    (expected,) = onnxruntime_node("BatchNormalization", [x, gamma, beta, mean, variance], epsilon=1e-4)
    call = op.nn.batch_norm(const(x), *(const(v) for v in (gamma, beta, mean, variance)), epsilon=1e-4)
    check(call, (expected, mean, variance), rtol=1e-4, atol=1e-5)


def test_lrn_agrees_with_onnxruntime(check, onnxruntime_node):
    x = normal(1, 7, 2, 3)
    for size in (3, 5):
        (expected,) = onnxruntime_node("LRN", [x], size=size, alpha=0.1, beta=0.6, bias=1.5)
        check(op.nn.lrn(const(x), size, 1, 1.5, 0.1, 0.6), expected, rtol=1e-4)


def test_channels_and_space(check, onnxruntime_node):
    x = normal(2, 8, 3, 4)
    for mode in ("DCR", "CRD"):
        check(op.nn.depth_to_space(const(x), 2, mode), *onnxruntime_node("DepthToSpace", [x], blocksize=2, mode=mode))
    y = normal(1, 2, 4, 6)
    check(op.nn.space_to_depth(const(y), 2), *onnxruntime_node("SpaceToDepth", [y], blocksize=2))
    check(op.nn.batch_flatten(const(x)), x.reshape(2, -1))
    check(op.nn.dropout(const(x)), x)


def test_type_errors():
    x = const(normal(2, 6, 4))
    with pytest.raises(TypeMismatchError, match="one value for each of 4 elements of axis 2"):
        type_of(op.nn.layer_norm(x, const(normal(3)), const(normal(3))))
    with pytest.raises(TypeMismatchError, match="6 channels do not divide into 4 groups"):
        type_of(op.nn.group_norm(x, const(normal(6)), const(normal(6)), 4))
    with pytest.raises(TypeMismatchError, match="floating point tensor, not int32"):
        type_of(op.nn.softmax(const(np.zeros((2, 2), "int32"))))
