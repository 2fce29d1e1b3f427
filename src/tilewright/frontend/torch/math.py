"""Elementwise arithmetic and comparisons, in the element type of the result by torch's rules of promotion."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from tilewright.frontend.builders import functions
from tilewright.frontend.idioms import cast, constant, full, like
from tilewright.frontend.signature import Typed
from tilewright.frontend.torch.build import element_type
from tilewright.frontend.torch.computing import has_value, in_computing_type, operands
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.op.host import gcd
from tilewright.relay.op.qnn.quantize import limited
from tilewright.support.dtype import DType

_UNARY: dict[str, Callable[[Expr], Expr]] = {
    "aten.abs": op.abs, "aten.neg": op.negative, "aten._neg_view": op.negative, "aten.sgn": lambda x: _sign(x),
    "aten.sign": lambda x: _sign(x), "aten.exp": op.exp, "aten.expm1": op.expm1, "aten.log": op.log,
    "aten.log2": op.log2, "aten.log10": op.log10, "aten.log1p": op.log1p, "aten.sqrt": op.sqrt, "aten.rsqrt": op.rsqrt,
    "aten.erf": op.erf, "aten.erfc": op.erfc, "aten.special_erfc": op.erfc, "aten.sin": op.sin, "aten.cos": op.cos,
    "aten.tan": op.tan, "aten.asin": op.asin, "aten.acos": op.acos, "aten.atan": op.atan, "aten.sinh": op.sinh,
    "aten.cosh": op.cosh, "aten.tanh": op.tanh, "aten.asinh": op.asinh, "aten.acosh": op.acosh,
    "aten.atanh": op.atanh, "aten.sigmoid": op.sigmoid, "aten.special_expit": op.sigmoid,
}  # fmt: skip

_ROUNDING: dict[str, Callable[[Expr], Expr]] = {
    "aten.floor": op.floor, "aten.ceil": op.ceil, "aten.trunc": op.trunc, "aten.fix": op.trunc,
    "aten.round": op.round,
}  # fmt: skip

converts.typed({
    "aten.frac": lambda x: x - op.trunc(x), "aten.reciprocal": lambda x: 1 / x, "aten.square": lambda x: x * x,
    "aten.exp2 aten.special_exp2": lambda x: op.power(2, x), "aten.deg2rad": lambda x: x * (math.pi / 180),
    "aten.rad2deg": lambda x: x * (180 / math.pi), "aten.sinc aten.special_sinc": functions.sinc,
    "aten.ldexp": lambda x, y: op.power(2, y) * x, "prims.fma": lambda a, b, c: a * b + c,
    "aten.angle": lambda x: op.where(op.isnan(x), x, op.where(x < 0, like(math.pi, x), like(0, x))),
})  # fmt: skip


@converts(*_UNARY)
def convert_unary(node: TorchNode, data: Typed) -> Expr:
    """Functions that Relay has under another name; integers become floats where the result is one."""
    if node.dtype.is_bool or (node.dtype.code == "uint" and "neg" not in node.target and "si" in node.target):
        return data
    return _UNARY[node.target.rpartition(".")[0]](data)


def _sign(data: Expr) -> Expr:
    """-1, 0 or 1; 0 of a zero with either sign and of NaN."""
    kind = element_type(data)
    if not kind.is_float:
        return op.sign(data)
    zero = like(0, data)
    return cast(data > zero, kind) - cast(data < zero, kind)


@converts(*_ROUNDING)
def convert_rounding(node: TorchNode, data: Typed) -> Expr:
    """Rounding to whole numbers, which integers are; `decimals` of round are of a decimal fraction."""
    if not node.dtype.is_float:
        return data
    decimals = node.get("decimals", 0)
    if not decimals:
        return _ROUNDING[node.target.rpartition(".")[0]](data)
    scale = like(10.0 ** abs(decimals), data)
    up, down = (op.multiply, op.divide) if decimals > 0 else (op.divide, op.multiply)
    return down(op.round(up(data, scale)), scale)


@converts("aten.signbit")
def convert_signbit(node: TorchNode, data: Expr) -> Expr:
    """True where the sign is negative, that of -0 too."""
    dtype = element_type(data)
    if not dtype.is_float:
        return full(False, node.shape, "bool") if dtype.is_bool else data < 0
    wide = cast(data, "float32") if dtype.bits < 32 else data
    bits = op.reinterpret(wide, dtype=f"int{element_type(wide).bits}")
    return bits < 0


# Binary operators


@converts("aten.add", "aten.sub", "aten.subtract", "aten.rsub")
def convert_add(node: TorchNode, alpha: Any = 1) -> Expr:
    """self ± alpha * other; of truth values either, or one but not the other."""
    minus = "sub" in node.target
    if node.dtype.is_bool:
        left, right = operands(node)
        return op.logical_xor(left, right) if minus else op.logical_or(left, right) if alpha else left

    def compute(left: Expr, right: Expr) -> Expr:
        if "rsub" in node.target:
            left, right = right, left
        if alpha != 1:
            right = right * cast(node.as_tensor(alpha), element_type(right))
        return left - right if minus else left + right

    return in_computing_type(node, compute, alpha != 1, rounded=True)


@converts("aten.div", "aten.divide", "aten.true_divide")
def convert_div(node: TorchNode, rounding_mode: Any = None) -> Expr:
    """The true quotient, or rounded down or toward zero; integers are floats before they are divided truly."""
    if rounding_mode == "floor":
        return in_computing_type(node, _floor_divide)
    precise = not has_value(node["other"], node.dtype)
    if rounding_mode == "trunc" and node.dtype.is_float:
        return in_computing_type(node, lambda left, right: op.trunc(left / right), precise)
    return in_computing_type(node, op.divide, precise)


def _floor_divide(left: Expr, right: Expr) -> Expr:
    """Of floats by way of the remainder, as torch and Python do, for a quotient may round up to a whole number."""
    if not element_type(left).is_float:
        return op.floor_divide(left, right)
    zero, half, one = like(0, left), like(0.5, left), like(1, left)
    remainder = op.mod(left, right)
    quotient = (left - remainder) / right
    opposite = op.logical_and(op.not_equal(remainder, zero), op.not_equal(right < zero, remainder < zero))
    quotient = op.where(opposite, quotient - one, quotient)
    down = op.floor(quotient)
    near = op.where(quotient - down > half, down + one, down)
    nothing = zero * (left / right)
    made = op.where(op.equal(quotient, zero), nothing, near)
    return op.where(op.equal(right, zero), left / right, made)


converts.functions({
    "aten.mul aten.multiply": lambda node: (
        op.logical_and(*operands(node)) if node.dtype.is_bool
        else in_computing_type(node, op.multiply, not has_value(node["other"], node.dtype))
    ),
    "aten.floor_divide": lambda node: in_computing_type(node, _floor_divide),
    "aten.remainder": lambda node: in_computing_type(
        node, functions.remainder if node.dtype.is_float else op.floor_mod, rounded=True
    ),
    "aten.fmod": lambda node: in_computing_type(node, op.mod, rounded=True),
    "aten.atan2 aten.arctan2": lambda node: in_computing_type(node, functions.atan2),
    "aten.hypot": lambda node: in_computing_type(node, functions.hypot),
})  # fmt: skip


@converts("aten.gcd", "aten.lcm")
def convert_common_divisor(node: TorchNode) -> Expr:
    """The greatest common divisor, of two zeros 0; or the least common multiple, of a zero 0."""
    a, b = (op.broadcast_to(node.tensor(name), shape=node.shape) for name in ("self", "other"))
    found: Expr = gcd(a, b)
    if "gcd" in node.target:
        return found
    return op.abs(op.floor_divide(a, op.maximum(found, 1)) * b)


@converts("aten.pow", "aten.float_power")
def convert_pow(node: TorchNode, base: Typed, exponent: Any) -> Expr:
    """self ** exponent; small constant exponents become products and roots."""
    if isinstance(exponent, Expr):
        return op.power(base, node.as_tensor(exponent))
    if exponent in (0, 1, 2, 3):
        return power_of(base, int(exponent)) if exponent else full(1, node.shape, node.dtype)
    if exponent in (0.5, -0.5) and node.dtype.is_float:
        return op.sqrt(base) if exponent > 0 else op.rsqrt(base)
    return op.power(base, node.as_tensor(exponent))


def power_of(base: Expr, exponent: int) -> Expr:
    """`base` multiplied with itself."""
    return reduce(op.multiply, [base] * exponent)


@converts("aten.maximum", "aten.minimum", "aten.max.other", "aten.min.other")
def convert_extremum(node: TorchNode) -> Expr:
    """The larger or smaller of two; NaN where one is."""
    return extremum(operands(node), "max" in node.target)


def extremum(pair: tuple[Expr, Expr], largest: bool) -> Expr:
    """The larger or smaller of two, of truth values either or both."""
    if element_type(pair[0]).is_bool:
        return (op.logical_or if largest else op.logical_and)(*pair)
    chosen = (op.maximum if largest else op.minimum)(*pair)
    if not element_type(pair[0]).is_float:
        return chosen
    return op.where(op.isnan(pair[0]), pair[0], op.where(op.isnan(pair[1]), pair[1], chosen))


@converts("aten.fmax", "aten.fmin")
def convert_fmax(node: TorchNode) -> Expr:
    """The larger or smaller of two; the other one where one is NaN."""
    left, right = operands(node)
    chosen = extremum((left, right), "fmax" in node.target)
    if not node.dtype.is_float:
        return chosen
    return op.where(op.isnan(left), right, op.where(op.isnan(right), left, chosen))


@converts("aten.clamp", "aten.clip", "aten.clamp_min", "aten.clamp_max")
def convert_clamp(node: TorchNode, data: Typed) -> Expr:
    """At least `min`, at most `max`: numbers, tensors, or absent."""
    low, high = node.get("min"), node.get("max")
    numbers = isinstance(low, int | float) and isinstance(high, int | float)
    if numbers and node.dtype.is_float and -math.inf < low <= high < math.inf:
        return op.clip(data, a_min=float(low), a_max=float(high))
    if low is not None:
        data = _bounded(data, node.as_tensor(low), low, True)
    return data if high is None else _bounded(data, node.as_tensor(high), high, False)


def _bounded(data: Expr, bound: Expr, given: Any, lower: bool) -> Expr:
    if isinstance(given, Expr):
        return extremum((data, bound), lower)
    return op.maximum(data, bound) if lower else op.minimum(data, bound)


@converts("aten.copysign")
def convert_copysign(node: TorchNode) -> Expr:
    left, right = operands(node)
    wide = cast(right, "float32") if node.dtype.bits < 32 else right
    bits = op.reinterpret(wide, dtype=f"int{element_type(wide).bits}")
    size = op.abs(left)
    return op.where(bits < 0, -size, size)


@converts("aten.heaviside")
def convert_heaviside(data: Typed, values: Typed) -> Expr:
    """0 below zero, 1 above, `values` at zero."""
    return op.where(op.equal(data, 0), values, cast(data > 0, element_type(data)))


@converts("aten.xlogy", "aten.special_xlogy", "aten.special_xlog1py")
def convert_xlogy(node: TorchNode) -> Expr:
    """self * log(other), 0 where self is; NaN where other is."""
    left, right = operands(node)
    product = left * (op.log1p if "1p" in node.target else op.log)(right)
    zero = op.logical_and(op.equal(left, 0), op.logical_not(op.isnan(right)))
    return op.where(zero, 0, product)


@converts("aten.logaddexp", "aten.logaddexp2")
def convert_logaddexp(node: TorchNode) -> Expr:
    """log(exp(self) + exp(other)), the larger one taken out first."""
    left, right = operands(node)
    of_two = "logaddexp2" in node.target
    largest = op.maximum(left, right)
    distance = -op.abs(left - right)
    power = op.power(2, distance) if of_two else op.exp(distance)
    excess = op.log1p(power)
    if of_two:
        excess = excess * (1 / math.log(2))
    same = op.logical_and(op.equal(left, right), op.isinf(left))
    return op.where(same, left, largest + excess)


@converts("aten.lerp")
def convert_lerp(start: Typed, end: Typed, weight: Typed) -> Expr:
    """self + weight * (end - self), from the nearer end."""
    distance = end - start
    return op.where(op.abs(weight) < 0.5, start + weight * distance, end - distance * (1 - weight))


@converts("aten.addcmul", "aten.addcdiv")
def convert_addcmul(node: TorchNode, tensor1: Typed, tensor2: Typed, value: Any) -> Expr:
    scaled = node.as_tensor(value) * tensor1
    term = scaled * tensor2 if "mul" in node.target else scaled / tensor2
    return node.tensor("self") + term


@converts("aten.logit", "aten.special_logit")
def convert_logit(data: Typed, eps: Any = None) -> Expr:
    """log(x / (1 - x)), x kept `eps` away from both ends where that is given."""
    if eps is not None:
        data = op.minimum(op.maximum(data, eps), 1 - eps)
    return op.log(data / (1 - data))


@converts("aten.nan_to_num")
def convert_nan_to_num(node: TorchNode, data: Typed, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Expr:
    """Numbers in place of NaN and of both infinities."""
    if not node.dtype.is_float:
        return data
    low, high = node.dtype.finite_limits()
    replaced = op.where(op.isnan(data), like(nan or 0.0, data), data)
    for infinity, given, default in ((math.inf, posinf, high), (-math.inf, neginf, low)):
        number = like(default if given is None else given, data)
        replaced = op.where(op.equal(data, like(infinity, data)), number, replaced)
    return replaced


@converts("aten._to_copy", "aten.to", "aten.type_as", "prims.convert_element_type")
def convert_to(node: TorchNode) -> Expr:
    """Another element type."""
    return to_type(node["a" if "prims" in node.target else "self"], node.dtype)


def to_type(data: Expr, dtype: Any) -> Expr:
    """`data` in `dtype`, numbers other than 0 as true."""
    if str(dtype) == "bool" and not element_type(data).is_bool:
        return op.not_equal(data, 0)
    if str(dtype) == "float8_e4m3fn" and element_type(data) != dtype:
        return op.cast(limited(cast(data, "float32"), DType(dtype)), dtype=str(dtype))
    return cast(data, dtype)


@converts("aten.cross", "aten.linalg_cross")
def convert_cross(node: TorchNode, dim: Any = -1) -> Expr:
    left, right = operands(node)
    shape = node.shape
    left, right = op.broadcast_to(left, shape=shape), op.broadcast_to(right, shape=shape)
    given = dim
    axis = list(shape).index(3) if given is None else node.axis(given, len(shape))
    order = (constant([1, 2, 0], "int64"), constant([2, 0, 1], "int64"))
    taken = [[op.take(value, positions, axis=axis) for positions in order] for value in (left, right)]
    return taken[0][0] * taken[1][1] - taken[0][1] * taken[1][0]


@converts("aten.frexp")
def convert_frexp(node: TorchNode, data: Expr) -> list[Expr]:
    wide = cast(data, "float64")
    zero, half, one = like(0, wide), like(0.5, wide), like(1, wide)
    plain = op.logical_and(op.isfinite(wide), op.not_equal(wide, zero))
    safe = op.where(plain, wide, one)
    power = op.floor(op.log2(op.abs(safe))) + one
    mantissa = safe / op.power(2, power)
    large, small = op.abs(mantissa) >= one, op.abs(mantissa) < half
    mantissa = op.where(large, mantissa * half, op.where(small, mantissa + mantissa, mantissa))
    power = op.where(large, power + one, op.where(small, power - one, power))
    return [cast(op.where(plain, mantissa, wide), node.dtype_at(0)), cast(op.where(plain, power, zero), "int32")]


@converts("aten.nextafter")
def convert_nextafter(node: TorchNode) -> Expr:
    left, right = operands(node)
    if node.dtype.bits < 32:
        node.unsupported(f"the type {node.dtype}")
    bits_type = f"int{node.dtype.bits}"
    bits = op.reinterpret(left, dtype=bits_type)
    one, zero = like(1, bits), like(0, left)
    outward = op.equal(right > left, left > zero)
    moved = op.reinterpret(op.where(outward, bits + one, bits - one), dtype=str(node.dtype))
    least = op.reinterpret(one, dtype=str(node.dtype))
    start = op.where(right > zero, least, -least)
    found = op.where(op.equal(left, zero), start, moved)
    found = op.where(op.equal(left, right), right, found)
    return op.where(op.logical_or(op.isnan(left), op.isnan(right)), left + right, found)


# ----------------------------------------------------------------------------------------- Comparisons and truth values
_COMPARISONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "aten.eq": op.equal, "aten.ne": op.not_equal, "aten.not_equal": op.not_equal, "aten.lt": op.less,
    "aten.less": op.less, "aten.le": op.less_equal, "aten.less_equal": op.less_equal, "aten.gt": op.greater,
    "aten.greater": op.greater, "aten.ge": op.greater_equal, "aten.greater_equal": op.greater_equal,
}  # fmt: skip


@converts(*_COMPARISONS)
def convert_comparison(node: TorchNode) -> Expr:
    """Two values compared in the type that both are promoted to."""
    dtype = node.common_type("self", "other")
    left, right = node.tensor("self", dtype), node.tensor("other", dtype)
    if dtype.is_bool:
        left, right = cast(left, "uint8"), cast(right, "uint8")
    return _COMPARISONS[node.target.rpartition(".")[0]](left, right)


def _bits(of_truth: Callable[..., Expr], of_bits: Callable[..., Expr], node: TorchNode) -> Expr:
    """A function of truth values or of bits, as the result is."""
    return (of_truth if node.dtype.is_bool else of_bits)(*operands(node))


def _logic(function: Callable[..., Expr], node: TorchNode) -> Expr:
    """A function of truth values, as which numbers other than 0 are true."""
    return function(*(to_type(node[name], "bool") for name in ("self", "other")))


converts.functions({
    "aten.logical_and": partial(_logic, op.logical_and), "aten.logical_or": partial(_logic, op.logical_or),
    "aten.logical_xor": partial(_logic, op.logical_xor),
    "aten.bitwise_and aten.__and__": partial(_bits, op.logical_and, op.bitwise_and),
    "aten.bitwise_or aten.__or__": partial(_bits, op.logical_or, op.bitwise_or),
    "aten.bitwise_xor aten.__xor__": partial(_bits, op.logical_xor, op.bitwise_xor),
    "aten.logical_not": lambda node: op.logical_not(to_type(node["self"], "bool")),
    "aten.isreal": lambda node: full(True, node.shape, "bool"),
    "aten.masked_fill": lambda node: op.where(node["mask"], node.tensor("value"), node.tensor("self")),
})  # fmt: skip
converts.typed({
    "aten.bitwise_not": lambda x: (op.logical_not if element_type(x).is_bool else op.bitwise_not)(x),
    "aten.bitwise_left_shift aten.__lshift__": lambda x, y: functions.shifted_bits(x, y, True),
    "aten.bitwise_right_shift aten.__rshift__": lambda x, y: functions.shifted_bits(x, y, False),
})  # fmt: skip


@converts("aten.isnan", "aten.isinf", "aten.isfinite", "aten.isposinf", "aten.isneginf")
def convert_is(node: TorchNode, data: Expr) -> Expr:
    """The test of each element's kind of number; integers are finite."""
    name = node.target.split(".")[1]
    if not element_type(data).is_float:
        return full(name == "isfinite", node.shape, "bool")
    if name in ("isnan", "isfinite", "isinf"):
        return {"isnan": op.isnan, "isfinite": op.isfinite, "isinf": op.isinf}[name](data)
    return op.logical_and(op.isinf(data), data > 0 if name == "isposinf" else data < 0)


@converts("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def convert_where(node: TorchNode, condition: Expr, other: Typed) -> Expr:
    return op.where(to_type(condition, "bool"), node.tensor("self"), other)


@converts("aten.isclose")
def convert_isclose(node: TorchNode) -> Expr:
    dtype = node.common_type("self", "other")
    if dtype.is_bool:
        dtype_name = "uint8"
        return op.equal(cast(node["self"], dtype_name), cast(node["other"], dtype_name))
    left, right = node.tensor("self", dtype), node.tensor("other", dtype)
    if not dtype.is_float:
        left, right = cast(left, "float64"), cast(right, "float64")
    return functions.close(left, right, node["rtol"], node["atol"], node["equal_nan"])
