"""Layouts as the classic automatic scheduler writes them: every axis with its extent, pieces of one axis by its letter.

    "4I64O" -> "8O4I8O"     an axis O of 64 in two pieces, the outer one first

The scheduler requests a weight in the order in which its loops read it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.type import Type
from tilewright.relay.op.common import Types, call, require, same_dims, tensor
from tilewright.relay.op.composite import register_composite, type_of_expansion
from tilewright.relay.op.transform import reshape, transpose

Axes = list[tuple[str, int]]


def _axes(layout: str) -> Axes:
    """Letter and extent of each axis. Raises TypeMismatchError."""
    require(re.fullmatch(r"(\d+[A-Za-z])+", layout), f"{layout!r} is no list of extents and letters such as '4I64O'")
    return [(letter, int(extent)) for extent, letter in re.findall(r"(\d+)([A-Za-z])", layout)]


def _pieces(attrs: Attrs) -> tuple[Axes, Axes]:
    """The axes before and after; what is split keeps its extent. Raises TypeMismatchError."""
    source, result = _axes(attrs["src_layout"]), _axes(attrs["dst_layout"])
    letters = [letter for letter, _ in source]
    require(len(set(letters)) == len(letters), f"the layout {attrs['src_layout']!r} splits an axis already")
    require({letter for letter, _ in result} == set(letters), "both layouts have the same letters")
    for letter, extent in source:
        split = [size for name, size in result if name == letter]
        require(math.prod(split) == extent, f"the pieces {split} of axis {letter} are not {extent} in all")
    return source, result


def _type(types: Types, attrs: Attrs) -> Type:
    source, _ = _pieces(attrs)
    shape = tuple([extent for _, extent in source])
    require(same_dims(tensor(types[0]).shape, shape), f"data of type {types[0]} is not in {attrs['src_layout']!r}")
    return type_of_expansion(_expansion, types, attrs)


def _expansion(args: Sequence[Expr], attrs: Attrs) -> Expr:
    source, result = _pieces(attrs)
    by_axis = [position for letter, _ in source for position, (name, _) in enumerate(result) if name == letter]
    split = reshape(args[0], [result[position][1] for position in by_axis])
    return transpose(split, [by_axis.index(position) for position in range(len(result))])


def _reference(attrs: Attrs, data: np.ndarray) -> np.ndarray:
    source, result = _pieces(attrs)
    indices = np.indices([extent for _, extent in result])
    found = {letter: np.zeros_like(indices[0]) for letter, _ in source}
    for (letter, extent), index in zip(result, indices, strict=True):
        found[letter] = found[letter] * extent + index
    return data[tuple(found.values())]


register_composite(
    "auto_scheduler_layout_transform",
    num_inputs=1,
    expansion=_expansion,
    reference=_reference,
    type_rule=_type,
    attributes={"src_layout": attr.text(), "dst_layout": attr.text()},
)


def auto_scheduler_layout_transform(data: Expr, src_layout: str, dst_layout: str) -> Call:
    """`data` rearranged from the axes of `src_layout` to those of `dst_layout`; see the module's docstring."""
    return call("auto_scheduler_layout_transform", data, src_layout=src_layout, dst_layout=dst_layout)
