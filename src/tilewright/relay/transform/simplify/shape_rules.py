"""Simplification rules about shapes and the order of elements: calls that move nothing or merge with their neighbours.

Each rule takes a call of an operator that `rules_of` returns it for and returns a simpler expression of the same type,
or None. The tests check every rule on random data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.relay.ir.attributes import complete
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple, merge_spans
from tilewright.relay.ir.registry import Op, OpPattern, get
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.op.common import broadcast_shapes
from tilewright.relay.op.following import order_of
from tilewright.relay.op.view_rules import whole
from tilewright.relay.op.views import is_reshape
from tilewright.relay.transform.simplify.make import is_call, make, reshape
from tilewright.relay.transform.simplify.rule_index import RuleIndex
from tilewright.topi.layout import parse_layout

Rule = Callable[[Call], Expr | None]
rule_of: RuleIndex[Rule] = RuleIndex()


def same_shape_is_input(call: Call) -> Expr | None:
    """A reshape, squeeze, cast, tile, resize, … whose result has the type of its input moves nothing -> the input."""
    data = call.args[0]
    return data if type_of(data) == type_of(call) else None


@rule_of("nn.pad")
def pad_of_nothing(call: Call) -> Expr | None:
    """nn.pad by zero elements everywhere -> the input."""
    return None if any(map(_widens, call.attrs.pad_width)) else call.args[0]


def _widens(pair: tuple[Any, Any]) -> bool:
    """True if a padding adds or drops elements, or may: of symbolic dimensions it is an expression."""
    return any(not isinstance(width, int) or width != 0 for width in pair)


@rule_of("strided_slice")
def whole_slice(call: Call) -> Expr | None:
    """A slice of every element in order -> the input."""
    forward = all(stride > 0 for stride in call.attrs.strides or ())
    return same_shape_is_input(call) if forward else None


def reshape_of_reshape(call: Call) -> Expr | None:
    """reshape(squeeze(x)) -> reshape(x)."""
    inner = call.args[0]
    if not isinstance(inner, Call) or not is_reshape(inner):
        return None
    return _reshaped(inner.args[0], call, merge_spans(inner, call))


def _reshaped(data: Expr, call: Call, span: str) -> Expr | None:
    """`data` in the shape of `call`; None where several of its sizes are unknown."""
    shape = [-1 if isinstance(size, AnyDim) else size for size in tensor_type_of(call).shape]
    return reshape(data, tuple(shape), span) if shape.count(-1) < 2 else None


def transpose_axes(call: Call) -> tuple[int, ...]:
    """The permutation of a transpose, counted from the front."""
    ndim = tensor_type_of(call.args[0]).ndim
    axes = call.attrs.axes or tuple(reversed(range(ndim)))
    return tuple([axis % ndim for axis in axes])


@rule_of("transpose")
def transpose_of_transpose(call: Call) -> Expr | None:
    """transpose(transpose(x, a), b) -> transpose(x, a[b])."""
    inner = call.args[0]
    if not is_call(inner, "transpose"):
        return None
    assert isinstance(inner, Call)
    first = transpose_axes(inner)
    combined = tuple([first[axis] for axis in transpose_axes(call)])
    return make("transpose", inner.args[0], axes=combined, span=merge_spans(inner, call))


@rule_of("transpose")
def transpose_is_reshape(call: Call) -> Expr | None:
    """A transpose that keeps the order of all axes longer than 1 -> reshape."""
    shape = tensor_type_of(call.args[0]).shape
    moved = [axis for axis in transpose_axes(call) if shape[axis] != 1]
    if moved != sorted(moved):
        return None
    return _reshaped(call.args[0], call, call.span)


def filled_like(call: Call) -> Expr | None:
    """zeros_like(x) -> zeros, which does not read x."""
    assert isinstance(call.op, Op)
    return _of_known_shape("ones" if call.op.fill else "zeros", (), call, dtype=str(tensor_type_of(call).dtype))


def _of_known_shape(name: str, args: tuple[Expr, ...], call: Call, **attrs: Any) -> Expr | None:
    """A value of the shape of `call` without an operand that has it; None where the shape is not known."""
    shape = tensor_type_of(call).shape
    if not all(isinstance(extent, int) for extent in shape):
        return None
    op = get(name)
    return Call(op, args, complete(name, op.attributes, {"shape": shape, **attrs}), call.span)


@rule_of("full_like")
def full_of_known_shape(call: Call) -> Expr | None:
    """full_like(x, value) -> full(value), which does not read x."""
    return _of_known_shape("full", call.args[1:], call, dtype=str(tensor_type_of(call).dtype))


@rule_of("broadcast_to_like")
def broadcast_to_known_shape(call: Call) -> Expr | None:
    """broadcast_to_like(x, y) -> broadcast_to(x), which does not read y."""
    return _of_known_shape("broadcast_to", call.args[:1], call)


@rule_of("collapse_sum_like")
def collapse_sum_to_known_shape(call: Call) -> Expr | None:
    """collapse_sum_like(x, y) -> collapse_sum_to(x), which does not read y."""
    return _of_known_shape("collapse_sum_to", call.args[:1], call)


@rule_of("reshape_like", "contrib_reverse_reshape")
def reshape_to_known_shape(call: Call) -> Expr | None:
    """reshape_like(x, y) -> reshape(x), which does not read y; a reshape with codes counted from the back too."""
    shape = tensor_type_of(call).shape
    return reshape(call.args[0], shape, span=call.span) if all(isinstance(s, int) for s in shape) else None


@rule_of("cast_like")
def cast_to_known_type(call: Call) -> Expr | None:
    """cast_like(x, y) -> cast(x), which does not read y."""
    return make("cast", call.args[0], dtype=str(tensor_type_of(call).dtype), span=call.span)


def operand_of_one_number(call: Call) -> Expr | None:
    """add(x, ones of no larger a shape) -> add(x, 1)."""
    made = tensor_type_of(call)
    for index, arg in enumerate(call.args):
        value, other = _number_everywhere(arg), tensor_type_of(call.args[1 - index])
        if value is not None and other.shape == made.shape and not isinstance(call.args[1 - index], Constant):
            number = Constant(np.asarray(value, tensor_type_of(arg).dtype.numpy))
            return Call(
                call.op, [number, call.args[1]] if index == 0 else [call.args[0], number], call.attrs, call.span
            )
    return None


def _number_everywhere(expr: Expr) -> Any:
    """The number that every element of a call of `zeros`, `ones` or `full` is; None for anything else."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return None
    if is_call(expr, "full"):
        return expr.args[0].data.reshape(()) if isinstance(expr.args[0], Constant) else None
    return expr.op.fill


