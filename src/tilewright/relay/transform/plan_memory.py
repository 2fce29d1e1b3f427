"""The static memory plan: where every value of a fused `main` lives, so that a run allocates nothing.

Before: %0 = fn1(%x); %1 = fn2(%0); %2 = fn3(%1); fn4(%2)           (each value 256 bytes)
After:  %0 at arena byte 0, %1 at 256, %2 at 0 again, the last value in output 0; 512 bytes of arena

Inputs, outputs and constants live outside the arena. A kernel that only renames a shape is not run: its value is its
input's storage under another type. No value shares bytes with another one that is live in the same kernel, not even an
elementwise kernel's input and output: kernels promise LLVM that their parameters do not alias.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from tilewright.errors import UnsupportedError
from tilewright.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.module import IRModule
from tilewright.relay.op.registry import Op
from tilewright.relay.transform.fuse_ops import RESHAPES
from tilewright.relay.transform.infer_type import infer_type
from tilewright.relay.type import TensorType, TupleType, tensor_types
from tilewright.relay.visitor import post_order

#: Bytes to which every value in the arena is aligned: a cache line, and a whole vector register.
ALIGNMENT = 64


class Where(Enum):
    """The kinds of memory a value can live in."""

    ARENA = "arena"
    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Storage:
    """The place of one tensor: a byte offset in the arena, or the ordinal of an input, output or constant."""

    where: Where
    position: int
    nbytes: int


@dataclass(frozen=True)
class MemoryPlan:
    """Kernels in order of execution and the storage of every value.

    `storage[expr]` has one entry per tensor of the value of `expr`, tuples flattened. `copies` lists outputs that no
    kernel writes (an input or constant that is returned, or a value returned twice): (source, output ordinal), to be
    copied after the last kernel. `constants` gives the constants their ordinals.
    """

    order: tuple[Call, ...]
    storage: Mapping[Expr, tuple[Storage, ...]]
    arena_bytes: int
    constants: tuple[Constant, ...]
    copies: tuple[tuple[Storage, int], ...]

    def arguments(self, call: Call) -> list[Storage]:
        """Storage of the parameters of the kernel that `call` runs: its inputs in order, then its outputs."""
        return [place for expr in (*call.args, call) for place in self.storage[expr]]


@dataclass(eq=False, slots=True)
class _Buffer:
    """One piece of memory while the plan is made: first and last kernel that touch it, and its place once known."""

    nbytes: int
    first: int
    last: int
    where: Where = Where.ARENA
    position: int = -1

    def place(self) -> Storage:
        return Storage(self.where, self.position, self.nbytes)


@dataclass(eq=False)
class _Values:
    """What `_collect` finds: the kernels, the buffers of every node, and the constants."""

    order: list[Call] = field(default_factory=list)
    buffers: dict[Expr, list[_Buffer]] = field(default_factory=dict)
    constants: list[Constant] = field(default_factory=list)


def plan_memory(mod: IRModule) -> MemoryPlan:
    """The plan of `main` of a module that went through `fuse_ops`."""
    main = infer_type(mod)["main"]
    values = _collect(main)
    outputs = values.buffers[main.body]
    copied: list[tuple[_Buffer, int]] = []
    for index, buffer in enumerate(outputs):
        if buffer.where is Where.ARENA:
            buffer.where, buffer.position = Where.OUTPUT, index
        else:
            copied.append((buffer, index))
    in_arena = [b for kids in values.buffers.values() for b in kids if b.where is Where.ARENA]
    arena_bytes = place_in_arena(list(dict.fromkeys(in_arena)))
    return MemoryPlan(
        order=tuple(values.order),
        storage={expr: tuple([b.place() for b in kids]) for expr, kids in values.buffers.items()},
        arena_bytes=arena_bytes,
        constants=tuple(values.constants),
        copies=tuple((buffer.place(), index) for buffer, index in copied),
    )


def is_alias(call: Call) -> bool:
    """True for a call of a primitive function that only renames the shape of its one argument."""
    if not isinstance(call.op, Function) or len(call.op.params) != 1:
        return False
    body = call.op.body
    while isinstance(body, Call) and isinstance(body.op, Op) and body.op.name in RESHAPES:
        body = body.args[0]
    return body is call.op.params[0]


def _collect(main: Function) -> _Values:
    """The buffers of every node, with the span of kernels in which each is live."""
    values = _Values()
    for ordinal, param in enumerate(main.params):
        values.buffers[param] = [_Buffer(param_type(param).nbytes, -1, -1, Where.INPUT, ordinal)]
    for node in post_order(main.body):
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
            values.buffers[node] = _run(node, values)
        else:
            kind = getattr(node.op, "name", "") if isinstance(node, Call) else type(node).__name__
            raise UnsupportedError(f"the graph executor cannot run {kind}; it runs straight graphs of fused functions")
    return values


def param_type(param: Var) -> TensorType:
    """The type of a parameter of `main`, which must be a tensor."""
    found = param.checked_type
    if not isinstance(found, TensorType):
        raise UnsupportedError(f"the input {param.name!r} is a {found}; only tensors can be fed")
    return found


def _run(call: Call, values: _Values) -> list[_Buffer]:
    """The buffers that `call` writes; those of its argument if it only renames a shape."""
    if is_alias(call):
        return values.buffers[call.args[0]]
    step = len(values.order)
    values.order.append(call)
    for arg in call.args:
        for buffer in values.buffers[arg]:
            buffer.last = step
    return [_Buffer(type_.nbytes, step, step) for type_ in tensor_types(call.checked_type)]


def _field(node: TupleGetItem, buffers: list[_Buffer]) -> list[_Buffer]:
    type_ = node.tuple_value.checked_type
    assert isinstance(type_, TupleType)
    sizes = [len(tensor_types(entry)) for entry in type_.fields]
    start = sum(sizes[: node.index])
    return buffers[start : start + sizes[node.index]]


def place_in_arena(buffers: Iterable[_Buffer]) -> int:
    """Give every buffer an offset such that buffers live at the same time do not overlap; return the bytes needed.

    Largest first, each in the smallest gap that holds it between the buffers already placed (best fit).
    """
    live: dict[int, list[_Buffer]] = defaultdict(list)
    arena_bytes = 0
    for buffer in sorted(buffers, key=lambda b: (-b.nbytes, b.first)):
        steps = range(buffer.first, buffer.last + 1)
        taken: list[tuple[int, int]] = []
        for other in dict.fromkeys(other for step in steps for other in live[step]):
            insort(taken, (other.position, other.position + _aligned(other.nbytes)))
        buffer.position = _best_gap(taken, _aligned(buffer.nbytes))
        arena_bytes = max(arena_bytes, buffer.position + _aligned(buffer.nbytes))
        for step in steps:
            live[step].append(buffer)
    return arena_bytes


def _best_gap(taken: list[tuple[int, int]], nbytes: int) -> int:
    """Offset of the smallest gap of at least `nbytes` between the sorted ranges `taken`, else their end."""
    best, best_size, end = -1, 0, 0
    for start, stop in taken:
        gap = start - end
        if gap >= nbytes and (best < 0 or gap < best_size):
            best, best_size = end, gap
        end = max(end, stop)
    return end if best < 0 else best


def _aligned(nbytes: int) -> int:
    return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
