"""Products of bytes with sums in int32, as `transform.dot_products` writes them for processors that have them.

Those of bfloat16, which `transform.bfloat16_products` writes, have sums in float32 and two inputs side by side. Others
are uint8 or int8 and weights the other or int8, as the processor's instruction wants; weights hold four inputs side by
side (`topi/nn/dot_product.py`). Of data in int16 they hold two. Zero points are no part of these operators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import work
from tilewright.relay.op.common import Types, call, require, same_dim, same_dims, tensors, windows_along
from tilewright.relay.op.layout_rules import dot_conv2d_layout
from tilewright.tir.dot_product import SUMS
from tilewright.tir.table_lookup import ENTRIES
from tilewright.topi.layout import transform_shape
from tilewright.topi.reference import conv as conv_ref
from tilewright.topi.reference import nn as ref
from tilewright.topi.reference.layout import layout_transform
from tilewright.topi.util import four_sided, pair

_BYTES = ("uint8", "int8")

#: Types of data that are multiplied by bytes.
_DATA = (*_BYTES, "int16")


def _check_types(kind: str, data: TensorType, weight: TensorType) -> None:
    """Refuse operands that products of this kind ("int8" of any bytes) do not take."""
    if kind == "int8":
        for type_, known in ((data, _DATA), (weight, _BYTES)):
            require(str(type_.dtype) in known, f"it multiplies {', '.join(_DATA)} by int8 and uint8, not {type_.dtype}")
    else:
        require({str(data.dtype), str(weight.dtype)} == {kind}, f"it multiplies {kind}, not {data.dtype}")


# ------------------------------------------------------------------------------------------------------ matrices
def _dense_type(types: Types, attrs: Attrs, kind: str) -> Type:
    data, weight, *order = tensors(types)
    _check_types(kind, data, weight)
    units, depth = transform_shape(weight.shape, attrs["weight_layout"], "NC")
    require(data.ndim >= 2, "the data needs at least two dimensions; reshape a vector to one row")
    fits = same_dim(data.shape[-1], depth)
    for table in order:
        wanted = (weight.shape[0], depth)
        require(same_dims(table.shape, wanted), f"the order of the depth is {table.shape}, the weight takes {wanted}")
    require(fits, f"the data has {data.shape[-1]} columns, the weight {weight.shape} takes {depth}")
    leading = attrs["leading"] or data.shape[:-1]
    return TensorType((*leading, attrs["units"] or units), SUMS[kind][1])


def _dense_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    data, weight, *order = inputs
    return [topi.nn.dense_dot(data, weight, attrs["in_pairs"], attrs["leading"], attrs["units"], *order)]


def _dense_reference(attrs: Attrs, data: np.ndarray, weight: np.ndarray, *order: np.ndarray) -> np.ndarray:
    sums = SUMS[str(data.dtype)][1]
    panels = [(data, weight)]
    if order:
        panels = [(in_order(data, own), weight[panel : panel + 1]) for panel, own in enumerate(order[0])]
    products = [ref.dense(x, layout_transform(w, attrs["weight_layout"], "NC"), out_dtype=sums) for x, w in panels]
    whole = np.concatenate(products, axis=-1)
    if not attrs["leading"]:
        return whole[..., : attrs["units"] or None]
    return whole[: math.prod(attrs["leading"]), : attrs["units"] or None].reshape(*attrs["leading"], -1)


for _name, _kind, _inputs in (
    ("int8", "int8", 2), ("int8_ordered", "int8", 3), ("bfloat16", "bfloat16", 2), ("float16", "float16", 2)
):  # fmt: skip
    register(
        f"nn.contrib_dense_{_name}",
        num_inputs=_inputs,
        type_rule=partial(_dense_type, kind=_kind),
        compute=_dense_compute,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        reference=_dense_reference,
        flops=work.product,
        attributes={
            "weight_layout": attr.text(),
            "in_pairs": attr.flag(False),
            "leading": attr.integers(default=()),
            "units": attr.integer(0),
        },
    )


def contrib_dense_int8(
    data: Expr, weight: Expr, weight_layout: str, in_pairs: bool = False, leading: Sequence[int] = ()
) -> Call:
    """`data` [..., K] times the transpose of `weight`, [N/b, K/4, b, 4] in layout ``"NC{b}n4c"``: int32 [..., N].

    With `leading` axes the result has these instead of those of `data` [R, K].
    """
    attrs = {"weight_layout": weight_layout, "in_pairs": in_pairs, "leading": tuple(leading)}
    return call("nn.contrib_dense_int8", data, weight, **attrs)


def in_order(data: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The columns of `data` [..., K] in an order [K] (`topi.nn.dot_product.ordered_byte`)."""
    moved = data[..., np.arange(len(order)) // ENTRIES * ENTRIES + order % ENTRIES]
    return np.where(order >= ENTRIES, 255 - moved, moved)


def contrib_dense_int8_ordered(
    data: Expr, weight: Expr, order: Expr, weight_layout: str, leading: Sequence[int] = ()
) -> Call:
    """The same in pairs of uint8, each panel with its own `order` [N/b, K] of the depth, uint8 (`in_order`)."""
    attrs = {"weight_layout": weight_layout, "in_pairs": True, "leading": tuple(leading)}
    return call("nn.contrib_dense_int8_ordered", data, weight, order, **attrs)


def contrib_dense_bfloat16(
    data: Expr, weight: Expr, weight_layout: str, leading: Sequence[int] = (), units: int = 0
) -> Call:
    """The same of bfloat16, [N/b, K/2, b, 2] in layout ``"NC{b}n2c"``: float32, the first `units` columns (0: all).

    With `leading` axes the result has these instead of those of `data` [R, K], whose first rows they are.
    """
    name = "nn.contrib_dense_bfloat16"
    return call(name, data, weight, weight_layout=weight_layout, leading=tuple(leading), units=units)


def contrib_dense_float16(
    data: Expr, weight: Expr, weight_layout: str, leading: Sequence[int] = (), units: int = 0
) -> Call:
    """The same of float16; sums of a few products are in float16 (`backend/cpu/schedule/half_intrin.py`)."""
    name = "nn.contrib_dense_float16"
    return call(name, data, weight, weight_layout=weight_layout, leading=tuple(leading), units=units)


def _batch_matmul_type(types: Types, attrs: Attrs) -> Type:
    a, b = tensors(types)
    _check_types("int8", a, b)
    batch, columns, depth = transform_shape(b.shape, attrs["layout"], "BNC")
    require(a.ndim == 3 and same_dim(a.shape[2], depth), f"stacks {a.shape} and {b.shape} do not run over equal depths")
    require(1 in (a.shape[0], batch) or same_dim(a.shape[0], batch), f"{a.shape[0]} and {batch} matrices")
    return TensorType((batch if a.shape[0] == 1 else a.shape[0], a.shape[1], columns), "int32")


def _batch_matmul_reference(attrs: Attrs, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ref.batch_matmul(a, layout_transform(b, attrs["layout"], "BNC"), out_dtype="int32")


register(
    "nn.contrib_batch_matmul_int8",
    num_inputs=2,
    type_rule=_batch_matmul_type,
    compute=lambda _attrs, inputs, _out: [topi.nn.batch_matmul_dot(*inputs)],
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    reference=_batch_matmul_reference,
    flops=work.product,
    attributes={"layout": attr.text()},
)


def contrib_batch_matmul_int8(a: Expr, b: Expr, layout: str) -> Call:
    """Products of stacks [B, M, K] and the transposes of [B, N, K], which are in panels (``"BNC{n}n4c"``): int32."""
    return call("nn.contrib_batch_matmul_int8", a, b, layout=layout)


# -------------------------------------------------------------------------------------------------- convolutions
def _conv2d_type(types: Types, attrs: Attrs, kind: str) -> Type:
    data, kernel = tensors(types)
    _check_types(kind, data, kernel)
    n, c, h, w = transform_shape(data.shape, attrs["data_layout"], "NCHW")
    o, i, kh, kw = transform_shape(kernel.shape, attrs["kernel_layout"], "OIHW")
    require(same_dim(i, c), f"the kernel {kernel.shape} takes {i} channels, the data has {c}")
    oh, ow = windows_along((h, w), (kh, kw), attrs, attrs["dilation"])
    shape = transform_shape((n, o, oh, ow), "NCHW", attrs["out_layout"] or attrs["data_layout"])
    return TensorType(shape, SUMS[kind][1])


def _conv2d_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    names = ("strides", "padding", "dilation", "pad_value", "in_pairs")
    data, kernel = inputs
    if attrs["data_layout"] != "NCHW":
        return [topi.nn.conv2d_dot_NCHWc(data, kernel, *(attrs[name] for name in names))]
    wide = [topi.cast(x, SUMS[str(data.dtype)][1]) for x in inputs]
    pads = attrs["padding"]
    padded = topi.nn.pad(wide[0], (0, 0, *pads[:2]), (0, 0, *pads[2:]), attrs["pad_value"])
    return [topi.nn.conv2d_nchw(padded, wide[1], attrs["strides"], (0, 0, 0, 0), attrs["dilation"])]


def _conv2d_reference(attrs: Attrs, data: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    top, left, bottom, right = attrs["padding"]
    sums = SUMS[str(data.dtype)][1]
    plain = layout_transform(data, attrs["data_layout"], "NCHW").astype(sums)
    around = ((0, 0), (0, 0), (top, bottom), (left, right))
    padded = np.pad(plain, around, constant_values=attrs["pad_value"])
    weights = layout_transform(kernel, attrs["kernel_layout"], "OIHW").astype(sums)
    out = conv_ref.conv2d_nchw(padded, weights, attrs["strides"], dilation=attrs["dilation"])
    return layout_transform(out, "NCHW", attrs["out_layout"] or attrs["data_layout"])


for _name in ("int8", "bfloat16"):
    register(
        f"nn.contrib_conv2d_{_name}",
        num_inputs=2,
        type_rule=partial(_conv2d_type, kind=_name),
        compute=_conv2d_compute,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        reference=_conv2d_reference,
        layout=dot_conv2d_layout,
        flops=work.convolution,
        attributes={
            **attr.window(2),
            "pad_value": attr.integer(0),
            "data_layout": attr.text("NCHW"),
            "kernel_layout": attr.text("OIHW"),
            "out_layout": attr.text(""),
            "in_pairs": attr.flag(False),
            "small_sums": attr.flag(False),
        },
    )


def contrib_conv2d_int8(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    pad_value: int = 0,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    in_pairs: bool = False,
    small_sums: bool = False,
) -> Call:
    """Convolution of bytes with sums in int32, `pad_value` around the image; layouts as `nn.conv2d`, the kernel
    ``OIHW4i16o4i`` where the data are blocked (of int16 ``OIHW8i16o2i``). `in_pairs` says that the weights of
    channels 2 j and 2 j + 1 are so small that the sum of their two products fits 16 bits. `small_sums` says that
    the data have 9 bits and no result as much as what Winograd is exact below (`topi.winograd.exact_below`)."""
    return call(
        "nn.contrib_conv2d_int8",
        data,
        weight,
        strides=pair(strides),
        padding=four_sided(padding),
        dilation=pair(dilation),
        pad_value=pad_value,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        in_pairs=in_pairs,
        small_sums=small_sums,
    )


def contrib_conv2d_bfloat16(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
) -> Call:
    """The same of bfloat16 with sums in float32, zeros around the image; the kernel ``OIHW16i32o2i`` where blocked."""
    return call(
        "nn.contrib_conv2d_bfloat16",
        data,
        weight,
        strides=pair(strides),
        padding=four_sided(padding),
        dilation=pair(dilation),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
    )
