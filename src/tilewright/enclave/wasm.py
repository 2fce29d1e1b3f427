"""A model as a WebAssembly module without imports, run in wasmtime (extra: `wasm`): it can reach its own memory alone.

The C source is compiled by the compiler in the `ziglang` package with vectors of 128 bits and fused multiply-adds
(relaxed SIMD); the same module runs in a browser or in Node.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tilewright.enclave.build import OPTIONS, EnclaveSource, compile_with
from tilewright.enclave.model import EnclaveModel
from tilewright.errors import EnvironmentError_, InputError
from tilewright.runtime.memory import ALIGNMENT, Array, round_up
from tilewright.runtime.types import Value
from tilewright.runtime.wasm import wasmtime_package

_PAGE = 65536
#: What GCC alone has.
_OTHER_COMPILERS = ("-fno-tree-loop-if-convert",)
_FEATURES = ("-msimd128", "-mrelaxed-simd", "-mbulk-memory", "-ffp-contract=fast")
_STACK = 1 << 20  # bytes; kernels keep register tiles and small packs there


class WasmModel(EnclaveModel):
    """A model in a WebAssembly module; `module` is its bytes, to be written to a file for other hosts."""

    def __init__(self, source: EnclaveSource, optimize: str = "-O2") -> None:
        """Compile the module and reserve its memory.

        Raises `EnvironmentError_` without the extra, `InputError` for C source that calls a library.
        """
        super().__init__(source)
        self.module = build_module(source, optimize)
        wasmtime = wasmtime_package()
        config = wasmtime.Config()
        config.wasm_relaxed_simd = True
        self._store = wasmtime.Store(wasmtime.Engine(config))
        compiled = wasmtime.Module(self._store.engine, self.module)
        imports = [f"{entry.module}.{entry.name}" for entry in compiled.imports]
        if imports:
            raise InputError(f"the C source calls {', '.join(imports)}, which a module without imports does not have")
        exports = wasmtime.Instance(self._store, compiled, []).exports(self._store)
        self._memory, self._run = exports["memory"], exports["run"]
        self._reserve_memory(exports["__heap_base"].value(self._store))
        if source.weights is not None:
            self._memory.write(self._store, source.weights.read_bytes(), self._weights_offset)
            exports["set_weights"](self._store, self._weights_offset)

    def _reserve_memory(self, base: int) -> None:
        """Offsets of weights, workspace, tensors and their addresses, one behind the other."""
        position = round_up(base, ALIGNMENT)

        def take(nbytes: int) -> int:
            nonlocal position
            start, position = position, round_up(position + nbytes, ALIGNMENT)
            return start

        self._weights_offset = take(self.source.weights_bytes)
        self._workspace = take(self.source.interface.workspace_size)
        self._offsets = [take(spec.nbytes) for spec in (*self.inputs, *self.outputs)]
        self._table = take(4 * len(self._offsets))
        pages = -(-position // _PAGE) - self._memory.size(self._store)
        try:
            if pages > 0:
                self._memory.grow(self._store, pages)
        except wasmtime_package().WasmtimeError as error:
            raise InputError(f"wasmtime has no memory of {position:,} bytes for the model: {error}") from None
        self._memory.write(self._store, np.array(self._offsets, "<u4").tobytes(), self._table)

    def _write(self, arrays: Sequence[Array]) -> None:
        for array, offset in zip(arrays, self._offsets, strict=False):
            self._memory.write(self._store, array.tobytes(), offset)

    def _call(self, runs: int) -> None:
        try:
            code = self._run(self._store, self._table, self._workspace, runs)
        except wasmtime_package().Trap as error:
            raise EnvironmentError_(
                f"the module stopped with a fault; please report it with the model: {error}"
            ) from None
        self._check_code(code)

    def _answer(self, arrays: Sequence[Array], runs: int) -> list[Array]:
        self._write(arrays)
        self._call(runs)
        results = []
        for spec, offset in zip(self.outputs, self._offsets[len(self.inputs) :], strict=True):
            data = self._memory.read(self._store, offset, offset + spec.nbytes)
            results.append(np.frombuffer(data, spec.numpy).reshape(spec.static_shape).copy())
        return results

    def time(self, inputs: Mapping[str, Value], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Seconds of each of `repeat` runs after `warmup` others."""
        self._write(self._bound(inputs))
        self._call(warmup)
        found = []
        for _ in range(repeat):
            start = time.perf_counter()
            self._call(1)
            found.append(time.perf_counter() - start)
        return found


def build_module(source: EnclaveSource, optimize: str = "-O2") -> bytes:
    """The WebAssembly module of a model. Raises `EnvironmentError_` without the package `ziglang`."""
    if importlib.util.find_spec("ziglang") is None:
        raise EnvironmentError_("WebAssembly needs the compiler in ziglang: pip install 'tilewright[wasm]'")
    zig = [sys.executable, "-m", "ziglang"]
    options = [option for option in OPTIONS if option not in _OTHER_COMPILERS]
    compiler = [*zig, "cc", "--target=wasm32-freestanding", *options, optimize, *_FEATURES, "-c"]
    with tempfile.TemporaryDirectory(prefix="tilewright-enclave-") as folder:
        work = Path(folder)
        source.write_to(work, "module.c")
        for name in ("model", "module"):
            compile_with([*compiler, f"{name}.c", "-o", f"{name}.o"], work, "compiling the model to WebAssembly")
        link = [
            "--no-entry",
            "--allow-undefined",
            "--export=__heap_base",
            "--stack-first",
            "-z",
            f"stack-size={_STACK}",
        ]
        files = ["module.o", "model.o", "-o", "model.wasm"]
        compile_with([*zig, "wasm-ld", *link, *files], work, "linking the WebAssembly module")
        return (work / "model.wasm").read_bytes()
