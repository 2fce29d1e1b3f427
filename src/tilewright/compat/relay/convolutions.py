"""Descriptions (see `through_relay`) of classic `topi.nn` convolutions.

Each function takes Relay expressions in place of tensors; the other arguments are the classic ones, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.compat.relay import stated_sizes
from tilewright.compat.tables.signatures import by_classic_parameters
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.support.named import named
from tilewright.topi.layout import parse_layout
from tilewright.topi.util import sides

nn = op.nn


def spread(value: Any, rank: int) -> tuple[int, ...]:
    """`rank` numbers, from one or as many."""
    return (int(value),) * rank if isinstance(value, int) else tuple(int(v) for v in value)


def pads(padding: Any, window: Sequence[int]) -> tuple[int, ...]:
    """Padding before, then after, each axis; of a number, one or two an axis, "VALID" or "SAME" (for a stride of 1)."""
    rank = len(window)
    if padding == "VALID":
        return (0,) * (2 * rank)
    if padding == "SAME":
        return (*[size // 2 for size in window], *[(size - 1) // 2 for size in window])
    if isinstance(padding, str):
        raise InputError(f'padding is a number, {rank} or {2 * rank} of them, "VALID" or "SAME"; got {padding!r}')
    return sides(padding, rank)


def pool_pads(
    sizes: Sequence[Any], window: Sequence[int], strides: Sequence[int], dilation: Sequence[int], padding: Sequence[int]
) -> tuple[Any, ...]:
    """`padding` of a pooling with what the last windows of the classic `ceil_mode` reach beyond it: no mode is left.

    Classic windows that begin in the padding behind the data count; this package, like others, leaves them out.
    """
    rank = len(window)
    edges = zip(sizes, window, strides, dilation, padding[:rank], padding[rank:], strict=True)
    after = []
    for size, kernel, stride, step, before, behind in edges:
        span = size + before + behind - (kernel - 1) * step - 1
        after.append(behind + (-span) % stride)
    return (*padding[:rank], *after)


def window_sizes(shape: Sequence[Any], layout: str) -> list[Any]:
    """The sizes of the axes of an array in `layout` that windows move along."""
    return [size for size, (letter, _) in zip(shape, parse_layout(layout).axes, strict=True) if letter in "DHW"]


def _window(kernel: Expr, layout: str, dilation: Sequence[int]) -> list[int]:
    axes = [position for position, letter in enumerate(layout) if letter in "DHW"]
    sizes = [tensor_type_of(kernel).shape[position] for position in axes]
    return [(size - 1) * step + 1 for size, step in zip(sizes, dilation, strict=True)]


def _convolution(
    build: Any,
    data: Expr,
    kernel: Expr,
    layouts: Sequence[str],
    stride: Any,
    padding: Any,
    dilation: Any,
    **more: Any,
) -> Expr:
    rank = len(layouts[0]) - 2
    steps = spread(dilation, rank)
    given = pads(padding, _window(kernel, layouts[1], steps))
    more["out_dtype"] = more.get("out_dtype") or ""
    dtypes = [str(tensor_type_of(one).dtype) for one in (data, kernel)]
    if not more["out_dtype"] and dtypes[0] != dtypes[1]:  # the result is of the data's type
        kernel = op.cast(kernel, dtypes[0])
    return build(
        data, kernel, spread(stride, rank), given, steps, data_layout=layouts[0], kernel_layout=layouts[1], **more
    )


def _named(build: Callable[..., Expr], name: str, layouts: Sequence[str]) -> Any:
    return named(build, name, f"Data in {layouts[0]} with kernels in {layouts[1]}.")


def _plain(name: str, own: Any, *layouts: str) -> Any:
    def convolution(
        data: Expr, kernel: Expr, strides: Any = 1, padding: Any = "VALID", dilation: Any = 1, out_dtype: Any = None
    ) -> Expr:
        return _convolution(own, data, kernel, layouts, strides, padding, dilation, out_dtype=out_dtype)

    return _named(convolution, name, layouts)


def _grouped(name: str, own: Any, *layouts: str) -> Any:
    def convolution(
        data: Expr, kernel: Expr, strides: Any = 1, padding: Any = "VALID", dilation: Any = 1, groups: int = 1,
        out_dtype: Any = None,
    ) -> Expr:  # fmt: skip
        more = {"groups": groups, "out_dtype": out_dtype}
        return _convolution(own, data, kernel, layouts, strides, padding, dilation, **more)

    return _named(convolution, name, layouts)


def _transposed(name: str, own: Any, *layouts: str) -> Any:
    def convolution(
        data: Expr, kernel: Expr, strides: Any, padding: Any, out_dtype: Any = "", output_padding: Any = 0,
        groups: int = 1,
    ) -> Expr:  # fmt: skip
        more = {"groups": groups, "out_dtype": out_dtype}
        after = spread(output_padding, len(layouts[0]) - 2)
        return _convolution(own, data, kernel, layouts, strides, padding, 1, output_padding=after, **more)

    return _named(convolution, name, layouts)


conv1d_ncw, conv1d_nwc = _plain("conv1d_ncw", nn.conv1d, "NCW", "OIW"), _plain("conv1d_nwc", nn.conv1d, "NWC", "WIO")
group_conv1d_ncw = _grouped("group_conv1d_ncw", nn.conv1d, "NCW", "OIW")
group_conv1d_nwc = _grouped("group_conv1d_nwc", nn.conv1d, "NWC", "WIO")
conv2d_nchw = _plain("conv2d_nchw", nn.conv2d, "NCHW", "OIHW")
conv2d_nhwc = _plain("conv2d_nhwc", nn.conv2d, "NHWC", "HWIO")
group_conv2d_nchw = _grouped("group_conv2d_nchw", nn.conv2d, "NCHW", "OIHW")
group_conv2d_nhwc = _grouped("group_conv2d_nhwc", nn.conv2d, "NHWC", "HWIO")
conv3d_ncdhw = _grouped("conv3d_ncdhw", nn.conv3d, "NCDHW", "OIDHW")
conv3d_ndhwc = _grouped("conv3d_ndhwc", nn.conv3d, "NDHWC", "DHWIO")
conv1d_transpose_ncw = _transposed("conv1d_transpose_ncw", nn.conv1d_transpose, "NCW", "IOW")
group_conv2d_transpose_nchw = _transposed("group_conv2d_transpose_nchw", nn.conv2d_transpose, "NCHW", "IOHW")
conv3d_transpose_ncdhw = _transposed("conv3d_transpose_ncdhw", nn.conv3d_transpose, "NCDHW", "IODHW")


def conv1d(
    data: Expr,
    kernel: Expr,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: Any = None,
) -> Expr:
    """In the layout NCW or NWC."""
    layouts = (data_layout, kernel_layout or ("OIW" if data_layout == "NCW" else "WIO"))
    return _convolution(nn.conv1d, data, kernel, layouts, strides, padding, dilation, out_dtype=out_dtype)


def conv2d(
    input: Expr, filter: Expr, strides: Any, padding: Any, dilation: Any, layout: str = "NCHW", out_dtype: Any = None
) -> Expr:
    """In the layout NCHW (kernel OIHW) or NHWC (kernel HWIO). Raises `UnsupportedError` for others."""
    if layout not in ("NCHW", "NHWC"):
        raise UnsupportedError(f"topi.nn.conv2d: the layouts are NCHW and NHWC, not {layout}")
    return (conv2d_nchw if layout == "NCHW" else conv2d_nhwc)(input, filter, strides, padding, dilation, out_dtype)


def conv2d_transpose_nhwc_python(
    a_nhwc: Expr, weight: Expr, weight_format: str, stride: Any, padding: Any, output_padding: Any = 0
) -> Expr:
    """Transposed: [N, H, W, C]; `weight_format` names the kernel's axes, such as "HWIO"."""
    data, kernel = (op.transpose(a_nhwc, (0, 3, 1, 2)), op.transpose(weight, [weight_format.index(x) for x in "IOHW"]))
    made = group_conv2d_transpose_nchw(data, kernel, stride, padding, "", output_padding)
    return op.transpose(made, (0, 2, 3, 1))


