"""Transposed convolution as a direct reduction over the taps that meet an output: no product with an inserted zero.

Let p be an output position before cropping and s the stride. Only the kernel taps k = s·j + p % s meet it, and tap j
reads input p // s − j. The positions s·q + r of one r are a phase; each phase is a stride-1 convolution of its own, so
the result is computed as [..., q, r, ...] along each spatial axis and then interleaved, which moves no data when a
schedule computes a phase where it is interleaved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.nn.conv2d import finish, sum_dtype, workload
from tilewright.topi.nn.pad import pad
from tilewright.topi.shapes import Size, larger, simplified, transpose_output
from tilewright.topi.transform import injective
from tilewright.topi.util import extents


def dilate(x: Tensor, dilation: Sequence[int], value: float = 0) -> Tensor:
    """x with dilation[d] - 1 elements of `value` between neighbours along dimension d; x itself if there are none."""
    if all(d == 1 for d in dilation):
        return x
    shape = [(s - 1) * d + 1 for s, d in zip(extents(x), dilation)]

    def body(*indices: Any) -> Any:
        on_grid = [tir.eq(i % d, 0) for i, d in zip(indices, dilation) if d > 1]
        source = x(*[i // d for i, d in zip(indices, dilation)])
        return tir.if_then_else(tir.all(*on_grid), source, tir.const(value, x.dtype))

    return injective(shape, body, "dilate")


def whole_phases(kernel: Tensor, strides: Sequence[int], axes: tuple[int, int]) -> Tensor:
    """`kernel` continued with zeros along its two spatial `axes` to multiples of the strides: phases of equal taps."""
    shape = extents(kernel)
    after = [0] * len(shape)
    for axis, stride in zip(axes, strides):
        after[axis] = -shape[axis] % stride
    return pad(kernel, [0] * len(shape), after)


class _Taps:
    """The input and kernel elements read by the output positions of one spatial axis."""

    def __init__(self, size: Size, taps: int, stride: int, cut: tuple[int, int], extra: int, true_taps: int) -> None:
        self.out = transpose_output(size, true_taps, stride, *cut, 1, extra)
        self.stride, self.cut, self.per_phase = stride, cut[0], taps // stride
        # The last phase may be computed a little past the end; what it reads there is padding.
        first, last = cut[0] // stride, self.quotients - 1 + (stride - 1 + cut[0]) // stride
        self.before, self.after = larger(0, self.per_phase - 1 - first), larger(0, simplified(last - (size - 1)))

    @property
    def quotients(self) -> Size:
        """Extent of q: output positions of a phase."""
        return simplified((self.out + self.stride - 1) // self.stride)

    def read(self, q: Any, r: Any, j: Any) -> tuple[Any, Any]:
        """(index into the padded input, kernel tap) of tap `j` at the output position stride * q + r."""
        shifted = r + self.cut
        return q + shifted // self.stride - j + self.before, j * self.stride + shifted % self.stride


def _taps(
    sizes: Sequence[int],
    taps: Sequence[int],
    true_taps: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
) -> tuple[_Taps, _Taps]:
    """The taps along rows and columns; `taps` counts those that `whole_phases` added, `true_taps` does not."""
    rows, columns = (
        _Taps(sizes[i], taps[i], strides[i], (padding[i], padding[i + 2]), output_padding[i], true_taps[i])
        for i in range(2)
    )
    return rows, columns


def _present(
    taps: Sequence[Any], true_taps: Sequence[int], strides: Sequence[int], dilation: Sequence[int] = (1, 1)
) -> Any:
    """The condition that a tap is the kernel's own, not added by `whole_phases` or `dilate`; None if all are.

    Products of added taps would be zeros, but for an infinity or NaN in the data.
    """
    own = []
    for tap, size, stride, step in zip(taps, true_taps, strides, dilation, strict=True):
        if size % stride:
            own.append(tir.likely(tap < size))
        if step > 1:
            own.append(tir.eq(tap % step, 0))
    return tir.all(*own) if own else None


def conv2d_transpose_nchw(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    output_padding: Sequence[int] = (0, 0),
    out_dtype: str = "",
    kernel_layout: str = "IOHW",
) -> Tensor:
    """Transposed convolution of `data` [N, C, H, W] with `kernel` [C, O/groups, KH, KW] to [N, O, OH, OW].

    Without groups the kernel may also come as [O, C, KH, KW] (`kernel_layout` "OIHW").

    Stages: data_pad, conv2d_transpose_phases [N, O, QH, SH, SW, QW] with the reduction axes ic, jh, jw,
    conv2d_transpose_nchw, which interleaves the phases.
    """
    n, c, h, w = extents(data)
    kernel = dilate(kernel, (1, 1, *dilation))
    true_taps = extents(kernel)[2:]
    kernel = whole_phases(kernel, strides, (2, 3))
    ocg = extents(kernel)[kernel_layout.index("O")]
    rows, columns = _taps((h, w), extents(kernel)[2:], true_taps, strides, padding, output_padding)
    padded = pad(data, (0, 0, rows.before, columns.before), (0, 0, rows.after, columns.after))
    wide, icg = sum_dtype(data, out_dtype), c // groups
    rc = te.reduce_axis((0, icg), name="ic")
    ry, rx = te.reduce_axis((0, rows.per_phase), name="jh"), te.reduce_axis((0, columns.per_phase), name="jw")

    def body(b: Any, f: Any, y: Any, r: Any, t: Any, x: Any) -> Any:
        channel = rc if groups == 1 else f // ocg * icg + rc
        filter_ = f if groups == 1 else f % ocg
        (iy, ky), (ix, kx) = rows.read(y, r, ry), columns.read(x, t, rx)
        ends = (channel, filter_) if kernel_layout == "IOHW" else (filter_, channel)
        value, weight = padded(b, channel, iy, ix), kernel(*ends, ky, kx)
        present = _present((ky, kx), true_taps, strides, dilation)
        return te.sum(value.astype(wide) * weight.astype(wide), axis=[rc, ry, rx], where=present)

    phases = te.compute(
        (n, groups * ocg, rows.quotients, strides[0], strides[1], columns.quotients),
        body,
        name="conv2d_transpose_phases",
        tag=tag.CONV2D_TRANSPOSE,
        attrs=workload(strides, padding, dilation, groups, output_padding=tuple(output_padding)),
    )
    sh, sw = strides
    out = injective(
        (n, groups * ocg, rows.out, columns.out),
        lambda b, f, y, x: phases(b, f, y // sh, y % sh, x % sw, x // sw),
        "conv2d_transpose_nchw",
    )
    return finish(out, data, out_dtype)


def conv2d_transpose_NCHWc(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int] = (0, 0),
    out_dtype: str = "",
) -> Tensor:
    """The same of `data` [N, C/ib, H, W, ib] with `kernel` [O/ob, KH, KW, C/ib, ib, ob] to [N, O/ob, OH, OW, ob].

    Stages: data_pad, conv2d_transpose_phases [N, O/ob, QH, SH, SW, QW, ob] with the reduction axes jh, jw, ic_outer,
    ic_inner, and conv2d_transpose_NCHWc, which interleaves the phases. A tap's weights of all channels lie together, as
    those of a phase are some taps of many.
    """
    n, ico, h, w, ib = extents(data)
    true_taps = extents(kernel)[1:3]
    kernel = whole_phases(kernel, strides, (1, 2))
    oco, *taps, _, _, ob = extents(kernel)
    rows, columns = _taps((h, w), taps, true_taps, strides, padding, output_padding)
    padded = pad(data, (0, 0, rows.before, columns.before, 0), (0, 0, rows.after, columns.after, 0))
    wide = sum_dtype(data, out_dtype)
    outer, inner = te.reduce_axis((0, ico), name="ic_outer"), te.reduce_axis((0, ib), name="ic_inner")
    ry, rx = te.reduce_axis((0, rows.per_phase), name="jh"), te.reduce_axis((0, columns.per_phase), name="jw")

    def body(b: Any, f: Any, y: Any, r: Any, t: Any, x: Any, block: Any) -> Any:
        (iy, ky), (ix, kx) = rows.read(y, r, ry), columns.read(x, t, rx)
        value, weight = padded(b, outer, iy, ix, inner), kernel(f, ky, kx, outer, inner, block)
        present = _present((ky, kx), true_taps, strides)
        return te.sum(value.astype(wide) * weight.astype(wide), axis=[ry, rx, outer, inner], where=present)

    phases = te.compute(
        (n, oco, rows.quotients, strides[0], strides[1], columns.quotients, ob),
        body,
        name="conv2d_transpose_phases",
        tag=tag.CONV2D_TRANSPOSE_NCHWC,
        attrs=workload(strides, padding, (1, 1), 1, output_padding=tuple(output_padding)),
    )
    sh, sw = strides
    out = injective(
        (n, oco, rows.out, columns.out, ob),
        lambda b, f, y, x, block: phases(b, f, y // sh, y % sh, x % sw, x // sw, block),
        "conv2d_transpose_NCHWc",
    )
    return finish(out, data, out_dtype)
