"""Networks on the accelerator: all layers as one program, and running it on a driver."""

from tilewright.vta.network.network import Compiled, Network
from tilewright.vta.network.session import Session, run_plan

__all__ = ["Compiled", "Network", "Session", "run_plan"]
