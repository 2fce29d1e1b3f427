"""A recording on an NVIDIA GPU: a CUDA graph, made by capturing a stream and replayed by one call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import pairwise

from tilewright.runtime.gpu.api import Copy, Launch
from tilewright.runtime.gpu.cuda_context import CudaContext
from tilewright.runtime.gpu.cuda_driver import handle
from tilewright.runtime.gpu.cuda_memory import queue_copy

#: Capturing that no call of the driver, of this thread or of others, disturbs (CU_STREAM_CAPTURE_MODE_RELAXED).
_RELAXED = 2
#: An event that a graph records for others than the graph (CU_EVENT_RECORD_EXTERNAL).
_EXTERNAL = 1


class CudaRecording:
    """Steps as an executable graph; made at the first run, so that a recording that is only timed has none."""

    def __init__(self, device: CudaContext, steps: Sequence[Launch | Copy]) -> None:
        self._device, self._steps = device, tuple(steps)
        self._graph: int | None = None
        self._names = tuple(dict.fromkeys(step.kernel.name for step in self._steps if isinstance(step, Launch)))

    def run(self) -> None:
        """Queue the graph on the device's stream."""
        device = self._device
        if not self._steps:
            return
        with device.current():
            if self._graph is None:
                self._graph = self._instantiate(self._capture(()))
            device.note(self._names)
            device.call("cuGraphLaunch", self._graph, device.stream)

    def update(self, steps: Sequence[Launch | Copy]) -> None:
        """Exchange the steps for others; those of the same kernels with other buffers are cheaper than a new recording.

        Runs that are queued keep the steps that they were queued with.
        """
        device, self._steps = self._device, tuple(steps)
        self._names = tuple(dict.fromkeys(step.kernel.name for step in self._steps if isinstance(step, Launch)))
        if self._graph is None:
            return
        with device.current():
            graph = self._capture(())
            result = ctypes.create_string_buffer(64)  # CUgraphExecUpdateResultInfo: a code and two nodes
            code = device.driver.try_call("cuGraphExecUpdate_v2", self._graph, graph, result)
            if code == 0:
                device.call("cuGraphDestroy", graph)
                return
            device.call("cuGraphExecDestroy", self._graph)  # other kernels or another order: a new one
            self._graph = self._instantiate(graph)

    def times(self) -> list[float]:
        """Seconds of each step by events between them, which a second graph records: no Python between kernels."""
        if not self._steps:
            return []
        device = self._device
        with device.current():
            events = [device.driver.made("cuEventCreate", ctypes.c_void_p, 0) for _ in range(len(self._steps) + 1)]
            graph = None
            try:
                graph = self._instantiate(self._capture(events))
                device.note(self._names)
                device.call("cuGraphLaunch", graph, device.stream)
                device.synchronize()
                return [self._elapsed(a, b) for a, b in pairwise(events)]
            finally:
                if graph is not None:
                    device.driver.try_call("cuGraphExecDestroy", graph)
                for event in events:
                    device.driver.try_call("cuEventDestroy_v2", event)

    def _elapsed(self, start: int, end: int) -> float:
        milliseconds = ctypes.c_float()
        self._device.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return milliseconds.value * 1e-3

    def _capture(self, events: Sequence[int]) -> int:
        """The graph of the steps, with an event before each and after the last where there are events."""
        device, graph = self._device, ctypes.c_void_p()
        # another library's stream may be the default one, which cannot be captured
        with device.capturing(), device.on_stream(device.own_stream):
            stream = device.stream
            device.call("cuStreamBeginCapture_v2", stream, _RELAXED)
            try:
                for i, step in enumerate(self._steps):
                    if events:
                        device.call("cuEventRecordWithFlags", events[i], stream, _EXTERNAL)
                    if isinstance(step, Copy):
                        queue_copy(device, step)
                    else:
                        step.kernel.launch(step.grid, step.block, step.args, step.shared_bytes)
                if events:
                    device.call("cuEventRecordWithFlags", events[-1], stream, _EXTERNAL)
            except BaseException:
                if device.driver.try_call("cuStreamEndCapture", stream, ctypes.byref(graph)) == 0 and graph.value:
                    device.driver.try_call("cuGraphDestroy", graph)
                raise
            device.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        return handle(graph.value)

    def _instantiate(self, graph: int) -> int:
        """An executable graph of a graph, which is freed."""
        made = ctypes.c_void_p()
        try:
            self._device.call("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, 0)
        finally:
            self._device.driver.try_call("cuGraphDestroy", graph)
        return handle(made.value)

    def __del__(self) -> None:
        graph = getattr(self, "_graph", None)
        if graph is not None:
            self._device.release("cuGraphExecDestroy", graph)
