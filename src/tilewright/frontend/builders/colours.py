"""Colours of images: red, green and blue, or hue, saturation and brightness, all of them 0 … 1 along one axis."""

from __future__ import annotations

from tilewright.frontend.idioms import index_axis
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def channels(value: Expr, axis: int) -> list[Expr]:
    """The three channels."""
    return [index_axis(value, axis, position) for position in range(3)]


def hsv_of(value: Expr, axis: int) -> Expr:
    """Hue, saturation and brightness of red, green and blue."""
    red, green, blue = channels(value, axis)
    high, low = op.maximum(red, op.maximum(green, blue)), op.minimum(red, op.minimum(green, blue))
    width = high - low
    saturation = op.where(high > 0, width / op.where(high > 0, high, 1), 0)
    sixth = 1 / 6 / op.where(width > 0, width, 1)
    by_red, by_green, by_blue = sixth * (green - blue), sixth * (blue - red) + 2 / 6, sixth * (red - green) + 4 / 6
    hue = op.where(op.equal(red, high), by_red, op.where(op.equal(green, high), by_green, by_blue))
    hue = op.where(width > 0, hue, 0)
    return op.stack([op.where(hue < 0, hue + 1, hue), saturation, high], axis=axis)


def rgb_of(value: Expr, axis: int) -> Expr:
    """Red, green and blue of hue, saturation and brightness."""
    hue, saturation, brightness = channels(value, axis)
    pale = 1 - saturation
    return op.stack([(pale + saturation * part) * brightness for part in pure_colour(hue)], axis=axis)


def pure_colour(hue: Expr) -> list[Expr]:
    """Red, green and blue of a hue."""
    turns = hue * 6
    parts = (op.abs(turns - 3) - 1, 2 - op.abs(turns - 2), 2 - op.abs(turns - 4))
    return [op.clip(part, 0.0, 1.0) for part in parts]
