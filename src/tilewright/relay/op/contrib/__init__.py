"""Operators of particular processors: what their instructions compute, in plain operators, so that programs that name
them run anywhere."""

from tilewright.relay.op.contrib import ethosu

__all__ = ["ethosu"]
