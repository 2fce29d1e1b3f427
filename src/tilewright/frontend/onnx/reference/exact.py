"""The reference that `verify`, `bisect` and `run --dump --against` share: another engine as exact as it can be had.

onnxruntime runs operator by operator, its graph optimizations off, so that nodes compute what they say and all
values exist. Where it would add products of bytes in 16 bits (`saturation.py`), its precise mode is requested, which is
one of those optimizations.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, InputError, TilewrightError, UnsupportedError
from tilewright.frontend.onnx.reference.engines import open_engine
from tilewright.frontend.onnx.reference.saturation import stored_products
from tilewright.frontend.onnx.reference.submodel import read_onnx, tensors_of
from tilewright.frontend.reference import Engine, import_engine

Array = np.ndarray[Any, Any]

#: Engines that return inner values too.
REFERENCES = ("onnxruntime", "reference")


def open_reference(name: str, path: str, inputs: Mapping[str, Array], threads: int) -> Engine:
    """The engine called `name` for comparing with: as exact as it can be had, with the model at `path` loaded.

    Raises UnsupportedError when it refuses the model.
    """
    if name != "onnxruntime":
        return open_engine(name, path, inputs, threads)
    ort = import_engine("onnxruntime")
    try:
        session = ort.InferenceSession(
            path, _exact(ort, read_onnx(path, False), threads), providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime's bindings have no exception class in common.
        raise UnsupportedError(f"onnxruntime does not load {path}: {_last_line(error)}") from None
    feed = dict(inputs)
    names = [output.name for output in session.get_outputs()]

    def run() -> list[Any]:
        try:
            return list(session.run(names, feed))
        except Exception as error:  # as above: indices out of range, for one
            raise InputError(f"onnxruntime does not run {path} on these inputs: {_last_line(error)}") from None

    return Engine(name, ort.__version__, run, feed.update)


def _exact(ort: Any, model: Any, threads: int = 0) -> Any:
    """Settings of a session for `model`."""
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    if stored_products(model):
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        settings.add_session_config_entry("session.x64quantprecision", "1")
    else:
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return settings


def values_of(
    model: Any, inputs: Mapping[str, Array], names: list[str], against: str = "onnxruntime"
) -> dict[str, Array]:
    """Values of `model`, an `onnx.ModelProto`, by the reference `against`. Raises UnsupportedError when it refuses."""
    try:
        import onnx
    except ImportError:
        raise EnvironmentError_("onnx is not installed; `pip install tilewright[onnx]` installs it") from None
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
    run = _evaluate if against == "reference" else _run_onnxruntime
    try:
        return values | dict(zip(wanted, run(probe, inputs, wanted), strict=True))
    except TilewrightError:
        raise
    except Exception as error:  # Neither engine's errors have a class in common.
        raise UnsupportedError(f"{against} does not run the model: {_last_line(error)}") from None


def _run_onnxruntime(model: Any, inputs: Mapping[str, Array], wanted: list[str]) -> list[Any]:
    ort = import_engine("onnxruntime")
    session = ort.InferenceSession(model.SerializeToString(), _exact(ort, model), providers=["CPUExecutionProvider"])
    return session.run(wanted, {info.name: inputs[info.name] for info in session.get_inputs()})


def _evaluate(model: Any, inputs: Mapping[str, Array], wanted: list[str]) -> list[Any]:
    # it imports onnx, which is optional
    from tilewright.frontend.onnx.reference.evaluator import evaluator

    weights = {tensor.name for tensor in model.graph.initializer}
    feed = {info.name: inputs[info.name] for info in model.graph.input if info.name not in weights}
    return list(evaluator(model).run(wanted, feed))


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()


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
