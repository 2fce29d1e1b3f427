"""ONNX's operators in exact arithmetic, one function an operator, over values with bounds (`bench.fuzz.exact`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from bench.fuzz.exact import (
    Array,
    Bounded,
    along,
    attributes_of,
    averaged,
    constants_of,
    conv_function,
    dequantized,
    function,
    integers,
    known,
    matrices,
    monotone,
    pooled,
    product,
    quantized,
    real,
    rescaled,
    softmax,
    unit,
)

Inputs = Sequence[Bounded | None]
Attributes = Mapping[str, Any]
Rule = Callable[[Inputs, Attributes], Bounded | list[Bounded]]


def _at(inputs: Inputs, index: int) -> Bounded | None:
    return inputs[index] if index < len(inputs) else None


def _given(inputs: Inputs, index: int) -> Bounded:
    found = inputs[index]
    assert found is not None
    return found


def _centred(inputs: Inputs, data: int, zero: int, axis: int = 0) -> Bounded:
    """Codes less their zero point, int32."""
    codes, point = _given(inputs, data), _at(inputs, zero)
    shift = along(point.value, axis, codes.value) if point else 0.0
    return integers(codes.value - shift, codes.error)


def _quantize(inputs: Inputs, attributes: Attributes) -> Bounded:
    data, scale, zero = _given(inputs, 0), _given(inputs, 1), _at(inputs, 2)
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    point = along(zero.value, axis, data.value, block) if zero else np.zeros(())
    return quantized(data, along(scale.value, axis, data.value, block), point, zero.dtype if zero else "uint8")


def _dequantize(inputs: Inputs, attributes: Attributes) -> Bounded:
    data, scale, zero = _given(inputs, 0), _given(inputs, 1), _at(inputs, 2)
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    point = along(zero.value, axis, data.value, block) if zero else np.zeros(())
    return dequantized(data, along(scale.value, axis, data.value, block), point)


def _dynamic(inputs: Inputs, attributes: Attributes) -> list[Bounded]:
    """Codes, scale and zero point by the data's own range, in float32 step by step."""
    data = _given(inputs, 0)
    assert data.exact, "the range of inexact data is not known"
    x = data.value.astype(np.float32)
    low, high = min(np.float32(0), x.min()), max(np.float32(0), x.max())
    scale = np.float32((high - low) / np.float32(255)) or np.float32(1)
    zero = np.rint(np.clip(-low / scale, 0, 255)).astype(np.float64)
    return [quantized(data, np.asarray(scale), zero, "uint8"), known(scale), integers(zero, dtype="uint8")]


def _conv(inputs: Inputs, attributes: Attributes) -> Bounded:
    data, weight, bias = _given(inputs, 0), _given(inputs, 1), _at(inputs, 2)
    rank = data.value.ndim - 2
    moved = bias.moved(lambda b: b.reshape(-1, *(1,) * rank)) if bias else None
    return product(data, weight, conv_function(attributes, rank), weight.value[0].size, moved)


def _conv_integer(inputs: Inputs, attributes: Attributes) -> Bounded:
    return _conv([_centred(inputs, 0, 2), _centred(inputs, 1, 3)], attributes)


def _qlinear_conv(inputs: Inputs, attributes: Attributes) -> Bounded:
    bias = _at(inputs, 8)
    total = _conv([_centred(inputs, 0, 2), _centred(inputs, 3, 5), bias], attributes)
    factor = _given(inputs, 1).value * along(_given(inputs, 4).value, 1, total.value) / _given(inputs, 6).value
    zero = _given(inputs, 7)
    return rescaled(total, factor, zero.value, zero.dtype)


def _matmul(inputs: Inputs, attributes: Attributes) -> Bounded:
    left, right = _given(inputs, 0), _given(inputs, 1)
    return product(left, right, matrices, left.value.shape[-1])


def _matmul_integer(inputs: Inputs, attributes: Attributes) -> Bounded:
    return _matmul([_centred(inputs, 0, 2, -2), _centred(inputs, 1, 3, -1)], attributes)


def _qlinear_matmul(inputs: Inputs, attributes: Attributes) -> Bounded:
    total = _matmul([_centred(inputs, 0, 2, -2), _centred(inputs, 3, 5, -1)], attributes)
    scales = _given(inputs, 1).value, along(_given(inputs, 4).value, -1, total.value), _given(inputs, 6).value
    zero = _given(inputs, 7)
    return rescaled(total, scales[0] * scales[1] / scales[2], zero.value, zero.dtype)


