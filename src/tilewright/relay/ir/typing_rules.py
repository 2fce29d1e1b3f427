"""Type rules of nodes from the types of their operands, one rule per class of node.

`Inference.visit` goes through a graph operands first, with an explicit stack, and keeps each type with its node as
soon as nothing in it is open. Types that are open (a parameter without annotation, the result of a recursive call,
the elements of `Nil`) hold holes, which later uses fill; an operator whose argument types are open waits until they
are not (`finish`). So a graph without such types costs one rule per node and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tilewright.errors import InternalError, TypeMismatchError
from tilewright.relay.ir.adt import (
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
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import (
    FuncType,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    map_type,
)
from tilewright.relay.ir.unify import Unifier, bind_dims, has_holes, narrows, substitute_dims
from tilewright.relay.ir.unknown_sizes import apply_rule
from tilewright.relay.ir.visitor import children
from tilewright.support.dtype import DType

_BOOL = TensorType((), "bool")
_ANYTHING = TupleType(())


class TypeErrorAt(TypeMismatchError):
    """A type error that knows which node it is about."""

    def __init__(self, node: Expr, message: str) -> None:
        super().__init__(message)
        self.node = node


class Inference:
    """Types one graph, or several that depend on each other: `visit` each, then `finish`."""

    def __init__(self) -> None:
        self._unifier = Unifier()
        self._open: dict[Expr, Type] = {}
        self._waiting: list[Call | TupleGetItem] = []
        self._bound: set[Expr] = set()

    def assume(self, node: Expr, type_: Type) -> None:
        """Set the type of `node`, with or without holes."""
        if has_holes(type_):
            self._open[node] = type_
            node.set_inferred_type(None)
        else:
            node.set_inferred_type(type_)

    def agree(self, assumed: Type, value: Expr) -> None:
        """Check that the type assumed of the function `value`, visited since, holds. Raises TypeErrorAt."""
        self._unify(value, "", _monomorphic(self._type(value), assumed), assumed)

    def visit(self, root: Expr) -> None:
        """Type `root` and everything below it. Raises TypeErrorAt."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node.inferred_type is not None or node in self._open:
                stack.pop()
                continue
            enter = _ENTER.get(type(node))
            needed = children(node) if enter is None else enter(self, node)
            missing = [kid for kid in needed if kid.inferred_type is None and kid not in self._open]
            if missing:
                stack.extend(reversed(missing))
                continue
            self.assume(node, _RULES[type(node)](self, node))
            stack.pop()

    def finish(self) -> None:
        """Type what waits, and keep every type with its node. Raises TypeErrorAt where that of a variable is not found.

        What nothing determines, such as the elements of a list that stays empty, may be any type; it becomes `()`.
        """
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            for node in waiting:
                self._unify(node, "", _RULES[type(node)](self, node), self._open[node])
            if len(self._waiting) == len(waiting) and not any(self._expect(node) for node in waiting):
                raise self._undetermined(self._waiting[0])
        self._settle()
        for typed, type_ in self._open.items():
            final = self._unifier.resolve(type_)
            if isinstance(typed, Var) and isinstance(final, IncompleteType):
                raise self._undetermined(typed)
            typed.set_inferred_type(map_type(final, _anything_for_holes) if has_holes(final) else final)
        self._open.clear()

    def _expect(self, node: Expr) -> bool:
        """Set the types of operands of a waiting operator to those that it expects; True if there was one to set."""
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            return False
        known = [self._known(arg) for arg in node.args]
        if node.op.expected_operands is None or not isinstance(known[0], TensorType) or has_holes(known[0]):
            return False
        expected = node.op.expected_operands(known[0], node.attrs)
        given = False
        for arg, found, type_ in zip(node.args[1:], known[1:], expected):
            if isinstance(found, IncompleteType) and type_ is not None:
                self._unify(node, "", self._type(arg), type_)
                given = True
        return given

    def _settle(self) -> None:
        """Operators were typed as soon as their arguments were; where these got wider dimensions since, so do they."""
        pending = [node for node in self._open if isinstance(node, Call) and not isinstance(node.op, Expr)]
        changed = bool(pending)
        while changed:
            changed = False
            for node in pending:
                before = self._known(node)
                after = self._operator_type(node, [self._known(arg) for arg in node.args])
                self._unify(node, "", after, self._open[node])
                changed |= self._known(node) != before

    def _undetermined(self, node: Expr) -> TypeErrorAt:
        unknown = [n for n in self._open if isinstance(n, Var) and isinstance(self._known(n), IncompleteType)]
        if isinstance(node, Call) and not isinstance(node.op, Expr):
            unknown = [arg for arg in node.args if isinstance(arg, Var) and arg in unknown] or unknown
        if unknown:
            name = unknown[0].name
            return TypeErrorAt(
                node, f"the variable {name!r} has no type; declare it with a shape: relay.var(name, shape=…)"
            )
        what = f"the type {self._known(node)} of this {type(node).__name__}"
        return TypeErrorAt(node, f"nothing determines {what}; annotate the variable that it is bound to")

    def _type(self, node: Expr) -> Type:
        """The type of `node`, with holes, which stay linked to what is found later."""
        found = node.inferred_type or self._open.get(node)
        if found is None:
            raise InternalError(f"this {type(node).__name__} was not visited")
        return found

    def _known(self, node: Expr) -> Type:
        """The type of `node` as far as it is known now."""
        return self._unifier.resolve(self._type(node))

    def _shape_of(self, node: Expr) -> Type:
        """The outermost layer of the type of `node`."""
        return self._unifier.expose(self._type(node))

    def _unify(self, node: Expr, reason: str, a: Type, b: Type) -> Type:
        try:
            return self._unifier.unify(a, b)
        except TypeMismatchError as error:
            raise TypeErrorAt(node, f"{reason}: {error}" if reason else str(error)) from None

    # -------------------------------------------------------------------------------- what a node binds, and then needs
    def _enter_function(self, node: Function) -> tuple[Expr, ...]:
        for param in node.params:
            if param.inferred_type is None and param not in self._open:
                self.assume(param, param.type_annotation or IncompleteType())
        return (node.body,)

    def _enter_let(self, node: Let) -> tuple[Expr, ...]:
        var, value = node.var, node.value
        if value.inferred_type is None and value not in self._open:
            if type(value) is Function and var.inferred_type is None:
                self._open.setdefault(var, var.type_annotation or declared_type(value))
            return (value,)
        if node not in self._bound:
            self._bound.add(node)
            self._bind(node, var, value)
        return (node.body,)

    def _bind(self, node: Let, var: Var, value: Expr) -> None:
        found, declared = self._type(value), var.inferred_type or var.type_annotation
        assumed = self._open.pop(var, None) or declared
        if assumed is not None and assumed is not found:
            reason = "its recursion does not fit" if declared is None else f"it is declared as {declared}"
            self._unify(value, f"%{var.name}: {reason}", _monomorphic(found, assumed), assumed)
        if var.inferred_type is None:
            self.assume(var, declared or found)

    def _enter_match(self, node: Match) -> tuple[Expr, ...]:
        data = node.data
        if data.inferred_type is None and data not in self._open:
            return (data,)
        if node not in self._bound:
            self._bound.add(node)
            for clause in node.clauses:
                self._bind_pattern(node, clause.lhs, self._type(data))
        return tuple([clause.rhs for clause in node.clauses])

    def _bind_pattern(self, node: Match, pattern: Pattern, type_: Type) -> None:
        if isinstance(pattern, PatternVar):
            self._bind_pattern_var(node, pattern.var, type_)
        elif isinstance(pattern, PatternTuple):
            fields = TupleType([IncompleteType() for _ in pattern.patterns])
            self._unify(node, "a tuple pattern does not fit", type_, fields)
            for part, field in zip(pattern.patterns, fields.fields):
                self._bind_pattern(node, part, field)
        elif isinstance(pattern, PatternConstructor):
            made = self._unifier.instantiate(_constructor_type(pattern.constructor))
            name = pattern.constructor.name
            self._unify(node, f"the pattern {name} does not fit", type_, made.ret_type)
            if len(made.arg_types) != len(pattern.patterns):
                count = f"{len(pattern.patterns)} fields; it needs {len(made.arg_types)}"
                raise TypeErrorAt(node, f"the pattern {name} has {count}")
            for part, field in zip(pattern.patterns, made.arg_types):
                self._bind_pattern(node, part, field)

    def _bind_pattern_var(self, node: Match, var: Var, type_: Type) -> None:
        declared = var.inferred_type or var.type_annotation
        if declared is not None:
            self._unify(node, f"the pattern %{var.name} is declared as {declared}", type_, declared)
        if var.inferred_type is None:
            self.assume(var, declared or type_)

    # ------------------------------------------------------------------------------------------------------- rules
    def _tuple_get_item(self, node: TupleGetItem) -> Type:
        type_ = self._shape_of(node.tuple_value)
        if isinstance(type_, IncompleteType):
            self._waiting.append(node)
            return self._open.get(node) or IncompleteType()
        if not isinstance(type_, TupleType) or not 0 <= node.index < len(type_.fields):
            raise TypeErrorAt(node, f"field {node.index} is taken of a value of type {self._known(node.tuple_value)}")
        return type_.fields[node.index]

    def _function(self, node: Function) -> Type:
        body = self._type(node.body)
        if node.ret_type is not None:
            reason = f"a function is declared to return {node.ret_type}, but its body is {self._known(node.body)}"
            self._unify(node.body, reason, body, node.ret_type)
        return FuncType([self._type(param) for param in node.params], node.ret_type or body, node.type_params)

    def _if(self, node: If) -> Type:
        self._unify(node, "the condition of an If must be a scalar bool", self._type(node.cond), _BOOL)
        true, false = self._known(node.true_branch), self._known(node.false_branch)
        reason = f"the branches of an If have different types: {true} and {false}"
        return self._meet(node, reason, [node.true_branch, node.false_branch])

    def _match(self, node: Match) -> Type:
        if not node.clauses:
            raise TypeErrorAt(node, "a match needs at least one clause")
        return self._meet(node, "the clauses of a match have different types", [c.rhs for c in node.clauses])

    def _meet(self, node: Expr, reason: str, ways: list[Expr]) -> Type:
        """The type of a value that is that of one of `ways`."""
        result = IncompleteType() if any(way in self._open for way in ways) else self._type(ways[0])
        for way in ways:
            result = self._unify(node, reason, result, self._type(way))
        return result

    def _ref_read(self, node: RefRead) -> Type:
        ref = self._shape_of(node.ref)
        if isinstance(ref, RefType):
            return ref.value
        content = IncompleteType()
        self._unify(node, "ref_read needs a reference", ref, RefType(content))
        return content

    def _ref_write(self, node: RefWrite) -> Type:
        ref, value = self._shape_of(node.ref), self._type(node.value)
        self._unify(node, "ref_write needs a reference to a value of that type", ref, RefType(value))
        if isinstance(ref, RefType) and not has_holes(ref) and narrows(self._known(node.value), ref.value):
            raise TypeErrorAt(node, f"{value} is written to a {ref}; create the reference with ? dimensions")
        return TupleType(())

    def _global(self, node: GlobalVar) -> Type:
        raise TypeErrorAt(node, f"@{node.name} is called but is not a function of the module")

    def _call(self, node: Call) -> Type:
        if isinstance(node.op, Expr):
            return self._apply(node, node.op)
        arg_types = [self._known(arg) for arg in node.args]
        if not self._open or not any(arg in self._open for arg in node.args):
            return self._operator_type(node, arg_types)
        if any(map(has_holes, arg_types)):
            self._waiting.append(node)
            return self._open.get(node) or IncompleteType()
        linked = IncompleteType()
        self._unifier.unify(linked, self._operator_type(node, arg_types))
        return linked

    def _operator_type(self, node: Call, arg_types: list[Type]) -> Type:
        op = node.op
        assert isinstance(op, Op)
        if op.num_inputs not in (-1, len(arg_types)):
            raise _mismatch(node, arg_types, f"it takes {op.num_inputs} inputs and got {len(arg_types)}")
        try:
            return apply_rule(lambda types: op.type_rule(types, node.attrs), arg_types)
        except TypeMismatchError as error:
            raise _mismatch(node, arg_types, str(error)) from None

    def _apply(self, node: Call, op: Expr) -> Type:
        """The type of a call of anything but an operator."""
        if op.inferred_type is None and op not in self._open:
            self.visit(op)
        callee, given = self._shape_of(op), [self._type(arg) for arg in node.args]
        if isinstance(callee, IncompleteType):
            result = IncompleteType()
            self._unify(node, "the callee", callee, FuncType(given, result))
            return result
        arg_types = [self._unifier.resolve(type_) for type_ in given]
        if not isinstance(callee, FuncType):
            raise _mismatch(node, arg_types, f"a value of type {callee} is called, which is no function")
        fresh = self._unifier.instantiate(callee)
        if isinstance(op, GlobalVar):
            mapping = bind_dims(fresh.arg_types, arg_types)
            takes = [substitute_dims(arg, mapping) for arg in fresh.arg_types]
            fresh = FuncType(takes, substitute_dims(fresh.ret_type, mapping))
        takes_text = f"the function takes ({', '.join(map(str, callee.arg_types))})"
        if len(fresh.arg_types) != len(given):
            raise _mismatch(node, arg_types, takes_text)
        for declared, type_ in zip(fresh.arg_types, given):
            try:
                self._unifier.unify(type_, declared)
            except TypeMismatchError as error:
                raise _mismatch(node, arg_types, f"{takes_text}: {error}") from None
        return fresh.ret_type


