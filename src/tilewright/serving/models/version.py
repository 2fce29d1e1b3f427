"""One version of a model that takes requests: loaded, warmed up, with its queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError, UserError
from tilewright.load import load
from tilewright.runtime.signature import TensorSpec
from tilewright.serving.models.batches import Array, Joined, Request, batch_rows
from tilewright.serving.models.datatypes import datatype, shape_of
from tilewright.serving.models.errors import RequestError
from tilewright.serving.models.queue import Queue
from tilewright.serving.models.settings import ModelSettings

#: A full batch of a model that takes at most so long runs in the event loop: a handover to a thread takes 0.1 ms.
QUICK_SECONDS = 0.001

#: Part of a row's time that has to go for twice as many rows to be joined.
_CHEAPER = 0.95

#: Loads the model of a path with so many threads.
Loader = Callable[[Path, ModelSettings], Any]


class Loaded:
    """Copies of a model in memory, ready to run; made in a thread beside the event loop."""

    def __init__(self, name: str, version: str, path: Path, settings: ModelSettings, loader: Loader) -> None:
        self.name, self.version, self.path, self.settings = name, version, path, settings
        models = [loader(path, settings) for _ in range(settings.instances)]
        self.inputs: Sequence[TensorSpec] = models[0].inputs
        self.outputs: Sequence[TensorSpec] = models[0].outputs
        self.datatypes = {spec.name: datatype(spec) for spec in (*self.inputs, *self.outputs)}
        rows = batch_rows(self.inputs, self.outputs, settings.fixed_batch)
        if settings.fixed_batch and rows is None:
            raise InputError(f"model {name!r}: the first dimensions of its inputs and outputs differ: it has no batch")
        #: Most rows of a batch, 0 where requests are not joined.
        self.most_rows = 0 if rows is None or settings.max_batch == 1 else min(settings.max_batch, rows or 1 << 30)
        self.instances = [Joined(model, rows or 0) for model in models]
        #: Rows up to which requests are joined: no more than makes a row cheaper.
        self.joined_rows = self.most_rows
        self.quick = False
        if settings.warm_up:
            self._warm_up(models)

    def _warm_up(self, models: Sequence[Any]) -> None:
        """Run every copy; see how many rows pay, and whether the model is quick. Sizes that a request chooses are 1."""
        fixed = all(isinstance(dim, int) for spec in self.inputs for dim in spec.shape[self.most_rows > 0 :])
        try:
            for model in models:
                model.run(self._example(1))
            if not fixed:
                return
            if self.most_rows and not self.instances[0].rows:
                self.joined_rows = self._paying_rows(models[0])
            if len(models) > 1 or self.settings.threads not in (None, 1):
                return
            threads = models[0].threads
            models[0].set_threads(1)
            self.quick = _seconds(models[0], self._example(self.joined_rows)) <= QUICK_SECONDS
            if not self.quick:
                models[0].set_threads(threads)
        except UserError:
            return  # zeros or sizes of 1 are not what this model takes: it is loaded, and requests will tell

    def _paying_rows(self, model: Any) -> int:
        """The least rows of which one takes hardly longer than of more: each request of a batch waits for all."""
        paying, rows, least = 1, 1, float("inf")
        while rows <= min(4 * paying, self.most_rows):
            try:
                row = _seconds(model, self._example(rows)) / rows
            except UserError:  # as of a model whose reshapes name a batch of 1
                break
            if row < _CHEAPER * least:
                paying, least = rows, row
            rows = 2 * rows if 2 * rows <= self.most_rows or rows == self.most_rows else self.most_rows
        return paying

    def _example(self, rows: int) -> dict[str, Array]:
        """Zeros, of so many rows where the model has a symbolic batch."""
        made = {}
        for spec in self.inputs:
            shape = [dim if isinstance(dim, int) else 1 for dim in spec.shape]
            if self.most_rows and not self.instances[0].rows:
                shape[0] = rows
            made[spec.name] = np.full(shape, "", object) if spec.numpy.kind == "O" else np.zeros(shape, spec.numpy)
        return made


def _seconds(model: Any, inputs: Mapping[str, Array]) -> float:
    """The least of three runs."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        model.run(inputs)
        times.append(time.perf_counter() - start)
    return min(times)


