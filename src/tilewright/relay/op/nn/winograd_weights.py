"""The classic weight transforms of Winograd for other back ends, and the convolution that takes them.

The transform of a tap axis is a matrix G of full column rank, so nothing is lost: the convolution finds the kernel
again by its pseudo-inverse and runs as `conv3d`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import Type
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op import transform
from tilewright.relay.op.common import Types, call, known_size, require, tensor, window_attrs
from tilewright.relay.op.composite import register_composite, type_of_expansion
from tilewright.relay.op.nn.dense import dense
from tilewright.relay.op.nn.spatial import conv3d
from tilewright.topi.util import per_axis

_POINTS = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 0.25)


def tap_matrix(taps: int, outputs: int) -> np.ndarray:
    """G [taps + outputs - 1, taps]: the kernel as a polynomial at points, the last of them infinity."""
    points = _POINTS[: taps + outputs - 2]
    rows = [[point**k for k in range(taps)] for point in points]
    return np.array([*rows, [0.0] * (taps - 1) + [1.0]])


def _along(data: Expr, matrix: np.ndarray, axis: int, ndim: int) -> Expr:
    """`matrix` applied along one axis."""
    dtype = tensor(data.checked_type).dtype if data.inferred_type is not None else None
    order = [*[d for d in range(ndim) if d != axis], axis]
    weight = Constant(matrix.astype(dtype.numpy if dtype is not None else "float32"))
    product = dense(transform.transpose(data, order), weight)
    return transform.transpose(product, [order.index(d) for d in range(ndim)])


def _applied(data: Expr, matrices: Sequence[np.ndarray | None], first: int, ndim: int) -> Expr:
    for k, matrix in enumerate(matrices):
        if matrix is not None:
            type_of(data)
            data = _along(data, matrix, first + k, ndim)
    return data


def _applied_reference(x: np.ndarray, matrices: Sequence[np.ndarray | None], first: int) -> np.ndarray:
    out = x.astype(np.float64)
    for k, matrix in enumerate(matrices):
        if matrix is not None:
            out = np.moveaxis(np.tensordot(matrix, out, (1, first + k)), 0, first + k)
    return out.astype(x.dtype)


# ------------------------------------------------------------------------------------------------------------ NNPACK
_NNPACK = (tap_matrix(3, 6),) * 2


def _nnpack_type(types: Types, attrs: Attrs) -> Type:
    kernel = tensor(types[0])
    fits = kernel.ndim == 4 and kernel.shape[2:] == (3, 3)
    require(fits, f"kernels [O, I, 3, 3] are needed, not {kernel.shape}")
    return type_of_expansion(_nnpack, types, attrs)


def _nnpack(args: Sequence[Expr], _attrs: Attrs) -> Expr:
    return _applied(args[0], _NNPACK, 2, 4)


register_composite(
    "nn.contrib_conv2d_winograd_nnpack_weight_transform",
    num_inputs=1,
    type_rule=_nnpack_type,
    expansion=_nnpack,
    reference=lambda _attrs, x: _applied_reference(x, _NNPACK, 2),
    attributes={"convolution_algorithm": attr.integer(0)},
)


def contrib_conv2d_winograd_nnpack_weight_transform(weight: Expr, convolution_algorithm: int = 0) -> Call:
    """3x3 kernels [O, I, 3, 3] at the 8x8 points of F(6x6, 3x3)."""
    name = "nn.contrib_conv2d_winograd_nnpack_weight_transform"
    return call(name, weight, convolution_algorithm=convolution_algorithm)


# ------------------------------------------------------------------------------------------------------------ conv3d
def _matrices(size: Sequence[int], tile: int) -> list[np.ndarray | None]:
    """The transform of each tap axis; the depth is left alone where it has fewer than 3 taps."""
    return [None if k == 0 and taps < 3 else tap_matrix(taps, tile) for k, taps in enumerate(size)]


def _transform3d_type(types: Types, attrs: Attrs) -> Type:
    kernel = tensor(types[0])
    require(kernel.ndim == 5, f"kernels [O, I, D, H, W] are needed, not {kernel.shape}")
    most = max([known_size(size, "the size of the kernel") for size in kernel.shape[2:]]) + attrs["tile_size"] - 2
    require(most <= len(_POINTS), f"tiles of {attrs['tile_size']} need {most} points; there are {len(_POINTS)}")
    return type_of_expansion(_transform3d, types, attrs)


def _transform3d(args: Sequence[Expr], attrs: Attrs) -> Expr:
    size = tensor(args[0].checked_type).shape[2:]
    return _applied(args[0], _matrices(size, attrs["tile_size"]), 2, 5)


register_composite(
    "nn.contrib_conv3d_winograd_weight_transform",
    num_inputs=1,
    type_rule=_transform3d_type,
    expansion=_transform3d,
    reference=lambda attrs, x: _applied_reference(x, _matrices(x.shape[2:], attrs["tile_size"]), 2),
    attributes={"tile_size": attr.integer()},
)


def contrib_conv3d_winograd_weight_transform(weight: Expr, tile_size: int) -> Call:
    """Kernels [O, I, D, H, W] at the points of tiles of `tile_size`; a depth below 3 stays as it is."""
    return call("nn.contrib_conv3d_winograd_weight_transform", weight, tile_size=tile_size)


def _inverses(attrs: Attrs) -> list[np.ndarray | None]:
    found = _matrices(attrs["kernel_size"], attrs["tile_size"])
    return [None if matrix is None else np.linalg.pinv(matrix) for matrix in found]


def _conv3d(args: Sequence[Expr], attrs: Attrs) -> Expr:
    kernel = _applied(args[1], _inverses(attrs), 2, 5)
    window = {name: attrs[name] for name in ("strides", "padding", "dilation", "groups", "out_dtype")}
    return conv3d(args[0], kernel, **window)


def _conv3d_reference(attrs: Attrs, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    kernel = _applied_reference(weight, _inverses(attrs), 2)
    plain = attrs.replace(data_layout="NCDHW", kernel_layout="OIDHW", out_layout="")
    return get("nn.conv3d").reference(plain, data, kernel)  # type: ignore[return-value]


register_composite(
    "nn.contrib_conv3d_winograd_without_weight_transform",
    num_inputs=2,
    expansion=_conv3d,
    reference=_conv3d_reference,
    attributes={
        "kernel_size": attr.per_axis(3),
        "strides": attr.per_axis(3, (1, 1, 1)),
        "padding": attr.sides(3, (0, 0, 0, 0, 0, 0)),
        "dilation": attr.per_axis(3, (1, 1, 1)),
        "tile_size": attr.integer(),
        "groups": attr.integer(1),
        "out_dtype": attr.dtype(""),
    },
)


def contrib_conv3d_winograd_without_weight_transform(
    data: Expr,
    weight: Expr,
    tile_size: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    out_dtype: str = "",
) -> Call:
    """3-D convolution with kernels that `contrib_conv3d_winograd_weight_transform` has made."""
    attrs: dict[str, Any] = {"tile_size": tile_size, "groups": groups, "out_dtype": out_dtype}
    return call(
        "nn.contrib_conv3d_winograd_without_weight_transform",
        data,
        weight,
        kernel_size=per_axis(kernel_size, 3),
        **window_attrs(strides, padding, dilation, axes=3),
        **attrs,
    )
