"""Calls of a device function with everything in place, to be timed again and again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tilewright.runtime.gpu.api import DeviceApi, Extent3, Kernel, Launch, Recording


class DevicePrepared:
    """Recordings of a call, each on other copies of the arrays that take turns."""

    def __init__(self, api: DeviceApi, calls: Sequence[Recording]) -> None:
        self._api, self._calls, self._next = api, calls, 0
        for call in calls:  # what a driver puts off to the first run
            call.run()
        api.synchronize()

    def seconds(self, number: int = 1) -> float:
        """The mean seconds of `number` calls, one right after the other, until the last is done."""
        start = time.perf_counter()
        for _ in range(number):
            self._calls[self._next].run()
            self._next = (self._next + 1) % len(self._calls)
        self._api.synchronize()
        return (time.perf_counter() - start) / number


class NotingKernel:
    """A kernel whose launches are added to a list instead of queued."""

    def __init__(self, kernel: Kernel, found: list[Launch]) -> None:
        self.name, self._kernel, self._found = kernel.name, kernel, found

    def launch(self, grid: Extent3, block: Extent3, args: Sequence[Any], shared_bytes: int = 0) -> None:
        """Note a launch."""
        self._found.append(Launch(self._kernel, grid, block, args, shared_bytes))
