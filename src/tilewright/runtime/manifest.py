"""The manifest of a compiled model: what the compiler tells the runtime, as a tree of records (docs/artifact.md).

`Manifest.from_json(data)` checks the type of every field and what must hold between them, and raises one
`ArtifactError` that names the field; `to_json` returns the same data. Keys that no record has are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tilewright.errors import ArtifactError
from tilewright.runtime.plan import ExecutionPlan, index
from tilewright.runtime.record import Record, at
from tilewright.support.dtype import DType


@dataclass(frozen=True, kw_only=True)
class Weight(Record):
    """One constant in the section of weights, in bytes."""

    name: str
    offset: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Loop(Record):
    """The repetition of a segment: its first results become these inputs in the next iteration (None: none reads it).

    The last result says whether there is one; those between are collected, one row of an array a turn.
    """

    carried: tuple[int | None, ...]


@dataclass(frozen=True, kw_only=True)
class Packed(Record):
    """The callee of an instruction of the virtual machine: a segment, by number, or a host operator with attributes.

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
class Part(Record):
    """The segments of a model, by their numbers, that run on one kind of device."""

    device: str
    segments: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Manifest(ExecutionPlan):
    """A whole model for a kind of `device`.

    For the virtual machine `program`, `segments`, `packed` and `constants` are what is run. With `parts` the segments
    run on several kinds of device, the first one's before that of the host.
    """

    executor: str = "graph"
    device: str = "cpu"
    tilewright_version: str = ""
    target: str = ""
    arch: str = ""
    cpu_features: tuple[str, ...] = ()
    max_workers: int | None = None
    messages: tuple[str, ...] = ()
    weights: tuple[Weight, ...] = ()
    segments: tuple[ExecutionPlan, ...] = ()
    program: Mapping[str, Any] | None = None
    packed: tuple[Packed, ...] = ()
    constants: tuple[LoadedConstant, ...] = ()
    parts: tuple[Part, ...] = ()

    what: ClassVar[str] = "manifest"

    @property
    def plans(self) -> tuple[ExecutionPlan, ...]:
        """The parts that run in one piece: the model itself, or the segments of its program."""
        return (self,) if self.is_native else self.segments

    def part(self, number: int) -> Manifest:
        """The manifest of one of the `parts`: its segments alone."""
        one = self.parts[number]
        return replace(self, device=one.device, segments=tuple(self.segments[i] for i in one.segments), parts=())

    @property
    def is_native(self) -> bool:
        """False for a model that is a program of the virtual machine."""
        return self.program is None

    def check(self, where: str) -> None:
        """Check the consistency of the model and of each of its segments. Raises `ArtifactError`."""
        ExecutionPlan.check(self, where)
        if self.max_workers == 0:
            raise ArtifactError(f"{at(where, 'max_workers')} must be at least 1")
        for i, segment in enumerate(self.segments):
            segment.check(at(at(where, "segments"), i))
        if self.parts and sorted(i for part in self.parts for i in part.segments) != [*range(len(self.segments))]:
            raise ArtifactError(f"{at(where, 'parts')} must have each of {len(self.segments)} segments once")
        self._check_weights(where)
        for i, packed in enumerate(self.packed):
            if packed.segment is not None:
                position = at(at(where, "packed"), i)
                index(packed.segment, len(self.segments), at(position, "segment"))
                if packed.loop is not None:
                    check_loop(packed.loop, self.segments[packed.segment], at(position, "loop"))

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
                    if arg.space == "weights" and arg.offset > end:
                        raise ArtifactError(
                            f"{where}: kernel {kernel.name!r} reads beyond the weights, which end at byte {end}"
                        )
        for i, constant in enumerate(self.constants):
            constant.check_within(end, at(at(where, "constants"), i))


def check_loop(loop: Loop, segment: ExecutionPlan, where: str) -> None:
    """Check that a loop's carried values are as its segment has them, and its condition one boolean."""
    if len(loop.carried) >= len(segment.outputs) or segment.outputs[-1].dtype != "bool":
        raise ArtifactError(
            f"{where} carries {len(loop.carried)} values, the segment does not return as many and a test"
        )
    for k, position in enumerate(loop.carried):
        if position is None:
            continue
        index(position, len(segment.inputs), at(at(where, "carried"), k))
        given, made = segment.inputs[position], segment.outputs[k]
        if (given.shape, given.dtype) != (made.shape, made.dtype):
            raise ArtifactError(f"{at(at(where, 'carried'), k)} is {position}: {given} does not become {made}")
