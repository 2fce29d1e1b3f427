"""Convolutions and pooling as TensorFlow and Keras define them: channels first or last, padding SAME or VALID.

A *window* is a kernel size, strides and dilations, one number each spatial axis; padding is SAME or VALID as TensorFlow
defines them, or the numbers before and behind each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.builders import windows
from tilewright.frontend.builders.windows import same_padding
from tilewright.frontend.idioms import channels_first, channels_last, rank_of, reshape, shape_of, transpose
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@dataclass(frozen=True)
class Window:
    """A window over the spatial axes; `padding` is "same", "valid" or pairs (before, behind) for each axis."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: str | tuple[tuple[int, int], ...] = "valid"

    def pads(self, extents: Sequence[Any]) -> list[tuple[int, int]]:
        """(before, behind) for each axis of data of these extents."""
        if min((*self.strides, *self.dilation, *self.size), default=1) < 1:
            raise ModelError(
                f"a window of {list(self.size)} with strides {list(self.strides)} and dilations {list(self.dilation)}"
            )
        if not isinstance(self.padding, str):
            return [(int(before), int(behind)) for before, behind in self.padding]
        if self.padding == "valid":
            return [(0, 0)] * len(self.size)
        return [_same(*axis) for axis in zip(extents, self.size, self.strides, self.dilation)]


def _same(extent: Any, size: int, stride: int, dilation: int) -> tuple[int, int]:
    """As `same_padding`; raises `UnsupportedError` where that depends on a symbolic dimension."""
    if isinstance(extent, int):
        return same_padding(extent, size, stride, dilation)
    reach = (size - 1) * dilation + 1
    if stride > 1 and reach > stride:
        raise UnsupportedError(
            f'padding "same" with stride {stride} of a symbolic dimension, on which it depends; '
            "fix the extent with input_shapes"
        )
    total = reach - 1 if stride == 1 else 0
    return total // 2, total - total // 2


def convolution(data: Expr, kernel: Expr, window: Window, groups: int = 1, last: bool = True) -> Expr:
    """`data` with its channels `last` or first, convolved with `kernel` [O, I / groups, spatial …]."""
    if len(window.size) != rank_of(data) - 2:
        raise ModelError(f"a convolution of {len(window.size)} axes over data of shape {list(shape_of(data))}")
    plain = channels_first(data) if last else data
    padding = _flat(window.pads(shape_of(plain)[2:]))
    made = windows.convolution(plain, kernel, window.strides, padding, window.dilation, groups)
    return channels_last(made) if last else made


def transposed_convolution(
    data: Expr, kernel: Expr, window: Window, cut: Sequence[tuple[int, int]], groups: int = 1, last: bool = True
) -> Expr:
    """The transposed convolution of `data` with `kernel` [I, O / groups, spatial …].

    Of the whole result, (n - 1) * stride + (size - 1) * dilation + 1 along an axis, `cut` is taken off before and
    behind; what is negative is added as zeros.
    """
    plain = channels_first(data) if last else data
    kernel = _dilated(kernel, window.dilation)
    taken = [(max(before, 0), max(behind, 0)) for before, behind in cut]
    ones = (1,) * len(window.size)
    made = windows.transposed_convolution(plain, kernel, window.strides, _flat(taken), ones, groups)
    more = [(0, 0), (0, 0), *[(max(-before, 0), max(-behind, 0)) for before, behind in cut]]
    if any(before or behind for before, behind in more):
        made = op.nn.pad(made, pad_width=more)
    return channels_last(made) if last else made


def _dilated(kernel: Expr, dilation: Sequence[int]) -> Expr:
    """A kernel with zeros between its taps."""
    if all(step == 1 for step in dilation):
        return kernel
    return op.nn.dilate(kernel, strides=(1, 1, *dilation))


def pool(kind: str, data: Expr, window: Window, last: bool = True) -> Expr:
    """The largest ("max") or the mean ("avg") over windows; padding counts for neither."""
    if len(window.size) != rank_of(data) - 2 or not 1 <= len(window.size) <= 3:
        raise ModelError(f"pooling of {len(window.size)} axes over data of shape {list(shape_of(data))}")
    plain = channels_first(data) if last else data
    pads = window.pads(shape_of(plain)[2:])
    before, behind = ([pair[side] for pair in pads] for side in (0, 1))
    kind = "mean" if kind == "avg" else kind
    made = windows.pool(plain, kind, window.size, window.strides, before, behind=behind)
    return channels_last(made) if last else made


