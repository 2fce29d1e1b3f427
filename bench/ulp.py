"""The largest error of each mathematical function over the whole range of each float type: `python bench/ulp.py`.

    python bench/ulp.py [--write] [--seed N] [--only NAME …]     (--write puts the table into docs/numerics.md)

Exact results are mpmath's; of the 16-bit types, and of two million further values of float32, those of float64. Of the
16-bit types all values are computed, of float32 and float64 some of every exponent and sign, what lies around zeros,
poles and the points where reductions turn, infinities and NaN. Each function is compiled as importers build it, for
three levels of x86-64 (with AVX-512, with AVX2 and fused multiply-adds, with neither), and its largest error of all is
what the table says, in units in the last place of the exact result.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import mpmath
import numpy as np

import tilewright as tw
from tilewright.frontend.builders import functions
from tilewright.frontend.torch import special
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Function, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.support.dtype import DType

PAGE = Path(__file__).parents[1] / "docs" / "numerics.md"
TYPES = ("float64", "float32", "float16", "bfloat16")
LEVELS = ("llvm -mcpu=x86-64-v4", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2")
BEGIN, END = "<!-- bench/ulp.py -->", "<!-- end of bench/ulp.py -->"
INF, NAN = mpmath.inf, mpmath.nan
#: Bits with which exact results are computed.
_PRECISION = 120


@dataclass(frozen=True)
class MathFunction:
    """A function: what importers build of its operands, its exact value, and what at ±inf and, as texts, at zeros."""

    build: Callable[..., Expr]
    exact: Callable[..., Any]
    at: dict[float | str, Any]
    arguments: int = 1
    odd: bool = False
    #: Built of several operators: importers compute it of 16-bit types in float32.
    composed: bool = False
    points: tuple[float, ...] = ()


def _log(x: Any, log: Callable[[Any], Any] = mpmath.log) -> Any:
    return log(x) if x > 0 else -INF if x == 0 else NAN


def _within(function: Callable[[Any], Any], low: float, high: float) -> Callable[[Any], Any]:
    return lambda x: function(x) if low <= x <= high else NAN


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def _softplus(x: Any) -> Any:
    return mpmath.log1p(mpmath.exp(x)) if x < 0 else x + mpmath.log1p(mpmath.exp(-x))


def _mish(x: Any) -> Any:
    if x > 1000:
        return x
    power = mpmath.exp(x)
    more = power * (power + 2)
    return x * more / (more + 2)


def _erfc(x: Any) -> Any:
    return mpmath.erfc(x) if abs(x) < 1000 else mpmath.mpf(0 if x > 0 else 2)


def _gelu_tanh(x: Any) -> Any:
    if abs(x) > 1000:
        return max(x, 0)
    return x * _sigmoid(2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf(44715) / 10**6 * x**3))


def _lgamma(x: Any) -> Any:
    if x <= 0 and x == mpmath.floor(x):
        return INF
    return mpmath.loggamma(x).real if x > 0 else mpmath.log(mpmath.pi / abs(mpmath.sinpi(x))) - mpmath.loggamma(1 - x)


def _digamma(x: Any) -> Any:
    return NAN if x <= 0 and x == mpmath.floor(x) else mpmath.digamma(x)


def _erfinv(x: Any) -> Any:
    if abs(x) >= 1:
        return INF * x if abs(x) == 1 else NAN
    if abs(x) < 1e-30:
        return x * mpmath.sqrt(mpmath.pi) / 2
    return mpmath.erfinv(x)


def _pow(x: Any, y: Any) -> Any:
    if x == 0 or mpmath.isinf(x) or mpmath.isinf(y) or x == 1 or (x < 0 and y != mpmath.floor(y)):
        return mpmath.mpf(math.pow(float(x), float(y))) if x >= 0 or y == mpmath.floor(y) else NAN
    size = abs(y * mpmath.log(abs(x))) if x != -1 else 0
    if size > 800:
        beyond = mpmath.mpf(10) ** (400 if y * mpmath.log(abs(x)) > 0 else -400)
    else:
        beyond = abs(x) ** y
    return -beyond if x < 0 and y % 2 == 1 else beyond


_TURNS = tuple(k * math.pi / 4 for k in (*range(1, 9), 163, 1001, 65535, 667544, 1335088))
FUNCTIONS: dict[str, MathFunction] = {
    "exp": MathFunction(op.exp, mpmath.exp, {-math.inf: 0}, points=(88.722839, -87.336544, -103.972084, -745.1)),
    "expm1": MathFunction(op.expm1, mpmath.expm1, {-math.inf: -1}, odd=True, points=(88.722839, -17.3, 0.34657)),
    "log": MathFunction(op.log, _log, {}, points=(1.0, 2 / 3, 4 / 3)),
    "log1p": MathFunction(
        op.log1p, lambda x: mpmath.log1p(x) if x > -1 else -INF if x == -1 else NAN, {}, odd=True, points=(-1.0, 1.0)
    ),
    "log2": MathFunction(op.log2, lambda x: _log(x, lambda v: mpmath.log(v, 2)), {}, points=(1.0, 2.0)),
    "log10": MathFunction(op.log10, lambda x: _log(x, mpmath.log10), {}, points=(1.0, 10.0)),
    "sqrt": MathFunction(op.sqrt, lambda x: mpmath.sqrt(x) if x >= 0 else NAN, {}, odd=True),
    "rsqrt": MathFunction(op.rsqrt, lambda x: 1 / mpmath.sqrt(x) if x >= 0 else NAN, {"0": INF, "-0": -INF}),
    "sin": MathFunction(op.sin, mpmath.sin, {math.inf: NAN, -math.inf: NAN}, odd=True, points=_TURNS),
    "cos": MathFunction(op.cos, mpmath.cos, {math.inf: NAN, -math.inf: NAN}, points=_TURNS),
    "tan": MathFunction(op.tan, mpmath.tan, {math.inf: NAN, -math.inf: NAN}, odd=True, points=_TURNS),
    "asin": MathFunction(op.asin, _within(mpmath.asin, -1, 1), {}, odd=True, points=(0.5, 1.0)),
    "acos": MathFunction(op.acos, _within(mpmath.acos, -1, 1), {}, points=(0.5, 1.0)),
    "atan": MathFunction(op.atan, mpmath.atan, {}, odd=True, points=(0.41421356, 2.41421356, 1.0)),
    "sinh": MathFunction(op.sinh, mpmath.sinh, {}, odd=True, points=(1.0, 89.4159, 710.4)),
    "cosh": MathFunction(op.cosh, mpmath.cosh, {}, points=(89.4159, 710.4)),
    "tanh": MathFunction(op.tanh, mpmath.tanh, {}, odd=True, points=(0.625, 9.02)),
    "asinh": MathFunction(op.asinh, mpmath.asinh, {}, odd=True, points=(0.5,)),
    "acosh": MathFunction(op.acosh, _within(mpmath.acosh, 1, math.inf), {}, points=(1.0,)),
    "atanh": MathFunction(
        op.atanh, lambda x: mpmath.atanh(x) if abs(x) < 1 else INF * x if abs(x) == 1 else NAN, {}, odd=True,
        points=(1.0, 2.0**-9),
    ),
    "erf": MathFunction(op.erf, mpmath.erf, {}, odd=True, points=(3.93, 5.9)),
    "erfc": MathFunction(op.erfc, _erfc, {}, points=(0.5, 10.05, 27.2)),
    "erfinv": MathFunction(functions.erfinv, _erfinv, {}, odd=True, composed=True, points=(0.5, 1.0)),
    "lgamma": MathFunction(
        special.log_gamma, _lgamma, {-math.inf: INF}, composed=True, points=tuple(range(-9, 12)),
    ),
    "digamma": MathFunction(
        special.digamma, _digamma, {-math.inf: NAN, "0": -INF, "-0": INF}, composed=True,
        points=(*range(-9, 0), 1, 1.4616321449683622),
    ),
    "sigmoid": MathFunction(op.sigmoid, _sigmoid, {-math.inf: 0}, points=(-87.336544, -103.972084, -708.4, -745.1)),
    "softplus": MathFunction(functions.softplus, _softplus, {-math.inf: 0}, composed=True, points=(-103.97,)),
    "log_sigmoid": MathFunction(functions.log_sigmoid, lambda x: -_softplus(-x), {math.inf: 0}, composed=True),
    "silu": MathFunction(op.nn.silu, lambda x: x * _sigmoid(x), {-math.inf: NAN}, odd=True, points=(-92.0, -108.5)),
    "mish": MathFunction(op.nn.mish, _mish, {-math.inf: NAN}, odd=True, points=(-92.0, -108.5, 10.0, 20.0)),
    "gelu": MathFunction(
        op.nn.gelu, lambda x: x * _erfc(-x / mpmath.sqrt(2)) / 2, {-math.inf: NAN}, odd=True, points=(-13, -14.4),
    ),
    "gelu_tanh": MathFunction(op.nn.gelu_tanh, _gelu_tanh, {-math.inf: NAN}, odd=True, points=(-10.0, -10.4)),
    "power": MathFunction(op.power, _pow, {}, 2),
    "atan2": MathFunction(functions.atan2, mpmath.atan2, {}, 2, composed=True),
    "hypot": MathFunction(functions.hypot, mpmath.hypot, {}, 2, composed=True),
}  # fmt: skip


@dataclass(frozen=True)
class Exact:
    """Exact results as (high + low) * 2**exponent, |high| in 1/2 … 1; NaN, infinities and zeros in `high` alone."""

    high: np.ndarray
    low: np.ndarray
    exponent: np.ndarray


def exact_values(function: MathFunction, operands: Sequence[np.ndarray]) -> Exact:
    """The exact results for each element of the operands."""
    rows = []
    with mpmath.workprec(_PRECISION), np.errstate(invalid="ignore"):
        for values in zip(*(operand.astype(np.float64).tolist() for operand in operands), strict=True):
            rows.append(_parts(_exact(function, values)))
    high, low, exponent = (np.array(column) for column in zip(*rows, strict=True))
    return Exact(high.astype(np.float64), low.astype(np.float64), exponent.astype(np.int64))


def _of_float64(name: str, operands: Sequence[np.ndarray]) -> Exact:
    """The results in float64 for each element: exact enough for 16 bits, and held against exact ones themselves."""
    with np.errstate(invalid="ignore"):
        found = compiled(name, "float64", operands[0].size, LEVELS[0])(*(side.astype(np.float64) for side in operands))
    high, exponent = np.frexp(found)
    return Exact(high, np.zeros_like(high), exponent.astype(np.int64))


def _exact(function: MathFunction, values: tuple[float, ...]) -> Any:
    if function.arguments == 1:
        (x,) = values
        if math.isnan(x):
            return NAN
        if math.isinf(x):
            limit = function.at.get(x)
            return limit if limit is not None else function.exact(mpmath.mpf(x))
        zero = function.at.get("-0" if math.copysign(1, x) < 0 else "0") if x == 0 else None
        return function.exact(mpmath.mpf(x)) if zero is None else zero
    if any(not math.isfinite(value) or value == 0 for value in values):
        try:
            return {_pow: math.pow, mpmath.atan2: math.atan2, mpmath.hypot: math.hypot}[function.exact](*values)
        except OverflowError:
            return INF
        except ValueError:  # a power of 0 that is negative, or of a negative number that is no integer
            return INF if values[0] == 0 else NAN
    return function.exact(*map(mpmath.mpf, values))


def _parts(value: Any) -> tuple[float, float, int]:
    value = mpmath.mpf(value)
    if not mpmath.isfinite(value) or value == 0:
        return float(value), 0.0, 0
    mantissa, exponent = mpmath.frexp(value)
    high = float(mantissa)
    return high, float(mantissa - high), max(min(int(exponent), 1 << 20), -(1 << 20))


def errors(got: np.ndarray, exact: Exact) -> np.ndarray:
    """In ulp of the exact result, infinity where one is NaN or another infinity; the infinity counts as 2**emax."""
    info = ml_dtypes.finfo(got.dtype)
    top = int(info.maxexp)
    with np.errstate(all="ignore"):
        wide = got.astype(np.float64)
        clear = np.isfinite(exact.high) & (exact.high != 0)
        finite = np.where(np.isinf(wide), 0.0, wide)
        scaled = np.ldexp(finite, np.clip(-exact.exponent, -1100, 1100))
        beyond = np.ldexp(np.copysign(1.0, wide), np.clip(top - exact.exponent, -1100, 1100))
        scaled = np.where(np.isinf(wide), beyond, scaled)
        rounds_beyond = clear & (exact.exponent > top)
        unit = np.maximum(exact.exponent - info.nmant - 1, int(info.minexp) - info.nmant)
        error = np.abs(scaled - exact.high - exact.low) * np.ldexp(1.0, np.clip(exact.exponent - unit, -1100, 1100))
        error = np.where(rounds_beyond, np.where(np.isinf(wide) & (wide * exact.high > 0), 0.0, np.inf), error)
        special = np.where((wide == exact.high) | (np.isnan(wide) & np.isnan(exact.high)), 0.0, np.inf)
        zero = exact.high == 0
        tiny = np.abs(wide) / np.ldexp(1.0, int(info.minexp) - info.nmant)
        error = np.where(clear, error, np.where(zero & np.isfinite(wide), tiny, special))
        return np.where(np.isnan(error), np.inf, error)


def compiled(name: str, dtype: str, size: int, target: str | None) -> Callable[..., np.ndarray]:
    """The function of vectors of `size` elements, built as importers do."""
    function = FUNCTIONS[name]
    operands = [Var(f"x{i}", TensorType((size,), dtype)) for i in range(function.arguments)]
    given: list[Expr] = list(operands)
    if name in ("lgamma", "digamma"):
        given = [op.cast(x, dtype="float64") if dtype != "float64" else x for x in given]
    elif function.composed and DType(dtype).is_half:
        given = [op.cast(x, dtype="float32") for x in given]
    made = function.build(*given)
    body = made if given == operands else op.cast(made, dtype=dtype)
    executable = tw.compile(
        IRModule.from_expr(Function(operands, body)), target=target or "cpu", threads=1, cache=False
    )
    return lambda *values: np.asarray(executable(*values))


# ------------------------------------------------------------------------------------------------------- points
def points(name: str, dtype: str, generator: np.random.Generator, each: int) -> list[np.ndarray]:
    """Operands: all values of 16-bit types; of wider ones `each` of every exponent (a quarter for float64) and more."""
    function = FUNCTIONS[name]
    if function.arguments == 2:
        return _pairs(name, dtype, generator, each)
    return [_line(function, dtype, generator, each)]


def _line(function: MathFunction, dtype: str, generator: np.random.Generator, each: int) -> np.ndarray:
    kind = DType(dtype).numpy
    if kind.itemsize == 2:
        return np.arange(65536, dtype=np.uint16).view(kind)
    words, mantissa = (np.uint32, 23) if kind.itemsize == 4 else (np.uint64, 52)
    count = each if kind.itemsize == 4 else max(each // 4, 1)
    exponents = np.repeat(np.arange(1 << (kind.itemsize * 8 - mantissa), dtype=np.uint64), count)
    fractions = generator.integers(0, 1 << mantissa, exponents.size, dtype=np.uint64)
    spread = ((exponents << np.uint64(mantissa)) | fractions).astype(words).view(kind)
    dense = [generator.uniform(-limit, limit, 60 * each).astype(kind) for limit in (1.0, 20.0, 110.0)]
    near = _neighbours(np.array([0.0, 1.0, *function.points]).astype(kind), generator, each)
    edges = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, ml_dtypes.finfo(kind).smallest_subnormal], kind)
    return np.concatenate([spread, *dense, near, -near, edges])


def _many(generator: np.random.Generator) -> list[np.ndarray]:
    """Two million float32: of any bits, and within the ranges where functions bend."""
    ranges = [generator.uniform(-limit, limit, 400_000).astype(np.float32) for limit in (1.0, 5.0, 20.0, 110.0)]
    bits = generator.integers(0, 1 << 32, 400_000, dtype=np.uint32).view(np.float32)
    return [np.concatenate([bits, *ranges])]


def _neighbours(centres: np.ndarray, generator: np.random.Generator, each: int) -> np.ndarray:
    """Numbers at most 100 positions from the centres, and as close as 2**-20 of them."""
    bits = centres.view(np.int32 if centres.itemsize == 4 else np.int64)
    close = (bits[:, None] + generator.integers(0, 100, (bits.size, each)).astype(bits.dtype)).view(centres.dtype)
    below = np.maximum(bits[:, None] - generator.integers(0, 100, (bits.size, each)).astype(bits.dtype), 0)
    wide = centres[:, None] * (1 + generator.uniform(-1, 1, (bits.size, each)) * 2.0**-20).astype(centres.dtype)
    return np.concatenate([close.ravel(), below.view(centres.dtype).ravel(), wide.ravel()])


def _pairs(name: str, dtype: str, generator: np.random.Generator, each: int) -> list[np.ndarray]:
    kind = DType(dtype).numpy
    info = ml_dtypes.finfo(kind)
    ends = [float(info.max), float(info.min), float(info.smallest_normal), float(info.smallest_subnormal)]
    corners = [0.0, -0.0, 1, -1, 0.5, 2, -2, 3, -3, 2.5, np.inf, -np.inf, np.nan, *ends, -ends[-1]]
    grid = [side.ravel().astype(kind) for side in np.meshgrid(corners, corners)]
    count = 600 * each
    limit = math.log(float(info.max))
    sizes = np.exp(generator.uniform(-limit, limit, (2, count)))
    signs = generator.choice([-1.0, 1.0], (2, count))
    left, right = sizes * signs
    if name == "power":
        exponents = generator.uniform(-1, 1, count) * limit / np.maximum(np.abs(np.log(sizes[0])), 1e-2)
        whole = np.round(generator.uniform(-9, 9, count))
        right = np.where(generator.random(count) < 0.5, np.where(left < 0, np.round(exponents), exponents), whole)
    else:  # operands of one size too, where the result depends on both
        right = np.where(generator.random(count) < 0.7, left * generator.uniform(-2, 2, count), right)
    with np.errstate(all="ignore"):
        values = [np.concatenate([side, more.astype(kind)]) for side, more in zip(grid, (left, right))]
    if name == "power":  # 0 to a negative power and the like stand in C's table, which Python refuses to compute
        keep = ~((values[0].astype("f8") == 0) & (values[1].astype("f8") < 0))
        values = [side[keep] for side in values]
    return values


def worst(name: str, dtype: str, operands: Sequence[np.ndarray], exact: Exact, target: str | None) -> tuple[float, str]:
    """The largest error, and where it is; infinity where a special value or the sign of a zero is wrong."""
    got = compiled(name, dtype, operands[0].size, target)(*operands)
    found = errors(got, exact)
    if FUNCTIONS[name].odd:
        zero = operands[0].astype(np.float32) == 0 if operands[0].dtype.itemsize == 2 else operands[0] == 0
        found[zero & (np.signbit(got) != np.signbit(operands[0]))] = np.inf
    at = int(np.argmax(found))
    return float(found[at]), f"{', '.join(str(operand[at]) for operand in operands)} -> {got[at]}"


def bound(error: float) -> float:
    """An error rounded up to two digits, as the table says it."""
    if not math.isfinite(error):
        return math.inf
    step = 10.0 ** (math.floor(math.log10(max(error, 0.1))) - 1)
    return round(math.ceil(round(error / step, 6)) * step, 6)


def table(bounds: dict[str, dict[str, float]]) -> str:
    """The rows of the page."""
    head = f"| function | {' | '.join(TYPES)} |\n|---|" + "---|" * len(TYPES)
    rows = [f"| `{name}` | {' | '.join(f'{row[dtype]:g}' for dtype in TYPES)} |" for name, row in bounds.items()]
    return "\n".join([head, *rows])


def read_table(page: Path = PAGE) -> dict[str, dict[str, float]]:
    """The bounds that the page states: {function: {type: ulp}}."""
    text = page.read_text().split(BEGIN)[1].split(END)[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")
    ]
    return {row[0].strip("`"): dict(zip(TYPES, map(float, row[1:]), strict=True)) for row in rows}


def main() -> None:
    """Measure and print; with --write, put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into docs/numerics.md")
    parser.add_argument("--seed", type=int, default=26)
    parser.add_argument("--each", type=int, default=12, help="values of each exponent")
    parser.add_argument("--types", nargs="*", default=list(TYPES), choices=TYPES)
    parser.add_argument("--only", nargs="*", default=list(FUNCTIONS), metavar="NAME")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    bounds = read_table() if BEGIN in PAGE.read_text() else {}
    for name in options.only:
        bounds[name] = bounds.get(name, {}) | {dtype: _measured(name, dtype, options) for dtype in options.types}
        if options.write:  # one by one, so that what was measured is there if it is stopped
            _write(bounds)
    print(table({name: bounds[name] for name in FUNCTIONS if name in bounds}))


def _write(bounds: dict[str, dict[str, float]]) -> None:
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    rows = table({name: bounds[name] for name in FUNCTIONS if name in bounds})
    PAGE.write_text(f"{before}{BEGIN}\n{rows}\n{END}{after}")


def _measured(name: str, dtype: str, options: argparse.Namespace) -> float:
    operands = points(name, dtype, np.random.default_rng(options.seed), options.each)
    exact = _of_float64(name, operands) if DType(dtype).is_half else exact_values(FUNCTIONS[name], operands)
    found = [worst(name, dtype, operands, exact, target) for target in LEVELS]
    if dtype == "float32" and FUNCTIONS[name].arguments == 1 and name not in ("lgamma", "digamma"):
        many = _many(np.random.default_rng(options.seed))
        found += [worst(name, dtype, many, _of_float64(name, many), target) for target in LEVELS]
    print(f"{name:12} {dtype:9}", "; ".join(f"{error:.3g} at {where}" for error, where in found), flush=True)
    return bound(max(error for error, _ in found))


if __name__ == "__main__":
    main()
