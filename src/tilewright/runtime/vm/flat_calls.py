"""Packed calls of a flat program: it runs a segment, repeats one, or does what a host operator would."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright.errors import InputError
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.manifest import Packed as PackedEntry
from tilewright.runtime.plan import ExecutionPlan
from tilewright.runtime.shape_program import ShapeProgram
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.vm.loop import worth_sharing
from tilewright.runtime.vm.positions import (
    NOWHERE,
    Collected,
    Location,
    State,
    Unusable,
    Writer,
    listed,
    refuse,
    tensor,
)
from tilewright.runtime.vm.steps import (
    Address,
    Copy,
    Count,
    Expect,
    Grow,
    Increment,
    Label,
    Point,
    Repeat,
    Room,
    Run,
    Stack,
    Step,
    Stop,
    Swap,
)
from tilewright.support.dtype import DType

#: What stands before the words of a node on which a run ends.
_FAILED = "the inputs lead into a branch of the model that cannot run on them: "


class PackedCalls:
    """Writes the steps of packed calls. `shapes` are those of `FlatProgram`."""

    def __init__(self, manifest: Manifest, writer: Writer, shapes: Sequence[ShapeProgram | None] | None = None) -> None:
        self.manifest = manifest
        self.writer = writer
        self.shapes = shapes

    def call(self, number: int, values: Sequence[Any], state: State) -> list[Any] | None:
        """The results of a packed call on `values`; None where it ends the run."""
        entry = self.manifest.packed[number]
        if entry.segment is None:
            return self._host(entry, values, state)
        segment = self.manifest.segments[entry.segment]
        inputs = self._bound(entry, segment, values)
        results, table = self._results(entry, segment, inputs)
        if entry.loop is not None:
            return self._repeated(entry, results, table, inputs, values[len(inputs) :], state)
        self.writer.steps.append(Run(entry.segment, tuple(position.address for position in (*inputs, *results)), table))
        return list(results)

    def _node(self, entry: PackedEntry) -> str:
        """The nodes of the model that a packed call computes, for an error."""
        if entry.source or entry.segment is None:
            return f"the node {entry.source!r}" if entry.source else "a node without a name"
        names = [kernel.source_text for kernel in self.manifest.segments[entry.segment].kernels if kernel.source]
        return f"the node {names[0]!r}" if names else "a node without a name"

    def _bound(self, entry: PackedEntry, segment: ExecutionPlan, values: Sequence[Any]) -> list[Location]:
        """The tensors that a segment is called with."""
        positions = [tensor(value) for value in values[: len(segment.inputs)]]
        is_open = segment.dynamic is not None or not all(s.is_static for s in (*segment.inputs, *segment.outputs))
        if is_open and self.shapes is None:
            refuse(f"the sizes of what {self._node(entry)} computes are known only when it runs")
        for position, spec in zip(positions, segment.inputs):
            if position.dtype != spec.dtype or not spec.fits(position.shape):
                refuse(
                    f"{self._node(entry)} gets {position.dtype}{list(position.shape)} where it takes {spec.type_text}"
                )
        return positions

    def _results(
        self, entry: PackedEntry, segment: ExecutionPlan, inputs: Sequence[Location]
    ) -> tuple[list[Location], Address | None]:
        """Allocate the results of a segment, and its table of symbolic sizes."""
        shapes = self.shapes[entry.segment] if self.shapes is not None and entry.segment is not None else None
        if shapes is None:
            return [self.writer.new_position(spec) for spec in segment.outputs], None
        try:
            plan = shapes.plan(inputs)
        except InputError as error:
            refuse(f"{self._node(entry)} cannot run on the sizes it gets: {error}")
        writer = self.writer
        writer.segment_bytes = max(writer.segment_bytes, plan.arena_bytes)
        writer.scratch_bytes = max(writer.scratch_bytes, plan.scratch_bytes)
        specs = [TensorSpec(s.name, shape, s.dtype) for s, shape in zip(segment.outputs, plan.outputs)]
        return [writer.new_position(spec) for spec in specs], self._table(DType("int64"), plan.table)

    def _repeated(
        self,
        entry: PackedEntry,
        results: list[Location],
        table: Address | None,
        inputs: list[Location],
        lists: Sequence[Any],
        state: State,
    ) -> list[Any]:
        """The lines of a segment that is repeated as long as its last result is true."""
        assert entry.loop is not None and entry.segment is not None
        if self.shapes is not None and worth_sharing(self.manifest.segments[entry.segment]):
            refuse(f"the turns of the loop of {self._node(entry)} are shared by several workers")
        given, made = [position.address for position in inputs], [position.address for position in results]
        turn: list[Step] = []
        found: list[Any] = []
        for index, position in enumerate(entry.loop.carried):
            result = results[index]
            if position is None:
                found.append(result)
                continue
            reads, writes, other = (
                Address(self.writer.pointer()),
                Address(self.writer.pointer()),
                self.writer.memory(result.nbytes),
            )
            self.writer.steps += [Point(reads.base, given[position]), Point(writes.base, made[index])]
            turn += [Point(reads.base, writes), Swap(writes.base, made[index], other)]
            given[position], made[index] = reads, writes
            found.append(Location(reads, result.shape, result.dtype))
        rooms: list[Step] = []
        for index, value in enumerate(lists, len(entry.loop.carried)):
            whole = listed(value)
            self._require_row(whole, results[index])
            longer = self._extended(whole, state, self.writer.count())
            self.writer.steps.append(Count(longer.count, whole.count))
            rooms.append(self._room(longer))
            made[index] = Address(longer.address.base, longer.address.offset, longer.count, longer.row.nbytes)
            turn.append(Increment(longer.count))
            found.append(longer)
        label = self.writer.label()
        run = Run(entry.segment, (*given, *made), table)
        self.writer.steps += [Label(label), *rooms, run, *turn, Repeat(results[-1].address, label)]
        return found

    def _room(self, whole: Collected) -> Room | Grow:
        if whole.growing is not None:
            return Grow(whole.count, whole.growing.room, whole.growing.number)
        return Room(whole.count, whole.most, self.writer.error("a loop collects more values than its trip count"))

    def _extended(self, whole: Collected, state: State, count: str) -> Collected:
        """The list after an element was added. An older version may not be added to a second time."""
        if whole.version in state.extended:
            refuse("a list is added to in two ways")
        state.extended |= {whole.version}
        return whole.longer(count, self.writer.version())

    def _require_row(self, whole: Collected, element: Location) -> None:
        """Require one shape and type of all elements of a list; the first element sets those of an empty list."""
        if whole.growing is not None and whole.growing.row is None:
            whole.growing.row = Location(NOWHERE, element.shape, element.dtype)
        if (element.shape, element.dtype) != (whole.row.shape, whole.row.dtype):
            refuse(f"a loop collects values of shapes {list(whole.row.shape)} and {list(element.shape)}")

    # ---------------------------------------------------------------------------------------------- host operators
    def _host(self, entry: PackedEntry, values: Sequence[Any], state: State) -> list[Any] | None:
        """The results of a host operator; None where it ends the run. Those that need Python are refused."""
        if entry.host == "onnx.Fail":
            self.writer.steps.append(Stop(self.writer.error(_FAILED + str(entry.attrs.get("message", "")))))
            return None
        if entry.host == "check_shape":
            wanted, position = entry.attrs["shape"], tensor(values[0])
            if any(dim not in (None, size) for dim, size in zip(wanted, position.shape)):
                refuse(f"{entry.attrs['callee']} gets {list(position.shape)} where it takes {wanted}")
            return [position]
        if entry.host == "shape_of":
            return [self._shape(tensor(values[0]), DType(entry.attrs.get("dtype") or "int64"))]
        if entry.host == "list.empty":
            return [self._empty(entry)]
        if entry.host == "list.push":
            return [self._push(listed(values[0]), tensor(values[1]), state)]
        if entry.host == "list.stack":
            return [self._stack(entry, listed(values[0]))]
        refuse(f"the operator {entry.host} of {self._node(entry)} runs on the host, in Python")

    def _shape(self, position: Location, dtype: DType) -> Location:
        return Location(self._table(dtype, position.shape), (len(position.shape),), dtype)

    def _table(self, dtype: DType, numbers: tuple[int, ...]) -> Address:
        self.writer.tables.append((dtype, numbers))
        return Address(f"k{len(self.writer.tables) - 1}")

    def _empty(self, entry: PackedEntry) -> Any:
        most, shape = entry.attrs.get("most"), entry.attrs.get("shape")
        if self.shapes is not None:
            return self.writer.growing(None)
        if most is None or shape is None or None in shape:
            return Unusable(f"what {self._node(entry)} collects, whose sizes only a run knows,")
        row = Location(NOWHERE, tuple(shape), DType(entry.attrs["dtype"]))
        return Collected(self.writer.memory(int(most) * row.nbytes), row, int(most), "0", self.writer.version())

    def _push(self, whole: Collected, element: Location, state: State) -> Collected:
        self._require_row(whole, element)
        longer = self._extended(whole, state, self.writer.count())
        row = Address(whole.address.base, whole.address.offset, whole.count, element.nbytes)
        self.writer.steps += [self._room(whole), Copy(row, element.address, element.nbytes)]
        self.writer.steps += [Count(longer.count, whole.count), Increment(longer.count)]
        return longer

    def _stack(self, entry: PackedEntry, whole: Collected) -> Any:
        length = entry.attrs.get("length")
        if length is None:
            return Unusable(f"what {self._node(entry)} stacks, whose sizes only a run knows,")
        axis, shape = int(entry.attrs.get("axis", 0)), whole.row.shape
        axis += (len(shape) + 1) * (axis < 0)
        stacked = (*shape[:axis], int(length), *shape[axis:])
        self.writer.steps.append(
            Expect(whole.count, int(length), self.writer.error("a loop ends before its trip count"))
        )
        outer = math.prod(shape[:axis])
        if outer == 1:
            return Location(whole.address, stacked, whole.row.dtype)
        position = Location(NOWHERE, stacked, whole.row.dtype)
        position = Location(self.writer.memory(position.nbytes), position.shape, position.dtype)
        inner = math.prod(shape[axis:]) * position.dtype.numpy.itemsize
        self.writer.steps.append(Stack(position.address, whole.address, int(length), outer, inner))
        return position

    # ------------------------------------------------------------------------------------------------------ values