def _gemm(inputs: Inputs, attributes: Attributes) -> Bounded:
    left, right = _given(inputs, 0), _given(inputs, 1)
    left = left.moved(np.transpose) if attributes.get("transA", 0) else left
    right = right.moved(np.transpose) if attributes.get("transB", 0) else right
    return product(left, right, matrices, left.value.shape[-1], _at(inputs, 2))


def _qgemm(inputs: Inputs, attributes: Attributes) -> Bounded:
    """onnxruntime's product of codes, its bias in int32, as codes or as float32."""
    right_axis = 0 if attributes.get("transB", 0) else 1
    total = _gemm([_centred(inputs, 0, 2), _centred(inputs, 3, 5, right_axis), _at(inputs, 6)], attributes)
    factor = _given(inputs, 1).value * along(_given(inputs, 4).value, 1, total.value)
    zero = _at(inputs, 8)
    if zero is None:
        return real(total.value * factor, (total.error + 3e-7 * np.abs(total.value)) * factor)
    return rescaled(total, factor / _given(inputs, 7).value, zero.value, zero.dtype)


def _as_float(total: Bounded, factor: Array, bias: Bounded | None) -> Bounded:
    scaled = real(total.value * factor, (total.error + np.abs(total.value) * 2.0**-22) * factor)
    return scaled if bias is None else real(scaled.value + bias.value, scaled.error + bias.error)


def _matmul_integer_to_float(inputs: Inputs, attributes: Attributes) -> Bounded:
    total = _matmul([_centred(inputs, 0, 4), _centred(inputs, 1, 5, -1)], attributes)
    return _as_float(total, _given(inputs, 2).value * along(_given(inputs, 3).value, -1, total.value), _at(inputs, 6))


def _dynamic_quantize_matmul(inputs: Inputs, attributes: Attributes) -> Bounded:
    codes, scale, zero = _dynamic([inputs[0]], {})
    total = _matmul([_centred([codes, zero], 0, 1), _centred(inputs, 1, 3, -1)], attributes)
    return _as_float(total, scale.value * along(_given(inputs, 2).value, -1, total.value), _at(inputs, 4))


