"""The gradient of attention: an operator that is written in products, and the kernel that stands for it on processors.

`transform.attention_gradients` puts the kernel in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr, Tuple
from tilewright.relay.ir.registry import OpPattern, get, register
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.op import reduce, tensor, transform, work
from tilewright.relay.op.common import Types, call, dims, require, tensors
from tilewright.relay.op.composite import register_composite
from tilewright.relay.op.nn.dense import batch_matmul
from tilewright.relay.op.nn.normalization import softmax
from tilewright.topi.reference import nn as ref

_ATTRIBUTES = {"scale": attr.number(1.0), "causal": attr.flag(False)}


def attention_weights(query: Expr, key: Expr, mask: Expr | None, attrs: Attrs) -> Expr:
    """softmax(query key^T scale + mask) [BH, M, N] of [B, H, M, D] and [B, H, N, D], whose types are known."""
    (b, h, m, d), n = dims(query), dims(key)[2]
    scores = batch_matmul(transform.reshape(query, (b * h, m, d)), transform.reshape(key, (b * h, n, d)))
    scores = transform.reshape(scores, (b, h, m, n)) * _number(attrs["scale"], query)
    if mask is not None:
        scores = scores + mask
    if attrs["causal"]:
        lowest = _number(float(np.finfo(np.float32).min), query)
        scores = tensor.where(Constant(np.tri(m, n, dtype=bool)), scores, lowest)
    return transform.reshape(softmax(scores, axis=-1), (b * h, m, n))


def _number(value: float, like: Expr) -> Constant:
    return Constant(np.asarray(value, tensors([like.checked_type])[0].dtype.numpy))


def has_backward_kernel(query: TensorType, key: TensorType, value: TensorType) -> bool:
    """True for queries, keys and values of one static shape, of float32 or float64."""
    return query.is_static and query == key == value and query.dtype in ("float32", "float64")


def _type(types: Types, attrs: Attrs) -> Type:
    require(len(types) in (4, 5), f"it takes query, key, value, gradient and perhaps a mask, not {len(types)} tensors")
    query, key, value, gradient, *masks = tensors(types)
    known = query.is_static and key.is_static and value.is_static
    require(known, f"its sizes must be known, not {query}, {key} and {value}")
    fits = has_backward_kernel(query, key, value)
    require(fits, f"one shape of float32 or float64 is needed, not {query}, {key} and {value}")
    forward = {**attrs, "out_layout": "BHSD", "operands": ""}
    wanted = get("nn.attention").type_rule([query, key, value, *masks], Attrs(forward))
    require(gradient == wanted, f"the gradient must be {wanted}, the type of the attention's result, not {gradient}")
    return TupleType([query, key, value])


def _expansion(args: Sequence[Expr], attrs: Attrs) -> Expr:
    """The products, of which the first computes the scores again."""
    query, key, value, gradient, *mask = args
    shape = b, h, n, d = dims(query)
    weights = attention_weights(query, key, mask[0] if mask else None, attrs)
    q, k, v, g = (transform.reshape(x, (b * h, n, d)) for x in (query, key, value, gradient))
    of_weights = batch_matmul(g, v)
    mean = reduce.sum(weights * of_weights, axis=(2,), keepdims=True)
    of_scores = weights * (of_weights - mean) * _number(attrs["scale"], query)
    found = (
        batch_matmul(of_scores, k, transpose_b=False),
        batch_matmul(of_scores, q, transpose_a=True, transpose_b=False),
        batch_matmul(weights, g, transpose_a=True, transpose_b=False),
    )
    return Tuple([transform.reshape(x, shape) for x in found])


def _reference(attrs: Attrs, *inputs: Any) -> Any:
    query, key, value, gradient, mask = (*inputs, None)[:5]
    return tuple(ref.attention_backward(query, key, value, gradient, mask, attrs["scale"], attrs["causal"]))


def _compute(attrs: Attrs, inputs: list[Any], _out: Any) -> list[Any]:
    query, key, value, gradient, *mask = inputs
    rest = mask[0] if mask else None, attrs["scale"], attrs["causal"]
    return topi.nn.attention_backward(query, key, value, gradient, *rest)


register_composite(
    "nn.attention_backward",
    num_inputs=-1,
    type_rule=_type,
    expansion=_expansion,
    reference=_reference,
    attributes=_ATTRIBUTES,
)
register(
    "nn.contrib_attention_backward",
    num_inputs=-1,
    type_rule=_type,
    compute=_compute,
    pattern=OpPattern.COMM_REDUCE,
    reference=_reference,
    flops=work.attention_backward,
    attributes=_ATTRIBUTES,
)


def attention_backward(
    query: Expr,
    key: Expr,
    value: Expr,
    gradient: Expr,
    mask: Expr | None = None,
    scale: float = 1.0,
    causal: bool = False,
) -> Call:
    """The gradients of query, key and value, all [B, H, N, D], of `attention`, as a tuple, from that of its result.

    `gradient` is [B, H, N, D]; the scores are computed again.
    """
    inputs = (query, key, value, gradient) if mask is None else (query, key, value, gradient, mask)
    return call("nn.attention_backward", *inputs, scale=float(scale), causal=bool(causal))


def contrib_attention_backward(
    query: Expr,
    key: Expr,
    value: Expr,
    gradient: Expr,
    mask: Expr | None = None,
    scale: float = 1.0,
    causal: bool = False,
) -> Call:
    """`attention_backward` as one kernel."""
    inputs = (query, key, value, gradient) if mask is None else (query, key, value, gradient, mask)
    return call("nn.contrib_attention_backward", *inputs, scale=float(scale), causal=bool(causal))
