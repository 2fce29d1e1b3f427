"""NVIDIA GPUs through the driver API: memory, kernels of cubins and PTX, a stream; graphs are in `cuda_graph`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.runtime.gpu.api import Copy, Extent3, Kernel, Launch, check_view
from tilewright.runtime.gpu.cuda_context import CudaContext
from tilewright.runtime.gpu.cuda_driver import Driver, DriverError, driver
from tilewright.runtime.gpu.cuda_graph import CudaRecording
from tilewright.runtime.gpu.cuda_memory import Allocation, CudaBuffer, memory_info, queue_copy
from tilewright.runtime.gpu.cuda_staging import PinnedStaging
from tilewright.runtime.gpu.nvrtc import compile_cubin, compile_ptx

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
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_FUNCTION_ATTRIBUTES = {"max_threads": 0, "shared_bytes": 1, "local_bytes": 3, "registers": 4}
_DEFAULT_SHARED = 48 << 10  # of a block without asking for more


class CudaDevice(CudaContext):
    """One NVIDIA GPU, in its primary context, which other libraries of the process share, with a stream of its own."""

    def __init__(self, ordinal: int, loaded: Driver | None = None) -> None:
        """The GPU of a number. Raises `EnvironmentError_` where the driver has none, `TargetError` beyond the last."""
        super().__init__(ordinal, driver() if loaded is None else loaded)
        self.alignment = 256
        parts = ("major", "minor")
        #: The compute capability, such as (9, 0), and the architecture "sm_90" of it.
        self.capability = tuple(self.attribute(f"compute_capability_{part}") for part in parts)
        self.arch = "sm_{}{}".format(*self.capability)
        #: The same, with what only GPUs of this architecture have: "sm_90a".
        self.own_architecture = f"{self.arch}a" if self.capability >= (9, 0) else self.arch
        self._staging: PinnedStaging | None = None

    # What the device is

    def attribute(self, name: str) -> int:
        """One of the figures that `facts` starts from."""
        return int(self.driver.made("cuDeviceGetAttribute", ctypes.c_int, _ATTRIBUTES[name], self.gpu))

    def facts(self) -> dict[str, int | float | str]:
        """Figures of the GPU: counts, bytes, hertz, bytes a second, as its driver says them."""
        found: dict[str, int | float | str] = {name: self.attribute(name) for name in _ATTRIBUTES}
        found |= {"name": self.name, "arch": self.arch, "clock_hz": self.attribute("clock_khz") * 1e3}
        # two transfers a clock: the memory's data rate is double
        rate = 2e3 * self.attribute("memory_clock_khz")
        found["memory_bandwidth"] = rate * self.attribute("memory_bus_bits") / 8
        found["memory_bytes"] = int(self.driver.made("cuDeviceTotalMem_v2", ctypes.c_size_t, self.gpu))
        version = int(self.driver.made("cuDriverGetVersion", ctypes.c_int))
        found["driver_cuda_version"] = f"{version // 1000}.{version % 1000 // 10}"
        return found

    def memory(self) -> tuple[int, int]:
        """Bytes of device memory that are free, and all of them."""
        return memory_info(self)

    # Memory

    def allocate(self, nbytes: int) -> CudaBuffer:
        """Device memory. Raises `DriverError` with the bytes requested and free where it does not suffice."""
        size = max(1, nbytes)
        block = Allocation(self, size)
        return CudaBuffer(self, block.pointer, size, block)

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

    def start_read(self, buffer: CudaBuffer, array: np.ndarray[Any, Any]) -> Callable[[], None]:
        """Queue a copy to a contiguous array; a function that waits for it."""
        with self.current():
            return self._stage().start_read(array.ctypes.data, buffer.pointer, array.nbytes)

    def _stage(self) -> PinnedStaging:
        if self._staging is None:
            self._staging = PinnedStaging(self)
        return self._staging

    def copy(self, source: CudaBuffer, target: CudaBuffer, nbytes: int) -> None:
        """Queue a copy within device memory."""
        if nbytes:
            queue_copy(self, Copy(source, target, nbytes))

    # Kernels

    def compile(self, source: str, kernels: Sequence[str]) -> dict[str, Kernel]:
        """The kernels of a text, compiled for this GPU; by its driver where that takes no cubin of this NVRTC."""
        try:
            return self.load(compile_cubin(source, self.own_architecture), kernels)
        except DriverError:
            if self.lost is not None:
                raise
            return self.load(compile_ptx(source, self.own_architecture), kernels)

    def fitting(self, architectures: Iterable[str]) -> list[str]:
        """Those of some architectures whose machine code runs on this GPU, the best first.

        A cubin for "sm_86" runs on GPUs of its major number and at least its minor, one for "sm_90a" on exactly those;
        PTX for "compute_80" on all from there on, after a translation by the driver, and "compute_90a" again on those.
        """
        ranked = []
        for name in architectures:
            is_cubin, exact, made = architecture_of(name)
            fits = made <= self.capability and (not is_cubin or made[0] == self.capability[0])
            if made[0] and (fits if not exact else made == self.capability):
                ranked.append((is_cubin, exact, made, name))
        return [name for *_, name in sorted(ranked, reverse=True)]

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


def architecture_of(name: str) -> tuple[bool, bool, tuple[int, int]]:
    """True for a cubin ("sm_80") and False for PTX ("compute_80"), True for one GPU only ("sm_90a"), and its numbers.

    Of code that runs on a GPU the greatest is the best. The numbers are (0, 0) for names that are none of these.
    """
    kind, _, number = name.partition("_")
    digits = number.rstrip("af")
    known = kind in ("sm", "compute") and digits.isdigit()
    return kind == "sm", number != digits, divmod(int(digits), 10) if known else (0, 0)


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
            error = device.failed("cuLaunchKernel", code)
            shared = f", {shared_bytes} shared bytes" if shared_bytes else ""
            raise DriverError(f"kernel {self.name}, grid {grid}, block {block}{shared}: {error}", code)
        device.note((self.name,))


_OPENED: dict[int, CudaDevice] = {}


def cuda_device(ordinal: int = 0) -> CudaDevice:
    """The GPU of a number, opened once a process, and again where it was lost. Raises `EnvironmentError_` without."""
    if ordinal not in _OPENED or _OPENED[ordinal].lost is not None:
        _OPENED[ordinal] = CudaDevice(ordinal)
    return _OPENED[ordinal]
