"""A recording that queues its steps one by one, for devices without lists of work; times by the host's clock."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tilewright.runtime.gpu.api import Copy, DeviceApi, Launch


class LoopedRecording:
    """Steps, queued by a loop."""

    def __init__(self, api: DeviceApi, steps: Sequence[Launch | Copy]) -> None:
        self._api, self._steps = api, tuple(steps)

    def run(self) -> None:
        """Queue all steps."""
        for step in self._steps:
            queue_step(self._api, step)

    def times(self) -> list[float]:
        """Seconds of each step, by waiting after it."""
        self._api.synchronize()
        times = []
        for step in self._steps:
            start = time.perf_counter()
            queue_step(self._api, step)
            self._api.synchronize()
            times.append(time.perf_counter() - start)
        return times


def queue_step(api: DeviceApi, step: Launch | Copy) -> None:
    """Queue one step."""
    if isinstance(step, Launch):
        step.kernel.launch(step.grid, step.block, step.args, step.shared_bytes)
    else:
        api.copy(step.source, step.target, step.nbytes)
