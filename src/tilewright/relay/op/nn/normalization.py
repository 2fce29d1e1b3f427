"""Softmax, normalizations, dropout and the operators that rearrange channels and space."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, Precision, register
from tilewright.relay.ir.type import TensorType, TupleType, Type, as_dim
from tilewright.relay.op import view_rules
from tilewright.relay.op.common import (
    Types,
    call,
    check_axis,
    divides,
    one,
    require,
    require_float,
    require_same_dtype,
    same_as_input,
    same_dims,
    tensor,
    tensors,
    with_attrs,
)
from tilewright.relay.op.following import along_axis
from tilewright.relay.op.layout_rules import follow_input
from tilewright.relay.op.operand_types import per_channel
from tilewright.support.named import named
from tilewright.topi.reference import nn as ref
from tilewright.topi.reference import transform as ref_transform


def _float_with_axis(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    require_float(data)
    check_axis(attrs["axis"], data.ndim)
    return data


def _register_softmax(name: str, reference: Any, fast: str = "") -> Any:
    register(
        f"nn.{name}",
        num_inputs=1,
        type_rule=_float_with_axis,
        compute=with_attrs(getattr(topi.nn, name), "axis"),
        pattern=OpPattern.OPAQUE,
        reference=lambda attrs, x: reference(x, attrs["axis"]),
        attributes={"axis": attr.integer(-1)},
        passes=3,
        by_rows=True,
        precision=Precision.NEVER,
        attrs_class="SoftmaxAttrs",
        follows=along_axis,
        fast=fast,
    )

    def build(data: Expr, axis: int = -1) -> Call:
        return call(f"nn.{name}", data, axis=axis)

    return named(build, name, reference.__doc__)


softmax = _register_softmax("softmax", ref.softmax, "nn.fast_softmax")
log_softmax = _register_softmax("log_softmax", ref.log_softmax)


def _scaled_type(types: Types, attrs: Attrs) -> Type:
    """Data with vectors of one value per element of `axis`."""
    data, *vectors = tensors(types)
    require_float(data)
    require_same_dtype(data, *vectors)
    at = check_axis(attrs["axis"], data.ndim)
    for vector in vectors:
        fits = same_dims(vector.shape, (data.shape[at],))
        require(
            fits, f"the vector {vector.shape} must hold one value for each of {data.shape[at]} elements of axis {at}"
        )
    return data


register(
    "nn.layer_norm",
    num_inputs=3,
    type_rule=_scaled_type,
    compute=with_attrs(topi.nn.layer_norm, "axis", "epsilon"),
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, x, gamma, beta: ref.layer_norm(x, gamma, beta, attrs["axis"], attrs["epsilon"]),
    precision=Precision.NEVER,
    passes=3,
    by_rows=True,
    expected_operands=per_channel(2),
    attrs_class="LayerNormAttrs",
    attributes={"axis": attr.integer(-1), "epsilon": attr.number(1e-05)},
)


def layer_norm(data: Expr, gamma: Expr, beta: Expr, axis: int = -1, epsilon: float = 1e-5) -> Call:
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta along `axis`."""
    return call("nn.layer_norm", data, gamma, beta, axis=axis, epsilon=epsilon)


def _group_norm_type(types: Types, attrs: Attrs) -> Type:
    data = _scaled_type(types, attrs)
    assert isinstance(data, TensorType)
    require(data.ndim >= 2 and attrs["axis"] % data.ndim != 0, "the channels must not be on axis 0, the batch")
    channels, groups = data.shape[attrs["axis"]], attrs["num_groups"]
    require(groups > 0 and divides(channels, groups), f"{channels} channels do not divide into {groups} groups")
    return data


register(
    "nn.group_norm",
    num_inputs=3,
    type_rule=_group_norm_type,
    compute=with_attrs(topi.nn.group_norm, "num_groups", "axis", "epsilon"),
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, x, gamma, beta: ref.group_norm(
        x, gamma, beta, attrs["num_groups"], attrs["axis"] % x.ndim, attrs["epsilon"]
    ),
    precision=Precision.NEVER,
    passes=3,
    expected_operands=per_channel(2),
    attributes={"num_groups": attr.integer(), "axis": attr.integer(1), "epsilon": attr.number(1e-05)},
)


