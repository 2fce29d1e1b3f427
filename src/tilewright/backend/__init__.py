"""Kinds of target, one module a kind: `backend_of(target)` is asked by all that compiles graphs.

A device is one folder here and its runtime in `runtime/<device>`; the driver, the tuner and the command line ask it.
"""

from tilewright.backend.backend import Backend
from tilewright.backend.build import build
from tilewright.backend.kinds import backend_of

__all__ = ["Backend", "backend_of", "build"]
