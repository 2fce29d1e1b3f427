"""Operators that move elements without computing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tilewright import topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr, Tuple
from tilewright.relay.ir.registry import OpPattern, Precision, register
from tilewright.relay.ir.type import Dim, TensorType, TupleType, Type
from tilewright.relay.op import equal_sizes, following, layout_rules, view_rules
from tilewright.relay.op.common import (
    Types,
    at_most,
    broadcast_shapes,
    call,
    check_axis,
    divides,
    require,
    require_same_dtype,
    same_dim,
    same_dims,
    tensor,
    tuple_of_tensors,
    with_attrs,
)
from tilewright.relay.op.reshape_codes import resolved_shape
from tilewright.support.dtype import DType
from tilewright.topi.layout import transform_shape
from tilewright.topi.reference import transform as ref
from tilewright.topi.reference.layout import layout_transform as layout_reference
from tilewright.topi.shapes import equal, slice_bounds

INJECTIVE = OpPattern.INJECTIVE


# ------------------------------------------------------------------------------------------------------- shapes
def _reshape_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    wanted = resolved_shape(data.shape, attrs["newshape"])
    if wanted.count(-1) == 1:
        known = math.prod([s for s in wanted if s != -1])
        wanted[wanted.index(-1)] = 0 if known == 0 else _what_is_left(data, wanted, known)
    fits = equal(math.prod(wanted), data.size)
    require(not any(isinstance(s, int) and s < 0 for s in wanted), f"the shape {wanted} has a negative size")
    require(fits, f"{data.size} elements of shape {data.shape} do not fill the shape {attrs['newshape']}")
    return TensorType(wanted, data.dtype)


def _what_is_left(data: TensorType, wanted: Sequence[Dim], known: Dim) -> Dim:
    """The size that -1 stands for: what both shapes have is left out, so that a symbolic quotient stays simple."""
    if data.is_static and isinstance(known, int):
        return data.size // known
    rest = [dim for dim in wanted if not (isinstance(dim, int) and dim == -1)]
    own = []
    for dim in data.shape:
        same = [i for i, other in enumerate(rest) if other is dim or (isinstance(dim, int) and other == dim)]
        if same:
            del rest[same[0]]
        else:
            own.append(dim)
    size, divisor = math.prod(own), math.prod(rest)
    return size if isinstance(divisor, int) and divisor == 1 else size // divisor


register(
    "reshape",
    num_inputs=1,
    type_rule=_reshape_type,
    compute=lambda _attrs, inputs, out: [topi.reshape(inputs[0], tensor(out).shape)],
    pattern=INJECTIVE,
    reference=lambda attrs, x: x.reshape(resolved_shape(x.shape, attrs["newshape"])),
    precision=Precision.FOLLOW,
    rearranges=True,
    picks=True,
    identity_on_same_type=True,
    view=view_rules.whole,
    equal_sizes=equal_sizes.of_reshape,
    attrs_class="ReshapeAttrs",
    attributes={"newshape": attr.integers()},
)


def reshape(data: Expr, newshape: int | Sequence[int]) -> Call:
    """`data` with its elements in row-major order under another shape.

    One size may be -1, "what is left". 0 keeps the input's next size (and is 0 where the input has no elements), -2
    keeps all that are left of it, -3 multiplies its next two; -4, a, b divides its next one into a and b, of which one
    may be -1.
    """
    return call("reshape", data, newshape=(newshape,) if isinstance(newshape, int) else newshape)


def _transpose_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    axes = attrs["axes"] or tuple(reversed(range(data.ndim)))
    order = [check_axis(a, data.ndim) for a in axes]
    require(sorted(order) == list(range(data.ndim)), f"axes {axes} are not a permutation of {data.ndim} dimensions")
    return TensorType([data.shape[a] for a in order], data.dtype)


register(
    "transpose",
    num_inputs=1,
    type_rule=_transpose_type,
    compute=with_attrs(topi.transpose, "axes"),
    pattern=INJECTIVE,
    reference=lambda attrs, x: x.transpose(attrs["axes"] or None),
    precision=Precision.FOLLOW,
    rearranges=True,
    picks=True,
    follows=following.transposed,
    attrs_class="TransposeAttrs",
    attributes={"axes": attr.optional(attr.integers())},
)


def transpose(data: Expr, axes: Sequence[int] | None = None) -> Call:
    """Dimension d of the result is dimension axes[d] of `data`; reversed by default."""
    return call("transpose", data, axes=axes)


def _layout_transform_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    return TensorType(transform_shape(data.shape, attrs["src_layout"], attrs["dst_layout"]), data.dtype)


register(
    "layout_transform",
    num_inputs=1,
    type_rule=_layout_transform_type,
    compute=with_attrs(topi.layout_transform, "src_layout", "dst_layout"),
    pattern=INJECTIVE,
    reference=lambda attrs, x: layout_reference(x, attrs["src_layout"], attrs["dst_layout"]),
    precision=Precision.FOLLOW,
    attrs_class="LayoutTransformAttrs",
    attributes={"src_layout": attr.text(), "dst_layout": attr.text()},
)


def layout_transform(data: Expr, src_layout: str, dst_layout: str) -> Call:
    """`data` rearranged between layouts such as ``"NCHW"`` and ``"NCHW16c"``."""
    return call("layout_transform", data, src_layout=src_layout, dst_layout=dst_layout)


def _squeeze_axes(data: TensorType, attrs: Attrs) -> list[int]:
    axis = attrs["axis"]
    if axis is None:
        return [d for d, s in enumerate(data.shape) if s == 1]
    axes = [check_axis(a, data.ndim) for a in ((axis,) if isinstance(axis, int) else axis)]
    require(all(same_dim(data.shape[a], 1) for a in axes), f"axis {axis} of shape {data.shape} is not of size 1")
    return axes


def _squeeze_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    axes = _squeeze_axes(data, attrs)
    return TensorType([s for d, s in enumerate(data.shape) if d not in axes], data.dtype)


register(
    "squeeze",
    num_inputs=1,
    type_rule=_squeeze_type,
    compute=with_attrs(topi.squeeze, "axis"),
    pattern=INJECTIVE,
    reference=lambda attrs, x: np.squeeze(x, attrs["axis"]),
    precision=Precision.FOLLOW,
    rearranges=True,
    picks=True,
    identity_on_same_type=True,
    view=view_rules.whole,
    follows=following.squeezed,
    attrs_class="SqueezeAttrs",
    attributes={"axis": attr.axes(None)},
)


def squeeze(data: Expr, axis: int | Sequence[int] | None = None) -> Call:
    """`data` without the dimensions `axis` of size 1 (all such dimensions by default)."""
    return call("squeeze", data, axis=axis)


def _expand_dims_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    at = check_axis(attrs["axis"], data.ndim + 1)
    return TensorType((*data.shape[:at], *[1] * attrs["num_newaxis"], *data.shape[at:]), data.dtype)


def _expand_dims_reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    at = attrs["axis"] if attrs["axis"] >= 0 else attrs["axis"] + x.ndim + 1
    return x.reshape((*x.shape[:at], *[1] * attrs["num_newaxis"], *x.shape[at:]))


register(
    "expand_dims",
    num_inputs=1,
    type_rule=_expand_dims_type,
    compute=with_attrs(topi.expand_dims, "axis", "num_newaxis"),
    pattern=INJECTIVE,
    reference=_expand_dims_reference,
    precision=Precision.FOLLOW,
    rearranges=True,
    picks=True,
    identity_on_same_type=True,
    view=view_rules.whole,
    attrs_class="ExpandDimsAttrs",
    attributes={"axis": attr.integer(), "num_newaxis": attr.integer(1)},
)


def expand_dims(data: Expr, axis: int, num_newaxis: int = 1) -> Call:
    """`data` with `num_newaxis` dimensions of size 1 put in before `axis`."""
    return call("expand_dims", data, axis=axis, num_newaxis=num_newaxis)


def _broadcast_to_type(types: Types, attrs: Attrs) -> Type:
    data, shape = tensor(types[0]), attrs["shape"]
    fits = same_dims(broadcast_shapes(data.shape, shape), shape)
    require(fits, f"the shape {data.shape} does not broadcast to {shape}")
    return TensorType(shape, data.dtype)


register(
    "broadcast_to",
    num_inputs=1,
    type_rule=_broadcast_to_type,
    compute=with_attrs(topi.broadcast_to, "shape"),
    pattern=OpPattern.BROADCAST,
    reference=lambda attrs, x: np.asarray(np.broadcast_to(x, attrs["shape"]), order="C"),
    equal_sizes=equal_sizes.of_broadcast_to,
    precision=Precision.FOLLOW,
    identity_on_same_type=True,
    attributes={"shape": attr.integers()},
)


def broadcast_to(data: Expr, shape: Sequence[int]) -> Call:
    """`data` repeated along its axes of size 1, and along new leading axes, to `shape`."""
    return call("broadcast_to", data, shape=shape)


# ----------------------------------------------------------------------------------------------- joins and cuts
def _concatenate_type(types: Types, attrs: Attrs) -> Type:
    parts = tuple_of_tensors(types[0])
    require_same_dtype(*parts)
    at = check_axis(attrs["axis"], parts[0].ndim)
    rest = [(*t.shape[:at], *t.shape[at + 1 :]) for t in parts]
    require(all(same_dims(rest[0], other) for other in rest), f"the parts differ beside axis {attrs['axis']}")
    total = sum(t.shape[at] for t in parts)
    return TensorType((*parts[0].shape[:at], total, *parts[0].shape[at + 1 :]), parts[0].dtype)


register(
    "concatenate",
    num_inputs=1,
    type_rule=_concatenate_type,
    compute=lambda attrs, inputs, _out: [topi.concatenate(inputs, attrs["axis"])],
    pattern=INJECTIVE,
    reference=lambda attrs, *parts: np.concatenate(parts, attrs["axis"]),
    layout=layout_rules.follow_concatenate,
    precision=Precision.FOLLOW,
    costly=True,
    joins=True,
    follows=following.joined,
    attrs_class="ConcatenateAttrs",
    attributes={"axis": attr.integer(0)},
)


def concatenate(data: Expr | Sequence[Expr], axis: int = 0) -> Call:
    """The tensors of a tuple one after another along `axis`."""
    return call("concatenate", data if isinstance(data, Expr) else Tuple(data), axis=axis)


def _stack_type(types: Types, attrs: Attrs) -> Type:
    parts = tuple_of_tensors(types[0])
    require(all(same_dims(parts[0].shape, part.shape) for part in parts), "all parts must have the same shape")
    require_same_dtype(*parts)
    at = check_axis(attrs["axis"], parts[0].ndim + 1)
    return TensorType((*parts[0].shape[:at], len(parts), *parts[0].shape[at:]), parts[0].dtype)


register(
    "stack",
    num_inputs=1,
    type_rule=_stack_type,
    compute=lambda attrs, inputs, _out: [topi.stack(inputs, attrs["axis"])],
    pattern=INJECTIVE,
    reference=lambda attrs, *parts: np.stack(parts, attrs["axis"]),
    precision=Precision.FOLLOW,
    attrs_class="StackAttrs",
    attributes={"axis": attr.integer(0)},
)


def stack(data: Tuple | Sequence[Expr], axis: int = 0) -> Call:
    """The tensors of a tuple as slices along a new `axis`."""
    return call("stack", data if isinstance(data, Expr) else Tuple(data), axis=axis)


def _split_type(types: Types, attrs: Attrs) -> Type:
    data, where = tensor(types[0]), attrs["indices_or_sections"]
    at = check_axis(attrs["axis"], data.ndim)
    size = data.shape[at]
    if isinstance(where, int):
        require(where > 0 and divides(size, where), f"{size} elements do not divide into {where} equal sections")
        part = TensorType((*data.shape[:at], size // where, *data.shape[at + 1 :]), data.dtype)
        return TupleType([part] * where)
    edges = [0, *where, size]
    require(all(at_most(a, b) for a, b in pairwise(edges)), f"the indices {where} do not rise from 0 to {size}")
    sizes = [b - a for a, b in pairwise(edges)]
    return TupleType([TensorType((*data.shape[:at], s, *data.shape[at + 1 :]), data.dtype) for s in sizes])


register(
    "split",
    num_inputs=1,
    type_rule=_split_type,
    compute=lambda attrs, inputs, _out: topi.split(inputs[0], attrs["indices_or_sections"], attrs["axis"]),
    pattern=INJECTIVE,
    reference=lambda attrs, x: tuple(
        np.asarray(part, order="C") for part in np.split(x, attrs["indices_or_sections"], attrs["axis"])
    ),
    layout=layout_rules.follow_split,
    follows=following.parted,
    precision=Precision.FOLLOW,
    view=view_rules.split_offsets,
    attrs_class="SplitAttrs",
    attributes={"indices_or_sections": attr.integers_or_one(), "axis": attr.integer(0)},
)


def split(data: Expr, indices_or_sections: int | Sequence[int], axis: int = 0) -> Call:
    """`data` cut along `axis` into equal sections or at the given indices; the result is a tuple."""
    return call("split", data, indices_or_sections=indices_or_sections, axis=axis)


def _strided_slice_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    axes = attrs["axes"]
    for a in axes if axes is not None else range(len(attrs["begin"])):
        check_axis(a, data.ndim)
    require(0 not in (attrs["strides"] or ()), "a stride must not be 0")
    bounds = slice_bounds(data.shape, attrs["begin"], attrs["end"], attrs["strides"], axes)
    return TensorType([count for _, _, count in bounds], data.dtype)


register(
    "strided_slice",
    num_inputs=1,
    type_rule=_strided_slice_type,
    compute=with_attrs(topi.strided_slice, "begin", "end", "strides", "axes"),
    pattern=INJECTIVE,
    reference=lambda attrs, x: ref.strided_slice(x, attrs["begin"], attrs["end"], attrs["strides"], attrs["axes"]),
    layout=layout_rules.follow_strided_slice,
    follows=following.sliced,
    precision=Precision.FOLLOW,
    picks=True,
    view=view_rules.slice_offset,
    attributes={
        "begin": attr.integers(),
        "end": attr.integers(),
        "strides": attr.optional(attr.integers()),
        "axes": attr.optional(attr.integers()),
    },
)


def strided_slice(
    data: Expr,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> Call:
    """Python slicing along `axes` (the leading ones by default)."""
    return call("strided_slice", data, begin=begin, end=end, strides=strides, axes=axes)


# ---------------------------------------------------------------------------------------------------- repetition
def _tile_type(types: Types, attrs: Attrs) -> Type:
    data, reps = tensor(types[0]), attrs["reps"]
    rank = max(data.ndim, len(reps))
    shape = (*[1] * (rank - data.ndim), *data.shape)
    times = (*[1] * (rank - len(reps)), *reps)
    return TensorType([s * r for s, r in zip(shape, times)], data.dtype)


register(
    "tile",
    num_inputs=1,
    type_rule=_tile_type,
    compute=with_attrs(topi.tile, "reps"),
    pattern=INJECTIVE,
    reference=lambda attrs, x: np.tile(x, attrs["reps"]),
    precision=Precision.FOLLOW,
    identity_on_same_type=True,
    attributes={"reps": attr.integers()},
)


def tile(data: Expr, reps: Sequence[int]) -> Call:
    """`data` repeated as a whole, reps[d] times along dimension d (aligned at the last)."""
    return call("tile", data, reps=reps)


def _repeat_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    at = check_axis(attrs["axis"], data.ndim)
    return TensorType([s * attrs["repeats"] if d == at else s for d, s in enumerate(data.shape)], data.dtype)


register(
    "repeat",
    num_inputs=1,
    type_rule=_repeat_type,
    compute=with_attrs(topi.repeat, "repeats", "axis"),
    pattern=INJECTIVE,
    reference=lambda attrs, x: np.repeat(x, attrs["repeats"], attrs["axis"]),
    precision=Precision.FOLLOW,
    identity_on_same_type=True,
    attributes={"repeats": attr.integer(), "axis": attr.integer(0)},
)


def repeat(data: Expr, repeats: int, axis: int = 0) -> Call:
    """Each slice of `data` along `axis` repeated `repeats` times."""
    return call("repeat", data, repeats=repeats, axis=axis)


def _axis_checked(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    check_axis(attrs["axis"], data.ndim)
    return data


register(
    "reverse",
    num_inputs=1,
    type_rule=_axis_checked,
    compute=with_attrs(topi.reverse, "axis"),
    pattern=INJECTIVE,
    reference=lambda attrs, x: np.asarray(np.flip(x, attrs["axis"]), order="C"),
    precision=Precision.FOLLOW,
    rearranges=True,
    attributes={"axis": attr.integer(0)},
)


def reverse(data: Expr, axis: int = 0) -> Call:
    """`data` with its slices along `axis` in the opposite order."""
    return call("reverse", data, axis=axis)


def _cumsum_reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    axis = attrs["axis"]
    work = np.float64 if DType(str(x.dtype)).is_float else x.dtype
    source = (np.flip(x, axis) if attrs["reverse"] else x).astype(work)
    total = np.cumsum(source, axis, dtype=source.dtype)
    if attrs["exclusive"] and total.shape[axis]:  # moved on rather than subtracted, which would make NaN of infinities
        total = np.roll(total, 1, axis)
        np.moveaxis(total, axis, 0)[0] = 0
    return np.asarray(np.flip(total, axis) if attrs["reverse"] else total, order="C").astype(x.dtype)


register(
    "cumsum",
    num_inputs=1,
    type_rule=_axis_checked,
    compute=with_attrs(topi.cumsum, "axis", "exclusive", "reverse"),
    pattern=OpPattern.OPAQUE,
    reference=_cumsum_reference,
    precision=Precision.NEVER,
    attributes={"axis": attr.integer(0), "exclusive": attr.flag(False), "reverse": attr.flag(False)},
)


def cumsum(data: Expr, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Call:
    """Running sums along `axis`, without the element itself if `exclusive`, from the end if `reverse`."""
    return call("cumsum", data, axis=axis, exclusive=exclusive, reverse=reverse)
