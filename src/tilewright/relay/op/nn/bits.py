"""Operators on few bits: packing of bit planes, and products of activations and weights of a few bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import reduce, tensor, transform
from tilewright.relay.op.common import Types, call, check_axis, divides, require
from tilewright.relay.op.common import tensor as tensor_of
from tilewright.relay.op.composite import register_composite
from tilewright.relay.op.nn.convolution import conv2d
from tilewright.relay.op.nn.dense import dense
from tilewright.topi.util import four_sided, pair


def _width(dtype: str) -> int:
    return TensorType((), dtype).dtype.itemsize * 8


def _bitpack_type(types: Types, attrs: Attrs) -> Type:
    data = tensor_of(types[0])
    require(data.dtype.is_int, f"integers are needed, not {data.dtype}")
    axis, lanes = check_axis(attrs["pack_axis"], data.ndim), _width(attrs["pack_type"])
    require(divides(data.shape[axis], lanes), f"{data.shape[axis]} elements do not divide into words of {lanes} bits")
    shape = list(data.shape)
    shape[axis] //= lanes
    shape.insert(attrs["bit_axis"], attrs["bits"])
    return TensorType(shape, attrs["pack_type"])


def _bitpack(args: Sequence[Expr], attrs: Attrs) -> Expr:
    """Plane b holds bit b of each element; the elements along the axis fill words from the highest bit down."""
    data, kind = args[0], tensor_of(args[0].checked_type)
    axis, lanes, word = attrs["pack_axis"] % kind.ndim, _width(attrs["pack_type"]), attrs["pack_type"]
    split = transform.reshape(data, (*kind.shape[:axis], kind.shape[axis] // lanes, lanes, *kind.shape[axis + 1 :]))
    positions = np.arange(lanes)[::-1].astype("uint64")
    weights = (
        (np.uint64(1) << positions).astype(word).reshape([-1 if d == axis + 1 else 1 for d in range(kind.ndim + 1)])
    )
    planes = []
    for bit in range(attrs["bits"]):
        one = tensor.bitwise_and(tensor.right_shift(split, bit), 1)
        planes.append(reduce.sum(tensor.cast(one, word) * Constant(weights), axis=axis + 1))
    return transform.stack(planes, attrs["bit_axis"])


def _bitpack_reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    lanes = _width(attrs["pack_type"])
    planes = []
    for bit in range(attrs["bits"]):
        ones = np.moveaxis((x >> bit) & 1, attrs["pack_axis"], -1).astype("uint8")
        packed = np.packbits(ones, axis=-1).reshape(*ones.shape[:-1], -1, lanes // 8)
        words = sum(packed[..., k].astype("uint64") << np.uint64(lanes - 8 - 8 * k) for k in range(lanes // 8))
        planes.append(np.moveaxis(np.asarray(words).astype(attrs["pack_type"]), -1, attrs["pack_axis"]))
    return np.ascontiguousarray(np.stack(planes, attrs["bit_axis"]))


register_composite(
    "nn.bitpack",
    num_inputs=1,
    type_rule=_bitpack_type,
    expansion=_bitpack,
    reference=_bitpack_reference,
    attributes={
        "bits": attr.integer(1),
        "pack_axis": attr.integer(1),
        "bit_axis": attr.integer(2),
        "pack_type": attr.dtype("uint32"),
    },
)


def bitpack(data: Expr, bits: int = 1, pack_axis: int = 1, bit_axis: int = 2, pack_type: str = "uint32") -> Call:
    """The lowest `bits` planes of integers, packed along `pack_axis` into words, planes along a new `bit_axis`."""
    return call("nn.bitpack", data, bits=bits, pack_axis=pack_axis, bit_axis=bit_axis, pack_type=str(pack_type))


# ------------------------------------------------------------------------------------------------ bit-serial products
def _low_bits(data: Expr, bits: int, signed: bool) -> Expr:
    """The lowest `bits` of integers as int32; with `signed` each bit counts as +1 or -1 times its position.

    Those that fit a byte are cast to one first, which `dot_products` multiplies.
    """
    low = tensor.bitwise_and(data, (1 << bits) - 1)
    low = tensor.cast(tensor.cast(low, "uint8") if bits <= 8 else low, "int32")
    return low * 2 - ((1 << bits) - 1) if signed else low


def _low_bits_reference(x: np.ndarray, bits: int, signed: bool) -> np.ndarray:
    low = (x.astype(np.int64) & ((1 << bits) - 1)).astype(np.int32)
    return 2 * low - ((1 << bits) - 1) if signed else low


def _bitserial_dense(args: Sequence[Expr], attrs: Attrs) -> Expr:
    data = _low_bits(args[0], attrs["data_bits"], False)
    weight = _low_bits(args[1], attrs["weight_bits"], attrs["unipolar"])
    return tensor.cast(dense(data, weight), attrs["out_dtype"])


def _bitserial_conv2d(args: Sequence[Expr], attrs: Attrs) -> Expr:
    data = _low_bits(args[0], attrs["activation_bits"], False)
    weight = _low_bits(args[1], attrs["weight_bits"], attrs["unipolar"])
    window = {name: attrs[name] for name in ("strides", "padding", "data_layout", "kernel_layout")}
    return tensor.cast(conv2d(data, weight, **window), attrs["out_dtype"])


def _bitserial_conv2d_reference(attrs: Attrs, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    plain = attrs.replace(dilation=(1, 1), groups=1, out_layout="", out_dtype="")
    data = _low_bits_reference(data, attrs["activation_bits"], False)
    weight = _low_bits_reference(weight, attrs["weight_bits"], attrs["unipolar"])
    out = get("nn.conv2d").reference(plain, data, weight)
    return np.asarray(out).astype(attrs["out_dtype"])


register_composite(
    "nn.bitserial_dense",
    num_inputs=2,
    expansion=_bitserial_dense,
    reference=lambda attrs, data, weight: (
        _low_bits_reference(data, attrs["data_bits"], False)
        @ _low_bits_reference(weight, attrs["weight_bits"], attrs["unipolar"]).T
    ).astype(attrs["out_dtype"]),
    attributes={
        "data_bits": attr.integer(1),
        "weight_bits": attr.integer(1),
        "unipolar": attr.flag(True),
        "out_dtype": attr.dtype("int16"),
    },
)
register_composite(
    "nn.bitserial_conv2d",
    num_inputs=2,
    expansion=_bitserial_conv2d,
    reference=_bitserial_conv2d_reference,
    attributes={
        "strides": attr.per_axis(2, (1, 1)),
        "padding": attr.sides(2, (0, 0, 0, 0)),
        "activation_bits": attr.integer(1),
        "weight_bits": attr.integer(1),
        "data_layout": attr.text("NCHW"),
        "kernel_layout": attr.text("OIHW"),
        "out_dtype": attr.dtype("int16"),
        "unipolar": attr.flag(True),
    },
)


def bitserial_dense(
    data: Expr,
    weight: Expr,
    data_bits: int = 1,
    weight_bits: int = 1,
    out_dtype: str = "int16",
    unipolar: bool = True,
) -> Call:
    """`dense` of integers [N, K] and [units, K] of a few bits; with `unipolar` a weight bit counts as +1 or -1."""
    attrs = {"data_bits": data_bits, "weight_bits": weight_bits, "unipolar": unipolar}
    return call("nn.bitserial_dense", data, weight, **attrs, out_dtype=str(out_dtype))


def bitserial_conv2d(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    activation_bits: int = 1,
    weight_bits: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_dtype: str = "int16",
    unipolar: bool = True,
) -> Call:
    """`conv2d` of integers of a few bits; with `unipolar` a weight bit counts as +1 or -1."""
    return call(
        "nn.bitserial_conv2d",
        data,
        weight,
        strides=pair(strides),
        padding=four_sided(padding),
        activation_bits=activation_bits,
        weight_bits=weight_bits,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_dtype=str(out_dtype),
        unipolar=unipolar,
    )
