"""Prototxt texts with weights for tests, and OpenCV's results for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.frontend.protobuf import encode
from tilewright.frontend.caffe.schema import NET

Blobs = Mapping[str, Sequence[Any]]


def net(*layers: str, **inputs: Sequence[int]) -> str:
    """A network of inputs by name and layers, which are the text between the braces."""
    given = [
        f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ '
        + " ".join(f"dim: {extent}" for extent in shape)
        + " } } }"
        for name, shape in inputs.items()
    ]
    return "\n".join(['name: "net"', *given, *[f"layer {{ {layer} }}" for layer in layers]])


def layer(kind: str, name: str, bottoms: Sequence[str] = ("data",), tops: Sequence[str] = (), more: str = "") -> str:
    """The text of a layer."""
    reads = " ".join(f'bottom: "{bottom}"' for bottom in bottoms)
    gives = " ".join(f'top: "{top}"' for top in tops or (name,))
    return f'name: "{name}" type: "{kind}" {reads} {gives} {more}'


def blob(value: Any) -> dict[str, Any]:
    """A BlobProto of an array."""
    data = np.asarray(value, "f")
    return {"shape": {"dim": list(data.shape)}, "data": data.ravel().tolist()}


def caffemodel(blobs: Blobs) -> bytes:
    """A file of weights."""
    layers = [
        {"name": name, "type": "Any", "blobs": [blob(value) for value in values]} for name, values in blobs.items()
    ]
    return encode(NET, "NetParameter", {"name": "net", "layer": layers})


def opencv(cv2: Any, folder: Path, text: str, data: bytes, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by OpenCV's dnn, by their names."""
    (folder / "net.prototxt").write_text(text)
    (folder / "net.caffemodel").write_bytes(data)
    found = cv2.dnn.readNetFromCaffe(str(folder / "net.prototxt"), str(folder / "net.caffemodel"))
    for name, value in inputs.items():
        found.setInput(value, name)
    names = found.getUnconnectedOutLayersNames()
    return dict(zip(names, found.forward(names)))
