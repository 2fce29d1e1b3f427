"""`DeviceModule`: compiled kernels of a device, called from Python like the functions of a host module.

mod = codegen.build(func, "opencl")
mod["gemm"](a, b, c)                 # NumPy arrays are copied to the device and back
a, b, c = (mod.array(x) for x in (a, b, c))
mod["gemm"](a, b, c)                 # device arrays stay where they are
mod["gemm"].time(a, b, c)            # seconds of each call, arrays on the device
c.numpy()
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.arguments import bind_arguments, infer_extents
from tilewright.runtime.gpu.api import DeviceApi, Kernel
from tilewright.runtime.module import Param
from tilewright.runtime.shape_program import compile_expressions
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]


class DeviceArray:
    """An array in a device's memory."""

    __slots__ = ("api", "buffer", "dtype", "shape")

    def __init__(self, api: DeviceApi, shape: Sequence[int], dtype: Any) -> None:
        self.api, self.shape, self.dtype = api, tuple(shape), np.dtype(dtype)
        self.buffer = api.allocate(max(1, self.nbytes))

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def write(self, array: Array) -> DeviceArray:
        """Fill from a host array of the same shape and dtype; gives this array."""
        if array.shape != self.shape or array.dtype != self.dtype:
            raise InputError(f"{array.dtype}{list(array.shape)} given for a device array {self!r}")
        self.api.write(self.buffer, np.ascontiguousarray(array))
        return self

    def numpy(self) -> Array:
        """A copy in host memory."""
        made = np.empty(self.shape, self.dtype)
        self.api.read(self.buffer, made)
        return made

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)} on {self.api.name}"


@dataclass(frozen=True)
class DeviceFunctionInfo:
    """A function as plain data: its parameters, the temporaries it makes, and its launches in order.

    Sizes are expressions of the scalar parameters, as `runtime.shape_program` reads them.
    """

    name: str
    params: tuple[Param, ...]
    temporaries: tuple[Mapping[str, Any], ...]  # name, dtype, elements
    launches: tuple[Mapping[str, Any], ...]  # kernel, args (names), scalars (dtypes by name), grid, block


class DeviceModule:
    """Functions compiled for one device; `source` is the text its compiler got."""

    def __init__(self, api: DeviceApi, source: str, functions: Sequence[DeviceFunctionInfo]) -> None:
        self.api, self.source = api, source
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

    def array(self, array: Array) -> DeviceArray:
        """A copy of a host array on the device."""
        return DeviceArray(self.api, array.shape, array.dtype).write(np.asarray(array))


class DeviceFunction:
    """One function: launches its kernels in order."""

    def __init__(self, api: DeviceApi, info: DeviceFunctionInfo, kernels: Mapping[str, Kernel]) -> None:
        self.info, self.api, self._kernels = info, api, kernels
        scalars = [p.name for p in info.params if p.is_scalar]
        sizes = [t["elements"] for t in info.temporaries]
        grids = [size for launch in info.launches for size in launch["grid"]]
        self._scalars = scalars
        self._sizes = compile_expressions(scalars, [*sizes, *grids])
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
                place = f"{self.info.name}: argument {param}"
                raise InputError(f"{place} must be C-contiguous and writable: it is written to")
            made = values[param.name] = DeviceArray(self.api, value.shape, value.dtype).write(value)
            if param.written:
                copies.append((value, made))
        for wrong in infer_extents(self.info.params, values):
            place = f"{self.info.name}: dimension {wrong.axis} of {wrong.param.name}"
            raise InputError(f"{place} is {wrong.got}; it must be {wrong.name} = {wrong.known}")
        return values, copies

    def _launch(self, values: Mapping[str, Any]) -> None:
        sizes = list(self._sizes(*[int(values[name]) for name in self._scalars]))
        for made, size in zip(self.info.temporaries, sizes):
            dtype, known = DType(made["dtype"]).numpy, self._temporaries.get(made["name"])
            if known is None or known.shape[0] < size:
                self._temporaries[made["name"]] = DeviceArray(self.api, (int(size),), dtype)
        place = len(self.info.temporaries)
        for launch in self.info.launches:
            grid = tuple(int(n) for n in sizes[place : place + 3])
            place += 3
            if min(grid) > 0:
                arguments = [self._argument(name, values) for name in launch["args"]]
                self._kernels[launch["kernel"]].launch(grid, tuple(launch["block"]), arguments)  # type: ignore[arg-type]

    def _argument(self, name: str, values: Mapping[str, Any]) -> Any:
        value = self._temporaries[name] if name in self._temporaries else values[name]
        return value.buffer if isinstance(value, DeviceArray) else value
