"""Convolutions and matrix products of quantized tensors, summed in int32."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op import nn
from tilewright.relay.op.common import Types, tensor, tensors
from tilewright.relay.op.qnn.canonical import along, as_type, quantized_call, register_quantized
from tilewright.relay.op.tensor import subtract
from tilewright.support.named import named

_SUMMED = "int32"


def centred(data: Expr, zero_point: Expr, axis: int) -> Expr:
    """data - zero_point as int32; the zero point is a scalar or runs along `axis`."""
    zero = along(as_type(zero_point, _SUMMED), axis, tensor_type_of(data).ndim)
    return subtract(as_type(data, _SUMMED), zero)


def _register_product(name: str, plain: str, build: Callable[..., Expr], axes: tuple[int, int]) -> None:
    """A product whose inputs are (a, b, a_zero, b_zero, a_scale, b_scale); vectors run along `axes` of a and b.

    The scales are not used: they say what the sums mean, for the requantize that follows.
    """

    def type_rule(types: Types, attrs: Attrs) -> Type:
        a, b = tensors(types[:2])
        wide = [TensorType(t.shape, _SUMMED) for t in (a, b)]
        rule = get(plain).type_rule(wide, attrs)
        return TensorType(tensor(rule).shape, attrs["out_dtype"] or _SUMMED)

    def canonical(attrs: Attrs, args: Sequence[Expr]) -> Expr:
        a, b, a_zero, b_zero = args[:4]
        keywords: dict[str, Any] = {key: value for key, value in attrs.items() if key != "out_dtype"}
        product = build(centred(a, a_zero, axes[0]), centred(b, b_zero, axes[1]), **keywords)
        return as_type(product, attrs["out_dtype"] or _SUMMED)

    schema = get(plain).attributes
    assert schema is not None
    register_quantized(name, 6, type_rule, canonical, **{**schema, "out_dtype": attr.dtype(_SUMMED)})


_register_product("qnn.dense", "nn.dense", nn.dense, (-1, 0))
_register_product("qnn.batch_matmul", "nn.batch_matmul", nn.batch_matmul, (1, 1))
_register_product("qnn.conv1d", "nn.conv1d", nn.conv1d, (1, 0))
_register_product("qnn.conv2d", "nn.conv2d", nn.conv2d, (1, 0))
_register_product("qnn.conv3d", "nn.conv3d", nn.conv3d, (1, 0))
_register_product("qnn.conv2d_transpose", "nn.conv2d_transpose", nn.conv2d_transpose, (1, 1))


def _builder(name: str, plain: Callable[..., Call], doc: str) -> Callable[..., Call]:
    def build(
        data: Expr,
        weight: Expr,
        input_zero_point: Any,
        kernel_zero_point: Any,
        input_scale: Any,
        kernel_scale: Any,
        out_dtype: str = _SUMMED,
        **keywords: Any,
    ) -> Call:
        attrs = dict(plain(data, weight, **keywords).attrs) | {"out_dtype": out_dtype}
        return quantized_call(
            name, data, weight, input_zero_point, kernel_zero_point, input_scale, kernel_scale, **attrs
        )

    own, more = inspect.signature(build), inspect.signature(plain)
    keywords = [
        param.replace(kind=param.KEYWORD_ONLY)
        for param in list(more.parameters.values())[2:]
        if param.name not in own.parameters
    ]
    build.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*list(own.parameters.values())[:-1], *keywords]
    )
    short = name.rpartition(".")[2]
    return named(build, short, doc)


_SUM = "of (data - zero point), (weight - zero point) in int32, its keywords those of"
dense = _builder("qnn.dense", nn.dense, f"The product {_SUM} `nn.dense`.")
batch_matmul = _builder("qnn.batch_matmul", nn.batch_matmul, f"The products {_SUM} `nn.batch_matmul`.")
conv1d = _builder("qnn.conv1d", nn.conv1d, f"The convolution {_SUM} `nn.conv1d`.")
conv3d = _builder("qnn.conv3d", nn.conv3d, f"The convolution {_SUM} `nn.conv3d`.")
conv2d = _builder(
    "qnn.conv2d", nn.conv2d, f"The convolution {_SUM} `nn.conv2d`; padding stands for the real number zero."
)
conv2d_transpose = _builder(
    "qnn.conv2d_transpose", nn.conv2d_transpose, f"The transposed convolution {_SUM} `nn.conv2d_transpose`."
)
