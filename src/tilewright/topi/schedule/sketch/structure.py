"""The structure of a computation for the rules of sketches: stages to inline, tile, reduce or leave.

    parts = structure_of([out])
    [(part.name, part.role) for part in parts]        # consumers before producers

A stage that is cheap to repeat is inlined. A reduction that reads the same elements again and again is tiled at several
levels; the elementwise chain that ends what it begins is its epilogue. Other reductions and whatever is costly to
repeat have loops of their own, alone or within those of a consumer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright import te
from tilewright.errors import UnsupportedError
from tilewright.support.recursion import nested
from tilewright.tir.expr import Call, Reduce, Select, Var
from tilewright.tir.op import as_const
from tilewright.tir.visitor import collect

#: What a rule makes of a stage: no loops of its own; loops or none, as a knob says; tiles at several levels; the end of
#: such tiles; a plain reduction; one pass over its elements.
INLINE, MOVABLE, TILED, EPILOGUE, REDUCE, PASS = "inline", "movable", "tiled", "epilogue", "reduce", "pass"

#: Calls that cost no more than an addition.
_CHEAP_CALLS = frozenset({"if_then_else", "likely", "fabs", "floor", "ceil", "round", "trunc"})


@dataclass
class Part:
    """One computed stage, `name` unlike that of any other of its computation. `readers` are the parts that read it,
    seen through inlined ones; `tiles` is, of an epilogue, the part whose tiles it ends."""

    name: str
    tensor: te.Tensor
    role: str
    is_output: bool
    readers: list[Part] = field(default_factory=list)
    tiles: Part | None = None

    @property
    def op(self) -> te.ComputeOp:
        """Its operation."""
        assert isinstance(self.tensor.op, te.ComputeOp)
        return self.tensor.op

    @property
    def sizes(self) -> tuple[int, ...]:
        """The extents of the data axes."""
        return tuple(extent_of(axis) for axis in self.op.axis)

    @property
    def terms(self) -> tuple[int, ...]:
        """The extents of the axes that are reduced over."""
        return tuple(extent_of(axis) for axis in self.op.reduce_axis)

    @property
    def work(self) -> int:
        """The number of iterations over the data axes."""
        return math.prod(self.sizes) * math.prod(self.terms)


def extent_of(axis: te.IterVar) -> int:
    """The number of iterations. Raises `UnsupportedError` where it is symbolic."""
    size = None if axis.dom is None else as_const(axis.dom.extent)
    if size is None:
        raise UnsupportedError(
            f"the axis {axis.name} is a symbolic dimension; sketches need all sizes: fix it to a number"
        )
    return int(size)


def structure_of(outputs: Sequence[te.Tensor]) -> list[Part]:
    """The parts of a computation, consumers before producers.

    Raises `UnsupportedError` for operations that are no plain expressions of their axes (scans, extern calls,
    tensorized computes), which keep the schedule that they have.
    """
    order = _operations(outputs)
    ends = {tensor.op for tensor in outputs}
    parts: dict[te.Operation, Part] = {}
    used: Counter[str] = Counter()
    for op in reversed(order):
        _check(op)
        readers = _readers(op, parts)
        used[op.name] += 1
        name = op.name if used[op.name] == 1 else f"{op.name}:{used[op.name]}"
        parts[op] = Part(name, op.output(0), _role(op, op in ends, readers), op in ends, readers)
    for part in parts.values():
        _join_epilogue(part)
    return list(parts.values())


def _operations(outputs: Sequence[te.Tensor]) -> list[te.Operation]:
    order: dict[te.Operation, None] = {}

    @nested
    def visit(op: te.Operation) -> None:
        if op in order or isinstance(op, te.PlaceholderOp):
            return
        for source in op.input_tensors:
            visit(source.op)
        order[op] = None

    for tensor in outputs:
        visit(tensor.op)
    return list(order)


def _check(op: te.Operation) -> None:
    if not isinstance(op, te.ComputeOp) or "intrin" in op.attrs:
        raise UnsupportedError(
            f"{op.name} is {type(op).__name__}, of which no sketch can be derived: they are made of te.compute alone; "
            "schedule it by hand or write a template (@autotvm.template)"
        )


def _readers(op: te.Operation, parts: dict[te.Operation, Part]) -> list[Part]:
    """The readers of an operation; for an inlined reader, the readers of that."""
    found: dict[int, Part] = {}
    for part in parts.values():
        if any(source.op is op for source in part.op.input_tensors):
            for reader in part.readers if part.role == INLINE else [part]:
                found[id(reader)] = reader
    return list(found.values())


def _role(op: te.Operation, is_output: bool, readers: Sequence[Part]) -> str:
    assert isinstance(op, te.ComputeOp)
    if not op.is_reduction:
        if is_output or len(op.outputs) > 1:
            return PASS
        if _is_costly(op) and not _is_read_once(readers):
            return PASS
        return MOVABLE if _chooses(op) and any(reader.op.is_reduction for reader in readers) else INLINE
    return TILED if _reads_again(op) and math.prod(extent_of(axis) for axis in op.axis) > 1 else REDUCE


def _is_costly(op: te.ComputeOp) -> bool:
    return any(call.op not in _CHEAP_CALLS for call in collect(list(op.body), Call))


def _is_read_once(readers: Sequence[Part]) -> bool:
    """True if inlining it computes no element twice: it has one reader, elementwise or in a sum."""
    return len(readers) == 1 and readers[0].role != TILED and not readers[0].op.is_reduction


def _chooses(op: te.ComputeOp) -> bool:
    """True if its elements are selected by a condition, as in padding."""
    guards = any(call.op == "if_then_else" for call in collect(list(op.body), Call))
    return guards or bool(collect(list(op.body), Select))


def _reads_again(op: te.ComputeOp) -> bool:
    """True if some read does not depend on all data axes, so that elements of a tile share it."""
    if len(op.outputs) > 1 or not isinstance(op.body[0], Reduce):
        return False
    axes = {axis.var for axis in op.axis if extent_of(axis) > 1}
    reads = [
        {var for index in indices if index is not None for var in collect([index], Var)} for _, indices in op.reads()
    ]
    return any(read and not axes <= read for read in reads) and len(reads) > 1


def _join_epilogue(tiled: Part) -> None:
    """Make the one elementwise pass that reads a tiled part its epilogue."""
    if tiled.role != TILED or tiled.is_output or len(tiled.readers) != 1:
        return
    (last,) = tiled.readers
    if last.role == PASS and last.sizes == tiled.sizes and _reads_in_place(last.op, tiled.op):
        last.role, last.tiles = EPILOGUE, tiled


def _reads_in_place(op: te.ComputeOp, source: te.ComputeOp) -> bool:
    """True if each element of `op` reads only the element of `source` at its own index."""
    own = [axis.var for axis in op.axis]
    for tensor, indices in op.reads():
        if not isinstance(tensor.op, te.ComputeOp) or not _depends(tensor.op, source):
            continue
        if list(indices) != own or not (tensor.op is source or _reads_in_place(tensor.op, source)):
            return False
    return True


def _depends(op: te.ComputeOp, source: te.ComputeOp) -> bool:
    return op is source or any(
        isinstance(tensor.op, te.ComputeOp) and _depends(tensor.op, source) for tensor in op.input_tensors
    )
