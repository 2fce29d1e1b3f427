"""The two files of a Caffe network: the prototxt, layers as text, and the caffemodel, their blobs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from tilewright.errors import ModelError, TilewrightError
from tilewright.frontend.caffe.schema import NET, WEIGHTS
from tilewright.frontend.caffe.upgrade import layers_of
from tilewright.frontend.messages import Record
from tilewright.frontend.source import Source
from tilewright.frontend.text_format import read_text
from tilewright.frontend.two_files import Part, beside, text_of
from tilewright.frontend.wire import looks_like, read_message

_WHAT = "a Caffe model"


@dataclass
class Net:
    """A network: its layers of the phase TEST, and the blobs of each by its name."""

    label: str
    proto: Record
    layers: list[Record]
    blobs: dict[str, list[np.ndarray]]


def is_binary(contents: memoryview) -> bool:
    """True for what begins as a caffemodel does: a name and layers that have names and types."""
    seen = looks_like(contents[: 1 << 16], NET, "NetParameter")
    return seen is not None and "name" in seen and not seen.isdisjoint(("layer", "layers"))


def is_text(contents: memoryview) -> bool:
    """True for what begins as a prototxt does: the fields of a network, and none other, at its outermost level."""
    text = bytes(contents[: 1 << 14]).decode("utf-8", "replace")
    known = {"name", "input", "input_dim", "input_shape", "layer", "layers", "state", "force_backward", "debug_info"}
    depth, outer = 0, []
    for line in text.splitlines()[:-1] if len(contents) > 1 << 14 else text.splitlines():
        line = line.split("#", 1)[0].strip()
        if depth == 0 and line:
            outer.append(line.replace("{", ":").split(":", 1)[0].strip())
        depth += line.count("{") - line.count("}")
    names = [name for name in outer if name not in ("}", "")]
    return bool(names) and set(names) <= known and not known.isdisjoint(names) and names != ["name"]


def is_network(source: Source) -> bool:
    """True for the fields of a network, as text or as a protocol buffer."""
    return is_binary(source.contents) or is_text(source.contents)


#: The caffemodel of the prototxt at a path, if there is one.
weights_beside = partial(beside, suffixes=(".caffemodel",))


def load_net(prototxt: Part, caffemodel: Part | None) -> Net:
    """Both files read. Raises `ModelError` for what is damaged, or where layers have no weights."""
    source = Source.of(prototxt)
    if is_binary(source.contents):
        proto = read_message(source.contents, NET, "NetParameter", source.label, _WHAT)
        weights: Record | None = proto if caffemodel is None else _weights(source, caffemodel)
    else:
        proto = read_text(text_of(source), NET, "NetParameter", source.label)
        weights = _weights(source, caffemodel)
    try:
        layers = [layer for layer in layers_of(proto) if _tested(layer)]
    except TilewrightError as error:
        raise type(error)(f"{source.label}: {error}") from None
    blobs = {} if weights is None else _blobs(weights, source.label)
    for layer in layers:  # weights within the text itself
        if layer.blobs:
            blobs.setdefault(layer.name, [_array(blob, layer.name, source.label) for blob in layer.blobs])
    return Net(source.label, proto, layers, blobs)


def _weights(source: Source, caffemodel: Part | None) -> Record | None:
    if caffemodel is None and source.path is not None:
        caffemodel = weights_beside(source.path)
    if caffemodel is None:
        return None
    found = Source.of(caffemodel)
    return read_message(found.contents, WEIGHTS, "NetParameter", found.label, _WHAT)


def _blobs(net: Record, label: str) -> dict[str, list[np.ndarray]]:
    found: dict[str, list[np.ndarray]] = {}
    for layer in [*net.layer, *net.layers]:
        own = layer.layer if layer.kind == "V1LayerParameter" and layer.has("layer") else layer
        if own.blobs:
            found[own.name] = [_array(blob, own.name, label) for blob in own.blobs]
    return found


def _array(blob: Record, layer: str, label: str) -> np.ndarray:
    """The numbers of a blob in its shape, whose elements are all there."""
    if blob.has("shape"):
        shape = [int(extent) for extent in blob.shape.dim]
    else:
        shape = [getattr(blob, name) for name in ("num", "channels", "height", "width")]
    data = np.asarray(blob.double_data if len(blob.double_data) else blob.data, np.float32)
    if any(extent < 0 for extent in shape) or int(np.prod(shape, dtype=object)) != data.size:
        raise ModelError(f"{label}: a blob of the layer {layer!r} has {data.size} numbers for the shape {shape}")
    return data.reshape(shape)


def _tested(layer: Record) -> bool:
    """True where a layer is part of the network in the phase TEST, by the rules that it has."""

    def meets(rule: Record) -> bool:
        if rule.has("phase") and rule.phase != "TEST":
            return False
        if (rule.has("min_level") and rule.min_level > 0) or (rule.has("max_level") and rule.max_level < 0):
            return False
        return not rule.stage  # a network has no stages unless a caller selects some

    if layer.include:
        return any(meets(rule) for rule in layer.include)
    return not any(meets(rule) for rule in layer.exclude)
