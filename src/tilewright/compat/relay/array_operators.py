"""Descriptions (see `through_relay`) of classic `topi` operators on arrays, images and boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.compat.relay import stated_sizes
from tilewright.compat.relay.convolutions import spread
from tilewright.compat.tables.signatures import by_classic_parameters
from tilewright.errors import InputError
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, TupleGetItem
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.support.named import named


def einsum(subscripts: str, *operand: Expr) -> Expr:
    """The sum of products that `subscripts` spells, as of `numpy.einsum`."""
    return op.einsum(list(operand), subscripts)


def tensordot(a: Expr, b: Expr, axes: Any) -> Expr:
    """The sum of products over pairs of axes: the last n of `a` with the first n of `b`, or those listed."""
    ranks = tensor_type_of(a).ndim, tensor_type_of(b).ndim
    if isinstance(axes, int):
        pairs = [(ranks[0] - axes + i, i) for i in range(axes)]
    elif isinstance(axes[0], int):
        pairs = [(axes[0], axes[1])]
    else:
        pairs = list(zip(axes[0], axes[1], strict=True))
    letters = "abcdefghijklmnopqrstuvwxyz"
    left, right = list(letters[: ranks[0]]), list(letters[ranks[0] : sum(ranks)])
    for i, j in pairs:
        right[j] = left[i]
    kept = [x for x in left if x not in right] + [x for x in right if x not in left]
    return op.einsum([a, b], f"{''.join(left)},{''.join(right)}->{''.join(kept)}")


def adv_index(data: Expr, indices: Sequence[Expr]) -> Expr:
    """NumPy's indexing by arrays."""
    return op.adv_index([data, *indices])


def unravel_index(indices: Expr, shape: Any) -> Expr:
    """Flat indices as one row an axis."""
    sizes = shape if isinstance(shape, Expr) else Constant(np.array(shape, str(tensor_type_of(indices).dtype)))
    return op.unravel_index(indices, sizes)


def shape(array: Expr, dtype: str = "int32") -> Expr:
    """The sizes of the dimensions, as a constant."""
    return _stacked(tensor_type_of(array).shape, dtype)


def _stacked(sizes: Sequence[Any], dtype: str) -> Expr:
    if not all(isinstance(size, int) for size in sizes):
        raise InputError(f"topi.shape of an array of symbolic sizes {tuple(sizes)}: read them off the tensor")
    return op.stack([Constant(np.array(size, dtype)) for size in sizes], axis=0)


def expand_like(a: Expr, shape_like: Expr, axis: Any) -> Expr:
    """`a` repeated along the axes `axis`, which it lacks, to the shape of `shape_like`."""
    axes = sorted(d % tensor_type_of(shape_like).ndim for d in spread(axis, 1))
    for d in axes:
        a = op.expand_dims(a, axis=d)
    return op.broadcast_to(a, tensor_type_of(shape_like).shape)


def topk(
    data: Expr, k: int = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False, dtype: str = "int64"
) -> Expr:
    """The `k` largest or smallest elements along an axis, their positions, or both."""
    return op.topk(data, k, axis, ret_type, is_ascend, dtype)


def searchsorted(sorted_sequence: Expr, values: Expr, right: bool = False, out_dtype: str = "int64") -> Expr:
    """The insertion indices of the values that keep the order."""
    return op.searchsorted(sorted_sequence, values, right, out_dtype)


# ------------------------------------------------------------------------------------------------------------ images
_KINDS = {"trilinear": "linear", "bilinear": "linear"}


def rounding_of(method: str, coordinate_transformation_mode: str, rounding_method: str) -> str:
    """The default rounding to the nearest element in the classic stack: the one before, or, with aligned corners, the
    nearest.
    """
    if rounding_method or method != "nearest_neighbor":
        return rounding_method
    return "round" if coordinate_transformation_mode == "align_corners" else "floor"


