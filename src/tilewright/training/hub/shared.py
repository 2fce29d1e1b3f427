"""Memory of a training that workers on the hub's machine map, so that their gradients pass no socket.

The hub makes a file without a name (memfd_create) that nobody can resize any more, as a mapping of a file cut short
would end the hub. A worker opens it through /proc, which the kernel allows to the hub's user alone. Where it cannot, as
in another container, or another system has no such files, gradients and parameters go through the socket.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import weakref
from typing import Any

import numpy as np

from tilewright.runtime.memory import Array
from tilewright.training.hub.layout import Layout

_NAME = "tilewright-hub"
_TOKEN_BYTES = 16


class Shared:
    """`parameters` [chunks, elements], `gradients` [workers, chunks, elements], and the `offer` that workers get."""

    def __init__(self, layout: Layout, workers: int) -> None:
        """Raises `OSError`, and `AttributeError` on systems without such files."""
        import fcntl  # Windows has none

        descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, descriptor)
        os.ftruncate(descriptor, _size(layout, workers))
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        token, blocks = _mapped(descriptor, layout, workers)
        token[:] = secrets.token_bytes(_TOKEN_BYTES)
        self.parameters, self.gradients = blocks[0], blocks[1:]
        self.offer = {"process": os.getpid(), "file": descriptor, "token": bytes(token).hex()}


def shared_memory(layout: Layout, workers: int) -> Shared | None:
    """Memory for a training, None where the system has none to share."""
    with contextlib.suppress(OSError, AttributeError, ImportError):
        return Shared(layout, workers)
    return None


def taken(offer: Any, layout: Layout, workers: int) -> Array | None:
    """The memory that a hub offers: parameters, then gradients of each worker, [1 + workers, chunks, elements].

    None where this process cannot open it. Only a file of the hub's form and with its token is written to.
    """
    try:
        import fcntl  # Windows has none

        path = f"/proc/{int(offer['process'])}/fd/{int(offer['file'])}"
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            sealed = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
            if not sealed or os.fstat(descriptor).st_size != _size(layout, workers):
                return None
            token, blocks = _mapped(descriptor, layout, workers)
        finally:
            os.close(descriptor)
        return blocks if bytes(token).hex() == offer["token"] else None
    except (OSError, AttributeError, ImportError, LookupError, TypeError, ValueError):
        return None


def _size(layout: Layout, workers: int) -> int:
    return mmap.PAGESIZE + (1 + workers) * layout.chunks * layout.elements * 4


def _mapped(descriptor: int, layout: Layout, workers: int) -> tuple[memoryview, Array]:
    """The token and the blocks of the file."""
    space = mmap.mmap(descriptor, _size(layout, workers))
    blocks = np.frombuffer(space, np.float32, offset=mmap.PAGESIZE)
    return memoryview(space)[:_TOKEN_BYTES], blocks.reshape(1 + workers, layout.chunks, layout.elements)
