"""Attributes of operators: each declared once, with its kind and default, where the operator is registered.

    register("nn.conv2d", …, attributes={
        "strides": per_axis(2, (1, 1)), "padding": sides(2, (0, 0, 0, 0)), "groups": integer(1),
        "channels": optional(integer()), "data_layout": text("NCHW"), …
    })

`complete` puts in the defaults of attributes that a call leaves out, brings the others into the form in which operators
hold them, and refuses names and values that the operator does not take. Builders, the text parser and the JSON reader
all go through it.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.support.dtype import DType
from tilewright.support.suggestion import suggestion
from tilewright.tir.expr import Expr as TirExpr
from tilewright.topi.util import per_axis as one_each
from tilewright.topi.util import sides as both_sides

#: The default of an attribute that every call has to set.
REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "REQUIRED"})()
#: The default of an attribute that a call has only where a pass has decided something.
ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()


@dataclass(frozen=True, slots=True)
class Attribute:
    """The kind of value an attribute takes, in words for messages, and its default.

    `take` returns a value as operators hold it, and raises TypeError or ValueError where it is of another kind.
    """

    kind: str
    take: Callable[[Any], Any]
    default: Any = REQUIRED
    exact: type | None = None
    """values of just this class are taken as they are"""

    @property
    def is_required(self) -> bool:
        """True if every call has to set it."""
        return self.default is REQUIRED


Schema = Mapping[str, Attribute]


# --------------------------------------------------------------------------------------------------------- kinds
def integer(default: Any = REQUIRED) -> Attribute:
    """A whole number, or a size that is known when the model runs."""
    return Attribute("an integer", _integer, default, int)


def number(default: Any = REQUIRED) -> Attribute:
    """Any number, or a size that is known when the model runs."""
    return Attribute("a number", _number, default, float)


def flag(default: Any = REQUIRED) -> Attribute:
    """True or False; 1 and 0 stand for them."""
    return Attribute("a bool", _flag, default, bool)


def text(default: Any = REQUIRED) -> Attribute:
    """A string."""
    return Attribute("a string", _text, default, str)


def dtype(default: Any = REQUIRED) -> Attribute:
    """The name of an element type, or "" for that of the data."""
    return Attribute('an element type such as "float32"', _dtype, default)


def integers(count: int | None = None, default: Any = REQUIRED) -> Attribute:
    """A tuple of integers, as many as `count` says."""
    return Attribute(f"{'a tuple of' if count is None else count} integers", _tuple_of(_integer, count), default)


def tuple_of(item: Attribute, default: Any = REQUIRED) -> Attribute:
    """Any number of values of one kind."""
    return Attribute(f"a tuple, each {item.kind}", _tuple_of(item.take), default)


def pairs(default: Any = REQUIRED) -> Attribute:
    """A tuple of pairs of integers."""
    return Attribute("a tuple of pairs of integers", _tuple_of(_tuple_of(_integer, 2)), default)


def per_axis(axes: int, default: Any = REQUIRED) -> Attribute:
    """An integer for each of `axes` axes; one stands for all."""
    return Attribute(
        f"{axes} integers, or one for all",
        lambda value: _given(value, axes) or one_each(_integers(value), axes),
        default,
    )


def sides(axes: int, default: Any = REQUIRED) -> Attribute:
    """Widths before and after each of `axes` axes: (before …, after …); one a axis, or one for all, too."""
    what = f"{2 * axes} integers, (before …, after …), or {axes}, or one for all"
    return Attribute(what, lambda value: _given(value, 2 * axes) or both_sides(_integers(value), axes), default)


def window(count: int, **more: Attribute) -> dict[str, Attribute]:
    """Those of a window that moves along `count` axes."""
    return {
        "strides": per_axis(count, (1,) * count),
        "padding": sides(count, (0,) * 2 * count),
        "dilation": per_axis(count, (1,) * count),
        **more,
    }


def configuration() -> Attribute:
    """The values that a schedule's knobs take, ((name, value), …); absent where none was chosen."""
    return Attribute("a tuple of (knob, value) pairs", _tuple_of(_knob), ABSENT)


