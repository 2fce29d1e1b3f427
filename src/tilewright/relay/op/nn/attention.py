"""Attention as one operator, which `transform.fuse_attention` puts in place of two products around a softmax."""

from __future__ import annotations

from typing import Any

from tilewright import te, topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import work
from tilewright.relay.op.common import (
    Types,
    broadcast_shapes,
    call,
    divides,
    require,
    require_float,
    require_same_dtype,
    same_dim,
    same_dims,
    tensors,
)
from tilewright.topi.nn.narrow_attention import ROW_ALIGNMENT
from tilewright.topi.reference import nn as ref

OUT_LAYOUTS = ("BHSD", "BSHD")

#: Types that operands of the products may be rounded to.
_NARROW = ("bfloat16", "float16")


def _attention_type(types: Types, attrs: Attrs) -> Type:
    require(len(types) in (3, 4), f"it takes a query, a key, a value and perhaps a mask, not {len(types)} tensors")
    query, key, value, *masks = tensors(types)
    require_float(query)
    require_same_dtype(query, key, value)
    for name, given in (("query", query), ("key", key), ("value", value)):
        require(given.ndim == 4, f"the {name} {given.shape} must be [batch, heads, length, depth]")
    batch, heads, rows, depth = query.shape
    require(same_dim(key.shape[3], depth), f"the query has depth {depth}, the key {key.shape[3]}")
    require(
        same_dims(key.shape[:3], value.shape[:3]), f"the key {key.shape} and the value {value.shape} differ in length"
    )
    require(same_dim(key.shape[0], batch), f"the query has {batch} batches, the key {key.shape[0]}")
    require(divides(heads, key.shape[1]), f"{heads} query heads cannot share {key.shape[1]} key heads")
    for mask in masks:
        require_float(mask)
        scores = (batch, heads, rows, key.shape[2])
        fits = mask.ndim == 4 and same_dims(broadcast_shapes(mask.shape, scores), scores)
        require(fits, f"the mask {mask.shape} does not broadcast to the scores {scores}")
    layout = attrs["out_layout"]
    require(layout in OUT_LAYOUTS, f"out_layout {layout!r}; there are {' and '.join(OUT_LAYOUTS)}")
    if attrs["operands"]:
        _require_narrow(attrs["operands"], query, value)
    sizes = dict(zip("BHSD", (batch, heads, rows, value.shape[3]), strict=True))
    return TensorType(tuple(sizes[letter] for letter in layout), query.dtype)


def _require_narrow(operands: str, query: TensorType, value: TensorType) -> None:
    require(operands in _NARROW, f"operands {operands!r}; there are {' and '.join(_NARROW)}")
    fits = query.is_static and value.is_static and query.shape[2] >= ROW_ALIGNMENT
    fits = fits and value.shape[3] % ROW_ALIGNMENT == 0
    least = f"{ROW_ALIGNMENT} queries or more and values of a multiple of {ROW_ALIGNMENT}"
    require(fits, f"with operands in {operands} its sizes must be known, {least}, not {query.shape} and {value.shape}")


def _attention_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    query, key, value = inputs[:3]
    mask = inputs[3] if len(inputs) == 4 else None
    rest = mask, attrs["scale"], attrs["causal"], attrs["out_layout"]
    if attrs["operands"]:
        return [topi.nn.narrow_attention(query, key, value, *rest, attrs["operands"])]
    return [topi.nn.attention(query, key, value, *rest)]


def _attention_reference(attrs: Attrs, *inputs: Any) -> Any:
    query, key, value, mask = (*inputs, None)[:4]
    rest = mask, attrs["scale"], attrs["causal"], attrs["out_layout"]
    if attrs["operands"]:
        return ref.narrow_attention(query, key, value, *rest, attrs["operands"])
    return ref.attention(query, key, value, *rest)


register(
    "nn.attention",
    num_inputs=-1,
    type_rule=_attention_type,
    compute=_attention_compute,
    pattern=OpPattern.COMM_REDUCE,
    reference=_attention_reference,
    flops=work.attention,
    attributes={
        "scale": attr.number(1.0),
        "causal": attr.flag(False),
        "out_layout": attr.text("BHSD"),
        "operands": attr.text(""),
    },
)


def attention(
    query: Expr,
    key: Expr,
    value: Expr,
    mask: Expr | None = None,
    scale: float = 1.0,
    causal: bool = False,
    out_layout: str = "BHSD",
    operands: str = "",
) -> Call:
    """softmax(query key^T scale + mask) value of [B, H, M, D], [B, G, N, D] and [B, G, N, E], H a multiple of G.

    `mask` is added to the scores and broadcasts to [B, H, M, N]; `causal` hides key j from row i < j. The result is
    [B, H, M, E], or [B, M, H, E] with ``out_layout="BSHD"``. What the products read is rounded to the type `operands`
    ("": stays as it is).
    """
    inputs = (query, key, value) if mask is None else (query, key, value, mask)
    attrs = {"scale": float(scale), "causal": bool(causal), "out_layout": out_layout, "operands": operands}
    return call("nn.attention", *inputs, **attrs)
