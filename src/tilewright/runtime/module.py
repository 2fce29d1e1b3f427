"""`Module`: compiled functions in this process, called from Python.

    mod = backend.build([func], target)
    mod["matmul"](a, b, c)                   # Tensors, NumPy arrays or scalars, in the order of the parameters
    mod["matmul"].time(a, b, c, repeat=10)   # seconds of each call

A module is one object file plus what has to be known to call it: for each function its parameters and how much working
memory it needs. Each function `k` has a packed entry ``i32 k__entry(ptr slots, ptr ctx)``; every slot is 8 bytes and
holds a buffer's address or a scalar. A function with working memory takes two more slots: shared and per-worker memory.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.container import read_container, write_container
from tilewright.runtime.dlpack import import_array
from tilewright.runtime.link import link
from tilewright.runtime.memory import ALIGNMENT, Array, Region, address_of, round_up
from tilewright.runtime.native import KINDS, PoolCode, native
from tilewright.runtime.packed import raise_failure
from tilewright.runtime.record import Record
from tilewright.runtime.tensor import Tensor
from tilewright.runtime.threads import available_processors, default_workers
from tilewright.support.dtype import DType
from tilewright.support.forks import held_here, own_lock

FORMAT = "tilewright-module"


@dataclass(frozen=True)
class Param(Record):
    """One parameter: a buffer (`shape` None: any; an entry None: any extent) or, with `is_scalar`, a scalar.

    An entry of `shape` that is a string names the scalar parameter that must equal the extent. An `inferred` scalar is
    not given by the caller but read off the first shape that names it. `written` False promises that the function only
    reads the buffer, so that read-only memory may be given.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None = None
    is_scalar: bool = False
    written: bool = True
    inferred: bool = False

    def __str__(self) -> str:
        if self.is_scalar:
            return f"{self.name}: {self.dtype}"
        extents = "..." if self.shape is None else ", ".join("?" if n is None else str(n) for n in self.shape)
        return f"{self.name}: {self.dtype}[{extents}]"


@dataclass(frozen=True)
class FunctionInfo(Record):
    """The calling convention of one function: its parameters (working memory not among them) and its working memory in
    bytes.

    Where one of the two sizes is not 0, the entry takes both pointers after the parameters. It does so too where
    `workspace_function` names the function that computes the sizes from the parameters: its entry takes the parameters
    and the address of two int64 for the result. One that is not `parallel` has nothing for a second worker to do; where
    workers wait for each other within it, it `meets`.
    """

    name: str
    params: tuple[Param, ...]
    workspace_bytes: int = 0
    worker_workspace_bytes: int = 0
    workspace_function: str = ""
    parallel: bool = True
    meets: bool = True


@dataclass(frozen=True, kw_only=True)
class ModuleManifest(Record):
    """The manifest of a saved module, beside its code."""

    target: str = ""
    messages: tuple[str, ...] = ()
    functions: tuple[FunctionInfo, ...]

    what: ClassVar[str] = "manifest"


def _unpickled(kind: type[Module], pool: PoolCode, *parts: Any) -> Module:
    native(pool)
    return kind(*parts)


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
        called = [*self.functions, *(f.workspace_function for f in self.functions.values() if f.workspace_function)]
        self._linked = link(object_code, [f"{name}__entry" for name in called], native().imports())
        self._callables: dict[str, Function] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as it is saved. To unpickle is to load native code (docs/security.md)."""
        parts = (self.object_code, tuple(self.functions.values()), self.messages, self.target, self.threads)
        return _unpickled, (type(self), native().pool, *parts)

    def __getitem__(self, name: str) -> Function:
        if name not in self._callables:
            if name not in self.functions:
                raise KeyError(f"the module has no function {name!r}; it has: {', '.join(self.functions)}")
            self._callables[name] = Function(self, self.functions[name], self._linked.addresses)
        return self._callables[name]

    def __contains__(self, name: str) -> bool:
        return name in self.functions

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the module to one file, whole or not at all."""
        functions = tuple(self.functions.values())
        save_module(path, self.object_code, functions, self.messages, self.target, native().pool)

    @classmethod
    def load(cls, path: str | os.PathLike[str], threads: int | None = None) -> Module:
        """Read what `save` wrote. Raises `ArtifactError` for anything else."""
        found = read_container(path, FORMAT)
        native(found.pool)
        manifest = ModuleManifest.from_json(found.manifest)
        return cls(found.object_code, manifest.functions, manifest.messages, manifest.target, threads)


