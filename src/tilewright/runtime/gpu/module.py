"""`DeviceModule`: compiled kernels of a device, called from Python like the functions of a host module.

mod = backend.build(func, "opencl")
mod["gemm"](a, b, c)                 # NumPy arrays are copied to the device and back
a, b, c = (mod.array(x) for x in (a, b, c))
mod["gemm"](a, b, c)                 # device arrays stay where they are
mod["gemm"].time(a, b, c)            # seconds of each call, arrays on the device
c.numpy()
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tilewright.errors import ArtifactError, InputError
from tilewright.runtime.arguments import bind_arguments, infer_extents
from tilewright.runtime.gpu.api import DeviceApi, Kernel, Launch
from tilewright.runtime.gpu.array import DeviceArray
from tilewright.runtime.gpu.devices import open_device
from tilewright.runtime.gpu.prepared import DevicePrepared, NotingKernel
from tilewright.runtime.gpu.steps import compile_steps, launches_of
from tilewright.runtime.module import Param
from tilewright.runtime.record import Record
from tilewright.runtime.shape_program import compile_expressions
from tilewright.support.cache import atomic_file
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]
FORMAT = "tilewright-device-module"


@dataclass(frozen=True)
class DeviceFunctionInfo(Record):
    """A function as plain data: its parameters, the temporaries it makes, and what the host does.

    Sizes are expressions of the scalar parameters, as `runtime.shape_program` reads them.
    """

    name: str
    params: tuple[Param, ...]
    temporaries: tuple[Mapping[str, Any], ...]  # name, dtype, elements
    steps: tuple[Mapping[str, Any], ...]  # as `runtime.gpu.steps` describes them

    @property
    def launches(self) -> tuple[Mapping[str, Any], ...]:
        """The launches among the steps."""
        return tuple(launches_of(self.steps))


@dataclass(frozen=True, kw_only=True)
class DeviceManifest(Record):
    """A saved module: its kind of device and whether that is emulated, its functions, its text."""

    format: str
    kind: str
    emulate: bool
    functions: tuple[DeviceFunctionInfo, ...]
    source: str

    what: ClassVar[str] = "manifest"


class DeviceModule:
    """Functions compiled for one device; `source` is the text its compiler got."""

    def __init__(
        self, api: DeviceApi, source: str, functions: Sequence[DeviceFunctionInfo], device: tuple[str, bool]
    ) -> None:
        """`device` is the kind and whether it is emulated, for opening it again."""
        self.api, self.source, self.device = api, source, device
        self.functions = {info.name: info for info in functions}
        names = [launch["kernel"] for info in functions for launch in info.launches]
        self._kernels = api.compile(source, names)
        self._callables: dict[str, DeviceFunction] = {}

    def __getitem__(self, name: str) -> DeviceFunction:
        if name not in self._callables:
            if name not in self.functions:
                raise KeyError(f"the module has no function {name!r}; it has: {', '.join(self.functions)}")
            self._callables[name] = DeviceFunction(self.api, self.functions[name], self._kernels)
        return self._callables[name]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the module to one file: its text, and how to call its functions."""
        save_module(path, self.source, tuple(self.functions.values()), self.device)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DeviceModule:
        """The module that `save` wrote, on the device of this machine of its kind.

        Raises `ArtifactError` for another file, and as `open_device` does.
        """
        try:
            manifest = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{os.fspath(path)} cannot be read as a module for a device: {error}") from None
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise ArtifactError(f"{os.fspath(path)} is no module for a device, as DeviceModule.save writes it")
        made = DeviceManifest.from_json(manifest)
        device = (made.kind, made.emulate)
        return cls(open_device(*device), made.source, made.functions, device)

    def array(self, array: Array) -> DeviceArray:
        """A copy of a host array on the device."""
        return DeviceArray(self.api, array.shape, array.dtype).write(np.asarray(array))


def save_module(
    path: str | os.PathLike[str], source: str, functions: Sequence[DeviceFunctionInfo], device: tuple[str, bool]
) -> None:
    """Write a text and how to call its functions to one file, which `DeviceModule.load` reads."""
    kind, emulate = device
    made = DeviceManifest(format=FORMAT, kind=kind, emulate=emulate, functions=tuple(functions), source=source)
    with atomic_file(Path(path)) as temporary:
        temporary.write_text(json.dumps(made.to_json()), encoding="utf-8")


