"""The primary context of an NVIDIA GPU: what its work is queued on and waited for by, and what breaks it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.errors import EnvironmentError_, TargetError
from tilewright.runtime.gpu.cuda_driver import NOT_READY, STICKY, Driver, DriverError
from tilewright.runtime.gpu.deadline import wait_until

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: does not wait for the default stream, nor that one for it
_NAMES_KEPT = 4  # of kernels queued last, for messages


class CudaContext:
    """The context that a GPU has once in a process, shared with other libraries, and a stream of our own in it."""

    def __init__(self, ordinal: int, driver: Driver) -> None:
        """The context of a GPU by its number. Raises `TargetError` where there is none of that number."""
        self.driver, self.ordinal = driver, ordinal
        count = driver.made("cuDeviceGetCount", ctypes.c_int)
        if ordinal >= count:
            raise TargetError(f"there is no 'cuda:{ordinal}': this machine has {count} NVIDIA GPU{'s'[: count != 1]}")
        self.gpu: int = driver.made("cuDeviceGet", ctypes.c_int, ordinal)
        name = ctypes.create_string_buffer(256)
        driver.call("cuDeviceGetName", name, len(name), self.gpu)
        self.name = f"CUDA {name.value.decode(errors='replace')}"
        #: The message of the error after which this device takes no more work.
        self.lost: str | None = None
        self._queued: list[str] = []  # names of the kernels queued last
        self._deferred: list[tuple[str, int]] | None = None
        self._streams = threading.local()
        self._context = driver.made("cuDevicePrimaryCtxRetain", ctypes.c_void_p, self.gpu)
        with self.current():
            self.own_stream: int = driver.made("cuStreamCreate", ctypes.c_void_p, _NON_BLOCKING)

    def current(self) -> _Current:
        """This device's context as the thread's current one, for a `with` block. Raises the error that lost it."""
        return _Current(self)

    @property
    def stream(self) -> int:
        """The stream that this thread's work is queued on: the device's own, or that of `on_stream`."""
        return getattr(self._streams, "stream", self.own_stream)

    @contextmanager
    def on_stream(self, stream: int) -> Iterator[None]:
        """Queue this thread's work on another library's stream, such as `torch.cuda.current_stream().cuda_stream`."""
        before = self.stream
        self._streams.stream = stream
        try:
            yield
        finally:
            self._streams.stream = before

    def wait_for(self, other: int, stream: int | None = None) -> None:
        """Have `stream` (this thread's) start what is queued from now on after what is queued on `other` now."""
        stream = self.stream if stream is None else stream
        if other == stream:
            return
        with self.current():
            event = self.driver.made("cuEventCreate", ctypes.c_void_p, 2)  # without times: cheaper
            try:
                self.call("cuEventRecord", event, other)
                self.call("cuStreamWaitEvent", stream, event, 0)
            finally:
                self.driver.try_call("cuEventDestroy_v2", event)  # the driver frees it when it has happened

    def call(self, name: str, *args: Any) -> None:
        """Call the driver. Raises `DriverError`; one that breaks the context says so, and the device is lost."""
        code = self.driver.try_call(name, *args)
        if code:
            raise self.failed(name, code)

    def note(self, kernels: Sequence[str]) -> None:
        """Keep the names of kernels that are queued now, for the message when one of them fails."""
        self._queued = [*self._queued, *kernels][-_NAMES_KEPT:]

    def failed(self, name: str, code: int) -> DriverError:
        """The error of a call that returned `code`; after one that breaks the context, the device is lost."""
        error = self.driver.error(name, code)
        if code not in STICKY:
            return error
        kernels = f" after the kernels {', '.join(self._queued)} were queued" if self._queued else ""
        return self._lose(
            f"{self.name}: {error}{kernels}; the GPU takes no more work of this process. `compute-sanitizer` names the "
            "kernel and the address",
            code,
        )

    def _lose(self, message: str, code: int) -> DriverError:
        """Release the context, so that the driver frees its memory once nobody else in the process has it."""
        if self.lost is not None:
            return DriverError(self.lost, code)
        self.lost = message
        if code != NOT_READY:  # with a kernel that still runs, giving back would wait for it
            self.driver.try_call("cuDevicePrimaryCtxRelease_v2", self.gpu)
        return DriverError(self.lost, code)

    def release(self, name: str, held: int) -> None:
        """Free something by the driver's function `name`; for destructors: no errors, nothing during a capture."""
        if self.lost is not None:
            return
        if self._deferred is not None:
            self._deferred.append((name, held))
            return
        try:
            with self.current():
                self.driver.try_call(name, held)
        except Exception:  # the interpreter ends, and the driver with it
            return

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Put off what destructors free: freeing waits for the device, which a stream being captured forbids."""
        self._deferred = []
        try:
            yield
        finally:
            deferred, self._deferred = self._deferred, None
            for name, held in deferred:
                self.release(name, held)

    def wait(self, query: str, held: int) -> None:
        """Poll a stream or event (`cuStreamQuery`, `cuEventQuery`) until it is done.

        Raises `DriverError` where a kernel failed, or still runs after the time limit of `TILEWRIGHT_DEVICE_TIMEOUT`.
        """
        code = NOT_READY

        def done() -> bool:
            nonlocal code
            code = self.driver.try_call(query, held)
            return code != NOT_READY

        try:
            wait_until(done, self.name, ", ".join(self._queued))
        except EnvironmentError_ as error:
            raise self._lose(str(error), NOT_READY) from None
        if code:
            raise self.failed(query, code)

    def synchronize(self) -> None:
        """Wait for the stream."""
        with self.current():
            self.wait("cuStreamQuery", self.stream)
        self._queued = []


class _Current:
    """A context made current on entry; what was current before is so again after it."""

    __slots__ = ("_before", "_device")

    def __init__(self, device: CudaContext) -> None:
        if device.lost is not None:
            raise EnvironmentError_(device.lost)
        self._device = device

    def __enter__(self) -> None:
        device = self._device
        self._before = device.driver.made("cuCtxGetCurrent", ctypes.c_void_p)
        if self._before != device._context:
            device.driver.call("cuCtxSetCurrent", device._context)

    def __exit__(self, *_: object) -> None:
        if self._before is not None and self._before != self._device._context:
            self._device.driver.try_call("cuCtxSetCurrent", self._before)
