"""The ONNX `Backend` of Tilewright, which runs models as the onnx package's own backend tests do.

    backend_test = onnx.backend.test.BackendTest(TilewrightBackend, __name__)

Interface: https://onnx.ai/onnx/api/backend.html.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from tilewright.compile import compile as compile_model
from tilewright.errors import ShapeError
from tilewright.frontend.inputs import resolve_inputs
from tilewright.frontend.onnx.load import declared_inputs


class TilewrightRep(BackendRep):
    """A compiled model; where its inputs have no number of dimensions, it is compiled for those of each run."""

    def __init__(self, model: Any, **options: Any) -> None:
        self._model, self._options = model, options
        known = {tensor.name for tensor in model.graph.initializer}
        self._names = [value.name for value in model.graph.input if value.name not in known]
        self._outputs = [value.name for value in model.graph.output]
        self._executable = self._compiled(None) if self._has_ranks() else None

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """The outputs for `inputs`: a list or tuple in the model's order, a mapping by name, or one array."""
        feeds = self._feeds(inputs)
        executable = self._executable
        if executable is None:
            executable = self._compiled({name: np.shape(value) for name, value in feeds.items() if _is_array(value)})
        results = executable.run(feeds)
        return namedtupledict("Outputs", self._outputs)(*results)

    def _feeds(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            return dict(inputs)
        values = inputs if isinstance(inputs, list | tuple) else [inputs]
        return dict(zip(self._names, values))

    def _has_ranks(self) -> bool:
        try:
            resolve_inputs(declared_inputs(self._model.graph), None)
        except ShapeError:
            return False
        return True

    def _compiled(self, shapes: Mapping[str, Sequence[int]] | None) -> Any:
        return compile_model(self._model, input_shapes=shapes, **self._options)


class TilewrightBackend(Backend):
    """Compiles ONNX models for the CPU of this machine."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> TilewrightRep:
        """`model` compiled; `kwargs` are options of `tilewright.compile`."""
        options = {key: value for key, value in kwargs.items() if key in ("threads", "cache", "executor")}
        return TilewrightRep(model, **options)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        """The outputs of `model` on `inputs`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Sequence[Any] | None = None, **kwargs: Any
    ) -> Any:
        """The outputs of one node on `inputs`, which are its inputs in order, at the opset `opset_version`."""
        opset = int(kwargs.pop("opset_version", onnx.defs.onnx_opset_version()))
        arrays = [np.asarray(value) for value in (inputs if isinstance(inputs, list | tuple) else [inputs])]
        names = [name for name in node.input if name]
        described = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays)
        ]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", described, results)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain or "", opset)])
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True for the CPU."""
        return device.split(":")[0] == "CPU"


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic | int | float)


prepare = TilewrightBackend.prepare
run_model = TilewrightBackend.run_model
run_node = TilewrightBackend.run_node
supports_device = TilewrightBackend.supports_device
