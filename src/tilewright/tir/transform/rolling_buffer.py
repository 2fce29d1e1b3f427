"""Rolling buffers: what one iteration of a loop made and the next needs again is kept rather than made again."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import ScheduleError
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, Var
from tilewright.tir.stmt import Allocate, AttrStmt, BufferStore, For, ForKind, IfThenElse, PrimFunc, Stmt
from tilewright.tir.transform.statements import walk
from tilewright.tir.visitor import Rewriter, StmtRewriter, collect, collect_vars

KEY = "rolling_buffer"


def rolling_buffer(func: PrimFunc) -> PrimFunc:
    """`func` with the buffers that the attribute "rolling_buffer" names outside of the loop they roll along.

        for i in range(14):                                   T = allocate(float32[3])
            T = allocate(float32[3])                          for i in range(14):
            with attribute("rolling_buffer", …, on=T):            for r in range(3):
                for r in range(3):                     =>             if i == 0 or r >= 2:
                    T[r] = A[i + r]                                       T[(i + r) % 3] = A[i + r]
            C[i] = T[0] + T[2]                                    C[i] = T[i % 3] + T[(i + 2) % 3]

    The attribute's value is `rolling(loop variable, dimension, step)`: in each iteration the part moves on by `step`
    along `dimension`, in which the buffer wraps around. Raises ScheduleError where the loop does not run in order, or
    the buffer is passed as an address, which could not wrap.
    """
    found = {stmt.target: _roll(stmt) for stmt in walk(func.body) if isinstance(stmt, AttrStmt) and stmt.key == KEY}
    return func.with_body(_Roller(found)(func.body)) if found else func


@dataclass(frozen=True)
class _Roll:
    """Buffer `buffer` moves on by `step` elements along `dimension` in each iteration of the loop over `var`."""

    buffer: Buffer
    var: Var
    dimension: int
    step: int

    def position(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The indices of the element at `indices` of the part at hand."""
        size = self.buffer.shape[self.dimension]
        moved = op.floormod(self.var * self.step + indices[self.dimension], size)
        return (*indices[: self.dimension], moved, *indices[self.dimension + 1 :])

    def is_new(self, index: Expr) -> Expr:
        """The condition that the elements at `index` of the dimension were not part of the iteration before."""
        size = self.buffer.shape[self.dimension]
        return op.any(op.eq(self.var, 0), index >= size - self.step)


def _roll(stmt: AttrStmt) -> _Roll:
    var, dimension, step = stmt.value.args
    return _Roll(stmt.target, var, dimension.value, step.value)


class _OnlyNew(StmtRewriter):
    """Puts conditions that elements are new around what makes them, as far outside as they can be evaluated."""

    def __init__(self, roll: _Roll) -> None:
        super().__init__()
        self.roll = roll

    def visit_Stmt(self, stmt: Stmt) -> Stmt:
        """`stmt` under the condition, or with it around parts."""
        inside, roll = list(walk(stmt)), self.roll
        stored = {s.indices[roll.dimension] for s in inside if isinstance(s, BufferStore) and s.buffer is roll.buffer}
        loops = {s.var for s in inside if isinstance(s, For)}
        others = [s.value.args[0] for s in inside if isinstance(s, AttrStmt) and s.key == KEY]
        if not stored:
            return stmt
        if len(stored) == 1 and all(v in loops for v in others):  # what rolls along a loop outside needs all of it
            (index,) = stored
            if not any(v in loops for v in collect_vars(index)):
                return IfThenElse(op.likely(roll.is_new(index)), stmt)
        return self.rebuild(stmt)


class _Roller(Rewriter):
    def __init__(self, rolls: dict[Buffer, _Roll]) -> None:
        super().__init__()
        self.rolls = rolls

    def visit_For(self, node: For) -> Stmt:
        """A loop, within the allocations of what rolls along it."""
        along = [roll for roll in self.rolls.values() if roll.var is node.var]
        if along and node.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            raise ScheduleError(
                f"rolling_buffer of {along[0].buffer.name}: the loop {node.var.name} it rolls along is "
                f"{node.thread or node.kind.value}, so that no iteration comes after another"
            )
        loop: Stmt = self.rebuild(node)
        for roll in reversed(along):
            loop = Allocate(roll.buffer, loop)
        return loop

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """The allocation of the rolling buffer, moved outside of its loop."""
        return self(node.body) if node.buffer in self.rolls else self.rebuild(node)

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        """The statements that make a part."""
        if node.key != KEY:
            return self.rebuild(node)
        return self(_OnlyNew(self.rolls[node.target])(node.body))

    def visit_BufferLoad(self, node: BufferLoad) -> Expr:
        """A load from where the element is now."""
        roll = self.rolls.get(node.buffer)
        indices = tuple(self(i) for i in node.indices)
        return BufferLoad(node.buffer, indices if roll is None else roll.position(indices))

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        """A store to where the element is now."""
        roll = self.rolls.get(node.buffer)
        indices = tuple(self(i) for i in node.indices)
        return BufferStore(node.buffer, self(node.value), indices if roll is None else roll.position(indices))

    def visit_Call(self, node: Call) -> Expr:
        """A call; an address cannot wrap around."""
        if node.op in ("address_of", "access_region"):
            for load in collect(node, BufferLoad):
                if load.buffer in self.rolls:
                    raise ScheduleError(
                        f"rolling_buffer of {load.buffer.name}: it is passed to a call as an address, but its part "
                        "wraps around; do not tensorize what makes or reads it"
                    )
        return self.rebuild(node)
