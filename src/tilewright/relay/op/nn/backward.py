"""Operators that the gradients of others need: of convolution kernels and of pooling; and `nn.dilate`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr, const
from tilewright.relay.ir.registry import OpPattern, TypeRule, get, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import transform, work
from tilewright.relay.op.common import (
    Types,
    call,
    dims,
    require,
    require_same_dtype,
    same_dim,
    same_types,
    tensor,
    tensors,
    window_attrs,
)
from tilewright.relay.op.composite import register_composite, type_of_expansion
from tilewright.relay.op.nn.convolution import conv2d, conv2d_transpose
from tilewright.relay.op.nn.pooling import pool_attrs
from tilewright.topi.layout import transform_shape
from tilewright.topi.reference import backward as ref
from tilewright.topi.util import pair


# ------------------------------------------------------------------------------------------- conv2d_backward_weight
def _backward_weight_expansion(args: Sequence[Expr], attrs: Attrs) -> Expr:
    """A convolution of the data, images as channels, with the gradient as its kernel; strides and dilation swap."""
    gradient, data = args
    groups, (kh, kw) = attrs["groups"], attrs["kernel_size"]
    n, c, h, w = dims(data)
    outputs = dims(gradient)[1]
    if groups > 1:
        parts = transform.reshape(data, (n, groups, c // groups, h, w))
        images = transform.reshape(transform.transpose(parts, (2, 1, 0, 3, 4)), (c // groups, groups * n, h, w))
    else:
        images = transform.transpose(data, (1, 0, 2, 3))
    product = conv2d(
        images,
        transform.transpose(gradient, (1, 0, 2, 3)),
        strides=attrs["dilation"],
        padding=attrs["padding"],
        dilation=attrs["strides"],
        groups=groups,
    )
    whole = transform.strided_slice(product, begin=(0, 0), end=(kh, kw), axes=(2, 3))
    kernel = transform.transpose(whole, (1, 0, 2, 3))
    return transform.reshape(kernel, (outputs, c // groups, kh, kw))


def _backward_weight_type(types: Types, attrs: Attrs) -> Type:
    gradient, data = tensors(types)
    require_same_dtype(gradient, data)
    fits = gradient.ndim == data.ndim == 4 and same_dim(gradient.shape[0], data.shape[0])
    require(fits, f"a gradient and data [N, C, H, W] are needed, not {gradient.shape} and {data.shape}")
    return type_of_expansion(_backward_weight_expansion, types, attrs)


register_composite(
    "nn.conv2d_backward_weight",
    num_inputs=2,
    type_rule=_backward_weight_type,
    expansion=_backward_weight_expansion,
    reference=lambda attrs, gradient, data: ref.conv2d_backward_weight(gradient, data, attrs),
    attributes={"kernel_size": attr.per_axis(2), **attr.window(2), "groups": attr.integer(1)},
)


def conv2d_backward_weight(
    grad: Expr,
    data: Expr,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    groups: int = 1,
) -> Call:
    """The gradient of the kernel [O, C/groups, KH, KW] of `conv2d(data, kernel)`, from that of its result."""
    return call(
        "nn.conv2d_backward_weight",
        grad,
        data,
        kernel_size=pair(kernel_size),
        **window_attrs(strides, padding, dilation),
        groups=groups,
    )


register(
    "nn.contrib_conv2d_backward_weight",
    num_inputs=2,
    type_rule=_backward_weight_type,
    compute=lambda attrs, inputs, _out: [topi.nn.conv2d_backward_weight(inputs[0], inputs[1], **dict(attrs))],
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, gradient, data: ref.conv2d_backward_weight(gradient, data, attrs),
    flops=work.weight_gradient,
    attributes={
        "kernel_size": attr.per_axis(2),
        **attr.window(2),
        "groups": attr.integer(1),
        "images": attr.integer(1),
    },
)


def contrib_conv2d_backward_weight(
    grad: Expr,
    data: Expr,
    kernel_size: int | tuple[int, int],
    strides: int | tuple[int, int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    images: int = 1,
) -> Call:
    """`conv2d_backward_weight` as one kernel, which adds up `images` of the batch in one of its parts."""
    return call(
        "nn.contrib_conv2d_backward_weight",
        grad,
        data,
        kernel_size=pair(kernel_size),
        **window_attrs(strides, padding, dilation),
        groups=groups,
        images=images,
    )


# --------------------------------------------------------------------------------------------------------- pooling
def _pool_grad_type(kind: str) -> TypeRule:
    def rule(types: Types, attrs: Attrs) -> Type:
        gradient, data = tensors(types)
        wanted = get(f"nn.{kind}_pool2d").type_rule([data], attrs)
        require(
            same_types(gradient, tensor(wanted)),
            f"the gradient must be {wanted}, the type of the pooling's result, not {gradient}",
        )
        return data

    return rule


register(
    "nn.max_pool2d_grad",
    num_inputs=2,
    type_rule=_pool_grad_type("max"),
    compute=lambda attrs, inputs, _out: [topi.nn.max_pool2d_grad(inputs[0], inputs[1], attrs)],
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, gradient, data: ref.pool2d_grad(gradient, data, "max", attrs),
    attributes={
        "pool_size": attr.per_axis(2, (1, 1)),
        **attr.window(2),
        "layout": attr.text("NCHW"),
        "ceil_mode": attr.flag(False),
    },
)


def _indices_type(types: Types, attrs: Attrs) -> Type:
    data, largest = tensors(types)
    window = {**attrs, "layout": "NCHW"}
    wanted = get("nn.max_pool2d").type_rule([data], Attrs(window))
    require(same_types(largest, tensor(wanted)), f"the maxima must be {wanted}, not {largest}")
    (_, wide), dilation = attrs["pool_size"], attrs["dilation"]
    require(
        (wide - 1) * dilation[1] < data.shape[3] * dilation[0], f"windows {wide} wide do not fit rows of {data.shape}"
    )
    return TensorType(largest.shape, "int64")


def _indices_reference(attrs: Attrs, data: np.ndarray, largest: np.ndarray) -> np.ndarray:
    return ref.max_pool2d_indices(data, largest, attrs)


register(
    "nn.max_pool2d_indices",
    num_inputs=2,
    type_rule=_indices_type,
    compute=lambda attrs, inputs, _out: [topi.nn.max_pool2d_indices(inputs[0], inputs[1], **dict(attrs))],
    pattern=OpPattern.OPAQUE,
    reference=_indices_reference,
    attributes={"pool_size": attr.per_axis(2), **attr.window(2), "ceil_mode": attr.flag(False)},
)


def _grad_at_type(types: Types, attrs: Attrs) -> Type:
    gradient, index = tensors(types)
    same = gradient.ndim == 4 and same_types(index, TensorType(gradient.shape, "int64"))
    require(all(step == 1 for step in attrs["dilation"]), "windows with dilation are not supported")
    require(same, f"an index of int64 for each gradient [N, C, OH, OW] is needed, not {index} and {gradient}")
    return TensorType((*gradient.shape[:2], *attrs["sizes"]), gradient.dtype)


register(
    "nn.max_pool2d_grad_at",
    num_inputs=2,
    type_rule=_grad_at_type,
    compute=lambda attrs, inputs, _out: [topi.nn.max_pool2d_grad_at(inputs[0], inputs[1], attrs)],
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, gradient, index: ref.max_pool2d_grad_at(gradient, index, attrs["sizes"]),
    attributes={"pool_size": attr.per_axis(2), **attr.window(2), "sizes": attr.per_axis(2)},
)


def _avg_pool2d_grad_expansion(args: Sequence[Expr], attrs: Attrs) -> Expr:
    """Each window's gradient divided by its elements, given to all of them by a transposed convolution with ones."""
    gradient, data = args
    dtype = tensor(data.checked_type).dtype
    _, channels, *sizes = transform_shape(dims(data), attrs["layout"], "NCHW")
    out = transform_shape(dims(gradient), attrs["layout"], "NCHW")[2:]
    kernel, padding = attrs["pool_size"], list(attrs["padding"])
    counts = ref.window_counts(sizes, out, attrs)
    plain = gradient if attrs["layout"] == "NCHW" else transform.layout_transform(gradient, attrs["layout"], "NCHW")
    shares = plain / const(counts.astype(dtype.numpy))
    extra = [0, 0]
    for i in range(2):
        span = (out[i] - 1) * attrs["strides"][i] + (kernel[i] - 1) * attrs["dilation"][i] + 1
        missing = sizes[i] - (span - padding[i] - padding[i + 2])
        extra[i], padding[i + 2] = max(0, missing), padding[i + 2] + max(0, -missing)
    result = conv2d_transpose(
        shares,
        const(np.ones((channels, 1, *kernel), dtype.numpy)),
        strides=attrs["strides"],
        padding=padding,
        dilation=attrs["dilation"],
        groups=channels,
        output_padding=extra,
    )
    return result if attrs["layout"] == "NCHW" else transform.layout_transform(result, "NCHW", attrs["layout"])


