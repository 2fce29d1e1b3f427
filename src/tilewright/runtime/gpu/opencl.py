"""OpenCL devices, through pyopencl (extra: `opencl`, which brings PoCL, OpenCL on the host's processor)."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, InternalError
from tilewright.runtime.gpu.api import Buffer, Copy, Extent3, Kernel, Launch, check_view, refuse_binary
from tilewright.runtime.gpu.deadline import wait_until
from tilewright.support import knobs


class OpenCLDevice:
    """An OpenCL device with an in-order queue."""

    def __init__(self, device: Any) -> None:
        cl = self._cl = _pyopencl()
        self._device, self._context = device, cl.Context([device])
        self._queue = cl.CommandQueue(self._context)
        self.name = f"OpenCL {device.name.strip()}"
        self.alignment = max(device.mem_base_addr_align // 8, 16)  # the driver says bits
        #: The message of the error after which this device takes no more work.
        self.lost: str | None = None

    def facts(self) -> dict[str, int | str]:
        """Figures of the device, as its driver says them."""
        device = self._device
        return {
            "name": self.name,
            "driver": f"{device.platform.name.strip()} {device.driver_version.strip()}",
            "version": device.version.strip(),
            "compute_units": device.max_compute_units,
            "clock_mhz": device.max_clock_frequency,
            "max_threads_per_block": device.max_work_group_size,
            "shared_bytes_per_block": device.local_mem_size,
            "memory_bytes": device.global_mem_size,
            "largest_buffer": device.max_mem_alloc_size,
        }

    def allocate(self, nbytes: int) -> Buffer:
        """A buffer of device memory. Raises `EnvironmentError_` where the driver refuses its size."""
        cl, size = self._cl, max(1, nbytes)
        try:
            # drivers put off allocation to the first use, and may fail without a word
            if size > self._device.max_mem_alloc_size:
                raise cl.MemoryError("create_buffer", cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE)
            return cl.Buffer(self._context, cl.mem_flags.READ_WRITE, size)
        except (cl.MemoryError, cl.LogicError):
            largest, all_ = self._device.max_mem_alloc_size, self._device.global_mem_size
            raise EnvironmentError_(
                f"out of device memory: {nbytes:,} bytes requested on {self.name}, which has {all_:,} and at most "
                f"{largest:,} a buffer; use a smaller batch or free other arrays and models"
            ) from None

    def view(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        """A sub-buffer. OpenCL has none of a sub-buffer: a view of a view is one of the whole."""
        check_view(self.name, buffer.size, self.alignment, offset, nbytes)
        whole = buffer.associated_memobject
        if whole is not None:
            buffer, offset = whole, buffer.offset + offset
        return buffer.get_sub_region(offset, max(1, nbytes))

    def write(self, buffer: Buffer, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to `buffer`."""
        if array.nbytes:
            self._cl.enqueue_copy(self._queue, buffer, _bytes(array))

    def read(self, buffer: Buffer, array: np.ndarray[Any, Any]) -> None:
        """Fill a contiguous array from `buffer`."""
        if array.nbytes:
            self.start_read(buffer, array)()

    def start_read(self, buffer: Buffer, array: np.ndarray[Any, Any]) -> Callable[[], None]:
        """Queue a copy to a contiguous array of some elements; a function that waits for it."""
        event = self._cl.enqueue_copy(self._queue, _bytes(array), buffer, is_blocking=False)
        self._queue.flush()
        return lambda: self._wait(event)

    def copy(self, source: Buffer, target: Buffer, nbytes: int) -> None:
        """Queue a copy within device memory."""
        if nbytes:
            self._cl.enqueue_copy(self._queue, target, source, byte_count=nbytes)

    def compile(self, source: str, kernels: Sequence[str]) -> dict[str, Kernel]:
        """The kernels of a program."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PoCL's compiler talks of what it inlined
            try:
                program = self._cl.Program(self._context, source).build()
            except self._cl.RuntimeError as error:
                raise InternalError(f"the OpenCL compiler refused generated code:\n{str(error)[-2000:]}") from None
            return {name: OpenCLKernel(self._cl, self._queue, program, name) for name in kernels}

    def load(self, binary: bytes, kernels: Sequence[str]) -> dict[str, Kernel]:
        """Refused: the driver compiles text."""
        raise refuse_binary(self.name)

    def record(self, steps: Sequence[Launch | Copy]) -> OpenCLRecording:
        """The steps with the arguments of their kernels set."""
        return OpenCLRecording(self, steps)

    def synchronize(self) -> None:
        """Wait for the queue."""
        self._wait(self._cl.enqueue_marker(self._queue))

    def _wait(self, event: Any) -> None:
        """Wait for an event. Raises `EnvironmentError_` after the time limit; the device takes no more work then."""
        if self.lost is not None:
            raise EnvironmentError_(self.lost)
        self._queue.flush()
        complete = self._cl.command_execution_status.COMPLETE
        try:
            wait_until(lambda: event.command_execution_status <= complete, self.name)
        except EnvironmentError_ as error:
            self.lost = str(error)
            raise
        event.wait()  # raises what went wrong


class OpenCLKernel:
    """A kernel of a program."""

    def __init__(self, cl: Any, queue: Any, program: Any, name: str) -> None:
        self.name = name
        self._cl, self._queue, self._program = cl, queue, program
        self._kernel = cl.Kernel(program, name)

    def launch(self, grid: Extent3, block: Extent3, args: Sequence[Any], shared_bytes: int = 0) -> None:
        """Queue one launch."""
        self._set(self._kernel, args, shared_bytes)
        self._cl.enqueue_nd_range_kernel(self._queue, self._kernel, _global_size(grid, block), block)

    def bound(self, args: Sequence[Any], shared_bytes: int) -> Any:
        """A kernel object of its own with these arguments set: OpenCL keeps them until others are."""
        made = self._cl.Kernel(self._program, self.name)
        self._set(made, args, shared_bytes)
        return made

    def _set(self, kernel: Any, args: Sequence[Any], shared_bytes: int) -> None:
        kernel.set_args(*args, *([self._cl.LocalMemory(shared_bytes)] if shared_bytes else []))


class OpenCLRecording:
    """Kernel objects with their arguments, queued by a loop."""

    def __init__(self, device: OpenCLDevice, steps: Sequence[Launch | Copy]) -> None:
        self._device, self._steps = device, tuple(steps)  # a kernel object does not keep its buffers alive
        self._calls = [_queued(device._cl, step) for step in steps]

    def run(self) -> None:
        """Queue all steps."""
        queue = self._device._queue
        for call in self._calls:
            call(queue)

    def times(self) -> list[float]:
        """Seconds of each step by the events of a queue that keeps times, which ordinary ones do not."""
        cl, device = self._device._cl, self._device
        device.synchronize()
        queue = cl.CommandQueue(device._context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        events = [call(queue) for call in self._calls]
        queue.finish()
        return [(event.profile.end - event.profile.start) * 1e-9 for event in events]


def _queued(cl: Any, step: Launch | Copy) -> Callable[[Any], Any]:
    """A function that queues the step on a queue and returns its event."""
    if isinstance(step, Copy):
        return lambda queue: cl.enqueue_copy(queue, step.target, step.source, byte_count=step.nbytes)
    assert isinstance(step.kernel, OpenCLKernel)
    kernel, size, block = (
        step.kernel.bound(step.args, step.shared_bytes),
        _global_size(step.grid, step.block),
        step.block,
    )
    return lambda queue: cl.enqueue_nd_range_kernel(queue, kernel, size, block)


def _global_size(grid: Extent3, block: Extent3) -> Extent3:
    return (grid[0] * block[0], grid[1] * block[1], grid[2] * block[2])


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array as bytes: pyopencl knows nothing of bfloat16."""
    return array.reshape(-1).view(np.uint8)


