"""`tvm.topi` where the classic signature differs: `nn.conv2d` by layout, pooling by attributes, `utils`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir, topi
from tilewright.compat.relay.convolutions import pads, pool_pads, window_sizes
from tilewright.compat.tir.layout import BijectiveLayout
from tilewright.errors import InputError, UnsupportedError
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.topi.util import extents, four_sided


def get_const_int(expr: Any) -> int:
    """A constant as an int. Raises `InputError` where the expression has no constant value."""
    found = expr if isinstance(expr, int) else tir.as_const(Analyzer().simplify(tir.convert(expr)))
    if not isinstance(found, int):
        raise InputError(f"{expr!r} is no constant")
    return found


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[Any, ...]:
    """A shape with ints in place of constants; what is symbolic stays as it is."""
    found = [dim if isinstance(dim, int) else tir.as_const(Analyzer().simplify(tir.convert(dim))) for dim in in_tuple]
    return tuple(dim if value is None else value for dim, value in zip(in_tuple, found, strict=True))


def nchw_pack_layout(layout_info: str) -> bool:
    """True for the layout NCHWinic, whose batch is split as well."""
    return layout_info[:4] == "NCHW" and "c" in layout_info and "n" in layout_info and layout_info[4:-1].isalnum()


def nchw_xc_layout(layout_info: str) -> bool:
    """True for the layouts NCHWxc: NCHW4c, NCHW16c."""
    return layout_info[:4] == "NCHW" and layout_info[-1] == "c" and layout_info[4:-1].isdigit()


def prod(x: Sequence[Any]) -> Any:
    """The product of the elements; 1 of none."""
    result: Any = 1
    for factor in x:
        result = result * factor
    return result


def simplify(expr: Any) -> Any:
    """An equal expression, usually smaller; a number stays as it is."""
    return Analyzer().simplify(expr) if isinstance(expr, tir.Expr) else expr


def traverse_inline(s: te.Schedule, final_op: Any, callback: Callable[[Any], object]) -> None:
    """Inline the element by element operations before `final_op`, and call `callback` on each operation met."""
    visited: set[Any] = set()

    def visit(op: Any) -> None:
        if op in visited:
            return
        visited.add(op)
        if topi.tag.is_injective(op.tag):
            if op not in s.outputs:
                s[op].compute_inline()
            for tensor in op.input_tensors:
                if tensor.op.input_tensors:
                    visit(tensor.op)
        callback(op)

    visit(final_op)


def get_pad_tuple(padding: Any, kernel: Sequence[Any]) -> tuple[int, int, int, int]:
    """Padding as (top, left, bottom, right), from a number, 2 or 4 of them, "VALID" or "SAME" (for a stride of 1)."""
    if padding == "VALID":
        return (0, 0, 0, 0)
    if padding == "SAME":
        rows, columns = kernel[0] - 1, kernel[1] - 1
        return ((rows + 1) // 2, (columns + 1) // 2, rows // 2, columns // 2)
    if isinstance(padding, str):
        raise InputError(f'padding is a number, 2 or 4 of them, "VALID" or "SAME"; got {padding!r}')
    return four_sided(padding)


def get_pad_tuple3d(padding: Any, kernel: Sequence[Any]) -> tuple[int, ...]:
    """Padding as (front, top, left, back, bottom, right), from a number, 3 or 6 of them, "VALID" or "SAME"."""
    return pads(padding, get_const_tuple(kernel))


def _dilated(kernel: Sequence[Any], dilation: Any) -> list[Any]:
    """The sizes of a window whose elements stand `dilation` apart."""
    return [(size - 1) * step + 1 for size, step in zip(kernel, pair(dilation), strict=True)]


def pair(value: Any) -> tuple[int, int]:
    """Two numbers, from one or two."""
    return (value, value) if isinstance(value, int) else tuple(value)


def conv2d_nchw(
    Input: te.Tensor, Filter: te.Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: str | None = None
) -> te.Tensor:
    """Convolution of [N, C, H, W] with [O, C, KH, KW]."""
    pads = get_pad_tuple(padding, _dilated(get_const_tuple(Filter.shape[2:]), dilation))
    return topi.nn.conv2d_nchw(Input, Filter, pair(stride), pads, pair(dilation), 1, out_dtype or "")


def conv2d_nhwc(
    Input: te.Tensor, Filter: te.Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: str = ""
) -> te.Tensor:
    """Convolution of [N, H, W, C] with [KH, KW, C, O], by way of the channels-first one."""
    data, kernel = topi.transpose(Input, (0, 3, 1, 2)), topi.transpose(Filter, (3, 2, 0, 1))
    return topi.transpose(conv2d_nchw(data, kernel, stride, padding, dilation, out_dtype), (0, 2, 3, 1))


def conv2d(
    input: te.Tensor,
    filter: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    layout: str = "NCHW",
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolution in the layout NCHW (kernel OIHW) or NHWC (kernel HWIO). Raises `UnsupportedError` for others."""
    if layout not in ("NCHW", "NHWC"):
        raise UnsupportedError(f"topi.nn.conv2d: the layouts are NCHW and NHWC, not {layout}")
    function = conv2d_nchw if layout == "NCHW" else conv2d_nhwc
    return function(input, filter, strides, padding, dilation, out_dtype or "")


