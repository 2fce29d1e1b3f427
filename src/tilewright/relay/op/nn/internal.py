"""Operators that passes put into graphs, under their classic name space `nn.internal`."""

from tilewright.relay.op.nn.sparse import sparse_dense_padded

__all__ = ["sparse_dense_padded"]
