"""The loops of one stage: values of its axes, guards, initialization and update of reductions.

Every loop runs from 0; a loop of one iteration is left out. A guard stands at the outermost loop where its variables
are known, as a `likely` condition, and only where the bounds do not prove it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.errors import ScheduleError
from tilewright.te.bounds import StageBounds, divides
from tilewright.te.itervar import IterType, IterVar
from tilewright.te.leaf_axes import made_of
from tilewright.te.loop_relation import Fuse, Split
from tilewright.te.operation import Operation
from tilewright.te.region import to_expr
from tilewright.te.rewrite import BodyRewriter
from tilewright.te.stage import Stage
from tilewright.te.tensor import Tensor
from tilewright.tir import op as tir_op
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.position import Position
from tilewright.tir.stmt import IMPORT_LLVM, For, ForKind, IfThenElse, Stmt
from tilewright.tir.transform.inject_virtual_thread import WHOLE

_ONCE = (ForKind.SERIAL, ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.UNROLLED)


@dataclass
class Guard:
    """A condition and the positions (among the leaf loops) of the loops it depends on."""

    condition: Expr
    depends: frozenset[int]

    @property
    def level(self) -> int:
        """The innermost loop it needs; -1 if it needs none of the stage's own."""
        return max(self.depends, default=-1)


