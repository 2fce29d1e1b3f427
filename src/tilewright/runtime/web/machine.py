"""A WebAssembly module in wasmtime (extra: `wasm`), and its memory, taken piece by piece from `__heap_base` on."""

from __future__ import annotations

from typing import Any

from tilewright.errors import EnvironmentError_, InputError
from tilewright.runtime.memory import ALIGNMENT, round_up
from tilewright.runtime.wasm import library_function, wasmtime_package

_PAGE = 65536
_LARGEST = 1 << 32  # bytes that addresses of 32 bits reach


class Machine:
    """One instance of a module. Raises `EnvironmentError_` without the package wasmtime."""

    def __init__(self, module: bytes) -> None:
        wasmtime = wasmtime_package()
        config = wasmtime.Config()
        config.wasm_relaxed_simd = True
        self._store = wasmtime.Store(wasmtime.Engine(config))
        compiled = wasmtime.Module(self._store.engine, module)
        imports = [self._import(wasmtime, entry) for entry in compiled.imports]
        self._exports: Any = wasmtime.Instance(self._store, compiled, imports).exports(self._store)
        self._memory: Any = self._exports["memory"]
        self._end = self._kept = int(self._exports["__heap_base"].value(self._store))

    def _import(self, wasmtime: Any, entry: Any) -> Any:
        if entry.name == "memory":
            return wasmtime.Memory(self._store, entry.type)
        return wasmtime.Func(self._store, entry.type, library_function(entry.name))

    def take(self, nbytes: int) -> int:
        """The address of so many fresh bytes. Raises `InputError` beyond what the machine has."""
        start = round_up(self._end, ALIGNMENT)
        self._end = start + nbytes
        missing = self._end - self._memory.data_len(self._store)
        if self._end > _LARGEST:
            raise InputError(f"the model needs {self._end:,} bytes, and WebAssembly's addresses have 32 bits")
        if missing > 0:
            try:
                self._memory.grow(self._store, -(-missing // _PAGE))
            except wasmtime_package().WasmtimeError as error:
                raise InputError(f"wasmtime has no memory of {self._end:,} bytes: {error}") from None
        return start

    def keep(self) -> None:
        """Keep what was taken so far."""
        self._kept = self._end

    def release(self) -> None:
        """Free what was taken since `keep`."""
        self._end = self._kept

    def write(self, address: int, data: Any) -> None:
        """Copy bytes, or an array's, into the memory."""
        found = bytes(data)
        if found:  # none may lie where the memory ends
            self._memory.write(self._store, found, address)

    def read(self, address: int, nbytes: int) -> bytearray:
        """A copy of bytes of the memory."""
        return self._memory.read(self._store, address, address + nbytes)

    def call(self, name: str, *args: int) -> int:
        """The result of an exported function. Raises `EnvironmentError_` where the machine stops it."""
        try:
            return int(self._exports[name](self._store, *args))
        except wasmtime_package().Trap as error:
            reason = str(error.message).strip().splitlines()[-1].strip().removeprefix("wasm trap: ")
            raise EnvironmentError_(f"the module stopped with a fault; please report it: {reason}") from None