def _anything_for_holes(part: Type) -> Type | None:
    return _ANYTHING if isinstance(part, IncompleteType) else None


def _monomorphic(found: Type, assumed: Type) -> Type:
    """A recursive function without full annotations uses itself at its own type parameters."""
    if isinstance(found, FuncType) and isinstance(assumed, FuncType) and not assumed.type_params:
        return FuncType(found.arg_types, found.ret_type)
    return found


@cache
def _element(dtype: np.dtype[Any]) -> DType:
    """The data type of NumPy's `dtype`; networks have thousands of constants of a few."""
    return DType(dtype)


def declared_type(func: Function) -> FuncType:
    """The type that the annotations of `func` declare, with a hole for each that is missing.

    It is polymorphic only if nothing is missing: a function without full annotations is typed together with its
    recursive calls, which are at its own type parameters.
    """
    found = FuncType(
        [param.type_annotation or IncompleteType() for param in func.params], func.ret_type or IncompleteType()
    )
    return found if has_holes(found) else FuncType(found.arg_types, found.ret_type, func.type_params)


def _constructor_type(constructor: Constructor) -> FuncType:
    found = constructor.inferred_type
    if not isinstance(found, FuncType):
        raise TypeErrorAt(constructor, f"the constructor {constructor.name} belongs to no TypeData yet")
    return found


