"""Further element-wise functions of one tensor: inverse and hyperbolic functions, fast variants, bits, fixed point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import te, tir
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import layout_rules
from tilewright.relay.op.common import Types, call, one, require, same_as_float_input, tensor
from tilewright.relay.op.composite import register_composite
from tilewright.relay.op.tensor import erf, exp, tanh
from tilewright.support.named import named
from tilewright.topi import trigonometry
from tilewright.topi.elemwise import unary
from tilewright.topi.reference import math as ref


def _unary(name: str, reference: Callable[[Any], Any]) -> Any:
    function = getattr(trigonometry, name)
    register(
        name,
        num_inputs=1,
        type_rule=same_as_float_input,
        compute=one(function),
        pattern=OpPattern.ELEMWISE,
        reference=lambda _attrs, x: reference(ref.at_least_float32(x)).astype(x.dtype),
        layout=layout_rules.follow_input,
        costly=True,
    )
    return named(lambda data: call(name, data), name, function.__doc__)


acos = _unary("acos", np.arccos)
acosh = _unary("acosh", np.arccosh)
asin = _unary("asin", np.arcsin)
asinh = _unary("asinh", np.arcsinh)
atan = _unary("atan", np.arctan)
atanh = _unary("atanh", np.arctanh)
cosh = _unary("cosh", np.cosh)
sinh = _unary("sinh", np.sinh)
expm1 = _unary("expm1", np.expm1)
log1p = _unary("log1p", np.log1p)
log2 = _unary("log2", np.log2)
log10 = _unary("log10", np.log10)
erfc = _unary("erfc", ref.erfc)


def _fast(name: str, exact: Callable[[Expr], Call], reference: Callable[[Any], Any]) -> Any:
    """The classic approximations; ours are polynomials of few terms anyway, so the exact operators replace them."""
    register_composite(
        f"fast_{name}",
        num_inputs=1,
        expansion=lambda args, _attrs: exact(args[0]),
        reference=lambda _attrs, x: reference(x),
        layout=layout_rules.follow_input,
    )
    return named(lambda data: call(f"fast_{name}", data), f"fast_{name}", f"`{name}`, which is fast enough here.")


fast_exp = _fast("exp", exp, np.exp)
fast_erf = _fast("erf", erf, ref.erf)
fast_tanh = _fast("tanh", tanh, np.tanh)


# ------------------------------------------------------------------------------------------------------ reinterpret
def _reinterpret_type(types: Types, attrs: Attrs) -> Type:
    data, wanted = tensor(types[0]), TensorType((), attrs["dtype"]).dtype
    same = data.dtype.itemsize == wanted.itemsize
    require(same, f"{data.dtype} and {wanted} differ in size; only types of equally many bits share them")
    return TensorType(data.shape, wanted)


register(
    "reinterpret",
    num_inputs=1,
    type_rule=_reinterpret_type,
    compute=lambda attrs, inputs, _out: [unary(inputs[0], lambda v: tir.reinterpret(attrs["dtype"], v), "reinterpret")],
    pattern=OpPattern.ELEMWISE,
    reference=lambda attrs, x: (
        np.ascontiguousarray(x).view(TensorType((), attrs["dtype"]).dtype.numpy).reshape(x.shape)
    ),
    layout=layout_rules.follow_input,
    attributes={"dtype": attr.dtype()},
)


def reinterpret(data: Expr, dtype: str) -> Call:
    """The bits of `data` read as `dtype`, of the same size."""
    return call("reinterpret", data, dtype=str(dtype))


# ------------------------------------------------------------------------------------------- fixed_point_multiply
def _fixed_point_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    require(data.dtype == "int32", f"it multiplies int32, not {data.dtype}; cast it first")
    require(-31 <= attrs["shift"] <= 31, f"shift={attrs['shift']}; -31 to 31 is possible")
    return data


def _fixed_point_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    """round(x * multiplier * 2^(shift - 31)) in int64, halves up."""
    shift = 31 - attrs["shift"]

    def scaled(v: Any) -> Any:
        wide = v.astype("int64") * tir.const(attrs["multiplier"], "int64")
        if shift == 0:
            return wide.astype("int32")
        rounded = wide + tir.const(1 << (shift - 1), "int64")
        return tir.call_intrin("int64", "shift_right", rounded, tir.const(shift, "int64")).astype("int32")

    return [unary(inputs[0], scaled, "fixed_point_multiply")]


def _fixed_point_reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    shift = 31 - attrs["shift"]
    wide = x.astype(np.int64) * attrs["multiplier"]
    return (((wide + (1 << (shift - 1))) >> shift) if shift else wide).astype(np.int32)


register(
    "fixed_point_multiply",
    num_inputs=1,
    type_rule=_fixed_point_type,
    compute=_fixed_point_compute,
    pattern=OpPattern.ELEMWISE,
    reference=_fixed_point_reference,
    layout=layout_rules.follow_input,
    attributes={"multiplier": attr.integer(), "shift": attr.integer()},
)


def fixed_point_multiply(data: Expr, multiplier: int, shift: int) -> Call:
    """int32 `data` times multiplier * 2^(shift - 31), rounded to nearest, halves up: scaling by a Q31 number."""
    return call("fixed_point_multiply", data, multiplier=multiplier, shift=shift)
