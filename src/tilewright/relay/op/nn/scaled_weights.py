"""Weights whose product or convolution is the scaled one, the field `Op.scaled_weights`: one factor a channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.ir.expr import Attrs

Array = np.ndarray[Any, Any]


def scale_outer(weight: Array, factor: Array, _attrs: Attrs) -> Array:
    """Weights whose first axis is the output channel: OIHW, OIW, [units, K]."""
    return weight * factor.reshape(-1, *(1,) * (weight.ndim - 1))


def scale_transposed(weight: Array, factor: Array, attrs: Attrs) -> Array:
    """IOHW weights, the output channels of each group behind that group's input channels."""
    groups = attrs["groups"]
    inputs, outputs, *rest = weight.shape
    grouped = weight.reshape(groups, inputs // groups, outputs, *rest)
    return (grouped * factor.reshape(groups, 1, outputs, *(1,) * len(rest))).reshape(weight.shape)
