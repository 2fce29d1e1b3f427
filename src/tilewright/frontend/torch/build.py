"""Small Relay idioms of PyTorch's operators, beside those of all formats."""

from __future__ import annotations

from tilewright.frontend.idioms import rank_of, transpose
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.support.dtype import DType


def element_type(value: Expr) -> DType:
    """The element type of `value`."""
    return tensor_type_of(value).dtype


def on_rank(value: Expr, rank: int) -> Expr:
    """`value` with axes of extent 1 in front, to have `rank` axes."""
    missing = rank - rank_of(value)
    return op.expand_dims(value, axis=0, num_newaxis=missing) if missing > 0 else value


def swapped(value: Expr) -> Expr:
    """`value` with its last two axes exchanged."""
    rank = rank_of(value)
    return transpose(value, [*range(rank - 2), rank - 1, rank - 2])
