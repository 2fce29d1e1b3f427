"""Direct convolution with channels innermost, as devices with matrix instructions read images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.nn.conv2d import finish, output_size, sum_dtype, workload
from tilewright.topi.nn.pad import pad
from tilewright.topi.util import extents


def conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    out_dtype: str = "",
) -> Tensor:
    """Convolution of `data` [N, H, W, C] with `kernel` [O, KH, KW, C] to [N, OH, OW, O]; one group.

    Stages: data_pad (left out without padding), conv2d_nhwc with the reduction axes kh, kw, ic.
    """
    n, h, w, channels = extents(data)
    o, kh, kw, _ = extents(kernel)
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    top, left, bottom, right = padding
    read = pad(data, (0, top, left, 0), (0, bottom, right, 0))
    wide = sum_dtype(data, out_dtype)
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")
    rc = te.reduce_axis((0, channels), name="ic")

    def body(b: Any, y: Any, x: Any, f: Any) -> Any:
        value = read(b, y * strides[0] + ry * dilation[0], x * strides[1] + rx * dilation[1], rc)
        return te.sum(value.astype(wide) * kernel(f, ry, rx, rc).astype(wide), axis=[ry, rx, rc])

    attrs = workload(strides, padding, dilation, 1)
    out = te.compute((n, oh, ow, o), body, name="conv2d_nhwc", tag=tag.CONV2D_NHWC, attrs=attrs)
    return finish(out, data, out_dtype)
