"""Programs of devices of thread blocks: one allocation of device memory, weights uploaded once, calls recorded once.

Inputs are copied to the device before a run and outputs back after it, unless they are there already (`exchange`);
nothing between kernels passes through Python where the device has lists of work (CUDA graphs, command buffers). With
symbolic sizes there is a recording for each set of sizes that was run lately.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from tilewright.errors import ArtifactError, UnsupportedError
from tilewright.runtime.gpu.allocation import allocate_together, fixed_sizes
from tilewright.runtime.gpu.api import Buffer, Copy, DeviceApi, Kernel, Launch, Recording
from tilewright.runtime.gpu.array import DeviceArray
from tilewright.runtime.gpu.code import DeviceCode, load_best
from tilewright.runtime.gpu.devices import open_device, ordinal_of
from tilewright.runtime.gpu.exchange import RunOrder, bind_outputs, bind_value
from tilewright.runtime.gpu.module import DeviceFunctionInfo
from tilewright.runtime.gpu.occupancy import occupancy
from tilewright.runtime.gpu.resident import ResidentArray, Uploads
from tilewright.runtime.gpu.unread import is_for_nothing, unread_results
from tilewright.runtime.link import split_objects
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array, round_up
from tilewright.runtime.module import Param
from tilewright.runtime.plan import ExecutionPlan, KernelCall, Location
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.program import Caller, Runner, Transfers
from tilewright.runtime.program import Program as AnyProgram
from tilewright.runtime.shape_program import RunPlan, ShapeProgram, compile_expressions
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.tensor import Tensor
from tilewright.support.dtype import DType

#: Sets of sizes whose recordings are kept.
_KEPT = 16
#: Launches that loops of the host around kernels may come to.
_MOST_LAUNCHES = 1 << 16


class Function:
    """A function of the compiler: kernels in order, and temporaries between them in its workspace."""

    def __init__(self, info: DeviceFunctionInfo, kernels: Mapping[str, Kernel]) -> None:
        self.info, self._kernels = info, kernels
        self.scalars = [param.name for param in info.params if param.is_scalar]
        self._sizes = compile_expressions(self.scalars, [made["elements"] for made in info.temporaries])

    def launches(
        self,
        api: DeviceApi,
        values: dict[str, Any],
        workspace: Buffer | None,
        offset: int,
        unread: frozenset[str] = frozenset(),
    ) -> list[Launch]:
        """The launches for `values` by parameter: buffers and numbers; temporaries lie in `workspace` from `offset`.

        Those that write `unread` parameters alone are left out.
        """
        numbers = [int(values[name]) for name in self.scalars]
        for made, elements in zip(self.info.temporaries, self._sizes(*numbers), strict=True):
            nbytes = max(1, int(elements)) * DType(made["dtype"]).itemsize
            if workspace is None:
                raise ArtifactError(f"the kernel {self.info.name} has no workspace. Compile the model again")
            values[made["name"]] = api.view(workspace, offset if elements else 0, nbytes)
            offset += round_up(nbytes, api.alignment)
        found: list[Launch] = []
        self._follow(self.info.steps, values, self.scalars, unread, found)
        return found

    def _follow(
        self,
        steps: Sequence[Mapping[str, Any]],
        values: dict[str, Any],
        names: Sequence[str],
        unread: frozenset[str],
        found: list[Launch],
    ) -> None:
        """Append the launches of `steps`; loops of the host are written out."""
        for step in steps:
            numbers = [int(values[name]) for name in names]
            if "kernel" in step:
                grid = tuple(int(n) for n in compile_expressions(names, step["grid"])(*numbers))
                if min(grid) > 0 and not is_for_nothing(step, unread):
                    arguments = [values[name] for name in step["args"]]
                    made = (
                        self._kernels[step["kernel"]],
                        grid,
                        tuple(step["block"]),
                        arguments,
                        step.get("shared_bytes", 0),
                    )
                    found.append(Launch(*made))  # type: ignore[arg-type]
            elif "loop" in step:
                low, extent = compile_expressions(names, [step["min"], step["extent"]])(*numbers)
                kind = DType(step["dtype"]).numpy.type
                for i in range(low, low + extent):
                    again = {**values, step["loop"]: kind(i)}
                    self._follow(step["body"], again, [*names, step["loop"]], unread, found)
            elif "if" in step:
                (holds,) = compile_expressions(names, [step["if"]])(*numbers)
                self._follow(step["then" if holds else "else"], values, names, unread, found)
            else:
                raise UnsupportedError(f"{self.info.name} calls the host's {step.get('call')!r} between its kernels")
            if len(found) > _MOST_LAUNCHES:
                raise UnsupportedError(f"{self.info.name} takes more than {_MOST_LAUNCHES} launches of kernels")


@dataclass(frozen=True)
class Recorded:
    """A plan recorded for one set of sizes: its buffers, and the number of the call that each step belongs to."""

    inputs: list[Buffer]
    outputs: list[Buffer]
    recording: Recording
    steps: list[Launch | Copy]
    calls: list[int]


class Segment:
    """A plan on a device: its memory and its recordings."""

    def __init__(
        self,
        plan: ExecutionPlan,
        api: DeviceApi,
        functions: Mapping[str, Function],
        weights: Buffer,
        shapes: ShapeProgram | None,
        memory: Sequence[Buffer] = (),
    ) -> None:
        """`memory`: where they are allocated already, the arena, inputs and outputs of a plan of fixed sizes."""
        self.plan, self.api, self._functions, self._weights = plan, api, functions, weights
        self.shapes = shapes
        self._unread = unread_results(plan, {name: function.info for name, function in functions.items()})
        self._arena: Buffer | None = memory[0] if memory else None
        self._arena_bytes = plan.arena_bytes if memory else 0
        self._fixed = list(memory[1:])
        self._recorded: OrderedDict[tuple[Any, ...], Recorded] = OrderedDict()

    def prepared(self, arrays: Sequence[Any]) -> tuple[Recorded, list[tuple[int, ...]]]:
        """The recording for the sizes of `arrays`, which are copied to its inputs, and the shapes of the outputs."""
        run = None if self.shapes is None else self.shapes.plan(arrays)
        shapes = [spec.static_shape for spec in self.plan.outputs] if run is None else list(run.outputs)
        key = tuple(_identity(array) for array in arrays)
        if key not in self._recorded:
            self.reserve(self.plan.arena_bytes if run is None else run.arena_bytes)
            sizes = [0 if _is_fixed(array) else array.nbytes for array in arrays]
            sizes += [
                math.prod(shape) * spec.numpy.itemsize for shape, spec in zip(shapes, self.plan.outputs, strict=True)
            ]
            buffers = self._fixed or allocate_together(self.api, sizes)
            outputs = buffers[len(arrays) :]
            inputs = [array.buffer if _is_fixed(array) else buffer for array, buffer in zip(arrays, buffers)]
            steps, calls = self.steps(inputs, outputs, run)
            self._recorded[key] = Recorded(inputs, outputs, self.api.record(steps), steps, calls)
            while len(self._recorded) > _KEPT:
                self._recorded.popitem(last=False)
        self._recorded.move_to_end(key)
        recorded = self._recorded[key]
        for buffer, array in zip(recorded.inputs, arrays, strict=True):
            if array.nbytes and isinstance(array, DeviceArray):
                if buffer is not array.buffer:
                    self.api.copy(array.buffer, buffer, array.nbytes)
            elif array.nbytes and not array.dtype.hasobject:  # no kernel reads texts
                self.api.write(buffer, np.ascontiguousarray(array))
        return recorded, [tuple(shape) for shape in shapes]

    def reserve(self, nbytes: int) -> None:
        """Have an arena of `nbytes`; recordings on a smaller one are made anew."""
        if self._arena is None or nbytes > self._arena_bytes:
            self._recorded.clear()
            self._arena = None  # the old one is freed first
            self._arena, self._arena_bytes = self.api.allocate(max(self.api.alignment, nbytes)), nbytes

    def steps(
        self, inputs: list[Buffer], outputs: list[Buffer], run: RunPlan | None
    ) -> tuple[list[Launch | Copy], list[int]]:
        """All launches and copies of the plan, and the number of the call that each belongs to."""
        steps: list[Launch | Copy] = []
        calls: list[int] = []
        table = () if run is None else run.table
        bases = {"input": inputs, "output": outputs, "weights": self._weights, "arena": self._arena}
        for number, call in enumerate(self.plan.kernels):
            made = self._copy(call, bases, table) if call.is_copy else self._launches(number, bases, table)
            steps += made
            calls += [number] * len(made)
        return steps, calls

    def _copy(self, call: KernelCall, bases: Mapping[str, Any], table: Sequence[int]) -> list[Launch | Copy]:
        known = call.name.rpartition("_")[2]
        nbytes = int(known) if known.isdigit() else table[call.args[2].offset]
        source, target = (self._buffer(arg, nbytes, bases, table) for arg in call.args[:2])
        return [Copy(source, target, nbytes)] if nbytes else []

    def _launches(self, number: int, bases: Mapping[str, Any], table: Sequence[int]) -> list[Launch]:
        call = self.plan.kernels[number]
        function = self._functions.get(call.name)
        if function is None:
            raise ArtifactError(f"the device code has no kernel {call.name!r}. Compile the model again")
        params, values = function.info.params, dict[str, Any]()
        for param, arg in zip(params, call.args):
            if param.is_scalar:
                values[param.name] = DType(param.dtype).numpy.type(table[arg.offset])
        for param, arg in zip(params, call.args):
            if not param.is_scalar:
                values[param.name] = self._buffer(arg, _nbytes(param, values), bases, table)
        workspace = call.args[len(params)] if len(call.args) > len(params) else None
        offset = 0 if workspace is None else _offset(workspace, table)
        memory = bases["arena"] if workspace is not None else None
        return function.launches(self.api, values, memory, offset, self._unread[number])

    def _buffer(self, where: Location, nbytes: int | None, bases: Mapping[str, Any], table: Sequence[int]) -> Buffer:
        """The memory of a kernel's argument; without a size it reaches to the end of the arena."""
        if where.space in ("input", "output"):
            return bases[where.space][where.offset]
        if nbytes is None:
            nbytes = max(0, self._arena_bytes - _offset(where, table))
        offset = _offset(where, table) if nbytes else 0  # what is empty may lie behind the end
        return self.api.view(bases[where.space], offset, max(1, nbytes))


