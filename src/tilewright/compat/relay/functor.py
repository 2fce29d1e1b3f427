"""`ExprFunctor`, `ExprVisitor`, `ExprMutator`: walkers that a classic program derives its own from.

A method for each kind of node, `visit_call`, `visit_let` and so on, each node visited once. These recurse: a program
that walks networks of thousands of layers is better off with `tilewright.relay.ir.visitor`.
"""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import children, rebuild

_METHODS = {
    relay.Function: "visit_function", relay.Call: "visit_call", relay.Let: "visit_let", relay.Var: "visit_var",
    relay.GlobalVar: "visit_global_var", relay.If: "visit_if", relay.Tuple: "visit_tuple",
    relay.TupleGetItem: "visit_tuple_getitem", relay.Constant: "visit_constant", relay.RefCreate: "visit_ref_create",
    relay.RefRead: "visit_ref_read", relay.RefWrite: "visit_ref_write", relay.Constructor: "visit_constructor",
    relay.Match: "visit_match", Op: "visit_op",
}  # fmt: skip


class ExprFunctor:
    """Dispatches `visit` to the method of the node's kind and remembers what it gave."""

    def __init__(self) -> None:
        self.memo_map: dict[Any, Any] = {}

    def visit(self, expr: Any) -> Any:
        """The result of the node's method, from memory the second time."""
        if expr not in self.memo_map:
            method = getattr(self, _METHODS[type(expr)], None)
            if method is None:
                raise NotImplementedError(f"{type(self).__name__} has no method {_METHODS[type(expr)]}")
            self.memo_map[expr] = method(expr)
        return self.memo_map[expr]


class ExprVisitor(ExprFunctor):
    """Visits operands; override the methods of the nodes of interest and call `super()` to go on."""

    def _operands(self, expr: Any) -> None:
        for kid in children(expr):
            self.visit(kid)

    def visit_call(self, call: relay.Call) -> Any:
        """The callee, then the arguments."""
        self.visit(call.op)
        for arg in call.args:
            self.visit(arg)

    def visit_function(self, fn: relay.Function) -> Any:
        """The parameters, then the body."""
        for param in fn.params:
            self.visit(param)
        self.visit(fn.body)

    def visit_let(self, let: relay.Let) -> Any:
        """The variable, the value, the body."""
        for part in (let.var, let.value, let.body):
            self.visit(part)

    def visit_op(self, op: Op) -> Any:
        """An operator has no operands."""

    visit_var = visit_global_var = visit_constant = visit_constructor = _operands
    visit_if = visit_tuple = visit_tuple_getitem = visit_match = _operands
    visit_ref_create = visit_ref_read = visit_ref_write = _operands


class ExprMutator(ExprFunctor):
    """Rebuild each node from its rewritten operands; override the methods of the nodes to change."""

    def _rebuilt(self, expr: Any) -> Any:
        return rebuild(expr, tuple([self.visit(kid) for kid in children(expr)]))

    def visit_call(self, call: relay.Call) -> Any:
        """The call of the rewritten callee on the rewritten arguments."""
        op, args = self.visit(call.op), [self.visit(arg) for arg in call.args]
        if op is call.op and all(new is old for new, old in zip(args, call.args, strict=True)):
            return call
        return relay.Call(op, args, call.attrs, call.span)

    def visit_function(self, fn: relay.Function) -> Any:
        """The function of the rewritten parameters and body."""
        params, body = [self.visit(param) for param in fn.params], self.visit(fn.body)
        if body is fn.body and all(new is old for new, old in zip(params, fn.params, strict=True)):
            return fn
        return relay.Function(params, body, fn.ret_type, fn.type_params, fn.attrs)

    def visit_let(self, let: relay.Let) -> Any:
        """The binding of the rewritten variable and value."""
        return relay.Let(self.visit(let.var), self.visit(let.value), self.visit(let.body))

    def visit_op(self, op: Op) -> Any:
        """The operator itself."""
        return op

    visit_var = visit_global_var = visit_constant = visit_constructor = _rebuilt
    visit_if = visit_tuple = visit_tuple_getitem = visit_match = _rebuilt
    visit_ref_create = visit_ref_read = visit_ref_write = _rebuilt
