"""Gradients of the operators, one table a kind: importing this package enters them into the registry."""

from tilewright.relay.op.gradients import (
    algebra,
    attention,
    elementwise,
    nn,
    pooling,
    recurrent,
    reduce,
    sampling,
    scatter,
    transform,
)

__all__ = [
    "algebra",
    "attention",
    "elementwise",
    "nn",
    "pooling",
    "recurrent",
    "reduce",
    "sampling",
    "scatter",
    "transform",
]
