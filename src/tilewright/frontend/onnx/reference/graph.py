"""The graph of an ONNX model without branches, cut into smaller models for `tilewright bisect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.frontend.onnx.reference.exact import values_of
from tilewright.frontend.onnx.reference.saturation import inexact_nodes
from tilewright.frontend.reference import Arrays, Graph, Node

Array = np.ndarray[Any, Any]


class OnnxGraph(Graph):
    """`proto` is an `onnx.ModelProto` without `If` in its main graph (`straight_line`)."""

    def __init__(self, proto: Any) -> None:
        self.proto = proto
        self.nodes = nodes_of_model(proto)
        self.outputs = [output.name for output in proto.graph.output]
        self._weights = {tensor.name: tensor for tensor in proto.graph.initializer}

    def model(self, indices: Sequence[int], outputs: Sequence[str], given: Arrays, values: Arrays) -> Any:
        """An `onnx.ModelProto`."""
        # onnx is optional, and slow to import: only what cuts models needs it
        import onnx

        read = {name for index in indices for name in self.nodes[index].inputs}
        graph = self.proto.graph
        inputs = [info for info in graph.input if info.name in read and info.name not in self._weights]
        made = onnx.helper.make_graph(
            [graph.node[index] for index in indices],
            "bisect",
            [*inputs, *_infos(given)],
            _infos({name: values[name] for name in outputs}),
            [tensor for name, tensor in self._weights.items() if name in read],
        )
        return onnx.helper.make_model(
            made,
            opset_imports=self.proto.opset_import,
            ir_version=self.proto.ir_version,
            functions=self.proto.functions,
        )

    def values(self, inputs: Arrays, names: Sequence[str], engine: str) -> dict[str, Any]:
        """By onnxruntime or ONNX's evaluator."""
        return values_of(self.proto, inputs, list(names), engine)

    def inputs(self, model: Any) -> Sequence[str]:
        """Of an `onnx.ModelProto`."""
        return [info.name for info in model.graph.input]

    def size(self, model: Any) -> int:
        """Of an `onnx.ModelProto`."""
        return len(model.graph.node)

    def save(self, model: Any, path: Path) -> None:
        """As an ONNX file."""
        path.write_bytes(model.SerializeToString())

    def inexact_nodes(self, path: str, engine: str) -> list[str]:
        """Those that saturate; none of ONNX's own evaluator."""
        return inexact_nodes(path, engine)


def nodes_of_model(proto: Any) -> list[Node]:
    """The nodes of the main graph; the importer calls those without a name by operator and number."""
    return [
        Node(node.name, node.name or f"{node.op_type}_{index}", node.op_type, tuple(_reads(node)), tuple(node.output))
        for index, node in enumerate(proto.graph.node)
    ]


def _reads(node: Any) -> list[str]:
    names = list(node.input)
    for attribute in node.attribute:
        for graph in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
            for inner in graph.node:
                names += _reads(inner)
            names += [result.name for result in graph.output]
    return list(dict.fromkeys(name for name in names if name))


def _infos(arrays: Mapping[str, Array]) -> list[Any]:
    import onnx

    code = onnx.helper.np_dtype_to_tensor_dtype
    return [onnx.helper.make_tensor_value_info(name, code(array.dtype), array.shape) for name, array in arrays.items()]
