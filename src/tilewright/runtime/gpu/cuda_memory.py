"""Ranges of an NVIDIA GPU's memory."""

from __future__ import annotations

import ctypes
import gc

from tilewright.runtime.gpu.api import Copy
from tilewright.runtime.gpu.cuda_context import CudaContext
from tilewright.runtime.gpu.cuda_driver import OUT_OF_MEMORY, DriverError


class CudaBuffer:
    """A range of device memory; `owner` frees it."""

    __slots__ = ("device", "nbytes", "owner", "pointer")

    def __init__(self, device: CudaContext, pointer: int, nbytes: int, owner: object) -> None:
        self.device, self.pointer, self.nbytes, self.owner = device, pointer, nbytes, owner


class Allocation:
    """Device memory, freed with this object."""

    __slots__ = ("_device", "pointer")

    def __init__(self, device: CudaContext, nbytes: int) -> None:
        """Raises `DriverError` with the bytes requested and free where the memory does not suffice."""
        self._device, self.pointer = device, 0
        made = ctypes.c_uint64()
        with device.current():
            code = device.driver.try_call("cuMemAlloc_v2", ctypes.byref(made), nbytes)
            if code == OUT_OF_MEMORY and gc.collect():  # arrays in circles of references are freed by that
                code = device.driver.try_call("cuMemAlloc_v2", ctypes.byref(made), nbytes)
            if code == OUT_OF_MEMORY:
                free, total = memory_info(device)
                raise DriverError(
                    f"out of device memory: {nbytes:,} bytes requested, {free:,} of {total:,} free on {device.name}; "
                    "use a smaller batch or free other arrays and models",
                    code,
                )
            if code:
                raise device.failed("cuMemAlloc_v2", code)
        self.pointer = made.value

    def __del__(self) -> None:
        if self.pointer:
            self._device.release("cuMemFree_v2", self.pointer)


def memory_info(device: CudaContext) -> tuple[int, int]:
    """Bytes of device memory that are free, and all of them."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with device.current():
        device.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def queue_copy(device: CudaContext, copy: Copy) -> None:
    """Queue a copy within device memory on the thread's stream."""
    with device.current():
        source, target = copy.source.pointer, copy.target.pointer
        device.call("cuMemcpyDtoDAsync_v2", target, source, copy.nbytes, device.stream)
