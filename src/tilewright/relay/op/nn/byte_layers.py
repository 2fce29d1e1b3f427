"""Layers of bytes from bytes to bytes, sums scaled and rounded in one kernel: `topi/nn/byte_layers.py`.

`backend.board.byte_layers` writes them, for processors with vectors of bytes.
"""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op.common import Types, call, require, same_dims, tensors
from tilewright.topi.nn import byte_layers
from tilewright.topi.nn.conv2d import output_size
from tilewright.topi.reference import byte_layers as ref
from tilewright.topi.reference.byte_layers import AWAY, ONCE

_SCALE = {"rounding": attr.text(), "zero": attr.integer(), "low": attr.integer(), "high": attr.integer()}
_WINDOW = {
    "kernel_size": attr.integers(),
    "strides": attr.integers(),
    "padding": attr.integers(),
    "pad_value": attr.integer(),
}


def _check(types: Types, attrs: Attrs) -> TensorType:
    """The data, of one image of bytes, with factors of 32 bits."""
    data, weight, scale = tensors(types)
    bytes_ = all(str(type_.dtype) == "int8" for type_ in (data, weight))
    require(bytes_ and same_dims(data.shape[:1], (1,)), f"it takes one image of int8 and int8 weights, not {data}")
    require(str(scale.dtype) == "int32", f"it scales int32 by int32, not by {scale.dtype}")
    require(attrs["rounding"] in (AWAY, ONCE), f"it rounds {AWAY} or {ONCE}, not {attrs['rounding']!r}")
    return data


def _window_type(channels: Any) -> Any:
    def rule(types: Types, attrs: Attrs) -> Type:
        data = _check(types, attrs)
        size = output_size(data.shape[1:3], attrs["kernel_size"], attrs["strides"], attrs["padding"], (1, 1))
        return TensorType((1, *size, channels(data, attrs)), "int8")

    return rule


def _conv2d_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    data, weight, scale = inputs
    return [byte_layers.conv2d_scaled(data, weight, scale, attrs)]


def _conv2d_flops(attrs: Attrs, types: Types, result: Any) -> Any:
    return 2 * result.size * types[0].shape[3] * attrs["kernel_size"][0] * attrs["kernel_size"][1]  # type: ignore[attr-defined]


register(
    "nn.contrib_conv2d_scaled",
    num_inputs=3,
    type_rule=_window_type(lambda _data, attrs: attrs["channels"]),
    compute=_conv2d_compute,
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, data, weight, scale: ref.conv2d_scaled(data, weight, scale, attrs),
    flops=_conv2d_flops,
    attributes={**_WINDOW, **_SCALE, "channels": attr.integer()},
)


def contrib_conv2d_scaled(data: Expr, weight: Expr, scale: Expr, **attrs: Any) -> Call:
    """int8 `data` [1, H, W, C] with packed weights, biases and scales: int8 [1, OH, OW, O]."""
    return call("nn.contrib_conv2d_scaled", data, weight, scale, **attrs)


def _sums_type(types: Types, attrs: Attrs) -> Type:
    data, weight, bias = tensors(types)
    require(all(str(type_.dtype) == "int8" for type_ in (data, weight)), f"it takes int8, not {data} and {weight}")
    require(same_dims(data.shape[:1], (1,)), f"it takes one image, not {data}")
    require(str(bias.dtype) == "int32", f"its bias is of int32, not {bias.dtype}")
    size = output_size(data.shape[1:3], attrs["kernel_size"], attrs["strides"], attrs["padding"], (1, 1))
    return TensorType((1, *size, attrs["channels"]), "int32")


def _sums_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    data, weight, bias = inputs
    return [byte_layers.conv2d_sums(data, weight, bias, attrs)]


register(
    "nn.contrib_conv2d_sums",
    num_inputs=3,
    type_rule=_sums_type,
    compute=_sums_compute,
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, data, weight, bias: ref.conv2d_sums(data, weight, bias, attrs),
    flops=_conv2d_flops,
    attributes={**_WINDOW, "channels": attr.integer()},
)


def contrib_conv2d_sums(data: Expr, weight: Expr, bias: Expr, **attrs: Any) -> Call:
    """int8 `data` [1, H, W, C] with packed weights and an int32 bias of a multiple of 4: int32 [1, OH, OW, O]."""
    return call("nn.contrib_conv2d_sums", data, weight, bias, **attrs)


def _depthwise_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    data, weight, scale = inputs
    return [byte_layers.depthwise_scaled(data, weight, scale, attrs)]


register(
    "nn.contrib_depthwise_scaled",
    num_inputs=3,
    type_rule=_window_type(lambda data, _attrs: data.shape[3]),
    compute=_depthwise_compute,
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, data, weight, scale: ref.depthwise_scaled(data, weight, scale, attrs),
    flops=lambda attrs, _types, result: 2 * result.size * attrs["kernel_size"][0] * attrs["kernel_size"][1],
    attributes={**_WINDOW, **_SCALE},
)


def contrib_depthwise_scaled(data: Expr, weight: Expr, scale: Expr, **attrs: Any) -> Call:
    """int8 `data` [1, H, W, C] with weights [C'/16, KH * KW, 16] and packed biases and scales: int8 [1, OH, OW, C]."""
    return call("nn.contrib_depthwise_scaled", data, weight, scale, **attrs)


def _add_type(types: Types, _attrs: Attrs) -> Type:
    a, b = tensors(types)
    require(all(str(type_.dtype) == "int8" for type_ in (a, b)), f"it adds int8, not {a.dtype} and {b.dtype}")
    require(same_dims(a.shape, b.shape), f"it adds tensors of one shape, not {a} and {b}")
    return a


def _add_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    a, b = inputs
    return [byte_layers.add_scaled(a, b, attrs)]


register(
    "nn.contrib_add_scaled",
    num_inputs=2,
    type_rule=_add_type,
    compute=_add_compute,
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, a, b: ref.add_scaled(a, b, attrs),
    attributes={
        "first": attr.integers(), "second": attr.integers(), "m": attr.integer(), "shift": attr.integer(), **_SCALE
    },
)  # fmt: skip


def contrib_add_scaled(a: Expr, b: Expr, **attrs: Any) -> Call:
    """The sum of int8 `a` and `b` of one shape as int8.

    `first` and `second` are zero point, left shift, multiplier and right shift; `m`, `shift` and `rounding` are of the
    sum.
    """
    return call("nn.contrib_add_scaled", a, b, **attrs)