def _is_fixed(array: Any) -> bool:
    """True for an input that recordings read in place."""
    return isinstance(array, DeviceArray) and array.is_fixed


def _identity(array: Any) -> tuple[Any, ...]:
    """The shape of an input, and of one that is fixed its memory, which the recording keeps."""
    return (array.shape, id(array.buffer)) if _is_fixed(array) else (array.shape,)


def _offset(where: Location, table: Sequence[int]) -> int:
    return where.offset + sum(table[slot] for slot in where.slots)


def _nbytes(param: Param, values: Mapping[str, Any]) -> int | None:
    """The bytes of a buffer that is passed for a parameter; None where a dimension is computed, as that of a tile."""
    extents = [int(values[n]) if isinstance(n, str) else n for n in param.shape or ()]
    if any(n is None for n in extents):
        return None
    return math.prod(n for n in extents if n is not None) * DType(param.dtype).itemsize


class Program(AnyProgram):
    """A model on a device of thread blocks."""

    keeps_values = True

    def __init__(self, manifest: Manifest, api: DeviceApi, functions: Mapping[str, Function], weights: Array) -> None:
        super().__init__(manifest, weights)
        self.api, self._order = api, RunOrder(api)
        fixed = fixed_sizes(self.plans[0]) if len(self.plans) == 1 and self.shapes[0] is None else []
        stored, *memory = allocate_together(api, [weights.nbytes, *fixed])
        if weights.nbytes:
            api.write(stored, weights)
        self.segments = [
            Segment(plan, api, functions, stored, shapes, memory) for plan, shapes in zip(self.plans, self.shapes)
        ]
        self.begin()

    @classmethod
    def load(cls, manifest: Manifest, code: bytes, weights: Array) -> Self:
        """Load the kernels on the device of this machine of the model's kind."""
        groups = [[DeviceCode.decode(one) for one in split_objects(part)] for part in split_objects(code) if part]
        kinds = {(one.kind, one.emulate) for group in groups for one in group}
        if len(kinds) > 1:
            raise ArtifactError("the device code is for several kinds of device. Compile the model again")
        words = manifest.target.split()
        kind, emulate = kinds.pop() if kinds else (words[0].partition(":")[0], "-emulate=1" in words)
        api = open_device(kind, emulate, ordinal_of(manifest.target))
        functions = {
            info.name: Function(info, kernels)
            for group in groups
            for best, kernels in [load_best(group, api)]
            for info in best.functions
        }
        return cls(manifest, api, functions, weights)

    def runner(self, number: int) -> Runner:
        """Inputs in, the recording, outputs out; those stay on the device where an input is there."""

        def run(arrays: Sequence[Any], given: Sequence[Any] | None, workers: int) -> tuple[list[Any], int]:
            results = self._run(number, arrays, lambda shapes: self._outputs(number, arrays, given, shapes))
            return results if given is None else list(given), 0

        return run

    def caller(self, number: int) -> Caller:
        """The same for values of a program, which stay on the device: each host array is copied there once a run."""
        plan, api = self.plans[number], self.api

        def outputs(shapes: Sequence[tuple[int, ...]]) -> list[Any]:
            pairs = enumerate(zip(shapes, plan.outputs, strict=True))
            return [
                ResidentArray(api, shape, spec.numpy, self._transfers).noted(partial(read.add, index))
                for index, (shape, spec) in pairs
            ]

        def call(values: Sequence[Any], workers: int) -> tuple[list[Any], int]:
            ahead = sorted(read)  # what the host read of the runs before
            return self._run(number, self.arguments(number, values), outputs, ahead), 0

        read: set[int] = set()
        return call

    def arguments(self, number: int, values: Sequence[Any]) -> list[Any]:
        """Checked arrays on the device."""
        bound = [self.bind(value, spec) for value, spec in zip(values, self.plans[number].inputs)]
        return [array if isinstance(array, DeviceArray) else self._uploads.array(array) for array in bound]

    def _run(
        self,
        number: int,
        arrays: Sequence[Any],
        outputs: Callable[[Sequence[tuple[int, ...]]], list[Any]],
        ahead: Sequence[int] = (),
    ) -> list[Any]:
        """Inputs in, the recording, outputs out, to the arrays that `outputs` makes for their shapes.

        Copies to the host of those whose numbers are in `ahead` are queued.
        """
        api = self.api
        with self._order.turn(arrays):
            recorded, shapes = self.segments[number].prepared(arrays)
            recorded.recording.run()
            results = outputs(shapes)
            for buffer, array in zip(recorded.outputs, results):
                if array.nbytes and isinstance(array, DeviceArray):
                    api.copy(buffer, array.buffer, array.nbytes)
                elif array.nbytes:
                    api.read(buffer, array)
            for index in ahead:
                results[index].fetch()
            self._order.done(results)
        return results

    def facts(self) -> Mapping[str, Any]:
        """Figures of the device by its driver."""
        found: Mapping[str, Any] = getattr(self.api, "facts", dict)()
        return {"name": self.api.name, **found}

    def begin(self) -> None:
        """Forget what was copied in the run before."""
        self._transfers = Transfers()
        self._uploads = Uploads(self.api, self._transfers)

    @property
    def transfers(self) -> Transfers:
        """Copies between host and device in the last run of a program."""
        return self._transfers

    def to_host(self, value: Any) -> Any:
        """The value, and those of its fields, in the host's memory."""
        if isinstance(value, DeviceArray):
            return value.numpy()
        return tuple([self.to_host(field) for field in value]) if type(value) is tuple else value

    def returned(self, values: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """On the device where an input is, else on the host."""
        if not any(isinstance(value, DeviceArray) for value in given):
            return [self.to_host(value) for value in values]
        plain = [isinstance(value, np.ndarray) and not value.dtype.hasobject for value in values]
        return [self._uploads.array(value) if host else value for value, host in zip(values, plain)]

    def _outputs(
        self, number: int, arrays: Sequence[Any], given: Sequence[Any] | None, shapes: Sequence[tuple[int, ...]]
    ) -> list[Any]:
        """The arrays that a run fills."""
        specs = self.plans[number].outputs
        if given is not None:
            return bind_outputs(self.api, given, specs, shapes)
        if any(isinstance(array, DeviceArray) for array in arrays):
            return [DeviceArray(self.api, shape, spec.numpy) for shape, spec in zip(shapes, specs)]
        return self.results(number, None, shapes)

    def bind(self, value: Any, spec: TensorSpec, specs: Sequence[TensorSpec] = ()) -> Any:
        """A `DeviceArray` for what is in the device's memory, else a host array."""
        return bind_value(self.api, value, spec, specs)

    def bind_on_host(self, value: Any, spec: TensorSpec, specs: Sequence[TensorSpec] = ()) -> Any:
        """A host array; what is in the device's memory is copied."""
        bound = self.bind(value, spec, specs)
        return bound.numpy() if isinstance(bound, DeviceArray) else bound

    def on_device(self, value: Any) -> DeviceArray:
        """A copy of an array in the device's memory."""
        array = np.ascontiguousarray(Tensor.from_dlpack(value).numpy())
        return DeviceArray(self.api, array.shape, array.dtype).write(array)

    def time(
        self, number: int, arrays: Sequence[Any], workers: int, repeat: int, warmup: int, check: Callable[[int], None]
    ) -> list[float]:
        """Seconds of each run of the recording on the device, inputs in its memory."""
        with self._order.turn(arrays):
            recorded, _ = self.segments[number].prepared(arrays)
            times = []
            for turn in range(warmup + repeat):
                self.api.synchronize()
                start = time.perf_counter()
                recorded.recording.run()
                self.api.synchronize()
                if turn >= warmup:
                    times.append(time.perf_counter() - start)
        return times

    def profile(
        self, number: int, arrays: Sequence[Array], workers: int, repeat: int, check: Callable[[int], None]
    ) -> list[KernelTime]:
        """The time of each call's launches, by the device's clock."""
        segment = self.segments[number]
        least, shares = [math.inf] * len(segment.plan.kernels), list[float | None]()
        with self._order.turn(arrays):
            recorded, _ = segment.prepared(arrays)
            for _ in range(max(1, repeat)):
                spent = [0.0] * len(least)
                for call, seconds in zip(recorded.calls, recorded.recording.times(), strict=True):
                    spent[call] += seconds
                least = [min(pair) for pair in zip(least, spent)]
            shares = [self._occupancy(recorded, call) for call in range(len(least))]
        return [
            KernelTime(
                call.name, call.source_text, seconds, call.flops or 0, call.bytes or 0, call.choice, occupancy=share
            )
            for call, seconds, share in zip(segment.plan.kernels, least, shares)
        ]

    def _occupancy(self, recorded: Recorded, number: int) -> float | None:
        """The least of a call's launches."""
        steps = [step for step, call in zip(recorded.steps, recorded.calls) if call == number]
        found = [occupancy(self.api, step) for step in steps if isinstance(step, Launch)]
        return min((share for share in found if share is not None), default=None)
