"""`VirtualMachine`: a compiled program with control flow, behind the same interface as `Executable`.

The manifest holds the ``program``, the ``segments`` that are compiled code, the table ``packed`` of what instructions
may call, and the ``constants`` among the weights that instructions load (docs/executors.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import ArtifactError, InputError
from tilewright.runtime import host_ops
from tilewright.runtime.artifact import save_artifact
from tilewright.runtime.manifest import LoadedConstant, Manifest
from tilewright.runtime.manifest import Packed as PackedEntry
from tilewright.runtime.memory import Array
from tilewright.runtime.model import Model
from tilewright.runtime.overlap import fresh
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.program import Caller
from tilewright.runtime.signature import TensorSpec, by_name
from tilewright.runtime.types import Value, Weights
from tilewright.runtime.vm.hot import HotFunctions
from tilewright.runtime.vm.loop import NativeLoop, repeated
from tilewright.runtime.vm.machine import Packed, execute
from tilewright.runtime.vm.program import Program
from tilewright.support.dtype import DType

#: Operators of the host that look at no element, so that none is copied there.
READ_NO_ELEMENTS = ("check_shape", "shape_of")


class VirtualMachine(Model):
    """A compiled program in memory, run by interpreting its bytecode around native segments."""

    executor = "vm"

    def __init__(self, object_code: bytes, manifest: Manifest, weights: Weights = b"", threads: int | None = None):
        """Link a compiled program; arguments and errors are those of `Executable`."""
        if manifest.program is None:
            raise ArtifactError("the manifest has no program for the virtual machine. Compile the model again")
        super().__init__(object_code, manifest, weights)
        self.program = Program.from_manifest(manifest.program)
        self.program.check_against(manifest)
        self._constants = [loaded_constant(entry, self._weights) for entry in manifest.constants]
        self._packed = [self._callable(entry) for entry in manifest.packed]
        native = self._program.native
        self._hot = None if native is None else HotFunctions(manifest, self.program, native)
        self.set_threads(threads)

    def time(self, inputs: Mapping[str, Value], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Seconds of each of `repeat` runs after `warmup` others."""
        values = by_name(inputs, self.inputs, self._bind)
        times = []
        for turn in range(warmup + repeat):
            start = time.perf_counter()
            self._infer(values, None)
            if turn >= warmup:
                times.append(time.perf_counter() - start)
        return times

    def profile(self, inputs: Mapping[str, Value], repeat: int = 1) -> list[KernelTime]:
        """Time each host operator, and each kernel of each segment; a row for every call, in order of execution."""
        values = by_name(inputs, self.inputs, self._bind)
        best: list[KernelTime] = []
        for _ in range(max(repeat, 1)):
            rows: list[KernelTime] = []
            with self._turn():
                self._program.begin()
                traced = [self._timed(entry, call, rows) for entry, call in zip(self.manifest.packed, self._packed)]
                execute(self.program, traced, self._constants, values)
            same = [row.kernel for row in rows] == [row.kernel for row in best]
            best = [min(pair, key=lambda r: r.seconds) for pair in zip(rows, best)] if same else rows
        return best

    def save(self, path: str | os.PathLike[str], durable: bool = True) -> None:
        """Write one artifact file, whole or not at all; `tilewright.load(path)` brings the program back."""
        save_artifact(path, self.manifest, self.object_code, self._weights, durable)

    def export_library(
        self, path: str | os.PathLike[str], name: str | None = None, after: str = "", declared: str = ""
    ) -> tuple[Path, Path]:
        """As `Model.export_library`, branches and loops as C around the kernels.

        Raises `UnsupportedError`, with the node, for a program of symbolic sizes or with operators on the host.
        """
        # running needs none of it
        from tilewright.runtime.export import export_library
        from tilewright.runtime.vm.c_program import program_model

        model = program_model(self.manifest, alone=False)
        parts = self.manifest, self.object_code, self._weights
        return export_library(path, *parts, name, model=model, after=after, declared=declared)

    def _bind(self, value: Any, spec: TensorSpec, specs: Sequence[TensorSpec] = ()) -> Any:
        """An array where it is: on the host, or on a device whose programs keep their values there."""
        bind = self._program.bind if self._program.keeps_values else self._program.bind_on_host
        return bind(value, spec, specs)

    def _infer(self, arrays: list[Any], outputs: Sequence[Array] | None) -> list[Any]:
        with self._turn():
            self._program.begin()
            shortcut = None if self._hot is None else self._shortcut
            value = execute(self.program, self._packed, self._constants, arrays, shortcut)
            returned = self._program.returned(flatten(value), arrays if outputs is None else ())
        results = fresh(returned, (*arrays, self._weights))
        if outputs is None:
            return results
        if len(outputs) != len(results):
            raise InputError(f"{len(outputs)} output arrays given, the model has {len(results)}")
        for given, result in zip(outputs, results):
            np.copyto(given, result, casting="no")
        return list(outputs)

    def _shortcut(self, number: int, values: Sequence[Any]) -> Any:
        assert self._hot is not None
        return self._hot.run(number, values, self.threads, self._check)

    def _callable(self, entry: PackedEntry) -> Packed:
        if entry.segment is not None and entry.loop is not None:
            native, plan = self._program.native, self.manifest.segments[entry.segment]
            if native is None:
                call = self._program.caller(entry.segment)
                return self._runner(repeated(call, plan, entry.loop, self._program.to_host))
            return self._runner(NativeLoop(native.segments[entry.segment], entry.loop).run)
        if entry.segment is not None:
            return self._runner(self._program.caller(entry.segment))
        function = host_ops.find(entry.host, entry.attrs)
        if not self._program.keeps_values or entry.host in READ_NO_ELEMENTS:
            return lambda *values: (function(*values),)
        to_host = self._program.to_host
        return lambda *values: (function(*[to_host(value) for value in values]),)

    def _runner(self, call: Caller) -> Packed:
        def run(*values: Any) -> tuple[Any, ...]:
            results, code = call(values, self.threads)
            if code:
                self._check(code)
            return tuple(results)

        return run

    def _timed(self, entry: PackedEntry, call: Packed, rows: list[KernelTime]) -> Packed:
        def timed(*values: Any) -> tuple[Any, ...]:
            if entry.segment is not None and entry.loop is None:
                arrays = self._program.arguments(entry.segment, values)
                rows.extend(self._program.profile(entry.segment, arrays, self.threads, 1, self._check))
                return call(*values)
            start = time.perf_counter()
            results = call(*values)
            end = time.perf_counter()
            rows.append(KernelTime(entry.host or "loop", entry.source, end - start, shares=((start, end),)))
            return results

        return timed


def loaded_constant(entry: LoadedConstant, weights: Array) -> Any:
    """The array of a constant that instructions load, among the weights where it is not of texts."""
    if entry.value is not None:
        return np.array(entry.value, dtype=object).reshape(entry.shape)
    count = int(np.prod(entry.shape, dtype=np.int64))
    return np.frombuffer(weights, DType(entry.dtype).numpy, count, entry.offset).reshape(entry.shape)


def flatten(value: Any) -> list[Any]:
    """The values of nested tuples from left to right."""
    return [leaf for field in value for leaf in flatten(field)] if type(value) is tuple else [value]
