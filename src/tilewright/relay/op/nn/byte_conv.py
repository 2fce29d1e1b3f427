"""Products of bytes for processors without vectors, and their sums scaled by fixed-point numbers.

`backend.board.byte_products` writes them: images have channels last and stay int8, weights lie in the order in which
a kernel reads them, and the zero point of the data is part of the bias (`topi/nn/byte_conv.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op.common import Types, call, require, same_dims, tensors
from tilewright.topi import tag
from tilewright.topi.nn import byte_conv
from tilewright.topi.nn.conv2d import output_size
from tilewright.topi.reference import byte_conv as ref


def _check(data: TensorType, bias: TensorType, channels: int) -> None:
    require(str(data.dtype) == "int8", f"it multiplies int8, not {data.dtype}")
    fits = same_dims(bias.shape, (channels,)) and str(bias.dtype) == "int32"
    require(fits, f"its bias is int32 [{channels}], not {bias}")


def _out_shape(data: TensorType, kernel: Sequence[int], attrs: Attrs) -> tuple[Any, ...]:
    return output_size(data.shape[1:3], kernel, attrs["strides"], attrs["padding"], (1, 1))


# ---------------------------------------------------------------------------------------- convolutions and products
def _conv2d_type(types: Types, attrs: Attrs) -> Type:
    data, weight, bias = tensors(types)
    channels = weight.shape[0] * weight.shape[2]
    _check(data, bias, channels)
    return TensorType((data.shape[0], *_out_shape(data, attrs["kernel_size"], attrs), channels), "int32")


def _conv2d_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    data, weight, bias = inputs
    window = attrs["kernel_size"], attrs["strides"], attrs["padding"]
    return [byte_conv.conv2d_bytes(data, weight, bias, *window, attrs["pad_value"], attrs["form"])]


register(
    "nn.contrib_conv2d_bytes",
    num_inputs=3,
    type_rule=_conv2d_type,
    compute=_conv2d_compute,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    reference=lambda attrs, data, weight, bias: ref.conv2d_bytes(data, weight, bias, attrs),
    flops=lambda attrs, types, result: (
        2 * result.size * types[0].shape[3] * attrs["kernel_size"][0] * attrs["kernel_size"][1]
    ),
    attributes={
        "kernel_size": attr.integers(),
        "strides": attr.integers(),
        "padding": attr.integers(),
        "pad_value": attr.integer(),
        "form": attr.text(),
    },
)


def contrib_conv2d_bytes(
    data: Expr,
    weight: Expr,
    bias: Expr,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    pad_value: int,
    form: str,
) -> Call:
    """int8 `data` [N, H, W, C] with weights packed as `form` says and an int32 bias [O]: int32 [N, OH, OW, O]."""
    return call(
        "nn.contrib_conv2d_bytes",
        data,
        weight,
        bias,
        kernel_size=tuple(kernel_size),
        strides=tuple(strides),
        padding=tuple(padding),
        pad_value=pad_value,
        form=form,
    )


def _dense_type(types: Types, attrs: Attrs) -> Type:
    data, weight, bias = tensors(types)
    channels = weight.shape[0] * weight.shape[2]
    _check(data, bias, channels)
    return TensorType((data.shape[0], channels), "int32")


def _dense_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    data, weight, bias = inputs
    return [byte_conv.dense_bytes(data, weight, bias, attrs["form"])]


register(
    "nn.contrib_dense_bytes",
    num_inputs=3,
    type_rule=_dense_type,
    compute=_dense_compute,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    reference=lambda attrs, data, weight, bias: ref.dense_bytes(data, weight, bias, attrs["form"]),
    flops=lambda _attrs, types, result: 2 * result.size * types[0].shape[1],
    attributes={"form": attr.text()},
)


def contrib_dense_bytes(data: Expr, weight: Expr, bias: Expr, form: str) -> Call:
    """int8 `data` [M, K] with weights packed as `form` says and an int32 bias [O]: int32 [M, O]."""
    return call("nn.contrib_dense_bytes", data, weight, bias, form=form)


def _depthwise_type(types: Types, attrs: Attrs) -> Type:
    data, weight, bias = tensors(types)
    _check(data, bias, weight.shape[2])
    return TensorType((data.shape[0], *_out_shape(data, weight.shape[:2], attrs), weight.shape[2]), "int32")


def _depthwise_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    data, weight, bias = inputs
    window = attrs["strides"], attrs["padding"], attrs["pad_value"]
    return [byte_conv.depthwise_conv2d_bytes(data, weight, bias, *window)]


register(
    "nn.contrib_depthwise_bytes",
    num_inputs=3,
    type_rule=_depthwise_type,
    compute=_depthwise_compute,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    reference=lambda attrs, data, weight, bias: ref.depthwise_bytes(data, weight, bias, attrs),
    flops=lambda _attrs, types, result: 2 * result.size * types[1].shape[0] * types[1].shape[1],
    attributes={"strides": attr.integers(), "padding": attr.integers(), "pad_value": attr.integer()},
)


def contrib_depthwise_bytes(
    data: Expr, weight: Expr, bias: Expr, strides: Sequence[int], padding: Sequence[int], pad_value: int
) -> Call:
    """int8 `data` [N, H, W, C] with int8 weights [KH, KW, C] and an int32 bias [C]: int32 [N, OH, OW, C]."""
    attrs = {"strides": tuple(strides), "padding": tuple(padding), "pad_value": pad_value}
    return call("nn.contrib_depthwise_bytes", data, weight, bias, **attrs)


# ------------------------------------------------------------------------------------------------------- fixed point
def _scale_type(types: Types, attrs: Attrs) -> Type:
    data, *factors = tensors(types)
    require(all(str(type_.dtype) == "int32" for type_ in (data, *factors)), "it scales int32 by int32")
    shapes = {type_.shape for type_ in factors}
    fits = all(shape in ((), (1,)) or same_dims(shape, data.shape[-1:]) for shape in shapes)
    require(fits, f"factors of shapes {shapes} do not go along the last axis of {data}")
    return data


def high_half(value: Any, m: Any) -> Any:
    """value * m / 2^31 to the nearest, halves up; no value exceeds 30 bits."""
    rounded = (value * 2).astype("int64") * m.astype("int64") + tir.const(1 << 31, "int64")
    return tir.call_intrin("int64", "shift_right", rounded, tir.const(32, "int64")).astype("int32")


def _scale_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    data, *factors = inputs

    def element(*i: Any) -> Any:
        m, added, exponent = (t() if t.ndim == 0 else t(0 if t.shape[0] == 1 else i[-1]) for t in factors)
        high = high_half(data(*i), m)
        sign = tir.call_intrin("int32", "shift_right", high, tir.const(31))
        if attrs["whole"]:
            sign = tir.select(exponent == 0, tir.const(0), sign)
        total = high + added + sign if attrs["away"] else high + added
        return tir.call_intrin("int32", "shift_right", total, exponent)

    return [te.compute(data.shape, element, name="fixed_point", tag=tag.ELEMWISE)]


register(
    "nn.contrib_fixed_point",
    num_inputs=4,
    type_rule=_scale_type,
    compute=_scale_compute,
    pattern=OpPattern.BROADCAST,
    reference=lambda attrs, data, m, added, exponent: ref.fixed_point(data, m, added, exponent, attrs),
    attributes={"away": attr.flag(), "whole": attr.flag(False)},
)


def contrib_fixed_point(
    data: Expr, multiplier: Expr, added: Expr, exponent: Expr, away: bool, whole: bool = False
) -> Call:
    """((data * multiplier + 2^30 >> 31) + added) >> exponent of int32, along the last axis; no sum may exceed int32.

    `away` takes 1 from the sum where the product is negative: with half of 2^exponent added, halves are then rounded
    away from zero. With `whole`, nothing is taken where the exponent is 0, which drops no half.
    """
    return call("nn.contrib_fixed_point", data, multiplier, added, exponent, away=away, whole=whole)
