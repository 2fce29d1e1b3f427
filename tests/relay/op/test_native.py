"""Every operator as a kernel of its own: scheduled, lowered, compiled and run, against its reference.

Shapes have odd tails, so that splits do not divide, and some are large enough to run on several workers.
"""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import codegen
from tilewright.relay import op
from tilewright.relay.expr import Call, Function, Tuple, Var, const
from tilewright.relay.interpreter import call_reference, flatten
from tilewright.relay.lower import lower_function
from tilewright.relay.op import registry
from tilewright.relay.transform.infer_type import type_of
from tilewright.relay.type import tensor_types
from tilewright.target import Target

RNG = np.random.default_rng(17)


def f(*shape, low=-2.0, high=2.0):
    return const(RNG.uniform(low, high, shape).astype("float32"))


def i(*shape, low=0, high=5, dtype="int64"):
    return const(RNG.integers(low, high, shape).astype(dtype))


def b(*shape):
    return const(RNG.random(shape) < 0.5)


FLOAT_UNARY = ("exp", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "floor", "ceil", "trunc", "round")
POSITIVE = ("log", "sqrt", "rsqrt")
FLOAT_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "mod", "floor_mod", "floor_divide")
COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
REDUCE = ("sum", "mean", "prod", "max", "min")

CASES = {
    **{name: [getattr(op, name)(f(3, 5, 19, low=-1.4, high=1.4)), getattr(op, name)(f(5))] for name in FLOAT_UNARY},
    **{name: [getattr(op, name)(f(7, 33, low=0.01))] for name in POSITIVE},
    **{name: [getattr(op, name)(f(4, 3, 19), f(3, 1)), getattr(op, name)(f(), f(70, 133))] for name in FLOAT_BINARY},
    **{name: [getattr(op, name)(i(4, 19), i(19)), getattr(op, name)(f(9, 5), f(1, 5))] for name in COMPARE},
    **{name: [getattr(op, name)(f(3, 7, 19), axis) for axis in (None, 0, -1, (1, 2))] for name in REDUCE},
    **{name: [getattr(op, name)(b(4, 19), axis) for axis in (None, 0, 1)] for name in ("all", "any")},
    **{name: [getattr(op, name)(f(4, 19), axis) for axis in (None, 0, 1)] for name in ("argmax", "argmin")},
    **{name: [getattr(op, name)(b(4, 19), b(19))] for name in ("logical_and", "logical_or", "logical_xor")},
    **{name: [getattr(op, name)(i(4, 19), i(19))] for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "left_shift": [op.left_shift(i(4, 19, dtype="int32"), i(19, dtype="int32"))],
    "right_shift": [op.right_shift(i(4, 19, dtype="int32"), i(19, dtype="int32"))],
    **{name: [getattr(op, name)(f(4, 19)), getattr(op, name)(i(6, low=-5))] for name in ("abs", "negative", "sign")},
    **{name: [getattr(op, name)(const(np.float32([1, np.nan, np.inf])))] for name in ("isnan", "isinf", "isfinite")},
    "logical_not": [op.logical_not(b(4, 19))],
    "bitwise_not": [op.bitwise_not(i(4, 19))],
    "power": [op.power(f(3, 19, low=0.1), f(19)), op.power(i(6), const(np.int64(2)))],
    "copy": [op.copy(f(4, 19))],
    "clip": [op.clip(f(90, 101), -0.5, 1.0)],
    "cast": [op.cast(f(40, 19), t) for t in ("int32", "float64", "bool", "float16")] + [op.cast(b(5), "float32")],
    "where": [op.where(b(4, 19), f(19), f(4, 1))],
    "full": [op.full(2.5, (4, 19))],
    "zeros": [op.zeros((4, 19))],
    "ones": [op.ones((3,), "int64")],
    "zeros_like": [op.zeros_like(f(4, 19))],
    "ones_like": [op.ones_like(i(5))],
    "arange": [op.arange(3, 60, 2, "int64"), op.arange(19)],
    "cumsum": [op.cumsum(f(4, 19), 1)],
    "reshape": [op.reshape(f(6, 38), (3, 2, 2, 19)), op.reshape(f(4, 6), (8, 3))],
    "transpose": [op.transpose(f(5, 7, 19), (2, 0, 1)), op.transpose(f(100, 90))],
    "layout_transform": [
        op.layout_transform(f(1, 32, 5, 7), "NCHW", "NCHW16c"),
        op.layout_transform(f(1, 2, 5, 7, 16), "NCHW16c", "NCHW8c"),
        op.layout_transform(f(32, 16, 3, 3), "OIHW", "OIHW16i16o"),
    ],
    "squeeze": [op.squeeze(f(4, 1, 19))],
    "expand_dims": [op.expand_dims(f(4, 19), 1, 2)],
    "broadcast_to": [op.broadcast_to(f(4, 1, 19), (2, 4, 5, 19))],
    "concatenate": [op.concatenate([f(2, n, 19) for n in (1, 4, 2)], 1), op.concatenate([f(4, 3), f(4, 5)], 1)],
    "stack": [op.stack([f(3, 19) for _ in range(3)], 1)],
    "split": [op.split(f(4, 18), 3, 1), op.split(f(6, 19), (1, 4), 0)],
    "strided_slice": [op.strided_slice(f(9, 19), (8, 1), (0, 18), (-2, 3))],
    "tile": [op.tile(f(3, 5), (2, 3))],
    "repeat": [op.repeat(f(3, 5), 3, 1)],
    "reverse": [op.reverse(f(3, 19), 1)],
    "take": [op.take(f(9, 19), i(4, 3, low=-12, high=12), 0), op.take(f(9), i(3), 0, "wrap")],
    "gather": [op.gather(f(5, 19), 0, i(3, 19))],
    "gather_nd": [op.gather_nd(f(5, 6, 19), i(2, 7))],
    "one_hot": [op.one_hot(i(6), 1.0, 0.0, 5)],
    "image.resize2d": [
        op.image.resize2d(f(1, 3, 6, 7), (12, 14), method="nearest_neighbor"),
        op.image.resize2d(f(1, 3, 6, 7), (9, 11)),
        op.image.resize2d(f(1, 2, 6, 7), (12, 14), method="cubic"),
        op.image.resize2d(f(1, 2, 6, 7, 8), (12, 14), layout="NCHW8c"),
    ],
    "nn.relu": [op.nn.relu(f(90, 101))],
    "nn.leaky_relu": [op.nn.leaky_relu(f(4, 19), 0.1)],
    "nn.prelu": [op.nn.prelu(f(2, 4, 19), f(4))],
    "nn.bias_add": [op.nn.bias_add(f(2, 4, 5, 19), f(4)), op.nn.bias_add(f(1, 2, 5, 5, 8), f(2, 8))],
    "nn.pad": [
        op.nn.pad(f(3, 19), ((1, 2), (0, 3)), 1.5),
        op.nn.pad(f(3, 19), ((1, 2), (2, 3)), pad_mode="reflect"),
        op.nn.pad(f(3, 19), ((1, 2), (0, 3)), pad_mode="edge"),
    ],
    "nn.conv2d": [
        op.nn.conv2d(f(1, 3, 9, 11), f(5, 3, 3, 3), padding=1),
        op.nn.conv2d(f(2, 4, 9, 11), f(6, 2, 3, 2), groups=2, strides=(2, 1), dilation=(1, 2)),
        op.nn.conv2d(f(1, 6, 9, 11), f(6, 1, 3, 3), groups=6, padding=1),
        op.nn.conv2d(
            f(1, 2, 9, 11, 16),
            f(3, 2, 3, 3, 16, 16),
            padding=1,
            strides=2,
            data_layout="NCHW16c",
            kernel_layout="OIHW16i16o",
            out_layout="NCHW16c",
        ),
        op.nn.conv2d(f(1, 3, 20, 23), f(2, 3, 5, 5, 16), kernel_layout="OIHW16o", out_layout="NCHW16c", padding=2),
        op.nn.conv2d(
            f(1, 2, 9, 11, 8),
            f(2, 1, 3, 3, 1, 8),
            padding=1,
            groups=16,
            data_layout="NCHW8c",
            kernel_layout="OIHW1i8o",
            out_layout="NCHW8c",
        ),
    ],
    "nn.conv2d_transpose": [
        op.nn.conv2d_transpose(f(1, 3, 5, 7), f(3, 4, 4, 4), strides=2, padding=1),
        op.nn.conv2d_transpose(f(1, 4, 5, 7), f(4, 3, 3, 2), strides=(3, 1), groups=2, output_padding=(1, 0)),
    ],
    "nn.contrib_conv2d_winograd_weight_transform": [
        op.nn.contrib_conv2d_winograd_weight_transform(f(24, 5, 3, 3), 4, block=8),
        op.nn.contrib_conv2d_winograd_weight_transform(f(1, 2, 3, 3, 8, 16), 2, "OIHW8i16o", 16),
    ],
    "nn.contrib_conv2d_winograd_without_weight_transform": [
        op.nn.contrib_conv2d_winograd_without_weight_transform(f(2, 2, 9, 6, 16), f(3, 4, 4, 32, 16), 2, 1),
        op.nn.contrib_conv2d_winograd_without_weight_transform(
            f(1, 2, 9, 11, 8, low=-0.1, high=0.1), f(2, 6, 6, 16, 8), 4, (1, 0, 2, 3), "NCHW8c"
        ),
    ],
    "nn.dense": [
        op.nn.dense(f(1, 37), f(19, 37)),
        op.nn.dense(f(5, 37), f(2, 37, 16), weight_layout="NC16n"),
        op.nn.dense(f(2, 3, 37), f(4, 37, 8), weight_layout="NC8n"),
    ],
    "nn.batch_matmul": [
        op.nn.batch_matmul(f(3, 5, 17), f(3, 19, 17)),
        op.nn.batch_matmul(f(2, 17, 5), f(1, 17, 32), transpose_a=True, transpose_b=False),
    ],
    "nn.matmul": [op.nn.matmul(f(5, 17), f(17, 19)), op.nn.matmul(f(5, 17), f(19, 17), transpose_b=True)],
    "nn.max_pool2d": [
        op.nn.max_pool2d(f(1, 3, 9, 11), 3, 2, padding=1),
        op.nn.max_pool2d(f(1, 2, 9, 11, 8), 2, 2, ceil_mode=True, layout="NCHW8c"),
    ],
    "nn.avg_pool2d": [
        op.nn.avg_pool2d(f(1, 3, 9, 11), 3, 2, padding=1),
        op.nn.avg_pool2d(f(1, 2, 9, 11, 8), 3, 1, padding=1, count_include_pad=True, layout="NCHW8c"),
    ],
    "nn.global_max_pool2d": [
        op.nn.global_max_pool2d(f(1, 5, 7, 9)),
        op.nn.global_max_pool2d(f(1, 2, 7, 7, 8), "NCHW8c"),
    ],
    "nn.global_avg_pool2d": [
        op.nn.global_avg_pool2d(f(1, 5, 7, 9)),
        op.nn.global_avg_pool2d(f(1, 2, 7, 7, 8), "NCHW8c"),
    ],
    "nn.adaptive_max_pool2d": [op.nn.adaptive_max_pool2d(f(1, 3, 7, 9), (3, 4))],
    "nn.adaptive_avg_pool2d": [op.nn.adaptive_avg_pool2d(f(1, 3, *size), (3, 4)) for size in ((7, 9), (6, 8))],
    "nn.softmax": [op.nn.softmax(f(90, 101)), op.nn.softmax(f(3, 7, 19), 1), op.nn.softmax(f(19), 0)],
    "nn.log_softmax": [op.nn.log_softmax(f(9, 101))],
    "nn.layer_norm": [op.nn.layer_norm(f(3, 50, 67), f(67), f(67)), op.nn.layer_norm(f(3, 5, 7), f(5), f(5), axis=1)],
    "nn.group_norm": [op.nn.group_norm(f(2, 6, 5, 7), f(6), f(6), 3)],
    "nn.instance_norm": [op.nn.instance_norm(f(2, 6, 5, 7), f(6), f(6))],
    "nn.batch_norm": [op.nn.batch_norm(f(2, 6, 5, 7), f(6), f(6), f(6), f(6, low=0.1))],
    "nn.lrn": [op.nn.lrn(f(1, 9, 5, 7), 3)],
    "nn.dropout": [op.nn.dropout(f(4, 19))],
    "nn.batch_flatten": [op.nn.batch_flatten(f(2, 3, 19))],
    "nn.depth_to_space": [op.nn.depth_to_space(f(1, 12, 3, 5), 2), op.nn.depth_to_space(f(1, 12, 3, 5), 2, "CRD")],
    "nn.space_to_depth": [op.nn.space_to_depth(f(1, 3, 4, 6), 2)],
}  # fmt: skip


def test_every_operator_has_a_case():
    assert set(registry.names()) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_kernel(name):
    target = Target("cpu")
    functions, runs = [], []
    for number, call in enumerate(CASES[name]):
        params, arrays = [], []
        args = [_as_param(arg, params, arrays) for arg in call.args]
        function = Function(params, Call(call.op, args, call.attrs))
        out_types = tensor_types(type_of(function.body))
        type_of(function)
        functions.append(lower_function(function, f"k{number}", target))
        expected = flatten(call_reference(function.body, [arg.data for arg in _leaves(call)]))
        runs.append((arrays, [np.full(t.shape, 99, t.dtype.numpy) for t in out_types], expected))
    module = codegen.build(functions, target)
    for number, (arrays, outputs, expected) in enumerate(runs):
        module[f"k{number}"](*arrays, *outputs)
        for got, want in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5, err_msg=str(CASES[name][number].attrs))


def _leaves(call):
    return [field for arg in call.args for field in (arg.fields if isinstance(arg, Tuple) else (arg,))]


def _as_param(arg, params, arrays):
    if isinstance(arg, Tuple):
        return Tuple([_as_param(field, params, arrays) for field in arg.fields])
    params.append(Var(f"p{len(params)}", arg.tensor_type))
    arrays.append(np.array(arg.data, order="C"))
    return params[-1]