def _matmul_nbits(inputs: Inputs, attributes: Attributes) -> Bounded:
    """A product with codes of a few bits, scaled by block.

    Zero points may be subtracted from sums of the data, and the data be integers of 24 bits relative to its block's
    largest element, which are as many bits as a float32 has.
    """
    columns, depth, block, bits = (attributes[name] for name in ("N", "K", "block_size", "bits"))
    per = 8 // bits

    def codes(packed: Array) -> Array:
        spread = packed.astype(np.int64)[..., None] >> (bits * np.arange(per)) & ((1 << bits) - 1)
        return spread.reshape(columns, -1)

    blocks = -(-depth // block)
    zeros = _at(inputs, 3)
    point = codes(zeros.value.reshape(columns, -1))[:, :blocks] if zeros else np.full((columns, blocks), 1 << bits - 1)
    scales = np.repeat(_given(inputs, 2).value.reshape(columns, blocks), block, 1)
    parts = codes(_given(inputs, 1).value) * scales, np.repeat(point, block, 1) * scales
    codes_, zeros_ = (real(part[:, :depth].T) for part in parts)
    data = _given(inputs, 0)
    peaks = [np.abs(data.value[..., at : at + block]).max(-1, keepdims=True) for at in range(0, depth, block)]
    data = Bounded(
        data.value, data.error + np.repeat(np.concatenate(peaks, -1), block, -1)[..., :depth] * 2.0**-22, "float32"
    )
    found = product(data, real(codes_.value - zeros_.value), matrices, depth)
    apart = product(data, real(codes_.value + zeros_.value), matrices, depth)
    return Bounded(found.value, np.maximum(found.error, apart.error), "float32")


def _add(inputs: Inputs, attributes: Attributes) -> Bounded:
    a, b = _given(inputs, 0), _given(inputs, 1)
    return real(a.value + b.value, a.error + b.error)


def _sub(inputs: Inputs, attributes: Attributes) -> Bounded:
    a, b = _given(inputs, 0), _given(inputs, 1)
    return real(a.value - b.value, a.error + b.error)


def _mul(inputs: Inputs, attributes: Attributes) -> Bounded:
    a, b = _given(inputs, 0), _given(inputs, 1)
    error = a.error * np.abs(b.value) + b.error * (np.abs(a.value) + a.error)
    return real(a.value * b.value, error)


def _div(inputs: Inputs, attributes: Attributes) -> Bounded:
    a, b = _given(inputs, 0), _given(inputs, 1)
    value = a.value / b.value
    fine = np.log2(np.abs(b.value)) % 1 == 0  # a constant's inverse is multiplied by
    return real(value, a.error / np.abs(b.value) + ~fine * np.abs(value) * 2.0**-23)


def _qlinear_binary(rule: Rule) -> Rule:
    def apply(inputs: Inputs, attributes: Attributes) -> Bounded:
        left, right = (dequantized(_given(inputs, i), *(_given(inputs, i + k).value for k in (1, 2))) for i in (0, 3))
        found = rule([left, right], attributes)
        assert isinstance(found, Bounded)
        zero = _given(inputs, 7)
        return quantized(found, _given(inputs, 6).value, zero.value, zero.dtype)

    return apply


def _qlinear_unary(rule: Rule) -> Rule:
    def apply(inputs: Inputs, attributes: Attributes) -> Bounded:
        data = dequantized(_given(inputs, 0), _given(inputs, 1).value, _given(inputs, 2).value)
        found = rule([data], attributes)
        assert isinstance(found, Bounded)
        zero = _given(inputs, 4)
        return quantized(found, _given(inputs, 3).value, zero.value, zero.dtype)

    return apply


def _qlinear_concat(inputs: Inputs, attributes: Attributes) -> Bounded:
    triples = [[_given(inputs, i + k) for k in range(3)] for i in range(2, len(inputs), 3)]
    parts = [dequantized(codes, scale.value, point.value) for codes, scale, point in triples]
    zero = _given(inputs, 1)
    return quantized(_concat(parts, attributes), _given(inputs, 0).value, zero.value, zero.dtype)


def _concat(inputs: Inputs, attributes: Attributes) -> Bounded:
    parts = [_given(inputs, i) for i in range(len(inputs))]
    axis = attributes["axis"]
    joined = (np.concatenate([getattr(p, name) for p in parts], axis) for name in ("value", "error"))
    return Bounded(*joined, parts[0].dtype)


def _cast(inputs: Inputs, attributes: Attributes) -> Bounded:
    data = _given(inputs, 0)
    assert attributes["to"] == onnx.TensorProto.FLOAT
    return real(data.value, data.error)


def _clip(inputs: Inputs, attributes: Attributes) -> Bounded:
    low, high = _given(inputs, 1).value, _given(inputs, 2).value
    return monotone(_given(inputs, 0), lambda x: np.clip(x, low, high))


def _leaky(inputs: Inputs, attributes: Attributes) -> Bounded:
    data, slope = _given(inputs, 0), float(np.float32(attributes.get("alpha", 0.01)))
    scaled = real(data.value * slope, data.error * slope)
    below = data.value < 0
    error = np.where(np.abs(data.value) <= data.error, data.error, np.where(below, scaled.error, data.error))
    return Bounded(np.where(below, data.value * slope, data.value), error, data.dtype)


def _reshape(inputs: Inputs, attributes: Attributes) -> Bounded:
    data, wanted = _given(inputs, 0), _given(inputs, 1).value.astype(int)
    shape = [data.value.shape[i] if size == 0 else int(size) for i, size in enumerate(wanted)]
    return data.moved(lambda x: x.reshape(shape))


def _pad(inputs: Inputs, attributes: Attributes) -> Bounded:
    data, pads = _given(inputs, 0), _given(inputs, 1).value.astype(int)
    fill = _at(inputs, 2)
    widths = list(zip(pads[: len(pads) // 2], pads[len(pads) // 2 :]))
    value = np.pad(data.value, widths, constant_values=float(fill.value) if fill else 0.0)
    return Bounded(value, np.pad(data.error, widths), data.dtype)


def _slice(inputs: Inputs, attributes: Attributes) -> Bounded:
    begin, end, axis = (int(_given(inputs, i).value[0]) for i in (1, 2, 3))
    return _given(inputs, 0).moved(lambda x: x.take(range(begin, end), axis))


def _gather(inputs: Inputs, attributes: Attributes) -> Bounded:
    index = _given(inputs, 1).value.astype(int)
    return _given(inputs, 0).moved(lambda x: x.take(index, attributes.get("axis", 0)))


def _resize(inputs: Inputs, attributes: Attributes) -> Bounded:
    """Elements repeated: nearest, asymmetric, by whole factors."""
    factors = _given(inputs, 2).value.astype(int)

    def repeated(x: Array) -> Array:
        for axis, factor in enumerate(factors):
            x = np.repeat(x, factor, axis)
        return x

    return _given(inputs, 0).moved(repeated)


def _mean(inputs: Inputs, attributes: Attributes) -> Bounded:
    data = _given(inputs, 0)
    axes = tuple(_given(inputs, 1).value.astype(int)) if len(inputs) > 1 else tuple(range(2, data.value.ndim))
    sums = (x.sum(axes, keepdims=True) for x in (data.value, np.abs(data.value), data.error))
    exact = data.exact and np.abs(data.value).sum() <= unit(data.value) * 2.0**24
    return averaged(*sums, float(np.prod([data.value.shape[a] for a in axes])), exact)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _smooth(of: Callable[[Array], Array], slope: float) -> Rule:
    return lambda inputs, attributes: function(_given(inputs, 0), of, slope)


def _moves(of: Callable[[Array, Attributes], Array]) -> Rule:
    return lambda inputs, attributes: _given(inputs, 0).moved(lambda x: of(x, attributes))


RULES: dict[str, Rule] = {
    "QuantizeLinear": _quantize, "DequantizeLinear": _dequantize, "DynamicQuantizeLinear": _dynamic,
    "Conv": _conv, "ConvInteger": _conv_integer, "QLinearConv": _qlinear_conv, "MatMul": _matmul, "Gemm": _gemm,
    "MatMulInteger": _matmul_integer, "QLinearMatMul": _qlinear_matmul, "QGemm": _qgemm, "MatMulNBits": _matmul_nbits,
    "MatMulIntegerToFloat": _matmul_integer_to_float, "DynamicQuantizeMatMul": _dynamic_quantize_matmul,
    "Add": _add, "Sub": _sub, "Mul": _mul, "Div": _div, "QLinearAdd": _qlinear_binary(_add),
    "QLinearMul": _qlinear_binary(_mul), "QLinearConcat": _qlinear_concat, "Concat": _concat, "Cast": _cast,
    "Relu": lambda inputs, _: monotone(_given(inputs, 0), lambda x: np.maximum(x, 0)), "Clip": _clip,
    "LeakyRelu": _leaky, "QLinearLeakyRelu": _qlinear_unary(_leaky), "Reshape": _reshape, "Pad": _pad,
    "Slice": _slice, "Gather": _gather, "Resize": _resize, "ReduceMean": _mean, "GlobalAveragePool": _mean,
    "QLinearGlobalAveragePool": _qlinear_unary(_mean),
    "MaxPool": lambda inputs, attributes: pooled(_given(inputs, 0), attributes, mean=False),
    "AveragePool": lambda inputs, attributes: pooled(_given(inputs, 0), attributes, mean=True),
    "QLinearAveragePool": _qlinear_unary(lambda inputs, a: pooled(_given(inputs, 0), a, mean=True)),
    "Sigmoid": _smooth(_sigmoid, 0.25), "QLinearSigmoid": _qlinear_unary(_smooth(_sigmoid, 0.25)),
    "Tanh": _smooth(np.tanh, 1.0), "HardSigmoid": _smooth(lambda x: np.clip(x * 0.2 + 0.5, 0, 1), 0.2),
    "HardSwish": _smooth(lambda x: x * np.clip(x / 6 + 0.5, 0, 1), 1.5),
    "Softmax": lambda inputs, attributes: softmax(_given(inputs, 0), attributes.get("axis", -1)),
    "Transpose": _moves(lambda x, attributes: x.transpose(attributes["perm"])),
    "Flatten": _moves(lambda x, _: x.reshape(len(x), -1)),
}  # fmt: skip


def evaluate_node(node: onnx.NodeProto, inputs: Inputs) -> list[Bounded]:
    """The results of a node."""
    found = RULES[node.op_type](inputs, attributes_of(node))
    return found if isinstance(found, list) else [found]


def evaluate(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Bounded]:
    """Every value of a model."""
    values = constants_of(model) | {name: known(array) for name, array in feeds.items()}
    for node in model.graph.node:
        results = evaluate_node(node, [values[name] if name else None for name in node.input])
        values |= dict(zip(node.output, results))
    return values