class Nest:
    """The loops of one stage, from outermost to innermost, with the values that its axes take in them.

    `roots[axis]` counts from the start of the stage's region, so it is the index into the stage's buffer;
    `values[variable]` is the index into the whole tensor, for use in the body. `positions` says where axes were made
    by primitives; other loops are where the operation is.
    """

    def __init__(
        self,
        stage: Stage,
        op: Operation,
        bounds: StageBounds,
        rename: Mapping[IterVar, Var],
        positions: Mapping[IterVar, Position],
        read: Callable[[Tensor, tuple[Expr, ...]], Expr] | None = None,
    ) -> None:
        self.stage, self.op, self.positions = stage, op, positions
        self.bounds = bounds
        self.leaves = stage.leaf_iter_vars
        self.loop_vars = [rename.get(iv, iv.var) for iv in self.leaves]
        self.derived: dict[IterVar, Expr] = {}
        self.depends: dict[IterVar, frozenset[int]] = {}
        self.guards: list[Guard] = []
        for position, (iv, var) in enumerate(zip(self.leaves, self.loop_vars, strict=True)):
            once = _is_one(bounds.extents[iv])
            self.derived[iv] = IntImm(var.dtype, 0) if once else var
            self.depends[iv] = frozenset() if once else frozenset((position,))
        self.roots: dict[IterVar, Expr] = {}
        self.values: dict[Var, Expr] = {}
        self._read = read
        self._settle(op.axis)
        self._settle(op.reduce_axis)

    def _settle(self, axes: Sequence[IterVar]) -> None:
        """The values of the axes of one kind. Lengths of reductions may depend on those of the data axes."""
        if not axes:
            return
        kind = axes[0].iter_type
        lengths = BodyRewriter(dict(self.values), self._read) if kind is IterType.REDUCE else None
        if lengths is not None:
            own = [iv for iv in self.bounds.extents if iv.iter_type is kind]
            self.bounds = replace(
                self.bounds, extents=self.bounds.extents | {iv: lengths(self.bounds.extents[iv]) for iv in own}
            )
        for relation in reversed(self.stage.relations):
            if made_of(relation).iter_type is kind:
                self._derive(relation)
        for iv in axes:
            assert iv.dom is not None
            relative, low = self.derived[iv], self.bounds.mins[iv]
            self.roots[iv] = value = relative
            if low.terms or low.constant:
                start = to_expr(low, iv.var.dtype)
                value = (start if lengths is None else lengths(start)) + relative
            self.values[iv.var] = value
            self._guard_domain(iv, value)

    def _derive(self, relation: object) -> None:
        """The value of the split or fused axes from those they became."""
        extents = self.bounds.extents
        if isinstance(relation, Split):
            outer, inner, whole = relation.outer, relation.inner, relation.parent
            step, extent = extents[inner], extents[whole]
            self.derived[whole] = self.derived[outer] * step + self.derived[inner]
            self.depends[whole] = self.depends[outer] | self.depends[inner]
            if not divides(extents[outer], step, extent):
                self._add_guard(self.derived[whole] < extent, self.depends[whole])
        elif isinstance(relation, Fuse):
            fused, outer, inner = relation.fused, relation.outer, relation.inner
            step = extents[inner]
            one_outer, one_inner = _is_one(extents[outer]), _is_one(step)
            zero = IntImm(fused.var.dtype, 0)
            value = self.derived[fused]
            self.derived[outer] = zero if one_outer else value if one_inner else value // step
            self.derived[inner] = zero if one_inner else value if one_outer else value % step
            self.depends[outer] = self.depends[inner] = self.depends[fused]

    def _guard_domain(self, iv: IterVar, value: Expr) -> None:
        assert iv.dom is not None
        starts_inside, ends_inside = self.bounds.inside[iv]
        if not starts_inside:
            self._add_guard(value >= iv.dom.min, self.depends[iv])
        if not ends_inside:
            self._add_guard(value < iv.dom.extent, self.depends[iv])

    def _add_guard(self, condition: Expr, depends: frozenset[int]) -> None:
        if isinstance(condition, IntImm) and condition.value:
            return
        if all(g.condition is not condition for g in self.guards):
            self.guards.append(Guard(condition, depends))

    def loop_values(self) -> dict[Var, Expr]:
        """`values`, and what stands for the variables of derived axes and of the threads that loops are bound to."""
        found = {iv.var: value for iv, value in self.derived.items()}
        for iv in self.leaves:
            thread = self.stage.attr(iv).thread
            if thread is not None:
                found[thread.var] = self.derived[iv]
        return found | self.values

    def first_reduction(self) -> int:
        """The position of the outermost reduction loop; the number of loops if there is none."""
        for position, iv in enumerate(self.leaves):
            if iv.iter_type is IterType.REDUCE:
                return position
        return len(self.leaves)

    def wrap(
        self, body: Stmt, positions: Sequence[int], guards: Sequence[Guard], at_loop: Callable[[int, Stmt], Stmt] | None
    ) -> Stmt:
        """`body` within the loops at `positions` (ascending) and the guards; `at_loop` may add statements at a loop."""
        body.at(self.op.position)
        for position in reversed(positions):
            if at_loop is not None:
                body = at_loop(position, body)
            body = guarded([g.condition for g in guards if g.level == position], body)
            body = self._loop(position, body)
        return body

    def _loop(self, position: int, body: Stmt) -> Stmt:
        iv = self.leaves[position]
        attr = self.stage.attr(iv)
        extent = self.bounds.extents[iv]
        if attr.kind in (ForKind.VECTORIZED, ForKind.UNROLLED) and not isinstance(extent, IntImm):
            raise ScheduleError(
                f"axis {iv.name} in stage {self.stage.name} is {attr.kind.value}, but its extent {extent!r} is not a "
                "constant; split it by a constant factor and mark the inner axis"
            )
        if _is_one(extent) and attr.kind in _ONCE and not any(key in attr.pragmas for key in WHOLE):
            return body
        thread = attr.thread.thread_tag if attr.thread is not None else ""
        zero = IntImm(extent.dtype, 0)
        notes = {key: value for key, value in attr.pragmas.items() if key != IMPORT_LLVM}
        loop = For(self.loop_vars[position], zero, extent, attr.kind, body, thread, notes)
        return loop.at(self.positions.get(iv, self.op.position))


def guarded(conditions: Sequence[Expr], body: Stmt) -> Stmt:
    """`body` under all the conditions, each a `likely` hint."""
    if not conditions:
        return body
    return IfThenElse(tir_op.all(*[tir_op.likely(c) for c in conditions]), body)


def _is_one(extent: Expr) -> bool:
    return isinstance(extent, IntImm) and extent.value == 1
