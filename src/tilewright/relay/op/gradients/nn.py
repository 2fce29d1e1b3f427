"""Gradients of matrix products, convolutions and normalizations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.relay.ir.expr import Call, Expr, TupleGetItem
from tilewright.relay.ir.registry import set_gradient
from tilewright.relay.op import nn, reduce, tensor, transform
from tilewright.relay.op.gradients.common import number, shape_of
from tilewright.topi.layout import transform_shape


# ---------------------------------------------------------------------------------------------- matrix products
def _dense_gradient(call: Call, g: Expr) -> list[Expr | None]:
    data, weight = call.args
    units, depth = shape_of(call)[-1], shape_of(data)[-1]
    packed = call.attrs["weight_layout"] if len(shape_of(weight)) > 2 else "NC"
    of_weight = nn.matmul(reshape_rows(g, units), reshape_rows(data, depth), transpose_a=True)
    return [
        nn.dense(g, transform.transpose(_to_layout(weight, packed, packed[:2]))),
        _to_layout(of_weight, packed[:2], packed),
    ]


def reshape_rows(data: Expr, columns: Any) -> Expr:
    """`data` [..., columns] as a matrix."""
    return transform.reshape(data, (-1, columns))


def _product_gradient(build: Any) -> Any:
    """The gradient of `build(a, b, transpose_a, transpose_b)`, a product of matrices or of stacks of them."""

    def gradient(call: Call, g: Expr) -> list[Expr | None]:
        (a, b), ta, tb = call.args, call.attrs["transpose_a"], call.attrs["transpose_b"]
        da = build(b, g, transpose_a=tb, transpose_b=True) if ta else build(g, b, transpose_a=False, transpose_b=not tb)
        db = build(g, a, transpose_a=True, transpose_b=ta) if tb else build(a, g, transpose_a=not ta, transpose_b=False)
        return [_one_stack(da, a, call), _one_stack(db, b, call)]

    return gradient


def _one_stack(gradient: Expr, operand: Expr, call: Call) -> Expr:
    """Summed over the stack where the operand is one matrix for all of it."""
    own = shape_of(operand)
    if len(own) == 2 or own[0] == shape_of(call)[0]:
        return gradient
    return reduce.sum(gradient, axis=0, keepdims=True)


set_gradient("nn.dense", _dense_gradient)
set_gradient("nn.matmul", _product_gradient(nn.matmul))
set_gradient("nn.batch_matmul", _product_gradient(nn.batch_matmul))


# ------------------------------------------------------------------------------------------------- convolutions
def _conv2d_gradient(call: Call, g: Expr) -> list[Expr | None]:
    """Of the data: the transposed convolution; of the kernel: `nn.conv2d_backward_weight`. Any layout goes by NCHW."""
    attrs = call.attrs
    layout = attrs["out_layout"] or attrs["data_layout"]
    data = _to_layout(call.args[0], attrs["data_layout"], "NCHW")
    kernel = _to_layout(call.args[1], attrs["kernel_layout"], "OIHW")
    g = _to_layout(g, layout, "NCHW")
    _, _, height, width = transform_shape(shape_of(call.args[0]), attrs["data_layout"], "NCHW")
    filters = transform_shape(shape_of(call.args[1]), attrs["kernel_layout"], "OIHW")
    kh, kw = filters[2:]
    _, _, oh, ow = transform_shape(shape_of(call), layout, "NCHW")
    window = {name: attrs[name] for name in ("strides", "padding", "dilation", "groups")}
    pads, strides, dilation = attrs["padding"], attrs["strides"], attrs["dilation"]
    reached = [
        (o - 1) * strides[i] + (k - 1) * dilation[i] + 1 - pads[i] - pads[i + 2]
        for i, (o, k) in enumerate(((oh, kh), (ow, kw)))
    ]
    of_data = _reaching(g, kernel, filters, (height, width), reached, window)
    of_kernel = nn.conv2d_backward_weight(g, data, kernel_size=(kh, kw), **window)
    return [
        _to_layout(of_data, "NCHW", attrs["data_layout"]),
        _to_layout(of_kernel, "OIHW", attrs["kernel_layout"]),
    ]


def _reaching(
    g: Expr, kernel: Expr, shape: Sequence[Any], sizes: Sequence[Any], reached: Sequence[Any], window: Mapping[str, Any]
) -> Expr:
    """The transposed convolution, by a kernel of `shape` [O, C/groups, KH, KW], with planes of `sizes`; without output
    padding they would be as `reached`.

    Without strides it is a plain convolution by the turned kernel, which has more templates. Output padding is less
    than the stride. Kernels take a constant one: where symbolic sizes do not determine it, the largest is taken and the
    result is cut.
    """
    extra = [size - known for size, known in zip(sizes, reached)]
    pads, groups = window["padding"], window["groups"]
    span = [(size - 1) * step for size, step in zip(shape[2:], window["dilation"])]
    around = [span[side % 2] - pad for side, pad in enumerate(pads)]
    if all(step == 1 for step in window["strides"]) and all(isinstance(n, int) and n >= 0 for n in around):
        plain = {"padding": around, "dilation": window["dilation"], "groups": groups}
        return nn.conv2d(g, _turned(kernel, shape, groups), **plain)
    wide = [one if isinstance(one, int) else step - 1 for one, step in zip(extra, window["strides"])]
    layout = "IOHW"
    if groups == 1:  # the order that blocked layouts are made of
        kernel, layout = transform.transpose(kernel, (1, 0, 2, 3)), "OIHW"
    made = nn.conv2d_transpose(g, kernel, output_padding=wide, kernel_layout=layout, **window)
    if wide == extra:
        return made
    return transform.strided_slice(made, begin=(0, 0), end=tuple(sizes), strides=(1, 1), axes=(2, 3))


def _turned(kernel: Expr, shape: Sequence[Any], groups: int) -> Expr:
    """The kernel of `shape` [O, C/groups, KH, KW] as that of the way back: [C, O/groups, KH, KW], turned by 180°."""
    outputs, inputs, *taps = shape
    parts = transform.reshape(kernel, (groups, outputs // groups, inputs, *taps))
    swapped = transform.reshape(
        transform.transpose(parts, (0, 2, 1, 3, 4)), (groups * inputs, outputs // groups, *taps)
    )
    for axis, size in zip((2, 3), taps):
        if size != 1:
            swapped = transform.reverse(swapped, axis=axis)
    return swapped


def _to_layout(data: Expr, source: str, target: str) -> Expr:
    return data if source == target else transform.layout_transform(data, source, target)


def _conv2d_transpose_gradient(call: Call, g: Expr) -> list[Expr | None]:
    """A transposed convolution is linear in the data, by the transpose of a convolution's matrix."""
    data, kernel = call.args
    attrs = call.attrs
    window = {name: attrs[name] for name in ("strides", "padding", "dilation", "groups")}
    layout, order = attrs["data_layout"], attrs["kernel_layout"]
    data, g = _to_layout(data, layout, "NCHW"), _to_layout(g, layout, "NCHW")
    kernel_size = tuple(transform_shape(shape_of(kernel), order, "IOHW")[2:])
    of_kernel = nn.conv2d_backward_weight(data, g, kernel_size=kernel_size, **window)
    of_data = nn.conv2d(g, _to_layout(kernel, order, "IOHW"), **window)
    return [_to_layout(of_data, "NCHW", layout), _to_layout(of_kernel, "IOHW", order)]


