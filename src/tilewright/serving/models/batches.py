"""Batches: requests joined along the first dimension, run once, and their results cut apart."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import UserError
from tilewright.runtime.memory import aligned_empty
from tilewright.runtime.signature import TensorSpec
from tilewright.serving.models.errors import RequestError

Array = np.ndarray[Any, Any]


class Request:
    """One inference on its way: checked inputs in the model's order, then outputs or an error."""

    __slots__ = ("arrays", "arrived", "began", "deadline", "ended", "error", "gone", "outputs", "rows", "shapes")

    def begin(self, arrays: Sequence[Array], rows: int, seconds: float) -> None:
        """Have it wait, at most so many seconds."""
        self.arrays, self.rows = arrays, rows
        self.arrived = self.began = self.ended = time.perf_counter_ns()
        self.deadline = self.arrived + int(seconds * 1e9)
        #: What has to be equal for two requests to be one batch.
        self.shapes = [array.shape[1:] for array in arrays]
        self.outputs: list[Array] = []
        self.error: UserError | None = None
        #: True when the client has left.
        self.gone = False

    def done(self) -> None:
        """Send the outputs or the error; called in the server's event loop when it is over."""
        raise NotImplementedError


class Joined:
    """Runs batches on one copy of a model. `rows` is the first dimension of a model of fixed sizes, else 0."""

    def __init__(self, model: Any, rows: int = 0) -> None:
        self._model, self.rows = model, rows
        self._names = [spec.name for spec in model.inputs]
        #: Memory of joined inputs, which the next batch uses again: fresh pages cost as much as the copies.
        self._memory: list[Array] = [np.empty(0, np.uint8) for _ in model.inputs]

    def run(self, requests: Sequence[Request]) -> None:
        """Run a batch; every request gets its outputs, or an error of its own."""
        began = time.perf_counter_ns()
        running = []
        for request in requests:
            request.began = began
            if request.deadline < began:
                request.error = RequestError("the request's time was over before its turn came", 504)
            elif not request.gone:
                running.append(request)
        try:
            self._run(running)
        except UserError as error:
            if len(running) == 1:
                running[0].error = error
            else:  # one of them may be at fault, and the others not
                for request in running:
                    self._run_alone(request)
        except Exception as error:
            for request in running:
                request.error = RequestError(f"the model failed: {type(error).__name__}: {error}", 500)
        ended = time.perf_counter_ns()
        for request in requests:
            request.ended = ended

    def _run_alone(self, request: Request) -> None:
        try:
            self._run([request])
        except UserError as error:
            request.error = error

    def _run(self, requests: Sequence[Request]) -> None:
        if not requests:
            return
        if len(requests) == 1 and self.rows in (0, requests[0].rows):
            requests[0].outputs = self._infer(requests[0].arrays)
            return
        rows = sum(request.rows for request in requests)
        joined = [self._join(i, [request.arrays[i] for request in requests], rows) for i in range(len(self._names))]
        outputs = self._infer(joined)
        if any(np.may_share_memory(output, one) for output in outputs for one in joined):
            outputs = [output.copy() for output in outputs]
        start = 0
        for request in requests:
            end = start + request.rows
            request.outputs = [output[start:end] for output in outputs]
            start = end

    def _join(self, number: int, arrays: Sequence[Array], rows: int) -> Array:
        if self.rows > rows:  # the last row again, which is a valid one
            arrays = [*arrays, np.repeat(arrays[-1][-1:], self.rows - rows, axis=0)]
            rows = self.rows
        dtype, shape = arrays[0].dtype, (rows, *arrays[0].shape[1:])
        if dtype.hasobject:
            return np.concatenate(arrays)
        count = math.prod(shape) * dtype.itemsize
        if len(self._memory[number]) < count:
            self._memory[number] = aligned_empty((count,), np.dtype(np.uint8))
        return np.concatenate(arrays, out=self._memory[number][:count].view(dtype).reshape(shape))

    def _infer(self, arrays: Sequence[Array]) -> list[Array]:
        return self._model.run(dict(zip(self._names, arrays)))


def batch_rows(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], fixed: bool) -> int | None:
    """0 where the first dimension of all tensors is one symbol, its size where `fixed`; None for no batches."""
    specs = [*inputs, *outputs]
    first = {spec.shape[0] if spec.shape else None for spec in specs}
    if not inputs or len(first) != 1:
        return None
    (size,) = first
    if isinstance(size, str):
        return 0
    return size if fixed and isinstance(size, int) and size > 0 else None
