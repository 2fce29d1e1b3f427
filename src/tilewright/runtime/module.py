"""`Module`: compiled functions in this process, called from Python.

    mod = codegen.build([func], target)
    mod["matmul"](a, b, c)                   # Tensors, NumPy arrays or scalars, in the order of the parameters
    mod["matmul"].time(a, b, c, repeat=10)   # seconds of each call

A module is one object file plus what has to be known to call it: for each function its parameters and how much working
memory it needs. Each function `k` has a packed entry ``i32 k__entry(ptr slots, ptr ctx)``; every slot is 8 bytes and
holds a buffer's address or a scalar. A function with working memory takes two more slots: shared and per-worker memory.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.container import read_container, write_container
from tilewright.runtime.dlpack import import_array
from tilewright.runtime.link import link
from tilewright.runtime.memory import ALIGNMENT, Array, Region, address_of, round_up
from tilewright.runtime.native import native
from tilewright.runtime.tensor import Tensor
from tilewright.runtime.threads import available_processors, default_workers
from tilewright.support.dtype import DType

FORMAT = "tilewright-module"


@dataclass(frozen=True)
class Param:
    """One parameter: a buffer (`shape` None: any; an entry None: any extent) or, with `is_scalar`, a scalar.

    `written` False promises that the function only reads the buffer, so that read-only memory may be given.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None = None
    is_scalar: bool = False
    written: bool = True

    def __str__(self) -> str:
        if self.is_scalar:
            return f"{self.name}: {self.dtype}"
        extents = "..." if self.shape is None else ", ".join("?" if n is None else str(n) for n in self.shape)
        return f"{self.name}: {self.dtype}[{extents}]"


