"""Arrays of a device: they move to its memory with the first kernel that takes them, and stay there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.compat.classic.array import NDArray
from tilewright.compat.classic.device import Device
from tilewright.errors import InputError
from tilewright.runtime.gpu.api import DeviceApi
from tilewright.runtime.gpu.module import DeviceArray, DeviceFunction
from tilewright.runtime.tensor import Tensor
from tilewright.support.dtype import DType


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
        """Where the array is used."""
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


def argument_values(function: Any, args: Sequence[Any]) -> list[Any]:
    """The arguments of a call of compiled code: arrays of the device where they are, others in the host's memory.

    Raises `InputError` for an array of a device that the code does not run on.
    """
    if not isinstance(function, DeviceFunction):
        for place, value in enumerate(args):
            if isinstance(value, DeviceNDArray):
                raise InputError(
                    f"argument {place} is an array of {value.device}, and the function runs on cpu(0): copy it with "
                    ".copyto(tvm.cpu()), or build the function for the device"
                )
        values = [value.numpy() if isinstance(value, Tensor) else value for value in args]
        shown = [param for param in function.info.params if not param.inferred]
        return [_bits(value, param.dtype) for value, param in zip(values, shown)] + values[len(shown) :]
    params = [param for param in function.info.params if not param.inferred]
    values = []
    for place, value in enumerate(args):
        if isinstance(value, DeviceNDArray):
            written = place < len(params) and bool(params[place].written)
            value = value.on(function.api, written)
        values.append(value.numpy() if isinstance(value, Tensor) else value)
    return values


def _bits(value: Any, dtype: str) -> Any:
    """An array of uint16 as the bfloat16 that its bits are, as classic programs hand them over."""
    if dtype == "bfloat16" and isinstance(value, np.ndarray) and value.dtype == np.uint16:
        return value.view(DType("bfloat16").numpy)
    return value