register_composite(
    "nn.avg_pool2d_grad",
    num_inputs=2,
    type_rule=_pool_grad_type("avg"),
    expansion=_avg_pool2d_grad_expansion,
    reference=lambda attrs, gradient, data: ref.pool2d_grad(gradient, data, "avg", attrs),
    attributes={
        "pool_size": attr.per_axis(2, (1, 1)),
        **attr.window(2),
        "layout": attr.text("NCHW"),
        "ceil_mode": attr.flag(False),
        "count_include_pad": attr.flag(False),
    },
)


def max_pool2d_grad(
    out_grad: Expr,
    data: Expr,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    layout: str = "NCHW",
    ceil_mode: bool = False,
) -> Call:
    """The gradient of the data of `max_pool2d`: that of each window goes to its first largest element."""
    return call(
        "nn.max_pool2d_grad",
        out_grad,
        data,
        **pool_attrs(pool_size, strides, padding, dilation),
        layout=layout,
        ceil_mode=ceil_mode,
    )


def max_pool2d_indices(
    data: Expr,
    largest: Expr,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> Call:
    """The index within its plane, int64, of the first largest element of each window of `data` [N, C, H, W].

    `largest` is what `max_pool2d` makes of the same windows."""
    window = pool_attrs(pool_size, strides, padding, dilation)
    return call("nn.max_pool2d_indices", data, largest, **window, ceil_mode=ceil_mode)


def max_pool2d_grad_at(
    out_grad: Expr,
    index: Expr,
    sizes: Sequence[int],
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
) -> Call:
    """The gradient of the data [N, C, *sizes] of `max_pool2d`, by the indices of `max_pool2d_indices`.

    Indices outside their window get nothing."""
    window = pool_attrs(pool_size, strides, padding, (1, 1))
    return call("nn.max_pool2d_grad_at", out_grad, index, **window, sizes=tuple(sizes))


def avg_pool2d_grad(
    out_grad: Expr,
    data: Expr,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    layout: str = "NCHW",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """The gradient of the data of `avg_pool2d`: that of each window is divided among the elements it averaged."""
    return call(
        "nn.avg_pool2d_grad",
        out_grad,
        data,
        **pool_attrs(pool_size, strides, padding, dilation),
        layout=layout,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


# ---------------------------------------------------------------------------------------------------------- dilate
def _dilate_type(types: Types, attrs: Attrs) -> Type:
    data, strides = tensor(types[0]), attrs["strides"]
    require(len(strides) == data.ndim, f"{len(strides)} strides for {data.ndim} dimensions")
    require(all(step >= 1 for step in strides), f"the strides {strides} must be positive")
    return TensorType([(size - 1) * step + 1 for size, step in zip(data.shape, strides)], data.dtype)


def _dilate_reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    shape = [(size - 1) * step + 1 for size, step in zip(x.shape, attrs["strides"])]
    out = np.full(shape, attrs["dilation_value"], x.dtype)
    out[tuple(slice(None, None, step) for step in attrs["strides"])] = x
    return out


register(
    "nn.dilate",
    num_inputs=1,
    type_rule=_dilate_type,
    compute=lambda attrs, inputs, _out: [topi.nn.dilate(inputs[0], attrs["strides"], attrs["dilation_value"])],
    pattern=OpPattern.INJECTIVE,
    reference=_dilate_reference,
    attributes={"strides": attr.integers(), "dilation_value": attr.number(0.0)},
)


def dilate(data: Expr, strides: Sequence[int], dilation_value: float = 0.0) -> Call:
    """`data` with strides[d] - 1 elements of `dilation_value` put between neighbours along dimension d."""
    return call("nn.dilate", data, strides=strides, dilation_value=dilation_value)
