"""Functions as values become data: what is left is a first-order program.

Before: def @main(%x) { let %f = fn (%y: float32) -> float32 { add(%x, %y) }; %f(%f(%x)) }
After:  type Closure0 { Lambda0(float32) }
        def @apply0(%c: Closure0[], %a0: float32) -> float32 { match (%c) { Lambda0(%x) => add(%x, %a0) } }
        def @main(%x) { let %f = Lambda0(%x); @apply0(%f, @apply0(%f, %x)) }

For each type of function there is a data type with a constructor for each function of that type, whose fields are the
variables it takes from around it, and a global function that applies it (Reynolds 1972). Programs must be monomorphic;
`main` may neither take nor return functions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    TypeData,
)
from tilewright.relay.ir.expr import Call, Expr, Function, GlobalVar, Let, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import FuncType, GlobalTypeVar, Type, TypeCall, map_type, walk_type
from tilewright.relay.ir.visitor import children, free_vars, post_order, rebuild
from tilewright.relay.transform.functional.eta_expand import eta_expand
from tilewright.relay.transform.functional.rename_bound import rename_bound
from tilewright.relay.transform.manager.pass_manager import is_opaque
from tilewright.support.recursion import nested


def defunctionalization(mod: IRModule) -> IRModule:
    """Make data of the functions in `mod`; see the module's docstring.

    Raises `UnsupportedError` for polymorphic functions, for a `main` that takes or returns functions, and for data
    types of the program that hold functions.
    """
    mod = eta_expand(mod, expand_constructor=True, expand_global_var=True)
    _check(mod)
    converter = _Converter()
    functions = {g: f if is_opaque(f) else converter.global_function(f) for g, f in mod.functions.items()}
    for family in converter.families.values():
        functions[family.apply] = family.function()
    data = {family.header: family.data() for family in converter.families.values()}
    if not data:
        return mod
    fresh = {gvar: GlobalVar(gvar.name) for gvar in mod.functions}
    renamed = {fresh.get(gvar, gvar): _with_names(func, fresh) for gvar, func in functions.items()}
    return infer_type(IRModule(renamed, {**mod.type_definitions, **data}))


def _check(mod: IRModule) -> None:
    for gvar, func in mod.functions.items():
        if func.type_params:
            raise UnsupportedError(
                f"defunctionalization: @{gvar.name} is polymorphic; it needs one type for everything"
            )
    main = mod["main"].func_type
    if any(isinstance(part, FuncType) for type_ in (*main.arg_types, main.ret_type) for part in walk_type(type_)):
        raise UnsupportedError(f"defunctionalization: @main takes or returns functions: {main}")
    for data in mod.type_definitions.values():
        fields = [one for constructor in data.constructors for one in constructor.inputs]
        if any(isinstance(part, FuncType) for one in fields for part in walk_type(one)):
            raise UnsupportedError(f"defunctionalization: values of {data.header.name} hold functions")


def _with_names(func: Function, fresh: dict[GlobalVar, GlobalVar]) -> Function:
    """`func` naming the new variables of functions, whose types differ from the old ones'."""
    done: dict[Expr, Expr] = {}
    for node in post_order(func.body):
        made = rebuild(node, tuple([done[kid] for kid in children(node)]))
        if isinstance(made, Call) and isinstance(made.op, GlobalVar) and made.op in fresh:
            made = Call(fresh[made.op], made.args, made.attrs, made.span)
        done[node] = made
    return func.with_body(done[func.body])


@dataclass
class _Family:
    """All functions of one type: their data type, its constructors, and the clauses of the function that applies it."""

    header: GlobalTypeVar
    apply: GlobalVar
    params: list[Var]
    closure: Var
    ret_type: Type
    constructors: list[Constructor] = field(default_factory=list)
    clauses: list[Clause] = field(default_factory=list)

    def data(self) -> TypeData:
        """The definition of the data type."""
        return TypeData(self.header, [], self.constructors)

    def function(self) -> Function:
        """The function that applies a value of the data type."""
        func = Function([self.closure, *self.params], Match(self.closure, self.clauses), self.ret_type)
        renamed = rename_bound(func)
        assert isinstance(renamed, Function)
        return renamed


