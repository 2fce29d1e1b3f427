"""`Program`: the code of a model on a device, which runs the model's execution plans.

A device of kind `<kind>` has its own in `runtime/<kind>/program.py`, a class `Program`, which the manifest's `device`
finds. One that stands on more than the runtime, or comes from another package, is registered:

    register("toy", lambda: ToyProgram)

Arrays of the caller are in the host's memory, or where the program's `bind` leaves them. A program of a device with a
memory of its own copies the host's in and out.
"""

from __future__ import annotations

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from tilewright.errors import ArtifactError, UnsupportedError
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array, aligned_empty
from tilewright.runtime.native import PoolCode
from tilewright.runtime.plan import ExecutionPlan
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.shape_program import ShapeProgram
from tilewright.runtime.signature import TensorSpec, bind, checked_outputs
from tilewright.support.entry_points import DEVICES, load_plugins

#: Runs a plan on checked arrays, into given ones or fresh ones, with so many workers; the results, and 0 or the code of
#: a failed check.
Runner = Callable[[Sequence[Array], Sequence[Array] | None, int], tuple[list[Array], int]]

#: Runs a plan on values, which it checks, with so many workers.
Caller = Callable[[Sequence[Any], int], tuple[list[Array], int]]


@dataclass
class Transfers:
    """Copies between the host's memory and a device's: how many, and their bytes."""

    to_device: int = 0
    to_device_bytes: int = 0
    to_host: int = 0
    to_host_bytes: int = 0


class Program(ABC):
    """The code of one model, loaded. Not for use by several threads at a time: the model holds a lock."""

    #: True where values that `caller` returns stay in the device's memory until `to_host` copies them.
    keeps_values: ClassVar[bool] = False

    def __init__(self, manifest: Manifest, weights: Array) -> None:
        self.manifest, self.weights = manifest, weights
        self.plans: tuple[ExecutionPlan, ...] = manifest.plans
        #: Of each plan with symbolic sizes, what computes them.
        self.shapes = [
            None if plan.dynamic is None else ShapeProgram(plan.dynamic, plan.inputs, plan.alignment)
            for plan in self.plans
        ]

    @classmethod
    @abstractmethod
    def load(cls, manifest: Manifest, code: bytes, weights: Array) -> Self:
        """The program of `code`. Raises `ArtifactError` where it does not fit the manifest or this machine."""

    @abstractmethod
    def runner(self, number: int) -> Runner:
        """The function that runs the plan `number`."""

    @abstractmethod
    def profile(
        self, number: int, arrays: Sequence[Array], workers: int, repeat: int, check: Callable[[int], None]
    ) -> list[KernelTime]:
        """A row for each kernel call of the plan, in order, the least time of `repeat` runs."""

    def bind(self, value: Any, spec: TensorSpec, specs: Sequence[TensorSpec] = ()) -> Any:
        """An input as a runner takes it: a checked array of the host's, or of a device that has its own memory."""
        return bind(value, spec, specs)

    def bind_on_host(self, value: Any, spec: TensorSpec, specs: Sequence[TensorSpec] = ()) -> Any:
        """The same, as an array in the host's memory."""
        return bind(value, spec, specs)

    def facts(self) -> Mapping[str, Any]:
        """Figures of the device beside the host, as its driver says them; nothing of the host."""
        return {}

    def begin(self) -> None:  # noqa: B027 (most devices have nothing to do)
        """Begin a run of a program of the virtual machine, whose values are those of this run alone."""

    def to_host(self, value: Any) -> Any:
        """A value of such a program as operators of the host read it."""
        return value

    def returned(self, values: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """Its results as the caller of the model gets them, who gave it the inputs `given`."""
        return list(values)

    def arguments(self, number: int, values: Sequence[Any]) -> list[Any]:
        """Values of such a program as `profile` takes them for the plan `number`."""
        return [np.asarray(value, order="C") for value in values]

    @property
    def transfers(self) -> Transfers:
        """Copies between host and device in the last such run."""
        return Transfers()

    def on_device(self, value: Any) -> Any:
        """A copy of an array in the memory of the device. Raises `UnsupportedError` where that is the host's."""
        raise UnsupportedError(
            f"a model for {self.manifest.target} works in the host's memory: pass arrays as they are"
        )

    def caller(self, number: int) -> Caller:
        """The function that runs the plan `number` on values as programs hand them on."""
        run, inputs = self.runner(number), self.plans[number].inputs
        return lambda values, workers: run([bind(v, spec) for v, spec in zip(values, inputs)], None, workers)

    def time(
        self, number: int, arrays: Sequence[Array], workers: int, repeat: int, warmup: int, check: Callable[[int], None]
    ) -> list[float]:
        """Seconds of each of `repeat` runs of the plan after `warmup` others."""
        run, times = self.runner(number), []
        for turn in range(warmup + repeat):
            start = time.perf_counter()
            _, code = run(arrays, None, workers)
            if turn >= warmup:
                times.append(time.perf_counter() - start)
            check(code)
        return times

    @classmethod
    def executors(cls) -> Mapping[str, Callable[..., Any]]:
        """Classes of models beside those that run on every device, by the name of their executor in manifests."""
        return {}

    @property
    def native(self) -> Any:
        """Itself where plans are native functions on this process's memory (`runtime/cpu`); None elsewhere."""
        return None

    @property
    def pool(self) -> PoolCode | None:
        """The native runtime that the code needs, to be saved with it."""
        return None

    def workers(self, threads: int | None) -> int:
        """The number of workers to run with, for a wish of `threads` (None: the default)."""
        return 1

    def reserve(self, workers: int) -> None:  # noqa: B027 (most devices have nothing to do)
        """Provide the memory that `workers` workers will need for certain."""

    def results(self, number: int, given: Sequence[Array] | None, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        """The arrays of `shapes` that a run of the plan fills: fresh ones, or those given, which are checked."""
        outputs = self.plans[number].outputs
        if given is not None:
            return checked_outputs(given, outputs, shapes)
        return [aligned_empty(tuple(shape), spec.numpy) for shape, spec in zip(shapes, outputs)]


#: Returns a class of programs; the first model for its kind of device calls it, so that others need not import it.
Importer = Callable[[], type[Program]]
_REGISTERED: dict[str, Importer] = {}


def register(device: str, program: Importer) -> None:
    """Have the class that `program` returns run the models of a kind of device."""
    _REGISTERED[device] = program


def program_class(device: str) -> type[Program]:
    """The class of programs of a kind of device. Raises `ArtifactError` where this process has none."""
    if device not in _REGISTERED:
        try:
            found = getattr(importlib.import_module(f"tilewright.runtime.{device}.program"), "Program", None)
        except ImportError:
            found = None
        if isinstance(found, type) and issubclass(found, Program):  # `runtime/vm` has one of another kind
            return found
        load_plugins(DEVICES)
    if device not in _REGISTERED:
        raise ArtifactError(f"the model is for a device {device!r}, which this process has no runtime for")
    return _REGISTERED[device]()
