"""Cases of element-wise operators, reductions, operators that move elements, and picks by index."""

from __future__ import annotations

import numpy as np

from tests.relay.op.cases.values import b, byte, f, i
from tilewright.relay import op
from tilewright.relay.ir.expr import Call, Constant, const

FLOAT_UNARY = ("exp", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "floor", "ceil", "trunc", "round")
POSITIVE = ("log", "sqrt", "rsqrt")
FLOAT_BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
DIVISION = ("divide", "mod", "floor_mod", "floor_divide")
COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
REDUCE = ("sum", "mean", "prod", "max", "min")


def _counted(data: Constant, limit: float, bins: int) -> Call:
    """A histogram of constants with their extreme values."""
    ends = const(np.array([data.data.min(), data.data.max(), np.abs(data.data).max()], "float32"))
    return op.histogram(data, ends, const(np.float32(limit)), bins)


CASES = {
    "auto_scheduler_layout_transform": [
        op.auto_scheduler_layout_transform(f(6, 8), "6I8O", "4O6I2O"),
        op.auto_scheduler_layout_transform(f(2, 6, 5), "2N6C5W", "3C5W2N2C"),
    ],
    **{name: [getattr(op, name)(f(3, 5, 19, low=-1.4, high=1.4)), getattr(op, name)(f(5))] for name in FLOAT_UNARY},
    **{name: [getattr(op, name)(f(7, 33, low=0.01))] for name in POSITIVE},
    **{name: [getattr(op, name)(f(4, 3, 19), f(3, 1)), getattr(op, name)(f(), f(70, 133))] for name in FLOAT_BINARY},
    **{
        name: [
            getattr(op, name)(f(4, 3, 19), f(3, 1, low=0.5)),
            getattr(op, name)(f(), f(70, 133, low=0.5)),
            getattr(op, name)(f(9), f(9, low=-3, high=-0.5)),
        ]
        for name in DIVISION
    },
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
    "lookup_byte": [op.lookup_byte(byte(3, 19), byte(256, dtype="int8"))],
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
    "extremes": [op.extremes(f(4, 19)), op.extremes(f(3, 200, 190)), op.extremes(const(np.zeros((0, 3), "float32")))],
    "histogram": [
        _counted(f(4, 19), 0.0, 64),
        _counted(f(3, 60, 70, low=0.0), 4.0, 128),
        _counted(f(3, 200, 190), 0.0, 256),
        _counted(const(np.zeros((2, 5), "float32")), 0.0, 8),
    ],
}  # fmt: skip
