"""The signature of a converter as the schema of its operator: inputs and attributes bound by name, type and default.

    @converts("HardSigmoid")
    def convert_hard_sigmoid(x: Expr, alpha: float = 0.2, beta: float = 0.5) -> Expr: ...

A parameter `node` is the node itself. Parameters annotated `Expr` are its inputs in order, with the default None those
that may be left out, and `*values: Expr` all that are left; those annotated `Typed` are inputs in the element type that
the operator computes in. Every other parameter is the attribute of its name (`type_` is `type`), converted to its
annotation: `int`, `float`, `bool`, `str`, `Ints` or `Floats`, an `Axis` counted from the front, `Axes` (all of them
where none are given), or anything as the format holds it. A missing attribute without a default, or one of another
type, is the `ModelError` of the node. A function of one parameter that is no input is given the node, whatever the
parameter is called. Of functions in tables (`typed`, `schemas`), parameters without annotation and default are inputs
too; in `schemas` those with the default None are inputs that may be left out, and those with another default
attributes of the type of that, `axis` an axis.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from tilewright.relay.ir.expr import Expr

Ints = list[int]
Floats = list[float]
Axis = int
Axes = list[int]
Typed = Expr

#: The parts of a parameter: its name, its annotation as text, its default.
_Parameter = tuple[str, str, Any]
_EMPTY = inspect.Parameter.empty


def apply(converter: Callable[..., Any], node: Any, typed: bool = False, inferred: bool = False) -> Any:
    """The result of a converter for a node, whose inputs and attributes are bound to the converter's parameters.

    With `typed` all inputs are taken as those annotated `Typed`; with `inferred` annotations follow from defaults.
    """
    inputs, attributes, rest = _schema(converter, typed, inferred)
    if inputs is None:
        return converter(node)
    given: dict[str, Any] = {}
    count = 0
    for name, kind, default in inputs:
        if name == "node":
            given[name] = node
            continue
        value = node.operand(name, count, optional=default is not _EMPTY)
        given[name] = node.typed(value) if value is not None and (typed or kind.startswith("Typed")) else value
        count += 1
    named = {name: _attribute(node, name, kind, default) for name, kind, default in attributes}
    return converter(*given.values(), *node.given()[count:], **named) if rest else converter(**given, **named)


@cache
def _schema(
    converter: Callable[..., Any], typed: bool, inferred: bool
) -> tuple[list[_Parameter] | None, list[_Parameter], bool]:
    """The inputs (None for a converter of a node), the attributes, and whether inputs left over are passed on."""
    parameters = list(inspect.signature(converter, follow_wrapped=False).parameters.values())
    none = "Typed" if typed else "Expr" if inferred else ""
    kinds = {one.name: _text(one, none, inferred) for one in parameters}
    if len(parameters) == 1 and not kinds[parameters[0].name].startswith(_INPUTS):
        return None, [], False
    is_input = {name: name == "node" or kind.startswith(_INPUTS) for name, kind in kinds.items()}
    rest = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters)
    plain = [
        (one.name, kinds[one.name], one.default)
        for one in parameters
        if one.kind is not inspect.Parameter.VAR_POSITIONAL
    ]
    return [one for one in plain if is_input[one[0]]], [one for one in plain if not is_input[one[0]]], rest


_INPUTS = ("Expr", "Typed")


def _text(parameter: inspect.Parameter, none: str, inferred: bool) -> str:
    """The annotation as text; of a parameter that has none `none`, or with `inferred` the type of its default."""
    annotation, default = parameter.annotation, parameter.default
    if annotation is _EMPTY:
        kind = "Axis" if parameter.name == "axis" and isinstance(default, int) else type(default).__name__
        return none if default is _EMPTY or (inferred and default is None) else kind if inferred else ""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _attribute(node: Any, name: str, kind: str, default: Any) -> Any:
    value = node.attribute(name.rstrip("_"))
    if value is None:
        if default is _EMPTY:
            node.bad(f"its attribute {name.rstrip('_')} is missing")
        value = node.default(default)
    convert = _KINDS.get(kind.removesuffix(" | None"))
    if convert is None or (value is None and kind != "Axes"):
        return value
    try:
        return convert(node, value)
    except (TypeError, ValueError):
        node.bad(f"its attribute {name.rstrip('_')} is {value!r}, and {_NAMES[kind.removesuffix(' | None')]} is needed")


def _flag(value: Any) -> bool:
    return str(value).lower() not in ("false", "0", "0.0", "")


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else [value]


_KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "int": lambda node, value: int(value),
    "float": lambda node, value: float(value),
    "bool": lambda node, value: _flag(value),
    "str": lambda node, value: str(value),
    "Ints": lambda node, value: [int(item) for item in _listed(value)],
    "Floats": lambda node, value: [float(item) for item in _listed(value)],
    "Axis": lambda node, value: node.axis(int(value)),
    "Axes": lambda node, value: node.every_axis([] if value is None else _listed(value)),
}
_NAMES = {
    "int": "a whole number", "float": "a number", "bool": "a truth value", "str": "a text", "Ints": "whole numbers",
    "Floats": "numbers", "Axis": "an axis", "Axes": "axes",
}  # fmt: skip
