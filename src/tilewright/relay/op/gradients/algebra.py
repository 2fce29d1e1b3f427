"""Gradients of sums of products and running products."""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Expr, Tuple
from tilewright.relay.ir.registry import set_gradient
from tilewright.relay.op import tensor, transform
from tilewright.relay.op.algebra import einsum, subscripts
from tilewright.relay.op.gradients.common import shape_of, tensor_type
from tilewright.relay.op.indexing import fields


def _einsum_gradient(call: Call, g: Expr) -> list[Expr | None]:
    """Each operand's gradient is the sum of products of the result's gradient and the other operands."""
    parts = fields(call.args[0])
    terms, result = subscripts(call.attrs["equation"])
    found = []
    for k, (term, part) in enumerate(zip(terms, parts, strict=True)):
        others = [(t, p) for n, (t, p) in enumerate(zip(terms, parts, strict=True)) if n != k]
        known = set(result).union(*[t for t, _ in others])
        missing = [(label, size) for label, size in zip(term, shape_of(part)) if label not in known]
        operands = [(result, g), *others]
        if missing:
            ones = tensor.ones([size for _, size in missing], str(tensor_type(part).dtype))
            operands.append(("".join(label for label, _ in missing), ones))
        equation = ",".join(t for t, _ in operands) + "->" + term
        found.append(einsum([p for _, p in operands], equation))
    return [Tuple(found)]


def _cumprod_gradient(call: Call, g: Expr) -> list[Expr | None]:
    """Each product divided by the element, summed over the products it is part of; not defined where it is 0."""
    data, attrs = call.args[0], call.attrs
    total = transform.cumsum(g * call, attrs["axis"], attrs["exclusive"], reverse=True)
    if not tensor_type(call).dtype.is_float or not tensor_type(data).dtype.is_float:
        return [None]
    dtype = str(tensor_type(data).dtype)
    return [tensor.cast(total, dtype) / data if tensor_type(call).dtype != dtype else total / data]


set_gradient("einsum", _einsum_gradient)
set_gradient("cumprod", _cumprod_gradient)
