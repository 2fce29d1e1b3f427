"""Resizing along one and three axes, written in that along two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.op import transform
from tilewright.relay.op.common import call, dims
from tilewright.relay.op.composite import register_composite
from tilewright.relay.op.following import with_layout
from tilewright.relay.op.image.resize import resize2d
from tilewright.topi.reference.layout import layout_transform
from tilewright.topi.reference.resize import resize2d as resize_reference

_RULES = ("method", "coordinate_transformation_mode", "rounding_method", "cubic_alpha", "cubic_exclude")


def _rules(attrs: Attrs) -> dict[str, Any]:
    return {name: attrs[name] for name in _RULES}


def _plain(data: Expr, layout: str, wanted: str) -> Expr:
    return data if layout == wanted else transform.layout_transform(data, layout, wanted)


def _resize1d(args: Sequence[Expr], attrs: Attrs) -> Expr:
    image = transform.expand_dims(_plain(args[0], attrs["layout"], "NCW"), 2)
    resized = transform.squeeze(resize2d(image, (1, attrs["size"][0]), **_rules(attrs)), 2)
    return _plain(resized, "NCW", attrs["layout"])


def _resize3d(args: Sequence[Expr], attrs: Attrs) -> Expr:
    """Rows and columns of every plane first, then the depths."""
    data = _plain(args[0], attrs["layout"], "NCDHW")
    n, c, depth, h, w = dims(data)
    out_depth, oh, ow = attrs["size"]
    planes = resize2d(transform.reshape(data, (n, c * depth, h, w)), (oh, ow), **_rules(attrs))
    deep = resize2d(transform.reshape(planes, (n, c, depth, oh * ow)), (out_depth, oh * ow), **_rules(attrs))
    return _plain(transform.reshape(deep, (n, c, out_depth, oh, ow)), "NCDHW", attrs["layout"])


def _along(x: np.ndarray, axis: int, size: int, attrs: Attrs) -> np.ndarray:
    """`x` resized along one axis: rows of it are channels of an image one high, so nothing is computed across them."""
    rows = np.moveaxis(x, axis, -1)
    image = rows.reshape(1, -1, 1, rows.shape[-1])
    one = attrs.replace(size=(1, size), layout="NCHW", scales=())
    return np.moveaxis(resize_reference(image, one).reshape(*rows.shape[:-1], size), -1, axis)


def resize_all(attrs: Attrs, x: np.ndarray, axes: str) -> np.ndarray:
    """`x` resized along each of `axes`, which follow N and C in the plain layout."""
    plain = layout_transform(x, attrs["layout"], "NC" + axes)
    for k, size in enumerate(attrs["size"]):
        plain = _along(plain, 2 + k, size, attrs)
    return layout_transform(np.ascontiguousarray(plain), "NC" + axes, attrs["layout"])


register_composite(
    "image.resize1d",
    num_inputs=1,
    expansion=_resize1d,
    reference=lambda attrs, x: resize_all(attrs, x, "W"),
    spatial_axes=1,
    follows=with_layout,
    attributes={
        "size": attr.per_axis(1),
        "layout": attr.text("NCW"),
        "method": attr.text("linear"),
        "coordinate_transformation_mode": attr.text("half_pixel"),
        "rounding_method": attr.text(""),
        "cubic_alpha": attr.number(-0.5),
        "cubic_exclude": attr.flag(False),
    },
)
register_composite(
    "image.resize3d",
    num_inputs=1,
    expansion=_resize3d,
    reference=lambda attrs, x: resize_all(attrs, x, "DHW"),
    spatial_axes=3,
    follows=with_layout,
    attributes={
        "size": attr.per_axis(3),
        "layout": attr.text("NCDHW"),
        "method": attr.text("linear"),
        "coordinate_transformation_mode": attr.text("half_pixel"),
        "rounding_method": attr.text(""),
        "cubic_alpha": attr.number(-0.5),
        "cubic_exclude": attr.flag(False),
    },
)


def _resize(name: str, data: Expr, size: Sequence[int], layout: str, method: str, mode: str, **more: Any) -> Call:
    return call(name, data, size=size, layout=layout, method=method, coordinate_transformation_mode=mode, **more)


def resize1d(
    data: Expr,
    size: int | Sequence[int],
    layout: str = "NCW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: bool = False,
) -> Call:
    """`data` [N, C, W] resized to `size`; the other arguments as of `resize2d`."""
    sizes = (size,) if isinstance(size, int) else size
    more = {"rounding_method": rounding_method, "cubic_alpha": cubic_alpha, "cubic_exclude": cubic_exclude}
    return _resize("image.resize1d", data, sizes, layout, method, coordinate_transformation_mode, **more)


def resize3d(
    data: Expr,
    size: Sequence[int],
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: bool = False,
) -> Call:
    """`data` [N, C, D, H, W] resized to `size`; the other arguments as of `resize2d`."""
    more = {"rounding_method": rounding_method, "cubic_alpha": cubic_alpha, "cubic_exclude": cubic_exclude}
    return _resize("image.resize3d", data, size, layout, method, coordinate_transformation_mode, **more)
