"""`tvm.device`, `tvm.cpu`, `tvm.cuda` …: devices by name, of which this machine has the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.errors import InputError
from tilewright.support.named import named

#: Device type numbers, as in DLPack.
TYPES = {
    "cpu": 1, "cuda": 2, "opencl": 4, "aocl": 5, "sdaccel": 6, "vulkan": 7, "metal": 8, "rocm": 10, "ext_dev": 12,
    "webgpu": 15, "hexagon": 16,
}  # fmt: skip
_SAME_AS = {
    **dict.fromkeys(("llvm", "c", "stackvm"), "cpu"), **dict.fromkeys(("nvptx", "gpu"), "cuda"),
    "vta": "ext_dev", "cl": "opencl", "aocl_sw_emu": "aocl",
}  # fmt: skip


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


def _of_type(name: str) -> Callable[..., Device]:
    def make(dev_id: int = 0) -> Device:
        return device(name, dev_id)

    return named(make, name, f"The device number `dev_id` of the type {name!r}.")


cpu, cuda, opencl, vulkan, metal, rocm, ext_dev = map(
    _of_type, ("cpu", "cuda", "opencl", "vulkan", "metal", "rocm", "ext_dev")
)
