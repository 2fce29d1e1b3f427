"""Weights whose product or convolution is the scaled one, the field `Op.scaled_weights`: one factor a channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.ir.expr import Attrs
from tilewright.topi.reference.layout import layout_transform

Array = np.ndarray[Any, Any]


def scale_outer(weight: Array, factor: Array, _attrs: Attrs) -> Array:
    """Weights whose first axis is the output channel: OIHW, OIW, [units, K]."""
    return weight * factor.reshape(-1, *(1,) * (weight.ndim - 1))


def scale_transposed(weight: Array, factor: Array, attrs: Attrs) -> Array:
    """Weights of any order of IOHW, the output channels of each group behind that group's input channels."""
    groups, layout = attrs["groups"], attrs["kernel_layout"]
    plain = layout_transform(weight, layout, "IOHW")
    inputs, outputs, *rest = plain.shape
    grouped = plain.reshape(groups, inputs // groups, outputs, *rest)
    scaled = (grouped * factor.reshape(groups, 1, outputs, *(1,) * len(rest))).reshape(plain.shape)
    return layout_transform(scaled, "IOHW", layout)