class _Converter:
    """Converts the functions of a module; every variable gets a successor, whose type has no functions in it."""

    def __init__(self) -> None:
        self.families: dict[str, _Family] = {}
        self.variables: dict[Var, Var] = {}
        self.lambdas = 0

    def global_function(self, func: Function) -> Function:
        """A function of the module."""
        type_ = func.func_type
        params = [self.typed(param, arg) for param, arg in zip(func.params, type_.arg_types, strict=True)]
        return Function(params, self.convert(func.body), self.type(type_.ret_type), attrs=func.attrs)

    def type(self, type_: Type) -> Type:
        """`type_` with functions replaced by their data types."""
        return map_type(type_, lambda part: TypeCall(self.family(part).header) if isinstance(part, FuncType) else None)

    def family(self, type_: Type) -> _Family:
        """The family of functions of a type, whose parts are converted already or have no functions in them."""
        if not isinstance(type_, FuncType) or type_.type_params:
            raise UnsupportedError(f"defunctionalization: a function of type {type_} is polymorphic")
        arg_types, ret_type = [self.type(arg) for arg in type_.arg_types], self.type(type_.ret_type)
        key = str(FuncType(arg_types, ret_type))
        if key not in self.families:
            number = len(self.families)
            header = GlobalTypeVar(f"Closure{number}")
            params = [Var(f"a{index}", arg) for index, arg in enumerate(arg_types)]
            closure = Var("c", TypeCall(header))
            self.families[key] = _Family(header, GlobalVar(f"apply{number}"), params, closure, ret_type)
        return self.families[key]

    def typed(self, var: Var, type_: Type) -> Var:
        """The successor of a variable of a known type."""
        return self.variables.setdefault(var, Var(var.name, self.type(type_)))

    def variable(self, var: Var) -> Var:
        """The successor of a variable."""
        return self.typed(var, var.checked_type)

    def convert(self, root: Expr) -> Expr:
        """`root` without functions as values."""
        names = {node.value: node.var for node in post_order(root) if isinstance(node, Let)}
        done: dict[Expr, Expr] = {}
        for node in post_order(root):
            done[node] = self._node(node, done, names.get(node))
        return done[root]

    def _node(self, node: Expr, done: dict[Expr, Expr], name: Var | None) -> Expr:
        if isinstance(node, Var):
            return self.variable(node)
        if isinstance(node, Let):
            return Let(self.variable(node.var), done[node.value], done[node.body])
        if isinstance(node, Match):
            clauses = [Clause(self._pattern(clause.lhs), done[clause.rhs]) for clause in node.clauses]
            return Match(done[node.data], clauses, node.complete)
        if isinstance(node, Function) and not node.is_primitive:
            return self._closure(node, done[node.body], name)
        if isinstance(node, Call) and self._is_applied(node):
            assert isinstance(node.op, Expr)
            family = self.family(node.op.checked_type)
            return Call(family.apply, [done[node.op], *[done[arg] for arg in node.args]], span=node.span)
        return rebuild(node, tuple([done[kid] for kid in children(node)]))

    @staticmethod
    def _is_applied(call: Call) -> bool:
        if isinstance(call.op, Op | GlobalVar | Constructor):
            return False
        return not (isinstance(call.op, Function) and call.op.is_primitive)

    def _closure(self, func: Function, body: Expr, name: Var | None) -> Expr:
        """The value that stands for `func`, whose converted `body` becomes a clause of its family's function."""
        family = self.family(func.checked_type)
        captured = [self.variable(var) for var in free_vars(func) if var is not name]
        fields = [var.type_annotation for var in captured]
        assert all(one is not None for one in fields)
        number = len(family.constructors)
        constructor = Constructor(f"Lambda{self.lambdas}", fields, family.header, number)  # type: ignore[arg-type]
        self.lambdas += 1
        family.constructors.append(constructor)
        for param, arg in zip(func.params, family.params, strict=True):
            body = Let(self.variable(param), arg, body)
        if name is not None and name in free_vars(func):
            body = Let(self.variable(name), Call(constructor, captured), body)
        pattern = PatternConstructor(constructor, [PatternVar(var) for var in captured])
        family.clauses.append(Clause(pattern, body))
        return Call(constructor, captured)

    @nested
    def _pattern(self, pattern: Pattern) -> Pattern:
        if isinstance(pattern, PatternVar):
            return PatternVar(self.variable(pattern.var))
        if isinstance(pattern, PatternConstructor):
            return PatternConstructor(pattern.constructor, [self._pattern(part) for part in pattern.patterns])
        if isinstance(pattern, PatternTuple):
            return PatternTuple([self._pattern(part) for part in pattern.patterns])
        return pattern
