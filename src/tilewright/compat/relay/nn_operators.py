"""Descriptions (see `through_relay`) of classic `topi.nn` operators: pooling, rearrangements, losses.

Each function takes Relay expressions in place of tensors; the other arguments are the classic ones, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.compat.relay.convolutions import pads, pool_pads, spread, window_sizes
from tilewright.compat.tables.signatures import by_classic_parameters
from tilewright.errors import InputError
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.support.named import named
from tilewright.topi.layout import parse_layout

nn = op.nn


def _pool(
    rank: int, data: Expr, kernel: Any, stride: Any, dilation: Any, padding: Any, pool_type: str, more: dict[str, Any]
) -> Expr:
    if pool_type not in ("avg", "max"):
        raise InputError(f'pool_type is "avg" or "max"; got {pool_type!r}')
    build = getattr(nn, f"{pool_type}_pool{rank}d")
    if pool_type == "max":
        more.pop("count_include_pad", None)
    window, steps, apart = spread(kernel, rank), spread(stride, rank), spread(dilation, rank)
    positions = pads(padding, window)
    if more.pop("ceil_mode", False):
        positions = pool_pads(window_sizes(tensor_type_of(data).shape, more["layout"]), window, steps, apart, positions)
    return build(data, window, steps, apart, positions, **more)


def _pooling(rank: int, doc: str) -> Callable[..., Expr]:
    @by_classic_parameters(f"tvm.topi.nn.pool{rank}d")
    def build(data: Expr, kernel: Any, stride: Any, dilation: Any, padding: Any, pool_type: str, **more: Any) -> Expr:
        return _pool(rank, data, kernel, stride, dilation, padding, pool_type, more)

    return named(build, f"pool{rank}d", doc)


pool1d = _pooling(1, "Pooling over windows of a row.")
pool2d = _pooling(2, "Pooling over windows of an image.")
pool3d = _pooling(3, "Pooling over windows of a volume.")


def pool(data: Expr, kernel: Any, stride: Any, padding: Any, pool_type: str, *more: Any, **options: Any) -> Expr:
    """`pool2d` as v0.7 and before spell it, without a dilation."""
    return pool2d(data, kernel, stride, 1, padding, pool_type, *more, **options)


def poolnd_python(
    np_data: Expr,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding_before: Sequence[int],
    padding_after: Sequence[int],
    pool_type: str,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    dtype: str = "float32",
    layout: str = "",
) -> Expr:
    """Pooling over windows of 1, 2 or 3 dimensions; padding that is included counts as zeros, for "max" too."""
    rank = len(kernel)
    more: dict[str, Any] = {"layout": layout or {1: "NCW", 2: "NCHW", 3: "NCDHW"}[rank]}
    pad: tuple[Any, ...] = (*padding_before, *padding_after)
    sizes = window_sizes(tensor_type_of(np_data).shape, more["layout"])
    if ceil_mode:
        pad = pool_pads(sizes, kernel, strides, dilation, pad)
    if pool_type == "avg":
        more["count_include_pad"] = count_include_pad
    elif count_include_pad:
        positions = iter(zip(pad[:rank], pad[rank:], strict=True))
        widths = [next(positions) if letter in "DHW" else (0, 0) for letter, _ in parse_layout(more["layout"]).axes]
        np_data, pad = nn.pad(np_data, widths, 0.0), (0,) * (2 * rank)
    return op.cast(_pool(rank, np_data, kernel, strides, dilation, pad, pool_type, more), dtype)


def adaptive_pool3d(data: Expr, output_size: Sequence[int], pool_type: str, layout: str = "NCDHW") -> Expr:
    """Pooling over windows that divide the volume into `output_size` parts."""
    build = {"avg": nn.adaptive_avg_pool3d, "max": nn.adaptive_max_pool3d}[pool_type]
    return build(data, output_size, layout)


def pool_grad(
    grads: Expr,
    data: Expr,
    kernel: Any,
    stride: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Expr:
    """The gradient of 2d pooling in its data."""
    window = spread(kernel, 2)
    steps, around = spread(stride, 2), pads(padding, window)
    if ceil_mode:
        around = pool_pads(window_sizes(tensor_type_of(data).shape, layout), window, steps, (1, 1), around)
    positions = (window, steps, around, (1, 1), layout)
    if pool_type == "max":
        return nn.max_pool2d_grad(grads, data, *positions)
    return nn.avg_pool2d_grad(grads, data, *positions, count_include_pad=count_include_pad)


@by_classic_parameters("tvm.topi.testing.pool_grad_nchw")
def pool_grad_nchw(a_np: Expr, out_grad_np: Expr, pool_size: Any, strides: Any, **more: Any) -> Expr:
    """The same with the arguments of its reference."""
    return pool_grad(out_grad_np, a_np, pool_size, strides, **more)


def space_to_batch_nd(
    data: Expr, block_shape: Sequence[int], pad_before: Sequence[int], pad_after: Sequence[int], pad_value: float = 0
) -> Expr:
    """Blocks of the padded dimensions after the first as batches."""
    paddings = list(zip(pad_before, pad_after, strict=True))
    return nn.space_to_batch_nd(data, list(block_shape), paddings, pad_value)


def batch_to_space_nd(
    data: Expr, block_shape: Sequence[int], crop_begin_list: Sequence[int], crop_end_list: Sequence[int]
) -> Expr:
    """Batches as blocks of the dimensions after the first, which are then cropped."""
    return nn.batch_to_space_nd(data, list(block_shape), list(zip(crop_begin_list, crop_end_list, strict=True)))


def scale_shift_nchw(Input: Expr, Scale: Expr, Shift: Expr) -> Expr:
    """Input * Scale + Shift, one of each a channel."""
    scale, shift = (op.expand_dims(x, axis=1, num_newaxis=2) for x in (Scale, Shift))
    return Input * scale + shift


def scale_shift_nhwc(Input: Expr, Scale: Expr, Shift: Expr) -> Expr:
    """Input * Scale + Shift, one of each a channel, which are last."""
    return Input * Scale + Shift


def matmul(a: Expr, b: Expr, transp_a: bool = False, transp_b: bool = False) -> Expr:
    """The product of two matrices, each transposed first on request."""
    return nn.matmul(a, b, "", transp_a, transp_b)


def sparse_add(
    dense_data: Expr, sparse_data: Expr, sparse_indices: Expr, sparse_indptr: Expr
) -> Expr:  # fmt: skip
    """A matrix plus a sparse one in the form CSR."""
    return nn.sparse_add(dense_data, (sparse_data, sparse_indices, sparse_indptr))


def sparse_transpose(sparse_data: Expr, sparse_indices: Expr, sparse_indptr: Expr) -> Expr:
    """The transpose of a sparse matrix in the form CSR or BSR."""
    return nn.sparse_transpose((sparse_data, sparse_indices, sparse_indptr))


def batch_matmul(
    tensor_a: Expr,
    tensor_b: Expr,
    oshape: Any = None,
    out_dtype: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Expr:
    """Products of pairs of matrices."""
    return nn.batch_matmul(tensor_a, tensor_b, out_dtype or "", transpose_a, transpose_b)
