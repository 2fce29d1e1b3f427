"""TensorFlow among the formats: what its files begin like, and who reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import OfEntries, Shapes
from tilewright.frontend.source import Source
from tilewright.frontend.tensorflow import converts, from_tensorflow
from tilewright.frontend.tensorflow.load import is_graph, is_saved_model
from tilewright.relay.ir.module import IRModule


class TensorflowFrontend(OfEntries):
    """SavedModels, which are folders and have signatures, and frozen graphs."""

    name = "tensorflow"
    kind = "a TensorFlow SavedModel or frozen graph"

    def recognizes(self, source: Source) -> bool:
        """A folder with saved_model.pb, or a message that begins with a node."""
        return is_saved_model(source) or (not source.is_folder and is_graph(source))

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        return from_tensorflow(model, input_shapes, signature=self.signature)

    def convert_outputs(self, model: Any, input_shapes: Shapes | None, outputs: Sequence[str] | None) -> IRModule:
        """Of a graph, only what these nodes need is looked at."""
        if outputs is None or is_saved_model(Source.of(model)):
            return super().convert_outputs(model, input_shapes, outputs)
        return from_tensorflow(model, input_shapes, outputs, self.signature)[0]

    def companions(self, path: Path) -> Sequence[Path]:
        """The files of a SavedModel's folder."""
        if not path.is_dir():
            return ()
        return [path / "saved_model.pb", *sorted(found for found in (path / "variables").glob("*") if found.is_file())]

    def operators(self) -> dict[str, list[str]]:
        """Operators by their raw names."""
        # importing it registers the converters
        from tilewright.frontend.tensorflow import convert  # noqa: F401

        return {"operators": converts.supported()}
