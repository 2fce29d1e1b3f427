"""Partial evaluation: what is known when compiling is done when compiling; what is not is left, in A-normal form.

Before: def @power(%n, %x) { if (equal(%n, 0)) { 1f } else { multiply(%x, @power(subtract(%n, 1), %x)) } }
        def @main(%x) { @power(2, %x) }
After:  def @main(%x) { let %x0 = multiply(%x, 1f); let %x1 = multiply(%x, %x0); %x1 }

Calls of known functions are inlined, closures and recursion included, as long as `fuel` lasts; branches on known
conditions and matches on known constructors are decided; fields of known tuples are taken; operators of constants are
computed. Where references are in play, the order of reads and writes is kept, and nothing is assumed of what they hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.relay.ir.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    pattern_vars,
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
from tilewright.relay.ir.visitor import free_vars
from tilewright.relay.transform.functional.rename_bound import rename_bound
from tilewright.relay.transform.functional.to_a_normal_form import to_a_normal_form
from tilewright.relay.transform.simplify.dead_code import dead_code
from tilewright.relay.transform.simplify.fold_constant import fold_call
from tilewright.support.recursion import nested

#: Calls that may be inlined before the rest is left as calls.
FUEL = 2000


def partial_evaluate(mod: IRModule, fuel: int = FUEL) -> IRModule:
    """Evaluate `main` as far as it goes without its arguments; the functions it still calls are kept, others go."""
    if "main" not in mod:
        return mod
    mod = to_a_normal_form(mod)
    main = mod["main"]
    body = _Evaluator(mod, fuel).function_body(main)
    return infer_type(dead_code(mod.with_function("main", main.with_body(body))))


@dataclass(frozen=True, eq=False)
class _Value:
    """The known part of a value: `atom` names it in the program that is left.

    `fields` of a tuple or of a constructor's value, a `closure` with its environment, or nothing more.
    """

    atom: Expr
    fields: tuple[_Value, ...] | None = None
    constructor: Constructor | None = None
    closure: tuple[Function | GlobalVar, _Env] | None = None


_Env = dict[Expr, _Value]


class _Evaluator:
    """Evaluates expressions and collects the bindings of the program that is left, one list a region."""

    def __init__(self, mod: IRModule, fuel: int) -> None:
        self.mod = mod
        self.fuel = fuel
        self.count = 0
        self.regions: list[list[tuple[Var, Expr]]] = []
        #: How deep the regions were when a function that is being inlined was entered.
        self.entered: dict[Expr, int] = {}

    def function_body(self, func: Function) -> Expr:
        """The body of `func` for parameters of which nothing is known."""
        return self.region(func.body, {param: _Value(param) for param in func.params})

    def region(self, body: Expr, env: _Env) -> Expr:
        """`body` as a region of its own: the bindings that its evaluation leaves, and its result."""
        self.regions.append([])
        result = self.visit(body, dict(env)).atom
        for var, value in reversed(self.regions.pop()):
            result = Let(var, value, result)
        return result

    def bind(self, expr: Expr) -> Expr:
        """A variable for `expr` in the innermost region."""
        var = Var(f"x{self.count}")
        self.count += 1
        self.regions[-1].append((var, expr))
        return var

    @nested
    def visit(self, node: Expr, env: _Env) -> _Value:
        """The known part of `node`; each node is evaluated once in an environment."""
        if node not in env:
            env[node] = _VISIT[type(node)](self, node, env)
        return env[node]

    def call(self, node: Call, env: _Env) -> _Value:
        """An operator folded if it can be, a known function inlined, anything else left."""
        args = [self.visit(arg, env) for arg in node.args]
        atoms = [arg.atom for arg in args]
        if not isinstance(node.op, Expr):
            call = Call(node.op, atoms, node.attrs, node.span)
            if all(isinstance(atom, Constant) for atom in atoms) and atoms:
                folded = fold_call(call)
                if isinstance(folded, Constant):
                    return _Value(folded)
            return _Value(self.bind(call))
        if isinstance(node.op, Function) and node.op.is_primitive:
            return _Value(self.bind(Call(node.op, atoms, node.attrs, node.span)))
        callee = self.visit(node.op, env)
        if isinstance(callee.atom, Constructor):
            left = self.bind(Call(callee.atom, atoms, node.attrs, node.span))
            return _Value(left, fields=tuple(args), constructor=callee.atom)
        inlined = self.inlined(callee, args)
        return inlined or _Value(self.bind(Call(callee.atom, atoms, node.attrs, node.span)))

    def inlined(self, callee: _Value, args: list[_Value]) -> _Value | None:
        """The value of a call of a known function, while the fuel lasts.

        A function that calls itself from a branch that is not decided would be inlined without end: that call is left.
        """
        if callee.closure is None or self.fuel <= 0:
            return None
        subject, env = callee.closure
        entered = self.entered.get(subject)
        if entered is not None and entered < len(self.regions):
            return None
        func = self.mod[subject] if isinstance(subject, GlobalVar) else subject
        self.fuel -= 1
        fresh = rename_bound(func)
        assert isinstance(fresh, Function)
        inner = dict(env)
        inner.update(zip(fresh.params, args, strict=True))
        self.entered[subject] = len(self.regions)
        result = self.visit(fresh.body, inner)
        if entered is None:
            del self.entered[subject]
        else:
            self.entered[subject] = entered
        return result

    def global_var(self, node: GlobalVar, env: _Env) -> _Value:
        """A function of the module, which can be inlined unless an external code generator owns it."""
        known = node in self.mod.functions and "Compiler" not in self.mod[node].attrs
        return _Value(node, closure=(node, {}) if known else None)

    def function(self, node: Function, env: _Env) -> _Value:
        """A closure: its residual has its own body evaluated with nothing known of its parameters."""
        if node.is_primitive:
            return _Value(node)
        outside = dict(env)
        body = self.region(node.body, {**outside, **{param: _Value(param) for param in node.params}})
        left = Function(node.params, body, node.ret_type, node.type_params, node.attrs)
        return _Value(self.bind(left), closure=(node, outside))

    def let(self, node: Let, env: _Env) -> _Value:
        """A binding; a function that calls itself by the name of the binding is known within its own body too."""
        if isinstance(node.value, Function) and node.var in free_vars(node.value):
            return self._recursive(node, env)
        env[node.var] = self.visit(node.value, env)
        return self.visit(node.body, env)

    def _recursive(self, node: Let, env: _Env) -> _Value:
        assert isinstance(node.value, Function)
        func = node.value
        fresh = Var(node.var.name, node.var.type_annotation)
        outside = {**env, node.var: _Value(fresh)}
        body = self.region(func.body, {**outside, **{param: _Value(param) for param in func.params}})
        left = Function(func.params, body, func.ret_type, func.type_params, func.attrs)
        self.regions[-1].append((fresh, left))
        inner = dict(env)
        inner[node.var] = env[node.var] = _Value(fresh, closure=(func, inner))
        return self.visit(node.body, env)

    def if_(self, node: If, env: _Env) -> _Value:
        """The branch taken, if the condition is known."""
        cond = self.visit(node.cond, env).atom
        if isinstance(cond, Constant):
            return self.visit(node.true_branch if cond.data else node.false_branch, env)
        branches = [self.region(branch, env) for branch in (node.true_branch, node.false_branch)]
        return _Value(self.bind(If(cond, *branches)))

    def match(self, node: Match, env: _Env) -> _Value:
        """The clause that fits, if that is known."""
        data = self.visit(node.data, env)
        for clause in node.clauses:
            bound: _Env = {}
            fits = _fits(clause.lhs, data, bound)
            if fits is None:
                break
            if fits:
                env.update(bound)
                return self.visit(clause.rhs, env)
        clauses = []
        for clause in node.clauses:
            inner: _Env = dict(env)
            inner.update({var: _Value(var) for var in pattern_vars(clause.lhs)})
            clauses.append(Clause(clause.lhs, self.region(clause.rhs, inner)))
        return _Value(self.bind(Match(data.atom, clauses, node.complete)))

    def tuple_(self, node: Tuple, env: _Env) -> _Value:
        """A tuple of which every field is known by name."""
        fields = tuple([self.visit(field, env) for field in node.fields])
        return _Value(self.bind(Tuple([field.atom for field in fields])), fields=fields)

    def get_item(self, node: TupleGetItem, env: _Env) -> _Value:
        """A field of a known tuple, or the taking of it."""
        value = self.visit(node.tuple_value, env)
        if value.fields is not None and value.constructor is None:
            return value.fields[node.index]
        return _Value(self.bind(TupleGetItem(value.atom, node.index)))

    def ref_create(self, node: RefCreate, env: _Env) -> _Value:
        """A new reference."""
        return _Value(self.bind(RefCreate(self.visit(node.value, env).atom)))

    def ref_read(self, node: RefRead, env: _Env) -> _Value:
        """The content of a reference, of which nothing is known."""
        return _Value(self.bind(RefRead(self.visit(node.ref, env).atom)))

    def ref_write(self, node: RefWrite, env: _Env) -> _Value:
        """A write, in order among the bindings."""
        ref, value = self.visit(node.ref, env), self.visit(node.value, env)
        return _Value(self.bind(RefWrite(ref.atom, value.atom)))


def _fits(pattern: Pattern, value: _Value, bound: _Env) -> bool | None:
    """True if `value` fits for certain (its parts are then in `bound`), False if it cannot, None if it may."""
    if isinstance(pattern, PatternWildcard):
        return True
    if isinstance(pattern, PatternVar):
        bound[pattern.var] = value
        return True
    if isinstance(pattern, PatternConstructor):
        if value.constructor is None:
            return None
        if value.constructor.tag != pattern.constructor.tag:
            return False
    if value.fields is None:
        return None
    assert isinstance(pattern, PatternConstructor | PatternTuple)
    results = [_fits(part, field, bound) for part, field in zip(pattern.patterns, value.fields, strict=True)]
    if False in results:
        return False
    return None if None in results else True


_VISIT: dict[type, Callable[..., Any]] = {
    Var: lambda evaluator, node, env: _Value(node),
    Constant: lambda evaluator, node, env: _Value(node),
    Constructor: lambda evaluator, node, env: _Value(node),
    GlobalVar: _Evaluator.global_var,
    Function: _Evaluator.function,
    Call: _Evaluator.call,
    Let: _Evaluator.let,
    If: _Evaluator.if_,
    Match: _Evaluator.match,
    Tuple: _Evaluator.tuple_,
    TupleGetItem: _Evaluator.get_item,
    RefCreate: _Evaluator.ref_create,
    RefRead: _Evaluator.ref_read,
    RefWrite: _Evaluator.ref_write,
}
