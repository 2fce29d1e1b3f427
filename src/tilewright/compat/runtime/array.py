"""`tvm.nd`: arrays, which are this package's tensors with the classic methods.

Those of a device move to its memory with the first kernel that takes them, and stay there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.compat.runtime.device import Device, cpu
from tilewright.errors import InputError
from tilewright.relay.ir.constant_data import ConstantData
from tilewright.runtime.gpu.api import DeviceApi
from tilewright.runtime.gpu.array import DeviceArray
from tilewright.runtime.tensor import Tensor
from tilewright.target import DeviceTarget


class _Arrays(type(Tensor)):  # type: ignore[misc]
    """The data of constants are arrays of NumPy that answer `numpy()`; to classic programs they are `NDArray`s."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (cls is NDArray and isinstance(instance, ConstantData))


class NDArray(Tensor, metaclass=_Arrays):
    """A tensor in CPU memory; `numpy()` and `asnumpy()` return its elements."""

    __slots__ = ()

    def asnumpy(self) -> np.ndarray[Any, Any]:
        """The elements, in the oldest spelling."""
        return self.numpy()

    @property
    def device(self) -> Any:
        """The device of the memory: `cpu(0)`."""
        return cpu()

    def copyto(self, target: Any) -> NDArray:
        """Copy the elements into another array, or to a device: then a fresh array."""
        if isinstance(target, Device):
            return array(self, target)
        return target.copyfrom(self.numpy())

    def copyfrom(self, source_array: Any) -> NDArray:
        """Overwrite the elements with those of a NumPy array of the same shape."""
        source = np.asarray(source_array)
        if source.shape != self.shape:
            raise InputError(f"an array of shape {source.shape} cannot be copied into one of shape {self.shape}")
        self.numpy()[...] = source
        return self

    def same_as(self, other: Any) -> bool:
        """True if both are one array."""
        return self is other

    def __getitem__(self, index: Any) -> Any:
        return self.numpy()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.numpy()[index] = np.asarray(value)


class DeviceNDArray(NDArray):
    """An array of `device`. What is in its memory is copied to the host when it is looked at, and back when changed."""

    __slots__ = ("_copy", "_device", "_host_is_old", "_its_copy_is_old")

    def __init__(self, array: np.ndarray[Any, Any], device: Device) -> None:
        super().__init__(array)
        self._device = device
        self._copy: DeviceArray | None = None
        self._host_is_old = False
        self._its_copy_is_old = True

    @property
    def device(self) -> Any:
        """The device of the array."""
        return self._device

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the elements in the host's memory."""
        return self._elements().copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __repr__(self) -> str:
        self._elements()
        return super().__repr__()

    def __dlpack__(self, **options: Any) -> Any:
        self._elements()
        return super().__dlpack__(**options)

    def copyfrom(self, source_array: Any) -> NDArray:
        """Overwrite the elements with those of a NumPy array of the same shape."""
        source = np.asarray(source_array)
        if source.shape != self.shape:
            raise InputError(f"an array of shape {source.shape} cannot be copied into one of shape {self.shape}")
        self._array[...] = source
        self._host_is_old, self._its_copy_is_old = False, True
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements()[index] = np.asarray(value)
        self._its_copy_is_old = True

    def _elements(self) -> np.ndarray[Any, Any]:
        """The host's elements, as they are on the device."""
        if self._host_is_old and self._copy is not None:
            self._copy.api.read(self._copy.buffer, self._array)
            self._host_is_old = False
        return self._array

    def on(self, api: DeviceApi, will_be_written: bool) -> DeviceArray:
        """The array in the memory of the device behind `api`, for a kernel that writes to it or does not."""
        if self._copy is None or self._copy.api is not api:
            self._elements()
            self._copy, self._its_copy_is_old = DeviceArray(api, self.shape, self.dtype.numpy), True
        if self._its_copy_is_old:
            self._copy.write(self._array)
            self._its_copy_is_old = False
        self._host_is_old |= will_be_written
        return self._copy


def array(arr: Any, device: Device | None = None, mem_scope: str | None = None) -> NDArray:
    """A fresh array with the elements of `arr`, in the element type that NumPy has for them.

    For a device that kernels are built for it is a `DeviceNDArray`.
    """
    host = NDArray.from_numpy(np.asarray(arr), copy=True)
    return _of_device(host, device)


def empty(
    shape: Sequence[int], dtype: str = "float32", device: Device | None = None, mem_scope: str | None = None
) -> NDArray:
    """An array with arbitrary elements."""
    return _of_device(NDArray.empty([int(size) for size in np.atleast_1d(shape)], dtype), device)


def from_dlpack(producer: Any) -> NDArray:
    """An array on the memory of any object with `__dlpack__`."""
    return NDArray.from_dlpack(producer)  # type: ignore[return-value]


def _of_device(array: Any, device: Device | None) -> NDArray:
    if device is not None and (there := device.copy_of(array)) is not None:
        return there
    if device is not None and device.kind in DeviceTarget.KINDS:
        return DeviceNDArray(array.numpy(), device)
    require_cpu(device)
    return array


def require_cpu(device: Device | None) -> None:
    """Raise `InputError` for a device on which nothing runs."""
    if device is not None and not getattr(device, "exist", True):
        raise InputError(f"{device} is not a device that models run on here; use tvm.cpu(0)")


def to_numpy(value: Any) -> Any:
    """A classic value (array, number, tuple of values) as NumPy arrays."""
    if isinstance(value, list | tuple):
        return tuple([to_numpy(item) for item in value])
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)
