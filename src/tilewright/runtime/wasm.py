"""WebAssembly modules of functions, run in wasmtime (extra: `wasm`); the same file runs in a browser or in Node.

A function `k` is exported as ``k__entry(slots, context)`` like anywhere else: slots of 8 bytes, each the address of a
buffer in the module's memory or a scalar. There is one worker; imports are the functions of the C library that a kernel
calls, which only float64 mathematics needs.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, InputError, InternalError
from tilewright.runtime.arguments import bind_arguments, infer_extents
from tilewright.runtime.memory import ALIGNMENT, round_up
from tilewright.runtime.module import FunctionInfo, failure_text

_PAGE = 65536
_LARGEST = 1 << 32  # bytes that addresses of 32 bits reach
_CONTEXT = struct.pack("<iii", 0, 1, 0)  # worker, workers, barrier
#: Functions of the C library by name, for scalars; what a module imports beyond these is an error.
LIBRARY = ("exp", "log", "sin", "cos", "tan", "tanh", "pow", "erf", "fmod", "expm1", "log1p", "atan", "asin", "acos")


#: NumPy's names of those that have others there.
_NUMPY = {"pow": "power", "atan": "arctan", "asin": "arcsin", "acos": "arccos"}


def library_function(name: str) -> Callable[..., float]:
    """The function of the C library called `name`, with its infinities and NaN, where those of `math` raise errors."""
    plain = name if name in LIBRARY else name.removesuffix("f")
    if plain not in LIBRARY:
        raise InternalError(f"the WebAssembly module imports {name!r}, which this host does not have")
    function = math.erf if plain == "erf" else getattr(np, _NUMPY.get(plain, plain))

    def call(*args: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*args))

    return call


def wasmtime_package() -> Any:
    """The package wasmtime. Raises `EnvironmentError_` where it is not installed."""
    try:
        import wasmtime
    except ImportError:
        raise EnvironmentError_("running WebAssembly needs wasmtime: pip install 'tilewright[wasm]'") from None
    return wasmtime


class WasmModule:
    """Functions of one WebAssembly module; `code` is the module's bytes, to be written to a file for other hosts."""

    def __init__(self, code: bytes, functions: Sequence[FunctionInfo], messages: Sequence[str] = ()) -> None:
        wasmtime = wasmtime_package()
        self.code, self.messages = code, tuple(messages)
        self.functions = {info.name: info for info in functions}
        self._store = wasmtime.Store()
        module = wasmtime.Module(self._store.engine, code)
        imports = [self._import(wasmtime, entry) for entry in module.imports]
        self._exports: Any = wasmtime.Instance(self._store, module, imports).exports(self._store)
        self._memory: Any = self._exports["memory"]
        self._free = round_up(int(self._exports["__heap_base"].value(self._store)), ALIGNMENT)

    def _import(self, wasmtime: Any, entry: Any) -> Any:
        name = entry.name
        if name == "tilewright_barrier":
            return wasmtime.Func(self._store, entry.type, lambda context: None)
        return wasmtime.Func(self._store, entry.type, library_function(name))

    def __getitem__(self, name: str) -> WasmFunction:
        if name not in self.functions:
            raise KeyError(f"the module has no function {name!r}; it has: {', '.join(self.functions)}")
        return WasmFunction(self, self.functions[name])

    def call(self, info: FunctionInfo, values: Sequence[Any]) -> None:
        """Copy arguments in, run, copy written ones back.

        Raises `InputError` when an assertion fails, the machine stops the code, or memory does not suffice.
        """
        buffers = [value for value in values if isinstance(value, np.ndarray)]
        extra = (info.workspace_bytes, info.worker_workspace_bytes) if _has_memory(info) else ()
        slots = self._free + ALIGNMENT
        positions = [round_up(slots + 8 * (len(values) + 2), ALIGNMENT)]
        for size in (*[b.nbytes for b in buffers], *extra):
            positions.append(round_up(positions[-1] + max(size, 1), ALIGNMENT))
        self._make_room(info.name, positions[-1])
        addresses = iter(positions)
        words = [_slot(value, addresses) for value in values] + [struct.pack("<Q", next(addresses)) for _ in extra]
        self._memory.write(self._store, _CONTEXT, self._free)
        self._memory.write(self._store, b"".join(words), slots)
        for buffer, position in zip(buffers, positions):
            self._memory.write(self._store, buffer.tobytes(), position)
        try:
            code = self._exports[f"{info.name}__entry"](self._store, slots, self._free)
        except wasmtime_package().Trap as error:
            reason = str(error.message).strip().splitlines()[-1].strip().removeprefix("wasm trap: ")
            raise InputError(f"{info.name} was stopped by the WebAssembly machine: {reason}") from None
        if code:
            raise InputError(f"{info.name}: {failure_text(self.messages, code)}")
        written = [p.written for p in info.params if not p.is_scalar]
        for buffer, position, changed in zip(buffers, positions, written):
            if changed:
                data = self._memory.read(self._store, position, position + buffer.nbytes)
                buffer[...] = np.frombuffer(data, buffer.dtype).reshape(buffer.shape)

    def _make_room(self, name: str, end: int) -> None:
        """Let the memory reach to `end`. Raises `InputError` beyond what addresses of 32 bits, or the host, allow."""
        if end > _LARGEST:
            raise InputError(
                f"{name}: its arrays and working memory end at byte {end:,}, and the memory of a WebAssembly module "
                f"has {_LARGEST:,}; call it on parts of the arrays, or build for the processor"
            )
        missing = end - self._memory.data_len(self._store)
        if missing > 0:
            try:
                self._memory.grow(self._store, -(-missing // _PAGE))
            except wasmtime_package().WasmtimeError as error:
                raise InputError(f"{name}: wasmtime has no memory of {end:,} bytes: {error}") from None


class WasmFunction:
    """One function, called with NumPy arrays and scalars; arrays are copied into the module's memory and back."""

    def __init__(self, module: WasmModule, info: FunctionInfo) -> None:
        self._module, self.info = module, info

    def __call__(self, *args: Any) -> None:
        """Run once. Raises `InputError` for arguments that do not fit."""
        by_name = bind_arguments(self.info.name, self.info.params, args)
        for wrong in infer_extents(self.info.params, by_name):
            raise InputError(
                f"{self.info.name}: {wrong.param.name} has {wrong.got} where {wrong.name} is {wrong.known}"
            )
        self._module.call(self.info, [by_name[param.name] for param in self.info.params])


def _has_memory(info: FunctionInfo) -> bool:
    return bool(info.workspace_bytes or info.worker_workspace_bytes)


def _slot(value: Any, addresses: Any) -> bytes:
    """The eight bytes of an argument: an address, or a scalar's own bytes first."""
    if isinstance(value, np.ndarray):
        return struct.pack("<Q", next(addresses))
    return value.tobytes().ljust(8, b"\0")
