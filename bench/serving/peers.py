"""onnxruntime behind the same model server: `python bench/serving/peers.py MODEL.onnx… [--port N] [--max-batch N]`.

The adapter has what the server asks of a model: inputs, outputs, threads, `run`, `set_threads`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import onnxruntime

from tilewright.runtime.signature import TensorSpec
from tilewright.serving.models.repository import Repository
from tilewright.serving.models.settings import Limits, ModelSettings
from tilewright.serving.server import Address, serve
from tilewright.support.dtype import DType

_TYPES = {"float": "float32", "double": "float64", "float16": "float16"}


class OnnxRuntime:
    """A session of onnxruntime with the interface of a compiled model."""

    def __init__(self, path: Path, threads: int | None) -> None:
        self._path, self.threads = path, threads or 2
        self._open()
        self.inputs = [_spec(one) for one in self._session.get_inputs()]
        self.outputs = [_spec(one) for one in self._session.get_outputs()]
        self._names = [spec.name for spec in self.outputs]

    def _open(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        self._session = onnxruntime.InferenceSession(str(self._path), options, providers=["CPUExecutionProvider"])

    def run(self, inputs: dict[str, Any]) -> list[Any]:
        """The outputs in the model's order."""
        return self._session.run(self._names, inputs)

    def set_threads(self, threads: int) -> None:
        """A session has as many threads as it was made with."""
        if threads != self.threads:
            self.threads = threads
            self._open()


def _spec(one: Any) -> TensorSpec:
    kind = one.type.removeprefix("tensor(").removesuffix(")")
    return TensorSpec(one.name, tuple(one.shape), DType(_TYPES.get(kind, kind)))


def load(path: Path, settings: ModelSettings) -> OnnxRuntime:
    """A session for a model file."""
    return OnnxRuntime(path, settings.threads)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--max-batch", type=int, default=32)
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    settings = ModelSettings(max_batch=args.max_batch, instances=args.instances, threads=args.threads)
    address = Address(port=args.port, grpc_port=None)
    serve(lambda: Repository(args.models, settings, load), Limits(), address, lambda _: print("serving at", flush=True))


if __name__ == "__main__":
    main()
