"""`topi.argwhere` and `topi.unique`: results whose size depends on values, in arrays that their caller makes.

NumPy computes them, in an extern stage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright import te
from tilewright.compat.topi.through_relay import by_function
from tilewright.relay.ir.type import TensorType
from tilewright.topi.util import extents


def argwhere(output_shape: te.Tensor, condition: te.Tensor) -> te.Tensor:
    """The positions where `condition` is not 0, a row each, in an array of the shape of `output_shape`.

    Rows that do not fit are left out; those that are too many are 0.
    """

    sizes = extents(output_shape)

    def positions(_shape: Any, values: Any) -> Any:
        found = np.argwhere(values)[: sizes[0]]
        return np.pad(found, ((0, sizes[0] - len(found)), (0, 0)))

    type_ = TensorType(sizes, "int32")
    return by_function("argwhere", [output_shape, condition], [type_], positions)[0]


def unique(data: te.Tensor, is_sorted: bool = True, return_counts: bool = False) -> list[te.Tensor]:
    """The distinct elements, where each is first, which each element is, how many there are, and how often each.

    All but the number have as many positions as `data`. Without `is_sorted` they stand in the order they are met in.
    """

    def elements(values: Any) -> Any:
        found, first, which, counts = np.unique(values, return_index=True, return_inverse=True, return_counts=True)
        order = np.arange(len(found)) if is_sorted else np.argsort(first)
        positions = np.argsort(order)
        full = [np.pad(part[order], (0, len(values) - len(found))) for part in (found, first, counts)]
        results = (full[0], full[1], positions[which], np.array([len(found)]), full[2])
        return results if return_counts else results[:4]

    size = extents(data)
    types = [TensorType(size, str(data.dtype)), *[TensorType(size, "int32")] * 2, TensorType([1], "int32")]
    types += [TensorType(size, "int32")] if return_counts else []
    return by_function("unique", [data], types, elements)
