"""Layers that read what layers before them gave, and those that hand on what they are given."""

from __future__ import annotations

import numpy as np

from tilewright.frontend.darknet.activation import activated
from tilewright.frontend.darknet.node import DarknetNode
from tilewright.frontend.darknet.registry import converts
from tilewright.frontend.idioms import along, concatenate, constant, flatten, reshape, shape_of, slice_axis
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

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
    total = images[0] if factors is None else op.multiply(images[0], along(factors[0], 1, 4))
    for index, data in enumerate(images[1:], 1):
        if factors is not None:
            total = op.add(total, op.multiply(data, along(factors[index], 1, 4)))
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
        return op.add(total, slice_axis(data, 1, 0, common))
    return op.add(total, op.nn.pad(data, pad_width=((0, 0), (0, target[0] - common), (0, 0), (0, 0))))


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
    return activated(node, op.multiply(data, factors))


@converts("sam")
def convert_sam(node: DarknetNode) -> Expr:
    """[sam]: the image of `from` times the layer before, element by element."""
    return activated(node, op.multiply(node.image(), node.image(1)))


@converts("dropout", "empty", "silence")
def convert_nothing(node: DarknetNode) -> Expr:
    """Layers that do nothing outside of training."""
    return node[0]


@converts("softmax", "soft")
def convert_softmax(node: DarknetNode) -> Expr:
    """[softmax] over groups of all elements, or over the channels of every pixel."""
    section = node.section
    if "tree" in section.options:
        node.unsupported("softmax over a tree of classes is not supported")
    temperature, groups = section.number("temperature", 1), section.integer("groups", 1, 1)
    data = node[0]
    if temperature != 1:
        data = op.divide(data, constant(temperature))
    if section.integer("spatial", 0) and len(shape_of(data)) == 4:
        return op.nn.softmax(data, axis=1)
    flat = flatten(data)
    batch, count = shape_of(flat)
    if groups > 1:
        if count % groups:
            node.bad(f"{count} elements do not make {groups} groups")
        flat = reshape(flat, (batch, groups, count // groups))
    return reshape(op.nn.softmax(flat, axis=-1), shape_of(data))
