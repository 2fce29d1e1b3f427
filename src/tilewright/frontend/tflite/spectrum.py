"""Fourier transforms. Complex tensors are tensors of one axis more, of the real and the imaginary parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.frontend.builders.fourier import complex_transform, real_transform
from tilewright.frontend.converters import Converter
from tilewright.frontend.idioms import (
    concatenate,
    constant,
    dtype_of,
    index_axis,
    move_axis,
    rank_of,
    shape_of,
    slice_axis,
)
from tilewright.frontend.tflite.node import Node, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

#: The operators that take complex tensors as they are.
OF_COMPLEX = ("REAL", "IMAG", "COMPLEX_ABS")
#: Those that only move elements: what they do to a complex tensor, they do to both of its parts.
_MOVING = (
    "SQUEEZE", "RESHAPE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "GATHER", "REVERSE_V2", "TILE",
    "CONCATENATION", "PACK", "UNPACK", "SPLIT", "BROADCAST_TO",
)  # fmt: skip


def of_complex(operator: str, converter: Converter, complex_inputs: Sequence[int]) -> Converter | None:
    """A converter that takes complex tensors at these inputs; None where the operator computes with their values."""
    if not complex_inputs or operator in OF_COMPLEX:
        return converter
    if operator not in _MOVING:
        return None

    def convert(node: Node) -> list[Expr]:
        whole, made = list(node.inputs), []
        for part in (0, 1):
            node.inputs = [
                index_axis(value, rank_of(value) - 1, part)
                if position in complex_inputs and value is not None
                else value
                for position, value in enumerate(whole)
            ]
            found = converter(node)
            made.append([found] if isinstance(found, Expr) else list(found))
        node.inputs = whole
        return [op.stack(list(pair), axis=rank_of(pair[0])) for pair in zip(*made)]

    return convert


@converts("RFFT2D")
def convert_rfft2d(node: Node) -> Expr:
    """Inputs: data […, H, W], and the lengths of the transform of both axes, to which they are cut or filled."""
    height, width = node.ints(1, "lengths")
    if min(height, width) < 1:
        node.unsupported(f"a transform of {height} by {width}")
    rank = node.rank()
    real, imaginary = real_transform(node[0], width)
    real, imaginary = (move_axis(_fitted(part, rank - 2, height), rank - 2, rank - 1) for part in (real, imaginary))
    parts = [move_axis(part, rank - 1, rank - 2) for part in complex_transform(real, imaginary)]
    return op.stack(parts, axis=rank)


def _fitted(data: Expr, axis: int, length: int) -> Expr:
    """The first elements of an axis, or all with zeros behind."""
    shape = shape_of(data)
    if shape[axis] >= length:
        return slice_axis(data, axis, 0, length)
    missing = (*shape[:axis], length - shape[axis], *shape[axis + 1 :])
    return concatenate([data, constant(np.zeros(missing), dtype_of(data))], axis)


@converts(*OF_COMPLEX)
def convert_parts(node: Node) -> Expr:
    last = rank_of(node[0]) - 1
    if node.name != "COMPLEX_ABS":
        return index_axis(node[0], last, ("REAL", "IMAG").index(node.name))
    return op.sqrt(op.sum(node[0] * node[0], axis=(last,)))
