"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, Precision, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import work
from tilewright.relay.op.common import Types, call, require, tensor, window_attrs
from tilewright.relay.op.following import with_layout
from tilewright.relay.op.layout_rules import follow_layout_attr
from tilewright.topi.layout import transform_shape
from tilewright.topi.reference import pooling as ref
from tilewright.topi.shapes import pool_output
from tilewright.topi.util import pair, per_axis

_WINDOW = ("pool_size", "strides", "padding", "dilation", "ceil_mode", "layout")


def _pool2d_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    n, c, *sizes = transform_shape(data.shape, attrs["layout"], "NCHW")
    pads, kernel, strides, dilation = (attrs[k] for k in ("padding", "pool_size", "strides", "dilation"))
    out = [
        pool_output(sizes[i], kernel[i], strides[i], pads[i], pads[i + 2], dilation[i], attrs["ceil_mode"])
        for i in range(2)
    ]
    for extent in out:
        require(extent > 0, f"the window {kernel} is larger than the padded data {tuple(sizes)}, padding {pads}")
    return TensorType(transform_shape((n, c, *out), "NCHW", attrs["layout"]), data.dtype)


def pool_schema(axes: int, layout: str, **more: attr.Attribute) -> attr.Schema:
    """The attributes of pooling along `axes` axes."""
    size = {"pool_size": attr.per_axis(axes)}
    return {**size, **attr.window(axes), "layout": attr.text(layout), "ceil_mode": attr.flag(False), **more}


def _register_pool(kind: str, **more: attr.Attribute) -> None:
    register(
        f"nn.{kind}_pool2d",
        num_inputs=1,
        type_rule=_pool2d_type,
        compute=lambda attrs, inputs, _out: [
            topi.nn.pool2d(inputs[0], kind, **{name: attrs[name] for name in (*_WINDOW, *more)})
        ],
        pattern=OpPattern.COMM_REDUCE,
        reference=lambda attrs, x: ref.pool2d(x, kind, attrs, attrs["layout"]),
        layout=follow_layout_attr,
        attributes=pool_schema(2, "NCHW", **more),
        flops=work.window,
        precision=Precision.FOLLOW,
        homogeneous=True,
        picks=kind == "max",
        joins=kind == "avg",
        attrs_class=f"{kind.title()}Pool2DAttrs",
        spatial_axes=2,
        follows=with_layout,
    )


_register_pool("max")
_register_pool("avg", count_include_pad=attr.flag(False))


def pool_attrs(
    pool_size: int | Sequence[int],
    strides: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    axes: int = 2,
) -> dict[str, Any]:
    """Attributes of pooling along `axes` axes, as operators hold them; see `window_attrs`."""
    return {"pool_size": per_axis(pool_size, axes), **window_attrs(strides, padding, dilation, axes)}


def max_pool2d(
    data: Expr,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    dilation: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    layout: str = "NCHW",
    ceil_mode: bool = False,
) -> Call:
    """The largest element of each window; padding never wins."""
    attrs = pool_attrs(pool_size, strides, padding, dilation)
    return call("nn.max_pool2d", data, **attrs, layout=layout, ceil_mode=ceil_mode)


def avg_pool2d(
    data: Expr,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    dilation: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    layout: str = "NCHW",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """The mean of each window, over the elements inside the data or, with `count_include_pad`, the padding too."""
    attrs = pool_attrs(pool_size, strides, padding, dilation)
    return call("nn.avg_pool2d", data, **attrs, layout=layout, ceil_mode=ceil_mode, count_include_pad=count_include_pad)


def _resized_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    n, c, _, _ = transform_shape(data.shape, attrs["layout"], "NCHW")
    size = attrs.get("output_size", (1, 1))
    return TensorType(transform_shape((n, c, *size), "NCHW", attrs["layout"]), data.dtype)


def _register_whole(kind: str) -> None:
    register(
        f"nn.global_{kind}_pool2d",
        num_inputs=1,
        type_rule=_resized_type,
        compute=lambda attrs, inputs, _out: [topi.nn.global_pool2d(inputs[0], kind, attrs["layout"])],
        pattern=OpPattern.COMM_REDUCE,
        reference=lambda attrs, x: ref.adaptive_pool2d(x, kind, (1, 1), attrs["layout"]),
        layout=follow_layout_attr,
        attributes={"layout": attr.text("NCHW")},
        attrs_class="GlobalPool2DAttrs",
        precision=Precision.FOLLOW,
        spatial_axes=2,
        joins=kind == "avg",
        follows=with_layout,
    )
    register(
        f"nn.adaptive_{kind}_pool2d",
        num_inputs=1,
        type_rule=_resized_type,
        compute=lambda attrs, inputs, _out: [
            topi.nn.adaptive_pool2d(inputs[0], kind, attrs["output_size"], attrs["layout"])
        ],
        pattern=OpPattern.COMM_REDUCE,
        reference=lambda attrs, x: ref.adaptive_pool2d(x, kind, attrs["output_size"], attrs["layout"]),
        layout=follow_layout_attr,
        attributes={"output_size": attr.per_axis(2, (1, 1)), "layout": attr.text("NCHW")},
        precision=Precision.FOLLOW,
        spatial_axes=2,
        joins=kind == "avg",
        follows=with_layout,
    )


_register_whole("max")
_register_whole("avg")


def global_max_pool2d(data: Expr, layout: str = "NCHW") -> Call:
    """The largest element over H and W, kept as dimensions of size 1."""
    return call("nn.global_max_pool2d", data, layout=layout)


def global_avg_pool2d(data: Expr, layout: str = "NCHW") -> Call:
    """The mean over H and W, kept as dimensions of size 1."""
    return call("nn.global_avg_pool2d", data, layout=layout)


def adaptive_max_pool2d(data: Expr, output_size: int | Sequence[int] = (1, 1), layout: str = "NCHW") -> Call:
    """The largest elements of `output_size` nearly equal parts of H and W."""
    return call("nn.adaptive_max_pool2d", data, output_size=pair(output_size), layout=layout)


def adaptive_avg_pool2d(data: Expr, output_size: int | Sequence[int] = (1, 1), layout: str = "NCHW") -> Call:
    """The means of `output_size` nearly equal parts of H and W."""
    return call("nn.adaptive_avg_pool2d", data, output_size=pair(output_size), layout=layout)
