"""`TypeKind`: the kinds of type variables in the classic spelling, and the check that types are well-kinded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import TypeMismatchError
from tilewright.relay.ir import type as t
from tilewright.relay.ir.adt import TypeData
from tilewright.relay.ir.module import IRModule


class TypeKind:
    """The kind of a type variable: `TypeKind.Type` is any type."""

    Type = t.Kind.TYPE
    ShapeVar = t.Kind.SHAPE_VAR
    BaseType = t.Kind.BASE_TYPE
    Shape = t.Kind.SHAPE
    Constraint = t.Kind.CONSTRAINT
    AdtHandle = t.Kind.ADT_HANDLE
    TypeData = t.Kind.TYPE_DATA


def check_kind(type_: t.Type, mod: IRModule | None = None) -> t.Kind:
    """The kind of a type, its parts checked: functions, tuples and references are of types, data types of as many
    types as they take. `mod` defines the data types. Raises `TypeMismatchError`.
    """
    if isinstance(type_, t.TypeVar | t.IncompleteType):
        return type_.kind
    if isinstance(type_, t.GlobalTypeVar):
        return t.Kind.ADT_HANDLE
    if isinstance(type_, TypeData):
        _check_definition(type_, mod)
        return t.Kind.TYPE_DATA
    if isinstance(type_, t.TypeCall):
        _check_call(type_, mod)
    _all_types(type_, t.parts(type_) if not isinstance(type_, t.TypeCall) else type_.args, mod)
    return t.Kind.TYPE


def _all_types(whole: t.Type, parts: Sequence[t.Type], mod: IRModule | None) -> None:
    for part in parts:
        kind = check_kind(part, mod)
        if kind is not t.Kind.TYPE:
            raise TypeMismatchError(f"{whole} is made of types, but {part} is of the kind {kind.name}")


def _check_definition(data: TypeData, mod: IRModule | None) -> None:
    for var in data.type_vars:
        if var.kind is not t.Kind.TYPE:
            raise TypeMismatchError(f"the type variable {var} of {data.header} is of the kind {var.kind.name}")
    for constructor in data.constructors:
        _all_types(data, constructor.inputs, mod)


def _check_call(call: Any, mod: IRModule | None) -> None:
    if not isinstance(call.func, t.GlobalTypeVar):
        raise TypeMismatchError(f"{call} applies {call.func}, which is no data type")
    if mod is None:
        return
    wanted = len(mod.type_data(call.func.name).type_vars)
    if wanted != len(call.args):
        raise TypeMismatchError(f"{call}: {call.func} takes {wanted} types, not {len(call.args)}")
