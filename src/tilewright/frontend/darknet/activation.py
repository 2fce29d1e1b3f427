"""The activation functions of Darknet, by their names in cfg files."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.frontend.builders import functions
from tilewright.frontend.darknet.node import DarknetNode, converts
from tilewright.frontend.idioms import along, concatenate, flatten, like, reshape, shape_of, slice_axis
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def activated(node: DarknetNode, value: Expr, name: str | None = None) -> Expr:
    """`value` under the activation `name`. Raises `UnsupportedError` for one that Darknet does not have."""
    name = node.section.text("activation", "linear") if name is None else name
    if name not in _FUNCTIONS:
        raise UnsupportedError(f"{node.label}: there is no activation {name!r}; known are {', '.join(_FUNCTIONS)}")
    return _FUNCTIONS[name](value)


def _piecewise(value: Expr, low: float, below: Expr, high: float, above: Expr, between: Expr) -> Expr:
    """`below` where the value is less than `low`, `above` where it is more than `high`."""
    upper = op.where(value > high, above, between)
    return op.where(value < low, below, upper)


def _gelu(x: Expr) -> Expr:
    cube = x * (x * x)
    inner = x * 0.797885 + cube * 0.035677
    return x * 0.5 * (op.tanh(inner) + 1)


def _stair(x: Expr) -> Expr:
    """Whole steps of two, with a slope of 1 over every other one."""
    whole = op.floor(x)
    odd = op.not_equal(op.floor_mod(whole, 2), 0)
    half = op.floor(x * 0.5)
    return op.where(odd, x - whole + half, op.floor(whole * 0.5))


def _shares(values: Expr) -> Expr:
    """Values divided by their sum over the channels of each pixel, to which Darknet adds 0.0001."""
    return values / (op.sum(values, axis=(1,), keepdims=True) + 1e-4)


_FUNCTIONS: dict[str, Callable[[Expr], Expr]] = {
    "linear": lambda x: x, "logistic": op.sigmoid, "relu": op.nn.relu, "relu6": functions.relu6, "elu": functions.elu,
    "tanh": op.tanh, "hardtan": functions.hard_tanh, "swish": functions.silu, "mish": functions.mish, "gelu": _gelu,
    "stair": _stair,
    "loggy": lambda x: functions.linear(op.sigmoid(x), 2.0, -1.0),
    "selu": lambda x: functions.selu(x, 1.6732, 1.0507),
    "relie": functions.leaky_relu,
    "ramp": lambda x: op.nn.relu(x) + x * 0.1,
    "leaky": lambda x: functions.leaky_relu(x, 0.1),
    "revleaky": lambda x: functions.leaky_relu(x, 0.1),
    "plse": lambda x: _piecewise(
        x, -4.0, functions.linear(x, 0.01, 0.04), 4.0, functions.linear(x, 0.01, 0.96), functions.linear(x, 0.125, 0.5)
    ),
    "lhtan": lambda x: _piecewise(x, 0.0, x * 0.001, 1.0, functions.linear(x, 0.001, 0.999), x),
    "hard_mish": lambda x: _piecewise(x, -2.0, like(0, x), 0.0, x, functions.linear(x * x, 0.5) + x),
    "normalize_channels": lambda x: _shares(op.nn.relu(x)),
    # with 0.0001 in the sum it makes a difference whether the greatest value is taken off first
    "normalize_channels_softmax": lambda x: _shares(op.exp(x)),
    "normalize_channels_softmax_maxval": lambda x: _shares(op.exp(x - op.max(x, axis=(1,), keepdims=True))),
}  # fmt: skip


# ---------------------------- Layers that read what layers before them gave, and those that hand on what they are given
#: What Darknet adds to the sum of the weights of a shortcut.
_SUM_EPSILON = 1e-4


@converts("route")
def convert_route(node: DarknetNode) -> Expr:
    """[route]: layers joined along channels, or one group of the channels of each."""
    groups, which = node.section.integer("groups", 1, 1), node.section.integer("group_id", 0)
    parts = []
    for index in range(len(node.inputs)):
        data = node.image(index)
        (channels,) = node.known(shape_of(data)[1])
        if channels % groups or which >= groups:
            node.bad(f"group {which} of {groups} of {channels} channels")
        part = channels // groups
        parts.append(slice_axis(data, 1, which * part, (which + 1) * part))
    return concatenate(parts, 1)


@converts("shortcut")
def convert_shortcut(node: DarknetNode) -> Expr:
    """[shortcut]: the layer before and those of `from`, added with or without weights."""
    factors = _factors(node)
    images = [node.image(index) for index in range(len(node.inputs))]
    total = images[0] if factors is None else images[0] * along(factors[0], 1, 4)
    for index, data in enumerate(images[1:], 1):
        if factors is not None:
            total = total + data * along(factors[index], 1, 4)
        else:
            total = _added(total, data, node)
    return activated(node, total)


def _added(total: Expr, data: Expr, node: DarknetNode) -> Expr:
    """`total` with `data` added where both have channels and pixels; the larger of two images is sampled."""
    target, source = node.known(*shape_of(total)[1:]), node.known(*shape_of(data)[1:])
    for axis, (ours, theirs) in enumerate(zip(target[1:], source[1:]), 2):
        if theirs > ours and theirs % ours == 0:
            data = slice_axis(data, axis, 0, theirs, theirs // ours)
        elif theirs != ours:
            node.unsupported(f"images of {target[1:]} and {source[1:]} cannot be added")
    common = min(target[0], source[0])
    if common == target[0]:
        return total + slice_axis(data, 1, 0, common)
    return total + op.nn.pad(data, pad_width=((0, 0), (0, target[0] - common), (0, 0), (0, 0)))


def _factors(node: DarknetNode) -> np.ndarray | None:
    """The weights of the layers, [layers, 1 or channels], normalized as the section says; None for none."""
    kind = node.section.text("weights_type", "none")
    if kind == "none":
        return None
    if kind not in ("per_feature", "per_layer", "per_channel"):
        node.bad(f"weights_type={kind}; there are none, per_feature and per_channel")
    (channels,) = node.known(shape_of(node.image())[1])
    weights = node.take("weights", len(node.inputs), channels if kind == "per_channel" else 1)
    how = node.section.text("weights_normalization", "none")
    if how in ("relu", "avg_relu"):
        weights = np.maximum(weights, 0)
    elif how == "softmax":
        weights = np.exp(weights - weights.max(axis=0))
    elif how != "none":
        node.bad(f"weights_normalization={how}; there are none, relu and softmax")
    return weights if how == "none" else weights / (weights.sum(axis=0) + _SUM_EPSILON)


@converts("scale_channels")
def convert_scale_channels(node: DarknetNode) -> Expr:
    """[scale_channels]: the image of `from` times one number a channel, or, with `scale_wh`, one a pixel."""
    factors, data = node.image(), node.image(1)
    if node.section.integer("scale_wh", 0):
        factors = slice_axis(factors, 1, 0, 1)
    return activated(node, data * factors)


converts.functions({
    "activation": lambda node: activated(node, node[0]),
    # the image of `from` times the layer before, element by element
    "sam": lambda node: activated(node, node.image() * node.image(1)),
    **dict.fromkeys(("dropout", "empty", "silence"), lambda node: node[0]),
})  # fmt: skip


@converts("softmax", "soft")
def convert_softmax(node: DarknetNode) -> Expr:
    """[softmax] over groups of all elements, or over the channels of every pixel."""
    section = node.section
    if "tree" in section.options:
        node.unsupported("softmax over a tree of classes is not supported")
    temperature, groups = section.number("temperature", 1), section.integer("groups", 1, 1)
    data = node[0]
    if temperature != 1:
        data = data / temperature
    if section.integer("spatial", 0) and len(shape_of(data)) == 4:
        return op.nn.softmax(data, axis=1)
    flat = flatten(data)
    batch, count = shape_of(flat)
    if groups > 1:
        if count % groups:
            node.bad(f"{count} elements do not make {groups} groups")
        flat = reshape(flat, (batch, groups, count // groups))
    return reshape(op.nn.softmax(flat, axis=-1), shape_of(data))
