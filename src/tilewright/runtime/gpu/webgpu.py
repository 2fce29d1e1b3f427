"""WebGPU devices, through wgpu (extra: `webgpu`): Vulkan, Metal or Direct3D below, lavapipe where there is no GPU."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, InternalError
from tilewright.runtime.gpu.api import Copy, Extent3, Kernel, Launch, check_view, check_words, numbered, refuse_binary
from tilewright.runtime.gpu.deadline import wait_until
from tilewright.runtime.gpu.looped_recording import LoopedRecording
from tilewright.runtime.gpu.wgsl_features import HALF, SUBGROUPS, for_features

#: The limits that models come to; as much of each is requested as the adapter has.
_LIMITS = (
    "max-buffer-size",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
    "max-compute-workgroup-storage-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
    "max-compute-workgroup-size-y",
    "max-compute-workgroup-size-z",
    "max-compute-workgroups-per-dimension",
)
#: Features that are requested where the adapter has them.
_FEATURES = ("timestamp-query", "shader-f16", "subgroup")
#: Those for which kernels have lines of their own, under WebGPU's names.
_LANGUAGE = {"shader-f16": HALF, "subgroup": SUBGROUPS}
_NAMES_KEPT = 4  # of kernels submitted last, for messages
_STAMPS = 4096  # in a query set at most (WebGPU, section on query sets)


class WebGPUDevice:
    """An adapter, by default the one that wgpu prefers."""

    def __init__(self, adapter: Any = None) -> None:
        wgpu = _wgpu()
        adapter = adapter or wgpu.gpu.request_adapter_sync(power_preference="high-performance")
        if adapter is None:
            raise EnvironmentError_(
                "no WebGPU adapter; without a GPU install lavapipe (apt install mesa-vulkan-drivers)"
            )
        self._wgpu = wgpu
        self.limits: dict[str, int] = {name: adapter.limits[name] for name in _LIMITS}
        self.features = frozenset(name for name in _FEATURES if name in adapter.features)
        #: Names of the features, as WebGPU has them, that change the text of kernels.
        self.language_features = frozenset(_LANGUAGE[name] for name in self.features if name in _LANGUAGE)
        self.device = adapter.request_device_sync(required_limits=self.limits, required_features=sorted(self.features))
        self.name = f"WebGPU {adapter.info['device']}"
        self.alignment = 256
        #: Seconds of a tick of the device's clock.
        self.tick = 1e-9 * _nanoseconds_of_a_tick(self.device)
        #: The message of the error after which this device takes no more work.
        self.lost: str | None = None
        self._queued: list[str] = []  # names of the kernels submitted last
        self._bounce = self.allocate(4)
        self._staging = self._readable(4)

    def facts(self) -> dict[str, int | str]:
        """The limits of the device under WebGPU's names, with underscores; the features that it has of those used."""
        found: dict[str, int | str] = {name.replace("-", "_"): size for name, size in self.limits.items()}
        return {"name": self.name, **found, "features": ", ".join(sorted(self.features))}

    def allocate(self, nbytes: int) -> WebGPUBuffer:
        """A storage buffer. Raises `EnvironmentError_` where the adapter has no buffers of that size."""
        usage, size = self._wgpu.BufferUsage, _words(max(4, nbytes))
        self.check_limit("max-buffer-size", size, "a buffer of {} bytes")
        try:
            whole = self.device.create_buffer(size=size, usage=usage.STORAGE | usage.COPY_DST | usage.COPY_SRC)
        except self._wgpu.GPUOutOfMemoryError:
            raise EnvironmentError_(
                f"out of device memory: {nbytes:,} bytes requested on {self.name}; use a smaller batch or free other "
                "arrays and models"
            ) from None
        return WebGPUBuffer(whole, 0, size)

    def check_limit(self, limit: str, count: int, what: str) -> None:
        """Raise `EnvironmentError_` where `count` is more than a limit of the adapter; `what` says of what."""
        if count > self.limits[limit]:
            raise EnvironmentError_(
                f"{self.name}: {what.format(f'{count:,}')}; the adapter's limit is {self.limits[limit]:,} ({limit}). "
                "Use a smaller batch, or another device"
            )

    def view(self, buffer: WebGPUBuffer, offset: int, nbytes: int) -> WebGPUBuffer:
        """The same buffer, bound at an offset."""
        check_view(self.name, buffer.size, self.alignment, offset, nbytes)
        return WebGPUBuffer(buffer.whole, buffer.offset + offset, _words(max(4, nbytes)))

    def write(self, buffer: WebGPUBuffer, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to `buffer`. Raises `UnsupportedError` for integers that do not fit 32 bits."""
        check_words(self.name, array)
        if array.nbytes:
            self.device.queue.write_buffer(buffer.whole, buffer.offset, _padded(array))

    def read(self, buffer: WebGPUBuffer, array: np.ndarray[Any, Any]) -> None:
        """Fill a contiguous array from `buffer`, through a buffer that the host can map."""
        size = _words(array.nbytes)
        if not size:
            return
        self.synchronize()  # a driver may take no more work meanwhile, and wait for ever within that
        if self._staging.size < size:
            self._staging = self._readable(size)
        encoder = self.device.create_command_encoder()
        encoder.copy_buffer_to_buffer(buffer.whole, buffer.offset, self._staging, 0, size)
        self.submit(encoder)
        self._staging.map_sync(self._wgpu.MapMode.READ, 0, size)
        try:
            data = np.frombuffer(self._staging.read_mapped(0, size, copy=False), np.uint8)
            array.reshape(-1).view(np.uint8)[...] = data[: array.nbytes]
        finally:
            self._staging.unmap()

    def submit(self, encoder: Any, kernels: Sequence[str] = ()) -> None:
        """Submit what was encoded; `kernels` are named where one of them does not end."""
        if self.lost is not None:
            raise EnvironmentError_(self.lost)
        self._queued = [*self._queued, *kernels][-_NAMES_KEPT:]
        self.device.queue.submit([encoder.finish()])

    def _readable(self, nbytes: int) -> Any:
        usage = self._wgpu.BufferUsage
        return self.device.create_buffer(size=nbytes, usage=usage.MAP_READ | usage.COPY_DST)

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
            # wgpu has subgroups without a directive, and none of that name
            code = for_features(source, self.language_features, {HALF})
            module = self.device.create_shader_module(code=code)
            return {name: WebGPUKernel(self, module, name) for name in kernels}
        except self._wgpu.GPUError as error:
            message = str(error)[-2000:]
            if "limit" in message:
                last = message.strip().splitlines()[-1].strip()
                raise EnvironmentError_(f"{self.name}: a kernel needs more than the adapter has: {last}") from None
            raise InternalError(f"the WGSL compiler refused generated code:\n{message}") from None

    def load(self, binary: bytes, kernels: Sequence[str]) -> dict[str, Kernel]:
        """Refused: the driver compiles text."""
        raise refuse_binary(self.name)

    def record(self, steps: Sequence[Launch | Copy]) -> WebGPURecording:
        """The steps with their bind groups made."""
        return WebGPURecording(self, steps)

    def synchronize(self) -> None:
        """Wait until everything submitted is done.

        Raises `EnvironmentError_` after the time limit; the device takes no more work then.
        """
        if self.lost is not None:
            raise EnvironmentError_(self.lost)
        if self._queued:
            try:
                wait_until(self._is_idle, self.name, ", ".join(self._queued))
            except EnvironmentError_ as error:
                self.lost = str(error)
                raise
            self._queued = []

    def _is_idle(self) -> bool:
        """True if the queue is empty: by wgpu's own extension, as its waits have no time limit."""
        # an optional package
        from wgpu.backends.wgpu_native import ffi, lib

        return bool(lib.wgpuDevicePoll(self.device._internal, 0, ffi.NULL) & 0xFF)  # it sets the first byte only


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
        buffers = [arg for arg in args if isinstance(arg, WebGPUBuffer)]
        for buffer in buffers:
            what = f"kernel {self.name}, an array of {{}} bytes"
            self._device.check_limit("max-storage-buffer-binding-size", buffer.size, what)
        resources: list[dict[str, Any]] = [buffer.binding() for buffer in buffers]
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
            kernel = f"kernel {step.kernel.name}"
            device.check_limit("max-compute-workgroups-per-dimension", max(step.grid), f"{kernel}, {{}} blocks")
            if step.shared_bytes:
                raise InternalError(f"{kernel}: WebGPU's shared memory has its size in the code")
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
        self._device.submit(encoder, [step.kernel.name for step in self._steps if isinstance(step, Launch)])

    def times(self) -> list[float]:
        """Seconds of each step: by the device's clock around it, where it has one; else by the host's."""
        device = self._device
        if "timestamp-query" not in device.features:
            return LoopedRecording(device, self._steps).times()
        pairs = list(zip(self._steps, self._groups))
        most = _STAMPS // 2
        return [t for i in range(0, len(pairs), most) for t in self._stamped(pairs[i : i + most])]

    def _stamped(self, pairs: Sequence[tuple[Launch | Copy, Any]]) -> list[float]:
        device, gpu = self._device, self._device.device
        usage, count = device._wgpu.BufferUsage, 2 * len(pairs)
        stamps = gpu.create_query_set(type="timestamp", count=count)
        encoder = gpu.create_command_encoder()
        for i, (step, group) in enumerate(pairs):
            start, end = {"beginning_of_pass_write_index": 2 * i}, {"end_of_pass_write_index": 2 * i + 1}
            if isinstance(step, Copy):  # stands outside of passes: between two without work
                encoder.begin_compute_pass(timestamp_writes={"query_set": stamps, **start}).end()
                device.encode_copy(encoder, step)
                encoder.begin_compute_pass(timestamp_writes={"query_set": stamps, **end}).end()
                continue
            work = encoder.begin_compute_pass(timestamp_writes={"query_set": stamps, **start, **end})
            _encode_launch(work, step, group)
            work.end()
        whole = gpu.create_buffer(size=8 * count, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
        encoder.resolve_query_set(stamps, 0, count, whole, 0)
        device.submit(encoder, [step.kernel.name for step, _ in pairs if isinstance(step, Launch)])
        ticks = np.empty(count, np.uint64)
        device.read(WebGPUBuffer(whole, 0, 8 * count), ticks)
        spans = ticks[1::2].astype(np.int64) - ticks[::2].astype(np.int64)
        return [float(span) * device.tick for span in spans]


def _encode_launch(work: Any, step: Launch, group: Any) -> None:
    work.set_pipeline(step.kernel.pipeline)  # type: ignore[attr-defined]
    work.set_bind_group(0, group)
    work.dispatch_workgroups(*step.grid)


def _nanoseconds_of_a_tick(device: Any) -> float:
    """wgpu's own extension: its time stamps are in ticks, where WebGPU's are nanoseconds."""
    try:
        from wgpu.backends.wgpu_native import lib

        return float(lib.wgpuQueueGetTimestampPeriod(device.queue._internal))
    except (ImportError, AttributeError):
        return 1.0


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


def webgpu_adapters() -> list[Any]:
    """All adapters that wgpu knows on this machine. Raises `EnvironmentError_` without wgpu."""
    return list(_wgpu().gpu.enumerate_adapters_sync())


@functools.cache
def webgpu_device(ordinal: int | None = None) -> WebGPUDevice:
    """The WebGPU device of a number in `webgpu_adapters`, for None the one that wgpu prefers.

    Raises `EnvironmentError_` where there is none.
    """
    return WebGPUDevice(None if ordinal is None else numbered(webgpu_adapters(), "webgpu", ordinal))
