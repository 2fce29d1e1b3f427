"""WebGPU devices, through wgpu (extra: `webgpu`): Vulkan, Metal or Direct3D below, lavapipe where there is no GPU."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, InternalError
from tilewright.runtime.gpu.api import Copy, Extent3, Kernel, Launch, check_view, refuse_binary
from tilewright.runtime.gpu.looped_recording import LoopedRecording


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
        self.name = f"WebGPU {adapter.info['device']}"
        self.alignment = 256
        self._fence = self._bounce = self.allocate(4)

    def allocate(self, nbytes: int) -> WebGPUBuffer:
        """A storage buffer."""
        usage, size = self._wgpu.BufferUsage, _words(max(4, nbytes))
        whole = self.device.create_buffer(size=size, usage=usage.STORAGE | usage.COPY_DST | usage.COPY_SRC)
        return WebGPUBuffer(whole, 0, size)

    def view(self, buffer: WebGPUBuffer, offset: int, nbytes: int) -> WebGPUBuffer:
        """The same buffer, bound at an offset."""
        check_view(self.name, buffer.size, self.alignment, offset, nbytes)
        return WebGPUBuffer(buffer.whole, buffer.offset + offset, _words(max(4, nbytes)))

    def write(self, buffer: WebGPUBuffer, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to `buffer`."""
        if array.nbytes:
            self.device.queue.write_buffer(buffer.whole, buffer.offset, _padded(array))

    def read(self, buffer: WebGPUBuffer, array: np.ndarray[Any, Any]) -> None:
        """Fill a contiguous array from `buffer`."""
        if array.nbytes:
            data = self.device.queue.read_buffer(buffer.whole, buffer.offset, _words(array.nbytes))
            array.reshape(-1).view(np.uint8)[...] = np.frombuffer(data, np.uint8)[: array.nbytes]

    def copy(self, source: WebGPUBuffer, target: WebGPUBuffer, nbytes: int) -> None:
        """Queue a copy within device memory, of whole words."""
        self.record([Copy(source, target, nbytes)]).run()

    def encode_copy(self, encoder: Any, step: Copy) -> None:
        """Encode a copy; through a second buffer within one, which WebGPU does not copy within."""
        (source, start), (target, end) = ((b.whole, b.offset) for b in (step.source, step.target))
        size = _words(step.nbytes)
        if source is target:
            if self._bounce.size < size:
                self._bounce = self.allocate(size)
            encoder.copy_buffer_to_buffer(source, start, self._bounce.whole, 0, size)
            source, start = self._bounce.whole, 0
        encoder.copy_buffer_to_buffer(source, start, target, end, size)

    def compile(self, source: str, kernels: Sequence[str]) -> dict[str, Kernel]:
        """One compute pipeline a kernel."""
        try:
            module = self.device.create_shader_module(code=source)
            return {name: WebGPUKernel(self, module, name) for name in kernels}
        except self._wgpu.GPUError as error:
            raise InternalError(f"the WGSL compiler refused generated code:\n{str(error)[-2000:]}") from None

    def load(self, binary: bytes, kernels: Sequence[str]) -> dict[str, Kernel]:
        """Refused: the driver compiles text."""
        raise refuse_binary(self.name)

    def record(self, steps: Sequence[Launch | Copy]) -> WebGPURecording:
        """The steps with their bind groups made."""
        return WebGPURecording(self, steps)

    def synchronize(self) -> None:
        """Wait until everything submitted is done: the queue works in order, and reading waits."""
        self.device.queue.read_buffer(self._fence.whole)


@dataclass(frozen=True)
class WebGPUBuffer:
    """A range of a storage buffer."""

    whole: Any
    offset: int
    size: int

    def binding(self) -> dict[str, Any]:
        """The range as a resource of a bind group."""
        return {"buffer": self.whole, "offset": self.offset, "size": self.size}


class WebGPUKernel:
    """A compute pipeline."""

    def __init__(self, device: WebGPUDevice, module: Any, name: str) -> None:
        self.name = name
        self._device = device
        compute = {"module": module, "entry_point": name}
        self.pipeline = device.device.create_compute_pipeline(layout="auto", compute=compute)
        self._layout = self.pipeline.get_bind_group_layout(0)

    def launch(self, grid: Extent3, block: Extent3, args: Sequence[Any], shared_bytes: int = 0) -> None:
        """Submit one launch; the extents of a block are part of the code."""
        self._device.record([Launch(self, grid, block, args, shared_bytes)]).run()

    def bind(self, args: Sequence[Any]) -> Any:
        """The bind group of these arguments: buffers in order, then one uniform buffer of all scalars."""
        device, usage = self._device.device, self._device._wgpu.BufferUsage
        resources = [arg.binding() for arg in args if isinstance(arg, WebGPUBuffer)]
        data = b"".join(np.asarray(arg).tobytes() for arg in args if not isinstance(arg, WebGPUBuffer))
        if data:
            uniform = device.create_buffer_with_data(data=data, usage=usage.UNIFORM)
            resources.append({"buffer": uniform, "offset": 0, "size": uniform.size})
        entries = [{"binding": i, "resource": resource} for i, resource in enumerate(resources)]
        return device.create_bind_group(layout=self._layout, entries=entries)


class WebGPURecording:
    """Pipelines with their bind groups, encoded into one command buffer a run: WebGPU's serve once."""

    def __init__(self, device: WebGPUDevice, steps: Sequence[Launch | Copy]) -> None:
        self._device, self._steps = device, tuple(steps)
        self._groups: list[Any] = []
        for step in self._steps:
            if isinstance(step, Copy):
                self._groups.append(None)
                continue
            assert isinstance(step.kernel, WebGPUKernel)
            if step.shared_bytes:
                raise InternalError(f"kernel {step.kernel.name}: WebGPU's shared memory has its size in the code")
            self._groups.append(step.kernel.bind(step.args))

    def run(self) -> None:
        """Submit all steps."""
        device = self._device.device
        encoder, work = device.create_command_encoder(), None
        for step, group in zip(self._steps, self._groups):
            if isinstance(step, Copy):
                if work is not None:
                    work.end()
                    work = None
                self._device.encode_copy(encoder, step)
                continue
            work = work or encoder.begin_compute_pass()
            _encode_launch(work, step, group)
        if work is not None:
            work.end()
        device.queue.submit([encoder.finish()])

    def times(self) -> list[float]:
        """Seconds of each step by the host's clock."""
        return LoopedRecording(self._device, self._steps).times()


def _encode_launch(work: Any, step: Launch, group: Any) -> None:
    work.set_pipeline(step.kernel.pipeline)  # type: ignore[attr-defined]
    work.set_bind_group(0, group)
    work.dispatch_workgroups(*step.grid)


def _words(nbytes: int) -> int:
    """The bytes of the whole words that `nbytes` take, in which WebGPU counts."""
    return -(-nbytes // 4) * 4


def _padded(array: np.ndarray[Any, Any]) -> Any:
    """The bytes of an array, filled up to whole words, as buffers of WebGPU are."""
    data = array.reshape(-1).view(np.uint8)
    return np.pad(data, (0, -data.size % 4)) if data.size % 4 else data


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
