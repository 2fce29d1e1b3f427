"""Shapes as values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.host_ops.registry import host_op


@host_op("shape_of")
def shape_of(attrs: dict[str, Any], data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The shape of `data` as a vector of the attribute `dtype` (int64 unless given)."""
    return np.asarray(data.shape, attrs.get("dtype") or "int64")