def _mismatch(node: Call, arg_types: list[Type], reason: str) -> TypeErrorAt:
    op: Any = node.op
    name = "a fused function" if isinstance(op, Function) and op.is_primitive else getattr(op, "name", "a function")
    where = f" (from {node.span})" if node.span else ""
    attrs = f", {node.attrs!r}" if node.attrs else ""
    return TypeErrorAt(node, f"{name}({', '.join(map(str, arg_types))}{attrs}){where}: {reason}")


_ENTER: dict[type, Callable[..., tuple[Expr, ...]]] = {
    Function: Inference._enter_function,
    Let: Inference._enter_let,
    Match: Inference._enter_match,
}

_RULES: dict[type, Callable[..., Type]] = {
    Var: lambda _, node: node.type_annotation or IncompleteType(),
    Constant: lambda _, node: TensorType(node.data.shape, _element(node.data.dtype)),
    Tuple: lambda self, node: TupleType([self._type(kid) for kid in node.fields]),
    TupleGetItem: Inference._tuple_get_item,
    Call: Inference._call,
    Let: lambda self, node: self._type(node.body),
    If: Inference._if,
    Match: Inference._match,
    RefCreate: lambda self, node: RefType(self._type(node.value)),
    RefRead: Inference._ref_read,
    RefWrite: Inference._ref_write,
    GlobalVar: Inference._global,
    Constructor: lambda _, node: _constructor_type(node),
    Function: Inference._function,
}
