"""A mark on a stream of an NVIDIA GPU, which work on other streams starts after."""

from __future__ import annotations

import ctypes

from tilewright.runtime.gpu.cuda_context import CudaContext

_NO_TIMES = 2  # CU_EVENT_DISABLE_TIMING


class CudaEvent:
    """Everything that is queued on the device's stream of this thread now."""

    def __init__(self, device: CudaContext) -> None:
        self._device, self.stream = device, device.stream
        with device.current():
            self._handle = device.driver.made("cuEventCreate", ctypes.c_void_p, _NO_TIMES)
            device.call("cuEventRecord", self._handle, self.stream)

    def before(self, stream: int) -> None:
        """Have what is queued on a stream from now on start after it."""
        if stream == self.stream:
            return
        with self._device.current():
            self._device.call("cuStreamWaitEvent", stream, self._handle, 0)

    def wait(self) -> None:
        """Wait until it is done, as `CudaContext.wait` does."""
        with self._device.current():
            self._device.wait("cuEventQuery", self._handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._device.release("cuEventDestroy_v2", self._handle)
