"""Upsampling by factors, which is resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import Precision
from tilewright.relay.ir.type import Dim, Type
from tilewright.relay.op import following
from tilewright.relay.op.common import Types, call, dims, require
from tilewright.relay.op.composite import register_composite, type_of_expansion
from tilewright.relay.op.image.resampling import resize3d, resize_all
from tilewright.relay.op.image.resize import resize2d

# ------------------------------------------------------------------------------------------------------- upsampling
_METHODS = {"nearest_neighbor": "nearest_neighbor", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


def _scaled(size: Dim, scale: float) -> Dim:
    """`size * scale`, rounded. Raises TypeMismatchError where a symbolic size has a fractional scale."""
    if isinstance(size, int):
        return round(size * scale)
    require(float(scale).is_integer(), f"the size {size} must be known to be scaled by {scale}")
    return size * int(scale)


def _upsampling_attrs(attrs: Attrs, sizes: Sequence[int], scales: Sequence[float]) -> dict[str, Any]:
    mode = attrs.get("coordinate_transformation_mode") or ("align_corners" if attrs["align_corners"] else "asymmetric")
    return {
        "size": tuple([_scaled(size, scale) for size, scale in zip(sizes, scales)]),
        "layout": attrs["layout"],
        "method": _METHODS[attrs["method"]],
        "coordinate_transformation_mode": mode,
        "rounding_method": "round" if mode == "align_corners" else "floor",
        "cubic_alpha": -0.5,
        "cubic_exclude": False,
    }


def _upsampling_type(expansion: Any) -> Any:
    def rule(types: Types, attrs: Attrs) -> Type:
        require(attrs["method"] in _METHODS, f"method {attrs['method']!r}; known: {', '.join(_METHODS)}")
        return type_of_expansion(expansion, types, attrs)

    return rule


def _sizes(shape: Sequence[int], layout: str, axes: str) -> list[int]:
    return [shape[layout.index(axis)] for axis in axes]


def _upsampling(args: Sequence[Expr], attrs: Attrs) -> Expr:
    sizes = _sizes(dims(args[0]), attrs["layout"], "HW")
    return resize2d(args[0], **_upsampling_attrs(attrs, sizes, (attrs["scale_h"], attrs["scale_w"])))


def _upsampling3d(args: Sequence[Expr], attrs: Attrs) -> Expr:
    sizes = _sizes(dims(args[0]), attrs["layout"], "DHW")
    scales = (attrs["scale_d"], attrs["scale_h"], attrs["scale_w"])
    return resize3d(args[0], **_upsampling_attrs(attrs, sizes, scales))


def _upsampling_reference(attrs: Attrs, x: np.ndarray, axes: str) -> np.ndarray:
    scales = [attrs[f"scale_{axis.lower()}"] for axis in axes]
    sizes = _sizes(x.shape, attrs["layout"], axes)
    return resize_all(Attrs(_upsampling_attrs(attrs, sizes, scales)), x, axes)


register_composite(
    "nn.upsampling",
    num_inputs=1,
    type_rule=_upsampling_type(_upsampling),
    expansion=_upsampling,
    reference=lambda attrs, x: _upsampling_reference(attrs, x, "HW"),
    precision=Precision.FOLLOW,
    spatial_axes=2,
    follows=following.with_layout,
    attributes={
        "scale_h": attr.number(1),
        "scale_w": attr.number(1),
        "layout": attr.text("NCHW"),
        "method": attr.text("nearest_neighbor"),
        "align_corners": attr.flag(False),
    },
)
register_composite(
    "nn.upsampling3d",
    num_inputs=1,
    type_rule=_upsampling_type(_upsampling3d),
    expansion=_upsampling3d,
    reference=lambda attrs, x: _upsampling_reference(attrs, x, "DHW"),
    attributes={
        "scale_d": attr.number(1),
        "scale_h": attr.number(1),
        "scale_w": attr.number(1),
        "layout": attr.text("NCDHW"),
        "method": attr.text("nearest_neighbor"),
        "coordinate_transformation_mode": attr.text("half_pixel"),
        "align_corners": attr.flag(False),
    },
)


def upsampling(
    data: Expr,
    scale_h: float = 1,
    scale_w: float = 1,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Call:
    """Images made larger by factors; method nearest_neighbor, bilinear or bicubic."""
    scales = {"scale_h": float(scale_h), "scale_w": float(scale_w)}
    return call("nn.upsampling", data, **scales, layout=layout, method=method, align_corners=align_corners)


def upsampling3d(
    data: Expr,
    scale_d: float = 1,
    scale_h: float = 1,
    scale_w: float = 1,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Call:
    """Volumes made larger by factors; method nearest_neighbor or trilinear."""
    scales = {"scale_d": float(scale_d), "scale_h": float(scale_h), "scale_w": float(scale_w)}
    more = {"coordinate_transformation_mode": coordinate_transformation_mode, "align_corners": False}
    return call("nn.upsampling3d", data, **scales, layout=layout, method=method, **more)
