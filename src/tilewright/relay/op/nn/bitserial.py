"""Products of few bits with packed weights, as `transform.bitserial_products` writes them (`topi/nn/bitserial.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op.common import Types, call, known_size, require, tensors, windows_along
from tilewright.topi.bitserial_form import METHODS, POPCOUNT, BitSerial
from tilewright.topi.reference import conv as conv_ref
from tilewright.topi.reference.bitserial import unpack_weight


def _how(attrs: Attrs) -> BitSerial:
    return BitSerial(*(attrs[name] for name in ("method", "units", "data_bits", "scale", "offset")))


def _check(types: Types, attrs: Attrs, ndim: int) -> tuple[TensorType, TensorType]:
    data, weight = tensors(types)
    for size in data.shape:
        known_size(size, "each size of the data")
    require(attrs["method"] in METHODS, f"method {attrs['method']!r}; it is one of {', '.join(METHODS)}")
    require(data.ndim == ndim and data.dtype.is_int, f"integers of {ndim} dimensions are needed, not {data}")
    require(1 <= attrs["data_bits"] <= 8, f"data of {attrs['data_bits']} bits; 1 to 8 are supported")
    require(weight.ndim in (6, 8), f"packed weights have 6 or 8 dimensions, not {weight.shape}")
    panel = weight.shape[5] if weight.ndim == 6 else weight.shape[6] * weight.shape[7]
    fits = attrs["method"] == POPCOUNT or attrs["units"] >= panel
    require(fits, f"{attrs['units']} output channels do not fill a panel of {panel}")
    return data, weight


def _conv2d_type(types: Types, attrs: Attrs) -> Type:
    data, weight = _check(types, attrs, 4)
    n, h, w, _ = data.shape
    window = [known_size(size, "each size of the window") for size in weight.shape[1:3]]
    return TensorType((n, *windows_along((h, w), window, attrs, (1, 1)), attrs["units"]), "int32")


def _dense_type(types: Types, attrs: Attrs) -> Type:
    data, _ = _check(types, attrs, 2)
    return TensorType((data.shape[0], attrs["units"]), "int32")


def _weights(attrs: Attrs, weight: np.ndarray, channels: int) -> np.ndarray:
    """The numbers that packed weights stand for, [O, KH, KW, C]."""
    return attrs["scale"] * unpack_weight(weight, attrs["units"], channels) - attrs["offset"]


def _codes(attrs: Attrs, data: np.ndarray) -> np.ndarray:
    return (data.astype(np.int64) & ((1 << attrs["data_bits"]) - 1)).astype(np.int32)


def _conv2d_reference(attrs: Attrs, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    kernel = _weights(attrs, weight, data.shape[-1]).transpose(0, 3, 1, 2)
    images = _codes(attrs, data).transpose(0, 3, 1, 2)
    return conv_ref.conv2d_nchw(images, kernel, attrs["strides"], attrs["padding"]).transpose(0, 2, 3, 1)


def _dense_reference(attrs: Attrs, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return _codes(attrs, data) @ _weights(attrs, weight, data.shape[-1])[:, 0, 0].T


def _conv2d_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    data, weight = inputs
    return [topi.nn.bitserial_conv2d_pack(data, weight, _how(attrs), attrs["strides"], attrs["padding"])]


def _dense_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    data, weight = inputs
    return [topi.nn.bitserial_dense_pack(data, weight, _how(attrs))]


def _terms(attrs: Attrs, types: Sequence[TensorType], result: TensorType) -> int:
    data, weight = types
    window = weight.shape[1] * weight.shape[2]
    return 2 * result.size * window * data.shape[-1]


_FORM = {
    "method": attr.text(),
    "units": attr.integer(),
    "data_bits": attr.integer(1),
    "scale": attr.integer(1),
    "offset": attr.integer(0),
}

register(
    "nn.contrib_bitserial_dense",
    num_inputs=2,
    type_rule=_dense_type,
    compute=_dense_compute,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    reference=_dense_reference,
    flops=_terms,
    attributes=_FORM,
)
register(
    "nn.contrib_bitserial_conv2d",
    num_inputs=2,
    type_rule=_conv2d_type,
    compute=_conv2d_compute,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    reference=_conv2d_reference,
    flops=_terms,
    attributes={
        **_FORM,
        "strides": attr.per_axis(2, (1, 1)),
        "padding": attr.sides(2, (0, 0, 0, 0)),
    },
)


def contrib_bitserial_dense(data: Expr, weight: Expr, how: BitSerial) -> Call:
    """The lowest bits of `data` [M, K] times packed weights: int32 [M, units]."""
    return call("nn.contrib_bitserial_dense", data, weight, **_attributes(how))


def contrib_bitserial_conv2d(
    data: Expr,
    weight: Expr,
    how: BitSerial,
    strides: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
) -> Call:
    """The same of images [N, H, W, C] and windows; padding is top, left, bottom, right: int32 [N, OH, OW, units]."""
    window = {"strides": tuple(strides), "padding": tuple(padding)}
    return call("nn.contrib_bitserial_conv2d", data, weight, **_attributes(how), **window)


def _attributes(how: BitSerial) -> dict[str, Any]:
    return {name: getattr(how, name) for name in ("method", "units", "data_bits", "scale", "offset")}
