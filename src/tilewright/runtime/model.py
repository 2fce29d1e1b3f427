"""`Model`: what every executor offers, so that code which runs a model need not know which one runs it.

exe(x)                    positional inputs; the output, or a list of several
exe.run({"x": x})         named inputs; a list of outputs in the model's order
exe.time(...), exe.profile(...), exe.save(path), exe.set_threads(n), exe.inputs, exe.outputs
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from tilewright.errors import InputError
from tilewright.runtime.artifact import check_machine, gather_weights
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array
from tilewright.runtime.module import failure_text
from tilewright.runtime.native import PoolCode, native
from tilewright.runtime.overlap import apart
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.program import Transfers, program_class
from tilewright.runtime.signature import TensorSpec, by_name, by_position, describe
from tilewright.runtime.types import Result, Value, Weights
from tilewright.support.forks import held_here, own_lock


def _unpickled(
    kind: Any, pool: PoolCode | None, object_code: bytes, manifest: Mapping[str, Any], weights: Array, threads: int
) -> Model:
    if pool is not None:
        native(pool)
    return kind(object_code, Manifest.from_json(manifest), weights, threads)


class Model(ABC):
    """A compiled model in memory: names, shapes, tensors. Runs from several Python threads take turns.

    `inputs` and `outputs` are `TensorSpec`s (name, shape, dtype) in the model's order; `threads` is the number of
    workers; `manifest` is everything the compiler recorded; `executor` names the kind.
    """

    executor: ClassVar[str]

    def __init__(self, object_code: bytes, manifest: Manifest, weights: Weights) -> None:
        """Load a compiled model on the device that it was compiled for."""
        check_machine(manifest, "the model")
        self.object_code = object_code
        self.manifest = manifest
        self.inputs = manifest.inputs
        self.outputs = manifest.outputs
        self.target = manifest.target
        self.version = manifest.tilewright_version
        self._weights, self._weights_owner = gather_weights(manifest, weights)
        self._program = program_class(manifest.device).load(manifest, object_code, self._weights)
        self._lock = own_lock(self, "_lock")

    def _turn(self) -> AbstractContextManager[object]:
        """The lock that a run holds. Raises `InputError` where the calling thread is in the midst of one."""
        if held_here(self._lock):
            raise InputError(
                "this model is already running in this thread: it was called again from a signal handler, a finalizer "
                "or a function that it calls. Use another executable there (tilewright.load the model twice), or leave "
                "the call to another thread"
            )
        return self._lock

    def set_threads(self, threads: int | None = None) -> None:
        """Use `threads` workers from now on; None is the default for this process (`runtime.threads`).

        The manifest's ``max_workers``, where the compiler set it, is an upper bound: a model too small to share out.
        """
        workers = self._program.workers(threads)
        with self._turn():
            self.threads = workers
            self._reserve(workers)

    def __call__(self, *values: Value) -> Result:
        """Run on positional inputs. The output array, or a list of them when the model has several.

        Where an input is in the memory of the model's GPU (a CUDA tensor of PyTorch, an array of CuPy, `on_device`), so
        are the outputs: arrays that export `__dlpack__` and have `numpy()`.
        """
        results = self._infer(by_position(values, self.inputs, self._bind), None)
        return results[0] if len(results) == 1 else results

    def run(self, inputs: Mapping[str, Value], outputs: Sequence[Array] | None = None) -> list[Result]:
        """Run on named inputs; a list of arrays in the model's output order, as a call of the model returns them.

        The arrays are fresh unless `outputs` has C-contiguous, writable arrays to fill, which may share memory with
        inputs (those are then copied first) but not with each other. Raises `InputError` for a wrong name, dtype or
        shape, or when the model's own checks fail on the values.
        """
        arrays = by_name(inputs, self.inputs, self._bind)
        return self._infer(arrays if outputs is None else apart(arrays, outputs, self.outputs), outputs)

    def on_device(self, value: Value) -> Any:
        """A copy of an array in the memory of the model's GPU, which runs take where it is.

        Raises `UnsupportedError` for a model that works in the host's memory.
        """
        return self._program.on_device(value)

    @property
    def transfers(self) -> Transfers:
        """Copies between the host and a device in the last run of a program of the virtual machine."""
        return self._program.transfers

    @property
    def device_facts(self) -> Mapping[str, Any]:
        """Figures of the device beside the host that the model runs on, as its driver says them; empty without one."""
        return self._program.facts()

    @abstractmethod
    def time(self, inputs: Mapping[str, Value], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Seconds of each of `repeat` runs after `warmup` others."""

    @abstractmethod
    def profile(self, inputs: Mapping[str, Value], repeat: int = 1) -> list[KernelTime]:
        """Time each kernel: one row for every kernel call, in order, the least of `repeat` runs."""

    def export_library(
        self, path: str | os.PathLike[str], name: str | None = None, after: str = "", declared: str = ""
    ) -> tuple[Path, Path]:
        """Write the model as a library for C programs (.so, .a or .o) and its header beside it; the two paths.

        `name` becomes part of the C names, `after` is C put behind the library's own, which `declared` puts into the
        header. Raises `EnvironmentError_` when
        there is no C compiler to link with, `UnsupportedError` for executors that run bytecode.
        """
        # running needs none of it
        from tilewright.runtime.export import export_library

        return export_library(
            path, self.manifest, self.object_code, self._weights, name, after=after, declared=declared
        )

    @abstractmethod
    def save(self, path: str | os.PathLike[str], durable: bool = True) -> None:
        """Write one file that `tilewright.load` brings back."""

    def _bind(self, value: Any, spec: TensorSpec, specs: Sequence[TensorSpec] = ()) -> Any:
        """An input as a run takes it; raises `InputError` for what does not fit it."""
        return self._program.bind(value, spec, specs)

    @abstractmethod
    def _infer(self, arrays: list[Any], outputs: Sequence[Array] | None) -> list[Any]:
        """Run on values that were checked against `inputs`."""

    def _reserve(self, workers: int) -> None:
        """Provide the memory that `workers` workers will need for certain."""
        self._program.reserve(workers)

    def _check(self, code: int) -> None:
        if code:
            raise InputError(f"the model stopped: {failure_text(self.manifest.messages, code)}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as it is saved: code, manifest, weights, and the native runtime for a process without a compiler.

        To unpickle is to load: it brings in native code of whoever wrote the bytes (docs/security.md).
        """
        parts = (self.object_code, self.manifest.to_json(), self._weights, self.threads)
        return _unpickled, (type(self), self._program.pool, *parts)

    def _repr_html_(self) -> str:
        """The model as a table, as notebooks show it."""
        # only for notebooks
        from html import escape

        rows = {
            "inputs": describe(self.inputs), "outputs": describe(self.outputs), "target": str(self.target),
            "executor": self.executor, "threads": str(self.threads),
            "weights": f"{self._weights.nbytes / 2**20:.1f} MiB",
        }  # fmt: skip
        cells = "".join(f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in rows.items())
        return f"<table><caption>{type(self).__name__}</caption>{cells}</table>"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe(self.inputs)} -> {describe(self.outputs)}; {self.threads} threads)"
