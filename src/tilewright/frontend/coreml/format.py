"""Core ML among the formats: what its files begin like, and who reads them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.errors import ModelError
from tilewright.frontend.coreml import converts, from_coreml, layers
from tilewright.frontend.coreml.load import MANIFEST, is_specification, specification_path
from tilewright.frontend.coreml.metadata import read_metadata
from tilewright.frontend.coreml.schema import SCHEMA
from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Metadata, OfEntries, Shapes
from tilewright.frontend.source import Source
from tilewright.relay.ir.module import IRModule


class CoremlFrontend(OfEntries):
    """Packages of ML programs, and the specifications in them; the functions of a program are its entries."""

    name = "coreml"
    kind = "a Core ML package"

    def recognizes(self, source: Source) -> bool:
        """A folder with a manifest and data, or a version and a description."""
        if source.is_folder:
            return {MANIFEST, "Data"} <= source.members
        return is_specification(source.contents)

    def companions(self, path: Path) -> Sequence[Path]:
        """The files of a package, or the weights beside a specification."""
        try:
            spec = specification_path(path) if path.is_dir() else path
        except ModelError:
            return ()
        weights = sorted(found for found in (spec.parent / "weights").glob("*") if found.is_file())
        return [spec, *weights] if path.is_dir() else weights

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        return from_coreml(model, input_shapes, self.signature)

    def metadata(self, model: str | os.PathLike[str]) -> Metadata:
        """The metadata of the description, and the labels of a classifier."""
        return read_metadata(model)

    def operators(self) -> dict[str, list[str]]:
        """Operations of ML programs (MIL), and layers of neural networks."""
        return {"operations": converts.supported(), "layers": layers.supported()}

    def missing(self) -> list[str]:
        """Of the core operations of MIL and the layers of the specification."""
        known = {*converts.supported(), *layers.supported(), "const"}
        listed = {*SCHEMA.members("MilOperation"), *SCHEMA.fields("NeuralNetworkLayer")}
        return sorted(listed - {"name", "input", "output"} - known)
