"""Cases of products of bytes, and of weights of a few bits."""

from __future__ import annotations

import numpy as np

from tests.relay.op.cases.values import bf, byte, f, h
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant
from tilewright.topi.bitserial_form import LOOKUP, POPCOUNT, POPCOUNT_BYTES, BitSerial
from tilewright.topi.reference.bitserial import pack_weight
from tilewright.topi.reference.byte_layers import AWAY, LANES, ONCE, WORDS, packed_rows, packed_scale, packed_taps


def _planes(method: str, *shape: int, bits: int = 1, data_bits: int = 2, lanes: int = 16) -> Constant:
    weight = np.random.default_rng(0).integers(0, 1 << bits, shape)
    return Constant(pack_weight(weight, bits, data_bits, method, lanes))


def _integers(*shape: int, least: int = -9000) -> Constant:
    return Constant(np.random.default_rng(1).integers(least, least + 18000, shape).astype(np.int32))


def _layer(channels: int, lanes: int) -> Constant:
    """Biases, multipliers and shifts, 0 among these."""
    rng = np.random.default_rng(2)
    parts = rng.integers(-3000, 3000, channels), rng.integers(1 << 30, (1 << 31) - 1, channels), np.arange(channels) % 9
    return Constant(packed_scale(*parts, lanes))


def _weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(-127, 128, shape).astype(np.int8)


_END = {"zero": -3, "low": -100, "high": 127}
_WINDOW = {"kernel_size": (3, 2), "strides": (1, 2), "padding": (1, 0, 1, 1), "pad_value": -3}


def _sevenths(*shape: int) -> Constant:
    return Constant(np.random.default_rng(2).integers(-64, 65, shape).astype(np.int8))


def _order(*shape: int) -> Constant:
    return Constant(np.random.default_rng(3).integers(0, 32, shape).astype(np.uint8))