def _resize(rank: int, default_layout: str) -> Any:
    own = getattr(op.image, f"resize{rank}d")

    def build(
        data: Expr,
        size: Sequence[int],
        layout: str = default_layout,
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "",
        bicubic_alpha: float = -0.5,
        bicubic_exclude: bool = False,
    ) -> Expr:
        kind, mode = _KINDS.get(method, method), coordinate_transformation_mode
        rounding = rounding_of(kind, mode, rounding_method)
        return own(data, size, layout, kind, mode, rounding, bicubic_alpha, bicubic_exclude)

    return named(build, f"resize{rank}d", own.__doc__)


resize2d, resize3d = _resize(2, "NCHW"), _resize(3, "NCDHW")


def _scaled(letters: str, default_layout: str) -> Any:
    own = getattr(op.image, f"resize{len(letters)}d")

    def build(
        data: Expr,
        scale: Any,
        layout: str = default_layout,
        method: str = "nearest_neighbor",
        coordinate_transformation_mode: str = "align_corners",
    ) -> Expr:
        factors = scale if isinstance(scale, list | tuple) else (scale,) * len(letters)
        shape = tensor_type_of(data).shape
        size = [int(shape[layout.index(axis)] * factor) for axis, factor in zip(letters, factors, strict=True)]
        rounding = rounding_of(method, coordinate_transformation_mode, "")
        return own(data, size, layout, _KINDS.get(method, method), coordinate_transformation_mode, rounding)

    return named(build, f"resize{len(letters)}d_python", "Rows, or volumes, `scale` times as large.")


resize1d_python, resize3d_python = _scaled("W", "NCW"), _scaled("DHW", "NCDHW")


def grid_sample_python(
    data: Expr, grid: Expr, method: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = True
) -> Expr:
    """An image sampled where the grid says."""
    return op.image.grid_sample(data, grid, method, "NCHW", padding_mode, align_corners)


# ------------------------------------------------------------------------------------------------------------- boxes
def roi_align_nchw(
    data: Expr, rois: Expr, pooled_size: Any, spatial_scale: float, mode: Any, sample_ratio: int = -1
) -> Expr:
    """Regions of images sampled into `pooled_size` parts; `mode` is "avg" or "max", or 0 or 1."""
    return op.vision.roi_align(data, rois, pooled_size, spatial_scale, sample_ratio, "NCHW", _mode(mode))


def _mode(mode: Any) -> str:
    if isinstance(mode, int):
        return ("avg", "max")[mode]
    return mode.decode() if isinstance(mode, bytes) else str(mode)


def roi_align_nhwc_python(
    a_np: Expr, rois_np: Expr, pooled_size: Any, spatial_scale: float, sample_ratio: int, mode: Any = "avg"
) -> Expr:
    """The same for channels last."""
    made: Expr = stated_sizes.roi_align(a_np, rois_np, pooled_size, spatial_scale, sample_ratio, "NHWC", _mode(mode))
    return made


@by_classic_parameters("tvm.topi.vision.multibox_detection")
def multibox_detection(
    cls_prob: Expr, anchor: Expr, nms_threshold: float, force_suppress: bool, nms_topk: int, **more: Any
) -> Expr:
    """Rows (class, score, box) of moved anchors, without those that better ones cover."""
    moved = op.vision.multibox_transform_loc(cls_prob=cls_prob, anchor=anchor, **more)
    batch, count = tensor_type_of(cls_prob).shape[0], tensor_type_of(anchor).shape[1]
    positions = Constant(np.broadcast_to(np.arange(count, dtype="int32"), (batch, count)))
    return op.vision.non_max_suppression(
        TupleGetItem(moved, 0), TupleGetItem(moved, 1), positions, iou_threshold=nms_threshold,
        force_suppress=force_suppress, top_k=nms_topk, return_indices=False,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ random
def uniform(gen: Expr, low: Any, high: Any, out_shape: Sequence[int], out_dtype: str) -> Expr:
    """The next key, and random numbers between two."""
    return op.random.uniform(gen, out_shape, out_dtype, low, high)
