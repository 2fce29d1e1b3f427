"""Reverse-mode differentiation of everything Relay can say: branches, closures, recursion, data types, references.

The scheme of *Relay: A High-Level Compiler for Deep Learning* (2019), section 4.3: a tensor of floating point becomes a
pair of the value and a reference that gathers its gradient; each operator pushes a closure onto a backpropagator, which
adds to the references of its operands and calls what was pushed before. Control flow needs nothing of its own: what
was executed has pushed its closures, in order.

Before: fn (%x) { multiply(%x, %x) }
After:  fn (%x) {
          let %backward = ref(fn () { () });
          let %gx = ref(zeros_like(%x));
          let %y = multiply(%x, %x);
          let %gy = ref(zeros_like(%y));
          let %rest = ref_read(%backward);
          let %_ = ref_write(%backward, fn () { …%gx += ref_read(%gy) * %x, twice…; %rest() });
          …%gy := ones_like(%y); ref_read(%backward)()…
          (%y, (ref_read(%gx),))
        }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
)
from tilewright.relay.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import FuncType, RefType, TensorType, TupleType, Type, map_type, walk_type
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import substitute
from tilewright.relay.op.gradients.adjoint import holds_float, operator_gradient
from tilewright.relay.op.tensor import ones_like, zeros_like
from tilewright.support.recursion import nested


def higher_order_gradient(
    func: Function, mod: IRModule | None, wrt: Sequence[Var], first_field: bool = False
) -> Function:
    """`gradient` of any function of tensors (or tuples of them) to such, by references and closures.

    With `first_field` the gradient of a tuple is that of its first field alone, and so on inwards.
    Functions of `mod` that it calls are taken in, as closures. Raises UnsupportedError where a parameter or the result
    is no tensor, where an operator has no gradient, or where a data type holds tensors in fields of its own.
    """
    whole = (mod or IRModule()).with_function("gradient of", func)
    typed = infer_type(whole)["gradient of"]
    targets = [typed.params[func.params.index(var)] for var in wrt]
    result = _Differentiator(whole, first_field).top(typed, targets)
    return infer_type(whole.with_function("gradient of", result))["gradient of"]


def paired(type_: Type) -> Type:
    """`type_` with each tensor of floating point as a pair of itself and a reference to its gradient."""
    return map_type(
        type_, lambda t: TupleType([t, RefType(t)]) if isinstance(t, TensorType) and t.dtype.is_float else None
    )


def _is_pair(type_: Type) -> bool:
    return isinstance(type_, TensorType) and type_.dtype.is_float


class _Scope:
    """Bindings in order, and what the nodes evaluated so far are called; an inner scope sees those around it."""

    def __init__(self, parent: _Scope | None = None) -> None:
        self.parent = parent
        self.known: dict[Expr, Expr] = {}
        self.bindings: list[tuple[Var, Expr]] = []

    def find(self, node: Expr) -> Expr | None:
        """The name of the value of `node`, if it was evaluated here or around."""
        scope: _Scope | None = self
        while scope is not None:
            if node in scope.known:
                return scope.known[node]
            scope = scope.parent
        return None

    def bind(self, value: Expr, name: str = "t", type_: Type | None = None) -> Var:
        """A new variable for `value`, of a type that is known already or found later."""
        var = Var(name)
        if type_ is not None:
            var.set_inferred_type(type_)
        self.bindings.append((var, value))
        return var

    def wrap(self, body: Expr) -> Expr:
        """`body` within all the bindings."""
        for var, value in reversed(self.bindings):
            body = Let(var, value, body)
        return body


def _field(value: Expr, index: int) -> Expr:
    return value.fields[index] if isinstance(value, Tuple) else TupleGetItem(value, index)


class _Differentiator:
    """Rewrites expressions to their paired form; `backward` is the reference to the backpropagator."""

    def __init__(self, mod: IRModule, first_field: bool = False) -> None:
        self.mod = mod
        self.first_field = first_field
        self.backward = Var("backward")

    # ------------------------------------------------------------------------------------------------- the outside
    def top(self, func: Function, wrt: Sequence[Var]) -> Function:
        """The function `params -> (result, gradients of wrt)`."""
        _only_tensors(func)
        params = [Var(param.name, param.checked_type) for param in func.params]
        outer = _Scope()
        outer.bindings.append((self.backward, RefCreate(Function([], Tuple([])))))
        for old, new in zip(func.params, params, strict=True):
            new.set_inferred_type(old.checked_type)
            outer.known[old] = self.lift(new, old.checked_type, outer)
        pairs = self.visit(func.body, outer)
        result_type = func.func_type.ret_type
        result = self.primal(pairs, result_type, outer)
        self._seed(pairs, result_type, outer)
        outer.bind(Call(outer.bind(RefRead(self.backward), "backpropagate"), []), "_")
        gradients = Tuple([self._gathered(outer.known[var], var.checked_type, outer) for var in wrt])
        return Function(params, outer.wrap(Tuple([result, gradients])), attrs=func.attrs)

    @nested
    def _seed(self, pairs: Expr, type_: Type, scope: _Scope) -> None:
        if isinstance(type_, TupleType):
            for i, field in enumerate(type_.fields[:1] if self.first_field else type_.fields):
                self._seed(_field(pairs, i), field, scope)
        elif _is_pair(type_):
            scope.bind(RefWrite(_field(pairs, 1), ones_like(_typed(_field(pairs, 0), type_, scope))), "_")

    @nested
    def _gathered(self, pairs: Expr, type_: Type, scope: _Scope) -> Expr:
        if isinstance(type_, TupleType):
            return Tuple([self._gathered(_field(pairs, i), field, scope) for i, field in enumerate(type_.fields)])
        return scope.bind(RefRead(_field(pairs, 1)) if _is_pair(type_) else zeros_like(pairs), "gradient")

    # ------------------------------------------------------------------------------------------------ pairs and back
    @nested
    def lift(self, value: Expr, type_: Type, scope: _Scope) -> Expr:
        """The paired form of a plain value: new references that hold zeros."""
        if isinstance(type_, TupleType):
            return Tuple([self.lift(_field(value, i), field, scope) for i, field in enumerate(type_.fields)])
        if not _is_pair(type_):
            return value
        named = _typed(value, type_, scope)
        return Tuple([named, scope.bind(RefCreate(zeros_like(named)), "g")])

    @nested
    def primal(self, pairs: Expr, type_: Type, scope: _Scope) -> Expr:
        """The plain value of a paired one, as a variable or a tuple of variables of known types."""
        if isinstance(type_, TupleType):
            value: Expr = Tuple([self.primal(_field(pairs, i), kind, scope) for i, kind in enumerate(type_.fields)])
            value.set_inferred_type(type_)
            return value
        return _typed(_field(pairs, 0) if _is_pair(type_) else pairs, type_, scope)

    # ------------------------------------------------------------------------------------------------- expressions
    def visit(self, node: Expr, scope: _Scope) -> Expr:
        """The paired form of `node`, evaluated in `scope` if it is not known there."""
        found = scope.find(node)
        if found is None:
            found = _RULES[type(node)](self, node, scope)
            scope.known[node] = found
        return found

    def branch(self, node: Expr, scope: _Scope) -> Expr:
        """`node` evaluated in a scope of its own: a branch or a body."""
        inner = _Scope(scope)
        return inner.wrap(self.visit(node, inner))

    def function(self, func: Function, scope: _Scope) -> Function:
        """A function on paired values."""
        inner = _Scope(scope)
        for param in func.params:
            inner.known[param] = Var(param.name, paired(param.checked_type))
        params = [inner.known[param] for param in func.params]
        body = inner.wrap(self.visit(func.body, inner))
        kind = func.checked_type
        assert isinstance(kind, FuncType)
        names = [param for param in params if isinstance(param, Var)]
        return Function(names, body, paired(kind.ret_type), func.type_params, func.attrs)

    def let(self, node: Let, scope: _Scope) -> Expr:
        """A value under a new name; a function may use its own name."""
        if isinstance(node.value, Function):
            name = Var(node.var.name)
            scope.known[node.var] = name
            scope.bindings.append((name, self.function(node.value, scope)))
        else:
            scope.known[node.var] = self.visit(node.value, scope)
        return self.visit(node.body, scope)

    def global_function(self, node: GlobalVar, scope: _Scope) -> Expr:
        """A function of the module becomes a closure, bound where it is first met."""
        name = Var(node.name)
        scope.known[node] = name
        scope.bindings.append((name, self.function(self.mod[node], scope)))
        return name

    def match(self, node: Match, scope: _Scope) -> Expr:
        """The same clauses on paired values."""
        data = self.visit(node.data, scope)
        clauses = []
        for clause in node.clauses:
            inner = _Scope(scope)
            pattern = self._pattern(clause.lhs, inner)
            clauses.append(Clause(pattern, inner.wrap(self.visit(clause.rhs, inner))))
        return scope.bind(Match(data, clauses, node.complete))

    @nested
    def _pattern(self, pattern: Pattern, scope: _Scope) -> Pattern:
        if isinstance(pattern, PatternVar):
            scope.known[pattern.var] = Var(pattern.var.name)
            named = scope.known[pattern.var]
            assert isinstance(named, Var)
            return PatternVar(named)
        if isinstance(pattern, PatternConstructor):
            _check_constructor(pattern.constructor)
            return PatternConstructor(pattern.constructor, [self._pattern(p, scope) for p in pattern.patterns])
        if isinstance(pattern, PatternTuple):
            return PatternTuple([self._pattern(p, scope) for p in pattern.patterns])
        return pattern

    def call(self, node: Call, scope: _Scope) -> Expr:
        """A call: of an operator with its backward step, or of anything else on paired arguments."""
        if not isinstance(node.op, Expr):
            return self.operator(node, scope)
        if isinstance(node.op, Constructor):
            _check_constructor(node.op)
            callee: Expr = node.op
        else:
            callee = self.visit(node.op, scope)
        return scope.bind(Call(callee, [self.visit(arg, scope) for arg in node.args], node.attrs, node.span))

    def operator(self, node: Call, scope: _Scope) -> Expr:
        """The operator on plain values, and a closure that adds to the gradients of its arguments."""
        kinds = [type_of(arg) for arg in node.args]
        pairs = [None if isinstance(arg, Constant) else self.visit(arg, scope) for arg in node.args]
        plain = [
            arg if pair is None else self.primal(pair, kind, scope)
            for arg, pair, kind in zip(node.args, pairs, kinds, strict=True)
        ]
        kind = node.checked_type
        again = Call(node.op, plain, node.attrs, node.span)
        again.set_inferred_type(kind)
        value = scope.bind(again, "y", kind)
        result = self.lift(value, kind, scope)
        if holds_float(kind) and any(pair is not None and holds_float(k) for pair, k in zip(pairs, kinds)):
            self._push(again, value, result, list(zip(pairs, kinds, strict=True)), scope)
        return result

    def _push(
        self, call: Call, value: Var, result: Expr, arguments: Sequence[tuple[Expr | None, Type]], scope: _Scope
    ) -> None:
        inner = _Scope(scope)
        g = self._read(result, call.checked_type, inner)
        for (pair, kind), part in zip(arguments, operator_gradient(call, g), strict=True):
            if pair is not None and part is not None:
                self._accumulate(pair, kind, substitute(part, {call: value}), inner)
        if len(inner.bindings):
            rest = scope.bind(RefRead(self.backward), "rest")
            step = Function([], inner.wrap(Call(rest, [])))
            scope.bind(RefWrite(self.backward, step), "_")

    @nested
    def _read(self, pairs: Expr, type_: Type, scope: _Scope) -> Expr:
        """The gradient gathered for a result: what its references hold, zeros where it is no floating point."""
        if isinstance(type_, TupleType):
            whole = Tuple([self._read(_field(pairs, i), field, scope) for i, field in enumerate(type_.fields)])
            whole.set_inferred_type(type_)
            return whole
        return scope.bind(RefRead(_field(pairs, 1)) if _is_pair(type_) else zeros_like(pairs), "dy", type_)

    @nested
    def _accumulate(self, pairs: Expr, type_: Type, g: Expr, scope: _Scope) -> None:
        if isinstance(type_, TupleType):
            for i, field in enumerate(type_.fields):
                self._accumulate(_field(pairs, i), field, _field(g, i), scope)
        elif _is_pair(type_):
            before = scope.bind(RefRead(_field(pairs, 1)), "sum", type_)
            scope.bind(RefWrite(_field(pairs, 1), before + g), "_")


def _typed(value: Expr, type_: Type, scope: _Scope) -> Expr:
    """`value` as a variable whose type is known."""
    if isinstance(value, Var) and value.inferred_type is not None:
        return value
    return scope.bind(value, "v", type_)


def _only_tensors(func: Function) -> None:
    kind = func.func_type
    for what, type_ in [*[(f"parameter {p.name}", p.checked_type) for p in func.params], ("result", kind.ret_type)]:
        if not all(isinstance(part, TensorType | TupleType) for part in walk_type(type_)):
            raise UnsupportedError(f"the {what} is {type_}; only functions of tensors to tensors have a gradient")


def _check_constructor(constructor: Constructor) -> None:
    if any(isinstance(part, TensorType) and part.dtype.is_float for t in constructor.inputs for part in walk_type(t)):
        raise UnsupportedError(
            f"the constructor {constructor.name} has tensors of floating point as fields, which have no room for a "
            "gradient; make their type a type parameter of the data type"
        )


def _constant(self: _Differentiator, node: Constant, scope: _Scope) -> Expr:
    return self.lift(node, node.tensor_type, scope)


def _unbound(self: _Differentiator, node: Var, scope: _Scope) -> Expr:
    raise UnsupportedError(f"the variable {node.name} is bound outside of the function; make it a parameter")


def _if(self: _Differentiator, node: If, scope: _Scope) -> Expr:
    cond = self.visit(node.cond, scope)
    return scope.bind(If(cond, self.branch(node.true_branch, scope), self.branch(node.false_branch, scope)))


_RULES: dict[type, Callable[..., Expr]] = {
    Var: _unbound,
    Constant: _constant,
    GlobalVar: _Differentiator.global_function,
    Constructor: lambda self, node, scope: node,
    Function: lambda self, node, scope: scope.bind(self.function(node, scope), "f"),
    Tuple: lambda self, node, scope: Tuple([self.visit(field, scope) for field in node.fields]),
    TupleGetItem: lambda self, node, scope: _field(self.visit(node.tuple_value, scope), node.index),
    Call: _Differentiator.call,
    Let: _Differentiator.let,
    If: _if,
    Match: _Differentiator.match,
    RefCreate: lambda self, node, scope: scope.bind(RefCreate(self.visit(node.value, scope)), "r"),
    RefRead: lambda self, node, scope: scope.bind(RefRead(self.visit(node.ref, scope))),
    RefWrite: lambda self, node, scope: scope.bind(
        RefWrite(self.visit(node.ref, scope), self.visit(node.value, scope)), "_"
    ),
}
