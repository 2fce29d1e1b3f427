"""A transposed convolution as a convolution that computes the pixels of all phases of its stride as channels.

Before: nn.conv2d_transpose(%x, w, strides=[2, 2])                                     %x: [1, 8, 5, 5], w: [8, 4, 2, 2]
After:  %0 = convolve(%x, w')                                          w': [16, 8, 1, 1], a filter a phase of each unit
        %1 = transpose(reshape(%0, [1, 4, 2, 2, 5, 5]), axes=[0, 1, 4, 2, 5, 3]); reshape(%1, [1, 4, 10, 10])

Pixel s * q + r of a result, stride s, reads the taps r, r + s, r + 2 s … alone (Shi et al., "Is the deconvolution layer
the same as a convolutional layer?", 2016). There are no multiplications by zeros, and integers need no other kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.ir.expr import Attrs, Expr
from tilewright.relay.op.transform import reshape, strided_slice, transpose

Array = np.ndarray[Any, Any]
#: A convolution of the data by filters [units, channels, taps, taps], with padding (top, left, bottom, right).
Convolve = Callable[[Array, tuple[int, int, int, int]], Expr]


def transposed_in_phases(
    convolve: Convolve, weight: Array, blank: int, attrs: Attrs, size: Sequence[int], out_size: Sequence[int]
) -> Expr:
    """The transposed convolution of images of `size` by `weight` [channels, units, taps, taps], results of `out_size`.

    `blank` is the weight that stands for zero. One group, dilation 1.
    """
    channels, units = weight.shape[:2]
    strides, cut = attrs["strides"], attrs["padding"][:2]
    taps = [-(-k // s) for k, s in zip(weight.shape[2:], strides)]
    more = [t * s - k for t, s, k in zip(taps, strides, weight.shape[2:])]
    whole = np.pad(weight, [(0, 0), (0, 0), *((0, n) for n in more)], constant_values=blank)
    by_phase = whole.reshape(channels, units, taps[0], strides[0], taps[1], strides[1])
    filters = by_phase.transpose(1, 3, 5, 0, 2, 4)[..., ::-1, ::-1].reshape(-1, channels, *taps)
    first = [min(c // s, t - 1) for c, s, t in zip(cut, strides, taps)]
    count = [(c + n - 1) // s - f + 1 for c, n, s, f in zip(cut, out_size, strides, first)]
    before = [t - 1 - f for t, f in zip(taps, first)]
    behind = [max(n - h - b + t - 1, 0) for n, h, b, t in zip(count, size, before, taps)]
    made = convolve(np.ascontiguousarray(filters), (before[0], before[1], behind[0], behind[1]))
    rows, columns = (h + b + e - t + 1 for h, b, e, t in zip(size, before, behind, taps))
    apart = transpose(reshape(made, (-1, units, *strides, rows, columns)), (0, 1, 4, 2, 5, 3))
    image = reshape(apart, (-1, units, rows * strides[0], columns * strides[1]))
    start = [c - f * s for c, f, s in zip(cut, first, strides)]
    return strided_slice(image, start, [a + n for a, n in zip(start, out_size)], axes=(2, 3))
