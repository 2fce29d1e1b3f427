"""Checks of data that a model compiled with `check=True` makes while it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.registry import host_op

Array = np.ndarray[Any, Any]


@host_op("check_indices")
def check_indices(attrs: dict[str, Any], indices: Array, data: Array) -> Array:
    """`indices` as they are, if each is a position on its axis of `data`; else an `InputError` that names the operator.

    `axes` are those of `data` that the indices count on: one for all of them, or (`coordinates`) one for each slice of
    their first axis; none for the elements of `data` in a row. With `from_back`, -1 is the last position.
    """
    axes = attrs["axes"]
    rows = list(indices) if attrs["coordinates"] else [indices]
    sizes = [data.shape[axis] for axis in axes] if axes else [data.size]
    for number, (row, size) in enumerate(zip(rows, sizes, strict=True)):
        wide = np.asarray(row)
        bad = (wide < (-size if attrs["from_back"] else 0)) | (wide >= size)
        if bad.any():
            first = tuple(int(position) for position in np.argwhere(bad)[0])
            where = f"axis {axes[number]} of" if axes else "the elements of"
            raise InputError(
                f"{attrs['label']}: the index {wide[first].item()} (at {list(first)}, {int(bad.sum())} in all) is out "
                f"of range for {where} data of shape {list(data.shape)}, whose extent there is {size}"
            )
    return indices
