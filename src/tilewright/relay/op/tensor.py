"""Element-wise operators: of one tensor, of two with broadcasting, and constructors of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import topi
from tilewright.errors import TypeMismatchError
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, Precision, TypeRule, register
from tilewright.relay.ir.type import Dim, TensorType, Type
from tilewright.relay.op import layout_rules
from tilewright.relay.op.common import (
    Types,
    broadcast_shapes,
    call,
    one,
    require,
    require_number,
    require_same_dtype,
    same_as_float_input,
    same_as_input,
    tensor,
    tensors,
    to_bool,
    with_attrs,
)
from tilewright.support.named import named
from tilewright.tir import op as tir_op
from tilewright.tir.expr import Expr as TirExpr
from tilewright.topi.elemwise import bounds
from tilewright.topi.reference import math as ref
from tilewright.topi.shapes import simplified


# --------------------------------------------------------------------------------------------------- one tensor
def _numeric_input(types: Types, _attrs: Attrs) -> Type:
    first = tensor(types[0])
    require_number(first)
    return first


def _bool_input(types: Types, _attrs: Attrs) -> Type:
    first = tensor(types[0])
    require(first.dtype.is_bool, f"it needs a bool tensor, not {first.dtype}; cast it first")
    return first


def _int_input(types: Types, _attrs: Attrs) -> Type:
    first = tensor(types[0])
    require(first.dtype.is_int, f"it needs an integer tensor, not {first.dtype}; cast it first")
    return first


def _float_to_bool(types: Types, attrs: Attrs) -> Type:
    return to_bool([same_as_float_input(types, attrs)], attrs)


def _unary(name: str, reference: Callable[[Any], Any], type_rule: TypeRule = same_as_float_input, **fields: Any) -> Any:
    """Register the element-wise operator `name` of one tensor, and return its builder; further `fields` of `Op`."""
    register(
        name,
        num_inputs=1,
        type_rule=type_rule,
        compute=one(getattr(topi, name)),
        pattern=OpPattern.ELEMWISE,
        reference=lambda _attrs, x: reference(x),
        layout=layout_rules.follow_input,
        **fields,
    )

    def build(data: Expr) -> Call:
        return call(name, data)

    return named(build, name, getattr(topi, name).__doc__)


negative = _unary("negative", np.negative, _numeric_input, involution=True, precision=Precision.FOLLOW)
abs = _unary("abs", np.abs, _numeric_input, idempotent=True, precision=Precision.FOLLOW)
sign = _unary("sign", np.sign, _numeric_input)
exp = _unary("exp", np.exp, costly=True, precision=Precision.NEVER, fast="fast_exp")
log = _unary("log", np.log, costly=True, precision=Precision.NEVER)
sqrt = _unary("sqrt", np.sqrt, precision=Precision.NEVER)
rsqrt = _unary("rsqrt", lambda x: (1 / np.sqrt(ref.at_least_float32(x))).astype(x.dtype), precision=Precision.NEVER)
tanh = _unary("tanh", np.tanh, costly=True, precision=Precision.FOLLOW, fast="fast_tanh")
sigmoid = _unary("sigmoid", ref.sigmoid, costly=True, precision=Precision.FOLLOW)
erf = _unary("erf", ref.erf, costly=True, precision=Precision.NEVER, fast="fast_erf")
sin = _unary("sin", np.sin, costly=True)
cos = _unary("cos", np.cos, costly=True)
tan = _unary("tan", np.tan, costly=True)
floor = _unary("floor", np.floor, idempotent=True)
ceil = _unary("ceil", np.ceil, idempotent=True)
trunc = _unary("trunc", np.trunc)
round = _unary("round", np.rint)
logical_not = _unary("logical_not", np.logical_not, _bool_input, involution=True)
bitwise_not = _unary("bitwise_not", np.invert, _int_input)
isnan = _unary("isnan", np.isnan, _float_to_bool)
isinf = _unary("isinf", np.isinf, _float_to_bool)
isfinite = _unary("isfinite", np.isfinite, _float_to_bool)

register(
    "copy",
    num_inputs=1,
    type_rule=same_as_input,
    compute=one(topi.identity),
    pattern=OpPattern.ELEMWISE,
    reference=lambda _attrs, x: x,
    layout=layout_rules.follow_input,
    precision=Precision.FOLLOW,
)


def copy(data: Expr) -> Call:
    """`data` in memory of its own."""
    return call("copy", data)


def _clip_reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    low, high = bounds(TensorType((), x.dtype).dtype, attrs["a_min"], attrs["a_max"])
    return np.minimum(np.maximum(x, np.asarray(low, x.dtype)), np.asarray(high, x.dtype))


register(
    "clip",
    num_inputs=1,
    type_rule=_numeric_input,
    compute=with_attrs(topi.clip, "a_min", "a_max"),
    pattern=OpPattern.ELEMWISE,
    reference=_clip_reference,
    layout=layout_rules.follow_input,
    precision=Precision.FOLLOW,
    attrs_class="ClipAttrs",
    attributes={"a_min": attr.number(), "a_max": attr.number()},
)


def clip(data: Expr, a_min: float, a_max: float) -> Call:
    """`data` limited to [a_min, a_max]."""
    return call("clip", data, a_min=a_min, a_max=a_max)


register(
    "cast",
    num_inputs=1,
    type_rule=lambda types, attrs: TensorType(tensor(types[0]).shape, attrs["dtype"]),
    compute=with_attrs(topi.cast, "dtype"),
    pattern=OpPattern.ELEMWISE,
    reference=lambda attrs, x: ref.cast(x, TensorType((), attrs["dtype"]).dtype.numpy),
    layout=layout_rules.follow_input,
    precision=Precision.NEVER,
    identity_on_same_type=True,
    attrs_class="CastAttrs",
    attributes={"dtype": attr.dtype()},
)


def cast(data: Expr, dtype: str) -> Call:
    """`data` converted to `dtype`; float to int rounds towards zero, anything to bool means != 0."""
    return call("cast", data, dtype=str(dtype))


# -------------------------------------------------------------------------------------------------- two tensors
def _broadcast_type(types: Types, kind: str, result: str | None) -> TensorType:
    operands = tensors(types)
    require_same_dtype(*operands)
    dtype = operands[0].dtype
    if kind == "bool":
        require(dtype.is_bool, f"it needs bool tensors, not {dtype}; cast them first")
    elif kind == "int":
        require(dtype.is_int, f"it needs integer tensors, not {dtype}; cast them first")
    elif kind == "number":
        require(not (dtype.is_bool or dtype.is_narrow), f"it needs numeric tensors, not {dtype}; cast them first")
    return TensorType(broadcast_shapes(*[t.shape for t in operands]), result or dtype)


def _binary(
    name: str, reference: Callable[[Any, Any], Any], kind: str = "number", result: str | None = None, **fields: Any
) -> Any:
    """Register the broadcasting operator `name` of two tensors of one `kind` of dtype, and return its builder."""
    register(
        name,
        num_inputs=2,
        type_rule=lambda types, _attrs: _broadcast_type(types, kind, result),
        compute=one(getattr(topi, name)),
        pattern=OpPattern.BROADCAST,
        reference=lambda _attrs, a, b: reference(a, b),
        layout=layout_rules.follow_broadcast,
        **fields,
    )

    def build(lhs: Any, rhs: Any) -> Call:
        return call(name, lhs, rhs)

    return named(build, name, getattr(topi, name).__doc__)


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if np.asarray(a).dtype.kind in "iu":
        return ref.integer_power(a, b)
    return np.power(a, b)


_FOLLOW: dict[str, Any] = {"precision": Precision.FOLLOW}
_COMMUTATIVE: dict[str, Any] = {"commutative": True}
_SYMMETRIC = {**_FOLLOW, **_COMMUTATIVE}

add = _binary("add", np.add, joins=True, associative=True, neutral=0, **_SYMMETRIC)
subtract = _binary("subtract", np.subtract, neutral=0, **_FOLLOW)
multiply = _binary("multiply", np.multiply, associative=True, neutral=1, absorbing=0, **_SYMMETRIC)
divide = _binary("divide", ref.trunc_divide, neutral=1, **_FOLLOW)
floor_divide = _binary("floor_divide", ref.floor_divide)
mod = _binary("mod", ref.trunc_mod)
floor_mod = _binary("floor_mod", ref.floor_mod)
power = _binary("power", _power, neutral=1, costly=True, precision=Precision.NEVER)
maximum = _binary("maximum", np.maximum, **_SYMMETRIC)
minimum = _binary("minimum", np.minimum, **_SYMMETRIC)
equal = _binary("equal", np.equal, "any", "bool", **_COMMUTATIVE)
not_equal = _binary("not_equal", np.not_equal, "any", "bool", **_COMMUTATIVE)
less = _binary("less", np.less, "number", "bool")
less_equal = _binary("less_equal", np.less_equal, "number", "bool")
greater = _binary("greater", np.greater, "number", "bool")
greater_equal = _binary("greater_equal", np.greater_equal, "number", "bool")
logical_and = _binary("logical_and", np.logical_and, "bool", **_COMMUTATIVE)
logical_or = _binary("logical_or", np.logical_or, "bool", **_COMMUTATIVE)
logical_xor = _binary("logical_xor", np.logical_xor, "bool", **_COMMUTATIVE)
bitwise_and = _binary("bitwise_and", np.bitwise_and, "int", **_COMMUTATIVE)
bitwise_or = _binary("bitwise_or", np.bitwise_or, "int", **_COMMUTATIVE)
bitwise_xor = _binary("bitwise_xor", np.bitwise_xor, "int", **_COMMUTATIVE)
left_shift = _binary("left_shift", np.left_shift, "int")
right_shift = _binary("right_shift", np.right_shift, "int")


# ------------------------------------------------------------------------------------------------ three tensors
def _where_type(types: Types, _attrs: Attrs) -> Type:
    condition, x, y = tensors(types)
    require(condition.dtype.is_bool, f"the condition must be bool, not {condition.dtype}; cast it first")
    require_same_dtype(x, y)
    return TensorType(broadcast_shapes(condition.shape, x.shape, y.shape), x.dtype)


register(
    "where",
    num_inputs=3,
    type_rule=_where_type,
    compute=one(topi.where),
    pattern=OpPattern.BROADCAST,
    reference=lambda _attrs, condition, x, y: np.where(condition, x, y),
    layout=layout_rules.follow_broadcast,
    precision=Precision.FOLLOW,
)


def where(condition: Expr, x: Any, y: Any) -> Call:
    """x where `condition` (bool) else y, all broadcast."""
    branches = call("maximum", x, y).args  # turns a Python number into a constant of the other branch's dtype
    return call("where", condition, *branches)


# ------------------------------------------------------------------------------------------------- constructors
register(
    "full",
    num_inputs=1,
    type_rule=lambda types, attrs: TensorType(attrs["shape"], attrs["dtype"] or tensor(types[0]).dtype),
    compute=lambda _attrs, inputs, out: [topi.full_from(out.shape, topi.cast(inputs[0], out.dtype))],  # type: ignore[attr-defined]
    pattern=OpPattern.BROADCAST,
    reference=lambda attrs, value: np.full(
        attrs["shape"], np.asarray(value).reshape(()), TensorType((), attrs["dtype"] or value.dtype).dtype.numpy
    ),
    precision=Precision.NEVER,
    attributes={"shape": attr.integers(), "dtype": attr.dtype("")},
)


def full(fill_value: Any, shape: Sequence[int], dtype: str = "") -> Call:
    """A tensor of `shape` filled with the scalar `fill_value`."""
    return call("full", fill_value, shape=shape, dtype=str(dtype))


def _register_constant(name: str, value: int) -> Any:
    register(
        name,
        num_inputs=0,
        type_rule=lambda _types, attrs: TensorType(attrs["shape"], attrs["dtype"]),
        compute=lambda attrs, _inputs, _out: [topi.full(attrs["shape"], attrs["dtype"], value)],
        pattern=OpPattern.ELEMWISE,
        reference=lambda attrs: np.full(attrs["shape"], value, TensorType((), attrs["dtype"]).dtype.numpy),
        attributes={"shape": attr.integers(), "dtype": attr.dtype("float32")},
        fill=value,
    )

    def build(shape: Sequence[int], dtype: str = "float32") -> Call:
        return call(name, shape=shape, dtype=str(dtype))

    return named(build, name, f"A tensor of `shape` filled with {value}.")


zeros = _register_constant("zeros", 0)
ones = _register_constant("ones", 1)


def _register_like(name: str, value: int) -> Any:
    register(
        name,
        num_inputs=1,
        type_rule=same_as_input,
        compute=lambda _attrs, inputs, _out: [topi.full_like(inputs[0], value)],
        pattern=OpPattern.ELEMWISE,
        reference=lambda _attrs, x: np.full(x.shape, value, x.dtype),
        precision=Precision.FOLLOW,
        fill=value,
    )

    def build(data: Expr) -> Call:
        return call(name, data)

    return named(build, name, f"A tensor of the type of `data` filled with {value}.")


zeros_like = _register_like("zeros_like", 0)
ones_like = _register_like("ones_like", 1)


def _count(attrs: Attrs) -> Dim:
    """The number of steps; a symbolic bound has whole, rising steps."""
    if attrs["step"] == 0:
        raise TypeMismatchError("the step must not be 0")
    span = attrs["stop"] - attrs["start"]
    if isinstance(span, TirExpr):
        return simplified(tir_op.maximum((span + attrs["step"] - 1) // attrs["step"], 0))
    return max(0, int(np.ceil(span / attrs["step"])))


def _arange_reference(attrs: Attrs) -> np.ndarray:
    dtype = TensorType((), attrs["dtype"]).dtype.numpy
    steps = np.arange(_count(attrs), dtype=np.int64).astype(dtype)
    return (np.asarray(attrs["start"], dtype) + steps * np.asarray(attrs["step"], dtype)).astype(dtype)


register(
    "arange",
    num_inputs=0,
    type_rule=lambda _types, attrs: TensorType((_count(attrs),), attrs["dtype"]),
    compute=lambda attrs, _inputs, _out: [topi.arange(attrs["start"], _count(attrs), attrs["step"], attrs["dtype"])],
    pattern=OpPattern.INJECTIVE,
    reference=_arange_reference,
    precision=Precision.NEVER,
    attributes={"start": attr.number(), "stop": attr.number(), "step": attr.number(1), "dtype": attr.dtype("float32")},
)


def arange(start: float, stop: float | None = None, step: float = 1, dtype: str = "float32") -> Call:
    """start, start + step, … below `stop`; with one argument from 0 up to it."""
    first, last = (0, start) if stop is None else (start, stop)
    return call("arange", start=first, stop=last, step=step, dtype=str(dtype))
