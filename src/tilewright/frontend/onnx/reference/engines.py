"""The engines an ONNX model can be compared with: each runs a file on named arrays with a number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, ShapeError, TilewrightError, UnsupportedError
from tilewright.frontend.reference import Arrays, Engine, import_engine


def onnxruntime_engine(path: str, inputs: Arrays, threads: int) -> Engine:
    """onnxruntime on the CPU with all graph optimizations."""
    return _onnxruntime("onnxruntime", "CPUExecutionProvider", path, inputs, threads)


def onnxruntime_gpu_engine(path: str, inputs: Arrays, threads: int) -> Engine:
    """onnxruntime's CUDA provider, inputs and outputs in the host's memory."""
    ort, provider = import_engine("onnxruntime", "onnxruntime-gpu"), "CUDAExecutionProvider"
    if provider not in ort.get_available_providers():
        raise EnvironmentError_(
            f"onnxruntime-gpu needs an NVIDIA GPU and `pip install onnxruntime-gpu`; the onnxruntime here has "
            f"{', '.join(ort.get_available_providers())}"
        )
    return _onnxruntime("onnxruntime-gpu", provider, path, inputs, threads)


def _onnxruntime(name: str, provider: str, path: str, inputs: Arrays, threads: int) -> Engine:
    ort = import_engine("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=[provider])
    if provider not in session.get_providers():  # it falls back to the processor without an error
        raise EnvironmentError_(f"onnxruntime has no GPU here for its {provider}: it would run on the processor")
    feed = dict(inputs)
    names = [output.name for output in session.get_outputs()]
    return Engine(name, ort.__version__, lambda: session.run(names, feed), feed.update)


def openvino_engine(path: str, inputs: Arrays, threads: int) -> Engine:
    """OpenVINO on the CPU in its latency mode, computing in float32."""
    ov = import_engine("openvino")
    core = ov.Core()
    model = core.read_model(path)
    shapes = {port: list(inputs[_port_name(port, inputs)].shape) for port in model.inputs}
    try:
        model.reshape(shapes)
    except RuntimeError as error:
        raise ShapeError(f"OpenVINO does not take these input shapes: {str(error).splitlines()[0]}") from None
    config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(model, "CPU", config).create_infer_request()
    outputs = list(request.model_outputs)

    def feed(given: Arrays) -> None:
        for port in request.model_inputs:  # `np.ascontiguousarray` would make vectors of scalars
            request.set_tensor(port, ov.Tensor(np.asarray(given[_port_name(port, given)], order="C")))

    def run() -> list[np.ndarray[Any, Any]]:
        request.infer()
        return [request.get_tensor(port).data for port in outputs]

    feed(inputs)
    return Engine("openvino", ov.__version__.split("-")[0], run, feed)


def reference_engine(path: str, inputs: Arrays, threads: int) -> Engine:
    """ONNX's own evaluator, written in NumPy after the specification: slow, on one thread, exact in integers."""
    onnx = import_engine("onnx", "onnx")
    # it imports onnx, which is optional
    from tilewright.frontend.onnx.reference.evaluator import evaluator

    made, feed = evaluator(onnx.load(path)), dict(inputs)

    def run() -> list[np.ndarray[Any, Any]]:
        try:
            return list(made.run(None, feed))
        except Exception as error:  # NumPy's and ONNX's errors have no class in common.
            raise UnsupportedError(f"ONNX's evaluator does not run {path}: {error}") from None

    return Engine("ONNX's evaluator", onnx.__version__, run, feed.update)


def _port_name(port: Any, inputs: Arrays) -> str:
    found = next((name for name in port.get_names() if name in inputs), None)
    if found is None:
        raise ShapeError(f"OpenVINO calls an input {sorted(port.get_names())}, which is none of {sorted(inputs)}")
    return found


ENGINES: dict[str, Callable[[str, Arrays, int], Engine]] = {
    "onnxruntime": onnxruntime_engine,
    "onnxruntime-gpu": onnxruntime_gpu_engine,
    "openvino": openvino_engine,
    "reference": reference_engine,
}


def check_engine(name: str) -> None:
    """Raise UnsupportedError with the known names unless `name` is one of them."""
    if name not in ENGINES:
        raise UnsupportedError(f"there is no engine {name!r} to compare with; known: {', '.join(ENGINES)}")


def open_engine(name: str, path: str, inputs: Arrays, threads: int) -> Engine:
    """The engine called `name` with the model at `path` loaded. Raises UnsupportedError when it refuses the model."""
    check_engine(name)
    try:
        return ENGINES[name](path, inputs, threads)
    except TilewrightError:
        raise
    except Exception as error:  # The engines' bindings have no exception class in common.
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UnsupportedError(f"{name} does not load {path}: {reason[-1].strip()}") from None