@dataclass(frozen=True)
class FunctionInfo:
    """How to call one function: its parameters (working memory not among them) and its working memory in bytes.

    Where one of the two sizes is not 0, the entry takes both pointers after the parameters.
    """

    name: str
    params: tuple[Param, ...]
    workspace_bytes: int = 0
    worker_workspace_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain data for the module's manifest."""
        return {
            "name": self.name,
            "params": [vars(param) for param in self.params],
            "workspace_bytes": self.workspace_bytes,
            "worker_workspace_bytes": self.worker_workspace_bytes,
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> FunctionInfo:
        """The inverse of `to_json`."""
        params = []
        for fields in entry["params"]:
            shape = fields["shape"]
            params.append(Param(**{**fields, "shape": None if shape is None else tuple(shape)}))
        return cls(entry["name"], tuple(params), entry["workspace_bytes"], entry["worker_workspace_bytes"])


class Module:
    """Functions compiled from one object file. `mod["name"]` is callable; `messages` are its assertions' texts."""

    def __init__(
        self,
        object_code: bytes,
        functions: Iterable[FunctionInfo],
        messages: Sequence[str] = (),
        target: str = "",
        threads: int | None = None,
    ) -> None:
        self.object_code = object_code
        self.functions = {info.name: info for info in functions}
        self.messages = tuple(messages)
        self.target = target
        self.threads = default_workers(threads)
        self._linked = link(object_code, [f"{name}__entry" for name in self.functions], native().imports())
        self._callables: dict[str, Function] = {}

    def __getitem__(self, name: str) -> Function:
        if name not in self._callables:
            if name not in self.functions:
                raise KeyError(f"the module has no function {name!r}; it has: {', '.join(self.functions)}")
            self._callables[name] = Function(self, self.functions[name], self._linked.addresses[f"{name}__entry"])
        return self._callables[name]

    def __contains__(self, name: str) -> bool:
        return name in self.functions

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the module to one file, whole or not at all."""
        manifest = {
            "format": FORMAT,
            "target": self.target,
            "messages": list(self.messages),
            "functions": [info.to_json() for info in self.functions.values()],
        }
        write_container(path, manifest, self.object_code, pool=native().pool)

    @classmethod
    def load(cls, path: str | os.PathLike[str], threads: int | None = None) -> Module:
        """Read what `save` wrote. Raises `ArtifactError` for anything else."""
        found = read_container(path, FORMAT)
        native(found.pool)
        functions = [FunctionInfo.from_json(entry) for entry in found.manifest["functions"]]
        return cls(found.object_code, functions, found.manifest["messages"], found.manifest["target"], threads)


class Function:
    """One compiled function. Calls from several Python threads take turns."""

    def __init__(self, module: Module, info: FunctionInfo, entry: int) -> None:
        self.info = info
        self.threads = module.threads
        self._module = module  # keeps the code alive
        self._run = native().parallel_run
        self._lock = threading.Lock()
        self._target, self._argument = entry, 0
        self._memory: list[Any] = []
        native().set_processors(available_processors())
        count = len(info.params)
        has_memory = bool(info.workspace_bytes or info.worker_workspace_bytes)
        self._slots = (ctypes.c_uint64 * (count + 2 * has_memory + 1))()
        self._argument = ctypes.addressof(self._slots)
        self._pack = [_packer(param, self._slots, i) for i, param in enumerate(info.params)]
        if has_memory:
            self._allocate(entry, count)

    def _allocate(self, entry: int, count: int) -> None:
        """Working memory in the two last slots; a call record that gives each worker its own part of the second."""
        stride = round_up(self.info.worker_workspace_bytes, ALIGNMENT)
        shared, private = Region(self.info.workspace_bytes), Region(stride * self.threads)
        self._slots[count], self._slots[count + 1] = shared.address, private.address
        call = (ctypes.c_uint64 * 5)(entry, self._argument, count + 2, count + 1, stride)
        self._memory = [shared, private, call]
        self._target, self._argument = native().call_with_worker_memory, ctypes.addressof(call)

    def __call__(self, *args: Any) -> None:
        """Run once. Raises `InputError` for arguments that do not fit, or when an assertion of the function fails."""
        with self._lock:
            alive = self._prepare(args)
            self._check(self._run(self._target, self._argument, self.threads))
            del alive

    def time(self, *args: Any, repeat: int = 10, number: int = 1) -> list[float]:
        """Seconds a call takes, `repeat` times the mean over `number` calls, arguments prepared once."""
        run, target, argument, threads = self._run, self._target, self._argument, self.threads
        clock = time.perf_counter
        with self._lock:
            alive = self._prepare(args)
            self._check(run(target, argument, threads))
            times = []
            for _ in range(repeat):
                start = clock()
                for _ in range(number):
                    run(target, argument, threads)
                times.append((clock() - start) / number)
            del alive
        return times

    def _prepare(self, args: Sequence[Any]) -> list[Any]:
        if len(args) != len(self._pack):
            expected = ", ".join(str(param) for param in self.info.params)
            raise InputError(f"{self.info.name} takes {len(self._pack)} arguments ({expected}), {len(args)} given")
        try:
            return [pack(value) for pack, value in zip(self._pack, args)]
        except InputError as error:
            raise InputError(f"{self.info.name}: {error}") from None

    def _check(self, code: int) -> None:
        if code:
            raise InputError(f"{self.info.name}: {failure_text(self._module.messages, code)}")


def failure_text(messages: Sequence[str], code: int) -> str:
    """What a nonzero result of compiled code means: a 1-based index into the module's assertion texts."""
    return messages[code - 1] if 0 < code <= len(messages) else f"compiled code failed with status {code}"


def _packer(param: Param, slots: Any, index: int) -> Any:
    """A function that checks one argument and puts it into its slot; it returns what has to stay alive."""
    return _scalar_packer(param, slots, index) if param.is_scalar else _buffer_packer(param, slots, index)


def _scalar_packer(param: Param, slots: Any, index: int) -> Any:
    """The scalar's own bytes at the start of the slot (little endian: also right for an entry that loads 32 bits)."""
    place = slots._type_.from_buffer(slots, 8 * index)
    view = np.frombuffer(place, DType(param.dtype).numpy, 1)
    zero = np.frombuffer(place, np.uint64)

    def pack(value: Any) -> None:
        zero[0] = 0
        try:
            view[0] = value
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"argument {param} got {value!r} ({error})") from None

    return pack


def _buffer_packer(param: Param, slots: Any, index: int) -> Any:
    dtype = DType(param.dtype).numpy
    shape = param.shape

    def pack(value: Any) -> Array:
        array = value if type(value) is np.ndarray else _array(value, param)
        if array.dtype != dtype or not (shape is None or _fits(array.shape, shape)):
            raise InputError(f"argument {param} got {array.dtype}{list(array.shape)}")
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned):
            raise InputError(f"argument {param} must be C-contiguous and aligned; copy it with np.ascontiguousarray")
        if param.written and not flags.writeable:
            raise InputError(f"argument {param} is read-only memory, which the function may write to; pass a copy")
        slots[index] = address_of(array)
        return array

    return pack


def _array(value: Any, param: Param) -> Array:
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return import_array(value)
    raise InputError(f"argument {param} must be a Tensor or array, not {type(value).__name__}")


def _fits(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(shape) == len(expected) and all(want is None or want == got for want, got in zip(expected, shape))
