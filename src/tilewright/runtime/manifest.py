"""The manifest of a compiled model: what the compiler tells the runtime, as a tree of records (docs/artifact.md).

`Manifest.from_json(data)` checks the type of every field and what must hold between them, and raises one
`ArtifactError` that names the field; `to_json` gives the same data back. Keys that no record has are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tilewright.errors import ArtifactError
from tilewright.runtime.record import Record, Size, at
from tilewright.runtime.signature import TensorSpec, ValueSpec, describe
from tilewright.support.dtype import DType

#: Where an argument of a kernel may be.
SPACES = ("input", "output", "weights", "arena", "scratch", "table")


@dataclass(frozen=True, kw_only=True)
class Weight(Record):
    """One constant in the section of weights, in bytes."""

    name: str
    offset: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Kernel(Record):
    """A kernel call. Each of `args` is a space, a number or an offset in it, and entries of the table to add.

    `source` names the nodes of the model; `choice` is what its schedule chose.
    """

    name: str
    source: str | tuple[str, ...] = ""
    args: tuple[tuple[str | int, ...], ...] = ()
    flops: int | None = None
    bytes: int | None = None
    choice: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source_text(self) -> str:
        """The nodes of the model, as one text."""
        return self.source if isinstance(self.source, str) else ", ".join(self.source)


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
                    f"{at(at(at(where, 'buffers'), i), 'first')} is {buffer.first}, behind {buffer.last}"
                )

    @property
    def table_entries(self) -> int:
        """How many numbers the run loop reads."""
        return len(self.dims) + len(self.buffers) + 2 + len(self.values)


@dataclass(frozen=True, kw_only=True)
class SegmentManifest(Record):
    """A straight piece of a model: its entry, its tensors, its memory in bytes, its kernels in order.

    With symbolic sizes `dynamic` has those, and `checks` the texts of the checks of ``ENTRY__plan``, where that exists.
    """

    entry: str = "main"
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arena_bytes: int = 0
    worker_workspace_bytes: int = 0
    dynamic: SymbolicSizes | None = None
    kernels: tuple[Kernel, ...] = ()
    checks: tuple[str, ...] | None = None

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
                place = at(at(at(where, "dynamic"), name), i)
                index(one.input, len(self.inputs), at(place, "input"))
                index(one.axis, len(self.inputs[one.input].shape), at(place, "axis"))
        if sizes is not None and len({dim.name for dim in sizes.dims}) < len(sizes.dims):
            raise ArtifactError(f"{at(at(where, 'dynamic'), 'dims')} has two dimensions of one name")
        if sizes is not None:
            sizes.check_against(self.outputs, at(where, "dynamic"))
        elif self.is_native:
            for name, specs in (("inputs", self.inputs), ("outputs", self.outputs)):
                for i, spec in enumerate(specs):
                    if isinstance(spec, ValueSpec) or not spec.is_static or spec.dtype.is_string:
                        raise ArtifactError(f"{at(at(where, name), i)} is {spec}: no tensor of known size")
        counts = {"input": len(self.inputs), "output": len(self.outputs)}
        counts["table"] = 0 if sizes is None else sizes.table_entries
        for i, kernel in enumerate(self.kernels):
            place = at(at(where, "kernels"), i)
            for j, arg in enumerate(kernel.args):
                check_argument(arg, counts, at(at(place, "args"), j))
                if arg[0] == "arena" and sizes is None and int(arg[1]) > self.arena_bytes:
                    raise ArtifactError(f"{at(at(place, 'args'), j)} lies behind the arena's {self.arena_bytes} bytes")
            for name in ("alone", "microseconds"):  # which the runtime reads itself
                if not isinstance(kernel.choice.get(name, 0.0), int | float):
                    raise ArtifactError(f"{at(at(place, 'choice'), name)} must be a number")


@dataclass(frozen=True, kw_only=True)
class Loop(Record):
    """How a segment is repeated: its first results are what these inputs are in the next turn (None: none reads it).

    The last result says whether there is one; those between are collected, one row of an array a turn.
    """

    carried: tuple[int | None, ...]


@dataclass(frozen=True, kw_only=True)
class Packed(Record):
    """What an instruction of the virtual machine calls: a segment, by number, or a host operator with attributes.

    With a `loop` the segment is repeated; what it collects is added to lists, which are the last arguments.
    """

    segment: int | None = None
    loop: Loop | None = None
    host: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    operator: str = ""
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class LoadedConstant(Record):
    """A constant that an instruction loads: at `offset` among the weights, or texts in place."""

    shape: tuple[int, ...]
    dtype: str = ""
    offset: int = 0
    value: tuple[str, ...] | None = None

    def check_within(self, end: int, where: str) -> None:
        """Texts are as many as the shape says; numbers lie before the `end` of the weights."""
        count = math.prod(self.shape)
        if self.value is not None:
            if len(self.value) != count:
                raise ArtifactError(f"{where} has {len(self.value)} texts for the shape {list(self.shape)}")
            return
        try:
            if DType(self.dtype).is_string:
                raise ValueError("texts stand in the manifest")
            nbytes = count * DType(self.dtype).numpy.itemsize
        except (ValueError, TypeError, KeyError) as error:
            raise ArtifactError(f"{at(where, 'dtype')} is {self.dtype!r}: {error}") from None
        if self.offset + nbytes > end:
            raise ArtifactError(f"{where} ends at byte {self.offset + nbytes} of the weights, and there are {end}")


@dataclass(frozen=True, kw_only=True)
class Manifest(SegmentManifest):
    """A whole model. For the virtual machine `program`, `segments`, `packed` and `constants` are what is run."""

    executor: str = "graph"
    tilewright_version: str = ""
    target: str = ""
    arch: str = ""
    cpu_features: tuple[str, ...] = ()
    max_workers: int | None = None
    messages: tuple[str, ...] = ()
    weights: tuple[Weight, ...] = ()
    segments: tuple[SegmentManifest, ...] = ()
    program: Mapping[str, Any] | None = None
    packed: tuple[Packed, ...] = ()
    constants: tuple[LoadedConstant, ...] = ()

    what: ClassVar[str] = "manifest"

    @property
    def is_native(self) -> bool:
        """False for a model that is a program of the virtual machine."""
        return self.program is None

    def check(self, where: str) -> None:
        """What must hold in the model itself and in each of its segments. Raises `ArtifactError`."""
        SegmentManifest.check(self, where)
        if self.max_workers == 0:
            raise ArtifactError(f"{at(where, 'max_workers')} must be at least 1")
        for i, segment in enumerate(self.segments):
            segment.check(at(at(where, "segments"), i))
        self._check_weights(where)
        for i, packed in enumerate(self.packed):
            if packed.segment is not None:
                place = at(at(where, "packed"), i)
                index(packed.segment, len(self.segments), at(place, "segment"))
                if packed.loop is not None:
                    check_loop(packed.loop, self.segments[packed.segment], at(place, "loop"))

    def _check_weights(self, where: str) -> None:
        """Weights lie on cache lines one behind the other, and whatever reads some lies within them."""
        end = 0
        for i, weight in enumerate(self.weights):
            if weight.offset % 64:
                raise ArtifactError(
                    f"{at(at(at(where, 'weights'), i), 'offset')} is {weight.offset}, no multiple of 64"
                )
            end = max(end, weight.offset + weight.bytes)
        for segment in (self, *self.segments):
            for kernel in segment.kernels if self.weights else ():
                for arg in kernel.args:
                    if arg[0] == "weights" and int(arg[1]) > end:
                        raise ArtifactError(
                            f"{where}: kernel {kernel.name!r} reads weights behind byte {end}, their last"
                        )
        for i, constant in enumerate(self.constants):
            constant.check_within(end, at(at(where, "constants"), i))


def check_loop(loop: Loop, segment: SegmentManifest, where: str) -> None:
    """What a loop carries must be as its segment has it, and its test one boolean."""
    if len(loop.carried) >= len(segment.outputs) or segment.outputs[-1].dtype != "bool":
        raise ArtifactError(f"{where} carries {len(loop.carried)} values, the segment does not give as many and a test")
    for k, place in enumerate(loop.carried):
        if place is None:
            continue
        index(place, len(segment.inputs), at(at(where, "carried"), k))
        given, made = segment.inputs[place], segment.outputs[k]
        if (given.shape, given.dtype) != (made.shape, made.dtype):
            raise ArtifactError(f"{at(at(where, 'carried'), k)} is {place}: {given} does not become {made}")


def check_argument(arg: Sequence[Any], counts: Mapping[str, int], where: str) -> None:
    """An argument of a kernel names a space and what is in it; `counts` are how many things some spaces hold."""
    space, *numbers = arg or ("nothing",)
    if space not in SPACES:
        raise ArtifactError(f"{where} is from an unknown space {space!r}; there are: {', '.join(SPACES)}")
    if not numbers or not all(isinstance(number, int) for number in numbers):
        raise ArtifactError(f"{where} must be a space and numbers; got {list(arg)!r}")
    for entry in numbers[1:]:
        index(entry, counts["table"], where)
    if space in counts:
        index(numbers[0], counts[space], where)


def index(value: int, count: int, where: str) -> None:
    """Raise `ArtifactError` unless `value` is the number of one of `count` things."""
    if value >= count:
        raise ArtifactError(f"{where} is {value}, and there are {count}")
