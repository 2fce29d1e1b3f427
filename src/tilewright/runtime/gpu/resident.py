"""Values of a program in a device's memory, between the segments and operators that read them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.runtime.gpu.api import Buffer, DeviceApi, ReadsAhead
from tilewright.runtime.gpu.array import Array, DeviceArray
from tilewright.runtime.program import Transfers


class ResidentArray(DeviceArray):
    """A value on the device, copied to the host once, when something there reads it first."""

    __slots__ = ("_arriving", "_host", "_noted", "_transfers")

    def __init__(
        self, api: DeviceApi, shape: Sequence[int], dtype: Any, transfers: Transfers, buffer: Buffer | None = None
    ) -> None:
        super().__init__(api, shape, dtype, buffer)
        self._transfers = transfers
        self._host: Array | None = None
        self._arriving: tuple[Array, Callable[[], None]] | None = None
        self._noted: Callable[[], None] | None = None

    def noted(self, read: Callable[[], None]) -> ResidentArray:
        """The array itself, which calls `read` when its elements are first copied to the host."""
        self._noted = read
        return self

    def fetch(self) -> None:
        """Queue the copy to the host, behind what is queued now, where the device goes on meanwhile."""
        if isinstance(self.api, ReadsAhead) and self.nbytes:
            array = np.empty(self.shape, self.dtype)
            self._arriving = array, self.api.start_read(self.buffer, array)

    def numpy(self) -> Array:
        """The elements in host memory, the same array each time."""
        if self._host is None:
            if self._noted is not None:
                self._noted()
            if self._arriving is None:
                self._host = super().numpy()
            else:
                self._host, wait = self._arriving
                wait()
                self._arriving = None
            self._transfers.to_host += 1
            self._transfers.to_host_bytes += self.nbytes
        return self._host

    @classmethod
    def uploaded(cls, api: DeviceApi, array: Array, transfers: Transfers) -> ResidentArray:
        """A copy of a host array, which stands for it on the host."""
        made = cls(api, array.shape, array.dtype, transfers)
        if array.nbytes:
            made.write(array)
        made._host = array
        transfers.to_device += 1
        transfers.to_device_bytes += array.nbytes
        return made


class Uploads:
    """Copies of the host arrays of one run on the device: each is made once."""

    def __init__(self, api: DeviceApi, transfers: Transfers) -> None:
        self._api, self._transfers = api, transfers
        self._known: dict[int, tuple[weakref.ref[Array], ResidentArray]] = {}

    def array(self, value: Array) -> ResidentArray:
        """The copy of an array, which nobody writes to during the run."""
        known = self._known.get(id(value))
        if known is not None and known[0]() is value:
            return known[1]
        made = ResidentArray.uploaded(self._api, np.ascontiguousarray(value), self._transfers)
        self._known[id(value)] = weakref.ref(value), made
        return made
