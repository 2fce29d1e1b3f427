"""A whole Caffe network to a Relay module: read both files, convert layer after layer, gather what nobody reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import ModelError
from tilewright.frontend.caffe.load import Net, load_net
from tilewright.frontend.caffe.node import CaffeNode, converts
from tilewright.frontend.converters import import_families
from tilewright.frontend.graph_walk import GraphWalk
from tilewright.frontend.inputs import Declared, InputSpec, resolve_inputs
from tilewright.frontend.messages import Record
from tilewright.frontend.outputs import module_of
from tilewright.frontend.two_files import Part
from tilewright.relay.ir.expr import var
from tilewright.relay.ir.module import IRModule
from tilewright.support.dtype import DType

import_families("tilewright.frontend.caffe", "detection elementwise nn shapes")

#: Layers that read data from elsewhere: their results become inputs of the model.
_DATA = ("Data", "ImageData", "HDF5Data", "MemoryData", "WindowData", "AnnotatedData", "Input")
#: Layers of training and testing, which have no position in a model that runs.
_LEFT_OUT = ("Accuracy", "EuclideanLoss", "HingeLoss", "InfogainLoss", "ContrastiveLoss", "SigmoidCrossEntropyLoss",
             "MultinomialLogisticLoss", "MultiBoxLoss", "SmoothL1Loss", "DetectionEvaluate", "HDF5Output")  # fmt: skip


def from_caffe(
    prototxt: Part, caffemodel: Part | None = None, input_shapes: Mapping[str, Sequence[Any]] | None = None
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for a Caffe network in the phase TEST, and the specs of its inputs in order.

    `caffemodel` holds the weights; without it that of the same name beside the prototxt, or the only one there. A
    caffemodel alone is a network too. The results are the blobs that no layer reads. `input_shapes` sets other
    extents than the file, or names for symbolic ones.

    Raises `ModelError` for a bad file, `ShapeError` for a wrong shape, `UnsupportedError` naming every layer that
    cannot be converted.
    """
    net = load_net(prototxt, caffemodel)
    layers = [layer for layer in net.layers if layer.type not in _LEFT_OUT]
    declared = _declared(net, layers, input_shapes)
    if not declared:
        raise ModelError(f"{net.label} has no inputs: neither `input` nor a layer of the type Input")
    specs = resolve_inputs(declared, input_shapes)
    params = [var(spec.name, spec.type) for spec in specs]
    walk = GraphWalk(net.label, converts)
    walk.values.update(zip((spec.name for spec in specs), params))
    for layer in layers:
        if layer.type in _DATA:
            continue
        reads = list(layer.bottom)[: 1 if layer.type == "SoftmaxWithLoss" else None]  # the labels are not there
        inputs = [walk.value(name, f"layer {layer.name!r} ({layer.type})") for name in reads]
        walk.step(CaffeNode(layer, inputs, net.blobs.get(layer.name, []), specs[0].shape), list(layer.top))
    names = _unread(layers, [spec.name for spec in specs])
    if not names:
        walk.missing.refuse(net.label)
        raise ModelError(f"{net.label} has no results: every blob is read by a layer")
    results = walk.results(names)
    return module_of(params, results, names), specs


def _declared(net: Net, layers: Sequence[Record], input_shapes: Mapping[str, Sequence[Any]] | None) -> list[Declared]:
    """The inputs: those of the network, and the results of the layers that read data, whose extents may be given."""
    proto = net.proto
    extents: dict[str, list[int] | None] = {}
    names = list(proto.input)
    dims = [[int(extent) for extent in blob.dim] for blob in proto.input_shape]
    if not dims and len(proto.input_dim):
        flat = [int(extent) for extent in proto.input_dim]
        dims = [flat[at : at + 4] for at in range(0, len(flat), 4)]
    for index, name in enumerate(names):
        extents[name] = dims[index] if index < len(dims) else None
    read = {name for layer in layers for name in layer.bottom if layer.type != "SoftmaxWithLoss"}
    read |= {layer.bottom[0] for layer in layers if layer.type == "SoftmaxWithLoss" and layer.bottom}
    for layer in layers:
        given = [[int(extent) for extent in blob.dim] for blob in layer.input_param.shape]
        for index, name in enumerate(layer.top if layer.type in _DATA else ()):
            if layer.type == "Input" or name in read:
                extents[name] = given[min(index, len(given) - 1)] if given else None
    chosen = input_shapes or {}
    return [Declared(name, _open(dims_of, name in chosen), DType("float32")) for name, dims_of in extents.items()]


def _open(extents: list[int] | None, chosen: bool) -> tuple[Any, ...] | None:
    """Extents of the file, "?" for unknown ones, and for all where the user states them."""
    if extents is None:
        return None
    return tuple("?" if chosen or extent <= 0 else extent for extent in extents)


def _unread(layers: Sequence[Record], inputs: Sequence[str]) -> list[str]:
    """The blobs that no layer reads behind the one that computes them, in order."""
    given: dict[str, None] = {}
    for layer in layers:
        for name in layer.bottom:
            given.pop(name, None)
        if layer.type not in _DATA:
            given.update(dict.fromkeys(layer.top))
    return [name for name in given if name not in inputs or any(name in layer.top for layer in layers)]
