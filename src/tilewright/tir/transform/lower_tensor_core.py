"""Turn the loops of a block's product of matrices into instructions of tensor cores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.errors import ScheduleError
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.linear import conjuncts
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Add, BufferLoad, Call, Cast, Expr, Mul, Var
from tilewright.tir.stmt import Allocate, BufferStore, For, IfThenElse, PrimFunc, SeqStmt, Stmt
from tilewright.tir.tensor_core import ANNOTATION, INSTRUCTIONS, RESIDENT, Instruction, Tiling
from tilewright.tir.transform.block_product import BlockProduct
from tilewright.tir.transform.operand_tile import Operand
from tilewright.tir.transform.statements import walk
from tilewright.tir.transform.warpgroup_product import WarpgroupProduct
from tilewright.tir.visitor import StmtRewriter, collect_vars


def lower_tensor_core(func: PrimFunc) -> PrimFunc:
    """`func` with each loop nest annotated "tensor_core" computed by warps, its operands copied ahead.

        C = allocate(float32[64, 64], scope="shared")
        for i in range(64):  # tensor_core=2x2 warps, depth 32, 3 stages
            for j in range(64):
                C[i, j] = 0
                for k in range(512):
                    C[i, j] = C[i, j] + float32(A[x*64 + i, k]) * float32(B[y*64 + j, k])
    =>
        tiles = allocate(uint8[24576], scope="shared.dyn")      # A's and B's in 3 stages; later C
        for t in thread("threadIdx.x", 128):
            ptx_cp_async(A_tile, A …), ptx_cp_async(B_tile, B …), ptx_commit_group()      twice
            for step in range(16):
                ptx_wait_group(1), storage_sync("shared"), then the copies for step + 2
                ptx_ldmatrix(…), ptx_mma(…)
            C[…] = sums[…]                                      by lanes

    Operands may be read at any index and under conditions, as those of a convolution are; pieces that are neighbours in
    memory are copied asynchronously, others are computed. Runs before `bind_threads`. Raises ScheduleError where the
    loops are no such product.
    """
    lowering = _Lowering(func.name)
    body = lowering(func.body)
    return PrimFunc(func.name, func.params, body, {**func.attrs, **lowering.attrs})


@dataclass(frozen=True)
class _Nest:
    """The parts of an annotated loop nest."""

    sums: Buffer
    factors: tuple[Operand, Operand]
    index: tuple[Expr, ...]
    instruction: Instruction
    tiling: Tiling


class _Lowering(StmtRewriter):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.analyzer = Analyzer()
        self.attrs: dict[str, int] = {}

    def visit_For(self, loop: For) -> Stmt:
        """Loops around, whose ranges help to prove what operands are."""
        self.analyzer.bind(loop.var, (loop.min, loop.extent))
        if RESIDENT in loop.annotations:
            self.attrs[RESIDENT] = loop.annotations[RESIDENT]
        return self.rebuild(loop)

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        """The sums of a product, which take the memory of its operands in the end."""
        nest = next((s for s in walk(stmt.body) if _is_annotated(s) and _stores(s, stmt.buffer)), None)
        if nest is None:
            return self.rebuild(stmt)
        assert isinstance(nest, For)
        for loop in _loops_between(stmt.body, nest):
            self.analyzer.bind(loop.var, (loop.min, loop.extent))
        found = self._parse(nest)
        self.attrs[RESIDENT] = found.tiling.resident
        kind = WarpgroupProduct if found.tiling.warpgroups else BlockProduct
        product = kind(found.sums, found.index, found.factors, found.instruction, found.tiling,
                               self.analyzer)  # fmt: skip
        return product.within(_Replace(nest, product.statement())(stmt.body))

    def _fail(self, why: str) -> ScheduleError:
        return ScheduleError(f"{self.name}: a loop nest annotated {ANNOTATION!r} {why}")

    def _parse(self, nest: For) -> _Nest:
        loops, conditions, store = _descend(nest)
        value, tiling = store.value, nest.annotations[ANNOTATION]
        if not isinstance(tiling, Tiling):
            raise self._fail(f"needs a Tiling, not {tiling!r}")
        product = _added(store)
        if product is None or len(loops) != 3 or len(store.indices) < 2:
            raise self._fail(f"adds no products in three loops: {store.buffer.name} = {value!r}")
        by_var = {loop.var: loop for loop in loops}
        row, column = (by_var.get(i) if isinstance(i, Var) else None for i in store.indices[-2:])
        if row is None or column is None:
            raise self._fail(f"stores {store.buffer.name} at {store.indices!r}, not at two of its loops")
        (depth,) = [loop for loop in loops if loop is not row and loop is not column]
        for loop in loops:
            self.analyzer.bind(loop.var, (loop.min, loop.extent))
        a, b = (_uncast(x) for x in product)
        if row.var in collect_vars(b) or column.var in collect_vars(a):
            a, b = b, a
        if row.var in collect_vars(b) or column.var in collect_vars(a):
            raise self._fail(f"multiplies what is no row by what is no column: {value!r}")
        instruction = INSTRUCTIONS.get(str(a.dtype))
        if instruction is None or a.dtype is not b.dtype or str(store.buffer.dtype) != instruction.sums:
            raise self._fail(f"has no instruction for {a.dtype} by {b.dtype} with sums of {store.buffer.dtype}")
        sides = [
            self._operand(x, own, depth, [c for c in conditions if other.var not in collect_vars(c)], size)
            for x, own, other, size in ((a, row, column, tiling.rows), (b, column, row, tiling.columns))
        ]
        return _Nest(store.buffer, (sides[0], sides[1]), store.indices[:-2], instruction, tiling)

    def _operand(self, value: Expr, own: For, depth: For, conditions: list[Expr], size: int) -> Operand:
        """A factor; of rows beyond those of the loop, where the tile has some, it is zero."""
        low, high = self.analyzer.const_int_bound(own.extent)
        if low is None or high is None or high > size:
            raise self._fail(f"has {own.extent!r} rows or columns in a tile of {size}")
        if low < size:
            conditions = [*conditions, own.var < own.extent]
            self.analyzer.set_bound(own.var, 0, size - 1)
        return Operand(value, own.var, depth.var, depth.extent, tuple(conditions))


def _is_annotated(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and ANNOTATION in stmt.annotations


def _stores(nest: Stmt, buffer: Buffer) -> bool:
    return any(isinstance(s, BufferStore) and s.buffer is buffer for s in walk(nest))


def _loops_between(body: Stmt, nest: Stmt) -> Iterator[For]:
    """The loops of `body` around `nest`."""
    for stmt in walk(body):
        if isinstance(stmt, For) and stmt is not nest and any(s is nest for s in walk(stmt.body)):
            yield stmt


def _descend(stmt: Stmt) -> tuple[list[For], list[Expr], BufferStore]:
    """The loops and conditions around the last store of a nest, and the store."""
    loops: list[For] = []
    conditions: list[Expr] = []
    while not isinstance(stmt, BufferStore):
        if isinstance(stmt, For):
            loops.append(stmt)
            stmt = stmt.body
        elif isinstance(stmt, IfThenElse):
            conditions += [_plain(c) for c in conjuncts(stmt.condition)]
            stmt = stmt.then_case
        elif isinstance(stmt, SeqStmt):
            stmt = stmt.stmts[-1]  # after the sums were set to zero
        else:
            raise ScheduleError(f"a product on tensor cores cannot contain {type(stmt).__name__}")
    return loops, conditions, stmt


def _plain(condition: Expr) -> Expr:
    return condition.args[0] if isinstance(condition, Call) and condition.op == "likely" else condition


def _added(store: BufferStore) -> tuple[Expr, Expr] | None:
    """The factors of the product that the store adds to its own element."""
    if not isinstance(store.value, Add):
        return None
    old, new = store.value.a, store.value.b
    if isinstance(new, BufferLoad) and new.buffer is store.buffer:
        old, new = new, old
    own = isinstance(old, BufferLoad) and old.buffer is store.buffer and old.indices == store.indices
    return (new.a, new.b) if own and isinstance(new, Mul) else None


def _uncast(x: Expr) -> Expr:
    return x.value if isinstance(x, Cast) and str(x.value.dtype) in INSTRUCTIONS else x


class _Replace(StmtRewriter):
    def __init__(self, old: Stmt, new: Stmt) -> None:
        super().__init__()
        self.old, self.new = old, new

    def visit_For(self, loop: For) -> Stmt:
        """The new statement in place of the old."""
        return self.new if loop is self.old else self.rebuild(loop)


__all__ = ["lower_tensor_core"]
