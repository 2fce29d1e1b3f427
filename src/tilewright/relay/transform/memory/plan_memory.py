"""The memory plan: where every value of a fused `main` lives, so that a run allocates nothing.

Before: %0 = fn1(%x); %1 = fn2(%0); %2 = fn3(%1); fn4(%2)           (each value 256 bytes)
After:  %0 at arena byte 0, %1 at 256, %2 at 0 again, the last value in output 0; 512 bytes of arena

Inputs, outputs and constants live outside the arena. Calls that move no bytes (see `views`) are not run: a reshape or a
whole slice is its input's storage, and the parts of a concatenation are computed right into it. No other value shares
bytes with one that is live in the same kernel, not even the result of an elementwise kernel with its input: kernels
promise LLVM that their parameters do not alias. Where kernels are compiled first, they say what they allow: the scratch
memory of each is then part of the arena, and results lie over inputs that no later kernel reads (`KernelMemory`).
Results that are inputs of the next run are written over these (`in_place`).

Where a size is symbolic, the positions in the arena are found at run time (`runtime.shape_program`): the plan then says
which buffers there are, how large each is and when it is live, and a storage is a position within one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.symbolic import size_vars
from tilewright.relay.ir.type import Dim, TensorType, TupleType, as_dim, tensor_types
from tilewright.relay.op.views import (
    Join,
    assign_joins,
    cut_offsets,
    is_free,
    joins_contiguously,
    single_call,
)
from tilewright.relay.transform.memory.execution_order import execution_order
from tilewright.relay.transform.memory.in_place import UPDATES, is_renamed, update_order, written_over
from tilewright.relay.transform.memory.shared_offsets import Piece, shared_offsets

#: Bytes to which values in the arena are aligned unless a device wants others: a cache line, and a vector register.
ALIGNMENT = 64


class Where(Enum):
    """The kinds of memory a value can live in."""

    ARENA = "arena"
    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Storage:
    """The position of one tensor: a byte offset in the arena, or the ordinal of an input, output or constant.

    With `buffer`, the number of a buffer of the plan, `position` is a byte offset in that, which may be symbolic.
    """

    where: Where
    position: Dim
    nbytes: Dim
    buffer: int | None = None


@dataclass(frozen=True, slots=True)
class ArenaBuffer:
    """A piece of the arena to be placed at run time: its bytes, and the first and last kernel that touch it."""

    nbytes: Dim
    first: int
    last: int


@dataclass(frozen=True)
class KernelMemory:
    """The bytes of scratch memory of a compiled kernel, and the bytes that results may share with inputs.

    `overlaps[i, o]` is by how many bytes result `o` has to begin before input `i` (`tir.overlaps`); pairs without an
    entry must not share any.
    """

    scratch: int = 0
    overlaps: Mapping[tuple[int, int], int] = field(default_factory=dict)


@dataclass(frozen=True)
class MemoryPlan:
    """Kernels in order of execution and the storage of every value.

    `storage[expr]` has one entry per tensor of the value of `expr`, tuples flattened. `copies` lists outputs that no
    kernel writes (an input or constant that is returned, or a value returned twice): (source, output ordinal), to be
    copied after the last kernel. `constants` numbers the constants. `buffers` are the pieces of the arena
    where any size of the function is symbolic (`arena_bytes` is then 0), and empty where none is. `scratch` has the
    offset of each kernel's scratch memory where that is part of the arena, and `pieces` all buffers of the arena whose
    sizes are known, by their offsets; `steps` are the numbers by which these know the calls of `order`.
    """

    order: tuple[Call, ...]
    storage: Mapping[Expr, tuple[Storage, ...]]
    arena_bytes: int
    constants: tuple[Constant, ...]
    copies: tuple[tuple[Storage, int], ...]
    buffers: tuple[ArenaBuffer, ...] = ()
    alignment: int = ALIGNMENT
    scratch: Mapping[Call, int] | None = None
    pieces: tuple[tuple[int, ArenaBuffer], ...] = ()
    steps: tuple[int, ...] = ()

    def arguments(self, call: Call) -> list[Storage]:
        """Storage of the parameters of the kernel that `call` runs: its inputs in order, then its outputs."""
        return [position for expr in (*call.args, call) for position in self.storage[expr]]


@dataclass(eq=False, slots=True)
class _Buffer:
    """One piece of memory while the plan is made: first and last kernel that touch it, and its position once known.

    `within` is the larger piece this one is a run of, and the byte offset in it.
    """

    nbytes: Dim
    first: int
    last: int
    where: Where = Where.ARENA
    position: Dim = -1
    within: tuple[_Buffer, Dim] | None = None
    is_result: bool = False
    number: int | None = None


@dataclass(eq=False)
class _Values:
    """The result of `_collect`: calls in order, the buffers of every node, constants, and concatenations by call."""

    order: list[Call] = field(default_factory=list)
    buffers: dict[Expr, list[_Buffer]] = field(default_factory=dict)
    constants: list[Constant] = field(default_factory=list)
    joins: dict[Call, Join] = field(default_factory=dict)
    kernels: Kernels | None = None
    scratch: dict[Call, _Buffer] = field(default_factory=dict)
    overlaps: list[tuple[_Buffer, _Buffer, int]] = field(default_factory=list)
    reads: list[list[_Buffer]] = field(default_factory=list)
    results: list[list[_Buffer]] = field(default_factory=list)


#: What the kernel of a call allows.
Kernels = Callable[[Call], KernelMemory]


def plan_memory(
    mod: IRModule, alignment: int = ALIGNMENT, part_alignment: int = 1, kernels: Kernels | None = None
) -> MemoryPlan:
    """The plan of `main` of a module that went through `fuse_ops`, its values at multiples of `alignment` bytes.

    Values that are parts of others lie at multiples of `part_alignment` bytes in these; where that cannot be, or is not
    known, they are copied by kernels. With `kernels` results may lie over inputs; sizes must then be known.
    """
    main = infer_type(mod)["main"]
    values = _collect(main, part_alignment, kernels)
    outputs = values.buffers[main.body]
    for buffer in outputs:
        _outermost(buffer)[0].is_result = True
    free = _assign_joins(values, part_alignment)
    copied = _assign_outputs(outputs, values, _behind(main))
    buffers = list(dict.fromkeys(buffer for some in values.buffers.values() for buffer in some))
    arena = _merge_lifetimes([*buffers, *values.scratch.values()])
    # where the inputs are symbolic, all positions are found at run time: workspaces may depend on their sizes too
    later = bool(size_vars(main)) or not all(isinstance(buffer.nbytes, int) for buffer in arena)
    shared = kernels is not None and not later
    if later:
        arena_bytes = 0
    else:
        arena_bytes = _assign_shared(arena, values, alignment) if shared else assign_offsets(arena, alignment)
    for number, buffer in enumerate(arena if later else ()):
        buffer.number, buffer.position = number, 0
    return MemoryPlan(
        order=tuple([call for call in values.order if call not in free]),
        storage={expr: tuple([_position(b) for b in some]) for expr, some in values.buffers.items()},
        arena_bytes=arena_bytes,
        constants=tuple(values.constants),
        copies=tuple((_position(buffer), index) for buffer, index in copied),
        buffers=tuple(ArenaBuffer(b.nbytes, b.first, b.last) for b in arena) if later else (),
        alignment=alignment,
        scratch={call: _position(buffer).position for call, buffer in values.scratch.items()} if shared else None,
        steps=tuple([step for step, call in enumerate(values.order) if call not in free]),
        pieces=() if later else tuple((b.position, ArenaBuffer(b.nbytes, b.first, b.last)) for b in arena),
    )


def _assign_shared(arena: list[_Buffer], values: _Values, alignment: int) -> int:
    """Assign every buffer an offset, results over inputs where kernels allow it; return the bytes needed."""
    distances: dict[tuple[_Buffer, _Buffer], int] = {}
    pairs: dict[tuple[_Buffer, _Buffer], list[int]] = {}
    for data, result, distance in values.overlaps:
        (a, at), (b, start) = _outermost(data), _outermost(result)
        if a is not b and a.where is b.where is Where.ARENA and a.last == b.first:
            assert isinstance(at, int) and isinstance(start, int)
            pairs.setdefault((a, b), []).append(distance + start - at)
    for (a, b), known in pairs.items():
        step = a.last
        reads = [x for x in values.reads[step] if _outermost(x)[0] is a]
        made = [x for x in values.results[step] if _outermost(x)[0] is b]
        if len(known) == len(reads) * len(made):  # each input that lies in the one, and result in the other
            distances[a, b] = max(known)
    pieces = [Piece(b, max(int(b.nbytes), 1), b.first, b.last) for b in arena]
    positions = shared_offsets(pieces, distances, alignment)
    for buffer in arena:
        buffer.position = positions[buffer]
    return max((positions[p.key] + -(-p.nbytes // alignment) * alignment for p in pieces), default=0)


def _assign_joins(values: _Values, part_alignment: int) -> set[Call]:
    """Put the parts of concatenations where they belong in the result; the calls that need no kernel then."""

    def fixed(key: object) -> bool:
        assert isinstance(key, _Buffer)
        return key.where is not Where.ARENA or key.is_result or key.within is not None

    joins = [join for join in values.joins.values() if _are_aligned(accumulate(join.nbytes[:-1]), part_alignment)]
    placed = assign_joins(joins, fixed)
    for key, (parent, offset) in placed.items():
        assert isinstance(key, _Buffer) and isinstance(parent, _Buffer)
        key.within = (parent, offset)
    return {call for call, join in values.joins.items() if is_free(join, placed)}


def _are_aligned(offsets: Iterable[Dim], alignment: int) -> bool:
    """True if all offsets are known to be multiples of `alignment`."""
    return alignment == 1 or all(isinstance(offset, int) and offset % alignment == 0 for offset in offsets)


def _behind(main: Function) -> set[int]:
    """The outputs that are written over inputs which other kernels may still read."""
    fields = main.body.fields if isinstance(main.body, Tuple) else (main.body,)
    return {result for _, result in main.attrs.get(UPDATES, ()) if written_over(fields[result]) is None}


def _assign_outputs(outputs: list[_Buffer], values: _Values, behind: set[int]) -> list[tuple[_Buffer, int]]:
    """Let kernels write outputs where they belong; the outputs that are copied there instead, and those `behind`."""
    has_parts = {buffer.within[0] for some in values.buffers.values() for buffer in some if buffer.within}
    copied: list[tuple[_Buffer, int]] = []
    for index, buffer in enumerate(outputs):
        own = buffer.where is Where.ARENA and buffer.within is None and buffer not in has_parts
        if own and index not in behind:
            buffer.where, buffer.position = Where.OUTPUT, index
        else:
            copied.append((buffer, index))
            _outermost(buffer)[0].last = len(values.order)
    return copied


def _outermost(buffer: _Buffer) -> tuple[_Buffer, Dim]:
    """The piece of memory that `buffer` is a run of in the end, and the byte offset in it."""
    offset: Dim = 0
    while buffer.within is not None:
        buffer, inner = buffer.within
        offset += inner
    return buffer, offset


def _position(buffer: _Buffer) -> Storage:
    base, offset = _outermost(buffer)
    return Storage(base.where, as_dim(base.position + offset), buffer.nbytes, base.number)


def _merge_lifetimes(buffers: list[_Buffer]) -> list[_Buffer]:
    """The outermost pieces of memory in the arena, each live as long as any run of it is."""
    bases: dict[_Buffer, None] = {}
    for buffer in buffers:
        base, _ = _outermost(buffer)
        base.first, base.last = min(base.first, buffer.first), max(base.last, buffer.last)
        if base.where is Where.ARENA:
            bases[base] = None
    return list(bases)


def _collect(main: Function, part_alignment: int, kernels: Kernels | None) -> _Values:
    """The buffers of every node, with the span of kernels in which each is live."""
    values = _Values(kernels=kernels)
    for ordinal, param in enumerate(main.params):
        values.buffers[param] = [_Buffer(param_type(param).nbytes, -1, -1, Where.INPUT, ordinal)]
    for node in update_order(execution_order(main.body)):
        if node in values.buffers:
            continue
        if isinstance(node, Constant):
            values.buffers[node] = [_Buffer(node.data.nbytes, -1, -1, Where.CONSTANT, len(values.constants))]
            values.constants.append(node)
        elif isinstance(node, Tuple):
            values.buffers[node] = [b for kid in node.fields for b in values.buffers[kid]]
        elif isinstance(node, TupleGetItem):
            values.buffers[node] = _field(node, values.buffers[node.tuple_value])
        elif isinstance(node, Call) and isinstance(node.op, Function):
            values.buffers[node] = _view(node, values, part_alignment) or _run(node, values)
        else:
            kind = getattr(node.op, "name", "") if isinstance(node, Call) else type(node).__name__
            raise UnsupportedError(f"the graph executor cannot run {kind}; it runs straight graphs of fused functions")
    return values


def _view(call: Call, values: _Values, part_alignment: int) -> list[_Buffer] | None:
    """The buffers of a call that needs no kernel, its argument's or runs of it; else None."""
    if is_renamed(call):
        return values.buffers[call.args[0]]
    inner = single_call(call)
    offsets = cut_offsets(inner) if inner is not None else None
    if offsets is None or not _are_aligned(offsets, part_alignment):
        return None
    (source,) = values.buffers[call.args[0]]
    if source.where is not Where.ARENA:
        return None
    step = len(values.order)
    types = tensor_types(call.checked_type)
    return [_Buffer(t.nbytes, step, step, within=(source, off)) for t, off in zip(types, offsets, strict=True)]


