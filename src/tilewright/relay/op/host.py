"""Operators that run on the host: their result's shape depends on data, or their values are sequences or strings.

    register_host("nonzero", num_inputs=1, type_rule=nonzero_type)

What they do is the NumPy function of the same name in `tilewright.runtime.host_ops`, which the virtual machine calls.
Attributes must be plain data, as they are kept in the artifact.
"""

from __future__ import annotations

import typing

import numpy as np

from tilewright.errors import InternalError
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr
from tilewright.relay.ir.registry import Op, OpPattern, TypeRule, register
from tilewright.relay.ir.type import LIST, Any, TensorType, Type, TypeCall
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op.common import Types, call, check_axis, require, tensor
from tilewright.runtime import host_ops


def register_host(name: str, *, num_inputs: int, type_rule: TypeRule, **fields: typing.Any) -> Op:
    """Enter the host operator `name`; `fields` are further ones of `Op`.

    An internal error where `runtime.host_ops` has no function of that name.
    """
    function = host_ops.HOST_OPS.get(name)
    if function is None:
        raise InternalError(f"there is no host operator {name!r}; declare it in tilewright.runtime.host_ops")
    return register(
        name,
        num_inputs=num_inputs,
        type_rule=type_rule,
        pattern=OpPattern.OPAQUE,
        reference=lambda attrs, *values: function(plain_attrs(attrs), *values),
        data_dependent=True,
        **fields,
    )


def plain_attrs(attrs: Attrs) -> dict[str, typing.Any]:
    """Attributes as JSON keeps them: tuples become lists, dimensions that are no integers None, types their text."""
    return {key: _plain(value) for key, value in attrs.items()}


def _plain(value: typing.Any) -> typing.Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Attrs):
        return plain_attrs(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value) if isinstance(value, str | Type) else None


def _stack_type(types: Types, attrs: Attrs) -> Type:
    element = element_of(types[0])
    at = check_axis(attrs["axis"], element.ndim + 1)
    length = Any() if attrs["length"] is None else attrs["length"]
    return TensorType((*element.shape[:at], length, *element.shape[at:]), element.dtype)


def element_of(type_: Type) -> TensorType:
    """The tensors that a list holds. Raises TypeMismatchError for anything but a list of tensors."""
    require(isinstance(type_, TypeCall) and type_.func == LIST, f"a list is needed, not {type_}")
    assert isinstance(type_, TypeCall)
    return tensor(type_.args[0])


register_host(
    "list.empty",
    num_inputs=0,
    type_rule=lambda _types, attrs: TypeCall(LIST, (attrs["element"],)),
    attributes={
        "element": attr.anything(),
        "most": attr.optional(attr.integer()),
        "shape": attr.optional(attr.integers()),
        "dtype": attr.dtype(""),
    },
)
register_host("list.push", num_inputs=2, type_rule=lambda types, _attrs: types[0])
register_host(
    "list.stack",
    num_inputs=1,
    type_rule=_stack_type,
    attributes={
        "axis": attr.integer(0),
        "shape": attr.integers(),
        "dtype": attr.dtype(),
        "length": attr.optional(attr.integer()),
    },
)


def _constant_shape(call: Call) -> Expr | None:
    """The shape of a tensor whose sizes are known."""
    type_ = type_of(call.args[0])
    if not isinstance(type_, TensorType) or not type_.is_static:
        return None
    return Constant(np.asarray(type_.shape, call.attrs.dtype or "int64"))


register_host(
    "shape_of",
    num_inputs=1,
    type_rule=lambda types, attrs: TensorType((tensor(types[0]).ndim,), attrs.get("dtype") or "int64"),
    attributes={"dtype": attr.dtype("int64")},
    static=_constant_shape,
    first_shape=1,
)


def _same_type(types: Types, _attrs: Attrs) -> Type:
    a, b = tensor(types[0]), tensor(types[1])
    require(
        a.dtype.is_int and a.dtype == b.dtype and a.shape == b.shape, f"two integers alike are needed, not {a}, {b}"
    )
    return a


register_host("gcd", num_inputs=2, type_rule=_same_type)


def gcd(a: Expr, b: Expr) -> Call:
    """The greatest common divisors of integers, which are not negative; of two zeros 0."""
    return call("gcd", a, b)


register_host(
    "check_indices",
    num_inputs=2,
    type_rule=lambda types, _attrs: types[0],
    attributes={
        "axes": attr.integers(),
        "coordinates": attr.flag(False),
        "from_back": attr.flag(True),
        "label": attr.text(""),
    },
)


def empty_list(element: Type, most: int | None = None) -> Call:
    """An empty list of `element`s; of no more than `most`, where that is known."""
    known = {"shape": element.shape, "dtype": str(element.dtype)} if isinstance(element, TensorType) else {}
    return call("list.empty", element=element, most=most, **known)


def push(elements: Expr, element: Expr) -> Call:
    """The list `elements` with `element` behind them."""
    return call("list.push", elements, element)


def stack_list(elements: Expr, element: TensorType, axis: int = 0, length: int | None = None) -> Call:
    """The elements of a list of `element`s as slices of one tensor along a new `axis`; none become an empty tensor.

    `length` is how many there are, where that is known.
    """
    return call("list.stack", elements, axis=axis, shape=element.shape, dtype=str(element.dtype), length=length)


def shape_of(data: Expr, dtype: str = "int64") -> Call:
    """The shape of `data` as a vector."""
    return call("shape_of", data, dtype=dtype)
