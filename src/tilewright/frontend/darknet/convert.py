"""A whole Darknet network to a Relay module: read both files, convert layer after layer, gather heads and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.converters import import_families
from tilewright.frontend.darknet.cfg import Section, Weights, read_cfg
from tilewright.frontend.darknet.node import DarknetNode, States, converts
from tilewright.frontend.graph_walk import GraphWalk
from tilewright.frontend.inputs import Declared, InputSpec, resolve_inputs
from tilewright.frontend.outputs import module_of
from tilewright.frontend.source import Source
from tilewright.frontend.two_files import Part, beside, text_of
from tilewright.relay.ir.expr import var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import type_of
from tilewright.support.dtype import DType
from tilewright.support.open_sizes import shapes_by_name

import_families("tilewright.frontend.darknet", "activation heads nn recurrent ")

INPUT = "data"
_HEADS = ("yolo", "region", "detection", "Gaussian_yolo")


#: The file of weights of the cfg at a path, if there is one.
weights_beside = partial(beside, suffixes=(".weights",))


def from_darknet(
    cfg: Part, weights: Part | None = None, input_shapes: Mapping[str, Sequence[Any]] | None = None, decode: bool = True
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for a Darknet network, and the specs of its inputs: `data`, [batch, channels, height, width].

    `weights` is the file that goes with the cfg; without it that of the same name beside it, or the only one there.
    The results are the detection heads and the last layer. With `decode` a head returns rows: the centre, width and
    height of a box as fractions of the image, its objectness, and the scores of its classes, those not above the
    threshold as zero. Without it, what the layer itself leaves: its input with the activations applied.

    The states of recurrent layers are inputs and outputs, as `initial_states` says. Raises `ModelError` for a bad file,
    `ShapeError` for a wrong shape, `UnsupportedError` naming every layer that cannot be converted.
    """
    source = Source.of(cfg)
    net, layers = read_cfg(text_of(source), source.label)
    numbers = Weights(*_contents(source, weights))
    input_shapes = shapes_by_name(input_shapes, [INPUT])
    (spec,) = resolve_inputs([_declared(net, input_shapes)], input_shapes)
    data = var(spec.name, spec.type)
    walk, states = GraphWalk(source.label, converts), States()
    walk.values[-1] = data
    size = spec.shape[2:] if len(spec.shape) == 4 else (1, 1)
    for index, section in enumerate(layers):
        inputs = [walk.values[position] for position in _reads(section, index)]
        if section.kind == "cost":
            walk.values[index] = inputs[0]
        else:
            walk.step(DarknetNode(section, index, inputs, numbers, states, size, decode), [index])
    positions = _results(layers)
    results = walk.results(positions)
    numbers.check_end()
    names = [f"{layers[position].kind}_{position}" for position in positions] + [
        f"{name}:next" for name in states.inputs
    ]
    results += [states.results[name] for name in states.inputs]
    specs = [spec, *[InputSpec(name, type_of(state)) for name, state in states.inputs.items()]]
    return module_of([data, *states.inputs.values()], results, names), specs


def initial_states(cfg: Part, weights: Part | None = None) -> dict[str, np.ndarray]:
    """The zeros that recurrent layers begin with, by the names of the inputs that they are."""
    specs = from_darknet(cfg, weights)[1]
    return {spec.name: np.zeros(spec.shape, np.float32) for spec in specs[1:]}


def _contents(source: Source, weights: Part | None) -> tuple[memoryview, str]:
    """The bytes of the weights and what to call them."""
    if weights is None and source.path is not None:
        weights = weights_beside(source.path)
    if weights is None:
        raise ModelError(
            f"{source.label} has no weights: put NAME.weights beside NAME.cfg, or pass both as a tuple (cfg, weights)"
        )
    found = Source.of(weights)
    return found.contents, found.label


def _declared(net: Section, input_shapes: Mapping[str, Sequence[Any]] | None) -> Declared:
    """The input as [net] declares it, with extents that may be overridden."""
    extents = [net.integer(name, 0) for name in ("channels", "height", "width")]
    if 0 in extents:
        inputs = net.integer("inputs", int(np.prod(extents)))
        if inputs < 1:
            raise ModelError(f"{net.label} states neither height, width and channels nor inputs")
        dims: tuple[Any, ...] = (1, inputs)
    else:
        dims = (1, *extents)
    if INPUT in (input_shapes or {}):
        dims = ("?",) * len(dims)
    return Declared(INPUT, dims, DType("float32"))


def _reads(section: Section, index: int) -> list[int]:
    """The layers that one reads, the one before it first where it reads that."""
    if section.kind == "implicit":
        return []
    name = {"route": "layers", "shortcut": "from", "scale_channels": "from", "sam": "from"}.get(section.kind)
    if name is None:
        return [index - 1]
    listed = [int(position) for position in section.numbers(name)]
    positions = [index + position if position < 0 else position for position in listed]
    if not positions or any(not 0 <= position < index for position in positions):
        raise ModelError(f"{section.label}: {name}={section.text(name, '')} names no layer before it")
    return positions if section.kind == "route" else [index - 1, *positions]


def _results(layers: Sequence[Section]) -> list[int]:
    """The heads, and the last layer that is none of training."""
    heads_of = [index for index, section in enumerate(layers) if section.kind in _HEADS]
    last = max((index for index, section in enumerate(layers) if section.kind != "cost"), default=0)
    return heads_of if last in heads_of else [*heads_of, last]
