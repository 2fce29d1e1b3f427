"""`Executable`: a compiled model, ready to run. One native call an inference; nothing is allocated but the outputs.

    exe = tilewright.load("model.tw")
    y = exe(x)                         # one output: the array; several: a list
    outs = exe.run({"x": x})           # by name; a list in the model's output order
    exe.set_threads(4); exe.time({"x": x}, repeat=20); exe.profile({"x": x})

The manifest (plain JSON data, docs/artifact.md) says how to call the object code's entry: slots for the inputs, the
outputs, the weights, the arena of intermediates, and the workers' scratch memory.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.errors import ArtifactError, InputError
from tilewright.runtime.artifact import check_machine, gather_weights, load_artifact, save_artifact
from tilewright.runtime.link import Linked, link
from tilewright.runtime.memory import Array, Region, address_of, aligned_empty
from tilewright.runtime.module import failure_text
from tilewright.runtime.native import native
from tilewright.runtime.native_ir import MAX_WORKERS
from tilewright.runtime.profile import KernelTime, profile_kernels
from tilewright.runtime.signature import TensorSpec, bind, by_name, by_position, describe
from tilewright.runtime.threads import available_processors, default_workers


class Executable:
    """A compiled model in memory. Runs from several Python threads take turns on its one arena.

    `inputs` and `outputs` are `TensorSpec`s (name, shape, dtype) in the model's order; `threads` is the number of
    workers; `manifest` is everything the compiler recorded.
    """

    def __init__(self, object_code: bytes, manifest: Mapping[str, Any], weights: Any = b"", threads: int | None = None):
        """Link a compiled model.

        `weights` is one buffer laid out as the manifest's ``weights`` offsets say (used in place when 64-byte aligned),
        or a list of arrays in the order of that list (copied into one block). Raises `ArtifactError` when the object
        does not link, `InputError` for a bad thread count.
        """
        check_machine(manifest, "the model")
        self.object_code = object_code
        self.manifest = dict(manifest)
        self.inputs = tuple(TensorSpec.from_manifest(entry) for entry in manifest["inputs"])
        self.outputs = tuple(TensorSpec.from_manifest(entry) for entry in manifest["outputs"])
        self.target: str = manifest.get("target", "")
        self.version: str = manifest.get("tilewright_version", "")
        self._weights, self._weights_owner = gather_weights(manifest, weights)
        entry = f"{manifest.get('entry', 'main')}__entry"
        self._linked: Linked = link(object_code, [entry], native().imports())
        self._entry = self._linked.addresses[entry]
        self._run = native().parallel_run
        self._lock = threading.Lock()
        self._arena = Region(int(manifest.get("arena_bytes", 0)))
        count = len(self.inputs) + len(self.outputs)
        self._slots = (ctypes.c_uint64 * (count + 3))()
        self._slots_address = ctypes.addressof(self._slots)
        self._slots[count] = address_of(self._weights)
        self._slots[count + 1] = self._arena.address
        self.set_threads(threads)

    def set_threads(self, threads: int | None = None) -> None:
        """Use `threads` workers from now on; None is the default for this process (`runtime.threads`).

        The manifest's ``max_workers``, where the compiler set it, is an upper bound: a model too small to share out.
        """
        workers = min(default_workers(threads), int(self.manifest.get("max_workers", MAX_WORKERS)))
        native().set_processors(available_processors())
        with self._lock:
            self.threads = workers
            self._scratch = Region(int(self.manifest.get("worker_workspace_bytes", 0)) * workers)
            self._slots[len(self._slots) - 1] = self._scratch.address

    def __call__(self, *values: Any) -> Any:
        """Run on positional inputs. The output array, or a list of them when the model has several."""
        results = self._infer(by_position(values, self.inputs), None)
        return results[0] if len(results) == 1 else results

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[Array] | None = None) -> list[Array]:
        """Run on named inputs; a list of arrays in the model's output order.

        The arrays are fresh unless `outputs` gives C-contiguous, writable arrays to fill. Raises `InputError` for a
        wrong name, dtype or shape, or when the model's own checks fail on the values.
        """
        return self._infer(by_name(inputs, self.inputs), outputs)

    def time(self, inputs: Mapping[str, Any], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Seconds of each of `repeat` runs: the native call alone, inputs and outputs prepared once."""
        arrays = by_name(inputs, self.inputs)
        results = self._output_arrays(None)
        run, entry, slots, threads, clock = self._run, self._entry, self._slots_address, self.threads, time.perf_counter
        times = []
        with self._lock:
            self._fill_slots(arrays, results)
            for _ in range(warmup):
                self._check(run(entry, slots, threads))
            for _ in range(repeat):
                start = clock()
                run(entry, slots, threads)
                times.append(clock() - start)
        return times

    def profile(self, inputs: Mapping[str, Any], repeat: int = 1) -> list[KernelTime]:
        """Run kernel by kernel and time each: one row for every kernel call, in order, minimum over `repeat` runs.

        The sum is a little more than a run takes: every kernel pays for a launch of its own here.
        """
        arrays = by_name(inputs, self.inputs)
        results = self._output_arrays(None)
        with self._lock:
            bases = {
                "input": [address_of(array) for array in arrays],
                "output": [address_of(array) for array in results],
                "weights": address_of(self._weights),
                "arena": self._arena.address,
                "scratch": self._scratch.address,
            }
            return profile_kernels(self._linked, self.manifest, bases, self.threads, repeat, self._check)

    def save(self, path: str | os.PathLike[str], durable: bool = True) -> None:
        """Write one artifact file, whole or not at all; `tilewright.load(path)` brings the model back.

        `durable` False does not wait for the disk (a cache need not survive a crash of the machine).
        """
        save_artifact(path, self.manifest, self.object_code, self._weights, durable)

    def export_library(self, path: str | os.PathLike[str], name: str | None = None) -> tuple[Path, Path]:
        """Write the model as a shared object for C programs, and its header beside it; the two paths.

        `name` becomes part of the C names. Raises `EnvironmentError_` when there is no C compiler to link with.
        """
        from tilewright.runtime.export import export_library

        return export_library(path, self.manifest, self.object_code, self._weights, name)

    def __repr__(self) -> str:
        return f"Executable({describe(self.inputs)} -> {describe(self.outputs)}; {self.threads} threads)"

    def _infer(self, arrays: list[Array], outputs: Sequence[Array] | None) -> list[Array]:
        results = self._output_arrays(outputs)
        with self._lock:
            self._fill_slots(arrays, results)
            code = self._run(self._entry, self._slots_address, self.threads)
        if code:
            self._check(code)
        return results

    def _fill_slots(self, arrays: list[Array], results: list[Array]) -> None:
        slots = self._slots
        for i, array in enumerate(arrays):
            slots[i] = address_of(array)
        for i, array in enumerate(results, len(arrays)):
            slots[i] = address_of(array)

    def _output_arrays(self, given: Sequence[Array] | None) -> list[Array]:
        if given is None:
            return [aligned_empty(spec.shape, spec.numpy) for spec in self.outputs]
        if len(given) != len(self.outputs):
            raise InputError(f"{len(given)} output arrays given, the model has {describe(self.outputs)}")
        arrays = []
        for array, spec in zip(given, self.outputs):
            checked = bind(array, spec, self.outputs)
            if checked is not array or not array.flags.writeable:
                raise InputError(f"output {spec.name!r} must be filled into a writable, C-contiguous NumPy array")
            arrays.append(checked)
        return arrays

    def _check(self, code: int) -> None:
        if code:
            raise InputError(f"the model stopped: {failure_text(self.manifest.get('messages', ()), code)}")


def load(path: str | os.PathLike[str], threads: int | None = None) -> Executable:
    """The executable saved at `path`, its weights mapped from the file. Raises `ArtifactError` when it is unusable."""
    found = load_artifact(path)
    native(found.pool)
    try:
        return Executable(found.object_code, found.manifest, found.weights, threads)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{path} has an incomplete manifest ({error!r}). Compile the model again") from None