def group_norm(data: Expr, gamma: Expr, beta: Expr, num_groups: int, axis: int = 1, epsilon: float = 1e-5) -> Call:
    """Normalization of each of `num_groups` parts of `axis` over all axes but the batch, 0."""
    return call("nn.group_norm", data, gamma, beta, num_groups=num_groups, axis=axis, epsilon=epsilon)


def _instance_norm_compute(attrs: Attrs, inputs: list[te.Tensor], out: Any) -> list[te.Tensor]:
    data, gamma, beta = inputs
    return [topi.nn.group_norm(data, gamma, beta, out.shape[attrs["axis"]], attrs["axis"], attrs["epsilon"])]


register(
    "nn.instance_norm",
    num_inputs=3,
    type_rule=_scaled_type,
    compute=_instance_norm_compute,
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, x, gamma, beta: ref.group_norm(
        x, gamma, beta, x.shape[attrs["axis"]], attrs["axis"] % x.ndim, attrs["epsilon"]
    ),
    precision=Precision.NEVER,
    passes=3,
    expected_operands=per_channel(2),
    attributes={"axis": attr.integer(1), "epsilon": attr.number(1e-05)},
)


def instance_norm(data: Expr, gamma: Expr, beta: Expr, axis: int = 1, epsilon: float = 1e-5) -> Call:
    """Normalization of each channel of each image over its space."""
    return call("nn.instance_norm", data, gamma, beta, axis=axis, epsilon=epsilon)


def _batch_norm_type(types: Types, attrs: Attrs) -> Type:
    data = _scaled_type(types, attrs)
    return TupleType([data, types[3], types[4]])


def _batch_norm_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    data, gamma, beta, mean, variance = inputs
    out = topi.nn.batch_norm(data, gamma, beta, mean, variance, attrs["axis"], attrs["epsilon"])
    return [out, topi.identity(mean), topi.identity(variance)]


register(
    "nn.batch_norm",
    num_inputs=5,
    type_rule=_batch_norm_type,
    compute=_batch_norm_compute,
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, x, gamma, beta, mean, variance: (
        ref.batch_norm(x, gamma, beta, mean, variance, attrs["axis"], attrs["epsilon"]),
        mean,
        variance,
    ),
    precision=Precision.FOLLOW,
    expected_operands=per_channel(4),
    statistics=2,
    follows=along_axis,
    attrs_class="BatchNormAttrs",
    attributes={"axis": attr.integer(1), "epsilon": attr.number(1e-05)},
)


def batch_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    moving_mean: Expr,
    moving_var: Expr,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> Call:
    """Inference form; the result is the classic tuple (out, moving_mean, moving_var): take `[0]` of it."""
    return call("nn.batch_norm", data, gamma, beta, moving_mean, moving_var, axis=axis, epsilon=epsilon)


register(
    "nn.lrn",
    num_inputs=1,
    type_rule=_float_with_axis,
    compute=with_attrs(topi.nn.lrn, "size", "axis", "alpha", "beta", "bias"),
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, x: ref.lrn(x, attrs["size"], attrs["axis"], attrs["alpha"], attrs["beta"], attrs["bias"]),
    precision=Precision.NEVER,
    attributes={
        "size": attr.integer(5),
        "axis": attr.integer(1),
        "bias": attr.number(1.0),
        "alpha": attr.number(1e-05),
        "beta": attr.number(0.75),
    },
)


def lrn(data: Expr, size: int = 5, axis: int = 1, bias: float = 1.0, alpha: float = 1e-5, beta: float = 0.75) -> Call:
    """data / (bias + alpha / size * sum of squares over `size` neighbours along `axis`) ** beta."""
    return call("nn.lrn", data, size=size, axis=axis, bias=bias, alpha=alpha, beta=beta)


