"""Turn loops that only copy, marked by a pragma, into one call that moves a block, for a device's copy unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.errors import ScheduleError
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.linear import Linear, conjuncts
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, StringImm, Var
from tilewright.tir.stmt import AttrStmt, BufferStore, Evaluate, For, ForKind, PrimFunc, SeqStmt, Stmt
from tilewright.tir.transform.statements import walk
from tilewright.tir.visitor import StmtRewriter, collect_vars


@dataclass(frozen=True)
class CopyRegion:
    """One side of a copy: the elements of `buffer` at `start` + sum of i[d] * steps[d], for i in a box of `shape`.

    `start` has one index for each dimension of the buffer; `steps[d]` likewise says how far the d-th loop moves.
    """

    buffer: Buffer
    start: tuple[Expr, ...]
    shape: tuple[Expr, ...]
    steps: tuple[tuple[int, ...], ...] = field(repr=False)

    @property
    def strides(self) -> tuple[Expr, ...]:
        """The stride of each loop in memory, in elements."""
        positions: list[Expr] = list(self.buffer.strides or ())
        if not positions:
            positions = [op.const(1)]
            for size in reversed(self.buffer.shape[1:]):
                positions.insert(0, positions[0] * size)
        return tuple(_sum([k * p for k, p in zip(step, positions, strict=True)]) for step in self.steps)

    def access_ptr(self, access_mask: str) -> Expr:
        """The address of the first element, with the box of the buffer that is accessed, and how ("r", "w")."""
        extents = [
            1 + _sum([step[d] * (n - 1) for step, n in zip(self.steps, self.shape, strict=True)])
            for d in range(len(self.start))
        ]
        return Call("handle", "access_region", (StringImm(access_mask), BufferLoad(self.buffer, self.start), *extents))


#: source, target, padding before and after in each loop (elements of the target), the padding's value: the statement.
CopyIntrinsic = Callable[[CopyRegion, CopyRegion, tuple[Expr, ...], tuple[Expr, ...], Expr | None], Stmt | Expr]


def inject_copy_intrin(func: PrimFunc, pragma_key: str, fintrin: CopyIntrinsic, casts: bool = False) -> PrimFunc:
    """`func` with each loop nest under the pragma (or attribute) `pragma_key` replaced by what `fintrin` returns for
    it.

        for i in range(4):    # dma_copy = true
            for j in range(8):                     =>    call_extern("dma", T's box [4, 8], A's box at [k, 0], …)
                T[i, j] = A[k + i, j]

    The nest must copy one buffer into another of the same type, with indices that are sums of multiples of the loops.
    The value may be ``if_then_else(condition, A[…], padding)`` or a `select`, where the condition bounds loops one by
    one: then the source is the box that is inside, and the padding is passed for each loop. With `casts` the value may
    be cast to the target's type: `fintrin` sees that by the types of the buffers. Runs before buffers are flattened.
    Raises ScheduleError, saying why, for a nest that is no copy.
    """

    return _Marked(pragma_key, fintrin, casts)(func)


class _Marked(StmtRewriter):
    def __init__(self, key: str, fintrin: CopyIntrinsic, casts: bool) -> None:
        super().__init__()
        self.key, self.fintrin, self.casts = key, fintrin, casts

    def visit_For(self, node: For) -> Stmt:
        """A loop under the pragma as a copy."""
        return self._copied(node) if node.annotations.get(self.key) else self.rebuild(node)

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        """A statement under the attribute as a copy."""
        return self._copied(node.body) if node.key == self.key else self.rebuild(node)

    def _copied(self, nest: Stmt) -> Stmt:
        made = _Copy(nest, self.key, self.casts).build(self.fintrin)
        return made if isinstance(made, Stmt) else Evaluate(made)


class _Copy:
    """One marked loop nest."""

    def __init__(self, nest: Stmt, key: str, casts: bool) -> None:
        self.key, self.loops, self.casts = key, list[For](), casts
        self.target = next((s.buffer.name for s in walk(nest) if isinstance(s, BufferStore)), "nothing")
        self.analyzer = Analyzer()
        while isinstance(nest, For):
            if nest.kind is ForKind.THREAD_BINDING:
                raise self.error(f"its loop {nest.var.name} is bound to {nest.thread}")
            self.loops.append(nest)
            self.analyzer.bind(nest.var, nest.min, nest.extent)
            nest = nest.body
        if isinstance(nest, SeqStmt):
            raise self.error("its loops hold several statements")
        if not isinstance(nest, BufferStore):
            raise self.error(f"inside its loops is no store but {type(nest).__name__}; choose factors that divide")
        self.store = nest

    def error(self, why: str) -> ScheduleError:
        """The error that the nest is no copy."""
        return ScheduleError(
            f"{self.key}: the loops that store to {self.target} are no plain copy of one buffer: {why}"
        )

    def build(self, fintrin: CopyIntrinsic) -> Stmt | Expr:
        """The result of the intrinsic's function for this copy."""
        value = self._copied(self.store.value)
        condition: Expr | None = None
        padding: Expr | None = None
        if isinstance(value, e.Select):
            condition, padding, value = value.condition, value.false_value, value.true_value
        elif isinstance(value, Call) and value.op == "if_then_else":
            condition, value, padding = value.args
        value = self._copied(value)
        if not isinstance(value, BufferLoad):
            raise self.error(f"the value is {value!r}; compute it in a stage of its own")
        if padding is not None and any(loop.var in collect_vars(padding) for loop in self.loops):
            raise self.error(f"the padding {padding!r} varies within it")
        shape = tuple(loop.extent for loop in self.loops)
        before, after = self._padding(condition)
        inner = tuple(
            op.maximum(n - b - a, 0) if condition is not None else n
            for n, b, a in zip(shape, before, after, strict=True)
        )
        target = self._region(self.store.buffer, self.store.indices, shape, None)
        source = self._region(value.buffer, value.indices, inner, before)
        return fintrin(source, target, before, after, padding)

    def _copied(self, value: Expr) -> Expr:
        return value.value if self.casts and isinstance(value, e.Cast) else value

    def _region(
        self, buffer: Buffer, indices: Sequence[Expr], shape: tuple[Expr, ...], skipped: tuple[Expr, ...] | None
    ) -> CopyRegion:
        start, columns = [], []
        for index in indices:
            form = self.analyzer.linear(index)
            steps = [form.terms.get(loop.var, 0) for loop in self.loops]
            rest, _ = self._without_loops(form, f"the index {index!r} of {buffer.name}")
            if min(steps, default=0) < 0:
                raise self.error(f"the index {index!r} of {buffer.name} runs backwards")
            moved = [s * (b if loop.min is b else loop.min + b) for s, loop, b in self._moves(steps, skipped)]
            start.append(self.analyzer.simplify(_sum([rest, *moved])))
            columns.append(steps)
        rows = tuple(tuple(column[i] for column in columns) for i in range(len(self.loops)))
        return CopyRegion(buffer, tuple(start), tuple(self.analyzer.simplify(n) for n in shape), rows)

    def _moves(self, steps: list[int], skipped: tuple[Expr, ...] | None) -> list[tuple[int, For, Expr]]:
        zero = tuple(op.const(0, loop.var.dtype) for loop in self.loops)
        return [m for m in zip(steps, self.loops, skipped or zero, strict=True) if m[0]]

    def _without_loops(self, form: Linear, what: str) -> tuple[Expr, list[tuple[Var, int]]]:
        """The part of a sum in which no loop occurs, and the multiples of loops; an error if a loop is elsewhere."""
        own = {loop.var for loop in self.loops}
        rest: list[Expr] = [op.const(form.constant)]
        for atom, factor in form.terms.items():
            if atom in own:
                continue
            if own & collect_vars(atom).keys():
                raise self.error(f"{what} is no sum of multiples of its loops")
            rest.append(atom * factor)
        return _sum(rest), [(v, k) for v, k in form.terms.items() if isinstance(v, Var) and v in own]

    def _padding(self, condition: Expr | None) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """The iterations of each loop that are padding, at its start and at its end."""
        before: dict[Var, Expr] = {loop.var: op.const(0, loop.var.dtype) for loop in self.loops}
        after = dict(before)
        extents = {loop.var: loop for loop in self.loops}
        for fact in [] if condition is None else conjuncts(condition):
            rest, multiples = self._without_loops(self._at_most_zero(fact), f"the condition {fact!r}")
            if len(multiples) != 1 or abs(multiples[0][1]) != 1:
                raise self.error(f"the condition {fact!r} does not bound one loop")
            (var, factor), loop = multiples[0], extents[multiples[0][0]]
            if factor < 0:
                before[var] = op.minimum(op.maximum(before[var], rest - loop.min), loop.extent)
            else:
                after[var] = op.minimum(op.maximum(after[var], loop.min + loop.extent - 1 + rest), loop.extent)
        simplify = self.analyzer.simplify
        return tuple(simplify(x) for x in before.values()), tuple(simplify(x) for x in after.values())

    def _at_most_zero(self, fact: Expr) -> Linear:
        """The sum that is at most 0 exactly where `fact` holds."""
        if isinstance(fact, e.LT | e.LE):
            return self.analyzer.linear(fact.a - fact.b + int(isinstance(fact, e.LT)))
        if isinstance(fact, e.GT | e.GE):
            return self.analyzer.linear(fact.b - fact.a + int(isinstance(fact, e.GT)))
        raise self.error(f"the condition {fact!r} does not bound one loop")


def _sum(terms: Sequence[Expr]) -> Expr:
    total = op.const(0)
    for term in terms:
        total = term if isinstance(total, IntImm) and total.value == 0 else total + term
    return total
