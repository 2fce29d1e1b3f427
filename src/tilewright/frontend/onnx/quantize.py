"""Quantized operators: to and from integers and narrow floats, and products of quantized tensors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.idioms import cast, constant
from tilewright.frontend.onnx.dims import is_static
from tilewright.frontend.onnx.nn import convolve, matmul
from tilewright.frontend.onnx.node import OnnxNode, reshape, sized, transpose
from tilewright.frontend.onnx.pooling import average_pool, max_pool, windows
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.frontend.onnx.tensors import dtype_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, Tuple
from tilewright.relay.op import qnn
from tilewright.relay.op.nn.coded_weights import dense_of_codes, take_of_codes
from tilewright.relay.op.qnn.quantize import limited
from tilewright.support.dtype import DType
from tilewright.topi.narrow import FLOATS
from tilewright.topi.reference.blockwise import WHOLE, code_bits


def zero_point_of(node: OnnxNode, index: int, dtype: str | DType = "int32") -> Expr:
    """The zero point of input `index`, or zero."""
    return node[index] if node.has(index) else constant(0, dtype if DType(dtype) not in FLOATS else "int32")


@converts("QuantizeLinear", since=10)
def convert_quantize_linear(node: OnnxNode) -> Expr:
    """round(x / scale) + zero point, saturated; per tensor, per axis or in blocks along an axis."""
    node.ignore("saturate", "precision")
    code = node.attr("output_dtype", 0)
    target = node.dtype(2) if node.has(2) else dtype_of(code, node.label) if code else DType("uint8")
    axis = _axis(node)
    data, rank = _scaled_data(node, axis), node.rank()
    scale = _expanded(node, node[1], axis)
    zero = zero_point_of(node, 2, target)
    zero = _expanded(node, zero, axis) if node.has(2) and target not in FLOATS else constant(0, "int32")
    if target in FLOATS and not node.attr("saturate", 1):
        return op.cast(data / _along(node, scale, axis, rank), dtype=str(target))
    return qnn.quantize(data, cast(scale, "float32"), cast(zero, "int32"), axis=axis, out_dtype=str(target))


@converts("DequantizeLinear", since=10)
def convert_dequantize_linear(node: OnnxNode) -> Expr:
    """(x - zero point) * scale, in the type of the scale."""
    code = node.attr("output_dtype", 0)
    target = dtype_of(code, node.label) if code else node.dtype(1)
    axis = _axis(node)
    zero = _expanded(node, node[2], axis) if node.has(2) and node.dtype() not in FLOATS else constant(0, "int32")
    scale = cast(_expanded(node, node[1], axis), "float32")
    data = _scaled_data(node, axis)
    return qnn.dequantize(data, scale, cast(zero, "int32"), axis=axis, out_dtype=str(target))


def _axis(node: OnnxNode) -> int:
    """The axis that a vector of scales runs along; it does not count for a single scale."""
    axis, rank = int(node.attr("axis", 1)), max(node.rank(), 1)
    if node.rank(1) == 0 or (node.rank(1) == 1 and node.shape(1)[0] == 1):
        return -1
    return node.axis(axis, rank)


def _scaled_data(node: OnnxNode, axis: int) -> Expr:
    """The data; where the axis of its scales is symbolic, that has as many elements as there are scales."""
    count = node.shape(1)[0] if node.rank(1) == 1 else None
    return sized(node, node[0], axis, count) if axis >= 0 and isinstance(count, int) else node[0]


def _along(node: OnnxNode, value: Expr, axis: int, rank: int) -> Expr:
    """A vector as [n, 1, …], such that it broadcasts along `axis`."""
    return reshape(node, value, (node.shape(value)[0], *(1,) * (rank - 1 - axis))) if node.rank(value) == 1 else value


def _expanded(node: OnnxNode, value: Expr, axis: int) -> Expr:
    """Scales of blocks repeated for each element of the block; those of an axis, which are as many as it is long."""
    block = int(node.attr("block_size", 0))
    if node.rank(value) < 2:
        return sized(node, value, 0, node.shape()[axis]) if node.rank(value) == 1 and axis >= 0 else value
    extent, blocks = node.shape()[axis], node.shape(value)[axis]
    if not is_static((extent, blocks)):
        node.unsupported(f"blocks along axis {axis}, whose extent varies from run to run")
    size = block or -(-extent // blocks)
    return op.take(value, Constant(np.arange(extent) // size), axis=axis, mode="clip")


def dynamically_quantized(node: OnnxNode, data: Expr) -> list[Expr]:
    """`data` (float32) as uint8 by its own range: values, scale (1 of data that are all zeros) and zero point."""
    axes = tuple(range(node.rank(data)))
    low = op.minimum(op.min(data, axis=axes, keepdims=False), constant(0.0, "float32"))
    high = op.maximum(op.max(data, axis=axes, keepdims=False), constant(0.0, "float32"))
    span = (high - low) / constant(255.0, "float32")
    span = op.where(op.equal(span, constant(0.0, "float32")), constant(1.0, "float32"), span)
    zero = op.cast(op.round(op.clip(-low / span, a_min=0.0, a_max=255.0)), dtype="uint8")
    return [qnn.quantize(data, span, op.cast(zero, dtype="int32"), out_dtype="uint8"), span, zero]


# ----------------------------------------------------------------------------------------------------- products
def _shifted(node: OnnxNode, data: Expr, zero: Expr | None, axis: int | None) -> Expr:
    """data - zero point in int32; a vector of zero points runs along `axis`."""
    wide = cast(data, "int32")
    if zero is None or (isinstance(zero, Constant) and not np.any(zero.data)):
        return wide
    zero = cast(zero, "int32")
    if node.rank(zero) == 1 and node.shape(zero) == (1,):
        zero = reshape(node, zero, ())
    elif node.rank(zero) == 1 and axis is not None:
        zero = _along(node, zero, axis % node.rank(data), node.rank(data))
    return wide - zero


def _given(node: OnnxNode, index: int) -> Expr | None:
    return node[index] if node.has(index) else None


def integer_product(node: OnnxNode, left: Expr, right: Expr, left_zero: int, right_zero: int) -> Expr:
    """The product in int32 of two tensors less their zero points, which are inputs of these numbers."""
    rank = node.rank(left)
    left = _shifted(node, left, _given(node, left_zero), rank - 2 if rank > 1 else 0)
    return matmul(node, left, _shifted(node, right, _given(node, right_zero), node.rank(right) - 1))


@converts("ConvInteger", since=10)
def convert_conv_integer(node: OnnxNode) -> Expr:
    """The convolution of integers in int32; padding stands for the zero point, that is, for zero."""
    data = _shifted(node, node[0], _given(node, 2), None)
    return convolve(node, data, _shifted(node, node[1], _given(node, 3), 0))


@converts("QLinearMatMul", since=10)
def convert_qlinear_matmul(node: OnnxNode) -> Expr:
    left = _shifted(node, node[0], node[2], node.rank(0) - 2 if node.rank(0) > 1 else 0)
    right = _shifted(node, node[3], node[5], node.rank(3) - 1)
    product = matmul(node, left, right)
    scale = _rows(node, cast(node[1], "float32"), node.rank(product), -2) * _rows(
        node, cast(node[4], "float32"), node.rank(product), -1
    )
    return requantized(node, product, scale, 6)


def _rows(node: OnnxNode, value: Expr, rank: int, axis: int) -> Expr:
    """A vector of scales along `axis` of a product, or a single scale."""
    if node.rank(value) != 1:
        return value
    if node.shape(value) == (1,):
        return reshape(node, value, ())
    return _along(node, value, axis % rank, rank)


def requantized(node: OnnxNode, total: Expr, scale: Expr, output: int) -> Expr:
    """int32 sums that stand for `scale` times themselves, at the scale (input `output`) and zero point after it."""
    out_scale, out_zero = cast(node[output], "float32"), node[output + 1]
    target = str(node.dtype(out_zero))
    factor = scale / _rows(node, out_scale, node.rank(total), -1)
    scaled = op.round(op.cast(total, dtype="float32") * factor)
    shifted = scaled + _rows(node, op.cast(out_zero, dtype="float32"), node.rank(total), -1)
    low, high = DType(target).limits()
    return op.cast(op.clip(shifted, a_min=low, a_max=high), dtype=target)


converts.functions({
    "QLinearConv": lambda node: qlinear_conv(node, node[0]),
    "MatMulInteger": lambda node: integer_product(node, node[0], node[1], 2, 3),
}, since=10)  # fmt: skip
converts.functions({
    "DynamicQuantizeLinear": lambda node: dynamically_quantized(node, cast(node[0], "float32")),
}, since=11)  # fmt: skip


def qlinear_conv(node: OnnxNode, data: Expr) -> Expr:
    """The operator with `data` [N, C, …] as the first input."""
    data = _shifted(node, data, node[2], None)
    total = convolve(node, data, _shifted(node, node[3], node[5], 0))
    rank = node.rank(total)
    if node.has(8):
        total = total + _along(node, cast(node[8], "int32"), 1, rank)
    weight_scale = cast(node[4], "float32")
    if node.rank(weight_scale) == 1:
        weight_scale = reshape(node, weight_scale, ()) if node.shape(4) == (1,) else _along(node, weight_scale, 1, rank)
    scale = _rows(node, cast(node[1], "float32"), rank, 1) * weight_scale
    return requantized(node, total, scale, 6)


# ------------------------------------------------------------------------ com.microsoft, as onnxruntime has them
def real_of(node: OnnxNode, data: int) -> Expr:
    """The real numbers of the quantized input `data`, whose scale and zero point follow it."""
    return qnn.dequantize(node[data], node[data + 1], cast(zero_point_of(node, data + 2), "int32"))


def quantized_like(node: OnnxNode, value: Expr, scale: int, like: int) -> Expr:
    """`value` at the scale of input `scale` and the zero point after it, in the type of input `like`."""
    zero = zero_point_of(node, scale + 1, node.dtype(like))
    return qnn.quantize(value, node[scale], cast(zero, "int32"), out_dtype=str(node.dtype(like)))


_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {"QLinearAdd": op.add, "QLinearMul": op.multiply}


_UNARY: dict[str, Callable[[OnnxNode, Expr], Expr]] = {
    "QLinearSigmoid": lambda node, x: op.sigmoid(x),
    "QLinearLeakyRelu": lambda node, x: op.nn.leaky_relu(x, alpha=float(node.attr("alpha", 0.01))),
    "QLinearSoftmax": lambda node, x: op.nn.softmax(x, axis=int(node.attr("axis", -1))),
}


@converts(*_UNARY, domain=MICROSOFT)
def convert_qlinear_unary(node: OnnxNode) -> Expr:
    node.ignore("opset")
    return quantized_like(node, _UNARY[node.op_type](node, real_of(node, 0)), 3, 0)


@converts("QLinearGlobalAveragePool", domain=MICROSOFT)
def convert_qlinear_global_average_pool(node: OnnxNode, channels_last: int = 0) -> Expr:
    rank = node.rank()
    axes = tuple(range(1, rank - 1)) if channels_last else tuple(range(2, rank))
    return quantized_like(node, op.mean(real_of(node, 0), axis=axes, keepdims=True), 3, 0)


@converts("QLinearConcat", domain=MICROSOFT)
def convert_qlinear_concat(node: OnnxNode, axis: int) -> Expr:
    parts = [real_of(node, index) for index in range(2, len(node.inputs), 3)]
    joined = op.concatenate(Tuple(parts), axis=axis)
    return qnn.quantize(joined, node[0], cast(node[1], "int32"), out_dtype=str(node.dtype(1)))


@converts("DequantizeLinear", "QuantizeLinear", domain=MICROSOFT)
def convert_microsoft_linear(node: OnnxNode) -> Expr:
    return convert_dequantize_linear(node) if node.op_type == "DequantizeLinear" else convert_quantize_linear(node)


@converts("MatMulIntegerToFloat", domain=MICROSOFT)
def convert_matmul_integer_to_float(node: OnnxNode) -> Expr:
    left = _shifted(node, node[0], _given(node, 4), None)
    right = _shifted(node, node[1], _given(node, 5), node.rank(1) - 1)
    product = op.cast(matmul(node, left, right), dtype="float32")
    rank = node.rank(product)
    scaled = product * (_rows(node, node[2], rank, -2) * _rows(node, node[3], rank, -1))
    return scaled + node[6] if node.has(6) else scaled


@converts("DynamicQuantizeMatMul", domain=MICROSOFT)
def convert_dynamic_quantize_matmul(node: OnnxNode) -> Expr:
    """The left operand quantized by its own range, the product as real numbers, with an optional bias."""
    data, scale, zero = dynamically_quantized(node, cast(node[0], "float32"))
    product = matmul(node, _shifted(node, data, zero, None), _shifted(node, node[1], _given(node, 3), node.rank(1) - 1))
    real = op.cast(product, dtype="float32") * (scale * _rows(node, node[2], node.rank(product), -1))
    return real + node[4] if node.has(4) else real


@converts("QGemm", domain=MICROSOFT)
def convert_qgemm(node: OnnxNode) -> Expr:
    """alpha * A' B' + C of quantized matrices, quantized, or as real numbers without an output scale."""
    left = _shifted(node, node[0], node[2], None)
    right_axis = 0 if node.attr("transB", 0) else 1
    right = _shifted(node, node[3], node[5], right_axis)
    left = transpose(left, (1, 0)) if node.attr("transA", 0) else left
    right = transpose(right, (1, 0)) if node.attr("transB", 0) else right
    total = matmul(node, left, right)
    if node.has(6):
        total = total + node[6]
    alpha = constant(float(node.attr("alpha", 1.0)), "float32")
    scale = node[1] * _rows(node, node[4], 2, -1) * alpha
    return requantized(node, total, scale, 7) if node.has(7) else op.cast(total, dtype="float32") * scale


@converts("MatMulNBits", domain=MICROSOFT)
def convert_matmul_nbits(
    node: OnnxNode, N: int, K: int, block_size: int, bits: int = 4, accuracy_level: int = 0
) -> Expr:
    """A product with weights [N, blocks, block bytes] of 2, 4 or 8 bits, and scales and zero points by block."""
    blocks, supported = -(-K // block_size), node.choice("bits", 4, WHOLE[1:])
    codes = code_bits(node.static(1, "weights").reshape(N, blocks, -1), supported)
    scales = node.static(2, "scales").reshape(N, blocks)
    zeros = node.static(3, "zero points") if node.has(3) else None
    if zeros is not None:
        zeros = zeros.reshape(N, -1) if zeros.dtype != np.uint8 else code_bits(zeros.reshape(N, -1), bits)[:, :blocks]
    groups = node.static(4, "g_idx").reshape(-1)[:K] if node.has(4) else None
    data = sized(node, node[0], -1, K)
    result = dense_of_codes(data, codes[..., :block_size], scales, zeros, bits, groups, accuracy_level)
    return result + node[5] if node.has(5) else result


# -------------------------------------------------------------------------------------------------------- casts
def cast_to(node: OnnxNode, value: Expr, target: DType) -> Expr:
    """`value` in `target` as ONNX's Cast has it: narrow floats saturate unless the attribute `saturate` is 0."""
    saturate, round_mode = bool(node.attr("saturate", 1)), str(node.attr("round_mode", "up"))
    if node.dtype(value) == target and not (saturate and target == "float8_e5m2"):  # infinities saturate there, too
        return value
    if target == "float8_e8m0fnu" and not node.dtype(value).is_bool:
        return _to_powers_of_two(node, cast(value, "float32"), saturate, round_mode)
    if target in FLOATS and target != "float4_e2m1fn" and saturate:
        return op.cast(limited(cast(value, "float32"), target), dtype=str(target))
    if target.is_narrow and not node.dtype(value).is_narrow and node.dtype(value) != "float32" and target in FLOATS:
        value = cast(value, "float32")
    return cast(value, target)


