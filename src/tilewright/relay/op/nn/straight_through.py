"""The straight-through estimator: a value that has no useful gradient, with the gradient of the data it was made of.

Bengio, Léonard and Courville, "Estimating or Propagating Gradients Through Stochastic Neurons" (2013).
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import set_gradient
from tilewright.relay.ir.type import Type
from tilewright.relay.op.common import Types, call, require, same_dims, tensors
from tilewright.relay.op.composite import register_composite


def _type(types: Types, attrs: Attrs) -> Type:
    data, value = tensors(types)
    require(
        same_dims(data.shape, value.shape) and data.dtype == value.dtype and data.dtype.is_float,
        f"data and value have one shape and one type of floating point, not {data} and {value}",
    )
    return value


register_composite(
    "nn.straight_through",
    num_inputs=2,
    type_rule=_type,
    expansion=lambda args, attrs: args[1],
    reference=lambda attrs, data, value: value,
    attributes={},
)


def _gradient(call: Call, g: Expr) -> list[Expr | None]:
    return [g, None]


set_gradient("nn.straight_through", _gradient)


def straight_through(data: Expr, value: Expr) -> Call:
    """`value`, such as `round(data)`; its gradient goes to `data` as it comes, and none to `value`.

    Where `data` is a constant nothing flows: `value` without its gradient.
    """
    return call("nn.straight_through", data, value)
