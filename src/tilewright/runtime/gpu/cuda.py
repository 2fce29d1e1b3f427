"""NVIDIA GPUs through the driver API: memory, kernels of cubins and PTX, a stream; graphs are in `cuda_graph`."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, TargetError
from tilewright.runtime.gpu.api import Copy, Extent3, Kernel, Launch, check_view
from tilewright.runtime.gpu.cuda_driver import (
    NOT_READY,
    OUT_OF_MEMORY,
    STICKY,
    Driver,
    DriverError,
    driver,
)
from tilewright.runtime.gpu.cuda_graph import CudaRecording
from tilewright.runtime.gpu.cuda_staging import PinnedStaging
from tilewright.runtime.gpu.nvrtc import compile_cubin, compile_ptx
from tilewright.support import knobs

#: Device attributes (CUdevice_attribute) under the names that `facts` has them.
_ATTRIBUTES = {
    "max_threads_per_block": 1,
    "shared_bytes_per_block": 8,
    "warp_size": 10,
    "registers_per_block": 12,
    "clock_khz": 13,
    "multiprocessors": 16,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "max_threads_per_multiprocessor": 39,
    "compute_capability_major": 75,
    "compute_capability_minor": 76,
    "shared_bytes_per_multiprocessor": 81,
    "registers_per_multiprocessor": 82,
    "shared_bytes_per_block_optin": 97,
    "max_blocks_per_multiprocessor": 106,
    "reserved_shared_bytes_per_block": 111,
}
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: does not wait for the default stream, nor that one for it
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_FUNCTION_ATTRIBUTES = {"max_threads": 0, "shared_bytes": 1, "local_bytes": 3, "registers": 4}
_DEFAULT_SHARED = 48 << 10  # of a block without asking for more
_NAMES_KEPT = 4  # of kernels queued last, for messages


class CudaDevice:
    """One NVIDIA GPU, in its primary context, which other libraries of the process share, with a stream of its own."""

    def __init__(self, ordinal: int, loaded: Driver | None = None) -> None:
        """The GPU of a number. Raises `EnvironmentError_` where the driver has none, `TargetError` beyond the last."""
        self.driver = driver() if loaded is None else loaded
        count = self.driver.made("cuDeviceGetCount", ctypes.c_int)
        if ordinal >= count:
            raise TargetError(f"there is no 'cuda:{ordinal}': this machine has {count} NVIDIA GPU{'s'[: count != 1]}")
        self.ordinal, self._device = ordinal, self.driver.made("cuDeviceGet", ctypes.c_int, ordinal)
        name = ctypes.create_string_buffer(256)
        self.driver.call("cuDeviceGetName", name, len(name), self._device)
        self.name = f"CUDA {name.value.decode(errors='replace')}"
        self.alignment = 256
        attributes = (self.attribute(f"compute_capability_{part}") for part in ("major", "minor"))
        self.arch = "sm_{}{}".format(*attributes)
        #: The message of the error after which this device takes no more work.
        self.lost: str | None = None
        self._queued: list[str] = []  # names of the kernels queued last
        self._context = self.driver.made("cuDevicePrimaryCtxRetain", ctypes.c_void_p, self._device)
        self._streams = threading.local()
        self._deferred: list[tuple[str, int]] | None = None
        with self.current():
            self.own_stream: int = self.driver.made("cuStreamCreate", ctypes.c_void_p, _NON_BLOCKING)
        self._staging: PinnedStaging | None = None

    # What the device is

    def attribute(self, name: str) -> int:
        """One of the figures that `facts` starts from."""
        return int(self.driver.made("cuDeviceGetAttribute", ctypes.c_int, _ATTRIBUTES[name], self._device))

    def facts(self) -> dict[str, int | float | str]:
        """Figures of the GPU: counts, bytes, hertz, bytes a second, as its driver says them."""
        found: dict[str, int | float | str] = {name: self.attribute(name) for name in _ATTRIBUTES}
        found |= {"name": self.name, "arch": self.arch, "clock_hz": self.attribute("clock_khz") * 1e3}
        # two transfers a clock: the memory's data rate is double
        rate = 2e3 * self.attribute("memory_clock_khz")
        found["memory_bandwidth"] = rate * self.attribute("memory_bus_bits") / 8
        found["memory_bytes"] = int(self.driver.made("cuDeviceTotalMem_v2", ctypes.c_size_t, self._device))
        version = int(self.driver.made("cuDriverGetVersion", ctypes.c_int))
        found["driver_cuda_version"] = f"{version // 1000}.{version % 1000 // 10}"
        return found

    def memory(self) -> tuple[int, int]:
        """Bytes of device memory that are free, and all of them."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        with self.current():
            self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    # Contexts, streams, errors

    def current(self) -> _Current:
        """This device's context as the thread's current one, for a `with` block. Raises the error that lost it."""
        return _Current(self)

    @property
    def stream(self) -> int:
        """The stream that this thread's work is queued on: the device's own, or that of `on_stream`."""
        return getattr(self._streams, "stream", self.own_stream)

    @contextmanager
    def on_stream(self, stream: int) -> Iterator[None]:
        """Queue this thread's work on another library's stream, such as `torch.cuda.current_stream().cuda_stream`."""
        before = self.stream
        self._streams.stream = stream
        try:
            yield
        finally:
            self._streams.stream = before

    def wait_for(self, other: int, stream: int | None = None) -> None:
        """Have `stream` (this thread's) start what is queued from now on after what is queued on `other` now."""
        stream = self.stream if stream is None else stream
        if other == stream:
            return
        with self.current():
            event = self.driver.made("cuEventCreate", ctypes.c_void_p, 2)  # without times: cheaper
            try:
                self.call("cuEventRecord", event, other)
                self.call("cuStreamWaitEvent", stream, event, 0)
            finally:
                self.driver.try_call("cuEventDestroy_v2", event)  # the driver frees it when it has happened

    def call(self, name: str, *args: Any) -> None:
        """Call the driver. Raises `DriverError`; one that breaks the context says so, and the device is lost."""
        code = self.driver.try_call(name, *args)
        if code:
            raise self._failed(name, code)

    def note(self, kernels: Sequence[str]) -> None:
        """Keep the names of kernels that are queued now, for the message when one of them fails."""
        self._queued = [*self._queued, *kernels][-_NAMES_KEPT:]

    def _failed(self, name: str, code: int) -> DriverError:
        error = self.driver.error(name, code)
        if code not in STICKY:
            return error
        kernels = f" after the kernels {', '.join(self._queued)} were queued" if self._queued else ""
        return self._lose(
            f"{error}{kernels}; the GPU takes no more work of this process's context. `compute-sanitizer` names the "
            "kernel and the address",
            code,
        )

    def _lose(self, message: str, code: int) -> DriverError:
        """Give the context back, so that the driver frees its memory once nobody shares it; the next open is afresh."""
        if self.lost is not None:
            return DriverError(self.lost, code)
        self.lost = f"{self.name}: {message}"
        if code != NOT_READY:  # with a kernel that still runs, giving back would wait for it
            self.driver.try_call("cuDevicePrimaryCtxRelease_v2", self._device)
        cuda_device.cache_clear()
        return DriverError(self.lost, code)

    def release(self, name: str, held: int) -> None:
        """Free something by the driver's function `name`; for destructors: no errors, nothing during a capture."""
        if self.lost is not None:
            return
        if self._deferred is not None:
            self._deferred.append((name, held))
            return
        try:
            with self.current():
                self.driver.try_call(name, held)
        except Exception:  # the interpreter ends, and the driver with it
            return

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Put off what destructors free: freeing waits for the device, which a stream being captured forbids."""
        self._deferred = []
        try:
            yield
        finally:
            deferred, self._deferred = self._deferred, None
            for name, held in deferred:
                self.release(name, held)

    def wait(self, query: str, held: int) -> None:
        """Poll a stream or event (`cuStreamQuery`, `cuEventQuery`) until it is done.

        Raises `DriverError` where a kernel failed, or still runs after the time limit of `TILEWRIGHT_DEVICE_TIMEOUT`.
        """
        start, limit = time.perf_counter(), knobs.DEVICE_TIMEOUT.get()
        while (code := self.driver.try_call(query, held)) == NOT_READY:
            elapsed = time.perf_counter() - start
            if limit and elapsed > limit:
                kernels = ", ".join(self._queued) or "copies"
                raise self._lose(
                    f"not done after {limit:g} seconds; queued last: {kernels}. Its work cannot be stopped: end this "
                    "process, or set TILEWRIGHT_DEVICE_TIMEOUT to more seconds (0: no limit) if it is that long",
                    NOT_READY,
                )
            if elapsed > 2e-3:  # short kernels are waited for awake
                time.sleep(min(1e-3, elapsed / 50))
        if code:
            raise self._failed(query, code)

    def synchronize(self) -> None:
        """Wait for the stream."""
        with self.current():
            self.wait("cuStreamQuery", self.stream)
        self._queued = []

    # Memory

    def allocate(self, nbytes: int) -> CudaBuffer:
        """Device memory. Raises `DriverError` with the bytes asked for and free where it does not suffice."""
        pointer, size = ctypes.c_uint64(), max(1, nbytes)
        with self.current():
            code = self.driver.try_call("cuMemAlloc_v2", ctypes.byref(pointer), size)
            if code == OUT_OF_MEMORY:
                free, total = self.memory()
                raise DriverError(
                    f"out of device memory: {size:,} bytes asked for, {free:,} of {total:,} free on {self.name}; "
                    "use a smaller batch or free other arrays and models",
                    code,
                )
            if code:
                raise self._failed("cuMemAlloc_v2", code)
        return CudaBuffer(self, pointer.value, size, _Allocation(self, pointer.value))

    def wrap(self, pointer: int, nbytes: int, owner: object) -> CudaBuffer:
        """Memory of another library at an address on this device; `owner` is kept as long as the buffer."""
        return CudaBuffer(self, pointer, nbytes, owner)

    def view(self, buffer: CudaBuffer, offset: int, nbytes: int) -> CudaBuffer:
        """A part of the memory, which it keeps."""
        check_view(self.name, buffer.nbytes, self.alignment, offset, nbytes)
        return CudaBuffer(self, buffer.pointer + offset, nbytes, buffer.owner)

    def write(self, buffer: CudaBuffer, array: np.ndarray[Any, Any]) -> None:
        """Queue a copy of a contiguous array; returns when the array has been read."""
        with self.current():
            self._stage().write(buffer.pointer, array.ctypes.data, array.nbytes)

    def read(self, buffer: CudaBuffer, array: np.ndarray[Any, Any]) -> None:
        """Fill a contiguous array from `buffer`."""
        with self.current():
            self._stage().read(array.ctypes.data, buffer.pointer, array.nbytes)

    def _stage(self) -> PinnedStaging:
        if self._staging is None:
            self._staging = PinnedStaging(self)
        return self._staging

    def copy(self, source: CudaBuffer, target: CudaBuffer, nbytes: int) -> None:
        """Queue a copy within device memory."""
        if nbytes:
            with self.current():
                self.call("cuMemcpyDtoDAsync_v2", target.pointer, source.pointer, nbytes, self.stream)

    # Kernels

    def compile(self, source: str, kernels: Sequence[str]) -> dict[str, Kernel]:
        """The kernels of a text, compiled for this GPU; by its driver where that takes no cubin of this NVRTC."""
        try:
            return self.load(compile_cubin(source, self.arch), kernels)
        except DriverError:
            if self.lost is not None:
                raise
            return self.load(compile_ptx(source, self.arch), kernels)

    def load(self, binary: bytes, kernels: Sequence[str]) -> dict[str, Kernel]:
        """The kernels of a cubin for this GPU's architecture, or of PTX for an older or the same one.

        Raises `DriverError` where the driver takes neither; its message has the driver's version.
        """
        with self.current():
            module = _Module(self, binary)
            return {name: CudaKernel(self, module, name) for name in kernels}

    def record(self, steps: Sequence[Launch | Copy]) -> CudaRecording:
        """The steps as a graph."""
        return CudaRecording(self, steps)


class _Current:
    """A context made current on entry; what was current before is so again after it."""

    __slots__ = ("_before", "_device")

    def __init__(self, device: CudaDevice) -> None:
        if device.lost is not None:
            raise EnvironmentError_(device.lost)
        self._device = device

    def __enter__(self) -> None:
        device = self._device
        self._before = device.driver.made("cuCtxGetCurrent", ctypes.c_void_p)
        if self._before != device._context:
            device.driver.call("cuCtxSetCurrent", device._context)

    def __exit__(self, *_: object) -> None:
        if self._before is not None and self._before != self._device._context:
            self._device.driver.try_call("cuCtxSetCurrent", self._before)


class CudaBuffer:
    """A range of device memory; `owner` frees it."""

    __slots__ = ("device", "nbytes", "owner", "pointer")

    def __init__(self, device: CudaDevice, pointer: int, nbytes: int, owner: object) -> None:
        self.device, self.pointer, self.nbytes, self.owner = device, pointer, nbytes, owner


class _Allocation:
    """Device memory, freed with this object."""

    __slots__ = ("_device", "_pointer")

    def __init__(self, device: CudaDevice, pointer: int) -> None:
        self._device, self._pointer = device, pointer

    def __del__(self) -> None:
        self._device.release("cuMemFree_v2", self._pointer)


class _Module:
    """Machine code, loaded; unloaded with this object."""

    def __init__(self, device: CudaDevice, binary: bytes) -> None:
        self._device, self.handle = device, None
        text = binary if binary[:4] == b"\x7fELF" else binary.rstrip(b"\0") + b"\0"  # PTX ends in NUL
        made = ctypes.c_void_p()
        code = device.driver.try_call("cuModuleLoadData", ctypes.byref(made), text)
        if code:
            what = "cubin" if binary[:4] == b"\x7fELF" else "PTX"
            version = device.facts()["driver_cuda_version"]
            raise DriverError(
                f"the driver (CUDA {version}) of {device.name}, {device.arch}, does not load this {what}: "
                f"{device.driver.error('cuModuleLoadData', code)}; compile for {device.arch}, or install a newer "
                "driver",
                code,
            )
        self.handle = made.value

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._device.release("cuModuleUnload", self.handle or 0)


class CudaKernel:
    """A kernel of a module."""

    def __init__(self, device: CudaDevice, module: _Module, name: str) -> None:
        self.name, self._device, self._module = name, device, module
        self._function = device.driver.made("cuModuleGetFunction", ctypes.c_void_p, module.handle, name.encode())
        self._dynamic = _DEFAULT_SHARED  # shared bytes that a launch may ask for

    def facts(self) -> dict[str, int]:
        """Registers and local bytes of a thread, static shared bytes of a block, the most threads of a block."""
        get = self._device.driver.made
        numbers = _FUNCTION_ATTRIBUTES.items()
        return {name: int(get("cuFuncGetAttribute", ctypes.c_int, number, self._function)) for name, number in numbers}

    def launch(self, grid: Extent3, block: Extent3, args: Sequence[Any], shared_bytes: int = 0) -> None:
        """Queue one launch. Raises `DriverError` with the kernel's name and extents."""
        device = self._device
        # Each argument is passed by the address of its value; the driver copies the values before it returns.
        values = [ctypes.c_uint64(a.pointer) if isinstance(a, CudaBuffer) else np.asarray(a) for a in args]
        slots = (ctypes.c_void_p * max(1, len(values)))()
        for i, value in enumerate(values):
            slots[i] = value.ctypes.data if isinstance(value, np.ndarray) else ctypes.addressof(value)
        with device.current():
            if shared_bytes > self._dynamic:
                device.call("cuFuncSetAttribute", self._function, _MAX_DYNAMIC_SHARED, shared_bytes)
                self._dynamic = shared_bytes
            stream = device.stream
            code = device.driver.try_call(
                "cuLaunchKernel", self._function, *grid, *block, shared_bytes, stream, slots, None
            )
        if code:
            error = device._failed("cuLaunchKernel", code)
            shared = f", {shared_bytes} shared bytes" if shared_bytes else ""
            raise DriverError(f"kernel {self.name}, grid {grid}, block {block}{shared}: {error}", code)
        device.note((self.name,))


@functools.cache
def cuda_device(ordinal: int = 0) -> CudaDevice:
    """The GPU of a number, opened once a process. Raises `EnvironmentError_` where there is none."""
    return CudaDevice(ordinal)
