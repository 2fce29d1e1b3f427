"""Shapes as values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.registry import host_op


@host_op("shape_of")
def shape_of(attrs: dict[str, Any], data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The shape of `data` as a vector of the attribute `dtype` (int64 unless given)."""
    return np.asarray(data.shape, attrs.get("dtype") or "int64")


@host_op("check_shape")
def check_shape(attrs: dict[str, Any], value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`value`, whose extents must be those of `shape` that are not None. Raises `InputError` naming the call."""
    wanted = attrs["shape"]
    if any(w is not None and w != n for w, n in zip(wanted, value.shape)):
        declared = ", ".join("?" if w is None else str(w) for w in wanted)
        raise InputError(
            f"{attrs['callee']} is called with a tensor of shape {list(value.shape)} as its argument "
            f"{attrs['argument']}, where it declares [{declared}]"
        )
    return value
