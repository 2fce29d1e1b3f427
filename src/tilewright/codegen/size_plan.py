"""The sizes of a model with symbolic dimensions as compiled code: what `runtime.shape_program` computes, for C callers.

    int32 main__plan(const int64* dims, int64* plan)       0, or the number of the check that failed
    plan: the table that the run loop reads | bytes of the arena | the outputs' dimensions, one after another

Buffers of the arena are placed as there: each at the lowest offset where it meets no other that lives at the same time.
They come in an order that is fixed, largest first by the hints; only the offsets are found at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.runtime.plan import ExecutionPlan
from tilewright.runtime.shape_program import MOST_ELEMENTS, expression_text, is_condition
from tilewright.tir import op
from tilewright.tir.expr import Expr
from tilewright.tir.ir_builder import BufferVar, IRBuilder
from tilewright.tir.stmt import PrimFunc

_LARGEST_DIM = 2**31 - 2
_BINARY: dict[str, Callable[[Any, Any], Expr]] = {
    "+": op.add, "-": op.subtract, "*": op.multiply, "min": op.minimum, "max": op.maximum, "<": op.less,
    "<=": op.less_equal, "==": op.eq, "!=": op.ne, "and": op.logical_and, "or": op.logical_or,
    "//": lambda a, b: op.floordiv(a, _positive(b)), "%": lambda a, b: op.floormod(a, _positive(b)),
}  # fmt: skip
_REAL: dict[str, Callable[[Any, Any], Expr]] = _BINARY | {"//": lambda a, b: a / _positive(b), "%": lambda a, b: b}


@dataclass(frozen=True)
class SizePlan:
    """The function, and the texts of its checks: number *n* is the one before the *n*-th."""

    function: PrimFunc
    messages: tuple[str, ...]


def size_plan(plan: ExecutionPlan, order: Sequence[int]) -> SizePlan:
    """The plan of sizes of a segment's `plan`, which has a ``dynamic`` part; its buffers are placed in `order`."""
    return _Planner(plan, order).build()


