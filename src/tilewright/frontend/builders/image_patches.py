"""Windows of images as channels, which formats call im2col."""

from __future__ import annotations

from tilewright.frontend.builders.sliding import Window, patches
from tilewright.frontend.idioms import channels_last, reshape, shape_of, transpose
from tilewright.relay.ir.expr import Expr


def channel_patches(images: Expr, window: Window) -> Expr:
    """[N, C, H, W] as [N, C * prod(size), rows, columns]: of each channel the elements of each window."""
    batch, channels = shape_of(images)[:2]
    made = patches(channels_last(images), window)
    _, rows, columns, numbers = shape_of(made)
    split = reshape(made, (batch, rows, columns, numbers // channels, channels))
    return reshape(transpose(split, (0, 4, 3, 1, 2)), (batch, numbers, rows, columns))