@rule_of("layout_transform")
def layout_round_trip(call: Call) -> Expr | None:
    """layout_transform(layout_transform(x, A, B), B, C) -> layout_transform(x, A, C), or x if A is C."""
    inner = call.args[0]
    source, target = call.attrs.src_layout, call.attrs.dst_layout
    if is_call(inner, "layout_transform") and isinstance(inner, Call) and inner.attrs.dst_layout == source:
        if inner.attrs.src_layout == target:
            return inner.args[0]
        attrs = {"src_layout": inner.attrs.src_layout, "dst_layout": target}
        return make("layout_transform", inner.args[0], **attrs, span=merge_spans(inner, call))
    return call.args[0] if source == target else None


@rule_of("layout_transform")
def plain_layouts_are_transpose(call: Call) -> Expr | None:
    """layout_transform(x, "NCHW", "NHWC") -> transpose(x)."""
    source, target = call.attrs.src_layout, call.attrs.dst_layout
    if source == target or parse_layout(source).is_blocked or parse_layout(target).is_blocked:
        return None
    return make("transpose", call.args[0], axes=order_of(source, target), span=call.span)


@rule_of("concatenate")
def concatenate_one(call: Call) -> Expr | None:
    """concatenate((x,)) -> x."""
    parts = call.args[0]
    return parts.fields[0] if isinstance(parts, Tuple) and len(parts.fields) == 1 else None