def conv2d_hwcn(Input: Expr, Filter: Expr, stride: Any, padding: Any, dilation: Any = 1, out_dtype: Any = None) -> Expr:
    """[H, W, C, N] with [KH, KW, C, O], to [H, W, O, N]."""
    first, kernel = op.transpose(Input, (3, 2, 0, 1)), op.transpose(Filter, (3, 2, 0, 1))
    made = group_conv2d_nchw(first, kernel, stride, padding, dilation, 1, out_dtype)
    return op.transpose(made, (2, 3, 1, 0))


def depthwise_conv2d_nchw(
    Input: Expr, Filter: Expr, stride: Any, padding: Any, dilation: Any = 1, out_dtype: Any = None
) -> Expr:
    """Each channel of [N, C, H, W] with its own M kernels of [C, M, KH, KW]."""
    channels, factor, *window = tensor_type_of(Filter).shape
    kernel = op.reshape(Filter, (channels * factor, 1, *window))
    return group_conv2d_nchw(Input, kernel, stride, padding, dilation, channels, out_dtype)


def depthwise_conv2d_nhwc(
    Input: Expr,
    Filter: Expr,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    kernel_layout: str = "HWOI",
    out_dtype: Any = None,
) -> Expr:
    """Each channel of [N, H, W, C] with its own M kernels of [KH, KW, C, M]."""
    if kernel_layout != "HWOI":
        raise InputError(f"topi.nn.depthwise_conv2d_nhwc: the kernel's layout is HWOI, not {kernel_layout}")
    rows, columns, channels, factor = tensor_type_of(Filter).shape
    kernel = op.reshape(Filter, (rows, columns, 1, channels * factor))
    return group_conv2d_nhwc(Input, kernel, stride, padding, dilation, channels, out_dtype)


