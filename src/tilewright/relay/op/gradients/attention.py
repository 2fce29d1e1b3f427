"""The gradient of attention: an operator of its own, or that of the products and the softmax it stands for."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import set_gradient
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op import nn, transform
from tilewright.relay.op.gradients.adjoint import gradient_of_parts
from tilewright.relay.op.gradients.common import shape_of, tensor_type
from tilewright.relay.op.nn.attention_backward import attention_weights, has_backward_kernel


def _attention_gradient(call: Call, g: Expr) -> Sequence[Expr | None]:
    attrs = call.attrs
    if attrs["operands"] or not has_backward_kernel(*[tensor_type(x) for x in call.args[:3]]):
        return gradient_of_parts(call, g, attention_in_parts)
    query, key, value, *mask = call.args
    gradient = transform.transpose(g, (0, 2, 1, 3)) if attrs["out_layout"] == "BSHD" else g
    hidden = mask[0] if mask else None
    found = nn.attention_backward(query, key, value, gradient, hidden, attrs["scale"], attrs["causal"])
    type_of(found)
    of_mask = gradient_of_parts(call, g, attention_in_parts)[3:] if mask else []
    return [found[0], found[1], found[2], *of_mask]


def attention_in_parts(args: Sequence[Expr], attrs: Attrs) -> Expr:
    """`nn.attention` of `args`, whose types are known, as products of stacks of matrices and a softmax."""
    query, key, value, *mask = args
    b, h, m, _ = shape_of(query)
    groups, n, e = shape_of(key)[1], shape_of(key)[2], shape_of(value)[3]
    if groups != h:
        key, value = (transform.repeat(x, h // groups, axis=1) for x in (key, value))
        type_of(key)
    weights = attention_weights(query, key, mask[0] if mask else None, attrs)
    out = nn.batch_matmul(weights, transform.reshape(value, (b * h, n, e)), transpose_b=False)
    out = transform.reshape(out, (b, h, m, e))
    return transform.transpose(out, (0, 2, 1, 3)) if attrs["out_layout"] == "BSHD" else out


set_gradient("nn.attention", _attention_gradient)
