"""WebGPU devices, through wgpu (extra: `webgpu`): Vulkan, Metal or Direct3D below, lavapipe where there is no GPU."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, InternalError
from tilewright.runtime.gpu.api import Extent3, Kernel


class WebGPUDevice:
    """The adapter that wgpu prefers."""

    def __init__(self) -> None:
        wgpu = _wgpu()
        adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
        if adapter is None:
            raise EnvironmentError_(
                "no WebGPU adapter; without a GPU install lavapipe (apt install mesa-vulkan-drivers)"
            )
        self._wgpu = wgpu
        self.device = adapter.request_device_sync()
        self._fence = self.allocate(4)
        self.name = f"WebGPU {adapter.info['device']}"

    def allocate(self, nbytes: int) -> Any:
        """A storage buffer."""
        usage = self._wgpu.BufferUsage
        size = -(-nbytes // 4) * 4
        return self.device.create_buffer(size=size, usage=usage.STORAGE | usage.COPY_DST | usage.COPY_SRC)

    def write(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to `buffer`."""
        self.device.queue.write_buffer(buffer, 0, _padded(array))

    def read(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """Fill a contiguous array from `buffer`."""
        if array.nbytes:
            data = self.device.queue.read_buffer(buffer)
            array.reshape(-1).view(np.uint8)[...] = np.frombuffer(data, np.uint8)[: array.nbytes]

    def compile(self, source: str, kernels: Sequence[str]) -> dict[str, Kernel]:
        """One compute pipeline a kernel."""
        try:
            module = self.device.create_shader_module(code=source)
            return {name: _Kernel(self, module, name) for name in kernels}
        except self._wgpu.GPUError as error:
            raise InternalError(f"the WGSL compiler refused generated code:\n{str(error)[-2000:]}") from None

    def synchronize(self) -> None:
        """Wait until everything submitted is done: the queue works in order, and reading waits."""
        self.device.queue.read_buffer(self._fence)


class _Kernel:
    def __init__(self, device: WebGPUDevice, module: Any, name: str) -> None:
        self._device = device
        compute = {"module": module, "entry_point": name}
        self._pipeline = device.device.create_compute_pipeline(layout="auto", compute=compute)

    def launch(self, grid: Extent3, block: Extent3, args: Sequence[Any]) -> None:
        """Submit one launch; the extents of a block are part of the code."""
        device, usage = self._device.device, self._device._wgpu.BufferUsage
        buffers = [arg for arg in args if not isinstance(arg, np.generic)]
        scalars = [arg for arg in args if isinstance(arg, np.generic)]
        if scalars:
            data = b"".join(scalar.tobytes() for scalar in scalars)
            buffers.append(device.create_buffer_with_data(data=data, usage=usage.UNIFORM))
        entries = [
            {"binding": i, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
            for i, buffer in enumerate(buffers)
        ]
        group = device.create_bind_group(layout=self._pipeline.get_bind_group_layout(0), entries=entries)
        encoder = device.create_command_encoder()
        work = encoder.begin_compute_pass()
        work.set_pipeline(self._pipeline)
        work.set_bind_group(0, group)
        work.dispatch_workgroups(*grid)
        work.end()
        device.queue.submit([encoder.finish()])


def _padded(array: np.ndarray[Any, Any]) -> bytes:
    """The bytes of an array, filled up to whole words, as buffers of WebGPU are."""
    data = array.tobytes()
    return data + bytes(-len(data) % 4)


@functools.cache
def _wgpu() -> Any:
    try:
        import wgpu
    except ImportError:
        raise EnvironmentError_("the target 'webgpu' needs wgpu: pip install 'tilewright[webgpu]'") from None
    return wgpu


@functools.cache
def webgpu_device() -> WebGPUDevice:
    """The WebGPU device of this process. Raises `EnvironmentError_` where there is none."""
    return WebGPUDevice()
