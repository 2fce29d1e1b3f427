"""`WebModel`: a model as modules of WebAssembly, written as the files of a folder for a browser, Node or Deno.

exe = tilewright.compile("model.onnx", target="wasm")
exe.export_web("web/")                     model.mjs, model.d.mts, model.wasm, model.bin, index.html
exe.run({"x": x})                          the same module in wasmtime (extra: `wasm`)
exe.use("chromium", threads=2)             the same files in headless Chromium from now on
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError, TargetError, UnsupportedError
from tilewright.runtime.artifact import gather_weights
from tilewright.runtime.foreign import ForeignModel
from tilewright.runtime.link import split_objects
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.signature import by_name
from tilewright.runtime.types import Value
from tilewright.runtime.vm.debug import DebugMachine, Step
from tilewright.runtime.web.description import Resolved
from tilewright.runtime.web.in_wasmtime import InWasmtime

#: Where models run, the first in this process.
ENGINES = ("wasmtime", "node", "chromium")


class WebModel(ForeignModel):
    """A model in WebAssembly. `modules` are those of its variants, the one that needs the least first."""

    executor = "web"

    def __init__(self, object_code: bytes, manifest: Manifest, weights: Any, model: Resolved | None = None) -> None:
        """Keep the modules, and the weights as one block; `model` is how they run it, and `manifest` that of it."""
        block, self._weights_owner = gather_weights(manifest, weights)
        super().__init__(object_code, manifest, block)
        self._resolved = model
        self.modules = tuple(split_objects(object_code))
        self._engine: Any = None

    def export_web(self, folder: str | os.PathLike[str], name: str = "model") -> list[Path]:
        """Write ``NAME.mjs``, its types, the modules, the weights and a page into a folder; their paths.

        Raises `EnvironmentError_` where that is not possible; then no file is touched.
        """
        # running needs none of it
        from tilewright.runtime.web.package import write_package

        assert self._resolved is not None
        return write_package(Path(folder), name, self._resolved, self.modules, self._weights)

    def save(self, path: str | os.PathLike[str], durable: bool = True) -> None:
        """Refused: there are no artifacts of WebAssembly."""
        raise TargetError(
            f"{path}: a model for WebAssembly is a folder of files for a browser: name one "
            "(`tilewright compile model.onnx -o web/ --target wasm`)"
        )

    def export_library(
        self, path: str | os.PathLike[str], name: str | None = None, after: str = "", declared: str = ""
    ) -> tuple[Path, Path]:
        """Refused, like `save`."""
        self.save(path)
        raise AssertionError

    def use(self, engine: str, threads: int = 1) -> None:
        """Run in this engine from now on: "wasmtime", "node" or "chromium". Raises `EnvironmentError_` without it."""
        if engine not in ENGINES:
            raise InputError(f"{engine!r} is no engine of WebAssembly; there are: {', '.join(ENGINES)}")
        if engine == ENGINES[0]:
            if threads > 1:
                raise InputError("there is one thread in wasmtime; choose another engine: --engine node")
            assert self._resolved is not None
            found: Any = InWasmtime(self.modules[-1], self._resolved, self._weights)
        else:
            # only for programs that are no part of this process
            from tilewright.runtime.web.process import InProcess

            found = InProcess(engine, self, threads)
        self.close()
        self._engine, self.threads = found, found.threads

    @property
    def note(self) -> str:
        """The engine that the model ran in last."""
        return "" if self._engine is None else f"in {self._engine.note}"

    def close(self) -> None:
        """End the engine, where one runs."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def time(self, inputs: Mapping[str, Value], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Seconds of each of `repeat` runs after `warmup` others, by the clock of the engine."""
        engine = self._opened()
        engine.run(by_name(inputs, self.inputs))
        return list(engine.time(warmup + repeat)[warmup:])

    def profile(self, inputs: Mapping[str, Value], repeat: int = 1) -> list[KernelTime]:
        """The least time of each kernel, on one thread. Raises `UnsupportedError` for branches or loops."""
        if not self.manifest.is_native:
            raise UnsupportedError(
                "a model with branches or loops has no list of kernels to time in WebAssembly: `tilewright bench` "
                "times the whole, `tilewright profile` without --target wasm its kernels on a processor"
            )
        engine = self._opened()
        engine.run(by_name(inputs, self.inputs))
        kernels = self.manifest.kernels
        return [
            KernelTime(call.name, call.source_text, seconds, call.flops or 0, call.bytes or 0, call.choice)
            for call, seconds in zip(kernels, engine.profile(len(kernels), repeat), strict=True)
        ]

    def steps(self, inputs: Mapping[str, Value]) -> list[Step]:
        """Run once in wasmtime; every operator in the order of execution, with its values.

        Raises `UnsupportedError` for a model that was not compiled with `executor="debug"`.
        """
        if self.manifest.executor != DebugMachine.executor:
            raise UnsupportedError('its kernels compute several operators at once: compile it with executor="debug"')
        self.use(ENGINES[0])
        found: list[Step] = []
        self._engine.program.run(by_name(inputs, self.inputs), found.append)
        return found

    def _opened(self) -> Any:
        """The engine; that of this process, where none was chosen."""
        if self._engine is None:
            self.use(ENGINES[0])
        return self._engine

    def _infer(self, arrays: list[Any], outputs: Sequence[Array] | None) -> list[Any]:
        results = self._opened().run(arrays)
        if outputs is None:
            return list(results)
        for target, result in zip(outputs, results, strict=True):
            np.copyto(target, result, casting="no")
        return list(outputs)

    def _reserve(self, workers: int) -> None:
        """Nothing: the module's memory grows as a run needs it."""
