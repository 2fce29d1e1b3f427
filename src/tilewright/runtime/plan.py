"""Execution plans: kernel calls over (space, offset, entries of a table), and the memory that they need, as data.

    fused_nn_conv2d_add(input 0, weights + 0, weights + 4096, arena + 0)
    fused_nn_dense(arena + 0, weights + 8192, output 0)

The compiler makes one for each straight graph of a model (`driver/plan.py`), a device makes its code from it, such as
the run loop of processors, and the runtime runs by it. It is part of the manifest (docs/artifact.md). Inputs, outputs
and weights are memory of the caller's: a device with a memory of its own copies them in and out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tilewright.errors import ArtifactError
from tilewright.runtime.record import LARGEST, Record, Size, at
from tilewright.runtime.signature import TensorSpec, ValueSpec, describe

#: Kinds of memory, or the table of numbers, that an argument of a kernel may be in.
Space = Literal["input", "output", "weights", "arena", "scratch", "table"]
SPACES: tuple[str, ...] = get_args(Space)

#: Names of calls that copy bytes begin so; no kernel's does.
COPY = "copy_"


@dataclass(frozen=True, slots=True)
class Location:
    """An argument of a kernel: `offset` is an ordinal for inputs and outputs, bytes for the other spaces.

    `slots` are entries of the table whose values are added to the offset. In the space "table" the argument is the
    entry number `offset` itself, a dimension.
    """

    space: Space
    offset: int
    slots: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, data: Any) -> Location:
        """From `[space, offset, entries …]`. Raises `ArtifactError` for anything else."""
        space, *numbers = data if isinstance(data, list | tuple) and data else ("nothing",)
        if space not in SPACES:
            raise ArtifactError(f"is from an unknown space {space!r}; there are: {', '.join(SPACES)}")
        if not numbers or not all(type(number) is int and 0 <= number <= LARGEST for number in numbers):
            raise ArtifactError(f"must be a space and numbers; got {list(data)!r}")
        return cls(space, numbers[0], tuple(numbers[1:]))

    def to_json(self) -> list[Any]:
        """Plain data for a manifest."""
        return [self.space, self.offset, *self.slots]

    def check(self, counts: Mapping[str, int], where: str) -> None:
        """Raise `ArtifactError` unless what is named exists; `counts` are how many things some spaces hold."""
        for entry in self.slots:
            index(entry, counts["table"], where)
        if self.space in counts:
            index(self.offset, counts[self.space], where)


@dataclass(frozen=True, kw_only=True)
class KernelCall(Record):
    """A call of the kernel `name`: its inputs in order, its outputs, dimensions, and its workspace where it needs one.

    `source` names the nodes of the model; `choice` is what its schedule chose.
    """

    name: str
    source: str | tuple[str, ...] = ""
    args: tuple[Location, ...] = ()
    flops: int | None = None
    bytes: int | None = None
    choice: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source_text(self) -> str:
        """The nodes of the model, as one text."""
        return self.source if isinstance(self.source, str) else ", ".join(self.source)

    @property
    def is_copy(self) -> bool:
        """True if it copies its first argument into an output: all bytes of that, or as many as its third says."""
        return self.name.startswith(COPY)


@dataclass(frozen=True, kw_only=True)
class SymbolicDim(Record):
    """A dimension known when the model runs, and the input and axis that it is read off."""

    name: str
    input: int
    axis: int


@dataclass(frozen=True, kw_only=True)
class CheckedAxis(Record):
    """An axis of an input that must have the size `value`."""

    input: int
    axis: int
    value: Size


@dataclass(frozen=True, kw_only=True)
class ArenaBuffer(Record):
    """A buffer in the arena, its bytes and the first and the last step that touch it."""

    bytes: Size
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class EqualSizes(Record):
    """Two sizes that must be equal for the operator `where`."""

    a: Size
    b: Size
    where: str


@dataclass(frozen=True, kw_only=True)
class SymbolicSizes(Record):
    """All that follows from the dimensions of a segment: see `runtime.shape_program`, which computes it."""

    dims: tuple[SymbolicDim, ...]
    checks: tuple[CheckedAxis, ...] = ()
    buffers: tuple[ArenaBuffer, ...] = ()
    values: tuple[Size, ...] = ()
    equal: tuple[EqualSizes, ...] = ()
    workspace_bytes: tuple[Size, ...] = ()
    worker_workspace_bytes: tuple[Size, ...] = ()
    output_shapes: tuple[tuple[Size, ...], ...] = ()
    elements: tuple[Size, ...] = ()

    def check_against(self, outputs: Sequence[TensorSpec], where: str) -> None:
        """Shapes are one for each of `outputs`, of its rank; buffers are not dead before they live."""
        ranks = [len(shape) for shape in self.output_shapes]
        wanted = [rank if isinstance(spec, ValueSpec) else len(spec.shape) for rank, spec in zip(ranks, outputs)]
        if len(ranks) != len(outputs) or ranks != wanted:
            raise ArtifactError(
                f"{at(where, 'output_shapes')} are of ranks {ranks}; the outputs are {describe(outputs)}"
            )
        for i, buffer in enumerate(self.buffers):
            if buffer.first > buffer.last:
                raise ArtifactError(
                    f"{at(at(at(where, 'buffers'), i), 'first')} is {buffer.first}, after the last step, {buffer.last}"
                )

    @property
    def stride_entry(self) -> int:
        """The number of the entry with the bytes of scratch memory of one worker."""
        return len(self.dims) + len(self.buffers) + 1

    @property
    def table_entries(self) -> int:
        """The number of entries of the table: dimensions, offsets, the workspace's, the stride, computed sizes."""
        return self.stride_entry + 1 + len(self.values)


