"""One layer of a Darknet network as its converter sees it: options, weights, what layers before it gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.converters import Converters
from tilewright.frontend.darknet.cfg import Section, Weights
from tilewright.frontend.graph_node import GraphNode
from tilewright.frontend.idioms import flatten, reshape
from tilewright.relay.ir.expr import Expr, Var, var
from tilewright.relay.ir.type import TensorType

#: The one table of converters of the format.
converts = Converters("darknet")


class States:
    """The states of recurrent layers: inputs of the model, and what the run leaves there."""

    def __init__(self) -> None:
        self.inputs: dict[str, Var] = {}
        self.results: dict[str, Expr] = {}

    def begin(self, name: str, shape: Sequence[Any]) -> Var:
        """The state `name` as the run begins."""
        self.inputs[name] = state = var(name, TensorType(shape, "float32"))
        return state


class DarknetNode(GraphNode):
    """Layer `index` of the network; input 0 is the layer before it, or those that it names."""

    def __init__(
        self, section: Section, index: int, inputs: Sequence[Expr], weights: Weights, states: States,
        size: tuple[Any, Any], decode: bool,
    ) -> None:  # fmt: skip
        super().__init__(section.kind, f"{section.kind}_{index}", inputs)
        self.section = section
        self.weights = weights
        self.states = states
        self.size = size  # height and width of the model's input
        self.decode = decode

    @property
    def label(self) -> str:
        """The layer as messages name it."""
        return self.section.label

    def image(self, index: int = 0) -> Expr:
        """Input `index` as [batch, channels, height, width]; what is flat has extents of 1."""
        shape = self.shape(index)
        return self[index] if len(shape) == 4 else reshape(self[index], (shape[0], shape[1], 1, 1))

    def flat(self, index: int = 0) -> Expr:
        """Input `index` as [batch, all the rest]."""
        return flatten(self[index])

    def take(self, what: str, *shape: int) -> np.ndarray:
        """The next weights of the file, for `what`."""
        return self.weights.take(f"{self.label} ({what})", *shape)

    def known(self, *extents: Any) -> tuple[int, ...]:
        """Extents that weights depend on, which must be numbers."""
        if not all(isinstance(extent, int) for extent in extents):
            self.unsupported("its weights depend on a symbolic dimension of the input; fix its size with input_shapes")
        return extents
