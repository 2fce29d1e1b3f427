"""Index arithmetic in 32 bits where 64 are not needed."""

from __future__ import annotations

from tilewright.tir import expr as e
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.expr import BufferLoad, Expr, IntImm, Var
from tilewright.tir.stmt import BufferStore, For, PrimFunc, Stmt
from tilewright.tir.visitor import Rewriter

_ARITHMETIC = (e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod, e.Min, e.Max)
_LOW, _HIGH = -(2**31), 2**31 - 1


def narrow_index(func: PrimFunc) -> PrimFunc:
    """`func` with int64 loop variables and indices computed as int32 where no value in them can need more.

        for i: int64 in range(8):           for i: int32 in range(8):
            c[i * int64(2)] = 0      =>         c[i * 2] = 0

    Registers for addresses are what GPUs are short of. An index whose bounds are not known stays as wide as it is.
    """
    return func.with_body(_Narrower()(func.body))


class _Narrower(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.analyzer = Analyzer()
        self.narrow: dict[Expr, Expr | None] = {}

    def visit_For(self, node: For) -> Stmt:
        """The loop over a narrow variable if its range fits."""
        self.analyzer.bind(node.var, (node.min, node.extent))
        low, extent = self.narrowed(node.min), self.narrowed(node.extent)
        if node.var.dtype == "int64" and low is not None and extent is not None and self._fits(node.min + node.extent):
            var = Var(node.var.name, "int32")
            self.narrow[node.var] = var
            self.memo[node.var] = var.astype("int64")
            return For(var, low, extent, node.kind, self(node.body), node.thread, node.annotations)
        return self.rebuild(node)

    def visit_BufferLoad(self, node: BufferLoad) -> Expr:
        """The load at narrow indices."""
        return BufferLoad(node.buffer, [self._index(i) for i in node.indices])

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        """The store at narrow indices."""
        return BufferStore(node.buffer, self(node.value), tuple(self._index(i) for i in node.indices))

    def visit_CompareExpr(self, node: e.CompareExpr) -> Expr:
        """A comparison of narrow operands."""
        if node.a.dtype == "int64":
            a, b = self.narrowed(node.a), self.narrowed(node.b)
            if a is not None and b is not None:
                return type(node)(a, b)
        return self.rebuild(node)

    def _index(self, index: Expr) -> Expr:
        narrow = self.narrowed(index) if index.dtype == "int64" else None
        return self(index) if narrow is None else narrow

    def narrowed(self, x: Expr) -> Expr | None:
        """`x` of type int64 computed as int32; None if a value on the way may not fit."""
        if x.dtype == "int32":
            return self(x)
        if x not in self.narrow:
            self.narrow[x] = self._narrowed(x)
        return self.narrow[x]

    def _narrowed(self, x: Expr) -> Expr | None:
        if x.dtype != "int64" or not self._fits(x):
            return None
        if isinstance(x, IntImm):
            return IntImm("int32", x.value)
        if isinstance(x, e.Cast) and x.value.dtype == "int32":
            return self(x.value)
        if isinstance(x, _ARITHMETIC):
            a, b = self.narrowed(x.a), self.narrowed(x.b)
            return None if a is None or b is None else type(x)(a, b)
        return None

    def _fits(self, x: Expr) -> bool:
        low, high = self.analyzer.const_int_bound(self.analyzer.simplify(x))
        return low is not None and high is not None and low >= _LOW and high <= _HIGH
