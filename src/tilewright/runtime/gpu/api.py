"""The interface of a kind of device; one module of this folder implements it for each.

A buffer is a range of device memory, of a type of the device's own. Work is queued in order: a launch, a copy or a
write sees what was queued before it. Lists of work that do not change are recorded once and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from tilewright.errors import EnvironmentError_, InternalError, UnsupportedError

Device = TypeVar("Device")

#: (x, y, z)
Extent3 = tuple[int, int, int]
#: A range of device memory, of a type of the device's own.
Buffer = Any


class Kernel(Protocol):
    """A compiled kernel."""

    name: str

    def launch(self, grid: Extent3, block: Extent3, args: Sequence[Any], shared_bytes: int = 0) -> None:
        """Queue `grid` blocks of `block` threads; `args` are device buffers and NumPy scalars, in call order.

        `shared_bytes` is the size of shared memory that is declared without one: CUDA's `extern __shared__`, OpenCL's
        last parameter of type `local`. WebGPU has none.
        """


@dataclass(frozen=True)
class Launch:
    """A launch to record; as `Kernel.launch`."""

    kernel: Kernel
    grid: Extent3
    block: Extent3
    args: Sequence[Any]
    shared_bytes: int = 0


@dataclass(frozen=True)
class Copy:
    """A copy of `nbytes` from the start of one buffer to the start of another, which do not overlap."""

    source: Buffer
    target: Buffer
    nbytes: int


class Recording(Protocol):
    """Launches and copies, ready to be queued together; holds the buffers that they name."""

    def run(self) -> None:
        """Queue all steps, in order; does not wait."""

    def times(self) -> list[float]:
        """Run the steps and wait; seconds of each on the device, or beside the host's clock where it has no own."""


class DeviceApi(Protocol):
    """One device: memory, kernels, time."""

    name: str
    #: Bytes whose multiples are offsets that `view` takes.
    alignment: int

    def allocate(self, nbytes: int) -> Buffer:
        """A buffer of at least `nbytes` in device memory; freed when nobody refers to it.

        Raises `EnvironmentError_` with the bytes requested and those free when the device's memory does not suffice.
        """

    def view(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        """The part of a buffer, or of a view, that starts `offset` bytes in; keeps the whole alive.

        Raises `InternalError` where it would reach outside, or for an offset that is no multiple of `alignment`.
        """

    def write(self, buffer: Buffer, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to the start of `buffer`; the array may change after it."""

    def read(self, buffer: Buffer, array: np.ndarray[Any, Any]) -> None:
        """Fill a contiguous array from the start of `buffer`; waits for the kernels queued before."""

    def copy(self, source: Buffer, target: Buffer, nbytes: int) -> None:
        """Queue a copy from the start of one buffer to the start of another; they do not overlap."""

    def compile(self, source: str, kernels: Sequence[str]) -> dict[str, Kernel]:
        """Compile source text; its kernels by name. Raises `InternalError` with the compiler's messages."""

    def load(self, binary: bytes, kernels: Sequence[str]) -> dict[str, Kernel]:
        """The kernels of machine code: a cubin or PTX. Raises `UnsupportedError` where the device takes text only."""

    def record(self, steps: Sequence[Launch | Copy]) -> Recording:
        """The steps as one list of work, checked and translated once."""

    def synchronize(self) -> None:
        """Wait until everything queued is done."""


@runtime_checkable
class ReadsAhead(Protocol):
    """A device that copies to the host while the host, and work queued behind the copy, go on."""

    def start_read(self, buffer: Buffer, array: np.ndarray[Any, Any]) -> Callable[[], None]:
        """Queue a copy from the start of `buffer` to a contiguous array; a function that waits until it is filled."""


def refuse_binary(device: str) -> UnsupportedError:
    """The error of `load` on a device that takes text only."""
    return UnsupportedError(f"{device} takes the text of kernels, no machine code: compile the model for it here")


def numbered(devices: Sequence[Device], kind: str, ordinal: int) -> Device:
    """The device of a number among those of a kind. Raises `EnvironmentError_` where there are fewer."""
    if ordinal >= len(devices):
        count = f"{len(devices)} device{'s'[: len(devices) != 1]}"
        raise EnvironmentError_(f"there is no '{kind}:{ordinal}': this machine has {count} of that kind, from 0 on")
    return devices[ordinal]


def check_words(device: str, array: np.ndarray[Any, Any]) -> None:
    """Refuse integers of 64 bits that kernels, which compute with their low words, would change."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or not array.size:
        return
    limits = np.iinfo("int32" if array.dtype.kind == "i" else "uint32")
    for value in (array.min(), array.max()):
        if not limits.min <= value <= limits.max:
            raise UnsupportedError(
                f"{device} computes {array.dtype} in 32 bits, which {value} does not fit; compile for another target"
            )


def check_view(device: str, size: int, alignment: int, offset: int, nbytes: int) -> None:
    """Check a view of a buffer of `size` bytes. Raises `InternalError` as `DeviceApi.view` does."""
    if offset < 0 or nbytes < 0 or offset + nbytes > size:
        raise InternalError(f"{device}: bytes {offset} to {offset + nbytes} of a buffer of {size} bytes")
    if offset % alignment:
        raise InternalError(f"{device}: a view at byte {offset}; it must be a multiple of {alignment}")
