"""Neural network operators whose shapes are values at run time."""

from tilewright.relay.op.dyn.shapes import pad, upsampling, upsampling3d

__all__ = ["pad", "upsampling", "upsampling3d"]
