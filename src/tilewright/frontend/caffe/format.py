"""Caffe among the formats: what its files begin like, and who reads them."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.caffe import converts, from_caffe
from tilewright.frontend.caffe.load import is_binary, is_text, weights_beside
from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Shapes
from tilewright.frontend.source import Source
from tilewright.frontend.two_files import PairFrontend, parts_of
from tilewright.relay.ir.module import IRModule


class CaffeFrontend(PairFrontend):
    """A prototxt with its caffemodel beside it, a pair of both, or a caffemodel alone."""

    name = "caffe"
    kind = "a Caffe prototxt or caffemodel"
    in_memory = "a tuple of a Caffe prototxt and its caffemodel"
    weights_beside = staticmethod(weights_beside)

    def recognizes(self, source: Source) -> bool:
        """The fields of a network, as text or as a protocol buffer."""
        return is_binary(source.contents) or is_text(source.contents)

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        return from_caffe(*parts_of(model), input_shapes)

    def operators(self) -> dict[str, list[str]]:
        """Types of layers."""
        return {"layers": converts.supported()}
