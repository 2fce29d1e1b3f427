"""Regions of interest, anchor boxes, and the reorganization of YOLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import transform
from tilewright.relay.op.common import Types, call, divides, require, require_same_dtype, tensor, tensors
from tilewright.relay.op.composite import register_composite, type_of_expansion
from tilewright.relay.op.image.checks import images, one_of
from tilewright.relay.op.nn.normalization import space_to_depth
from tilewright.topi.reference import sample as ref
from tilewright.topi.util import pair


def _shape(expr: Expr) -> tuple[Any, ...]:
    return tensor(expr.checked_type).shape


# ----------------------------------------------------------------------------------------------------------- regions
def _roi_type(types: Types, attrs: Attrs) -> Type:
    data, rois = tensors(types)
    images(data)
    require_same_dtype(data, rois)
    one_of(attrs, "layout", ("NCHW",))
    one_of(attrs, "mode", ("avg", "max"))
    fits = rois.ndim == 2 and rois.shape[1] == 5
    require(fits, f"regions [R, 5] (image, x1, y1, x2, y2) are needed, not {rois.shape}")
    return TensorType((rois.shape[0], data.shape[1], *attrs["pooled_size"]), data.dtype)


def _roi_align_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    values = (attrs[name] for name in ("pooled_size", "spatial_scale", "sample_ratio", "mode", "aligned"))
    return [topi.image.roi_align(inputs[0], inputs[1], *values)]


register(
    "vision.roi_align",
    num_inputs=2,
    type_rule=_roi_type,
    compute=_roi_align_compute,
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, data, rois: ref.roi_align(data, rois, attrs),
    attributes={
        "pooled_size": attr.per_axis(2),
        "spatial_scale": attr.number(),
        "sample_ratio": attr.integer(-1),
        "layout": attr.text("NCHW"),
        "mode": attr.text("avg"),
        "aligned": attr.flag(False),
    },
)
register(
    "vision.roi_pool",
    num_inputs=2,
    type_rule=_roi_type,
    compute=lambda attrs, inputs, _out: [
        topi.image.roi_pool(inputs[0], inputs[1], attrs["pooled_size"], attrs["spatial_scale"])
    ],
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, data, rois: ref.roi_pool(data, rois, attrs),
    attributes={
        "pooled_size": attr.per_axis(2),
        "spatial_scale": attr.number(),
        "layout": attr.text("NCHW"),
        "mode": attr.text("max"),
    },
)


def roi_align(
    data: Expr,
    rois: Expr,
    pooled_size: int | Sequence[int],
    spatial_scale: float,
    sample_ratio: int = -1,
    layout: str = "NCHW",
    mode: str = "avg",
    aligned: bool = False,
) -> Call:
    """The mean (or maximum) of interpolated samples in the bins of regions [R, 5] (image, x1, y1, x2, y2).

    A `sample_ratio` of 0 or less takes as many samples along a bin as it is pixels long. With `aligned` coordinates are
    those of the pixels' corners, half a pixel before their middles; otherwise a region is one pixel long at least.
    """
    return call(
        "vision.roi_align",
        data,
        rois,
        pooled_size=pair(pooled_size),
        spatial_scale=float(spatial_scale),
        sample_ratio=sample_ratio,
        layout=layout,
        mode=mode,
        aligned=aligned,
    )


def roi_pool(
    data: Expr, rois: Expr, pooled_size: int | Sequence[int], spatial_scale: float, layout: str = "NCHW"
) -> Call:
    """The largest pixel in each bin of regions [R, 5] (image, x1, y1, x2, y2), rounded to whole pixels."""
    attrs = {"pooled_size": pair(pooled_size), "spatial_scale": float(spatial_scale)}
    return call("vision.roi_pool", data, rois, **attrs, layout=layout, mode="max")


def _multibox_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    require(data.ndim == 4, f"a feature map [N, C, H, W] is needed, not {data.shape}")
    count = data.shape[2] * data.shape[3] * (len(attrs["sizes"]) + len(attrs["ratios"]) - 1)
    return TensorType((1, count, 4), "float32")


def _multibox(args: Sequence[Expr], attrs: Attrs) -> Expr:
    height, width = tensor(args[0].checked_type).shape[2:]
    return Constant(ref.multibox_prior(height, width, attrs))


register_composite(
    "vision.multibox_prior",
    num_inputs=1,
    type_rule=_multibox_type,
    expansion=_multibox,
    reference=lambda attrs, data: ref.multibox_prior(data.shape[2], data.shape[3], attrs),
    attributes={
        "sizes": attr.tuple_of(attr.number(), (1.0,)),
        "ratios": attr.tuple_of(attr.number(), (1.0,)),
        "steps": attr.tuple_of(attr.number(), (-1.0, -1.0)),
        "offsets": attr.tuple_of(attr.number(), (0.5, 0.5)),
        "clip": attr.flag(False),
    },
)


def multibox_prior(
    data: Expr,
    sizes: Sequence[float] = (1.0,),
    ratios: Sequence[float] = (1.0,),
    steps: Sequence[float] = (-1.0, -1.0),
    offsets: Sequence[float] = (0.5, 0.5),
    clip: bool = False,
) -> Call:
    """Anchor boxes [1, H·W·(S + R - 1), 4] of a feature map; they depend on its shape only."""
    return call("vision.multibox_prior", data, sizes=sizes, ratios=ratios, steps=steps, offsets=offsets, clip=clip)


# ------------------------------------------------------------------------------------------------------- yolo_reorg
def _reorg_type(types: Types, attrs: Attrs) -> Type:
    data, s = tensor(types[0]), attrs["stride"]
    require(data.ndim == 4, f"images [N, C, H, W] are needed, not {data.shape}")
    _, c, h, w = data.shape
    fits = divides(c, s * s) and divides(h, s) and divides(w, s)
    require(fits, f"{c} channels of {h}x{w} do not divide by the stride {s} (channels by its square)")
    return type_of_expansion(_reorg, types, attrs)


def _reorg(args: Sequence[Expr], attrs: Attrs) -> Expr:
    n, c, h, w = _shape(args[0])
    s = attrs["stride"]
    seen = transform.reshape(args[0], (n, c // (s * s), h * s, w * s))
    return transform.reshape(space_to_depth(seen, s), (n, c * s * s, h // s, w // s))


def _reorg_reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    """The loops of Darknet: out[k, j, i] reads the same memory as [k % oc, j·s + k / oc / s, i·s + k / oc % s]."""
    n, c, h, w = x.shape
    s, oc = attrs["stride"], c // (attrs["stride"] ** 2)
    seen, out = x.reshape(n, oc, h * s, w * s), np.empty_like(x)
    for k in range(c):
        row, column = divmod(k // oc, s)
        out[:, k] = seen[:, k % oc, row::s, column::s]
    return out.reshape(n, c * s * s, h // s, w // s)


register_composite(
    "vision.yolo_reorg",
    num_inputs=1,
    type_rule=_reorg_type,
    expansion=_reorg,
    reference=_reorg_reference,
    attributes={"stride": attr.integer()},
)


def yolo_reorg(data: Expr, stride: int) -> Call:
    """The reorganization layer of YOLO: [N, C, H, W] to [N, C·s², H/s, W/s] as Darknet orders it."""
    return call("vision.yolo_reorg", data, stride=stride)