def _run(call: Call, values: _Values) -> list[_Buffer]:
    """New buffers that the kernel of `call` writes. A concatenation may turn out to need no kernel after all."""
    step = len(values.order)
    values.order.append(call)
    reads = [buffer for arg in call.args for buffer in values.buffers[arg]]
    for buffer in reads:
        buffer.last = step
    results = [_Buffer(type_.nbytes, step, step) for type_ in tensor_types(call.checked_type)]
    values.reads.append(reads)
    values.results.append(results)
    if values.kernels is not None:
        kernel = values.kernels(call)
        if kernel.scratch:
            values.scratch[call] = _Buffer(kernel.scratch, step, step)
        values.overlaps += [(reads[i], results[o], distance) for (i, o), distance in kernel.overlaps.items()]
    inner = single_call(call)
    if inner is not None and joins_contiguously(inner):
        values.joins[call] = Join(results[0], tuple(reads), tuple([buffer.nbytes for buffer in reads]))
    return results


def param_type(param: Var) -> TensorType:
    """The type of a parameter of `main`, which must be a tensor."""
    found = param.checked_type
    if not isinstance(found, TensorType):
        raise UnsupportedError(f"the input {param.name!r} is a {found}; only tensors can be fed")
    return found


def _field(node: TupleGetItem, buffers: list[_Buffer]) -> list[_Buffer]:
    type_ = node.tuple_value.checked_type
    assert isinstance(type_, TupleType)
    sizes = [len(tensor_types(entry)) for entry in type_.fields]
    start = sum(sizes[: node.index])
    return buffers[start : start + sizes[node.index]]


