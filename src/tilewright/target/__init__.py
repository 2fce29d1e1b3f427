"""Targets, what code is generated for: values equal by their spelling, `Target("llvm -mcpu=haswell")`."""

from tilewright.target.cpu import PROCESSORS, CpuTarget, host_identity
from tilewright.target.device import DeviceTarget
from tilewright.target.target import Target
from tilewright.target.vta import VtaTarget

__all__ = ["PROCESSORS", "CpuTarget", "DeviceTarget", "Target", "VtaTarget", "host_identity"]
