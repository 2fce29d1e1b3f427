"""`WebModel`: a model as modules of WebAssembly, written as the files of a folder for a browser, Node or Deno.

exe = tilewright.compile("model.onnx", target="wasm")
exe.export_web("web/")                     model.mjs, model.d.mts, model.wasm, model.bin, index.html
exe.run({"x": x})                          the same module in wasmtime (extra: `wasm`)
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError, TargetError
from tilewright.runtime.artifact import gather_weights
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.foreign import ForeignModel
from tilewright.runtime.link import split_objects
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array
from tilewright.runtime.module import failure_text
from tilewright.runtime.shape_program import ShapeProgram
from tilewright.runtime.signature import by_name
from tilewright.runtime.types import Value
from tilewright.runtime.web.machine import Machine

#: The context of `backend/wasm/run_text.py`: the worker 0 of 1, without a team.
_ONE_WORKER = np.array([0, 1, 0, 0, 0, 0], "<i4").tobytes()


class WebModel(ForeignModel):
    """A model in WebAssembly. `modules` are those of its variants, the one that needs the least first."""

    executor = "web"

    def __init__(self, object_code: bytes, manifest: Manifest, weights: Any) -> None:
        """Keep the modules, and the weights as one block."""
        block, self._weights_owner = gather_weights(manifest, weights)
        super().__init__(object_code, manifest, block)
        self.modules = tuple(split_objects(object_code))

    def export_web(self, folder: str | os.PathLike[str], name: str = "model") -> list[Path]:
        """Write ``NAME.mjs``, its types, the modules, the weights and a page into a folder; their paths.

        Raises `EnvironmentError_` where that is not possible; then no file is touched.
        """
        # running needs none of it
        from tilewright.runtime.web.package import write_package

        return write_package(Path(folder), name, self.manifest, self.modules, self._weights)

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

    def time(self, inputs: Mapping[str, Value], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Seconds of each of `repeat` runs in wasmtime after `warmup` others."""
        shapes = self._lay_out(by_name(inputs, self.inputs))
        found = []
        for turn in range(warmup + repeat):
            start = time.perf_counter()
            self._run()
            if turn >= warmup:
                found.append(time.perf_counter() - start)
        del shapes
        return found

    def _infer(self, arrays: list[Any], outputs: Sequence[Array] | None) -> list[Any]:
        shapes = self._lay_out(arrays)
        self._run()
        machine, results = self._machine, []
        for index, (spec, shape) in enumerate(zip(self.outputs, shapes, strict=True)):
            count = int(np.prod(shape, dtype=np.int64))
            data = machine.read(self._addresses[len(self.inputs) + index], count * spec.numpy.itemsize)
            results.append(np.frombuffer(data, spec.numpy, count).reshape(shape).copy())
        if outputs is None:
            return results
        for target, result in zip(outputs, results, strict=True):
            target[...] = result
        return list(outputs)

    def _reserve(self, workers: int) -> None:
        """Nothing: the module's memory grows as a run needs it."""

    @cached_property
    def _machine(self) -> Machine:
        """The module with the most features, with the weights in its memory."""
        machine = Machine(self.modules[-1])
        self._weights_address = machine.take(self._weights.nbytes)
        machine.write(self._weights_address, self._weights)
        self._context = machine.take(len(_ONE_WORKER))
        machine.write(self._context, _ONE_WORKER)
        machine.keep()
        return machine

    @cached_property
    def _shapes(self) -> ShapeProgram | None:
        sizes = self.manifest.dynamic
        return None if sizes is None else ShapeProgram(sizes, self.inputs, self.manifest.alignment)

    def _lay_out(self, arrays: Sequence[Array]) -> list[tuple[int, ...]]:
        """Lay memory out, write the inputs and the slots; the shapes of the outputs."""
        machine, interface = self._machine, CInterface.of(self.manifest)
        machine.release()
        arena, scratch, table = interface.arena_bytes, interface.scratch_bytes, b""
        if self._shapes is None:
            shapes = [spec.static_shape for spec in self.outputs]
        else:
            plan = self._shapes.plan(arrays)
            arena, scratch, shapes = plan.arena_bytes, plan.scratch_bytes, list(plan.outputs)
            table = np.array(plan.table, "<i8").tobytes()
        sizes = [int(np.prod(shape, dtype=np.int64)) * spec.numpy.itemsize for spec, shape in zip(self.outputs, shapes)]
        self._addresses = [machine.take(size) for size in (*[array.nbytes for array in arrays], *sizes)]
        slots = [*self._addresses, self._weights_address, machine.take(arena), machine.take(scratch)]
        if table:
            slots.append(machine.take(len(table)))
            machine.write(slots[-1], table)
        self._slots = machine.take(8 * len(slots))
        machine.write(self._slots, np.array(slots, "<u8").tobytes())
        for array, address in zip(arrays, self._addresses, strict=False):
            machine.write(address, np.ascontiguousarray(array).tobytes())
        return shapes

    def _run(self) -> None:
        code = self._machine.call("run", self._slots, self._context)
        if code:
            raise InputError(f"the model stopped: {failure_text(self.manifest.messages, code)}")
