"""Caffe2 among the formats: what its nets begin like, and who reads them."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.caffe2 import converts, from_caffe2
from tilewright.frontend.caffe2.load import init_beside, is_net
from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Shapes
from tilewright.frontend.source import Source
from tilewright.frontend.two_files import PairFrontend, parts_of
from tilewright.relay.ir.module import IRModule


class Caffe2Frontend(PairFrontend):
    """A predict net with its init net beside it, or a pair of both."""

    name = "caffe2"
    kind = "a Caffe2 net"
    in_memory = "a tuple of a Caffe2 predict net and its init net"
    weights_beside = staticmethod(init_beside)

    def recognizes(self, source: Source) -> bool:
        """A protocol buffer of operators."""
        return is_net(source.contents)

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        return from_caffe2(*parts_of(model), input_shapes)

    def operators(self) -> dict[str, list[str]]:
        """By their types."""
        return {"operators": converts.supported()}
