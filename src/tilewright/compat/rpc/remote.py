"""Sessions with another device for classic programs: its devices, arrays there, modules loaded there.

    remote.upload("lib.tar"); function = remote.load_module("lib.tar")
    a = tvm.nd.array(values, remote.cpu(0)); function(a, b); b.numpy()

Arrays stay where they are, and so do modules; both are `rpc.RemoteArray`, `rpc.RemoteLibrary` and `rpc.RemoteModel`
under the methods of the classic ones.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np

from tilewright import rpc
from tilewright.compat.relay.executor import ExecutorFactory
from tilewright.compat.runtime.array import NDArray, to_numpy
from tilewright.compat.runtime.benchmark import BenchmarkResult, Runs
from tilewright.compat.runtime.compiled_module import CompiledModule
from tilewright.compat.runtime.device import Device
from tilewright.errors import InputError, UnsupportedError
from tilewright.support.dtype import DType


@dataclass(frozen=True, repr=False)
class RemoteDevice(Device):
    """A device of the machine at the other end of `session`."""

    session: rpc.Session = field(kw_only=True, compare=False)

    def copy_of(self, array: NDArray) -> RemoteNDArray:
        """A copy in the memory of the device. Raises `InputError` unless it is a processor."""
        if self.kind != "cpu" or self.device_id:
            raise InputError(f"{self} takes no arrays: code runs on the processor of that machine, {Device(1)}")
        return RemoteNDArray(self.session.array(array), self)

    def sync(self, stream: object = None) -> None:
        """Wait until the other end answers: requests are done in order."""
        self.session.describe()

    def __repr__(self) -> str:
        return f"remote[{self.session.name}]:{super().__repr__()}"


class RemoteNDArray(NDArray):
    """An array in the memory of another machine; looking at its elements brings a copy here."""

    __slots__ = ("_device", "there")

    def __init__(self, there: rpc.RemoteArray, device: RemoteDevice) -> None:
        self.there, self._device = there, device
        self.shape, self.dtype, self.address = there.shape, DType(there.dtype), 0

    @property
    def _array(self) -> np.ndarray[Any, Any]:  # type: ignore[override]
        return self.there.numpy()

    @property
    def device(self) -> Any:
        """The device of the elements."""
        return self._device

    def copyfrom(self, source_array: Any) -> NDArray:
        """Overwrite the elements with those of an array of the same shape, here or on the same device."""
        same = isinstance(source_array, RemoteNDArray) and source_array.there.session is self.there.session
        self.there.copyfrom(source_array.there if same else to_numpy(source_array))
        return self

    def copyto(self, target: Any) -> NDArray:
        """Copy the elements into another array, or to a device: then a fresh array."""
        return target.copyfrom(self) if isinstance(target, RemoteNDArray) else super().copyto(target)

    def __setitem__(self, index: Any, value: Any) -> None:
        changed = self.numpy().copy()
        changed[index] = np.asarray(value)
        self.there.copyfrom(changed)


class RemoteModule(CompiledModule):
    """Functions on another machine: `module(a, b)` calls the first, `module["name"]` is one of them."""

    def __init__(self, library: rpc.RemoteLibrary) -> None:
        super().__init__(list(library.functions), library)

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., None]:
        """The function called `name`, of arrays that are there and of numbers. Raises `InputError` for another name."""
        function = self._of_name(name)
        return lambda *args: function(*_there(args))

    def _timed(self, func_name: str, dev: Any, f_preproc: str, runs: Runs) -> Callable[..., BenchmarkResult]:
        """Times calls there. Raises `UnsupportedError` for `f_preproc`, which would be a function of that machine."""
        _refuse_preproc(f_preproc)
        self._of_name(func_name)
        measure = self._code.time_evaluator(func_name, runs.number, runs.repeat, runs.min_repeat_ms or 0)
        return lambda *args: BenchmarkResult(measure(*_there(args)).results)


class RemoteFactory(ExecutorFactory):
    """A model on another machine: `factory["default"](remote.cpu(0))` is what the executors take."""

    def __init__(self, model: rpc.RemoteModel) -> None:
        super().__init__(model, None, None)  # type: ignore[arg-type]
        self._set: Callable[[], Mapping[str, NDArray]] | None = None

    def __getitem__(self, name: str) -> Callable[..., ExecutorFactory]:
        super().__getitem__(name)

        def put_on(*devices: Any) -> ExecutorFactory:
            for device in devices:
                if not isinstance(device, RemoteDevice):
                    raise InputError(f"the model is on another machine, not on {device}; pass session.cpu(0)")
            return self

        return put_on

    def with_entries(
        self, given: Callable[[], Mapping[str, NDArray]] | None = None, **entries: Callable[..., Any]
    ) -> ExecutorFactory:
        """This model with functions of an executor, which has been `given` the values of the model's inputs."""
        made = copy.copy(self)
        made._entries, made._set = entries, given
        return made

    def _timed(self, func_name: str, dev: Any, f_preproc: str, runs: Runs) -> Callable[..., BenchmarkResult]:
        """Times runs there, the way there and back not counted, on the inputs that were set; else what is done here."""
        _refuse_preproc(f_preproc)
        self._entry(func_name)
        if self._set is None:
            return super()._timed(func_name, None, "", runs)
        number, repeat, min_repeat_ms = runs
        given, model = self._set, self.executable

        def measure(*_: Any) -> BenchmarkResult:
            inputs = {name: value.numpy() for name, value in given().items()}
            count = number
            if min_repeat_ms:
                count = max(number, ceil(min_repeat_ms / 1e3 / max(min(model.time(inputs, repeat=3)), 1e-9)))
            seconds = np.reshape(model.time(inputs, repeat=count * repeat), (repeat, count))
            return BenchmarkResult(seconds.mean(axis=1).tolist())

        return measure


def _there(args: Sequence[Any]) -> list[Any]:
    """Arguments as the session takes them. Raises `InputError` for an array that is not there."""
    for position, value in enumerate(args):
        if isinstance(value, np.ndarray | NDArray) and not isinstance(value, RemoteNDArray):
            raise InputError(
                f"argument {position} is an array of this machine, and the function runs on another: "
                "make it by tvm.nd.array(values, session.cpu(0))"
            )
    return [value.there if isinstance(value, RemoteNDArray) else value for value in args]


def _refuse_preproc(name: str) -> None:
    if name:
        raise UnsupportedError("time_evaluator(f_preproc=…): the other machine runs no function by its name")
