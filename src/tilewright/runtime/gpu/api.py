"""The interface of a kind of device; one module of this folder implements it for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

#: (x, y, z)
Extent3 = tuple[int, int, int]


class Kernel(Protocol):
    """A compiled kernel."""

    def launch(self, grid: Extent3, block: Extent3, args: Sequence[Any]) -> None:
        """Queue `grid` blocks of `block` threads; `args` are device buffers and NumPy scalars, in call order."""


class DeviceApi(Protocol):
    """One device: memory, kernels, time."""

    name: str

    def allocate(self, nbytes: int) -> Any:
        """A buffer of at least `nbytes` in device memory; freed when nobody refers to it."""

    def write(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to the start of `buffer`."""

    def read(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """Fill a contiguous array from the start of `buffer`; waits for the kernels queued before."""

    def compile(self, source: str, kernels: Sequence[str]) -> dict[str, Kernel]:
        """Compile source text; its kernels by name. Raises `InternalError` with the compiler's messages."""

    def synchronize(self) -> None:
        """Wait until everything queued is done."""
