"""`Executable`: a compiled model, ready to run: one execution plan an inference, on a processor one native call.

    exe = tilewright.load("model.tw")
    y = exe(x)                         # one output: the array; several: a list
    outs = exe.run({"x": x})           # by name; a list in the model's output order
    exe.set_threads(4); exe.time({"x": x}, repeat=20); exe.profile({"x": x})

The manifest (plain JSON data, docs/artifact.md) is the plan, and the program of its device runs it (`runtime.program`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from tilewright.runtime.artifact import save_artifact
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array, same_bytes
from tilewright.runtime.model import Model
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.signature import by_name
from tilewright.runtime.specializations import Shapes, Specializations
from tilewright.runtime.types import Value, Weights


class Executable(Model):
    """A compiled model in memory. Runs from several Python threads take turns on its one arena.

    `inputs` and `outputs` are `TensorSpec`s (name, shape, dtype) in the model's order; `threads` is the number of
    workers; `manifest` is everything the compiler recorded.
    """

    executor = "graph"

    def __init__(self, object_code: bytes, manifest: Manifest, weights: Weights = b"", threads: int | None = None):
        """Link a compiled model.

        `weights` is one buffer laid out as the manifest's ``weights`` offsets say (used in place when 64-byte aligned),
        or a list of arrays in the order of that list (copied into one block). Raises `ArtifactError` when the object
        does not link, `InputError` for a bad thread count.
        """
        super().__init__(object_code, manifest, weights)
        self._specializations: Specializations[Executable] | None = None
        self._run = self._program.runner(0)
        self.set_threads(threads)

    def specialize(self, limit: int, make: Callable[[Shapes], Executable]) -> None:
        """From now on run sizes that come often by executables of their own, at most `limit` (`Specializations`).

        `make(shapes)` compiles the model for the shapes of its inputs by name.
        """
        self._specializations = Specializations(limit, lambda shapes: self._with_own_weights(make(shapes)))

    @property
    def specializes(self) -> int:
        """The number of sizes that may get an executable of their own; 0 for a loaded artifact, which holds no model to
        compile.

        `tilewright.compile(..., specialize=N)` sets it.
        """
        return 0 if self._specializations is None else self._specializations.limit

    @property
    def specialized_sizes(self) -> list[dict[str, int]]:
        """The sizes that have an executable of their own, by the names of the dimensions, least recently used first."""
        if self._specializations is None:
            return []
        assert self.manifest.dynamic is not None
        names = [dim.name for dim in self.manifest.dynamic.dims]
        return [dict(zip(names, sizes, strict=True)) for sizes in self._specializations.sizes]

    def wait_specialized(self, timeout: float | None = None) -> None:
        """Wait until no executable is being compiled for a size of its own, at most `timeout` seconds."""
        if self._specializations is not None:
            self._specializations.wait(timeout)

    def _with_own_weights(self, made: Executable) -> Executable:
        """`made` on the weights of this executable, where it has the same ones in the same positions."""
        if made.manifest.weights != self.manifest.weights or not same_bytes(made._weights, self._weights):
            return made
        return Executable(made.object_code, made.manifest, self._weights, made.threads)

    def _special(self, arrays: list[Array]) -> Executable | None:
        """The executable for just the sizes of `arrays`, if there is one."""
        if self._specializations is None:
            return None
        shapes = self._program.shapes[0]
        if shapes is None:
            return None
        sizes = shapes.sizes(arrays)
        found = self._specializations.find(
            sizes, lambda: {s.name: a.shape for s, a in zip(self.inputs, arrays, strict=True)}
        )
        if found is not None and found.threads != self.threads:
            found.set_threads(self.threads)
        return found

    def time(self, inputs: Mapping[str, Value], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Seconds of each of `repeat` runs on the device alone, inputs and outputs prepared once where it can."""
        arrays = by_name(inputs, self.inputs, self._bind)
        special = self._special(arrays)
        if special is not None:
            return special.time(inputs, repeat, warmup)
        with self._turn():
            return self._program.time(0, arrays, self.threads, repeat, warmup, self._check)

    def profile(self, inputs: Mapping[str, Value], repeat: int = 1) -> list[KernelTime]:
        """Run kernel by kernel and time each: one row for every kernel call, in order, minimum over `repeat` runs.

        The sum is a little more than a run takes: every kernel pays for a launch of its own here.
        """
        arrays = by_name(inputs, self.inputs, self._bind)
        special = self._special(arrays)
        if special is not None:
            return special.profile(inputs, repeat)
        with self._turn():
            return self._program.profile(0, arrays, self.threads, repeat, self._check)

    def save(self, path: str | os.PathLike[str], durable: bool = True) -> None:
        """Write one artifact file, whole or not at all; `tilewright.load(path)` brings the model back.

        `durable` False does not wait for the disk (a cache need not survive a crash of the machine).
        """
        save_artifact(path, self.manifest, self.object_code, self._weights, durable)

    def _infer(self, arrays: list[Array], outputs: Sequence[Array] | None) -> list[Array]:
        if self._specializations is not None:
            special = self._special(arrays)
            if special is not None:
                return special._infer(arrays, outputs)
        with self._turn():
            results, code = self._run(arrays, outputs, self.threads)
        if code:
            self._check(code)
        return results
