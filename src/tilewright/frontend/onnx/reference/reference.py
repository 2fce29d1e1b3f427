"""An ONNX model as onnxruntime, OpenVINO and ONNX's own evaluator see it: the `Reference` of the format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tilewright.frontend.onnx.reference.engines import ENGINES, open_engine
from tilewright.frontend.onnx.reference.exact import REFERENCES, open_reference, read_whole, values_of
from tilewright.frontend.onnx.reference.graph import OnnxGraph, nodes_of_model
from tilewright.frontend.onnx.reference.saturation import inexact_nodes
from tilewright.frontend.onnx.reference.straight_line import straight_line
from tilewright.frontend.onnx.reference.submodel import cut_at, read_onnx, tensors_of
from tilewright.frontend.reference import Arrays, Engine, Graph, Node, Reference

#: How ONNX's operators that round to codes begin.
_QUANTIZING = ("QuantizeLinear", "DynamicQuantize", "QLinear", "QGemm", "QAttention")


class OnnxReference(Reference):
    """`model` is the path of an ONNX file or an `onnx.ModelProto`; only a file can be opened and cut."""

    engines_with_values = REFERENCES
    suffix = ".onnx"

    def __init__(self, model: Any) -> None:
        self._path = os.fspath(model) if isinstance(model, str | os.PathLike) else ""
        self._proto = None if self._path else model

    @property
    def engines(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of `engines.py`."""
        return tuple(ENGINES)

    def open(self, engine: str, inputs: Arrays, threads: int, exact: bool = True) -> Engine:
        """By the file."""
        return (open_reference if exact else open_engine)(engine, self._path, inputs, threads)

    def values(self, inputs: Arrays, names: Sequence[str], engine: str) -> dict[str, Any]:
        """Values of the main graph."""
        return values_of(self._whole(), inputs, list(names), engine)

    def nodes(self) -> Sequence[Node]:
        """Those of the main graph."""
        return nodes_of_model(self._without_data())

    def straight_line(self, inputs: Arrays, engine: str) -> Graph:
        """`If` replaced by the branch that is taken; `Loop` and `Scan` stay."""
        return OnnxGraph(straight_line(self._whole(), lambda made, names: values_of(made, inputs, names, engine)))

    def number_kinds(self) -> set[str]:
        """The types that it stores, takes, returns or casts to."""
        # optional, and slow to import: only what compares models needs it
        from onnx import helper

        model = self._without_data()
        nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
        types = {info.type.tensor_type.elem_type for info in (*model.graph.input, *model.graph.output)}
        types |= {tensor.data_type for tensor in tensors_of(model.graph)}
        types |= {a.i for node in nodes if node.op_type == "Cast" for a in node.attribute if a.name == "to"}
        codes = {"codes" for node in nodes if node.op_type.startswith(_QUANTIZING)}
        return {helper.tensor_dtype_to_np_dtype(code).name for code in types if code} | codes

    def cut_at(self, names: Sequence[str], folder: str) -> str:
        """As an ONNX file; its external data goes with it."""
        return cut_at(self._path, names, folder)

    def inexact_nodes(self, engine: str) -> list[str]:
        """Those that saturate; none of ONNX's own evaluator."""
        return inexact_nodes(self._path, engine)

    def load(self, what_for: str) -> None:
        """All of the file with its external data; ONNX holds 2 GB at most."""
        self._whole(what_for)

    def _whole(self, what_for: str = "--against") -> Any:
        if self._proto is None:
            self._proto = read_whole(self._path, what_for)
        return self._proto

    def _without_data(self) -> Any:
        return self._proto if self._proto is not None else read_onnx(self._path, load_external_data=False)
