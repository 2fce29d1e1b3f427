"""`DeviceArray`: an array in a device's memory; on NVIDIA GPUs exchanged with other libraries without copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.gpu.api import Buffer, DeviceApi
from tilewright.runtime.gpu.cuda import CudaDevice
from tilewright.runtime.gpu.cuda_dlpack import CUDA, LEGACY_STREAM, export_array, import_array
from tilewright.runtime.gpu.cuda_event import CudaEvent

Array = np.ndarray[Any, Any]


class DeviceArray:
    """A C-contiguous array in a device's memory.

    `torch.from_dlpack(array)` shares the memory of an NVIDIA GPU, and `DeviceArray.from_dlpack` takes a tensor of it.
    `stream` is that of an NVIDIA GPU which the elements are written on (None: the device's own), `written` the mark
    behind what writes them, where there is one. An array that `is_fixed` is passed again in runs to come, in the same
    memory: recorded plans read it there, where they copy others.
    """

    __slots__ = ("api", "buffer", "dtype", "is_fixed", "read_only", "shape", "stream", "written")

    def __init__(self, api: DeviceApi, shape: Sequence[int], dtype: Any, buffer: Buffer | None = None) -> None:
        """Elements in fresh memory, or in a buffer of at least `nbytes`."""
        self.api, self.shape, self.dtype = api, tuple(shape), np.dtype(dtype)
        self.buffer = api.allocate(max(1, self.nbytes)) if buffer is None else buffer
        self.read_only = self.is_fixed = False
        self.stream: int | None = None
        self.written: CudaEvent | None = None

    @classmethod
    def from_dlpack(cls, producer: Any, device: CudaDevice) -> DeviceArray:
        """The memory of an array of PyTorch, CuPy or JAX on this GPU, to be used on its stream of this thread.

        Raises `InputError` as `cuda_dlpack.import_array` does.
        """
        taken = import_array(device, producer)
        made = cls(device, taken.shape, taken.dtype, taken.buffer)
        made.read_only, made.stream = taken.read_only, device.stream
        return made

    def before(self, stream: int) -> None:
        """Have what is queued on a stream of an NVIDIA GPU from now on start after the elements are written."""
        device = self._cuda()
        if self.written is not None:
            self.written.before(stream)
        else:
            device.wait_for(device.own_stream if self.stream is None else self.stream, stream)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def write(self, array: Array) -> DeviceArray:
        """Fill from a host array of the same shape and dtype; returns this array.

        Raises InputError for another shape or dtype.
        """
        if array.shape != self.shape or array.dtype != self.dtype:
            raise InputError(f"{array.dtype}{list(array.shape)} given for a device array {self!r}")
        self.api.write(self.buffer, np.ascontiguousarray(array))
        self.written, self.stream = None, getattr(self.api, "stream", None)
        return self

    def numpy(self) -> Array:
        """A copy in host memory."""
        made = np.empty(self.shape, self.dtype)
        if isinstance(self.api, CudaDevice):
            self.before(self.api.stream)
        self.api.read(self.buffer, made)
        return made

    def __bool__(self) -> bool:
        """The one element, as a truth value."""
        return bool(self.numpy())

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)} on {self.api.name}"

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CUDA, self._cuda().ordinal)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule. Raises `BufferError` for memory of devices that DLPack does not share.

        `stream` is where its consumer will use it, in DLPack's numbers: None for the default stream, -1 for one that
        needs no waiting.
        """
        self._cuda()
        elsewhere = dl_device is not None and tuple(dl_device) != self.__dlpack_device__()
        if copy or self.read_only or elsewhere:
            raise BufferError("an array on a GPU is shared where it is, without copies, and only if it is writable")
        if stream != -1:
            self.before(LEGACY_STREAM if stream is None else stream)
        return export_array(self.buffer, self.shape, self.dtype, max_version is not None and max_version[0] >= 1)

    def _cuda(self) -> CudaDevice:
        if not isinstance(self.api, CudaDevice):
            raise BufferError(f"memory of {self.api.name} is not shared through DLPack; .numpy() copies it")
        return self.api