def assign_offsets(buffers: Iterable[_Buffer], alignment: int = ALIGNMENT) -> int:
    """Assign every buffer an offset such that buffers live at the same time do not overlap; return the bytes needed.

    Largest first, each in the smallest gap that holds it between the buffers already placed (best fit).
    """
    waiting = sorted(buffers, key=lambda b: (-b.nbytes, b.first))
    placed = np.empty((4, len(waiting)), np.int64)  # by their starts: start, end, first and last step
    arena_bytes = 0
    for count, buffer in enumerate(waiting):
        starts, ends, first, last = placed[:, :count]
        together = (first <= buffer.last) & (last >= buffer.first)
        size = -(-max(buffer.nbytes, 1) // alignment) * alignment
        buffer.position = _best_gap(starts[together], ends[together], size)
        end = buffer.position + size
        at = int(np.searchsorted(starts, buffer.position))
        placed[:, at + 1 : count + 1] = placed[:, at:count].copy()
        placed[:, at] = buffer.position, end, buffer.first, buffer.last
        arena_bytes = max(arena_bytes, end)
    return arena_bytes


def _best_gap(starts: NDArray[np.int64], ends: NDArray[np.int64], nbytes: int) -> int:
    """Offset of the smallest gap of at least `nbytes` between ranges sorted by their starts, else their end."""
    if not len(starts):
        return 0
    reach = np.maximum.accumulate(ends)
    before = np.concatenate(([0], reach[:-1]))
    gaps = starts - before
    fits = np.flatnonzero(gaps >= nbytes)
    return int(before[fits[np.argmin(gaps[fits])]]) if len(fits) else int(reach[-1])
