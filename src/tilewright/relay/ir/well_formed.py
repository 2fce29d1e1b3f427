"""Well-formedness of programs: names bound once and used in their scope, types of the right kind.

Checked by reading alone, before any types are inferred.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.errors import IllFormedError
from tilewright.relay.ir.adt import Constructor, Match, PatternConstructor, pattern_vars, walk_pattern
from tilewright.relay.ir.analysis import free_type_vars, written_types
from tilewright.relay.ir.excerpt import excerpt
from tilewright.relay.ir.expr import Call, Expr, Function, GlobalVar, Let, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import LIST, OBJECT, GlobalTypeVar, Type, TypeCall, walk_type
from tilewright.relay.ir.visitor import binders, children, post_order

_OPAQUE = (LIST, OBJECT)
Names = frozenset[Var]


def well_formed(root: IRModule | Expr) -> bool:
    """True if `check_well_formed` has nothing to say."""
    try:
        check_well_formed(root)
    except IllFormedError:
        return False
    return True


def check_well_formed(root: IRModule | Expr) -> None:
    """Raise `IllFormedError`, with the lines around the position, where one of these does not hold:

    - a variable is bound once, and used only where that position reaches;
    - a function of the module that is named is defined, and so is a data type, and a constructor belongs to it;
    - a data type has as many arguments as parameters, and a type variable is a parameter of a function around it.
    An expression that is no function may have free variables; what it names of a module is not checked.
    """
    if isinstance(root, Expr):
        _check_binding(root, IRModule.from_expr(root), root)
        return
    binder_of: dict[Var, Expr] = {}
    for func in root.functions.values():
        _check_binding(func, root, func, binder_of)
        _check_names(func, root)
        _check_types(func, root)
    for data in root.type_definitions.values():
        for constructor in data.constructors:
            for field in constructor.inputs:
                _check_kind(field, root, f"the constructor {constructor.name}")


def _check_binding(root: Expr, mod: IRModule, at: Expr, binder_of: dict[Var, Expr] | None = None) -> None:
    seen = {} if binder_of is None else binder_of
    free: dict[Expr, Names] = {}
    nodes = post_order(root)
    for node in nodes:
        for var in binders(node):
            if seen.setdefault(var, node) is not node or binders(node).count(var) > 1:
                raise _error(mod, node, f"the variable %{var.name} is bound twice")
        free[node] = _free(node, free)
    outside = free[root] if isinstance(root, Function) else {var for var in free[root] if var in seen}
    if outside:
        var = next(node for node in nodes if isinstance(node, Var) and node in outside)
        user = next((node for node in nodes if var in children(node)), at)
        where = "outside of where it is bound" if var in seen else "and nothing binds it"
        raise _error(mod, user, f"the variable %{var.name} is used {where}")


def _free(node: Expr, free: dict[Expr, Names]) -> Names:
    """The variables that `node` takes from around it."""
    if isinstance(node, Var):
        return frozenset([node])
    if isinstance(node, Let):
        value = free[node.value] - {node.var} if isinstance(node.value, Function) else free[node.value]
        return _union([value, free[node.body] - {node.var}])
    if isinstance(node, Match):
        return _union([free[node.data], *[free[c.rhs] - set(pattern_vars(c.lhs)) for c in node.clauses]])
    found = _union([free[kid] for kid in children(node)])
    return found - set(node.params) if isinstance(node, Function) and found else found


def _union(parts: list[Names]) -> Names:
    result: Names = frozenset()
    for part in parts:
        result = part if not result else result if part <= result else result | part
    return result


def _check_names(func: Function, mod: IRModule) -> None:
    for node in post_order(func):
        for named, constructor in _named(node):
            if isinstance(named, GlobalVar) and named not in mod.functions:
                raise _error(mod, node, f"@{named.name} is not a function of the module")
            if constructor is None:
                continue
            data = mod.type_definitions.get(constructor.belong_to)
            if data is None or constructor not in data.constructors:
                raise _error(mod, node, f"{constructor.name} is not a constructor of a data type of the module")


def _named(node: Expr) -> Iterator[tuple[Expr, Constructor | None]]:
    """The functions and constructors that `node` itself names."""
    names = [node, node.op] if isinstance(node, Call) and isinstance(node.op, Expr) else [node]
    for name in names:
        yield name, name if isinstance(name, Constructor) else None
    if isinstance(node, Match):
        for clause in node.clauses:
            for pattern in walk_pattern(clause.lhs):
                if isinstance(pattern, PatternConstructor):
                    yield node, pattern.constructor


def _check_types(func: Function, mod: IRModule) -> None:
    for var in free_type_vars(func):
        raise _error(mod, func, f"the type variable {var} is not a parameter of a function around it")
    for type_ in written_types(func):
        try:
            _check_kind(type_, mod, f"the type {type_}")
        except IllFormedError as error:
            raise _error(mod, func, str(error)) from None


def _check_kind(type_: Type, mod: IRModule, where: str) -> None:
    for part in walk_type(type_):
        head = part.func if isinstance(part, TypeCall) else part
        if not isinstance(head, GlobalTypeVar) or head in _OPAQUE:
            continue
        data = mod.type_definitions.get(head)
        if data is None:
            raise IllFormedError(f"{where} names {head}, which the module does not define")
        given = len(part.args) if isinstance(part, TypeCall) else 0
        if given != len(data.type_vars):
            raise IllFormedError(f"{where} passes {head} {given} arguments; it takes {len(data.type_vars)}")


def _error(mod: IRModule, node: Expr, message: str) -> IllFormedError:
    where = excerpt(mod, node, hint=next(iter(mod.functions)))
    return IllFormedError(f"{message}\n{where}" if where else message)
