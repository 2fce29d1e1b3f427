"""A stand-in for NVIDIA's driver whose kernels are those of the compiler, emulated: device memory is the host's."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tests.runtime.gpu.fake_driver import FakeDriver
from tilewright.runtime.gpu.cuda import CudaDevice, CudaKernel
from tilewright.runtime.gpu.cuda_driver import Driver
from tilewright.runtime.gpu.emulation import emulated_device


class EmulatingDriver(FakeDriver):
    """Launches kernels that `EmulatingDevice` compiled; their parameters are all arrays."""

    def __init__(self, gpus: int = 1) -> None:
        super().__init__(gpus=gpus)
        self.emulated: dict[str, tuple[Any, int]] = {}

    def _cuLaunchKernel(self, function: int, *rest: Any) -> None:
        *extents, _shared, _stream, slots, _extra = rest
        kernel, count = self.emulated[self.functions[function]]
        addresses = [ctypes.c_uint64.from_address(slots + 8 * i).value for i in range(count)]
        # the values are read at the launch, as the driver does
        values = (ctypes.c_void_p * count)(*[ctypes.c_uint64.from_address(at).value for at in addresses])

        def run() -> None:
            assert kernel._run(*extents, 1, 0, values) == 0

        self._do(run)


class EmulatingDevice(CudaDevice):
    """A GPU of an `EmulatingDriver`."""

    def __init__(self, fake: EmulatingDriver, ordinal: int = 0) -> None:
        self.fake = fake
        super().__init__(ordinal, Driver(fake))

    def compile(self, source: str, kernels: Sequence[str]) -> dict[str, Any]:
        """Kernels of the fake driver that run the text's."""
        for name, kernel in emulated_device("cuda").compile(source, kernels).items():
            head = next(line for line in source.splitlines() if f" {name}(" in line and "__global__" in line)
            parameters = head.partition(f" {name}(")[2].rpartition(")")[0].split(",")
            assert all("*" in parameter for parameter in parameters), head
            self.fake.kernels[name], self.fake.emulated[name] = (lambda: None, ()), (kernel, len(parameters))
        return {name: _kernel(self, name) for name in kernels}

    def load(self, binary: bytes, kernels: Sequence[str]) -> dict[str, Any]:
        """Machine code runs on no emulation."""
        raise NotImplementedError


def _kernel(device: EmulatingDevice, name: str) -> CudaKernel:
    return CudaKernel(device, type("Module", (), {"handle": 1})(), name)
