"""The activation functions of Darknet, by their names in cfg files."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.errors import UnsupportedError
from tilewright.frontend import functions
from tilewright.frontend.darknet.node import DarknetNode
from tilewright.frontend.darknet.registry import converts
from tilewright.frontend.idioms import like
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def activated(node: DarknetNode, value: Expr, name: str | None = None) -> Expr:
    """`value` under the activation `name`. Raises `UnsupportedError` for one that Darknet does not have."""
    name = node.section.text("activation", "linear") if name is None else name
    if name not in _FUNCTIONS:
        raise UnsupportedError(f"{node.label}: there is no activation {name!r}; known are {', '.join(_FUNCTIONS)}")
    return _FUNCTIONS[name](value)


@converts("activation")
def convert_activation(node: DarknetNode) -> Expr:
    """[activation]: one function of its own."""
    return activated(node, node[0])


def _scaled(value: Expr, scale: float, shift: float = 0.0) -> Expr:
    scaled = op.multiply(value, like(scale, value))
    return op.add(scaled, like(shift, value)) if shift else scaled


def _piecewise(value: Expr, low: float, below: Expr, high: float, above: Expr, between: Expr) -> Expr:
    """`below` where the value is less than `low`, `above` where it is more than `high`."""
    upper = op.where(op.greater(value, like(high, value)), above, between)
    return op.where(op.less(value, like(low, value)), below, upper)


def _gelu(x: Expr) -> Expr:
    cube = op.multiply(x, op.multiply(x, x))
    inner = op.add(_scaled(x, 0.797885), _scaled(cube, 0.035677))
    return op.multiply(_scaled(x, 0.5), op.add(op.tanh(inner), like(1, x)))


def _stair(x: Expr) -> Expr:
    """Whole steps of two, with a slope of 1 over every other one."""
    whole = op.floor(x)
    odd = op.not_equal(op.floor_mod(whole, like(2, x)), like(0, x))
    half = op.floor(_scaled(x, 0.5))
    return op.where(odd, op.add(op.subtract(x, whole), half), op.floor(_scaled(whole, 0.5)))


def _hard_mish(x: Expr) -> Expr:
    zero = like(0, x)
    return _piecewise(x, -2.0, zero, 0.0, x, op.add(_scaled(op.multiply(x, x), 0.5), x))


def _normalized_channels(x: Expr) -> Expr:
    """The positive values of each pixel, divided by their sum over the channels."""
    positive = op.nn.relu(x)
    return op.divide(positive, op.add(op.sum(positive, axis=(1,), keepdims=True), like(1e-4, x)))


def _softmax_channels(x: Expr) -> Expr:
    """The softmax over the channels of each pixel; Darknet adds 0.0001 to the sum."""
    powers = op.exp(op.subtract(x, op.max(x, axis=(1,), keepdims=True)))
    return op.divide(powers, op.add(op.sum(powers, axis=(1,), keepdims=True), like(1e-4, x)))


def _plain_softmax_channels(x: Expr) -> Expr:
    """The same without the greatest value taken off first, which the 0.0001 makes another function."""
    powers = op.exp(x)
    return op.divide(powers, op.add(op.sum(powers, axis=(1,), keepdims=True), like(1e-4, x)))


_FUNCTIONS: dict[str, Callable[[Expr], Expr]] = {
    "linear": lambda x: x,
    "logistic": op.sigmoid,
    "loggy": lambda x: _scaled(op.sigmoid(x), 2.0, -1.0),
    "relu": op.nn.relu,
    "relu6": functions.relu6,
    "elu": functions.elu,
    "selu": lambda x: functions.selu(x, 1.6732, 1.0507),
    "gelu": _gelu,
    "relie": lambda x: op.nn.leaky_relu(x, alpha=0.01),
    "ramp": lambda x: op.add(op.nn.relu(x), _scaled(x, 0.1)),
    "leaky": lambda x: op.nn.leaky_relu(x, alpha=0.1),
    "revleaky": lambda x: op.nn.leaky_relu(x, alpha=0.1),
    "tanh": op.tanh,
    "plse": lambda x: _piecewise(x, -4.0, _scaled(x, 0.01, 0.04), 4.0, _scaled(x, 0.01, 0.96), _scaled(x, 0.125, 0.5)),
    "stair": _stair,
    "hardtan": functions.hard_tanh,
    "lhtan": lambda x: _piecewise(x, 0.0, _scaled(x, 0.001), 1.0, _scaled(x, 0.001, 0.999), x),
    "swish": functions.silu,
    "mish": functions.mish,
    "hard_mish": _hard_mish,
    "normalize_channels": _normalized_channels,
    "normalize_channels_softmax": _plain_softmax_channels,
    "normalize_channels_softmax_maxval": _softmax_channels,
}
