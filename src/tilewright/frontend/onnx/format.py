"""ONNX among the formats: what its files begin like, and who reads them. Needs no onnx package until it reads one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilewright.errors import ModelError
from tilewright.frontend.description import Description
from tilewright.frontend.inputs import Declared, InputSpec
from tilewright.frontend.interface import Frontend, Metadata, Shapes
from tilewright.frontend.onnx import from_onnx
from tilewright.frontend.onnx.reference.reference import OnnxReference
from tilewright.frontend.onnx.wire import fields
from tilewright.frontend.reference import Reference
from tilewright.frontend.source import Source
from tilewright.frontend.wire import BYTES, VARINT
from tilewright.relay.ir.module import IRModule

#: Wire types of the fields of `ModelProto`, by number (onnx.proto).
_FIELDS = {1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: VARINT, 6: BYTES, 7: BYTES, 8: BYTES, 14: BYTES, 20: BYTES,
           25: BYTES, 26: BYTES}  # fmt: skip
_GRAPH, _OPSET_IMPORT = 7, 8


class OnnxFrontend(Frontend):
    """Files and messages of the format of https://onnx.ai."""

    name = "onnx"
    kind = "an ONNX model"
    in_memory = "an onnx.ModelProto"

    def recognizes(self, source: Source) -> bool:
        """A protocol buffer with a graph or operator sets where ONNX has them; it may end within one of its fields."""
        seen = set()
        try:
            for number, kind, *_ in fields(source.contents, whole=False):
                if _FIELDS.get(number, kind) != kind:
                    return False
                seen.add(number)
        except ModelError:
            return False
        return not seen.isdisjoint((_GRAPH, _OPSET_IMPORT))

    def takes(self, model: object) -> bool:
        """An `onnx.ModelProto`."""
        return type(model).__name__ == "ModelProto"

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        """As `from_onnx`."""
        return from_onnx(model, input_shapes)

    def declared(self, model: str | os.PathLike[str]) -> list[Declared]:
        """The inputs declared in the file; nothing is converted. 0 is a symbolic dimension, as some exporters
        mean it.
        """
        # what reads messages needs the onnx package, which is optional
        from tilewright.frontend.onnx.load import declared_inputs, load_model

        return [
            entry if entry.dims is None else replace(entry, dims=tuple(dim or "?" for dim in entry.dims))
            for entry in declared_inputs(load_model(model).proto.graph)
        ]

    def index_limits(self, model: str | os.PathLike[str]) -> Mapping[str, int]:
        """By the operators that look up."""
        from tilewright.frontend.onnx.index_limits import index_limits

        return index_limits(os.fspath(model))

    def metadata(self, model: str | os.PathLike[str]) -> Metadata:
        """By the file."""
        from tilewright.frontend.onnx.describe import metadata

        return metadata(model)

    def describe(self, model: str | os.PathLike[str]) -> Description:
        """By the file."""
        from tilewright.frontend.onnx.describe import describe

        return describe(model)

    def reference(self, model: Any) -> Reference:
        """onnxruntime, OpenVINO and ONNX's own evaluator."""
        return OnnxReference(model)
