"""The loop of a worker process: a request comes, its reply goes, with arrays behind it as bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.rpc.frames import Channel
from tilewright.runtime.memory import Array

#: The message of a reply, and the arrays whose bytes follow it.
Reply = tuple[dict[str, Any], list[Array]]


def answer_requests(channel: Channel, answered: Callable[[Mapping[str, Any]], Reply]) -> None:
    """Answer requests until the connection ends, which is raised as `ConnectionLost`."""
    while True:
        request, _ = channel.receive_head()
        message, arrays = answered(request)
        channel.send_head(message, sum(array.nbytes for array in arrays))
        for array in arrays:
            channel.send_bytes(array.reshape(-1).view(np.uint8).data if array.nbytes else b"")
