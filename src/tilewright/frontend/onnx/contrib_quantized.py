"""Quantized operators of onnxruntime's domain beside products: pooling, choice, embeddings, packed tables; and the
layouts with channels last that its optimizer writes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.frontend.idioms import cast, constant
from tilewright.frontend.onnx.contrib import embedded
from tilewright.frontend.onnx.nn import matmul_with
from tilewright.frontend.onnx.node import OnnxNode, transpose
from tilewright.frontend.onnx.pooling import average_pool, max_pool, windows
from tilewright.frontend.onnx.quantize import code_bits, qlinear_conv, quantized_like, real_of
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.op import qnn


def _channels_first(node: OnnxNode, data: Expr) -> Expr:
    """[N, …, C] as [N, C, …]."""
    rank = node.rank(data)
    return transpose(data, (0, rank - 1, *range(1, rank - 1)))


def _channels_last(node: OnnxNode, data: Expr) -> Expr:
    """[N, C, …] as [N, …, C]."""
    return transpose(data, (0, *range(2, node.rank(data)), 1))


@converts("QLinearConv", domain=MICROSOFT)
def convert_qlinear_conv(node: OnnxNode, channels_last: int = 0) -> Expr:
    """ONNX's QLinearConv; with `channels_last` of data and a result [N, …, C], the weights as ever."""
    if not channels_last:
        return qlinear_conv(node, node[0])
    return _channels_last(node, qlinear_conv(node, _channels_first(node, node[0])))


@converts("NhwcMaxPool", domain=MICROSOFT)
def convert_nhwc_max_pool(node: OnnxNode) -> Expr:
    """The largest element of each window of [N, …, C]."""
    return _channels_last(node, max_pool(node, _channels_first(node, node[0])))


@converts("QLinearAveragePool", domain=MICROSOFT)
def convert_qlinear_average_pool(node: OnnxNode, channels_last: bool = False) -> Expr:
    """The mean of each window of the real numbers that a quantized tensor stands for."""
    data = real_of(node, 0)
    data = _channels_first(node, data) if channels_last else data
    pooled = average_pool(node, data, windows(node, node.shape(data)[2:], node.require("kernel_shape")))
    return quantized_like(node, _channels_last(node, pooled) if channels_last else pooled, 3, 0)


@converts("QLinearWhere", domain=MICROSOFT)
def convert_qlinear_where(node: OnnxNode) -> Expr:
    return quantized_like(node, op.where(node[0], real_of(node, 1), real_of(node, 4)), 7, 1)


@converts("QEmbedLayerNormalization", domain=MICROSOFT)
def convert_qembed_layer_normalization(node: OnnxNode) -> list[Expr | None]:
    """`EmbedLayerNormalization` of quantized tables, normalization included."""
    tables: list[Expr | None] = []
    for index in range(2, 7):
        zero = cast(node[index + 11], "int32") if node.has(index + 11) else constant(0, "int32")
        real = node.has(index) and node.has(index + 6)
        tables.append(qnn.dequantize(node[index], node[index + 6], zero) if real else None)
    return embedded(node, tables, mask=7, positions=None)[:2]


# ----------------------------------------------------------------------------------------------------- packed tables
@converts("GatherBlockQuantized", domain=MICROSOFT)
def convert_gather_block_quantized(
    node: OnnxNode, quantize_axis: int = 1, block_size: int = 128, bits: int = 4, gather_axis: int = 0
) -> Expr:
    """Rows of a table of 4 or 8 bits with a scale for each block along an axis; unpacked when compiling."""
    axis = quantize_axis
    packed = node.static(0, "data")
    if packed.dtype == np.uint8 and bits == 4:
        codes = code_bits(packed.reshape(-1, packed.shape[-1]), 4).reshape(*packed.shape[:-1], -1)
        middle = 8
    else:
        codes, middle = packed, 128 if packed.dtype == np.uint8 else 0
    axis = node.axis(axis, codes.ndim)
    scales = node.static(2, "scales")
    groups = np.arange(codes.shape[axis]) // block_size
    zeros = np.float32(middle) if not node.has(3) else _table_zeros(node, scales.shape, bits, packed.dtype)
    zeros = zeros if zeros.ndim == 0 else np.take(zeros, groups, axis)
    table = (codes.astype(np.float32) - zeros) * np.take(scales, groups, axis).astype(np.float32)
    gathered = node.axis(gather_axis, table.ndim)
    return op.take(constant(table, node.dtype(2)), node[1], axis=gathered, mode="wrap")


def _table_zeros(node: OnnxNode, shape: Sequence[int], bits: int, dtype: np.dtype) -> np.ndarray:
    given = node.static(3, "zero points")
    if dtype != np.uint8 or bits != 4:
        return given.astype(np.float32).reshape(shape)
    rows = code_bits(given.reshape(-1, given.shape[-1]), 4)
    return rows[:, : shape[-1]].astype(np.float32).reshape(shape)


#: The sixteen numbers that a code of 4 bits stands for: FP4, and NF4 (QLoRA, Dettmers et al. 2023, appendix E).
_CODES = {
    0: (0.0, 0.00520833, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25),
    1: (
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ),
}  # fmt: skip


@converts("MatMulBnb4", domain=MICROSOFT)
def convert_matmul_bnb4(node: OnnxNode) -> Expr:
    """A product with weights of 4 bits: numbers of a table times the largest of the block, unpacked when compiling."""
    columns, depth, block = (int(node.require(name)) for name in ("N", "K", "block_size"))
    kind = node.choice("quant_type", 1, (0, 1))
    node.ignore("training_mode")
    node.choice("transB", 1, (1,))
    table = np.array(_CODES[kind], np.float32)
    table = table if len(table) == 16 else np.concatenate([table, -table])
    packed = node.static(1, "weights").reshape(-1)
    codes = np.stack([packed >> 4, packed & 15], axis=1).reshape(-1)[: columns * depth]
    scales = node.static(2, "absmax").reshape(-1).astype(np.float32)
    weights = table[codes] * np.repeat(scales, block)[: columns * depth]
    return matmul_with(node, node[0], constant(weights.reshape(columns, depth), node.dtype()))
