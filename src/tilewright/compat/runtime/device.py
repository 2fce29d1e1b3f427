"""`tvm.device`, `tvm.cpu`, `tvm.cuda` …: devices by name, of which this machine has the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.errors import InputError

#: Device type numbers, as in DLPack.
TYPES = {
    "cpu": 1, "cuda": 2, "opencl": 4, "aocl": 5, "sdaccel": 6, "vulkan": 7, "metal": 8, "rocm": 10, "ext_dev": 12,
    "webgpu": 15, "hexagon": 16,
}  # fmt: skip
_SAME_AS = {
    "llvm": "cpu",
    "vta": "ext_dev",
    "c": "cpu",
    "stackvm": "cpu",
    "nvptx": "cuda",
    "cl": "opencl",
    "gpu": "cuda",
    "aocl_sw_emu": "aocl",
}


@dataclass(frozen=True)
class Device:
    """A device: `device_type` is its number in DLPack, `device_id` counts devices of one type."""

    device_type: int
    device_id: int = 0

    @property
    def kind(self) -> str:
        """The name of the type: "cpu"."""
        return next(name for name, number in TYPES.items() if number == self.device_type)

    @property
    def exist(self) -> bool:
        """True if compiled models run on it: the one CPU, and the accelerator, whose simulators share its memory."""
        return self.device_type in (TYPES["cpu"], TYPES["ext_dev"]) and self.device_id == 0

    def copy_of(self, array: Any) -> Any:
        """A copy of an array in the memory of another machine; None for a device of this one."""
        return None

    def sync(self, stream: object = None) -> None:
        """Wait for what was started: nothing, since runs return when they are done."""

    def __repr__(self) -> str:
        return f"{self.kind}({self.device_id})"


def device(dev_type: str | int, dev_id: int = 0) -> Device:
    """The device of a type, by name ("cpu", "llvm", "cuda -arch=sm_80") or number."""
    if isinstance(dev_type, str):
        name = dev_type.split()[0]
        name = _SAME_AS.get(name, name)
        if name not in TYPES:
            raise InputError(f"there is no device type {dev_type!r}; known: {', '.join([*TYPES, *_SAME_AS])}")
        dev_type = TYPES[name]
    if dev_type not in TYPES.values():
        raise InputError(f"there is no device type with the number {dev_type}")
    return Device(dev_type, dev_id)


def cpu(dev_id: int = 0) -> Device:
    """The host processor."""
    return device("cpu", dev_id)


def cuda(dev_id: int = 0) -> Device:
    """A GPU of NVIDIA."""
    return device("cuda", dev_id)


def opencl(dev_id: int = 0) -> Device:
    """A device of OpenCL."""
    return device("opencl", dev_id)


def vulkan(dev_id: int = 0) -> Device:
    """A device of Vulkan."""
    return device("vulkan", dev_id)


def metal(dev_id: int = 0) -> Device:
    """A GPU of Apple."""
    return device("metal", dev_id)


def rocm(dev_id: int = 0) -> Device:
    """A GPU of AMD."""
    return device("rocm", dev_id)


def ext_dev(dev_id: int = 0) -> Device:
    """An accelerator."""
    return device("ext_dev", dev_id)
