"""ONNX Resize and Upsample with scales or sizes that are computed at run time: axis by axis in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.onnx_op import onnx_op
from tilewright.runtime.host_ops.resample import Axis, interpolated, nearest_indices, outside, weighted_taps

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


@onnx_op("Upsample")
def upsample(attrs: Attrs, data: Array, scales: Array) -> Array:
    """Each axis stretched by its scale, with the conventions before opset 11."""
    old = {**attrs, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return resize(old, data, None, scales)


@onnx_op("Resize")
def resize(
    attrs: Attrs, data: Array, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None
) -> Array:
    """`data` resampled to new extents along some axes."""
    if roi is not None and scales is None and sizes is None:  # Opset 10 has the scales where the region came later.
        return upsample(attrs, data, roi)
    axes = _axes(attrs, data, roi, scales, sizes)
    coordinates = attrs.get("coordinate_transformation_mode", "half_pixel")
    result = data
    active = {index: axis for index, axis in axes.items() if not axis.is_identity(coordinates)}
    for index, axis in active.items():
        result = _resize_axis(attrs, result, index, axis, coordinates)
    if coordinates == "tf_crop_and_resize":
        for index, axis in active.items():
            mask = outside(axis).reshape([-1 if i == index else 1 for i in range(data.ndim)])
            result = np.where(mask, np.asarray(attrs.get("extrapolation_value", 0.0), result.dtype), result)
    return result.astype(data.dtype)


def _axes(attrs: Attrs, data: Array, roi: Array | None, scales: Array | None, sizes: Array | None) -> dict[int, Axis]:
    chosen = [int(axis) % data.ndim for axis in attrs.get("axes") or range(data.ndim)]
    extents = [data.shape[axis] for axis in chosen]
    region = roi.reshape(-1).tolist() if roi is not None and roi.size else [0.0] * len(chosen) + [1.0] * len(chosen)
    if scales is not None and scales.size == len(chosen):
        factors = [float(scale) for scale in scales]
        outs = [int(np.floor(extent * np.float32(scale))) for extent, scale in zip(extents, factors)]
    elif sizes is not None and sizes.size == len(chosen):
        outs, factors = sized(attrs.get("keep_aspect_ratio_policy", "stretch"), extents, [int(s) for s in sizes])
    else:
        raise InputError(f"Resize needs scales or sizes for its {len(chosen)} axes")
    if any(out < 0 or (extent and not out) for extent, out in zip(extents, outs)):
        raise InputError(f"a tensor of shape {list(data.shape)} cannot be resized to {outs} along the axes {chosen}")
    return {
        axis: Axis(extent, out, factor, region[i], region[i + len(chosen)])
        for i, (axis, extent, out, factor) in enumerate(zip(chosen, extents, outs, factors))
    }


def sized(policy: str, extents: list[int], sizes: list[int]) -> tuple[list[int], list[float]]:
    """Output extents and scales for the requested `sizes`, under a policy for the aspect ratio."""
    scales = [size / extent for size, extent in zip(sizes, extents)]
    if policy == "stretch":
        return sizes, scales
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [int(np.floor(extent * scale + 0.5)) for extent in extents], [scale] * len(extents)


def _resize_axis(attrs: Attrs, data: Array, index: int, axis: Axis, coordinates: str) -> Array:
    mode = attrs.get("mode", "nearest")
    if mode == "nearest":
        return np.take(data, nearest_indices(axis, coordinates, attrs.get("nearest_mode", "round_prefer_floor")), index)
    positions, weights = weighted_taps(
        axis, coordinates, "cubic" if mode == "cubic" else "linear", float(attrs.get("cubic_coeff_a", -0.75)),
        bool(attrs.get("exclude_outside", 0)), bool(attrs.get("antialias", 0)),
    )  # fmt: skip
    return interpolated(data.astype(np.float64), index, positions, weights)
