"""Quantized operators in the classic spelling: those whose operands are rounded one by one, ties upwards
(`relay.qnn.op.add` …), and functions of versions after 0.8, which go by way of the real numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.compat.ir.meanings import only
from tilewright.compat.relay.stated_sizes import of_channels
from tilewright.relay import op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op import qnn
from tilewright.relay.op.qnn.arithmetic import rounded_each
from tilewright.support.named import named

#: The default rounding of the classic `requantize`.
ROUNDING = "UPWARD"


def _binary(name: str) -> Any:
    own = getattr(qnn, name)

    @functools.wraps(own)
    def build(*args: Any, **options: Any) -> relay.Call:
        return rounded_each(own(*args, **options), ROUNDING)

    return build


add, subtract, mul = _binary("add"), _binary("subtract"), _binary("mul")
conv2d = of_channels(qnn.conv2d)


def concatenate(
    data: Any, input_scales: Any, input_zero_points: Any, output_scale: Any, output_zero_point: Any, axis: int
) -> relay.Call:
    """Quantized tensors joined along `axis`, each brought to the output's scale and zero point."""
    made = qnn.concatenate(data, input_scales, input_zero_points, output_scale, output_zero_point, axis)
    return rounded_each(made, ROUNDING)


# ------------------------------------------------------------------------------------- functions of versions after 0.8
def _requantized(value: relay.Expr, x: relay.Expr, scale: Any, zero_point: Any) -> relay.Call:
    return qnn.quantize(value, scale, zero_point, out_dtype=str(tensor_type_of(x).dtype))


def _function(name: str, function: Callable[[relay.Expr], relay.Expr]) -> Any:
    def build(x: relay.Expr, scale: Any, zero_point: Any, output_scale: Any, output_zero_point: Any) -> relay.Call:
        return _requantized(function(qnn.dequantize(x, scale, zero_point)), x, output_scale, output_zero_point)

    return named(build, name, f"{name} of the real numbers that `x` stands for, quantized to the output's scale.")


def _hard_swish(x: relay.Expr) -> relay.Expr:
    return x * (op.clip(x + relay.const(3.0), 0, 6) * relay.const(1 / 6))


exp, log, sqrt, rsqrt, tanh, erf, sigmoid, abs = (
    _function(name, getattr(op, name)) for name in ("exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "abs")
)
hardswish = _function("hardswish", _hard_swish)


def leaky_relu(
    x: relay.Expr, alpha: float, input_scale: Any, input_zero_point: Any, output_scale: Any, output_zero_point: Any
) -> relay.Call:
    """The real numbers that `x` stands for, negative ones times `alpha`, quantized to the output's scale."""
    value = op.nn.leaky_relu(qnn.dequantize(x, input_scale, input_zero_point), alpha)
    return _requantized(value, x, output_scale, output_zero_point)


def softmax(
    x: relay.Expr, scale: Any, zero_point: Any, output_scale: Any, output_zero_point: Any, axis: int = -1
) -> relay.Call:
    """Softmax along `axis` of the real numbers that `x` stands for, quantized to the output's scale."""
    value = op.nn.softmax(qnn.dequantize(x, scale, zero_point), axis)
    return _requantized(value, x, output_scale, output_zero_point)


def avg_pool2d(
    data: relay.Expr,
    input_scale: Any,
    input_zero_point: Any,
    output_scale: Any,
    output_zero_point: Any,
    pool_size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NHWC",
    out_layout: str = "",
) -> relay.Call:
    """Means over windows of the real numbers that `data` stands for, quantized to the output's scale."""
    only("relay.qnn.op.avg_pool2d", "out_layout", out_layout, "", layout)
    real, more = qnn.dequantize(data, input_scale, input_zero_point), (ceil_mode, count_include_pad)
    value = op.nn.avg_pool2d(real, pool_size, strides, dilation, padding, layout, *more)
    return _requantized(value, data, output_scale, output_zero_point)


def hardswish_func(x: Any) -> Any:
    """x * clip(x + 3, 0, 6) / 6 of an array."""
    return np.asarray(x) * np.clip(np.asarray(x) + 3, 0, 6) / 6
