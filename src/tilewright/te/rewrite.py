"""Rewriting the body of an operation: variables replaced, tensor reads redirected."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.te.reducer import CommReducer
from tilewright.te.tensor import Tensor
from tilewright.tir import expr as e
from tilewright.tir import op as tir_op
from tilewright.tir.expr import BinaryExpr, Expr, ProducerLoad, Reduce, Var
from tilewright.tir.visitor import Rewriter

_FOLDING: dict[type, Callable[[Expr, Expr], Expr]] = {
    e.Add: tir_op.add,
    e.Sub: tir_op.subtract,
    e.Mul: tir_op.multiply,
    e.FloorDiv: tir_op.floordiv,
    e.FloorMod: tir_op.floormod,
    e.LT: tir_op.less,
    e.GE: tir_op.greater_equal,
    e.And: tir_op.logical_and,
    e.Or: tir_op.logical_or,
}


class BodyRewriter(Rewriter):
    """Replaces variables by `variables` and each read of a tensor by `read(tensor, rewritten indices)`.

    One object serves many expressions: its memo makes shared parts be rewritten once.
    """

    def __init__(
        self, variables: Mapping[Var, Expr], read: Callable[[Tensor, tuple[Expr, ...]], Expr] | None = None
    ) -> None:
        super().__init__()
        self.variables = variables
        self.read = read or ProducerLoad
        self.combiners: dict[CommReducer, CommReducer] = {}

    def visit_Var(self, node: Var) -> Expr:
        """The variable's replacement, if it has one."""
        return self.variables.get(node, node)

    visit_SizeVar = visit_Var

    def visit_BinaryExpr(self, node: BinaryExpr) -> Expr:
        """Rebuilt with constants folded."""
        a, b = self(node.a), self(node.b)
        if a is node.a and b is node.b:
            return node
        build = _FOLDING.get(type(node))
        return build(a, b) if build is not None else type(node)(a, b)

    def visit_Reduce(self, node: Reduce) -> Expr:
        """Rebuilt; its combiner too, where that is written in terms of the variables."""
        rebuilt = self.rebuild(node)
        assert isinstance(rebuilt, Reduce)
        combiner = self.combiner(rebuilt.combiner)
        if combiner is rebuilt.combiner:
            return rebuilt
        return Reduce(combiner, rebuilt.source, rebuilt.axis, rebuilt.condition, rebuilt.value_index, rebuilt.init)

    def combiner(self, combiner: CommReducer) -> CommReducer:
        """The combiner with the variables replaced; one for all results of a reduction."""
        if combiner not in self.combiners:
            result, identity = [tuple([self(x) for x in part]) for part in (combiner.result, combiner.identity)]
            same = (result, identity) == (combiner.result, combiner.identity)
            made = CommReducer(combiner.lhs, combiner.rhs, result, identity, combiner.name)
            self.combiners[combiner] = combiner if same else made
        return self.combiners[combiner]

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """The read, redirected."""
        return self.read(node.producer, tuple([self(i) for i in node.indices]))
