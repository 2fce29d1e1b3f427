"""Activations, bias and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr
from tilewright.relay.ir.registry import OpPattern, Precision, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import following
from tilewright.relay.op.common import (
    Types,
    call,
    check_axis,
    one,
    require,
    require_positions,
    require_same_dtype,
    same_as_float_input,
    same_as_input,
    same_dims,
    tensor,
    tensors,
    with_attrs,
)
from tilewright.relay.op.layout_rules import follow_channels, follow_input, follow_pad
from tilewright.relay.op.operand_types import per_channel
from tilewright.support.named import named
from tilewright.topi import trigonometry
from tilewright.topi.reference import math as ref_math
from tilewright.topi.reference import nn as ref

register(
    "nn.relu",
    num_inputs=1,
    type_rule=same_as_input,
    compute=one(topi.nn.relu),
    pattern=OpPattern.ELEMWISE,
    reference=lambda _attrs, x: np.maximum(x, np.zeros((), x.dtype)),
    layout=follow_input,
    precision=Precision.FOLLOW,
    idempotent=True,
    homogeneous=True,
)


def relu(data: Expr) -> Call:
    """max(data, 0)."""
    return call("nn.relu", data)


register(
    "nn.leaky_relu",
    num_inputs=1,
    type_rule=same_as_float_input,
    compute=with_attrs(topi.nn.leaky_relu, "alpha"),
    pattern=OpPattern.ELEMWISE,
    reference=lambda attrs, x: np.where(x > 0, x, (x.astype(np.float64) * attrs["alpha"]).astype(x.dtype)),
    layout=follow_input,
    precision=Precision.FOLLOW,
    homogeneous=True,
    attrs_class="LeakyReluAttrs",
    attributes={"alpha": attr.number(0.05)},
)


def leaky_relu(data: Expr, alpha: float = 0.05) -> Call:
    """`data` where positive, alpha * data elsewhere."""
    return call("nn.leaky_relu", data, alpha=alpha)


def _smooth(name: str) -> Any:
    """A smooth activation of one number, by the function of `topi` and the reference of that name."""
    function, reference = getattr(trigonometry, name), getattr(ref_math, name)
    register(
        f"nn.{name}",
        num_inputs=1,
        type_rule=same_as_float_input,
        compute=one(function),
        pattern=OpPattern.ELEMWISE,
        reference=lambda _attrs, x: reference(x),
        layout=follow_input,
        precision=Precision.FOLLOW,
        costly=True,
    )
    return named(lambda data: call(f"nn.{name}", data), name, function.__doc__)


silu = _smooth("silu")
mish = _smooth("mish")
gelu = _smooth("gelu")
gelu_tanh = _smooth("gelu_tanh")


def _per_channel_type(types: Types, attrs: Attrs) -> Type:
    """The vector has one value per channel: [C], [1], or [C/b, b] beside data blocked by channels."""
    data, vector = tensors(types)
    require_same_dtype(data, vector)
    at = check_axis(attrs["axis"], data.ndim)
    wanted = (data.shape[at],) if vector.ndim != 2 else (data.shape[at], data.shape[-1])
    fits = vector.shape == (1,) or same_dims(vector.shape, wanted)
    require(fits, f"the vector {vector.shape} must hold one value for each of {data.shape[at]} channels (axis {at})")
    return data


def along_axis(vector: np.ndarray, data: np.ndarray, axis: int) -> np.ndarray:
    """`vector` ([C], [1] or [C/b, b]) shaped to broadcast beside `data` with its channels on `axis`."""
    shape = [1] * data.ndim
    shape[axis] = vector.shape[0]
    if vector.ndim == 2:
        shape[-1] = vector.shape[1]
    return vector.reshape(shape)


def _prelu_reference(attrs: Attrs, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, x * along_axis(slope, x, attrs["axis"]))


register(
    "nn.prelu",
    num_inputs=2,
    type_rule=_per_channel_type,
    compute=with_attrs(topi.nn.prelu, "axis"),
    pattern=OpPattern.BROADCAST,
    reference=_prelu_reference,
    layout=follow_channels,
    precision=Precision.FOLLOW,
    expected_operands=per_channel(1),
    attrs_class="PReluAttrs",
    attributes={"axis": attr.integer(1)},
)


def prelu(data: Expr, alpha: Expr, axis: int = 1) -> Call:
    """`data` where positive, alpha[channel] * data elsewhere; channels along `axis`, one alpha serves all."""
    return call("nn.prelu", data, alpha, axis=axis)


register(
    "nn.bias_add",
    num_inputs=2,
    type_rule=_per_channel_type,
    compute=with_attrs(topi.nn.bias_add, "axis"),
    pattern=OpPattern.BROADCAST,
    reference=lambda attrs, x, bias: x + along_axis(bias, x, attrs["axis"]),
    layout=follow_channels,
    precision=Precision.FOLLOW,
    expected_operands=per_channel(1),
    follows=following.along_axis,
    attrs_class="BiasAddAttrs",
    attributes={"axis": attr.integer(1)},
)


def bias_add(data: Expr, bias: Expr, axis: int = 1) -> Call:
    """`data` + bias[channel], channels along `axis`."""
    return call("nn.bias_add", data, bias, axis=axis)


# ------------------------------------------------------------------------------------------------------- padding
def _pad_type(types: Types, attrs: Attrs) -> Type:
    data, width, mode = tensor(types[0]), attrs["pad_width"], attrs["pad_mode"]
    require(len(width) == data.ndim, f"pad_width has {len(width)} pairs for {data.ndim} dimensions")
    require(mode in ("constant", "reflect", "edge"), f"pad_mode {mode!r}; known: constant, reflect, edge")
    shape = [b + s + a for (b, a), s in zip(width, data.shape)]
    for size in shape:
        require(size >= 0, f"the padding {width} crops more than there is")
    if mode != "constant":
        for pair, size in zip(width, data.shape):
            require_positions((size,), int(max(pair) > 0))
            fits = mode == "edge" or pair == (0, 0) or max(pair) < size
            require(fits, f"the padding {width} reflects more than there is of shape {data.shape}")
    return TensorType(shape, data.dtype)


def _pad_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    before, after = [p[0] for p in attrs["pad_width"]], [p[1] for p in attrs["pad_width"]]
    if attrs["pad_mode"] == "constant":
        return [topi.nn.pad(inputs[0], before, after, attrs["pad_value"])]
    return [topi.nn.mirror_pad(inputs[0], before, after, attrs["pad_mode"])]


register(
    "nn.pad",
    num_inputs=1,
    type_rule=_pad_type,
    compute=_pad_compute,
    pattern=OpPattern.INJECTIVE,
    reference=lambda attrs, x: ref.pad(x, attrs["pad_width"], attrs["pad_mode"], attrs["pad_value"]),
    layout=follow_pad,
    precision=Precision.FOLLOW,
    follows=following.padding,
    attributes={"pad_width": attr.pairs(), "pad_value": attr.number(0), "pad_mode": attr.text("constant")},
)


def pad(
    data: Expr, pad_width: Sequence[Sequence[int]], pad_value: float | Expr = 0, pad_mode: str = "constant"
) -> Call:
    """`data` with (before, after) elements added per axis: a constant, the mirror image (reflect) or the edge.

    A `pad_value` that is known at run time only is put where padding a mask leaves it false.
    """
    if isinstance(pad_value, Expr) and not isinstance(pad_value, Constant):
        inside = call("nn.pad", call("ones_like", data), pad_width=pad_width)
        padded = call("nn.pad", data, pad_width=pad_width)
        return call("where", call("cast", inside, dtype="bool"), padded, pad_value)
    if isinstance(pad_value, Constant):
        pad_value = pad_value.data.item()
    return call("nn.pad", data, pad_width=pad_width, pad_value=pad_value, pad_mode=pad_mode)
