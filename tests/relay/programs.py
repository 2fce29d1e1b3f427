"""Random programs in the whole language, well typed by construction."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from tilewright import relay, te
from tilewright.relay.ir.type import FuncType, RefType, TensorType, TupleType, Type, TypeVar

INT = TensorType((), "int32")
FLOAT = TensorType((), "float32")
BOOL = TensorType((), "bool")
VECTOR = TensorType((3,), "float32")


def list_type() -> relay.TypeData:
    """`List[A]`: Cons or Nil."""
    a, header = TypeVar("A"), relay.GlobalTypeVar("List")
    return relay.TypeData(
        header,
        [a],
        [relay.Constructor("Cons", [a, header(a)], header, 0), relay.Constructor("Nil", [], header, 1)],
    )


class Programs:
    """Makes expressions of a given type from the variables in scope. `random` decides everything."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.data = list_type()
        self.scope: list[relay.Expr] = []
        self.types: dict[relay.Expr, Type] = {}
        self.made: list[tuple[Type, relay.Expr, int]] = []
        self.names = ("x", "y", "x", "input.1", "fn", "_", 'a"b')
        self.globals: dict[relay.GlobalVar, relay.Function] = {}
        self.budget = 40

    def module(self) -> relay.IRModule:
        """A module: `main`, a polymorphic function, and one that calls itself."""
        a = TypeVar("A")
        x = relay.var("x", a)
        self.globals[relay.GlobalVar("id")] = relay.Function([x], x, a, [a])
        n = te.size_var("n")
        sized = self.var(TensorType((n, relay.Any(), n * 2 + 1)))
        params = [self.var(t) for t in (INT, VECTOR)]
        wanted = self.random.choice([INT, FLOAT, VECTOR, TupleType([INT, VECTOR]), self.data.header(FLOAT)])
        body = self.inside(params, lambda: self.expr(wanted, 4))
        attrs = {"note": 'a "b"\n', "sizes": (1, -2, 0.5), "flag": True, "nothing": None, "type": VECTOR, "dim": n}
        main = relay.Function([*params, sized], body, attrs=attrs)
        return relay.IRModule.from_expr(main, self.globals, {self.data.header: self.data})

    def var(self, type_: Type, annotated: bool = True) -> relay.Var:
        var = relay.var(self.random.choice(self.names), type_ if annotated else None)
        self.types[var] = type_
        return var

    def inside(self, variables: list[relay.Var], make: Callable[[], relay.Expr]) -> relay.Expr:
        """The result of `make` with `variables` in scope; nothing made there is used outside."""
        scope, made = list(self.scope), list(self.made)
        self.scope += variables
        result = make()
        self.scope, self.made = scope, made
        return result

    def expr(self, type_: Type, depth: int) -> relay.Expr:
        """An expression of `type_`: sometimes one that exists already."""
        again = [expr for made, expr, _ in self.made if made == type_]
        if again and self.random.random() < 0.25:
            return self.random.choice(again)
        self.budget -= 1
        if depth <= 0 or self.budget <= 0:
            result = self.leaf(type_)
        else:
            ways = [self.leaf, self.let, self.branch, self.field, self.reference, self.call, self.match, self.compute]
            way = self.random.choice(ways)
            result = way(type_) if way == self.leaf else way(type_, depth - 1)  # type: ignore[operator,call-arg]
        self.made.append((type_, result, depth))
        return result

    def leaf(self, type_: Type) -> relay.Expr:
        known = [var for var in self.scope if self.types[var] == type_]
        if known and self.random.random() < 0.7:
            return self.random.choice(known)
        if isinstance(type_, TensorType):
            return self.constant(type_)
        if isinstance(type_, TupleType):
            return relay.Tuple([self.leaf(field) for field in type_.fields])
        if isinstance(type_, RefType):
            return relay.RefCreate(self.leaf(type_.value))
        if isinstance(type_, FuncType):
            params = [self.var(arg) for arg in type_.arg_types]
            return relay.Function(params, self.inside(params, lambda: self.leaf(type_.ret_type)))
        assert isinstance(type_, relay.TypeCall)
        cons, nil = self.data.constructors
        name = self.var(type_)
        end = relay.Let(name, relay.Call(nil, []), name)
        return end if self.random.random() < 0.5 else relay.Call(cons, [self.leaf(type_.args[0]), end])

    def constant(self, type_: TensorType) -> relay.Constant:
        special = [0.0, -0.0, 1e-30, 1 / 3, float("inf"), float("-inf"), float("nan"), -7.25]
        value = self.random.choice(special) if type_.dtype.is_float else self.random.randrange(-5, 6)
        return relay.Constant(np.full(type_.shape, value).astype(type_.dtype.numpy))

    def some_type(self) -> Type:
        return self.random.choice([INT, FLOAT, VECTOR, TupleType([INT]), TupleType([]), self.data.header(INT)])

    def let(self, type_: Type, depth: int) -> relay.Expr:
        bound = self.some_type()
        var, value = self.var(bound, annotated=self.random.random() < 0.5), self.expr(bound, depth)
        return relay.Let(var, value, self.inside([var], lambda: self.expr(type_, depth)))

    def branch(self, type_: Type, depth: int) -> relay.Expr:
        cond = relay.less(self.expr(INT, depth), self.expr(INT, 0))
        ways = [self.inside([], lambda: self.expr(type_, depth)) for _ in range(2)]
        return relay.If(cond, *ways)

    def field(self, type_: Type, depth: int) -> relay.Expr:
        return relay.TupleGetItem(self.expr(TupleType([self.some_type(), type_]), depth), 1)

    def reference(self, type_: Type, depth: int) -> relay.Expr:
        ref, done = self.var(RefType(type_), annotated=False), self.var(TupleType([]), annotated=False)
        write = relay.RefWrite(ref, self.inside([ref], lambda: self.expr(type_, depth)))
        return relay.Let(ref, relay.RefCreate(self.expr(type_, depth)), relay.Let(done, write, relay.RefRead(ref)))

    def call(self, type_: Type, depth: int) -> relay.Expr:
        way = self.random.randrange(3)
        if way == 0:
            return relay.Call(next(iter(self.globals)), [self.expr(type_, depth)])
        argument = self.some_type()
        if way == 1:
            return relay.Call(self.expr(FuncType([argument], type_), depth), [self.expr(argument, depth)])
        loop, n = self.var(FuncType([INT], type_), annotated=False), self.var(INT)
        again = relay.Call(loop, [relay.subtract(n, relay.const(1))])
        stop = relay.less(n, relay.const(1))
        body = relay.If(stop, self.inside([n], lambda: self.expr(type_, depth)), again)
        return relay.Let(loop, relay.Function([n], body, type_), relay.Call(loop, [relay.const(2)]))

    def match(self, type_: Type, depth: int) -> relay.Expr:
        element = self.random.choice([INT, VECTOR])
        cons, nil = self.data.constructors
        if self.random.random() < 0.3:
            a, b = self.var(element, annotated=False), self.var(INT, annotated=False)
            pattern: relay.Pattern = relay.PatternTuple([relay.PatternVar(a), relay.PatternVar(b)])
            right = self.inside([a, b], lambda: self.expr(type_, depth))
            return relay.Match(self.expr(TupleType([element, INT]), depth), [relay.Clause(pattern, right)])
        head = self.var(element, annotated=self.random.random() < 0.5)
        pattern = relay.PatternConstructor(cons, [relay.PatternVar(head), relay.PatternWildcard()])
        clauses = [relay.Clause(pattern, self.inside([head], lambda: self.expr(type_, depth)))]
        last = relay.PatternConstructor(nil) if self.random.random() < 0.5 else relay.PatternWildcard()
        clauses.append(relay.Clause(last, self.inside([], lambda: self.expr(type_, depth))))
        return relay.Match(self.expr(self.data.header(element), depth), clauses, self.random.random() < 0.8)

    def compute(self, type_: Type, depth: int) -> relay.Expr:
        if not isinstance(type_, TensorType) or type_ == BOOL:
            return self.leaf(type_)
        function = self.random.choice([relay.add, relay.multiply, relay.maximum])
        return function(self.expr(type_, depth), self.expr(type_, depth))
