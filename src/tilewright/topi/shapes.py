"""Arithmetic of window shapes that types, references and computes share."""

from __future__ import annotations

from collections.abc import Sequence


def conv_output(size: int, kernel: int, stride: int, before: int, after: int, dilation: int) -> int:
    """Output extent of a convolution along one axis; below 1 if the kernel does not fit."""
    return (size + before + after - (kernel - 1) * dilation - 1) // stride + 1


def pool_output(size: int, kernel: int, stride: int, before: int, after: int, dilation: int, ceil_mode: bool) -> int:
    """Output extent of a pooling along one axis.

    With `ceil_mode` a last window that is only partly inside counts, unless it would start in the padding after.
    """
    span = size + before + after - (kernel - 1) * dilation - 1
    if not ceil_mode:
        return span // stride + 1
    out = -(-span // stride) + 1
    return out - 1 if (out - 1) * stride >= size + before else out


def transpose_output(
    size: int, kernel: int, stride: int, before: int, after: int, dilation: int, output_padding: int
) -> int:
    """Output extent of a transposed convolution along one axis."""
    return (size - 1) * stride + (kernel - 1) * dilation + 1 + output_padding - before - after


def adaptive_window(index: int, size: int, out: int) -> tuple[int, int]:
    """The half-open range of the `size` inputs that output `index` of `out` averages in adaptive pooling."""
    return index * size // out, -(-(index + 1) * size // out)


def slice_bounds(
    shape: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None,
    axes: Sequence[int] | None,
) -> list[tuple[int, int, int]]:
    """(first index, stride, count) of every dimension of a strided slice with Python's (and ONNX's) clamping.

    Negative `begin` and `end` count from the back; `axes` None means the first `len(begin)` dimensions.
    """
    bounds = [(0, 1, size) for size in shape]
    steps = list(strides) if strides else [1] * len(begin)
    if len(steps) == 1:
        steps = steps * len(begin)
    for axis, first, last, step in zip(axes if axes is not None else range(len(begin)), begin, end, steps):
        start, stop, step = slice(first, last, step).indices(shape[axis])
        bounds[axis] = (start, step, len(range(start, stop, step)))
    return bounds
