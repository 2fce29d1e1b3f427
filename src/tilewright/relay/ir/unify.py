"""Unification of types: what type inference knows of the types that are still to be found.

A hole (`IncompleteType`) stands for one type. `unify(fn (_) -> _, fn (float32) -> bool)` finds both holes.

Dimensions are not holes; where two types meet, so do their dimensions:

- equal ones stay; two different integers are an error;
- otherwise one of them is known at run time only (`Any()` or symbolic), and the meeting is `Any()`. Where a value meets
  the type that is declared for it, the declaration holds, and whoever runs the program checks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import (
    FuncType,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    map_type,
    parts,
    walk_type,
)
from tilewright.support.recursion import nested
from tilewright.tir.expr import IntImm, SizeVar
from tilewright.tir.visitor import collect_vars, substitute


class Unifier:
    """The holes found so far. All methods take types with holes."""

    def __init__(self) -> None:
        self._found: dict[IncompleteType, Type] = {}

    def resolve(self, type_: Type) -> Type:
        """`type_` with the holes that are known put in."""
        return map_type(type_, self._known) if has_holes(type_) else type_

    def _known(self, part: Type) -> Type | None:
        if not isinstance(part, IncompleteType) or part not in self._found:
            return None
        return self.resolve(self._found[part])

    def expose(self, type_: Type) -> Type:
        """The outermost layer of what is known of `type_`; holes inside stay, and with them what is found later."""
        root = self._root(type_)
        return self._found.get(root, root) if isinstance(root, IncompleteType) else root

    def _root(self, type_: Type) -> Type:
        while isinstance(type_, IncompleteType) and isinstance(self._found.get(type_), IncompleteType):
            type_ = self._found[type_]
        return type_

    def instantiate(self, type_: FuncType) -> FuncType:
        """A polymorphic function type with a hole for each type parameter; any other as it is."""
        if not type_.type_params:
            return type_
        return FuncType(*type_.instantiate([IncompleteType() for _ in type_.type_params]))

    def unify(self, a: Type, b: Type) -> Type:
        """The type that both are, holes filled on the way. Raises TypeMismatchError with the innermost difference."""
        a, b = self._root(a), self._root(b)
        if a is b:
            return a
        if isinstance(a, IncompleteType):
            return self._join(a, b) if isinstance(b, IncompleteType) else self._fill(a, b)
        if isinstance(b, IncompleteType):
            return self._fill(b, a)
        rule = _UNIFY.get(type(a))
        if rule is None and a == b:
            return a
        if rule is None or type(a) is not type(b):
            raise _different(self.resolve(a), self.resolve(b))
        return rule(self, a, b)

    def _join(self, a: IncompleteType, b: IncompleteType) -> Type:
        """Two holes become one."""
        if a not in self._found:
            return self._fill(a, b)
        if b in self._found:
            self._found[a] = self.unify(self._found[a], self._found[b])
            self._found[b] = a
            return a
        return self._fill(b, a)

    def _fill(self, hole: IncompleteType, type_: Type) -> Type:
        if hole in self._found:
            self._found[hole] = self.unify(self._found[hole], type_)
        else:
            whole = self.resolve(type_)
            if hole in walk_type(whole):
                raise TypeMismatchError(f"the type would contain itself: {whole}")
            self._found[hole] = type_
        return hole

    def _all(self, a: Sequence[Type], b: Sequence[Type]) -> list[Type]:
        return [self.unify(x, y) for x, y in zip(a, b, strict=True)]

    def _functions(self, a: FuncType, b: FuncType) -> Type:
        if len(a.arg_types) != len(b.arg_types):
            raise _different(a, b)
        params = a.type_params if len(a.type_params) == len(b.type_params) else ()
        if params:
            b = FuncType(*b.instantiate(params))
        else:
            a, b = self.instantiate(a), self.instantiate(b)
        return FuncType(self._all(a.arg_types, b.arg_types), self.unify(a.ret_type, b.ret_type), params)

    def _tuples(self, a: TupleType, b: TupleType) -> Type:
        if len(a.fields) != len(b.fields):
            raise _different(a, b)
        return TupleType(self._all(a.fields, b.fields))

    def _type_calls(self, a: TypeCall, b: TypeCall) -> Type:
        if a.func != b.func or len(a.args) != len(b.args):
            raise _different(a, b)
        return TypeCall(a.func, self._all(a.args, b.args))

    def _references(self, a: RefType, b: RefType) -> Type:
        return RefType(self.unify(a.value, b.value))

    def _tensors(self, a: TensorType, b: TensorType) -> Type:
        if a == b:
            return a
        if a.dtype != b.dtype or len(a.shape) != len(b.shape):
            raise _different(a, b)
        for x, y in zip(a.shape, b.shape, strict=True):
            if type(x) is int and type(y) is int and x != y:
                raise _different(a, b)
        return TensorType([x if x is y or x == y else AnyDim() for x, y in zip(a.shape, b.shape)], a.dtype)


_UNIFY: dict[type, Any] = {
    TensorType: Unifier._tensors,
    TupleType: Unifier._tuples,
    FuncType: Unifier._functions,
    TypeCall: Unifier._type_calls,
    RefType: Unifier._references,
}


def _different(a: Type, b: Type) -> TypeMismatchError:
    hint = ""
    if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype == b.dtype and a.ndim == b.ndim:
        hint = "; a dimension that varies is declared as ? (relay.Any())"
    return TypeMismatchError(f"{a} is not {b}{hint}")


def has_holes(type_: Type) -> bool:
    """True if a part of `type_` is still to be found."""
    if type(type_) is TensorType:
        return False
    return any(isinstance(part, IncompleteType) for part in walk_type(type_))


@nested
def narrows(value: Type, declared: Type) -> bool:
    """True if some values of type `value` have a dimension that `declared` excludes, so a run time check is needed."""
    if isinstance(value, TensorType) and isinstance(declared, TensorType):
        return any(type(d) is not AnyDim and d is not v and d != v for v, d in zip(value.shape, declared.shape))
    return any(narrows(v, d) for v, d in zip(parts(value), parts(declared)))


def bind_dims(params: Sequence[Type], args: Sequence[Type]) -> dict[SizeVar, Any]:
    """The values of the size variables in a function's parameter types for arguments of types `args`.

    A variable gets the dimension of the first argument that has it as a whole dimension.
    """
    found: dict[SizeVar, Any] = {}
    for param, arg in zip(params, args):
        for declared, given in zip(_tensors_within(param), _tensors_within(arg)):
            for dim, actual in zip(declared.shape, given.shape):
                if isinstance(dim, SizeVar):
                    found.setdefault(dim, actual)
    return found


def _tensors_within(type_: Type) -> list[TensorType]:
    return [part for part in walk_type(type_) if isinstance(part, TensorType)]


def substitute_dims(type_: Type, mapping: Mapping[SizeVar, Any]) -> Type:
    """`type_` with size variables replaced by ints, expressions or `Any()`, which makes its whole dimension `Any()`."""
    if not mapping:
        return type_

    def dim(old: Any) -> Any:
        if type(old) in (int, AnyDim):
            return old
        used = [var for var in collect_vars(old) if var in mapping]
        if any(type(mapping[var]) is AnyDim for var in used):  # type: ignore[index]
            return AnyDim()
        return substitute(old, {var: _as_expr(mapping[var], var) for var in used})  # type: ignore[index]

    def rule(part: Type) -> Type | None:
        if not isinstance(part, TensorType) or part.is_static:
            return None
        return TensorType([dim(old) for old in part.shape], part.dtype)

    return map_type(type_, rule)


def _as_expr(value: Any, var: Any) -> Any:
    return IntImm(var.dtype, value) if isinstance(value, int) else value
