"""Operators that read images at the positions of a grid or of boxes, and morphological dilation."""

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
from tilewright.relay.op.algebra import einsum
from tilewright.relay.op.common import (
    Types,
    call,
    require,
    require_float,
    require_same_dtype,
    same_dim,
    same_dims,
    tensor,
    tensors,
    windows_along,
)
from tilewright.relay.op.composite import register_composite
from tilewright.relay.op.image.checks import images, one_of
from tilewright.topi.reference import sample as ref
from tilewright.topi.util import four_sided, pair


# ----------------------------------------------------------------------------------------------- grids and boxes
def _affine_grid_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    require_float(data)
    require(data.ndim == 3 and data.shape[1:] == (2, 3), f"matrices [N, 2, 3] are needed, not {data.shape}")
    return TensorType((data.shape[0], 2, *attrs["target_shape"]), data.dtype)


def _base_grid(attrs: Attrs) -> np.ndarray:
    """[3, H · W]: x, y and 1 of every pixel, from -1 to 1."""
    height, width = attrs["target_shape"]
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    return np.stack([x.reshape(-1), y.reshape(-1), np.ones(height * width)])


def _affine_grid(args: Sequence[Expr], attrs: Attrs) -> Expr:
    kind = tensor(args[0].checked_type)
    grid = Constant(_base_grid(attrs).astype(kind.dtype.numpy))
    flat = einsum([args[0], grid], "nij,jp->nip")
    return transform.reshape(flat, (kind.shape[0], 2, *attrs["target_shape"]))


register_composite(
    "image.affine_grid",
    num_inputs=1,
    type_rule=_affine_grid_type,
    expansion=_affine_grid,
    reference=lambda attrs, data: (
        (data.astype(np.float64) @ _base_grid(attrs)).reshape(-1, 2, *attrs["target_shape"]).astype(data.dtype)
    ),
    attributes={"target_shape": attr.per_axis(2)},
)


def affine_grid(data: Expr, target_shape: Sequence[int]) -> Call:
    """The grid [N, 2, H, W] (x, y of -1 … 1) of affine maps [N, 2, 3], for `grid_sample`."""
    return call("image.affine_grid", data, target_shape=target_shape)


def _grid_sample_type(types: Types, attrs: Attrs) -> Type:
    data, grid = tensors(types)
    images(data)
    require_same_dtype(data, grid)
    one_of(attrs, "method", ("bilinear", "nearest", "bicubic"))
    one_of(attrs, "padding_mode", ("zeros", "border", "reflection"))
    one_of(attrs, "layout", ("NCHW",))
    fits = grid.ndim == 4 and same_dims(grid.shape[:2], (data.shape[0], 2))
    require(fits, f"a grid [{data.shape[0]}, 2, H, W] is needed, not {grid.shape}")
    return TensorType((*data.shape[:2], *grid.shape[2:]), data.dtype)


def _grid_sample_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    values = (attrs[name] for name in ("method", "padding_mode", "align_corners"))
    return [topi.image.grid_sample(inputs[0], inputs[1], *values)]


register(
    "image.grid_sample",
    num_inputs=2,
    type_rule=_grid_sample_type,
    compute=_grid_sample_compute,
    pattern=OpPattern.INJECTIVE,
    reference=lambda attrs, data, grid: ref.grid_sample(data, grid, attrs),
    attributes={
        "method": attr.text("bilinear"),
        "layout": attr.text("NCHW"),
        "padding_mode": attr.text("zeros"),
        "align_corners": attr.flag(True),
    },
)


def grid_sample(
    data: Expr,
    grid: Expr,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Call:
    """`data` at the positions of a grid [N, 2, H, W] (x, y of -1 … 1); method bilinear, nearest or bicubic.

    Beside the image: zeros, the border, or its reflection.
    """
    return call(
        "image.grid_sample",
        data,
        grid,
        method=method,
        layout=layout,
        padding_mode=padding_mode,
        align_corners=align_corners,
    )


def _crop_type(types: Types, attrs: Attrs) -> Type:
    data, boxes, owners = tensors(types)
    images(data)
    require_same_dtype(data, boxes)
    one_of(attrs, "method", ("bilinear", "nearest_neighbor"))
    one_of(attrs, "layout", ("NCHW",))
    fits = boxes.ndim == 2 and boxes.shape[1] == 4 and same_dims(owners.shape, boxes.shape[:1]) and owners.dtype.is_int
    require(fits, f"boxes [M, 4] and integers [M] are needed, not {boxes} and {owners}")
    return TensorType((boxes.shape[0], data.shape[1], *attrs["crop_size"]), data.dtype)


def _crop_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    method = "nearest" if attrs["method"] == "nearest_neighbor" else "bilinear"
    data, boxes, owners = inputs
    size, outside = attrs["crop_size"], attrs["extrapolation_value"]
    return [topi.image.crop_and_resize(data, boxes, owners, size, method, outside)]


register(
    "image.crop_and_resize",
    num_inputs=3,
    type_rule=_crop_type,
    compute=_crop_compute,
    pattern=OpPattern.INJECTIVE,
    reference=lambda attrs, data, boxes, owners: ref.crop_and_resize(data, boxes, owners, attrs),
    attributes={
        "crop_size": attr.per_axis(2),
        "layout": attr.text("NCHW"),
        "method": attr.text("bilinear"),
        "extrapolation_value": attr.number(0.0),
    },
)


def crop_and_resize(
    data: Expr,
    boxes: Expr,
    box_indices: Expr,
    crop_size: Sequence[int],
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Call:
    """Boxes [M, 4] (y1, x1, y2, x2 of 0 … 1) of the images `box_indices`, each resized to `crop_size`."""
    return call(
        "image.crop_and_resize",
        data,
        boxes,
        box_indices,
        crop_size=crop_size,
        layout=layout,
        method=method,
        extrapolation_value=float(extrapolation_value),
    )


# -------------------------------------------------------------------------------------------------------- dilation2d
def _dilation2d_type(types: Types, attrs: Attrs) -> Type:
    data, weight = tensors(types)
    images(data)
    require_same_dtype(data, weight)
    one_of(attrs, "data_layout", ("NCHW",))
    one_of(attrs, "kernel_layout", ("IHW",))
    fits = weight.ndim == 3 and same_dim(weight.shape[0], data.shape[1])
    require(fits, f"weights [{data.shape[1]}, KH, KW] are needed, not {weight.shape}")
    out = windows_along(data.shape[2:], weight.shape[1:], attrs, attrs["dilations"])
    return TensorType((*data.shape[:2], *out), data.dtype)


def _dilation2d_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    values = (attrs[name] for name in ("strides", "padding", "dilations"))
    return [topi.image.dilation2d(inputs[0], inputs[1], *values)]


register(
    "image.dilation2d",
    num_inputs=2,
    type_rule=_dilation2d_type,
    compute=_dilation2d_compute,
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, data, weight: ref.dilation2d(data, weight, attrs),
    attributes={
        "strides": attr.per_axis(2, (1, 1)),
        "padding": attr.sides(2, (0, 0, 0, 0)),
        "dilations": attr.per_axis(2, (1, 1)),
        "data_layout": attr.text("NCHW"),
        "kernel_layout": attr.text("IHW"),
    },
)


def dilation2d(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilations: int | Sequence[int] = (1, 1),
    data_layout: str = "NCHW",
    kernel_layout: str = "IHW",
) -> Call:
    """Morphological dilation: max of `data` + `weight` over each window."""
    return call(
        "image.dilation2d",
        data,
        weight,
        strides=pair(strides),
        padding=four_sided(padding),
        dilations=pair(dilations),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
    )