def _backward_weight_gradient(call: Call, g: Expr) -> list[Expr | None]:
    """The kernel's gradient is linear in the output's gradient and in the data."""
    out_gradient, data = call.args
    attrs = call.attrs
    window = {name: attrs[name] for name in ("strides", "padding", "dilation", "groups")}
    sizes, reached = shape_of(data)[2:], []
    for i, (o, k) in enumerate(zip(shape_of(out_gradient)[2:], attrs["kernel_size"])):
        span = (o - 1) * attrs["strides"][i] + (k - 1) * attrs["dilation"][i] + 1
        reached.append(span - attrs["padding"][i] - attrs["padding"][i + 2])
    return [nn.conv2d(data, g, **window), _reaching(out_gradient, g, shape_of(call), sizes, reached, window)]


set_gradient("nn.conv2d", _conv2d_gradient)
set_gradient("nn.conv2d_transpose", _conv2d_transpose_gradient)
set_gradient("nn.conv2d_backward_weight", _backward_weight_gradient)


# ------------------------------------------------------------------------------------------------ normalizations
def _softmax_gradient(call: Call, g: Expr) -> list[Expr | None]:
    axis = call.attrs["axis"]
    return [(g - reduce.sum(g * call, axis=axis, keepdims=True)) * call]


def _log_softmax_gradient(call: Call, g: Expr) -> list[Expr | None]:
    return [g - tensor.exp(call) * reduce.sum(g, axis=call.attrs["axis"], keepdims=True)]


set_gradient("nn.softmax", _softmax_gradient)
set_gradient("nn.log_softmax", _log_softmax_gradient)


def _along(vector: Expr, axis: int, ndim: int) -> Expr:
    """A vector shaped to broadcast along `axis` of `ndim` dimensions."""
    return transform.reshape(vector, [-1 if d == axis else 1 for d in range(ndim)])