def operand_needs_no_broadcast(call: Call) -> Expr | None:
    """add(x, broadcast_to(y, shape of x)) -> add(x, y): the operator broadcasts by itself."""
    for index, arg in enumerate(call.args):
        if not is_call(arg, "broadcast_to") or not isinstance(arg, Call):
            continue
        args = [*call.args[:index], arg.args[0], *call.args[index + 1 :]]
        shapes = [tensor_type_of(operand).shape for operand in args]
        if broadcast_shapes(*shapes) == tensor_type_of(call).shape:
            return Call(call.op, args, call.attrs, merge_spans(arg, call))
    return None


def elementwise_before_reshape(call: Call) -> Expr | None:
    """relu(reshape(x)) -> reshape(relu(x)), so that it can fuse with what computes x."""
    inner = call.args[0] if len(call.args) == 1 else None
    if not isinstance(inner, Call) or not is_reshape(inner):
        return None
    return reshape(make_like(call, inner.args[0]), tensor_type_of(call).shape, span=inner.span)


def reshape_before_pad(call: Call) -> Expr | None:
    """reshape(pad(x)) -> pad(reshape(x)) where the reshape only adds or drops axes of extent 1.

    A convolution behind the reshape can then take over the padding.
    """
    inner = call.args[0]
    if not isinstance(inner, Call) or not is_call(inner, "nn.pad"):
        return None
    padded, target = tensor_type_of(inner), tensor_type_of(call)
    matching = _matching_axes(padded.shape, target.shape)
    if matching is None or any(
        _widens(pair) for axis, pair in enumerate(inner.attrs.pad_width) if axis not in matching
    ):
        return None
    shape, widths = [1] * target.ndim, [(0, 0)] * target.ndim
    for axis, target_axis in matching.items():
        shape[target_axis] = tensor_type_of(inner.args[0]).shape[axis]
        widths[target_axis] = inner.attrs.pad_width[axis]
    attrs = inner.attrs.replace(pad_width=widths)
    source = reshape(inner.args[0], tuple(shape), span=call.span)
    return make("nn.pad", source, *inner.args[1:], span=inner.span, **attrs)


def _matching_axes(source: tuple[int, ...], target: tuple[int, ...]) -> dict[int, int] | None:
    """Axes longer than 1 of `source` -> where they are in `target`; None if the reshape regroups elements."""
    long_axes = [axis for axis, extent in enumerate(source) if extent != 1]
    target_axes = [axis for axis, extent in enumerate(target) if extent != 1]
    if [source[axis] for axis in long_axes] != [target[axis] for axis in target_axes]:
        return None
    return dict(zip(long_axes, target_axes, strict=True))


def make_like(call: Call, *args: Expr) -> Expr:
    """A call of the same operator with the same attributes on other arguments."""
    assert isinstance(call.op, Op)
    return make(call.op.name, *args, span=call.span, **call.attrs)


def binary_before_reshape(call: Call) -> Expr | None:
    """add(reshape(x), c) -> reshape(add(x, c')) where c is constant and c' is c under the shape of x.

    Holds where the reshape only adds or drops axes of extent 1 or c is one number; also for operands reshaped alike.
    """
    a, b = call.args
    if not is_reshape(a) or not isinstance(a, Call) or tensor_type_of(a).shape != tensor_type_of(call).shape:
        return None
    source = tensor_type_of(a.args[0])
    if is_reshape(b) and isinstance(b, Call) and tensor_type_of(b.args[0]).shape == source.shape:
        same = tensor_type_of(b).shape == tensor_type_of(a).shape
        other: Expr | None = b.args[0] if same else None
    elif isinstance(b, Constant):
        other = _constant_before_reshape(b, source, tensor_type_of(a))
    else:
        other = None
    if other is None:
        return None
    return reshape(make_like(call, a.args[0], other), tensor_type_of(call).shape, span=a.span)


