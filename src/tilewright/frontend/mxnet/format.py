"""MXNet among the formats: what its symbols begin like, and who reads them."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Shapes
from tilewright.frontend.mxnet import converts, from_mxnet
from tilewright.frontend.mxnet.load import is_symbol, parameters_beside
from tilewright.frontend.source import Source
from tilewright.frontend.two_files import PairFrontend, parts_of
from tilewright.relay.ir.module import IRModule


class MxnetFrontend(PairFrontend):
    """A symbol with its parameters beside it, or a pair of both."""

    name = "mxnet"
    kind = "an MXNet symbol"
    in_memory = "a tuple of an MXNet symbol and its parameters"
    weights_beside = staticmethod(parameters_beside)

    def recognizes(self, source: Source) -> bool:
        """JSON whose first entry is a list of nodes with operators."""
        return is_symbol(source.contents)

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        return from_mxnet(*parts_of(model), input_shapes)

    def operators(self) -> dict[str, list[str]]:
        """By their names in symbols."""
        return {"operators": converts.supported()}