def save_module(
    path: str | os.PathLike[str],
    object_code: bytes,
    functions: tuple[FunctionInfo, ...],
    messages: tuple[str, ...],
    target: str,
    pool: PoolCode,
) -> None:
    """Write functions that need not be loaded here to the file of a module, with the native runtime that they need."""
    manifest = ModuleManifest(target=target, messages=messages, functions=functions)
    write_container(path, {"format": FORMAT} | manifest.to_json(), object_code, pool=pool)


class Function:
    """One compiled function. Calls from several Python threads take turns."""

    def __init__(self, module: Module, info: FunctionInfo, addresses: Mapping[str, int]) -> None:
        self.info = info
        self.threads = module.threads if info.parallel else 1  # waking a worker takes longer than a small kernel
        self._module = module  # keeps the code alive
        self._run = native().parallel_run
        self._lock = own_lock(self, "_lock")
        entry = addresses[f"{info.name}__entry"]
        self._target, self._argument = entry, 0
        self._memory: list[Any] = []
        self._measure = addresses[f"{info.workspace_function}__entry"] if info.workspace_function else 0
        native().set_processors(available_processors())
        count = len(info.params)
        has_memory = bool(info.workspace_bytes or info.worker_workspace_bytes or self._measure)
        self._slots = (ctypes.c_uint64 * (count + 2 * has_memory + 1))()
        self._argument = ctypes.addressof(self._slots)
        packers = [_packer(param, self._slots, i) for i, param in enumerate(info.params)]
        self._given = [i for i, param in enumerate(info.params) if not param.inferred]
        self._pack = [packers[i] for i in self._given]
        self._extents = [(packers[i], i, positions) for i in range(count) if (positions := _positions(info, i))]
        if has_memory:
            call = (ctypes.c_uint64 * 5)(entry, self._argument, count + 2, count + 1, 0)
            self._memory = [Region(0), Region(0), call]
            self._target, self._argument = native().call_with_worker_memory, ctypes.addressof(call)
            self._allocate(info.workspace_bytes, info.worker_workspace_bytes)
        kind = KINDS["meeting" if info.meets else "shared"]
        self._task = (ctypes.c_uint64 * 11)(self._target, self._argument, kind)
        self._task_address = ctypes.addressof(self._task)

    def _allocate(self, shared_bytes: int, private_bytes: int) -> None:
        """Working memory in the two last slots; a call record in which each worker has its own part of the second."""
        shared, private, call = self._memory
        count = len(self.info.params)
        stride = round_up(private_bytes, ALIGNMENT)
        if shared_bytes > shared.size:
            shared = Region(shared_bytes)
        if stride * self.threads > private.size:
            private = Region(stride * self.threads)
        self._slots[count], self._slots[count + 1] = shared.address, private.address
        call[4] = stride
        self._memory = [shared, private, call]

    def _fit_memory(self) -> None:
        """Working memory as large as the arguments in the slots ask for."""
        sizes = (ctypes.c_int64 * 2)()
        count = len(self.info.params)
        self._slots[count] = ctypes.addressof(sizes)
        self._check(self._run(self._measure, ctypes.addressof(self._slots), 1))
        self._allocate(sizes[0], sizes[1])

    def _turn(self) -> Any:
        """The lock that a call holds. Raises `InputError` where the calling thread is in the midst of one."""
        if held_here(self._lock):
            raise InputError(
                f"{self.info.name} is already running in this thread: it was called again from a signal handler, a "
                "finalizer or a function that it calls. Load the module once more for that"
            )
        return self._lock

    def __call__(self, *args: Any) -> None:
        """Run once. Raises `InputError` for arguments that do not fit, or when an assertion of the function fails."""
        with self._turn():
            alive = self._prepare(args)
            self._check(native().run_task(self._task_address, self.threads))
            raise_failure()
            del alive

    def time(self, *args: Any, repeat: int = 10, number: int = 1) -> list[float]:
        """Seconds a call takes, `repeat` times the mean over `number` calls, arguments prepared once.

        All its workers take part in each of them, even where one has to be waited for.
        """
        run, target, argument, threads = self._run, self._target, self._argument, self.threads
        clock = time.perf_counter
        with self._turn():
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

    def prepared(self, *args: Any, turns: Mapping[int, Sequence[Array]] | None = None) -> Prepared:
        """A call with these arguments that can be timed again and again; see `Prepared`."""
        return Prepared(self, args, turns or {})

    def _prepare(self, args: Sequence[Any]) -> list[Any]:
        if len(args) != len(self._pack):
            expected = ", ".join(str(self.info.params[i]) for i in self._given)
            raise InputError(f"{self.info.name} takes {len(self._pack)} arguments ({expected}), {len(args)} given")
        try:
            alive = [pack(value) for pack, value in zip(self._pack, args)]
            if self._extents:
                self._match_extents(args, alive)
        except InputError as error:
            raise InputError(f"{self.info.name}: {error}") from None
        if self._measure:
            self._fit_memory()
        return alive

    def _match_extents(self, args: Sequence[Any], arrays: Sequence[Any]) -> None:
        """Puts inferred scalars into their slots; raises `InputError` where extents that must be equal differ."""
        where = {i: n for n, i in enumerate(self._given)}
        for pack, scalar, positions in self._extents:
            found = {(name, d): arrays[where[i]].shape[d] for i, name, d in positions}
            name, inferred = self.info.params[scalar].name, self.info.params[scalar].inferred
            value = next(iter(found.values())) if inferred else int(args[where[scalar]])
            for (buffer, d), extent in found.items():
                if extent != value:
                    origin = "{} has in dimension {}:".format(*next(iter(found))) if inferred else "is given as"
                    raise InputError(
                        f"dimension {d} of {buffer} is {extent}; it must be {name}, which {origin} {value}"
                    )
            if inferred:
                pack(value)

    def _check(self, code: int) -> None:
        if code:
            raise InputError(f"{self.info.name}: {failure_text(self._module.messages, code)}")