def _deformable(name: str, *layouts: str) -> Any:
    def convolution(
        data: Expr,
        offset: Expr,
        kernel: Expr,
        strides: Any,
        padding: Any,
        dilation: Any,
        deformable_groups: int,
        groups: int,
        out_dtype: Any = None,
    ) -> Expr:
        apart = spread(dilation, 2)
        around = pads(padding, _window(kernel, layouts[1], apart))
        return stated_sizes.deformable_conv2d(
            data, offset, kernel, spread(strides, 2), around, apart, deformable_groups, groups,
            data_layout=layouts[0], kernel_layout=layouts[1], out_dtype=out_dtype or "",
        )  # fmt: skip

    return named(convolution, name, f"{layouts[0]} sampled at offsets, with kernels in {layouts[1]}.")


deformable_conv2d_nchw = _deformable("deformable_conv2d_nchw", "NCHW", "OIHW")
deformable_conv2d_nhwc = _deformable("deformable_conv2d_nhwc", "NHWC", "HWIO")


def _bitserial(data_layout: str, kernel_layout: str) -> Callable[..., Expr]:
    name = f"bitserial_conv2d_{data_layout.lower()}"

    @by_classic_parameters(f"tvm.topi.nn.{name}")
    def build(data: Expr, kernel: Expr, stride: Any, padding: Any, pack_dtype: str, **more: Any) -> Expr:
        around = pads(padding, _window(kernel, kernel_layout, (1, 1)))
        more |= {"data_layout": data_layout, "kernel_layout": kernel_layout}
        return nn.bitserial_conv2d(data, kernel, spread(stride, 2), around, **more)

    return named(build, name, f"Convolution of numbers of few bits, in {data_layout} with {kernel_layout}.")


bitserial_conv2d_nchw = _bitserial("NCHW", "OIHW")
bitserial_conv2d_nhwc = _bitserial("NHWC", "HWIO")