register(
    "nn.dropout",
    num_inputs=1,
    type_rule=same_as_input,
    compute=one(topi.identity),
    pattern=OpPattern.ELEMWISE,
    reference=lambda _attrs, x: x,
    layout=follow_input,
    precision=Precision.FOLLOW,
    attrs_class="DropoutAttrs",
    attributes={"rate": attr.number(0.5)},
)


def dropout(data: Expr, rate: float = 0.5) -> Call:
    """`data` unchanged: in inference nothing is dropped."""
    return call("nn.dropout", data, rate=rate)


# ------------------------------------------------------------------------------------------- channels and space
def _batch_flatten_type(types: Types, _attrs: Attrs) -> Type:
    data = tensor(types[0])
    require(data.ndim >= 1, "a scalar has no batch")
    return TensorType((data.shape[0], as_dim(math.prod(data.shape[1:]))), data.dtype)


register(
    "nn.batch_flatten",
    num_inputs=1,
    type_rule=_batch_flatten_type,
    compute=lambda _attrs, inputs, out: [topi.reshape(inputs[0], tensor(out).shape)],
    pattern=OpPattern.INJECTIVE,
    reference=lambda _attrs, x: x.reshape(x.shape[0], int(np.prod(x.shape[1:]))),
    precision=Precision.FOLLOW,
    rearranges=True,
    picks=True,
    identity_on_same_type=True,
    view=view_rules.whole,
)


def batch_flatten(data: Expr) -> Call:
    """`data` as a matrix: the first axis stays, all others become one."""
    return call("nn.batch_flatten", data)


def _depth_to_space_type(types: Types, attrs: Attrs) -> Type:
    data, b = tensor(types[0]), attrs["block_size"]
    require(data.ndim == 4, "data [N, C, H, W] is needed")
    n, c, h, w = data.shape
    require(divides(c, b * b), f"{c} channels do not divide into blocks of {b}x{b}")
    return TensorType((n, c // (b * b), h * b, w * b), data.dtype)


register(
    "nn.depth_to_space",
    num_inputs=1,
    type_rule=_depth_to_space_type,
    compute=with_attrs(topi.depth_to_space, "block_size", "mode"),
    pattern=OpPattern.INJECTIVE,
    reference=lambda attrs, x: ref_transform.depth_to_space(x, attrs["block_size"], attrs["mode"]),
    precision=Precision.FOLLOW,
    rearranges=True,
    attributes={"block_size": attr.integer(), "mode": attr.text("DCR")},
)


def depth_to_space(data: Expr, block_size: int, mode: str = "DCR") -> Call:
    """[N, C, H, W] to [N, C/b², H·b, W·b]; the channel is (row, column, depth), or (depth, row, column) for CRD."""
    return call("nn.depth_to_space", data, block_size=block_size, mode=mode)


def _space_to_depth_type(types: Types, attrs: Attrs) -> Type:
    data, b = tensor(types[0]), attrs["block_size"]
    require(data.ndim == 4, "data [N, C, H, W] is needed")
    n, c, h, w = data.shape
    require(divides(h, b) and divides(w, b), f"the size {h}x{w} does not divide into blocks of {b}x{b}")
    return TensorType((n, c * b * b, h // b, w // b), data.dtype)


register(
    "nn.space_to_depth",
    num_inputs=1,
    type_rule=_space_to_depth_type,
    compute=with_attrs(topi.space_to_depth, "block_size"),
    pattern=OpPattern.INJECTIVE,
    reference=lambda attrs, x: ref_transform.space_to_depth(x, attrs["block_size"]),
    precision=Precision.FOLLOW,
    rearranges=True,
    attributes={"block_size": attr.integer()},
)


def space_to_depth(data: Expr, block_size: int) -> Call:
    """The inverse of `depth_to_space` in DCR mode."""
    return call("nn.space_to_depth", data, block_size=block_size)
