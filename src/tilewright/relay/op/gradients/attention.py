"""The gradient of attention: that of the matrix products and the softmax it stands for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr
from tilewright.relay.ir.registry import set_gradient
from tilewright.relay.op import nn, tensor, transform
from tilewright.relay.op.gradients.adjoint import gradient_of_parts
from tilewright.relay.op.gradients.common import number, shape_of


def _attention_gradient(call: Call, g: Expr) -> Sequence[Expr | None]:
    return gradient_of_parts(call, g, attention_in_parts)


def attention_in_parts(args: Sequence[Expr], attrs: Attrs) -> Expr:
    """`nn.attention` of `args`, whose types are known, as products of stacks of matrices and a softmax."""
    query, key, value, *mask = args
    b, h, m, d = shape_of(query)
    groups, n, e = shape_of(key)[1], shape_of(key)[2], shape_of(value)[3]
    if groups != h:
        key, value = (transform.repeat(x, h // groups, axis=1) for x in (key, value))
    scores = nn.batch_matmul(transform.reshape(query, (b * h, m, d)), transform.reshape(key, (b * h, n, d)))
    scores = transform.reshape(scores, (b, h, m, n)) * number(attrs["scale"], query)
    if mask:
        scores = scores + mask[0]
    if attrs["causal"]:
        seen = Constant(np.tri(m, n, dtype=bool))
        scores = tensor.where(seen, scores, number(float(np.finfo(np.float32).min), query))
    weights = transform.reshape(nn.softmax(scores, axis=-1), (b * h, m, n))
    out = nn.batch_matmul(weights, transform.reshape(value, (b * h, n, e)), transpose_b=False)
    out = transform.reshape(out, (b, h, m, e))
    return transform.transpose(out, (0, 2, 1, 3)) if attrs["out_layout"] == "BSHD" else out


set_gradient("nn.attention", _attention_gradient)
