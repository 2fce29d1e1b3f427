"""Sizes of a model with symbolic dimensions, computed at run time from the shapes of its inputs.

The compiler leaves expressions as plain data in the manifest: an integer, the name of a dimension, or
``[operator, a, b]`` with the operators of `OPERATORS`. Here they become one Python function of the dimensions, which
returns the table that compiled code reads, the shapes of the outputs and the bytes of every value in the arena.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tilewright.errors import ArtifactError, InputError
from tilewright.runtime.memory import ALIGNMENT, round_up
from tilewright.runtime.plan import SymbolicSizes

#: How each operator is written in Python.
OPERATORS = {
    "+": "({} + {})",
    "-": "({} - {})",
    "*": "({} * {})",
    "//": "({} // {})",
    "%": "({} % {})",
    "min": "min({}, {})",
    "max": "max({}, {})",
    "<": "({} < {})",
    "<=": "({} <= {})",
    "==": "({} == {})",
    "!=": "({} != {})",
    "and": "({} and {})",
    "or": "({} or {})",
}
#: Plans of memory kept for shapes seen before; the least recently used one goes first.
KEPT_PLANS = 64
#: Code for sizes that are not known when compiling counts elements in 32 bits.
MOST_ELEMENTS = 2**31 - 1

Expression = Any  # int, str or [operator, Expression, Expression]


class Shaped(Protocol):
    """An object with a shape: an array, or a stand-in for one."""

    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class RunPlan:
    """The needs of one set of dimensions: the table for compiled code, bytes of memory, and shapes of the outputs."""

    table: tuple[int, ...]
    arena_bytes: int
    scratch_bytes: int
    outputs: tuple[tuple[int, ...], ...]


class ShapeProgram:
    """The symbolic sizes of one compiled segment, from the ``dynamic`` part of its manifest (docs/executors.md)."""

    def __init__(self, symbolic: SymbolicSizes, inputs: Sequence[Any], alignment: int = ALIGNMENT) -> None:
        """`inputs` are the segment's `TensorSpec`s, whose names errors show; buffers have the `alignment` in bytes."""
        self._alignment = alignment
        self._sources = [(d.name, d.input, d.axis) for d in symbolic.dims]
        self._inputs = tuple(inputs)
        names = [name for name, _, _ in self._sources]
        self._checks = [(c.input, c.axis, c.value) for c in symbolic.checks]
        self._check_values = compile_expressions(names, [value for _, _, value in self._checks])
        self._equal = [(e.a, e.b, e.where) for e in symbolic.equal]
        self._equal_values = compile_expressions(names, [side for pair in self._equal for side in pair[:2]])
        self._buffers = [(b.first, b.last) for b in symbolic.buffers]
        self._elements = compile_expressions(names, symbolic.elements)
        self._sizes = compile_expressions(names, [b.bytes for b in symbolic.buffers])
        self._values = compile_expressions(names, symbolic.values)
        self._shared = compile_expressions(names, symbolic.workspace_bytes)
        self._private = compile_expressions(names, symbolic.worker_workspace_bytes)
        self._output_ranks = [len(shape) for shape in symbolic.output_shapes]
        self._output_dims = compile_expressions(names, [dim for shape in symbolic.output_shapes for dim in shape])
        self._plans: OrderedDict[tuple[int, ...], RunPlan] = OrderedDict()

    def sizes(self, arrays: Sequence[Shaped]) -> tuple[int, ...]:
        """The values of the dimensions. Raises `InputError` where two sizes of `arrays` that must agree do not."""
        dims = tuple([arrays[index].shape[axis] for _, index, axis in self._sources])
        if self._checks:
            self._check(dims, arrays)
        return dims

    def plan(self, arrays: Sequence[Shaped]) -> RunPlan:
        """The plan for the shapes of `arrays`. Raises `InputError` as `sizes` does."""
        dims = self.sizes(arrays)
        found = self._plans.get(dims)
        if found is None:
            found = self._plans[dims] = self._make(dims)
            if len(self._plans) > KEPT_PLANS:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(dims)
        return found

    def _check(self, dims: tuple[int, ...], arrays: Sequence[Shaped]) -> None:
        for (index, axis, value), wanted in zip(self._checks, self._check_values(*dims)):
            size = arrays[index].shape[axis]
            if size != wanted:
                spec = self._inputs[index]
                known = ", ".join(f"{name} = {dim}" for (name, _, _), dim in zip(self._sources, dims))
                raise InputError(
                    f"input {spec.name!r} has size {size} along axis {axis}, which must be {expression_text(value)} = "
                    f"{wanted} where {known}; the input's type is {spec}"
                )

    def _check_equal(self, dims: tuple[int, ...]) -> None:
        values = self._equal_values(*dims)
        for (a, b, where), left, right in zip(self._equal, values[::2], values[1::2]):
            if left != right:
                named = ", ".join(f"{name} = {dim}" for (name, _, _), dim in zip(self._sources, dims))
                needed = (
                    f"{expression_text(a)} must hold, where {named}"
                    if is_condition(a)
                    else f"{_with_value(a, left)} and {_with_value(b, right)} must be equal"
                )
                raise InputError(f"{needed}: {where} needs it; the inputs are {', '.join(map(str, self._inputs))}")

    def _make(self, dims: tuple[int, ...]) -> RunPlan:
        self._check_equal(dims)
        sizes = [round_up(max(int(size), 1), self._alignment) for size in self._sizes(*dims)]
        most = max((*dims, *self._elements(*dims)), default=0)
        if most > MOST_ELEMENTS:
            named = ", ".join(f"{name} = {dim}" for (name, _, _), dim in zip(self._sources, dims))
            raise InputError(
                f"the sizes {named} need a tensor of {most} elements; code for symbolic dimensions counts to "
                f"{MOST_ELEMENTS}. Compile the model for these sizes alone, with input_shapes"
            )
        slots, arena = pack(sizes, self._buffers)
        outputs, position = [], 0
        flat = self._output_dims(*dims)
        for rank in self._output_ranks:
            outputs.append(tuple([max(0, int(dim)) for dim in flat[position : position + rank]]))
            position += rank
        shared = max((round_up(int(size), self._alignment) for size in self._shared(*dims)), default=0)
        private = max((round_up(int(size), self._alignment) for size in self._private(*dims)), default=0)
        table = (*dims, *slots, arena, private, *[int(value) for value in self._values(*dims)])
        return RunPlan(table, arena + shared, private, tuple(outputs))