CASES = {
    "nn.contrib_conv2d_scaled": [
        op.nn.contrib_conv2d_scaled(
            byte(1, 7, 6, 3, dtype="int8"),
            Constant(packed_rows(_weights(10, 18))),
            _layer(10, WORDS),
            channels=10,
            rounding=rounding,
            **_WINDOW,
            **_END,
        )
        for rounding in (AWAY, ONCE)
    ],
    "nn.contrib_conv2d_sums": [
        op.nn.contrib_conv2d_sums(
            byte(1, 7, 6, 3, dtype="int8"),
            Constant(packed_rows(_weights(10, 18))),
            Constant(np.arange(-6, 6, dtype=np.int32) * 1000),
            channels=10,
            **_WINDOW,
        )
    ],
    "nn.contrib_depthwise_scaled": [
        op.nn.contrib_depthwise_scaled(
            byte(1, 6, 7, channels, dtype="int8"),
            Constant(packed_taps(_weights(6, channels))),
            _layer(channels, LANES),
            rounding=AWAY,
            **_WINDOW,
            **_END,
        )
        for channels in (8, 21)
    ],
    "nn.contrib_add_scaled": [
        op.nn.contrib_add_scaled(
            byte(1, 3, 7, dtype="int8"),
            byte(1, 3, 7, dtype="int8"),
            first=(5, 20, 1 << 30, 0),
            second=(-7, 20, 2000000000, 1),
            m=1700000000,
            shift=19,
            rounding=AWAY,
            **_END,
        ),
    ],
    "nn.contrib_bitserial_dense": [
        op.nn.contrib_bitserial_dense(byte(3, 40), _planes(method, 20, 1, 1, 40), BitSerial(method, 20, 2, 2, 1))
        for method in (LOOKUP, POPCOUNT, POPCOUNT_BYTES)
    ],
    "nn.contrib_bitserial_conv2d": [
        op.nn.contrib_bitserial_conv2d(
            byte(1, 6, 5, 24), _planes(LOOKUP, 16, 3, 3, 24), BitSerial(LOOKUP, 16, 2, 2, 1), (1, 2), (1, 1, 0, 1)
        ),
        op.nn.contrib_bitserial_conv2d(
            byte(1, 6, 5, 9), _planes(POPCOUNT, 5, 1, 1, 9, bits=2), BitSerial(POPCOUNT, 5, 2), (2, 1), (0, 0, 0, 0)
        ),
    ],
    "nn.contrib_conv2d_bytes": [
        op.nn.contrib_conv2d_bytes(
            byte(1, 7, 6, 3, dtype="int8"),
            byte(2, 27, 4, dtype="int8"),
            _integers(8),
            (3, 3),
            (2, 1),
            (1,) * 4,
            7,
            "bytes",
        ),
        op.nn.contrib_conv2d_bytes(
            byte(2, 3, 5, 8, dtype="int8"),
            byte(3, 8, 2, dtype="int8"),
            _integers(6),
            (1, 1),
            (1, 1),
            (0,) * 4,
            0,
            "bytes",
        ),
    ],
    "nn.contrib_dense_bytes": [
        op.nn.contrib_dense_bytes(byte(3, 9, dtype="int8"), byte(2, 9, 4, dtype="int8"), _integers(8), "bytes"),
    ],
    "nn.contrib_depthwise_bytes": [
        op.nn.contrib_depthwise_bytes(
            byte(1, 6, 7, 5, dtype="int8"), byte(3, 2, 5, dtype="int8"), _integers(5), (1, 2), (1, 0, 1, 1), -3
        ),
    ],
    "nn.contrib_fixed_point": [
        op.nn.contrib_fixed_point(
            _integers(3, 4, 6), _integers(6, least=1 << 30), _integers(6), Constant(np.full(6, 5, np.int32)), away
        )
        for away in (True, False)
    ]
    + [
        op.nn.contrib_fixed_point(
            _integers(3, 4, 6),
            _integers(6, least=1 << 30),
            _integers(6),
            Constant(np.arange(6, dtype=np.int32)),
            True,
            whole=True,
        )
    ],
    "nn.contrib_dense_int8": [
        op.nn.contrib_dense_int8(byte(5, 24), byte(2, 6, 16, 4, dtype="int8"), "NC16n4c"),
        op.nn.contrib_dense_int8(byte(2, 3, 8, dtype="int8"), byte(1, 2, 8, 4, dtype="int8"), "NC8n4c"),
        op.nn.contrib_dense_int8(byte(5, 24, dtype="int16"), byte(2, 12, 16, 2, dtype="int8"), "NC16n2c"),
    ],
    "nn.contrib_dense_int8_ordered": [
        op.nn.contrib_dense_int8_ordered(byte(5, 48), _sevenths(2, 12, 16, 4), _order(2, 48), "NC16n4c"),
        op.nn.contrib_dense_int8_ordered(byte(2, 3, 64), _sevenths(1, 16, 8, 4), _order(1, 64), "NC8n4c"),
    ],
    "nn.dense_blockwise": [
        op.nn.dense_blockwise(f(3, 40), byte(6, 3, 8), f(6, 3)),
        op.nn.dense_blockwise(f(2, 1, 40), byte(2, 3, 2, 16, 4), f(2, 3, 16), byte(2, 3, 16), units=27),
        op.nn.dense_blockwise(f(2, 40), byte(1, 3, 4, 16, 4), f(1, 3, 16), f(1, 3, 16), bits=8),
        op.nn.dense_blockwise(f(2, 40), byte(1, 3, 1, 16, 4), f(1, 3, 16), bits=2),
        op.nn.dense_blockwise(f(2, 40), byte(1, 2, 3, 16, 4), f(1, 2, 16), bits=3),
        op.nn.dense_blockwise(f(3, 40), byte(6, 3, 8), f(6, 3), table=range(-5, 11)),
        op.nn.dense_blockwise(f(2, 40), byte(1, 3, 2, 16, 4), f(1, 3, 16), table=range(16)),
    ],
    "nn.contrib_dense_bfloat16": [
        op.nn.contrib_dense_bfloat16(bf(8, 24), bf(2, 12, 16, 2), "NC16n2c"),
        op.nn.contrib_dense_bfloat16(bf(8, 24), bf(2, 12, 16, 2), "NC16n2c", leading=(2, 3), units=20),
    ],
    "nn.contrib_dense_float16": [
        op.nn.contrib_dense_float16(h(8, 24), h(2, 12, 16, 2), "NC16n2c"),
        op.nn.contrib_dense_float16(h(8, 24), h(2, 12, 16, 2), "NC16n2c", leading=(2, 3), units=20),
    ],
    "nn.contrib_batch_matmul_int8": [
        op.nn.contrib_batch_matmul_int8(byte(2, 5, 12), byte(2, 3, 3, 8, 4, dtype="int8"), "BNC8n4c"),
        op.nn.contrib_batch_matmul_int8(byte(1, 5, 12), byte(2, 3, 3, 8, 4, dtype="int8"), "BNC8n4c"),
    ],
    "nn.contrib_conv2d_int8": [
        op.nn.contrib_conv2d_int8(byte(1, 4, 7, 6), byte(8, 4, 3, 3, dtype="int8"), padding=1, pad_value=7),
        op.nn.contrib_conv2d_int8(
            byte(1, 2, 7, 6, 8),
            byte(1, 2, 3, 3, 2, 16, 4, dtype="int8"),
            strides=(2, 1),
            padding=1,
            pad_value=7,
            data_layout="NCHW8c",
            kernel_layout="OIHW2i16o4i",
            out_layout="NCHW16c",
        ),
    ],
    "nn.contrib_conv2d_bfloat16": [
        op.nn.contrib_conv2d_bfloat16(bf(1, 4, 7, 6), bf(8, 4, 3, 3), padding=1),
        op.nn.contrib_conv2d_bfloat16(
            bf(1, 2, 7, 6, 8),
            bf(1, 2, 3, 3, 4, 16, 2),
            strides=(2, 1),
            padding=1,
            data_layout="NCHW8c",
            kernel_layout="OIHW4i16o2i",
            out_layout="NCHW16c",
        ),
    ],
}
