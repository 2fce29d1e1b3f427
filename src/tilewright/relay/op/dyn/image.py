"""Image operators whose shapes are values at run time."""

from tilewright.relay.op.dyn.shapes import resize2d

__all__ = ["resize2d"]