def axes(default: Any = REQUIRED) -> Attribute:
    """One axis, several, or None."""
    return Attribute("an axis, a tuple of axes or None", lambda v: None if v is None else _integers(v), default)


def integers_or_one(default: Any = REQUIRED) -> Attribute:
    """One integer or a tuple of them."""
    return Attribute("an integer or a tuple of integers", _integers, default)


def optional(attribute: Attribute, default: Any = None) -> Attribute:
    """The same kind, or None."""
    return Attribute(
        f"{attribute.kind} or None",
        lambda value: None if value is None else attribute.take(value),
        default,
        attribute.exact,
    )


def anything(default: Any = REQUIRED) -> Attribute:
    """Any value: types, nested lists."""
    return Attribute("any value", lambda value: value, default)


def _given(value: Any, count: int) -> tuple[int, ...] | None:
    """`value` where it is in the form in which operators hold `count` integers."""
    ready = type(value) is tuple and len(value) == count and {type(item) for item in value} == {int}
    return value if ready else None


def _integer(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        raise TypeError
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, TirExpr | AnyDim):
        return value
    raise TypeError


def _number(value: Any) -> Any:
    if isinstance(value, TirExpr | AnyDim):
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real | np.generic):
        raise TypeError
    return value.item() if isinstance(value, np.generic) else value


def _flag(value: Any) -> bool:
    if isinstance(value, bool | np.bool_) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise TypeError


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return str(value)


def _dtype(value: Any) -> str:
    return "" if isinstance(value, str) and not value else str(DType(value))


def _tuple_of(take: Callable[[Any], Any], count: int | None = None) -> Callable[[Any], tuple[Any, ...]]:
    def take_all(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
            raise TypeError
        taken = tuple([take(item) for item in value])
        if count is not None and len(taken) != count:
            raise ValueError
        return taken

    return take_all


_several = _tuple_of(_integer)


def _values(value: Any) -> Any:
    """A constant of the graph as what it holds."""
    data = getattr(value, "data", None)
    return data.tolist() if isinstance(data, np.ndarray) and not isinstance(value, np.ndarray) else value


def _knob(value: Any) -> tuple[str, int]:
    name, chosen = value
    return _text(name), int(_integer(chosen))


def _integers(value: Any) -> Any:
    """One integer or a tuple of them."""
    return _several(value) if isinstance(value, Sequence | np.ndarray) else _integer(value)


# ---------------------------------------------------------------------------------------------------------- calls
def complete(name: str, schema: Schema | None, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of a call of the operator `name`: those `given` and the defaults of the others, in order.

    Raises TypeMismatchError where the operator has no attribute of a name, takes no such value, or needs one that is
    not given. An operator without a schema takes any.
    """
    if schema is None:
        return given
    for attribute in given:
        if attribute not in schema:
            raise TypeMismatchError(f"{name} has no attribute {attribute!r}{_known(attribute, schema)}")
    return {
        attribute: _taken(name, attribute, declared, given)
        for attribute, declared in schema.items()
        if attribute in given or declared.default is not ABSENT
    }


def _taken(name: str, attribute: str, declared: Attribute, given: Mapping[str, Any]) -> Any:
    if attribute not in given:
        if declared.is_required:
            raise TypeMismatchError(f"{name} needs the attribute {attribute!r}, {declared.kind}")
        return declared.default
    value = given[attribute]
    if type(value) is declared.exact:
        return value
    try:
        return declared.take(_values(value))
    except (TypeError, ValueError, TypeMismatchError):
        raise TypeMismatchError(f"{name}: the attribute {attribute!r} is {declared.kind}, not {value!r}") from None


def _known(attribute: str, schema: Schema) -> str:
    return suggestion(attribute, schema) if schema else "; it has none"
