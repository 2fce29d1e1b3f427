"""One layer of a Caffe network as its converter sees it: its parameters and its blobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.converters import Converters
from tilewright.frontend.graph_node import GraphNode
from tilewright.frontend.messages import Record
from tilewright.relay.ir.expr import Expr

#: The one table of converters of the format.
converts = Converters("caffe")


class CaffeNode(GraphNode):
    """`layer` is the LayerParameter, `parameters` that of the layer's own kind."""

    def __init__(self, layer: Record, inputs: Sequence[Expr], blobs: list[np.ndarray], image: Sequence[Any]) -> None:
        super().__init__(layer.type, layer.name, inputs)
        self.layer = layer
        self.blobs = blobs
        self.image = image  # the shape of the first input of the network

    @property
    def label(self) -> str:
        """The layer as messages name it."""
        return f"layer {self.name!r} ({self.operator})"

    @property
    def tops(self) -> list[str]:
        """The names of the results."""
        return list(self.layer.top)

    def blob(self, index: int, *shape: int, what: str = "weights") -> np.ndarray:
        """Blob `index` in `shape`, whose number of elements it must have; without a shape, as it is."""
        if index >= len(self.blobs):
            raise ModelError(
                f"{self.label} has no {what}: put NAME.caffemodel beside NAME.prototxt, or pass both as a tuple"
            )
        data = self.blobs[index]
        if not shape:
            return data
        if -1 not in shape and data.size != int(np.prod(shape, dtype=object)):
            raise ModelError(f"{self.label}: its {what} are of shape {list(data.shape)}, and {list(shape)} is needed")
        return data.reshape(shape)
