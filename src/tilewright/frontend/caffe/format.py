"""Caffe among the formats: what its files begin like, and who reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.frontend.caffe import converts, from_caffe
from tilewright.frontend.caffe.load import is_binary, is_text, weights_beside
from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Frontend, Shapes
from tilewright.frontend.source import Source
from tilewright.frontend.two_files import first_of, is_pair
from tilewright.relay.ir.module import IRModule


class CaffeFrontend(Frontend):
    """A prototxt with its caffemodel beside it, a pair of both, or a caffemodel alone."""

    name = "caffe"
    kind = "a Caffe prototxt or caffemodel"
    in_memory = "a tuple of a Caffe prototxt and its caffemodel"

    def recognizes(self, source: Source) -> bool:
        """The fields of a network, as text or as a protocol buffer."""
        return is_binary(source.contents) or is_text(source.contents)

    def takes(self, model: object) -> bool:
        """A pair whose first part is a prototxt."""
        source = first_of(model) if is_pair(model) else None  # type: ignore[arg-type]
        return source is not None and self.recognizes(source)

    def companions(self, path: Path) -> Sequence[Path]:
        """The caffemodel."""
        found = weights_beside(path)
        return () if found is None or found == path else (found,)

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        """As `from_caffe`."""
        prototxt, caffemodel = model if is_pair(model) else (model, None)
        return from_caffe(prototxt, caffemodel, input_shapes)

    def operators(self) -> dict[str, list[str]]:
        """Types of layers."""
        return {"layers": converts.supported()}