def depthwise_conv2d_nchw(
    Input: te.Tensor, Filter: te.Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: str | None = None
) -> te.Tensor:
    """Convolution of each channel of [N, C, H, W] with its own M kernels of [C, M, KH, KW]."""
    channels, factor, kh, kw = get_const_tuple(Filter.shape)
    kernel = topi.reshape(Filter, (channels * factor, 1, kh, kw))
    pads = get_pad_tuple(padding, _dilated((kh, kw), dilation))
    return topi.nn.conv2d_nchw(Input, kernel, pair(stride), pads, pair(dilation), channels, out_dtype or "")


def conv2d_transpose_nchw(
    Input: te.Tensor, Filter: te.Tensor, strides: Any, padding: Any, out_dtype: str = "", output_padding: Any = (0, 0)
) -> te.Tensor:
    """Transposed convolution of [N, C, H, W] with [C, O, KH, KW]."""
    pads = get_pad_tuple(padding, get_const_tuple(Filter.shape[2:]))
    return topi.nn.conv2d_transpose_nchw(
        Input, Filter, pair(strides), pads, output_padding=pair(output_padding), out_dtype=out_dtype
    )


def dense(data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None) -> te.Tensor:
    """data [M, K] times weight [N, K] transposed, plus a bias for each column."""
    product = topi.nn.dense(data, weight, out_dtype or "")
    return product if bias is None else topi.nn.bias_add(product, bias, 1)


def dilate(
    data: te.Tensor, strides: Sequence[int], dilation_value: float = 0.0, name: str = "DilatedInput"
) -> te.Tensor:
    """strides[d] - 1 elements of `dilation_value` between neighbours along dimension d."""
    return topi.nn.dilate(data, list(strides), dilation_value)


def pool2d(
    data: te.Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> te.Tensor:
    """Pooling over windows of an image, "max" or "avg"."""
    window, steps, apart, around = pair(kernel), pair(stride), pair(dilation), four_sided(padding)
    if ceil_mode:
        around = pool_pads(window_sizes(extents(data), layout), window, steps, apart, around)
    return topi.nn.pool2d(data, pool_type, window, steps, around, apart, False, count_include_pad, layout)


def pool(
    data: te.Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> te.Tensor:
    """`pool2d` as v0.7 and before spell it."""
    return pool2d(data, kernel, stride, 1, padding, pool_type, ceil_mode, layout, count_include_pad)


def get_shape(src_shape: Sequence[Any], src_layout: str, dst_layout: str) -> tuple[Any, ...]:
    """The shape in the layout `dst_layout` of an array whose shape in `src_layout` is `src_shape`."""
    bijective = BijectiveLayout(src_layout, dst_layout)
    return tuple(bijective.forward_shape(src_shape))


def get_pad_tuple1d(padding: Any, kernel: Sequence[Any]) -> tuple[int, ...]:
    """Padding as (left, right), from a number, 1 or 2 of them, "VALID" or "SAME"."""
    return pads(padding, get_const_tuple(kernel))


def global_pool(data: te.Tensor, pool_type: str, layout: str = "NCHW") -> te.Tensor:
    """The mean or maximum over all rows and columns."""
    return topi.nn.global_pool2d(data, pool_type, layout)


def adaptive_pool(data: te.Tensor, output_size: Sequence[int], pool_type: str, layout: str = "NCHW") -> te.Tensor:
    """Pooling over windows that divide the image into `output_size` parts."""
    return topi.nn.adaptive_pool2d(data, pool_type, output_size, layout)


def flip(a: te.Tensor, axis: int = 0) -> te.Tensor:
    """The elements along `axis` from the last to the first."""
    return topi.reverse(a, axis)


def elemwise_sum(xs: Sequence[te.Tensor]) -> te.Tensor:
    """The sum of tensors of one shape, element by element."""
    total = xs[0]
    for x in xs[1:]:
        total = topi.add(total, x)
    return total
