"""`Tensor`: a dense, C-contiguous, 64-byte aligned array in CPU memory, exchanged without copies.

In:  NumPy arrays, DLPack producers (torch, jax...), and anything with the buffer protocol.
Out: `.numpy()`, `np.asarray`, DLPack (`torch.from_dlpack(tensor)`), and the buffer protocol: `memoryview(tensor)` on
     Python 3.12 and later, `memoryview(tensor.numpy())` before, where Python classes cannot export buffers.
bfloat16 is `ml_dtypes.bfloat16` towards NumPy and the real bfloat16 towards DLPack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.runtime.device import Device, cpu
from tilewright.runtime.dlpack import export_array, import_array
from tilewright.runtime.memory import Array, address_of, aligned_empty
from tilewright.runtime.types import ArrayLike, SupportsDLPack
from tilewright.support.dtype import DType

if TYPE_CHECKING:
    from numpy.typing import DTypeLike
    from typing_extensions import Buffer


class Tensor:
    """An array that compiled code can work on. `address` is that of the first element and stays for its lifetime."""

    __slots__ = ("_array", "address", "dtype", "shape")

    def __init__(self, array: Array) -> None:
        """Wrap a C-contiguous array without copying it; raises `ValueError` for any other layout."""
        if not (array.flags.c_contiguous and array.dtype.isnative):
            raise ValueError("a Tensor is C-contiguous and in native byte order; use Tensor.from_numpy to copy")
        self._array = array
        self.address = address_of(array)
        self.dtype = DType(array.dtype)
        self.shape: tuple[int, ...] = array.shape

    @classmethod
    def empty(cls, shape: Sequence[int], dtype: str = "float32") -> Tensor:
        """Uninitialized memory."""
        return cls(aligned_empty(tuple(shape), DType(dtype).numpy))

    @classmethod
    def zeros(cls, shape: Sequence[int], dtype: str = "float32") -> Tensor:
        """All zero."""
        made = cls.empty(shape, dtype)
        made._array[...] = 0
        return made

    @classmethod
    def from_numpy(cls, array: ArrayLike, copy: bool = False) -> Tensor:
        """A tensor on the memory of `array`, or on a copy when requested or when the layout is not contiguous."""
        source = np.asarray(array)
        native = source.dtype.newbyteorder("=")
        if not copy and source.flags.c_contiguous and source.flags.aligned and source.dtype.isnative:
            return cls(source)
        made = aligned_empty(source.shape, native)
        made[...] = source
        return cls(made)

    @classmethod
    def from_dlpack(cls, producer: SupportsDLPack) -> Tensor:
        """A tensor on the memory of any object with `__dlpack__`; copied only when it is not contiguous."""
        return cls.from_numpy(import_array(producer))

    @classmethod
    def from_buffer(cls, buffer: Buffer, dtype: str | None = None, shape: Sequence[int] | None = None) -> Tensor:
        """A tensor on the memory of an object with the buffer protocol; raw bytes need a `dtype` and `shape`."""
        array = np.asarray(memoryview(buffer))
        if dtype is not None:
            array = array.reshape(-1).view(np.uint8).view(DType(dtype).numpy)
        return cls.from_numpy(array if shape is None else array.reshape(tuple(shape)))

    @property
    def device(self) -> Device:
        """The device of the memory: always `cpu(0)`."""
        return cpu()

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._array.nbytes

    @property
    def writable(self) -> bool:
        """False when the memory belongs to a read-only array or buffer."""
        return bool(self._array.flags.writeable)

    def numpy(self) -> Array:
        """The same memory as a NumPy array."""
        return self._array

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if dtype is not None and np.dtype(dtype) != self._array.dtype:
            if copy is False:
                raise ValueError("a tensor cannot be given another dtype without a copy")
            return self._array.astype(dtype)
        return self._array.copy() if copy else self._array

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule. Raises `BufferError` for read-only memory, which the capsule could not mark as such."""
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError("a Tilewright tensor lives in CPU memory")
        if copy:
            return Tensor.from_numpy(self._array, copy=True).__dlpack__()
        if not self.writable:
            raise BufferError("this tensor is read-only and cannot be shared through DLPack; copy it first")
        return export_array(self._array)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.dlpack

    def __buffer__(self, flags: int) -> memoryview:
        array: Any = self._array
        return memoryview(array)

    def __len__(self) -> int:
        return len(self._array)

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}{list(self.shape)})\n{self._array}"
