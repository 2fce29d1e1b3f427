"""Networks on the accelerator: all layers as one program, running it on a driver, and models with such programs."""

from tilewright.vta.network.network import Compiled, Network
from tilewright.vta.network.program import Program
from tilewright.vta.network.session import Session

__all__ = ["Compiled", "Network", "Program", "Session"]
