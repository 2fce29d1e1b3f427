"""Parts of tensors along an axis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tilewright.frontend.graph_node import NodeInputs
from tilewright.frontend.idioms import shape_of, slice_axis
from tilewright.relay.ir.expr import Expr


def split_axis(node: NodeInputs, x: Expr, axis: int, sizes: Sequence[int] | int) -> list[Expr]:
    """`x` in parts along an axis, by their sizes or, all of one size, by their number."""
    extent = shape_of(x)[axis]
    if isinstance(sizes, int):
        if sizes < 1 or extent % sizes:
            node.bad(f"{extent} elements do not make {sizes} parts")
        sizes = [extent // sizes] * sizes
    bounds = np.cumsum([0, *sizes])
    if min(sizes) < 0 or bounds[-1] != extent:
        node.bad(f"parts of {list(sizes)} of {extent} elements")
    return [slice_axis(x, axis, int(low), int(high)) for low, high in itertools.pairwise(bounds)]
