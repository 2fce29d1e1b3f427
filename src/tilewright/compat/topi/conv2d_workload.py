"""Descriptions of convolutions for classic schedules, which programs ask for by private names."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright import te
from tilewright.autotvm.template.entities import OtherOptionEntity, SplitEntity
from tilewright.compat.target.target import Target
from tilewright.compat.topi.ops import get_const_tuple, get_pad_tuple
from tilewright.errors import UnsupportedError


class Conv2DWorkload(NamedTuple):
    """A convolution of an image of `height` x `width` x `in_filter`; padding and strides by side, output type last."""

    in_dtype: str
    out_dtype: str
    height: int
    width: int
    in_filter: int
    groups: int
    out_filter: int
    kernel_h: int
    kernel_w: int
    padt: int
    padl: int
    padb: int
    padr: int
    dilation_h: int
    dilation_w: int
    stride_h: int
    stride_w: int


def _get_workload(
    data: te.Tensor,
    kernel: te.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str,
    data_layout: str = "NCHW",
) -> Conv2DWorkload:
    """The workload of `data` in NCHW or NHWC with `kernel` in OIHW or HWIO. Raises `UnsupportedError` for others."""
    if data_layout not in ("NCHW", "NHWC"):
        raise UnsupportedError(f"the layouts of a convolution's workload are NCHW and NHWC, not {data_layout}")
    first = data_layout == "NCHW"
    shape, window = get_const_tuple(data.shape), get_const_tuple(kernel.shape)
    channels, height, width = shape[1:] if first else (shape[3], shape[1], shape[2])
    out_filter, in_filter, kernel_h, kernel_w = window if first else (window[3], window[2], window[0], window[1])
    strides, dilations = [(value, value) if isinstance(value, int) else tuple(value) for value in (stride, dilation)]
    types = (str(data.dtype), str(out_dtype or data.dtype))
    sizes = (height, width, channels, channels // in_filter, out_filter, kernel_h, kernel_w)
    effective = ((kernel_h - 1) * dilations[0] + 1, (kernel_w - 1) * dilations[1] + 1)
    sides = get_pad_tuple(padding, effective)
    return Conv2DWorkload(*types, *sizes, *sides, *dilations, *strides)


#: The most columns of the result that a fallback configuration keeps in registers.
_MOST_COLUMNS = 31


def _fallback_schedule(cfg: Any, wkl: Conv2DWorkload) -> None:
    """Put the configuration that a workload gets without tuning into `cfg`: blocks of channels and columns.

    A block of channels is at most a vector register of the current target wide; every block divides what it is of.
    """
    target = Target.current() or Target("llvm")
    lanes = target.machine.lanes()
    effective = (wkl.kernel_w - 1) * wkl.dilation_w + 1
    columns = (wkl.width + wkl.padl + wkl.padr - effective) // wkl.stride_w + 1
    out_block = _largest_divisor(wkl.out_filter, lanes)
    for name, whole, block in (
        ("tile_ic", wkl.in_filter, _largest_divisor(wkl.in_filter, out_block)),
        ("tile_oc", wkl.out_filter, out_block),
        ("tile_ow", columns, _largest_divisor(columns, _MOST_COLUMNS)),
    ):
        cfg[name] = SplitEntity([whole // block, block])
    cfg["unroll_kw"] = OtherOptionEntity(False)


def _largest_divisor(number: int, most: int) -> int:
    return next(divisor for divisor in range(most, 0, -1) if number % divisor == 0)
