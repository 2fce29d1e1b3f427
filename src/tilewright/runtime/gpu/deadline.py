"""Waiting for a device, up to the time limit of `TILEWRIGHT_DEVICE_TIMEOUT`."""

from __future__ import annotations

import time
from collections.abc import Callable

from tilewright.errors import EnvironmentError_
from tilewright.support import knobs


def wait_until(done: Callable[[], bool], device: str, queued: str = "", awake: float = 2e-4) -> None:
    """Ask `done` until it is; without sleeping for the first `awake` seconds, which short work is done in.

    Raises `EnvironmentError_` after the time limit, with the names of the device and of what was `queued` last.
    """
    start, limit = time.perf_counter(), knobs.DEVICE_TIMEOUT.get()
    while not done():
        elapsed = time.perf_counter() - start
        if limit and elapsed > limit:
            last = f"; queued last: {queued}" if queued else ""
            raise EnvironmentError_(
                f"{device}: not done after {limit:g} seconds{last}. Its work cannot be stopped: end this process, or "
                f"set {knobs.DEVICE_TIMEOUT.name} to more seconds (0: no limit) if it is that long"
            )
        # a twentieth of the time waited so far: the delay stays in the noise of a measurement
        time.sleep(0 if elapsed < awake else min(1e-3, elapsed / 20))
