"""Fourier transforms. Complex tensors are tensors of one axis more, of the real and the imaginary parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders.fourier import complex_transform, real_transform
from tilewright.frontend.converters import Converter
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


def of_complex(operator: str, converter: Converter, complex_inputs: Sequence[int]) -> Converter:
    """A converter that takes complex tensors at these inputs, or refuses them where it computes with their values."""
    if operator in OF_COMPLEX:
        return converter

    def convert(node: Node) -> list[Expr]:
        if operator not in _MOVING:
            node.unsupported("complex numbers are taken by REAL, IMAG, COMPLEX_ABS and what moves elements")
        whole, made = list(node.inputs), []
        for part in (0, 1):
            node.inputs = [
                idioms.index_axis(value, idioms.rank_of(value) - 1, part)
                if position in complex_inputs and value is not None
                else value
                for position, value in enumerate(whole)
            ]
            found = converter(node)
            made.append([found] if isinstance(found, Expr) else list(found))
        node.inputs = whole
        return [op.stack(list(pair), axis=idioms.rank_of(pair[0])) for pair in zip(*made)]

    return convert


@converts("RFFT2D")
def convert_rfft2d(node: Node) -> Expr:
    """Inputs: data […, H, W], and the lengths of the transform of both axes, to which they are cut or filled."""
    height, width = node.ints(1, "lengths")
    if min(height, width) < 1:
        node.unsupported(f"a transform of {height} by {width}")
    rank = node.rank()
    real, imaginary = real_transform(node[0], width)
    real, imaginary = (
        idioms.move_axis(_fitted(part, rank - 2, height), rank - 2, rank - 1) for part in (real, imaginary)
    )
    parts = [idioms.move_axis(part, rank - 1, rank - 2) for part in complex_transform(real, imaginary)]
    return op.stack(parts, axis=rank)


def _fitted(data: Expr, axis: int, length: int) -> Expr:
    """The first elements of an axis, or all with zeros behind."""
    shape = idioms.shape_of(data)
    if shape[axis] >= length:
        return idioms.slice_axis(data, axis, 0, length)
    missing = (*shape[:axis], length - shape[axis], *shape[axis + 1 :])
    return idioms.concatenate([data, idioms.constant(np.zeros(missing), idioms.dtype_of(data))], axis)


@converts(*OF_COMPLEX)
def convert_parts(node: Node) -> Expr:
    last = idioms.rank_of(node[0]) - 1
    if node.name != "COMPLEX_ABS":
        return idioms.index_axis(node[0], last, ("REAL", "IMAG").index(node.name))
    return op.sqrt(op.sum(node[0] * node[0], axis=(last,)))
