"""Layouts by rules of a program: `register_alter_op_layout`, `register_convert_op_layout`, and passes that ask them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright import te
from tilewright.backend import backend_of
from tilewright.relay.ir import registry
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.transform.layout.alter_layout import alter_layout
from tilewright.relay.transform.layout.alter_op_layout import alter_op_layout, rules_in_force, transformed_to
from tilewright.relay.transform.layout.convert_layout import convert_layout
from tilewright.relay.transform.simplify.canonicalize_ops import canonicalize_ops

#: By operator: the rule with the highest level, and that level.
_Registered = dict[str, tuple[int, Callable[..., Any]]]
_ALTERED: _Registered = {}
_CONVERTED: _Registered = {}


def register_alter_op_layout(op_name: str, alter_layout: Callable[..., Any] | None = None, level: int = 10) -> Any:
    """`alter_layout(attrs, inputs, tinfos, out_type)` returns the call that `AlterOpLayout` substitutes for another.

    Without it a decorator. Raises `UnsupportedError` for an operator that is not known.
    """
    return enter_rule(_ALTERED, op_name, alter_layout, level)


def register_convert_op_layout(op_name: str, convert_layout: Callable[..., Any] | None = None, level: int = 10) -> Any:
    """`convert_layout(attrs, inputs, tinfos, desired_layouts)` returns the call that `ConvertLayout` substitutes.

    Without it a decorator. Raises `UnsupportedError` for an operator that is not known.
    """
    return enter_rule(_CONVERTED, op_name, convert_layout, level)


def enter_rule(table: _Registered, op_name: str, rule: Callable[..., Any] | None, level: int) -> Any:
    """Enter the rule of an operator in `table`, unless one of a higher level is there; without a rule a decorator."""
    registry.get(op_name)

    def put(given: Callable[..., Any]) -> Callable[..., Any]:
        if level >= table.get(op_name, (level, None))[0]:
            table[op_name] = (level, given)
        return given

    return put if rule is None else put(rule)


def with_tensors(rule: Callable[..., Any]) -> Callable[..., Expr | None]:
    """`rule(attributes, arguments, tensors of the operands' types, type of the result, …)` as this package calls it."""

    def call(attrs: Any, inputs: Sequence[Expr], types: Sequence[Type], *more: Any) -> Expr | None:
        operands = [_placeholder(type_, at) for at, type_ in enumerate(types[:-1])]
        last = more or (types[-1],)
        return rule(attrs, list(inputs), operands, *last)

    return call


def _placeholder(type_: Type, at: int) -> Any:
    return te.placeholder(type_.shape, type_.dtype, f"in{at}") if isinstance(type_, TensorType) else type_


def altered(mod: IRModule) -> IRModule:
    """The module with the program's rules for layouts applied, those of enclosing `TempOpAttr` before others."""
    rules = {name: with_tensors(rule) for name, (_, rule) in _ALTERED.items()} | dict(rules_in_force())
    return alter_op_layout(mod, rules) if rules else mod


def planned(mod: IRModule) -> IRModule:
    """`AlterOpLayout`: by the program's rules; without any, layouts as this package plans them."""
    return altered(mod) if _ALTERED or rules_in_force() else alter_layout(mod, backend_of(None).rules())


def converted(mod: IRModule, desired_layouts: Mapping[str, Any]) -> IRModule:
    """`ConvertLayout`: operators in the requested layouts, by the program's rules where it has some."""
    rules = {name: with_tensors(rule) for name, (_, rule) in _CONVERTED.items()}
    return convert_layout(canonicalize_ops(mod), desired_layouts, transformed_to, rules)
