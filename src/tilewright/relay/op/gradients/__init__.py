"""Gradients of the operators, one table a kind: importing this package enters them into the registry."""

from tilewright.relay.op.gradients import attention, elementwise, nn, pooling, reduce, transform

__all__ = ["attention", "elementwise", "nn", "pooling", "reduce", "transform"]
