"""Computes of image operators."""

from tilewright.topi.image.resize import resize2d

__all__ = ["resize2d"]
