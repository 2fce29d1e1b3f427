"""Copies between the host's ordinary memory and an NVIDIA GPU, through page-locked memory that the GPU reads itself."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.runtime.gpu.cuda_context import CudaContext

#: Bytes of a slot: large enough that the start of a copy costs little, small enough that two overlap soon.
SLOT = 4 << 20
_SLOTS = 2
_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE
_NO_TIMES = 2  # CU_EVENT_DISABLE_TIMING


@dataclass(frozen=True)
class _Slot:
    address: int
    event: int  # happens when the GPU is done with the slot


def _made(device: CudaContext, nbytes: int) -> _Slot:
    made = device.driver.made
    return _Slot(
        made("cuMemHostAlloc", ctypes.c_void_p, nbytes, _PORTABLE), made("cuEventCreate", ctypes.c_void_p, _NO_TIMES)
    )


class PinnedStaging:
    """Slots of page-locked memory, used in turns: the host fills or empties one while the GPU copies another."""

    def __init__(self, device: CudaContext) -> None:
        self._device, self._lock, self._next = device, threading.Lock(), 0
        self._slots = [_made(device, SLOT) for _ in range(_SLOTS)]
        self._free: dict[int, list[_Slot]] = {}  # slots of copies by themselves, by their bytes

    def write(self, target: int, source: int, nbytes: int) -> None:
        """Queue copies of the host's bytes at `source` to the device's address; the host's may change after it."""
        device = self._device
        with self._lock:
            for start in range(0, nbytes, SLOT):
                slot, size = self._turn(), min(SLOT, nbytes - start)
                ctypes.memmove(slot.address, source + start, size)
                device.call("cuMemcpyHtoDAsync_v2", target + start, slot.address, size, device.stream)
                device.call("cuEventRecord", slot.event, device.stream)

    def read(self, target: int, source: int, nbytes: int) -> None:
        """Fill the host's bytes at `target` from the device's address, after what is queued before."""
        device = self._device
        queued: list[tuple[int, int, _Slot]] = []
        with self._lock:
            for start in range(0, nbytes, SLOT):
                if len(queued) == _SLOTS:
                    self._take(target, *queued.pop(0))
                slot, size = self._turn(), min(SLOT, nbytes - start)
                device.call("cuMemcpyDtoHAsync_v2", slot.address, source + start, size, device.stream)
                device.call("cuEventRecord", slot.event, device.stream)
                queued.append((start, size, slot))
            for one in queued:
                self._take(target, *one)

    def start_read(self, target: int, source: int, nbytes: int) -> Callable[[], None]:
        """Queue one copy of the device's bytes at `source`; a function that waits and fills the host's at `target`.

        It goes through memory of its own, which is kept for the next copies of this size.
        """
        device, free = self._device, self._free.setdefault(nbytes, [])
        if free:
            slot = free.pop()
        else:
            slot = _made(device, nbytes)
            self._slots.append(slot)
        device.call("cuMemcpyDtoHAsync_v2", slot.address, source, nbytes, device.stream)
        device.call("cuEventRecord", slot.event, device.stream)

        def finish() -> None:
            with device.current():
                self._take(target, 0, nbytes, slot)
            free.append(slot)

        return finish

    def _take(self, target: int, start: int, size: int, slot: _Slot) -> None:
        self._device.wait("cuEventQuery", slot.event)
        ctypes.memmove(target + start, slot.address, size)

    def _turn(self) -> _Slot:
        """The next slot, when the GPU is done with what it held."""
        slot = self._slots[self._next]
        self._next = (self._next + 1) % _SLOTS  # those behind are of copies by themselves
        self._device.wait("cuEventQuery", slot.event)
        return slot

    def __del__(self) -> None:
        for slot in getattr(self, "_slots", ()):
            self._device.release("cuMemFreeHost", slot.address)
            self._device.release("cuEventDestroy_v2", slot.event)