class Prepared:
    """A call of a function whose arguments were checked and put in place once.

    `turns` has arrays that take turns as a parameter, another one at each call: what is read is then as
    cold in the caches as if all of them were in use.
    """

    def __init__(self, function: Function, args: Sequence[Any], turns: Mapping[int, Sequence[Array]]) -> None:
        self._function, self._turns, self._call = function, turns, 0
        with function._turn():
            self._alive = function._prepare(args)
            self._values = list(function._slots)
        self._addresses = {index: [address_of(array) for array in arrays] for index, arrays in turns.items()}

    def seconds(self, number: int = 1) -> float:
        """The mean seconds of `number` calls, one right after the other."""
        function = self._function
        run, target, argument, threads = function._run, function._target, function._argument, function.threads
        slots, addresses = function._slots, list(self._addresses.items())
        with function._turn():
            slots[:] = self._values
            start = time.perf_counter()
            for _ in range(number):
                for index, positions in addresses:
                    slots[index] = positions[self._call % len(positions)]
                self._call += 1
                function._check(run(target, argument, threads))
            return (time.perf_counter() - start) / number


def _positions(info: FunctionInfo, index: int) -> list[tuple[int, str, int]]:
    """The dimensions that name the parameter `index`, if it is a scalar, each as (parameter, its name, dimension)."""
    scalar = info.params[index]
    return [
        (i, param.name, d)
        for i, param in enumerate(info.params)
        for d, extent in enumerate(param.shape or ())
        if scalar.is_scalar and extent == scalar.name
    ]


def failure_text(messages: Sequence[str], code: int) -> str:
    """The message of a nonzero result of compiled code: a 1-based index into the module's assertion texts."""
    return messages[code - 1] if 0 < code <= len(messages) else f"compiled code failed with status {code}"


def _packer(param: Param, slots: Any, index: int) -> Any:
    """A function that checks one argument and puts it into its slot; it returns what has to stay alive."""
    return _scalar_packer(param, slots, index) if param.is_scalar else _buffer_packer(param, slots, index)


def _scalar_packer(param: Param, slots: Any, index: int) -> Any:
    """The scalar's own bytes at the start of the slot (little endian: also right for an entry that loads 32 bits)."""
    position = slots._type_.from_buffer(slots, 8 * index)
    view = np.frombuffer(position, DType(param.dtype).numpy, 1)
    zero = np.frombuffer(position, np.uint64)

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


def _fits(shape: tuple[int, ...], expected: tuple[int | str | None, ...]) -> bool:
    """True if the constant extents agree; those named by a scalar are compared when all arguments are known."""
    return len(shape) == len(expected) and all(
        want == got if type(want) is int else True for want, got in zip(expected, shape)
    )
