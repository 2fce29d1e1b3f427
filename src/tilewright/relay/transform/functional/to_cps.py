"""Continuation-passing style: no function returns; each passes its result on to a function it is given.

Before: def @main(%x) { multiply(@f(%x), 2f) }    def @f(%x) { exp(%x) }
After:  def @f_cps[T](%x, %k: fn (float32) -> T) -> T { let %x0 = exp(%x); %k(%x0) }
        def @main_cps[T](%x, %k: fn (float32) -> T) -> T { @f_cps(%x, fn (%y) { let %x1 = multiply(%y, 2f); %k(%x1) }) }
        def @main(%x) { @main_cps(%x, fn (%result) { %result }) }

Every call is a tail call then, and what is left to do at a call is a value, which a program may keep or drop. Each
function keeps its name for a version that returns as before. Functions that are passed as values change their types
likewise; data types that hold functions are refused.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.adt import Clause, Constructor, Match
from tilewright.relay.ir.expr import Call, Expr, Function, GlobalVar, If, Let, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import FuncType, Type, TypeVar, map_type, walk_type
from tilewright.relay.ir.visitor import children, rebuild
from tilewright.relay.transform.functional.rename_bound import rename_bound
from tilewright.relay.transform.functional.to_a_normal_form import to_a_normal_form
from tilewright.relay.transform.manager.pass_manager import is_opaque
from tilewright.support.recursion import nested

#: What is done with a result: the expression that comes of it.
Continue = Callable[[Expr], Expr]


def to_cps(mod: IRModule) -> IRModule:
    """Add to every function its version in continuation-passing style; see the module's docstring.

    Raises `UnsupportedError` for a module with a data type whose values hold functions.
    """
    _refuse_functions_in_data(mod)
    mod = to_a_normal_form(mod)
    chosen = {gvar: func for gvar, func in mod.functions.items() if not is_opaque(func)}
    names = {gvar: GlobalVar(f"{gvar.name}_cps") for gvar in chosen}
    functions = dict(mod.functions)
    for gvar, func in chosen.items():
        functions[names[gvar]] = _Converter(names).function(func)
        functions[gvar] = _returning(func, names[gvar])
    return infer_type(mod.with_functions(functions))


def _refuse_functions_in_data(mod: IRModule) -> None:
    for data in mod.type_definitions.values():
        for constructor in data.constructors:
            if any(isinstance(part, FuncType) for field in constructor.inputs for part in walk_type(field)):
                raise UnsupportedError(f"to_cps: values of {data.header.name} hold functions ({constructor.name})")


def _returning(func: Function, cps: GlobalVar) -> Function:
    """A function like `func` that calls its version in continuation-passing style."""
    type_ = func.func_type
    params = [Var(param.name, arg) for param, arg in zip(func.params, type_.arg_types, strict=True)]
    if any(isinstance(part, FuncType) for arg in (*type_.arg_types, type_.ret_type) for part in walk_type(arg)):
        return func
    result = Var("result")
    body = cps(*params, Function([result], result))
    return Function(params, body, type_.ret_type, func.type_params, func.attrs)


class _Converter:
    """Converts one function of the module; all its continuations return the same type, `answer`."""

    def __init__(self, names: dict[GlobalVar, GlobalVar]) -> None:
        self.names = names
        self.answer = TypeVar("T")
        #: Parameters, whose types change, and their successors.
        self.params: dict[Expr, Expr] = {}

    def function(self, func: Function) -> Function:
        """The version of a global function that takes a continuation."""
        converted = self.with_continuation(func)
        params = (*func.type_params, self.answer)
        fresh = rename_bound(Function(converted.params, converted.body, self.answer, params, func.attrs))
        assert isinstance(fresh, Function)
        return fresh

    def with_continuation(self, func: Function) -> Function:
        """`func`, whose type is known, with a last parameter that takes the result."""
        type_ = func.func_type
        params = [Var(p.name, self.type(arg)) for p, arg in zip(func.params, type_.arg_types, strict=True)]
        around = dict(self.params)  # a function may bind what one around it binds too
        self.params.update(zip(func.params, params, strict=True))
        k = Var("k", FuncType([self.type(type_.ret_type)], self.answer))
        body = self.visit(func.body, lambda result: k(result))
        self.params = around
        return Function([*params, k], body, self.answer, func.type_params, func.attrs)

    def type(self, type_: Type) -> Type:
        """`type_` with a continuation added to each function in it."""

        def rule(part: Type) -> Type | None:
            if not isinstance(part, FuncType):
                return None
            after = FuncType([part.ret_type], self.answer)
            return FuncType((*part.arg_types, after), self.answer, part.type_params)

        return map_type(type_, rule)

    @nested
    def visit(self, expr: Expr, then: Continue) -> Expr:
        """`expr`, in A-normal form, with its result handed to `then`."""
        if not isinstance(expr, Let):
            return then(self.atom(expr))
        value = expr.value
        if isinstance(value, If | Match):
            return self._branches(expr, value, then)
        if isinstance(value, Call) and not self._direct(value):
            rest = Function([expr.var], self.visit(expr.body, then))
            callee = self.atom(value.op)  # type: ignore[arg-type]
            return Call(callee, [*map(self.atom, value.args), rest], span=value.span)
        if isinstance(value, Function) and not value.is_primitive:
            value = self.with_continuation(value)
        return Let(expr.var, self._atoms(value), self.visit(expr.body, then))

    def _branches(self, let: Let, value: If | Match, then: Continue) -> Expr:
        """A function of the branch's result that holds the rest of the program, so that it is written once."""
        join = Var("join")
        rest = Function([let.var], self.visit(let.body, then))
        after: Continue = lambda result: join(result)  # noqa: E731
        if isinstance(value, If):
            branches = [self.visit(branch, after) for branch in (value.true_branch, value.false_branch)]
            chosen: Expr = If(self.atom(value.cond), *branches)
        else:
            clauses = [Clause(clause.lhs, self.visit(clause.rhs, after)) for clause in value.clauses]
            chosen = Match(self.atom(value.data), clauses, value.complete)
        return Let(join, rest, chosen)

    def _direct(self, call: Call) -> bool:
        """True for calls that return: of operators, constructors, kernels."""
        if isinstance(call.op, GlobalVar):
            return call.op not in self.names
        return isinstance(call.op, Op | Constructor) or (isinstance(call.op, Function) and call.op.is_primitive)

    def atom(self, expr: Expr) -> Expr:
        """A variable, a constant, or the name of a function in this style."""
        return self.names.get(expr, expr) if isinstance(expr, GlobalVar) else self.params.get(expr, expr)

    def _atoms(self, value: Expr) -> Expr:
        """`value` with variables and names of functions as they are in this style."""
        if isinstance(value, Function):
            return value
        if isinstance(value, Var | GlobalVar):
            return self.atom(value)
        return rebuild(value, tuple([self.atom(kid) for kid in children(value)]))
