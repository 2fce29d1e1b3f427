"""Transposed convolution, as one stride-1 convolution per phase of the output: no product with an inserted zero.

An output position p (before cropping) of stride s is p = s·q + r. Only the kernel taps k = s·j + r meet it, and tap j
reads input q − j. So phase r is a stride-1 convolution with the taps of that phase, and the phases interleave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.nn.conv2d import finish, sum_dtype, workload
from tilewright.topi.nn.pad import pad
from tilewright.topi.shapes import transpose_output
from tilewright.topi.transform import injective
from tilewright.topi.util import constant_shape


def dilate(x: Tensor, dilation: Sequence[int]) -> Tensor:
    """x with dilation[d] - 1 zeros put between neighbours along dimension d; x itself if there are none."""
    if all(d == 1 for d in dilation):
        return x
    shape = [(s - 1) * d + 1 for s, d in zip(constant_shape(x), dilation)]

    def body(*indices: Any) -> Any:
        on_grid = [tir.eq(i % d, 0) for i, d in zip(indices, dilation) if d > 1]
        source = x(*[i // d for i, d in zip(indices, dilation)])
        return tir.if_then_else(tir.all(*on_grid), source, tir.const(0, x.dtype))

    return injective(shape, body, "dilate")


def phase_kernel(kernel: Tensor, strides: Sequence[int]) -> Tensor:
    """`kernel` [C, O, KH, KW] by phase: [SH, SW, C, O, JH, JW], zero where a phase has fewer taps than the longest."""
    c, o, kh, kw = constant_shape(kernel)
    jh, jw = -(-kh // strides[0]), -(-kw // strides[1])

    def body(r: Any, t: Any, ic: Any, oc: Any, j: Any, k: Any) -> Any:
        y, x = j * strides[0] + r, k * strides[1] + t
        inside = [y < kh] if kh % strides[0] else []
        inside += [x < kw] if kw % strides[1] else []
        value = kernel(ic, oc, y, x)
        return tir.if_then_else(tir.all(*inside), value, tir.const(0, kernel.dtype)) if inside else value

    return injective((strides[0], strides[1], c, o, jh, jw), body, "phase_kernel")


def conv2d_transpose_nchw(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    output_padding: Sequence[int] = (0, 0),
    out_dtype: str = "",
) -> Tensor:
    """Transposed convolution of `data` [N, C, H, W] with `kernel` [C, O/groups, KH, KW] to [N, O, OH, OW].

    Stages: phase_kernel, data_pad, conv2d_transpose_phases [N, O, SH, SW, QH, QW], conv2d_transpose_nchw (interleaves).
    """
    n, _, h, w = constant_shape(data)
    kernel = dilate(kernel, (1, 1, *dilation))
    _, ocg, kh, kw = constant_shape(kernel)
    sh, sw = strides
    oh = transpose_output(h, kh, sh, padding[0], padding[2], 1, output_padding[0])
    ow = transpose_output(w, kw, sw, padding[1], padding[3], 1, output_padding[1])
    weights = phase_kernel(kernel, strides)
    jh, jw = constant_shape(weights)[4:]
    first = (padding[0] // sh, padding[1] // sw)
    last = ((oh - 1 + padding[0]) // sh, (ow - 1 + padding[1]) // sw)
    qh, qw = last[0] - first[0] + 1, last[1] - first[1] + 1
    # Row q - j of the input for q from first[0] and j up to jh - 1: the padded row is q - j + before.
    before = (max(0, jh - 1 - first[0]), max(0, jw - 1 - first[1]))
    after = (max(0, last[0] - (h - 1)), max(0, last[1] - (w - 1)))
    padded = pad(data, (0, 0, *before), (0, 0, *after))
    phases = _phases(
        padded, weights, (n, groups * ocg, sh, sw, qh, qw), (first, before), groups, sum_dtype(data, out_dtype)
    )
    phases.op.attrs.update(workload(strides, padding, dilation, groups, output_padding=tuple(output_padding)))

    def interleave(b: Any, f: Any, y: Any, x: Any) -> Any:
        p, q = y + padding[0], x + padding[1]
        return phases(b, f, p % sh, q % sw, p // sh - first[0], q // sw - first[1])

    out = injective((n, groups * ocg, oh, ow), interleave, "conv2d_transpose_nchw")
    return finish(out, data, out_dtype)


def _phases(
    padded: Tensor,
    weights: Tensor,
    shape: Sequence[int],
    offsets: tuple[tuple[int, int], tuple[int, int]],
    groups: int,
    wide: str,
) -> Tensor:
    """Every phase of the output, as stride-1 convolutions of the padded data."""
    _, _, c, ocg, jh, jw = constant_shape(weights)
    (first_y, first_x), (before_y, before_x) = offsets
    icg = c // groups
    rc = te.reduce_axis((0, icg), name="ic")
    ry, rx = te.reduce_axis((0, jh), name="jh"), te.reduce_axis((0, jw), name="jw")

    def body(b: Any, f: Any, r: Any, t: Any, y: Any, x: Any) -> Any:
        channel = rc if groups == 1 else f // ocg * icg + rc
        filter_ = f if groups == 1 else f % ocg
        value = padded(b, channel, y - ry + (first_y + before_y), x - rx + (first_x + before_x))
        weight = weights(r, t, channel, filter_, ry, rx)
        return te.sum(value.astype(wide) * weight.astype(wide), axis=[rc, ry, rx])

    return te.compute(shape, body, name="conv2d_transpose_phases", tag=tag.CONV2D_TRANSPOSE)
