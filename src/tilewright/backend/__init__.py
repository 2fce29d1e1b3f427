"""Kinds of target, one folder each; `backend_of(target)` is the interface by which graphs are compiled.

A device is one folder here and its runtime in `runtime/<device>`; the driver, the tuner and the command line ask it.
"""

from tilewright.backend.backend import Backend
from tilewright.backend.build import build
from tilewright.backend.kinds import backend_of

__all__ = ["Backend", "backend_of", "build"]
