"""Convolutions and pooling along one or three axes, written in those along two.

One axis is two of which one has extent 1. Three are two whose images are the depths: a convolution reads its depth taps
as further channels; pooling goes over the planes first, then over the depths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr, const
from tilewright.relay.ir.registry import Precision, TypeRule
from tilewright.relay.ir.type import Type
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op import tensor, transform
from tilewright.relay.op.common import Types, call, dims, known_size, require, tensors, window_attrs
from tilewright.relay.op.composite import register_composite, type_of_expansion
from tilewright.relay.op.following import with_layout
from tilewright.relay.op.nn import pooling
from tilewright.relay.op.nn.activation import pad
from tilewright.relay.op.nn.backward import dilate
from tilewright.relay.op.nn.convolution import conv2d, conv2d_transpose
from tilewright.relay.op.operand_types import convolution_operands, transposed_operands
from tilewright.support.named import named
from tilewright.topi.reference import spatial as ref
from tilewright.topi.util import per_axis

SPATIAL = {1: "W", 3: "DHW"}


def _plain(data: Expr, layout: str, wanted: str) -> Expr:
    return data if layout == wanted else transform.layout_transform(data, layout, wanted)


def _with_layouts(build: Callable[[Expr, Expr, Attrs], Expr], axes: int, kernel: str) -> Any:
    """`build` on the plain layouts NC… and `kernel`, with transforms around it where the attributes name others."""

    def expansion(args: Sequence[Expr], attrs: Attrs) -> Expr:
        data = _plain(args[0], attrs["data_layout"], "NC" + SPATIAL[axes])
        weight = _plain(args[1], attrs["kernel_layout"], kernel)
        out = build(data, weight, attrs)
        return _plain(out, "NC" + SPATIAL[axes], attrs["out_layout"] or attrs["data_layout"])

    return expansion


def _checked(expansion: Any, axes: int) -> TypeRule:
    def rule(types: Types, attrs: Attrs) -> Type:
        data, kernel = tensors(types)
        fits = data.ndim == kernel.ndim == axes + 2
        require(fits, f"data and kernel of {axes + 2} dimensions are needed, not {data.shape} and {kernel.shape}")
        return type_of_expansion(expansion, types, attrs)

    return rule


# ------------------------------------------------------------------------------------------------------------ 1 axis
def _on_rows(convolve: Callable[..., Expr], data: Expr, weight: Expr, attrs: Attrs, **more: Any) -> Expr:
    """A convolution or transposed convolution along one axis: one of images that are one row high."""
    before, after = attrs["padding"]
    image = convolve(
        transform.expand_dims(data, 2),
        transform.expand_dims(weight, 2),
        strides=(1, *attrs["strides"]),
        padding=(0, before, 0, after),
        dilation=(1, *attrs["dilation"]),
        groups=attrs["groups"],
        out_dtype=attrs["out_dtype"],
        **more,
    )
    return transform.squeeze(image, 2)


def _conv1d(data: Expr, weight: Expr, attrs: Attrs) -> Expr:
    return _on_rows(conv2d, data, weight, attrs)


def _conv1d_transpose(data: Expr, weight: Expr, attrs: Attrs) -> Expr:
    return _on_rows(conv2d_transpose, data, weight, attrs, output_padding=(0, *attrs["output_padding"]))


# ------------------------------------------------------------------------------------------------------------ 3 axes
def _conv3d(data: Expr, weight: Expr, attrs: Attrs) -> Expr:
    """A convolution of planes [N · OD, groups · KD · C/groups, H, W]: the depth taps are channels."""
    n, c, depth, h, w = dims(data)
    o, icg, kd, kh, kw = dims(weight)
    kd = known_size(kd, "the depth of the kernel")
    groups, (sd, sh, sw), (dd, dh, dw) = attrs["groups"], attrs["strides"], attrs["dilation"]
    front, top, left, back, bottom, right = attrs["padding"]
    out_depth = (depth + front + back - (kd - 1) * dd - 1) // sd + 1
    require(out_depth > 0, f"the kernel is deeper than the padded data, {depth} + {front} + {back}")
    if front or back:
        data = pad(data, ((0, 0), (0, 0), (front, back), (0, 0), (0, 0)))
    taps = [
        transform.strided_slice(data, (k * dd,), (k * dd + (out_depth - 1) * sd + 1,), (sd,), axes=(2,))
        for k in range(kd)
    ]
    stacked = transform.reshape(transform.stack(taps, 0), (kd, n, groups, c // groups, out_depth, h, w))
    planes = transform.reshape(transform.transpose(stacked, (1, 4, 2, 0, 3, 5, 6)), (n * out_depth, kd * c, h, w))
    kernel = transform.reshape(transform.transpose(weight, (0, 2, 1, 3, 4)), (o, kd * icg, kh, kw))
    out = conv2d(planes, kernel, (sh, sw), (top, left, bottom, right), (dh, dw), groups, out_dtype=attrs["out_dtype"])
    (oh, ow) = [
        (size + a + b - (k - 1) * d - 1) // s + 1
        for size, a, b, k, d, s in ((h, top, bottom, kh, dh, sh), (w, left, right, kw, dw, sw))
    ]
    return transform.transpose(transform.reshape(out, (n, out_depth, o, oh, ow)), (0, 2, 1, 3, 4))


def _conv3d_transpose(data: Expr, weight: Expr, attrs: Attrs) -> Expr:
    """A transposed convolution of planes for each depth tap, put at its depths and added."""
    n, c, depth, h, w = dims(data)
    _, og, kd, kh, kw = dims(weight)
    kd = known_size(kd, "the depth of the kernel")
    groups, (sd, sh, sw), (dd, dh, dw) = attrs["groups"], attrs["strides"], attrs["dilation"]
    front, top, left, back, bottom, right = attrs["padding"]
    extra_depth, extra_h, extra_w = attrs["output_padding"]
    planes = transform.reshape(transform.transpose(data, (0, 2, 1, 3, 4)), (n * depth, c, h, w))
    spread = (depth - 1) * sd + 1
    whole = spread + (kd - 1) * dd + extra_depth
    total: Expr | None = None
    for k in range(kd):
        tap = transform.reshape(transform.strided_slice(weight, (k,), (k + 1,), axes=(2,)), (c, og, kh, kw))
        part = conv2d_transpose(
            planes, tap, (sh, sw), (top, left, bottom, right), (dh, dw), groups,
            output_padding=(extra_h, extra_w), out_dtype=attrs["out_dtype"],
        )  # fmt: skip
        _, o, oh, ow = dims(part)
        part = transform.transpose(transform.reshape(part, (n, depth, o, oh, ow)), (0, 2, 1, 3, 4))
        part = dilate(part, (1, 1, sd, 1, 1)) if sd > 1 else part
        part = pad(part, ((0, 0), (0, 0), (k * dd, whole - spread - k * dd), (0, 0), (0, 0)))
        total = part if total is None else total + part
    assert total is not None
    return transform.strided_slice(total, (front,), (whole - back,), axes=(2,))


_CONVOLUTIONS = {
    "nn.conv1d": (1, "OIW", _conv1d, False),
    "nn.conv1d_transpose": (1, "IOW", _conv1d_transpose, True),
    "nn.conv3d": (3, "OIDHW", _conv3d, False),
    "nn.conv3d_transpose": (3, "IODHW", _conv3d_transpose, True),
}


def _convolution_schema(axes: int, kernel: str, transposed: bool) -> attr.Schema:
    extra = {"output_padding": attr.per_axis(axes, (0,) * axes)} if transposed else {}
    return {
        **attr.window(axes),
        "groups": attr.integer(1),
        "channels": attr.optional(attr.integer()),
        "kernel_size": attr.optional(attr.per_axis(axes)),
        "data_layout": attr.text("NC" + SPATIAL[axes]),
        "kernel_layout": attr.text(kernel),
        "out_layout": attr.text(""),
        **extra,
        "out_dtype": attr.dtype(""),
    }


def _register_convolution(name: str) -> None:
    axes, kernel, build, transposed = _CONVOLUTIONS[name]
    expansion = _with_layouts(build, axes, kernel)
    register_composite(
        name,
        num_inputs=2,
        expansion=expansion,
        type_rule=_checked(expansion, axes),
        reference=lambda attrs, data, weight: ref.convolution(data, weight, attrs, SPATIAL[axes], transposed),
        attributes=_convolution_schema(axes, kernel, transposed),
        precision=Precision.ALWAYS,
        expected_operands=transposed_operands if transposed else convolution_operands,
        spatial_axes=0 if transposed else axes,
        quantized="" if transposed else f"qnn.conv{axes}d",
        attrs_class="" if transposed else f"Conv{axes}DAttrs",
    )


for _name in _CONVOLUTIONS:
    _register_convolution(_name)


def _convolution_builder(axes: int) -> Callable[..., Call]:
    plain, kernel = "NC" + SPATIAL[axes], "OI" + SPATIAL[axes]

    def build(
        data: Expr,
        weight: Expr,
        strides: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        channels: int | None = None,
        kernel_size: int | Sequence[int] | None = None,
        data_layout: str = plain,
        kernel_layout: str = kernel,
        out_layout: str = "",
        out_dtype: str = "",
    ) -> Call:
        return call(
            f"nn.conv{axes}d",
            data,
            weight,
            **window_attrs(strides, padding, dilation, axes),
            channels=channels,
            kernel_size=None if kernel_size is None else per_axis(kernel_size, axes),
            data_layout=data_layout or plain,
            kernel_layout=kernel_layout or kernel,
            out_layout=out_layout,
            groups=groups,
            out_dtype=out_dtype,
        )

    doc = f"""{axes}-D convolution of {plain} data with a kernel {kernel}, I = C/groups; padding (before …, after …).

    `channels` and `kernel_size` repeat what the kernel's shape says.
    """
    return named(build, f"conv{axes}d", doc)


def _transposed_builder(axes: int) -> Callable[..., Call]:
    plain, kernel = "NC" + SPATIAL[axes], "IO" + SPATIAL[axes]

    def build(
        data: Expr,
        weight: Expr,
        strides: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        channels: int | None = None,
        kernel_size: int | Sequence[int] | None = None,
        data_layout: str = plain,
        kernel_layout: str = kernel,
        out_layout: str = "",
        output_padding: int | Sequence[int] = 0,
        out_dtype: str = "",
    ) -> Call:
        return call(
            f"nn.conv{axes}d_transpose",
            data,
            weight,
            **window_attrs(strides, padding, dilation, axes),
            channels=channels,
            kernel_size=None if kernel_size is None else per_axis(kernel_size, axes),
            data_layout=data_layout or plain,
            kernel_layout=kernel_layout or kernel,
            out_layout=out_layout,
            groups=groups,
            output_padding=per_axis(output_padding, axes),
            out_dtype=out_dtype,
        )

    doc = f"Transposed {axes}-D convolution of {plain} data with a kernel {kernel}, O per group; `padding` is cut off."
    return named(build, f"conv{axes}d_transpose", doc)


conv1d, conv1d_transpose = _convolution_builder(1), _transposed_builder(1)
conv3d, conv3d_transpose = _convolution_builder(3), _transposed_builder(3)


# ----------------------------------------------------------------------------------------------------------- pooling
def _window(attrs: Attrs, which: slice, axes: int, one: int) -> dict[str, Any]:
    """The pooling attributes of some axes as those of two; `one` axes of extent 1 come first or last."""
    padding = attrs["padding"]
    before, after = padding[:axes][which], padding[axes:][which]
    lead, tail = ((1,), ()) if one < 0 else ((), (1,) * one)
    zero, end = tuple(0 for _ in lead), tuple(0 for _ in tail)
    found = {name: (*lead, *attrs[name][which], *tail) for name in ("pool_size", "strides", "dilation")}
    found["padding"] = (*zero, *before, *end, *zero, *after, *end)
    names = ("ceil_mode", "count_include_pad")
    return found | {name: attrs[name] for name in names if name in attrs}


def _whole_means(data: Expr, volume: int, pooled: Callable[[Expr], Expr]) -> Expr:
    """`pooled(data)`, means over planes and then over their depth, truncated once where `data` are whole numbers.

    Windows have `volume` elements at most: a mean that is not whole is 1 / volume away from the next whole number.
    """
    dtype = tensor_type_of(data).dtype
    if dtype.is_float:
        return pooled(data)
    means = pooled(tensor.cast(data, "float64"))
    return tensor.cast(means + tensor.sign(means) * const(0.5 / volume, "float64"), str(dtype))


#: Elements of windows whose size is not known.
_LARGE_WINDOW = 1 << 20


def _pool(kind: str, axes: int) -> Any:
    build = pooling.max_pool2d if kind == "max" else pooling.avg_pool2d

    def expansion(args: Sequence[Expr], attrs: Attrs) -> Expr:
        data = _plain(args[0], attrs["layout"], "NC" + SPATIAL[axes])
        n, c, *sizes = dims(data)
        out: Expr
        if axes == 1:
            out = transform.squeeze(build(transform.expand_dims(data, 2), **_window(attrs, slice(0, 1), 1, -1)), 2)
        else:

            def pooled(volume: Expr) -> Expr:
                flat = transform.reshape(volume, (n, c * sizes[0], *sizes[1:]))
                planes = build(flat, **_window(attrs, slice(1, 3), 3, 0))
                oh, ow = dims(planes)[2:]
                deep = build(transform.reshape(planes, (n, c, sizes[0], oh * ow)), **_window(attrs, slice(0, 1), 3, 1))
                return transform.reshape(deep, (n, c, dims(deep)[2], oh, ow))

            out = pooled(data) if kind == "max" else _whole_means(data, math.prod(attrs["pool_size"]), pooled)
        return _plain(out, "NC" + SPATIAL[axes], attrs["layout"])

    return expansion


def _adaptive(kind: str, axes: int) -> Any:
    build = pooling.adaptive_max_pool2d if kind == "max" else pooling.adaptive_avg_pool2d

    def expansion(args: Sequence[Expr], attrs: Attrs) -> Expr:
        data = _plain(args[0], attrs["layout"], "NC" + SPATIAL[axes])
        n, c, *sizes = dims(data)
        size = attrs["output_size"]
        out: Expr
        if axes == 1:
            out = transform.squeeze(build(transform.expand_dims(data, 2), (1, size[0])), 2)
        else:

            def pooled(volume: Expr) -> Expr:
                planes = build(transform.reshape(volume, (n, c * sizes[0], *sizes[1:])), size[1:])
                flat = transform.reshape(planes, (n, c, sizes[0], size[1] * size[2]))
                return transform.reshape(build(flat, (size[0], size[1] * size[2])), (n, c, *size))

            known = all(isinstance(one, int) for one in sizes)
            volume = math.prod([one // part + 2 for one, part in zip(sizes, size)]) if known else _LARGE_WINDOW
            out = pooled(data) if kind == "max" else _whole_means(data, volume, pooled)
        return _plain(out, "NC" + SPATIAL[axes], attrs["layout"])

    return expansion


def _register_pools(kind: str, axes: int) -> None:
    more = {"count_include_pad": attr.flag(False)} if kind == "avg" else {}
    register_composite(
        f"nn.{kind}_pool{axes}d",
        num_inputs=1,
        expansion=_pool(kind, axes),
        reference=lambda attrs, x: ref.pool(x, kind, attrs, SPATIAL[axes]),
        attributes=pooling.pool_schema(axes, "NC" + SPATIAL[axes], **more),
        precision=Precision.FOLLOW,
        spatial_axes=axes,
        follows=with_layout,
    )
    register_composite(
        f"nn.adaptive_{kind}_pool{axes}d",
        num_inputs=1,
        expansion=_adaptive(kind, axes),
        reference=lambda attrs, x: ref.adaptive_pool(x, kind, attrs["output_size"], attrs["layout"], SPATIAL[axes]),
        attributes={
            "output_size": attr.per_axis(axes, (1,) * axes),
            "layout": attr.text("NC" + SPATIAL[axes]),
        },
        precision=Precision.FOLLOW,
        spatial_axes=axes,
        follows=with_layout,
    )


def _pool_builders(kind: str, axes: int) -> tuple[Any, Any]:
    name, plain = f"{kind}_pool{axes}d", "NC" + SPATIAL[axes]

    def pool(
        data: Expr,
        pool_size: int | Sequence[int] = 1,
        strides: int | Sequence[int] = 1,
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        layout: str = plain,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> Call:
        more = {"count_include_pad": count_include_pad} if kind == "avg" else {}
        window = pooling.pool_attrs(pool_size, strides, padding, dilation, axes)
        return call(f"nn.{name}", data, **window, layout=layout, ceil_mode=ceil_mode, **more)

    def adaptive(data: Expr, output_size: int | Sequence[int] = 1, layout: str = plain) -> Call:
        return call(f"nn.adaptive_{name}", data, output_size=per_axis(output_size, axes), layout=layout)

    what = "largest element" if kind == "max" else "mean"
    return (
        named(pool, name, f"The {what} of each window of {plain} data; padding (before …, after …)."),
        named(adaptive, f"adaptive_{name}", f"The {what} of each of `output_size` nearly equal parts of {plain} data."),
    )


for _kind in ("max", "avg"):
    for _axes in (1, 3):
        _register_pools(_kind, _axes)

max_pool1d, adaptive_max_pool1d = _pool_builders("max", 1)
max_pool3d, adaptive_max_pool3d = _pool_builders("max", 3)
avg_pool1d, adaptive_avg_pool1d = _pool_builders("avg", 1)
avg_pool3d, adaptive_avg_pool3d = _pool_builders("avg", 3)