def _to_powers_of_two(node: OnnxNode, value: Expr, saturate: bool, round_mode: str) -> Expr:
    """float8_e8m0: the exponent of a float32, rounded up, down or to the nearest by the fraction's bits."""
    bits = op.reinterpret(op.abs(value), dtype="int32")
    carry = {"up": (1 << 23) - 1, "nearest": 1 << 22, "down": 0}[round_mode]
    code = op.right_shift(bits + constant(carry, "int32"), constant(23, "int32"))
    largest = constant(254, "int32")
    if saturate:
        code = op.minimum(code, largest)
    else:
        code = op.where(code > largest, constant(255, "int32"), code)
    code = op.where(op.isnan(value), constant(255, "int32"), code)
    return op.reinterpret(op.cast(code, dtype="uint8"), dtype="float8_e8m0fnu")


# ---------------------------------------------------------------------- Quantized operators of onnxruntime's own domain
@converts("QLinearConv", domain=MICROSOFT)
def convert_microsoft_qlinear_conv(node: OnnxNode, channels_last: int = 0) -> Expr:
    """ONNX's QLinearConv; with `channels_last` of data and a result [N, …, C], the weights as ever."""
    if not channels_last:
        return qlinear_conv(node, node[0])
    return idioms.channels_last(qlinear_conv(node, idioms.channels_first(node[0])))


