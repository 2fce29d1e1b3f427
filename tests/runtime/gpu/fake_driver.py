"""A stand-in for NVIDIA's driver library: its functions as C callbacks, device memory in the host's.

Calls are noted in `calls`. Copies and launches are done at once, or within a capture put into a graph, which
`cuGraphLaunch` does. A kernel is a Python function and the ctypes types of its arguments, by name. `fail` has the code
that a function returns instead of doing anything; `pending` is the number of queries that say "not ready".
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.runtime.gpu.cuda_driver import NOT_READY, SIGNATURES

OUT_OF_MEMORY, INVALID_IMAGE, NOT_FOUND = 2, 200, 500
MEMORY = 1 << 30
ATTRIBUTES = {13: 1_980_000, 16: 132, 36: 2_619_000, 37: 5120, 75: 9, 76: 0, 97: 232448}
Kernel = tuple[Callable[..., None], Sequence[Any]]


class FakeDriver:
    """The library, as `Driver` takes it."""

    def __init__(self, kernels: dict[str, Kernel] | None = None, gpus: int = 1, missing: str = "") -> None:
        self.kernels, self.gpus = kernels or {}, gpus
        self.calls: list[tuple[Any, ...]] = []
        self.fail: dict[str, int] = {}
        self.pending = 0
        self.memory: dict[int, Any] = {}
        self.handles = itertools.count(0x1000)
        self.functions: dict[int, str] = {}
        self.graphs: dict[int, list[Callable[[], None]]] = {}
        self.capturing: list[Callable[[], None]] | None = None
        self.current: int | None = None
        self.contexts = 0
        for name, types in SIGNATURES.items():
            if name != missing:
                setattr(self, name, ctypes.CFUNCTYPE(ctypes.c_int, *types)(self._noting(name)))

    def _noting(self, name: str) -> Callable[..., int]:
        def call(*args: Any) -> int:
            self.calls.append((name, *args))
            if code := self.fail.get(name):
                return code
            body = getattr(self, f"_{name}", None)
            return (body(*args) if body is not None else 0) or 0

        return call

    def names(self) -> list[str]:
        """The names of the functions called, but for those that only ask."""
        asking = ("cuCtxGetCurrent", "cuEventQuery", "cuStreamQuery", "cuDeviceGetAttribute")
        return [name for name, *_ in self.calls if name not in asking]

    def _do(self, work: Callable[[], None]) -> None:
        if self.capturing is None:
            work()
        else:
            self.capturing.append(work)

    def _make(self, pointer: int) -> int:
        ctypes.c_void_p.from_address(pointer).value = made = next(self.handles)
        return made

    def _cuDeviceGetCount(self, pointer: int) -> None:
        ctypes.c_int.from_address(pointer).value = self.gpus

    def _cuDeviceGet(self, pointer: int, ordinal: int) -> None:
        ctypes.c_int.from_address(pointer).value = ordinal

    def _cuDeviceGetName(self, pointer: int, size: int, device: int) -> None:
        ctypes.memmove(pointer, b"Fake GPU\0", 9)

    def _cuDeviceGetAttribute(self, pointer: int, attribute: int, device: int) -> None:
        ctypes.c_int.from_address(pointer).value = ATTRIBUTES.get(attribute, 1)

    def _cuDriverGetVersion(self, pointer: int) -> None:
        ctypes.c_int.from_address(pointer).value = 12040

    def _cuDevicePrimaryCtxRetain(self, pointer: int, device: int) -> None:
        self.contexts += 1
        ctypes.c_void_p.from_address(pointer).value = 0xC0 + device

    def _cuDevicePrimaryCtxRelease_v2(self, device: int) -> None:
        self.contexts -= 1

    def _cuCtxGetCurrent(self, pointer: int) -> None:
        ctypes.c_void_p.from_address(pointer).value = self.current

    def _cuCtxSetCurrent(self, context: int) -> None:
        self.current = context

    def _cuMemGetInfo_v2(self, free: int, total: int) -> None:
        ctypes.c_size_t.from_address(free).value = MEMORY - self.used
        ctypes.c_size_t.from_address(total).value = MEMORY

    @property
    def used(self) -> int:
        """Bytes of device memory that are allocated."""
        return sum(ctypes.sizeof(block) for block in self.memory.values())

    def _cuMemAlloc_v2(self, pointer: int, size: int) -> int:
        if self.used + size > MEMORY:
            return OUT_OF_MEMORY
        block = ctypes.create_string_buffer(size)
        ctypes.c_uint64.from_address(pointer).value = ctypes.addressof(block)
        self.memory[ctypes.addressof(block)] = block
        return 0

    def _cuMemFree_v2(self, address: int) -> None:
        del self.memory[address]

    def _cuMemHostAlloc(self, pointer: int, size: int, flags: int) -> None:
        self.pinned = getattr(self, "pinned", [])
        self.pinned.append(ctypes.create_string_buffer(size))
        ctypes.c_void_p.from_address(pointer).value = ctypes.addressof(self.pinned[-1])

    def _copy(self, target: int, source: int, size: int, stream: int) -> None:
        self._do(lambda: ctypes.memmove(target, source, size) and None)

    _cuMemcpyHtoDAsync_v2 = _cuMemcpyDtoHAsync_v2 = _cuMemcpyDtoDAsync_v2 = _copy

    def _cuStreamCreate(self, pointer: int, flags: int) -> None:
        self._make(pointer)

    _cuEventCreate = _cuStreamCreate

    def _query(self, handle: int) -> int:
        self.pending -= 1
        return NOT_READY if self.pending >= 0 else 0

    _cuStreamQuery = _cuEventQuery = _query

    def _cuStreamBeginCapture_v2(self, stream: int, mode: int) -> None:
        self.capturing = []

    def _cuStreamEndCapture(self, stream: int, pointer: int) -> None:
        assert self.capturing is not None
        self.graphs[self._make(pointer)] = self.capturing
        self.capturing = None

    def _cuGraphInstantiateWithFlags(self, pointer: int, graph: int, flags: int) -> None:
        self.graphs[self._make(pointer)] = self.graphs[graph]

    def _cuGraphExecUpdate_v2(self, executable: int, graph: int, result: int) -> int:
        if len(self.graphs[executable]) != len(self.graphs[graph]):
            return 910
        self.graphs[executable] = self.graphs[graph]
        return 0

    def _destroy(self, graph: int) -> None:
        del self.graphs[graph]

    _cuGraphDestroy = _cuGraphExecDestroy = _destroy

    def _cuGraphLaunch(self, graph: int, stream: int) -> None:
        for work in self.graphs[graph]:
            work()

    def _cuEventElapsedTime(self, pointer: int, start: int, end: int) -> None:
        ctypes.c_float.from_address(pointer).value = 0.25

    def _cuModuleLoadData(self, pointer: int, data: int) -> int:
        self.loaded = ctypes.string_at(data, 4)
        self._make(pointer)
        return 0

    def _cuModuleGetFunction(self, pointer: int, module: int, name: bytes) -> int:
        if name.decode() not in self.kernels:
            return NOT_FOUND
        self.functions[self._make(pointer)] = name.decode()
        return 0

    def _cuLaunchKernel(self, function: int, *rest: Any) -> None:
        *_, slots, _extra = rest
        body, types = self.kernels[self.functions[function]]
        pointers = [ctypes.c_uint64.from_address(slots + 8 * i).value for i in range(len(types))]
        # the values are read at the launch, as the driver does
        values = [kind.from_address(pointer).value for kind, pointer in zip(types, pointers)]
        self._do(lambda: body(*values))

    def _cuGetErrorName(self, code: int, pointer: int) -> None:
        self._text = ctypes.create_string_buffer(b"CUDA_ERROR_%d" % code)
        ctypes.c_void_p.from_address(pointer).value = ctypes.addressof(self._text)

    _cuGetErrorString = _cuGetErrorName