def is_device_module(path: str | os.PathLike[str]) -> bool:
    """True if a file looks like one of `save_module`: it begins as JSON does."""
    with open(path, "rb") as file:
        return file.read(1) == b"{"


class DeviceFunction:
    """One function: launches its kernels in order."""

    def __init__(self, api: DeviceApi, info: DeviceFunctionInfo, kernels: Mapping[str, Kernel]) -> None:
        self.info, self.api, self._kernels = info, api, kernels
        self._scalars = [p.name for p in info.params if p.is_scalar]
        self._sizes = compile_expressions(self._scalars, [t["elements"] for t in info.temporaries])
        self._run = compile_steps(info.steps, self._scalars, kernels)
        self._temporaries: dict[str, DeviceArray] = {}

    def __call__(self, *args: Any) -> None:
        """Run once; host arrays that the function writes to are filled when it returns."""
        values, copies = self._prepare(args)
        self._launch(values)
        self.api.synchronize()
        for array, made in copies:
            self.api.read(made.buffer, array)

    def time(self, *args: Any, repeat: int = 10, number: int = 1) -> list[float]:
        """Seconds a call takes, `repeat` times the mean over `number` calls; host arrays are copied once, before."""
        values, _ = self._prepare(args)
        self._launch(values)
        self.api.synchronize()
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            for _ in range(number):
                self._launch(values)
            self.api.synchronize()
            times.append((time.perf_counter() - start) / number)
        return times

    def prepared(self, *args: Any, turns: Mapping[int, Sequence[Array]] | None = None) -> DevicePrepared:
        """A call with these arguments, copied to the device, that can be timed again and again.

        `turns` has arrays that take turns as a parameter, by its position: another one at each call.
        """
        values, _ = self._prepare(args)
        names, copies = [param.name for param in self.info.params if not param.inferred], turns or {}
        count = math.lcm(*(len(arrays) for arrays in copies.values()))
        held = {
            names[position]: [DeviceArray(self.api, a.shape, a.dtype).write(a) for a in arrays]
            for position, arrays in copies.items()
        }
        calls = []
        for turn in range(count):
            taken = {name: arrays[turn % len(arrays)] for name, arrays in held.items()}
            calls.append(self.api.record(self._launches({**values, **taken})))
        return DevicePrepared(self.api, calls)

    def _launches(self, values: Mapping[str, Any]) -> list[Launch]:
        """The launches of a call between which the host calls no Python."""
        found: list[Launch] = []
        kernels = {name: NotingKernel(kernel, found) for name, kernel in self._kernels.items()}
        self._prepare_temporaries(values)
        compile_steps(self.info.steps, self._scalars, kernels)({**values, **self._temporaries})
        return found

    def _prepare(self, args: Sequence[Any]) -> tuple[dict[str, Any], list[tuple[Array, DeviceArray]]]:
        """The value of each parameter by name, and the host arrays to fill afterwards."""
        values = bind_arguments(self.info.name, self.info.params, args)
        copies: list[tuple[Array, DeviceArray]] = []
        for param in self.info.params:
            value = values.get(param.name)
            if param.is_scalar or isinstance(value, DeviceArray):
                continue
            assert value is not None
            if param.written and not (value.flags.c_contiguous and value.flags.writeable):
                position = f"{self.info.name}: argument {param}"
                raise InputError(f"{position} must be C-contiguous and writable: it is written to")
            made = values[param.name] = DeviceArray(self.api, value.shape, value.dtype).write(value)
            if param.written:
                copies.append((value, made))
        for wrong in infer_extents(self.info.params, values):
            position = f"{self.info.name}: dimension {wrong.axis} of {wrong.param.name}"
            raise InputError(f"{position} is {wrong.got}; it must be {wrong.name} = {wrong.known}")
        return values, copies

    def _launch(self, values: Mapping[str, Any]) -> None:
        self._prepare_temporaries(values)
        self._run({**values, **self._temporaries})

    def _prepare_temporaries(self, values: Mapping[str, Any]) -> None:
        sizes = self._sizes(*[int(values[name]) for name in self._scalars])
        for made, size in zip(self.info.temporaries, sizes):
            dtype, known = DType(made["dtype"]).numpy, self._temporaries.get(made["name"])
            if known is None or known.shape[0] < size:
                self._temporaries[made["name"]] = DeviceArray(self.api, (int(size),), dtype)