@converts("QLinearAveragePool", domain=MICROSOFT)
def convert_qlinear_average_pool(node: OnnxNode, channels_last: bool = False) -> Expr:
    """The mean of each window of the real numbers that a quantized tensor stands for."""
    data = real_of(node, 0)
    data = idioms.channels_first(data) if channels_last else data
    pooled = average_pool(node, data, windows(node, node.shape(data)[2:], node.require("kernel_shape")))
    return quantized_like(node, idioms.channels_last(pooled) if channels_last else pooled, 3, 0)


converts.functions({
    "QLinearWhere": lambda node: quantized_like(node, op.where(node[0], real_of(node, 1), real_of(node, 4)), 7, 1),
    "NhwcMaxPool": lambda node: idioms.channels_last(max_pool(node, idioms.channels_first(node[0]))),
    " ".join(_BINARY): lambda node: quantized_like(
        node, _BINARY[node.op_type](real_of(node, 0), real_of(node, 3)), 6, 0
    ),
}, domain=MICROSOFT)  # fmt: skip


# ----------------------------------------------------------------------------------------------------- packed tables
@converts("GatherBlockQuantized", domain=MICROSOFT)
def convert_gather_block_quantized(
    node: OnnxNode, quantize_axis: int = 1, block_size: int = 128, bits: int = 4, gather_axis: int = 0
) -> Expr:
    """Slices of a table of 2, 4 or 8 bits with a scale for each block along an axis."""
    table, scales = node.static(0, "data"), node.static(2, "scales")
    zeros = node.static(3, "zero points") if node.has(3) else None
    if table.dtype == np.uint8:
        zeros = np.array(1 << (bits - 1)) if zeros is None else code_bits(zeros, bits)[..., : scales.shape[-1]]
        table = code_bits(table, bits)
    elif str(table.dtype) in ("int4", "uint4"):
        least, bits = (-8 if str(table.dtype) == "int4" else 0), 4
        table = (table.astype(np.int8) - least).astype(np.uint8)
        zeros = np.array(-least) if zeros is None else zeros.astype(np.float32) - least
    axes = node.axis(gather_axis, table.ndim), node.axis(quantize_axis, table.ndim)
    return take_of_codes(table, node[1], scales, zeros, bits, block_size, axes)