class Version:
    """A loaded version with its queue, in the event loop."""

    def __init__(self, loaded: Loaded) -> None:
        self.name, self.version, self.datatypes = loaded.name, loaded.version, loaded.datatypes
        self.inputs, self.outputs, self.most_rows = loaded.inputs, loaded.outputs, loaded.most_rows
        self.settings = loaded.settings
        self.by_name = {spec.name: spec for spec in loaded.inputs}
        self.output_numbers = {spec.name: number for number, spec in enumerate(loaded.outputs)}
        #: What a protocol read off the heads of requests, which clients repeat.
        self.heads: dict[bytes, Any] = {}
        self.queue = Queue(loaded.instances, loaded.settings, loaded.joined_rows, loaded.quick)
        self._batch = loaded.instances[0].rows if loaded.most_rows else None

    def metadata(self) -> dict[str, Any]:
        """Names, types and shapes as the protocol has them; the first dimension of a batch is -1."""
        return {"inputs": self._tensors(self.inputs), "outputs": self._tensors(self.outputs)}

    def _tensors(self, specs: Sequence[TensorSpec]) -> list[dict[str, Any]]:
        tensors = []
        for spec in specs:
            shape = shape_of(spec)
            if self.most_rows:
                shape[0] = -1
            tensors.append({"name": spec.name, "datatype": self.datatypes[spec.name], "shape": shape})
        return tensors

    def check(self, name: str, kind: str, shape: tuple[int, ...]) -> None:
        """Raises `RequestError` unless a tensor of this datatype and shape may be given as the input `name`."""
        spec = self.by_name.get(name)
        if spec is None:
            raise RequestError(f"model {self.name!r} has no input {name!r}; it expects {self._expected()}")
        fitted = shape
        if self._batch and shape and 0 < shape[0] <= self._batch:
            fitted = (self._batch, *shape[1:])
        if kind != self.datatypes[name] or not spec.fits(fitted):
            raise RequestError(
                f"input {name!r} of model {self.name!r} is {self.datatypes[name]}{shape_of(spec)}, and not "
                f"{kind}{list(shape)}"
            )

    def submit(self, request: Request, arrays: Mapping[str, Array], seconds: float) -> None:
        """Queue an inference on inputs that were checked, at most so many seconds.

        Raises `RequestError` where one is missing, for batches that differ, and where the queue is full.
        """
        try:
            ordered = [arrays[spec.name] for spec in self.inputs]
        except KeyError as missing:
            raise RequestError(
                f"input {missing} of model {self.name!r} is missing; it expects {self._expected()}"
            ) from None
        rows = len(ordered[0]) if self.most_rows else 1
        if self.most_rows:
            self._check_rows(ordered, rows)
        request.begin(ordered, rows, seconds)
        self.queue.put(request)

    def _check_rows(self, arrays: Sequence[Array], rows: int) -> None:
        if len(arrays) > 1 and any(len(array) != rows for array in arrays):
            raise RequestError(f"the inputs of model {self.name!r} differ in their first dimension, the batch")
        if not 0 < rows <= self.most_rows:
            raise RequestError(f"model {self.name!r} takes 1 to {self.most_rows} rows in a request, and not {rows}")

    def _expected(self) -> str:
        return ", ".join(f"{spec.name}: {self.datatypes[spec.name]}{shape_of(spec)}" for spec in self.inputs)


def load_model(path: Path, settings: ModelSettings) -> Any:
    """The model of a path: an artifact is loaded, others are compiled, from the cache where they were before."""
    if path.suffix == ".tw":
        return load(path, settings.threads)
    # artifacts are served without the compiler
    from tilewright.compile import compile as compile_model

    if not settings.symbolic_batch:
        return compile_model(path, threads=settings.threads)
    plain = compile_model(path, threads=settings.threads)
    shapes = {spec.name: ("batch", *spec.shape[1:]) for spec in plain.inputs}
    return compile_model(path, input_shapes=shapes, threads=settings.threads)