def _flat(pads: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """All that is before, then all that is behind."""
    return tuple(before for before, _ in pads) + tuple(behind for _, behind in pads)


def adaptive_pool(kind: str, data: Expr, size: Sequence[int], last: bool = True) -> Expr:
    """The largest or the mean of nearly equal parts: of part i from floor(i n / m) to ceil((i + 1) n / m)."""
    axes = rank_of(data) - 2
    plain = channels_first(data) if last else data
    made = getattr(op.nn, f"adaptive_{kind}_pool{axes}d")(plain, output_size=tuple(size))
    return channels_last(made) if last else made


def patches(data: Expr, window: Window) -> Expr:
    """[N, spatial …, C] as [N, out …, prod(size) * C]: the elements of each window, channels varying fastest.

    Outside the data are zeros.
    """
    extents, channels = shape_of(data)[1:-1], shape_of(data)[-1]
    pads = window.pads(extents)
    padded = op.nn.pad(data, pad_width=[(0, 0), *pads, (0, 0)]) if any(map(any, pads)) else data
    counts = [
        (extent + sum(pad) - (size - 1) * step - 1) // stride + 1
        for extent, pad, size, stride, step in zip(extents, pads, window.size, window.strides, window.dilation)
    ]
    parts = []
    axes = tuple(range(1, 1 + len(counts)))
    for tap in np.ndindex(*window.size):
        begin = [position * step for position, step in zip(tap, window.dilation)]
        end = [b + (count - 1) * stride + 1 for b, count, stride in zip(begin, counts, window.strides)]
        parts.append(op.strided_slice(padded, begin=begin, end=end, strides=window.strides, axes=axes))
    joined = parts[0] if len(parts) == 1 else op.concatenate(parts, axis=-1)
    assert shape_of(joined)[-1] == len(parts) * channels
    return joined


def channel_patches(images: Expr, window: Window) -> Expr:
    """[N, C, H, W] as [N, C * prod(size), rows, columns]: of each channel the elements of each window."""
    batch, channels = shape_of(images)[:2]
    made = patches(channels_last(images), window)
    _, rows, columns, numbers = shape_of(made)
    split = reshape(made, (batch, rows, columns, numbers // channels, channels))
    return reshape(transpose(split, (0, 4, 3, 1, 2)), (batch, numbers, rows, columns))


def blocks_as_channels(data: Expr, block: int, back: bool, last: bool = True) -> Expr:
    """Blocks of pixels as channels, the block's position varying slower than the channel, or back."""
    plain = channels_first(data) if last else data
    if back:
        made = op.nn.depth_to_space(plain, block_size=block, mode="DCR")
    else:
        made = op.nn.space_to_depth(plain, block_size=block)
    return channels_last(made) if last else made


def unshuffled(data: Expr, block: int) -> Expr:
    """[…, C, H, W] with the pixels of each block as neighbouring channels: the inverse of a pixel shuffle."""
    *lead, channels, height, width = shape_of(data)
    split = reshape(data, (*lead, channels, height // block, block, width // block, block))
    order = (*range(len(lead)), *(len(lead) + axis for axis in (0, 2, 4, 1, 3)))
    return reshape(transpose(split, order), (*lead, channels * block * block, height // block, width // block))


def depthwise_kernel(kernel: Expr) -> Expr:
    """[spatial …, C, multiplier] as the kernel [C * multiplier, 1, spatial …] of a convolution with C groups."""
    *spatial, channels, multiplier = shape_of(kernel)
    moved = op.transpose(kernel, axes=(len(spatial), len(spatial) + 1, *range(len(spatial))))
    return op.reshape(moved, newshape=(channels * multiplier, 1, *spatial))


def channel_kernel(kernel: Expr) -> Expr:
    """[spatial …, I, O] as [O, I, spatial …]."""
    rank = rank_of(kernel)
    return op.transpose(kernel, axes=(rank - 1, rank - 2, *range(rank - 2)))