#: The sixteen numbers that a code of 4 bits stands for: FP4, and NF4 (QLoRA, Dettmers et al. 2023, appendix E).
_CODES = {
    0: (
        0.0, 0.00520833, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25,
        -0.0, -0.00520833, -0.66666667, -1.0, -0.33333333, -0.5, -0.16666667, -0.25,
    ),
    1: (
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ),
}  # fmt: skip


@converts("MatMulBnb4", domain=MICROSOFT)
def convert_matmul_bnb4(node: OnnxNode) -> Expr:
    """A product with weights of 4 bits: numbers of a table times the largest of the block."""
    columns, depth, block = (int(node.require(name)) for name in ("N", "K", "block_size"))
    kind = node.choice("quant_type", 1, (0, 1))
    node.ignore("training_mode")
    node.choice("transB", 1, (1,))
    packed, part = node.static(1, "weights").reshape(-1), math.gcd(block, depth)  # a block may end in another row
    codes = np.stack([packed >> 4, packed & 15], axis=1).reshape(-1)[: columns * depth]
    scales = np.repeat(node.static(2, "absmax").reshape(-1), block // part)[: columns * depth // part]
    parts = codes.reshape(columns, -1, part), scales.reshape(columns, -1)
    return dense_of_codes(sized(node, node[0], -1, depth), *parts, table=_CODES[kind])