class _Planner:
    """Writes the function statement by statement."""

    def __init__(self, segment: ExecutionPlan, order: Sequence[int]) -> None:
        self.segment, self.order = segment, order
        assert segment.dynamic is not None
        self.sizes = segment.dynamic
        self.ib = IRBuilder()
        self.dims = self.ib.pointer("int64", "dims")
        self.plan = self.ib.pointer("int64", "plan")
        self.messages: list[str] = []
        self.values: dict[str, Expr] = {}
        self.end = 0

    def build(self) -> SizePlan:
        """All of it."""
        ib, sizes = self.ib, self.sizes
        for index, dim in enumerate(sizes.dims):
            name = dim.name
            dim_value = ib.let(name, self.dims[index])
            self.check(op.all(dim_value >= 0, dim_value <= _LARGEST_DIM), f"{name} must be from 0 to {_LARGEST_DIM}")
            self.values[name] = dim_value
        self.check_limits()
        for pair in sizes.equal:
            if is_condition(pair.a):
                self.check(self.exact(pair.a), f"{expression_text(pair.a)} must hold: {pair.where} needs it")
                continue
            texts = " and ".join(map(expression_text, (pair.a, pair.b)))
            self.check(op.eq(self.exact(pair.a), self.exact(pair.b)), f"{texts} must be equal: {pair.where} needs it")
        for value in self.values.values():
            self.append(value)
        total = self.assign_offsets()
        self.append(total)  # the workspace that kernels share lies behind all buffers
        self.append(self.largest(sizes.worker_workspace_bytes))
        for value in sizes.values:
            self.append(self.exact(value))
        self.append(total + self.largest(sizes.workspace_bytes))
        for shape in sizes.output_shapes:
            for value in shape:
                self.append(op.maximum(self.exact(value), 0))
        name = f"{self.segment.entry}__plan"
        params = [self.dims.buffer, self.plan.buffer]
        return SizePlan(PrimFunc(name, params, ib.get(), {"noalias": True}), tuple(self.messages))

    def check_limits(self) -> None:
        """Refuse sizes that compiled code cannot index; in floating point, where nothing overflows."""
        inputs = self.segment.inputs
        given: list[list[Any]] = [[*spec.shape] for spec in inputs]
        for check in self.sizes.checks:
            given[check.input][check.axis] = check.value
        named: list[tuple[str, Sequence[Any]]] = [(f"input {spec.name}", shape) for spec, shape in zip(inputs, given)]
        named += [(f"output {index}", shape) for index, shape in enumerate(self.sizes.output_shapes)]
        for name, shape in named:
            if any(not isinstance(size, int) for size in shape):
                count = self.real(1)
                for size in shape:
                    count = count * self.real(size)
                self.check(count <= float(MOST_ELEMENTS), f"{name} has more than {MOST_ELEMENTS} elements")
        if self.sizes.elements:
            largest = self.real(0)
            for count in self.sizes.elements:
                largest = op.maximum(largest, self.real(count))
            self.check(largest <= float(MOST_ELEMENTS), f"they need a tensor of more than {MOST_ELEMENTS} elements")

    def assign_offsets(self) -> Expr:
        """Find and append the offsets of the arena's buffers; the bytes that all of them need."""
        ib, buffers, count = self.ib, self.sizes.buffers, len(self.order)
        if not count:
            return op.const(0, "int64")
        size, first, last, offset = (
            ib.allocate("int64", count, name, "local") for name in ("size", "first", "last", "offset")
        )
        moved, total = (ib.allocate("int64", 1, name, "local") for name in ("moved", "total"))
        for position, index in enumerate(self.order):
            size[position] = self.aligned(op.maximum(self.exact(buffers[index].bytes), 1))
            first[position], last[position] = (
                op.const(at, "int64") for at in (buffers[index].first, buffers[index].last)
            )
        total[0] = op.const(0, "int64")
        with ib.for_range(0, count, "i") as i:
            self._position(i, size, first, last, offset, moved)
            total[0] = op.maximum(total[0], offset[i] + size[i])
        for position, index in sorted(enumerate(self.order), key=lambda pair: pair[1]):
            assert self.end == len(self.values) + index
            self.append(offset[position])
        return ib.let("arena", total[0])

    def _position(
        self, i: Expr, size: BufferVar, first: BufferVar, last: BufferVar, offset: BufferVar, moved: Any
    ) -> None:
        """Move buffer `i` up from 0, behind whatever it meets, until it meets nothing."""
        ib = self.ib
        offset[i] = op.const(0, "int64")
        moved[0] = op.const(1, "int64")
        with ib.while_loop(op.eq(moved[0], 1)):
            moved[0] = op.const(0, "int64")
            with ib.for_range(0, i, "j") as j:
                lives = op.all(first[j] <= last[i], last[j] >= first[i])
                meets = op.all(offset[i] < offset[j] + size[j], offset[j] < offset[i] + size[i])
                with ib.if_scope(op.all(lives, meets)):
                    offset[i] = offset[j] + size[j]
                    moved[0] = op.const(1, "int64")

    def check(self, condition: Expr, message: str) -> None:
        """The function ends here with the number of this check unless `condition` holds."""
        if message not in self.messages:
            self.messages.append(message)
        self.ib.assert_true(condition, message)

    def append(self, value: Expr) -> None:
        """The next entry of the plan."""
        self.plan[self.end] = op.cast("int64", value)
        self.end += 1

    def largest(self, sizes: Sequence[Any]) -> Expr:
        """The largest of some sizes in bytes, aligned."""
        result: Expr = op.const(0, "int64")
        for size in sizes:
            result = op.maximum(result, self.aligned(self.exact(size)))
        return result

    def aligned(self, size: Expr) -> Expr:
        """The least multiple of the segment's alignment that is not below `size`."""
        alignment = self.segment.alignment
        return op.floordiv(size + (alignment - 1), alignment) * alignment

    def exact(self, size: Any) -> Expr:
        """A size of the manifest as an int64 expression (a comparison as a bool)."""
        return self._expression(size, "int64", _BINARY)

    def real(self, size: Any) -> Expr:
        """About as much, and no less where it is large, as a float64 expression."""
        return self._expression(size, "float64", _REAL)

    def _expression(self, size: Any, dtype: str, operators: Mapping[str, Callable[[Any, Any], Expr]]) -> Expr:
        if isinstance(size, int):
            return op.const(size, dtype)
        if isinstance(size, str):
            return op.cast(dtype, self.values[size])
        if size[0] == "select":
            return op.select(self.exact(size[1]), *[self._expression(part, dtype, operators) for part in size[2:]])
        return operators[size[0]](*[self._expression(part, dtype, operators) for part in size[1:]])


def _positive(divisor: Expr) -> Expr:
    """A divisor that is no constant may be a dimension of size 0."""
    return divisor if op.as_const(divisor) is not None else op.maximum(divisor, 1)
