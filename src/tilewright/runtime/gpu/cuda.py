"""NVIDIA GPUs: text compiled by NVRTC, run through the driver API; both by ctypes (extra: `cuda`)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu.api import Extent3, Kernel
from tilewright.runtime.gpu.nvrtc import compile_cubin

_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR = 75, 76


class CudaDevice:
    """The first NVIDIA GPU, in its primary context."""

    def __init__(self) -> None:
        self._driver = _driver()
        self._call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(100)
        self._call("cuDeviceGetName", name, 100, device)
        self.name = f"CUDA {name.value.decode()}"
        major, minor = (self._attribute(a, device) for a in (_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR))
        self.arch = f"sm_{major}{minor}"

    def _attribute(self, attribute: int, device: ctypes.c_int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        return value.value

    def _call(self, name: str, *args: Any) -> None:
        code = getattr(self._driver, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(text))
            raise EnvironmentError_(f"the CUDA driver refused {name}: {(text.value or b'error').decode()} ({code})")

    def allocate(self, nbytes: int) -> DeviceMemory:
        """Device memory."""
        return DeviceMemory(self, nbytes)

    def write(self, buffer: DeviceMemory, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to `buffer`."""
        self._call("cuMemcpyHtoD_v2", buffer.pointer, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))

    def read(self, buffer: DeviceMemory, array: np.ndarray[Any, Any]) -> None:
        """Fill a contiguous array from `buffer`."""
        self._call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), buffer.pointer, ctypes.c_size_t(array.nbytes))

    def compile(self, source: str, kernels: Sequence[str]) -> dict[str, Kernel]:
        """The kernels of a text, compiled for this GPU."""
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), compile_cubin(source, self.arch))
        made: dict[str, Kernel] = {}
        for name in kernels:
            function = ctypes.c_void_p()
            self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            made[name] = _Kernel(self, function)
        return made

    def synchronize(self) -> None:
        """Wait for the device."""
        self._call("cuCtxSynchronize")


class DeviceMemory:
    """A block of device memory, freed with this object."""

    def __init__(self, device: CudaDevice, nbytes: int) -> None:
        self._device = device
        self.pointer = ctypes.c_uint64()
        device._call("cuMemAlloc_v2", ctypes.byref(self.pointer), ctypes.c_size_t(nbytes))

    def __del__(self) -> None:
        if getattr(self, "pointer", None):
            self._device._driver.cuMemFree_v2(self.pointer)


class _Kernel:
    def __init__(self, device: CudaDevice, function: ctypes.c_void_p) -> None:
        self._device, self._function = device, function

    def launch(self, grid: Extent3, block: Extent3, args: Sequence[Any]) -> None:
        """Queue one launch."""
        held = [arg.pointer if isinstance(arg, DeviceMemory) else np.asarray(arg) for arg in args]
        slots = (ctypes.c_void_p * max(1, len(held)))()
        for i, arg in enumerate(held):
            slots[i] = arg.ctypes.data if isinstance(arg, np.ndarray) else ctypes.addressof(arg)
        self._device._call("cuLaunchKernel", self._function, *grid, *block, 0, None, slots, None)


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise EnvironmentError_(
            "the target 'cuda' needs an NVIDIA GPU and its driver (libcuda.so.1 was not found); 'cuda -emulate=1' runs "
            "the same code on this processor, slowly, to check its results"
        ) from None


@functools.cache
def cuda_device() -> CudaDevice:
    """The GPU of this process. Raises `EnvironmentError_` where there is none."""
    return CudaDevice()