@dataclass(frozen=True, kw_only=True)
class ExecutionPlan(Record):
    """A straight graph of a model: its entry, its tensors, its memory in bytes, its kernel calls in order.

    Buffers begin at multiples of `alignment` bytes. With symbolic sizes `dynamic` has those, and `checks` the texts of
    the checks of ``ENTRY__plan``, where that exists.
    """

    entry: str = "main"
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arena_bytes: int = 0
    worker_workspace_bytes: int = 0
    dynamic: SymbolicSizes | None = None
    kernels: tuple[KernelCall, ...] = ()
    checks: tuple[str, ...] | None = None
    alignment: int = 64

    @property
    def entry_symbol(self) -> str:
        """The symbol of the packed entry."""
        return f"{self.entry}__entry"

    @property
    def is_native(self) -> bool:
        """True if compiled code takes the inputs and fills the outputs; else a program does."""
        return True

    @property
    def run_symbol(self) -> str:
        """The symbol of the function that has the pool share the kernels out; code written by hand may lack it."""
        return f"{self.entry}__run"

    def check(self, where: str) -> None:
        """Numbers of inputs, outputs, axes and table entries must exist. Raises `ArtifactError`."""
        sizes = self.dynamic
        for name in ("dims", "checks") if sizes is not None else ():
            for i, one in enumerate(getattr(sizes, name)):
                position = at(at(at(where, "dynamic"), name), i)
                index(one.input, len(self.inputs), at(position, "input"))
                index(one.axis, len(self.inputs[one.input].shape), at(position, "axis"))
        if sizes is not None and len({dim.name for dim in sizes.dims}) < len(sizes.dims):
            raise ArtifactError(f"{at(at(where, 'dynamic'), 'dims')} has two dimensions of one name")
        if sizes is not None:
            sizes.check_against(self.outputs, at(where, "dynamic"))
        elif self.is_native:
            for name, specs in (("inputs", self.inputs), ("outputs", self.outputs)):
                for i, spec in enumerate(specs):
                    if isinstance(spec, ValueSpec) or not spec.is_static or spec.dtype.is_string:
                        raise ArtifactError(f"{at(at(where, name), i)} is {spec}: no tensor of known size")
        if self.alignment < 1 or self.alignment & (self.alignment - 1):
            raise ArtifactError(f"{at(where, 'alignment')} is {self.alignment}, no power of two")
        counts = {"input": len(self.inputs), "output": len(self.outputs)}
        counts["table"] = 0 if sizes is None else sizes.table_entries
        for i, kernel in enumerate(self.kernels):
            position = at(at(where, "kernels"), i)
            for j, arg in enumerate(kernel.args):
                arg.check(counts, at(at(position, "args"), j))
                if arg.space == "arena" and sizes is None and arg.offset > self.arena_bytes:
                    raise ArtifactError(
                        f"{at(at(position, 'args'), j)} lies beyond the arena's {self.arena_bytes} bytes"
                    )
            for name in ("alone", "microseconds"):  # which the runtime reads itself
                if not isinstance(kernel.choice.get(name, 0.0), int | float):
                    raise ArtifactError(f"{at(at(position, 'choice'), name)} must be a number")


def index(value: int, count: int, where: str) -> None:
    """Raise `ArtifactError` unless `value` is the number of one of `count` things."""
    if value >= count:
        raise ArtifactError(f"{where} is {value}, and there are {count}")