def residual_before_reshape(call: Call) -> Expr | None:
    """add(reshape(nn.dense(x)), y) -> reshape(add(nn.dense(x), reshape(y))), so that the product's kernel adds y.

    PyTorch's graphs multiply matrices, and products get the axes of the batch behind them. Either operand may be the
    product; one that is not reshaped keeps its shape, and of two that are, the second is reshaped once more.
    """
    shape = tensor_type_of(call).shape
    if any(tensor_type_of(operand).shape != shape or isinstance(operand, Constant) for operand in call.args):
        return None
    for operand, other in (call.args, call.args[::-1]):
        if is_reshape(operand) and isinstance(operand, Call) and _is_product(operand.args[0]):
            if _is_product(other):
                return None
            inner = tensor_type_of(operand.args[0]).shape
            return reshape(make_like(call, *(reshape(arg, inner) for arg in call.args)), shape, span=operand.span)
    return None


def _is_product(value: Expr) -> bool:
    """True for nn.dense, also with what one kernel adds and multiplies behind it."""
    while (
        isinstance(value, Call) and value.args and isinstance(value.op, Op) and value.op.pattern <= OpPattern.BROADCAST
    ):
        value = value.args[0]
    return is_call(value, "nn.dense")


def _constant_before_reshape(constant: Constant, source: TensorType, target: TensorType) -> Constant | None:
    """`constant`, which broadcasts to `target`, as it broadcasts to `source`; None if the reshape regroups elements."""
    if constant.data.size == 1:
        return Constant(constant.data.reshape(()))
    matching = _matching_axes(source.shape, target.shape)
    if matching is None:
        return None
    full = (1,) * (target.ndim - constant.data.ndim) + constant.data.shape
    shape = [1] * source.ndim
    for axis, target_axis in matching.items():
        shape[axis] = full[target_axis]
    return Constant(constant.data.reshape(shape))


@rule_of("mean", "sum", "max", "min")
def keep_reduced_dims(call: Call) -> Expr | None:
    """mean(x, axis=[2, 3]) of four dimensions -> a reshape of the same with keepdims, which runs in any layout."""
    data = tensor_type_of(call.args[0])
    axis = call.attrs.axis
    if data.ndim != 4 or call.attrs.keepdims or call.attrs.exclude or not isinstance(axis, tuple):
        return None
    if sorted(a % 4 for a in axis) != [2, 3]:
        return None
    kept = make_like(Call(call.op, call.args, call.attrs.replace(keepdims=True), call.span), call.args[0])
    return reshape(kept, tensor_type_of(call).shape, span=call.span)


@rule_of("mean")
def spatial_mean_is_pool(call: Call) -> Expr | None:
    """mean(x, axis=[2, 3], keepdims=True) of four dimensions -> nn.global_avg_pool2d(x)."""
    data, axis = tensor_type_of(call.args[0]), call.attrs.axis
    if data.ndim != 4 or not data.dtype.is_float or not call.attrs.keepdims or call.attrs.exclude:
        return None
    if not isinstance(axis, tuple) or sorted(a % 4 for a in axis) != [2, 3]:
        return None
    return make("nn.global_avg_pool2d", call.args[0], layout="NCHW", span=call.span)


@rule_of("nn.conv2d")
def pad_into_window(call: Call) -> Expr | None:
    """conv2d(pad(x, zeros around H and W)) -> conv2d(x) with a larger padding."""
    inner = call.args[0]
    if not is_call(inner, "nn.pad") or not isinstance(inner, Call) or call.attrs.get("data_layout") != "NCHW":
        return None
    widths = inner.attrs.pad_width
    if inner.attrs.pad_mode != "constant" or not _is_zero(inner) or any(map(_widens, widths[:2])):
        return None
    if any(not isinstance(width, int) or width < 0 for pair in widths for width in pair):
        return None
    added = (widths[2][0], widths[3][0], widths[2][1], widths[3][1])
    padding = tuple([old + new for old, new in zip(_four(call.attrs.padding), added, strict=True)])
    args = [inner.args[0], *call.args[1:]]
    return Call(call.op, args, call.attrs.replace(padding=padding), merge_spans(inner, call))


