"""Operators whose shapes are values at run time: `relay.dyn.reshape`, `relay.dyn.nn.pad` and their kin."""

from tilewright.relay.op.dyn import image, nn
from tilewright.relay.op.dyn.shapes import (
    broadcast_to,
    expand_dims,
    full,
    one_hot,
    ones,
    reshape,
    sparse_to_dense,
    squeeze,
    strided_slice,
    tile,
    topk,
    zeros,
)

__all__ = [
    "broadcast_to",
    "expand_dims",
    "full",
    "image",
    "nn",
    "one_hot",
    "ones",
    "reshape",
    "sparse_to_dense",
    "squeeze",
    "strided_slice",
    "tile",
    "topk",
    "zeros",
]
