"""Rewriting the body of an operation: variables replaced, tensor reads redirected."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.te.tensor import Tensor
from tilewright.tir import expr as e
from tilewright.tir import op as tir_op
from tilewright.tir.expr import BinaryExpr, Expr, ProducerLoad, Var
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

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """The read, redirected."""
        return self.read(node.producer, tuple([self(i) for i in node.indices]))
