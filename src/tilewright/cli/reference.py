"""Inner values of an ONNX model by onnxruntime, for comparing with ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.cli.submodel import read_onnx, tensors_of
from tilewright.errors import EnvironmentError_, UnsupportedError

Array = np.ndarray[Any, Any]


def values_of(model: Any, inputs: Mapping[str, Array], names: list[str]) -> dict[str, Array]:
    """Values of `model` by onnxruntime, its optimizations off so that every value exists."""
    try:
        import onnx
        import onnxruntime
    except ImportError:
        raise EnvironmentError_("onnxruntime is not installed; `pip install tilewright[compare]` installs it") from None
    computed = {output for node in model.graph.node for output in node.output}
    values = {name: inputs[name] for name in names if name in inputs}
    values |= {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer if t.name in names}
    wanted = [name for name in names if name in computed]
    if not wanted:
        return values
    probe = onnx.ModelProto.FromString(model.SerializeToString())
    kept = {output.name: output for output in probe.graph.output}
    del probe.graph.output[:]
    probe.graph.output.extend([kept.get(name) or onnx.ValueInfoProto(name=name) for name in wanted])
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(probe.SerializeToString(), settings, providers=["CPUExecutionProvider"])
        feed = {info.name: inputs[info.name] for info in session.get_inputs()}
        return values | dict(zip(wanted, session.run(wanted, feed), strict=True))
    except Exception as error:  # onnxruntime's bindings have no exception class in common.
        raise UnsupportedError(f"onnxruntime does not run the model: {str(error).strip().splitlines()[-1]}") from None


def read_whole(path: str, verb: str) -> Any:
    """The `onnx.ModelProto` at `path` with its external data. Raises `UnsupportedError` for more than ONNX can hold."""
    stored = read_onnx(path, load_external_data=False)
    size = Path(path).stat().st_size + sum(
        int(entry.value)
        for tensor in tensors_of(stored.graph)
        for entry in tensor.external_data
        if entry.key == "length" and entry.value.isdigit()
    )
    if size >= 2**31:
        raise UnsupportedError(
            f"{verb} makes models in memory, where ONNX has room for 2 GB; {path} holds {size / 2**30:.1f} GiB. "
            "Compare inner values one by one: tilewright verify --at VALUE"
        )
    return read_onnx(path)