@functools.cache
def _pyopencl() -> Any:
    try:
        import pyopencl
    except ImportError:
        raise EnvironmentError_(
            "the target 'opencl' needs pyopencl: pip install 'tilewright[opencl]' (with PoCL, for any CPU)"
        ) from None
    return pyopencl


def opencl_devices() -> list[Any]:
    """All OpenCL devices of this machine, of all drivers, GPUs first. Raises `EnvironmentError_` without pyopencl."""
    cl = _pyopencl()
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        return []
    found = []
    for platform in platforms:
        try:
            found += platform.get_devices()
        except cl.Error:  # a driver without a device
            continue
    return sorted(found, key=lambda device: not is_gpu(device))


def is_gpu(device: Any) -> bool:
    """True for a GPU; False for a processor, such as PoCL's."""
    return bool(device.type & _pyopencl().device_type.GPU)


@functools.cache
def _opened(chosen: str | None) -> OpenCLDevice:
    devices = opencl_devices()
    if not devices:
        raise EnvironmentError_(
            "no OpenCL driver has a device here; `pip install pocl-binary-distribution` brings one for any CPU"
        )
    if chosen is None:
        return OpenCLDevice(devices[0])
    for number, device in enumerate(devices):
        if chosen == str(number) or (not chosen.isdigit() and chosen.lower() in device.name.lower()):
            return OpenCLDevice(device)
    names = ", ".join(f"{number} ({device.name.strip()})" for number, device in enumerate(devices))
    raise EnvironmentError_(
        f"{chosen!r} (of the target, or of {knobs.OPENCL_DEVICE.name}) is no OpenCL device of this machine; it has: "
        f"{names}"
    )


def opencl_device(ordinal: int | None = None) -> OpenCLDevice:
    """The OpenCL device of a number in `opencl_devices`; for None the one that `TILEWRIGHT_OPENCL_DEVICE` names, by
    default the first GPU or else the first device.

    Raises `EnvironmentError_` where there is none.
    """
    return _opened(knobs.OPENCL_DEVICE.get() if ordinal is None else str(ordinal))