def pack(sizes: Sequence[int], lifetimes: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """Offsets of buffers of `sizes` bytes such that no two overlap that live at the same time, and the bytes needed.

    `lifetimes` are the first and last steps that touch each buffer. Largest first, each at the lowest free offset.
    """
    offsets = [0] * len(sizes)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; in order of offset
    total = 0
    for index in sorted(range(len(sizes)), key=lambda i: (-sizes[i], lifetimes[i][0])):
        size, (first, last) = sizes[index], lifetimes[index]
        offset = 0
        for start, end, other_first, other_last in placed:
            if other_first > last or other_last < first:
                continue
            if start - offset >= size:
                break
            offset = max(offset, end)
        offsets[index] = offset
        placed.append((offset, offset + size, first, last))
        placed.sort()
        total = max(total, offset + size)
    return offsets, total


def compile_expressions(names: Sequence[str], expressions: Sequence[Expression]) -> Any:
    """One function of the dimensions `names` that returns the tuple of the values of `expressions`."""
    slots = {name: f"d{index}" for index, name in enumerate(names)}
    parts = "".join(f"{_source(expression, slots)}, " for expression in expressions)
    text = f"lambda {', '.join(slots.values())}: ({parts})"
    return eval(compile(text, "<sizes>", "eval"), {"min": min, "max": max, "__builtins__": {}})


def _source(expression: Expression, slots: Mapping[str, str]) -> str:
    """Python source of an expression; only numbers, known dimensions and known operators can come out."""
    if isinstance(expression, int):
        return str(int(expression))
    if isinstance(expression, str) and expression in slots:
        return slots[expression]
    if isinstance(expression, list | tuple) and len(expression) == 3 and expression[0] in OPERATORS:
        operator, first, second = expression[0], *[_source(part, slots) for part in expression[1:]]
        if operator in ("//", "%") and not isinstance(expression[2], int):
            second = f"max({second}, 1)"  # a dimension may be 0: what is divided by it counts nothing then
        return OPERATORS[operator].format(first, second)
    if isinstance(expression, list | tuple) and len(expression) == 4 and expression[0] == "select":
        condition, first, second = [_source(part, slots) for part in expression[1:]]
        return f"({first} if {condition} else {second})"
    raise ArtifactError(f"the manifest has a size {expression!r} that this version cannot compute")


def is_condition(expression: Expression) -> bool:
    """True of an expression that holds or does not, False of a number."""
    return isinstance(expression, list | tuple) and expression[0] in ("<", "<=", "==", "!=", "and", "or")


def _with_value(expression: Expression, value: int) -> str:
    """ "H * 2 = 6"; a number is its own value."""
    return str(value) if isinstance(expression, int) else f"{expression_text(expression)} = {value}"


def expression_text(expression: Expression) -> str:
    """An expression as people write it: "H * 2 + 1"."""
    if not isinstance(expression, list | tuple):
        return str(expression)
    operator, *parts = expression
    if operator in ("min", "max", "select"):
        return f"{operator}({', '.join(expression_text(part) for part in parts)})"
    inner = [isinstance(p, list | tuple) and p[0] not in ("min", "max", "select") for p in parts]
    texts = [f"({expression_text(p)})" if nested else expression_text(p) for p, nested in zip(parts, inner)]
    return f" {operator} ".join(texts)
