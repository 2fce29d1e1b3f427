"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import te, topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, Precision, TypeRule, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import work
from tilewright.relay.op.common import Types, call, require, require_factors, same_dim, tensors, with_attrs
from tilewright.relay.op.nn.scaled_weights import scale_outer
from tilewright.relay.op.operand_types import dense_operands
from tilewright.topi.layout import transform_shape
from tilewright.topi.reference import nn as ref

PLAIN = ("NC", "NK", "")

#: The letters of layouts whose panels are sums of their own, as kernels of boards read them: "UD8u".
BLOCKS = "UD"


def _dense_type(types: Types, attrs: Attrs) -> Type:
    data, weight = tensors(types)
    require_factors(data, weight, attrs["out_dtype"])
    require(data.ndim >= 2, "the data needs at least two dimensions; reshape a vector to one row")
    layout = attrs["weight_layout"]
    units, depth = weight.shape if layout in PLAIN else transform_shape(weight.shape, layout, layout[:2])
    require(
        same_dim(data.shape[-1], depth),
        f"the data has {data.shape[-1]} columns, the weight {weight.shape} takes {depth}",
    )
    given = attrs["units"]
    if isinstance(given, int) and isinstance(units, int) and layout not in PLAIN:
        # behind the last unit its panel is filled with zeros
        require(0 <= units - given < weight.shape[-1], f"units={given}, but the panels have room for {units}")
        units = given
    require(given is None or same_dim(given, units), f"units={given}, but the weight makes {units}")
    return TensorType((*data.shape[:-1], units), attrs["out_dtype"] or data.dtype)


def _dense_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    if attrs["weight_layout"] in PLAIN:
        return [topi.nn.dense(inputs[0], inputs[1], attrs["out_dtype"])]
    made = topi.nn.dense_blocks if attrs["weight_layout"].startswith(BLOCKS) else topi.nn.dense_pack
    return [made(inputs[0], inputs[1], attrs["out_dtype"], attrs["units"])]


register(
    "nn.dense",
    num_inputs=2,
    type_rule=_dense_type,
    compute=_dense_compute,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    reference=lambda attrs, data, weight: ref.dense(data, weight, out_dtype=attrs["out_dtype"]),
    precision=Precision.ALWAYS,
    flops=work.product,
    expected_operands=dense_operands,
    quantized="qnn.dense",
    scaled_weights=scale_outer,
    attrs_class="DenseAttrs",
    attributes={"units": attr.optional(attr.integer()), "out_dtype": attr.dtype(""), "weight_layout": attr.text("NC")},
)


def dense(data: Expr, weight: Expr, units: int | None = None, out_dtype: str = "", weight_layout: str = "NC") -> Call:
    """`data` [..., K] times the transpose of `weight` [units, K]; ``weight_layout="NC32n"``: [units/32, K, 32].

    The last of these panels may have rows of zeros behind the last unit, where `units` is given.
    """
    return call("nn.dense", data, weight, units=units, out_dtype=out_dtype, weight_layout=weight_layout)


def _product_shape(a: TensorType, b: TensorType, attrs: Attrs) -> tuple[int, int]:
    require_factors(a, b, attrs["out_dtype"])
    rows, depth = (a.shape[-1], a.shape[-2]) if attrs["transpose_a"] else a.shape[-2:]
    inner, columns = (b.shape[-1], b.shape[-2]) if attrs["transpose_b"] else b.shape[-2:]
    require(
        same_dim(depth, inner), f"the products run over {depth} and {inner} elements, of shapes {a.shape} and {b.shape}"
    )
    return rows, columns


def _batch_matmul_type(types: Types, attrs: Attrs) -> Type:
    a, b = tensors(types)
    require(a.ndim == b.ndim == 3, f"two stacks of matrices [B, M, K] are needed, not {a.shape} and {b.shape}")
    require(
        1 in (a.shape[0], b.shape[0]) or same_dim(a.shape[0], b.shape[0]), f"{a.shape[0]} and {b.shape[0]} matrices"
    )
    batch = b.shape[0] if a.shape[0] == 1 else a.shape[0]
    return TensorType((batch, *_product_shape(a, b, attrs)), attrs["out_dtype"] or a.dtype)


def _matmul_type(types: Types, attrs: Attrs) -> Type:
    a, b = tensors(types)
    require(a.ndim == b.ndim == 2, f"two matrices are needed, not {a.shape} and {b.shape}; use nn.batch_matmul")
    return TensorType(_product_shape(a, b, attrs), attrs["out_dtype"] or a.dtype)


def _register_product(
    name: str, compute: Callable[..., te.Tensor], type_rule: TypeRule, transpose_b: bool, **fields: Any
) -> None:
    register(
        name,
        num_inputs=2,
        type_rule=type_rule,
        compute=with_attrs(compute, "transpose_a", "transpose_b", "out_dtype"),
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        reference=lambda attrs, a, b: ref.batch_matmul(
            a, b, attrs["transpose_a"], attrs["transpose_b"], attrs["out_dtype"]
        ),
        attributes={
            "out_dtype": attr.dtype(""),
            "transpose_a": attr.flag(False),
            "transpose_b": attr.flag(transpose_b),
        },
        flops=work.product,
        precision=Precision.ALWAYS,
        **fields,
    )


_register_product(
    "nn.batch_matmul",
    topi.nn.batch_matmul,
    _batch_matmul_type,
    transpose_b=True,
    quantized="qnn.batch_matmul",
    attrs_class="BatchMatmulAttrs",
)
_register_product("nn.matmul", topi.nn.matmul, _matmul_type, transpose_b=False)


def batch_matmul(
    tensor_a: Expr, tensor_b: Expr, out_dtype: str = "", transpose_a: bool = False, transpose_b: bool = True
) -> Call:
    """Products of two stacks of matrices [B, M, K] and, by default transposed, [B, N, K]; a stack of 1 broadcasts."""
    return call(
        "nn.batch_matmul", tensor_a, tensor_b, out_dtype=out_dtype, transpose_a=transpose_a, transpose_b=transpose_b
    )


def matmul(
    tensor_a: Expr, tensor_b: Expr, out_dtype: str = "", transpose_a: bool = False, transpose_b: bool = False
) -> Call:
    """The product of two matrices, either transposed first. A constant right-hand side is better off in `nn.dense`."""
    return call("nn.matmul", tensor_a, tensor_b, out_dtype=out_dtype, transpose_a=transpose_a, transpose_b=transpose_b)
