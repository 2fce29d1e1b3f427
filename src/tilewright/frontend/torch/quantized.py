"""Quantizing operators: those that PyTorch exports of calibrated networks, and those of training that rounds."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.idioms import cast, constant, like, rank_of, reshape, shape_of
from tilewright.frontend.signature import Typed
from tilewright.frontend.torch.build import element_type
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.reduce import extreme
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.types import dtype_of, is_static
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.op import qnn
from tilewright.support.dtype import DType


@converts("aten._int_mm")
def convert_int_mm(left: Typed, mat2: Typed) -> Expr:
    return op.nn.matmul(left, mat2)


# ----------------------------------------------------------------------- what exports of calibrated networks carry
@converts("quantized_decomposed.quantize_per_tensor", "quantized_decomposed.quantize_per_channel")
def convert_quantize(node: TorchNode) -> Expr:
    """round(x / scale) + zero point, within the bounds given."""
    scale, zero, axis = _parameters(node)
    data = cast(node["input"], "float32")
    return _bounded(node, qnn.quantize(data, scale, zero, axis=axis, out_dtype=str(node.dtype)))


@converts("quantized_decomposed.dequantize_per_tensor", "quantized_decomposed.dequantize_per_channel")
def convert_dequantize(node: TorchNode) -> Expr:
    """(x - zero point) * scale."""
    scale, zero, axis = _parameters(node)
    return cast(qnn.dequantize(node["input"], scale, zero, axis=axis, out_dtype="float32"), node.dtype)


@converts("quantized_decomposed.quantize_per_token", "quantized_decomposed.dequantize_per_token")
def convert_per_token(node: TorchNode) -> Expr:
    scale, zero = (cast(node[name], kind) for name, kind in (("scales", "float32"), ("zero_points", "int32")))
    if ".quantize" in node.target:
        return _bounded(node, qnn.quantize(cast(node["input"], "float32"), scale, zero, out_dtype=str(node.dtype)))
    return cast(qnn.dequantize(node["input"], scale, zero, out_dtype="float32"), node.dtype)


@converts("quantized_decomposed.dequantize_per_channel_group")
def convert_dequantize_groups(node: TorchNode) -> Expr:
    data = cast(node["w_int8"] if "w_int8" in node.arguments else node["input"], "float32")
    rows, columns = shape_of(data)
    size = int(node["group_size"])
    if not is_static((rows, columns)) or columns % size:
        node.unsupported("groups that do not fill the rows")
    grouped = reshape(data, (rows, columns // size, size))
    scale = op.expand_dims(cast(node["scales"], "float32"), axis=2)
    if node["zero_points"] is not None:
        grouped = grouped - op.expand_dims(cast(node["zero_points"], "float32"), axis=2)
    return cast(reshape(grouped * scale, (rows, columns)), node.dtype)


@converts("quantized_decomposed.choose_qparams", "quantized_decomposed.choose_qparams_symmetric")
def convert_choose(node: TorchNode) -> list[Expr]:
    """Scale and zero point by the range that the data has, which is made to hold 0."""
    data, low, high = node["input"], int(node["quant_min"]), int(node["quant_max"])
    axes = tuple(range(rank_of(data)))
    least, most = (cast(extreme(data, axes, False, largest), "float32") for largest in (False, True))
    zero = constant(0, "float32")
    least, most = op.minimum(least, zero), op.maximum(most, zero)
    eps = constant(node["eps"], "float32")
    if "symmetric" in node.target:
        most = op.maximum(-least, most)
        scale = op.maximum(most / constant((high - low) / 2, "float32"), eps)
        middle = 128 if node["dtype"].is_signed is False else 0
        return [_shaped(node, scale, 0), _shaped(node, constant(middle, "int64"), 1)]
    scale = op.maximum((most - least) / constant(high - low, "float32"), eps)
    position = constant(low, "float32") - op.round(least / scale)
    position = op.clip(position, a_min=float(low), a_max=float(high))
    return [_shaped(node, scale, 0), _shaped(node, position, 1)]


def _shaped(node: TorchNode, value: Expr, index: int) -> Expr:
    return reshape(cast(value, node.dtype_at(index)), node.shape_at(index))


def _parameters(node: TorchNode) -> tuple[Expr, Expr, int]:
    """Scale and zero point, scalars or vectors, and the axis that vectors run along."""
    several = "per_channel" in node.target
    names = ("scales", "zero_points") if several else ("scale", "zero_point")
    scale, zero = node[names[0]], node[names[1]]
    values = [
        cast(value, kind) if isinstance(value, Expr) else constant(0 if value is None else value, kind)
        for value, kind in ((scale, "float32"), (zero, "int32"))
    ]
    if not several:
        return reshape(values[0], ()), reshape(values[1], ()), -1
    return values[0], values[1], node.axis(node["axis"], rank_of(node["input"]))


def _bounded(node: TorchNode, value: Expr) -> Expr:
    """Quantized values within the bounds of the call, where these are narrower than those of the type."""
    limits = dtype_of(node["dtype"], node.label).limits()
    low, high = node["quant_min"], node["quant_max"]
    if isinstance(low, Expr) or isinstance(high, Expr):
        kind = element_type(value)
        return op.minimum(op.maximum(value, cast(low, kind)), cast(high, kind))
    return value if (low, high) == tuple(limits) else op.clip(value, a_min=low, a_max=high)


# ------------------------------------------------------------------------------------------ rounding in training
@converts(
    "aten.fake_quantize_per_tensor_affine", "aten.fake_quantize_per_tensor_affine_cachemask",
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams", "aten.fake_quantize_per_channel_affine",
    "aten.fake_quantize_per_channel_affine_cachemask",
)  # fmt: skip
def convert_fake_quantize(node: TorchNode, data: Expr, zero_point: Any) -> Expr | list[Expr]:
    """The number of the quantized grid that is next to each, and whether it was within the grid's bounds."""
    dtype = element_type(data)
    scale, zero = (_spread(node, node[name], dtype) for name in ("scale", "zero_point"))
    inverse = 1 / scale
    low, high = (like(node[name], data) for name in ("quant_min", "quant_max"))
    steps = data * inverse
    if isinstance(zero_point, Expr) and element_type(zero_point).is_float:
        positions = op.round(steps + zero)
    else:
        positions = op.round(steps) + zero
    made: Expr = (op.minimum(op.maximum(positions, low), high) - zero) * scale
    inside: Expr = op.logical_and(positions >= low, positions <= high)
    if "fake_quant_enabled" in node.arguments:
        on = op.not_equal(reshape(node["fake_quant_enabled"], ()), 0)
        made, inside = op.where(on, made, data), op.logical_or(inside, op.logical_not(on))
    return [made, inside] if isinstance(node.value, tuple | list) else made


def _spread(node: TorchNode, value: Any, dtype: DType) -> Expr:
    """A number for all elements, or one for each position along the axis of the call."""
    if not isinstance(value, Expr):
        return constant(value, dtype)
    if "per_channel" not in node.target:
        return reshape(cast(value, dtype), ())
    rank = rank_of(node["self"])
    axis = node.axis(node["axis"], rank)
    return reshape(cast(value, dtype), (*shape_of(value), *[1] * (rank - axis - 1)))


# ------------------------------------------------------------------------------------------- weights of few bits
@converts("aten._weight_int8pack_mm")
def convert_weight_of_bytes(node: TorchNode) -> Expr:
    """Rows times the transpose of a matrix of 8 bits, whose rows have a scale each."""
    data = cast(node["self"], "float32")
    weight = cast(node["mat2"], "float32") * op.expand_dims(cast(node["scales"], "float32"), axis=1)
    return cast(op.nn.dense(data, weight, units=shape_of(weight)[0]), node.dtype)