@rule_of("nn.conv2d_transpose")
def transposed_pixel_is_dense(call: Call) -> Expr | None:
    """nn.conv2d_transpose of a single pixel -> nn.dense to all positions of the output: one product, no zeros in it."""
    data, kernel = call.args
    attrs = call.attrs
    one_pixel = attrs.data_layout == "NCHW" and tensor_type_of(data).shape[2:] == (1, 1)
    shifts = (*attrs.padding, *attrs.output_padding)  # of symbolic sizes they may be expressions
    plain = attrs.groups == 1 and all(isinstance(shift, int) and not shift for shift in shifts)
    plain = plain and set(attrs.dilation) == {1}
    if not (one_pixel and plain and isinstance(kernel, Constant) and attrs.kernel_layout == "IOHW"):
        return None
    batch, channels = tensor_type_of(data).shape[:2]
    result = tensor_type_of(call).shape
    if result[2:] != kernel.data.shape[2:]:
        return None
    weight = Constant(np.ascontiguousarray(kernel.data.reshape(channels, -1).T))
    units = weight.data.shape[0]
    product = make(
        "nn.dense", reshape(data, (batch, channels)), weight, units=units, out_dtype=attrs.out_dtype,
        weight_layout="NC", span=call.span,
    )  # fmt: skip
    return reshape(product, result, call.span)


@rule_of("nn.conv2d_transpose")
def transposed_kernel_output_first(call: Call) -> Expr | None:
    """nn.conv2d_transpose with a constant IOHW kernel -> the same with an OIHW kernel, as blocked kernels read it."""
    data, kernel = call.args
    if call.attrs.kernel_layout != "IOHW" or call.attrs.groups != 1 or not isinstance(kernel, Constant):
        return None
    turned = Constant(np.ascontiguousarray(kernel.data.transpose(1, 0, 2, 3)))
    return Call(call.op, (data, turned), call.attrs.replace(kernel_layout="OIHW"), call.span)


def _is_zero(pad: Call) -> bool:
    """True if the value that `pad` fills in is a constant 0; it is an attribute or the second argument."""
    if len(pad.args) > 1:
        value = pad.args[1]
        return isinstance(value, Constant) and not np.any(value.data)
    return bool(pad.attrs.pad_value == 0)


def _four(padding: int | tuple[int, ...]) -> tuple[int, ...]:
    """(top, left, bottom, right) from one, two or four numbers."""
    if isinstance(padding, int):
        return (padding,) * 4
    return padding * 2 if len(padding) == 2 else padding * 4 if len(padding) == 1 else padding


def rules_of(op: Op) -> tuple[Rule, ...]:
    """The rules about `op` alone, then those that hold by how it moves elements or broadcasts."""
    found: list[Rule] = [same_shape_is_input] if op.identity_on_same_type else []
    if op.view is whole:
        found += [reshape_of_reshape, reshape_before_pad]
    if op.fill is not None and op.num_inputs == 1:
        found.append(filled_like)
    found += rule_of.rules(op)
    if op.pattern is OpPattern.BROADCAST and op.num_inputs == 2 and not op.attributes:
        found += [binary_before_reshape, residual_before_reshape]
    if op.pattern is OpPattern.ELEMWISE:
        found.append(elementwise_before_reshape)
    if op.pattern is OpPattern.BROADCAST and op.num_inputs == 2:
        found.append(operand_of_one_number)
    if op.pattern is OpPattern.BROADCAST:
        found.append(operand_needs_no_broadcast)
    return tuple(found)