def _normalized(x: Expr, axes: Sequence[int], epsilon: float, like: Expr) -> tuple[Expr, Expr]:
    """(`x` with mean 0 and variance 1 over `axes`, 1 / its standard deviation)."""
    centred = x - reduce.mean(x, axis=axes, keepdims=True)
    variance = reduce.mean(centred * centred, axis=axes, keepdims=True)
    inverse = tensor.rsqrt(variance + number(epsilon, like))
    return centred * inverse, inverse


def _through_normalization(g: Expr, unit: Expr, inverse: Expr, axes: Sequence[int]) -> Expr:
    """The gradient of x, where `g` is that of the normalized `unit`."""
    mean = reduce.mean(g, axis=axes, keepdims=True)
    along = reduce.mean(g * unit, axis=axes, keepdims=True)
    return (g - mean - unit * along) * inverse


def _norm_gradient(call: Call, g: Expr, groups: int, axis: int, reduced: Sequence[int]) -> list[Expr | None]:
    """Normalization over `reduced` axes, of `groups` parts of `axis` each for itself (0: `axis` is not divided)."""
    data, gamma, _ = call.args
    shape, epsilon = shape_of(data), call.attrs["epsilon"]
    scaled = g * _along(gamma, axis, len(shape))
    if groups:
        split = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
        unit, inverse = _normalized(transform.reshape(data, split), reduced, epsilon, data)
        of_data = _through_normalization(transform.reshape(scaled, split), unit, inverse, reduced)
        unit, of_data = transform.reshape(unit, shape), transform.reshape(of_data, shape)
    else:
        unit, inverse = _normalized(data, reduced, epsilon, data)
        of_data = _through_normalization(scaled, unit, inverse, reduced)
    others = [d for d in range(len(shape)) if d != axis]
    return [of_data, reduce.sum(g * unit, axis=others), reduce.sum(g, axis=others)]


def _layer_norm_gradient(call: Call, g: Expr) -> list[Expr | None]:
    axis = call.attrs["axis"] % len(shape_of(call.args[0]))
    return _norm_gradient(call, g, 0, axis, (axis,))


def _instance_norm_gradient(call: Call, g: Expr) -> list[Expr | None]:
    ndim = len(shape_of(call.args[0]))
    axis = call.attrs["axis"] % ndim
    return _norm_gradient(call, g, 0, axis, [d for d in range(1, ndim) if d != axis])


def _group_norm_gradient(call: Call, g: Expr) -> list[Expr | None]:
    ndim = len(shape_of(call.args[0]))
    axis = call.attrs["axis"] % ndim
    return _norm_gradient(call, g, call.attrs["num_groups"], axis, [d for d in range(1, ndim + 1) if d != axis])


def _batch_norm_gradient(call: Call, g: Expr) -> list[Expr | None]:
    data, gamma, _, mean, variance = call.args
    out, of_mean, of_variance = (TupleGetItem(g, i) for i in range(3))
    ndim = len(shape_of(data))
    axis = call.attrs["axis"] % ndim
    others = [d for d in range(ndim) if d != axis]
    inverse = tensor.rsqrt(variance + number(call.attrs["epsilon"], data))
    centred = data - _along(mean, axis, ndim)
    total = reduce.sum(out, axis=others)
    along = reduce.sum(out * centred, axis=others)
    return [
        out * _along(gamma * inverse, axis, ndim),
        along * inverse,
        total,
        of_mean - total * gamma * inverse,
        of_variance - along * gamma * number(0.5, data) * inverse * inverse * inverse,
    ]


def _lrn_gradient(call: Call, g: Expr) -> list[Expr | None]:
    x, attrs = call.args[0], call.attrs
    shape, size = shape_of(x), attrs["size"]
    axis, before = attrs["axis"] % len(shape), (size - 1) // 2
    share = number(attrs["alpha"] / size, x)
    scale = _window_sum(x * x, axis, size, before, shape) * share + number(attrs["bias"], x)
    power = tensor.power(scale, number(-attrs["beta"], x))
    spread = _window_sum(g * x * power / scale, axis, size, size - 1 - before, shape)
    return [g * power - x * spread * share * number(2 * attrs["beta"], x)]


def _window_sum(x: Expr, axis: int, size: int, before: int, shape: Sequence[int]) -> Expr:
    """Sums of `size` neighbours along `axis`, from `before` elements before the element itself."""
    widths = [(before, size - 1 - before) if d == axis else (0, 0) for d in range(len(shape))]
    padded = nn.pad(x, widths)
    parts = [transform.strided_slice(padded, begin=(k,), end=(k + shape[axis],), axes=(axis,)) for k in range(size)]
    total: Expr = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


set_gradient("nn.layer_norm", _layer_norm_gradient)
set_gradient("nn.instance_norm", _instance_norm_gradient)
set_gradient("nn.group_norm", _group_norm_gradient)
set_gradient("nn.batch_norm", _batch_norm_gradient)
set_gradient("nn.lrn", _lrn_gradient)
