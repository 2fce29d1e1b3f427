"""A reference executor: evaluates expressions and runs functions of the loop IR over NumPy arrays.

It is slow and plain on purpose, so that it can be trusted as the oracle of tests: every access is checked against the
buffer's shape, memory starts out poisoned, and arithmetic follows docs/ir.md to the letter. Scalars are Python ints
(integers and bools) and NumPy scalars (floats), vectors are NumPy arrays of their lanes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.errors import InputError, InternalError
from tilewright.support.dtype import DType
from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir import stmt as s
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call, Expr, IntImm, Var
from tilewright.tir.op import wrap
from tilewright.tir.table_lookup import ENTRIES, NONE

Env = Mapping[Any, Any]  # Var: number, Buffer (or te.Tensor): array


def evaluate(expr: Expr, env: Env | None = None) -> Any:
    """The value of `expr` where `env` has the values of its variables and the arrays of its buffers."""
    with np.errstate(all="ignore"):
        return _Evaluator(dict(env or {}))(expr)


def interpret(func: s.PrimFunc, *arguments: Any, workers: int = 1) -> None:
    """Run `func` on `arguments`, one NumPy array or number per parameter; buffers are written in place.

    An array may have any shape of the right size (it is seen through the buffer's shape) and must be contiguous. With
    `workers` > 1 an "spmd" function runs on that many threads that meet at barriers; loops of other functions run in
    order, whatever their kind. Raises InternalError on an access out of bounds, InputError if an assertion fails.
    """
    if len(arguments) != len(func.params):
        raise InputError(f"{func.name} takes {len(func.params)} arguments, got {len(arguments)}")
    if workers == 1:
        _Interpreter(_bound(func, arguments)).run(func.body)
        return
    meeting = threading.Barrier(workers)
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            _Interpreter(_bound(func, arguments), worker, workers, meeting).run(func.body)
        except threading.BrokenBarrierError:
            pass
        except BaseException as failure:  # handed to the caller's thread below
            failures.append(failure)
            meeting.abort()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _bound(func: s.PrimFunc, arguments: tuple[Any, ...]) -> dict[Any, Any]:
    env: dict[Any, Any] = {}
    for param, value in zip(func.params, arguments, strict=True):
        env[param] = value
    evaluator = _Evaluator(env)
    for param, value in zip(func.params, arguments, strict=True):
        if isinstance(param, Buffer):
            array = np.asarray(value)
            shape = tuple(evaluator(d) for d in param.shape)
            if array.dtype != param.dtype.numpy or array.size != math.prod(shape) or not array.flags.c_contiguous:
                raise InputError(
                    f"{param.name} of {func.name} is {param.dtype}{list(shape)}, contiguous; "
                    f"got {array.dtype}{list(array.shape)}"
                )
            env[param] = array.reshape(shape)
    return env


# ------------------------------------------------------------------------------------------------- expressions
class _Evaluator:
    def __init__(self, env: dict[Any, Any], context: _Interpreter | None = None) -> None:
        self.env = env
        self.context = context
        self.memo: dict[Expr, Any] = {}

    def __call__(self, x: Expr) -> Any:
        found = self.memo.get(x)
        if found is None:
            found = self.memo[x] = self._evaluated(x)
        return found

    @nested
    def _evaluated(self, x: Expr) -> Any:
        rule = _EXPRESSIONS.get(type(x))
        if rule is None:
            raise InternalError(f"the reference executor has no rule for {type(x).__name__} in {x!r}")
        return rule(self, x)


def _typed(value: Any, dtype: DType) -> Any:
    """`value` rounded or wrapped to `dtype`, in the form this file keeps values in."""
    if dtype.lanes > 1:
        return np.asarray(value).astype(dtype.numpy)
    if dtype.is_float or dtype.is_narrow:
        return dtype.numpy.type(value)
    return int(bool(value)) if dtype.is_bool else wrap(int(value), dtype)


def _variable(v: _Evaluator, x: Var) -> Any:
    if x not in v.env:
        raise InternalError(f"the variable {x.name} has no value")
    return v.env[x] if x.dtype == "handle" else _typed(v.env[x], x.dtype)


def _truncated(a: Any, b: Any) -> Any:
    """Integer division that rounds towards zero."""
    quotient = a // b
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0)))


def _divide(a: Any, b: Any, dtype: DType) -> Any:
    return a / b if dtype.is_float else _truncated(a, b)


def _remainder(a: Any, b: Any, dtype: DType) -> Any:
    return np.fmod(a, b) if dtype.is_float else a - b * _truncated(a, b)


_BINARY: dict[type, Callable[[Any, Any, DType], Any]] = {
    e.Add: lambda a, b, t: a + b,
    e.Sub: lambda a, b, t: a - b,
    e.Mul: lambda a, b, t: a * b,
    e.Div: _divide,
    e.Mod: _remainder,
    e.FloorDiv: lambda a, b, t: a // b,
    e.FloorMod: lambda a, b, t: a % b,
    e.Min: lambda a, b, t: np.where((a < b) | (a != a), a, b)[()],
    e.Max: lambda a, b, t: np.where((a > b) | (a != a), a, b)[()],
    e.EQ: lambda a, b, t: a == b,
    e.NE: lambda a, b, t: a != b,
    e.LT: lambda a, b, t: a < b,
    e.LE: lambda a, b, t: a <= b,
    e.GT: lambda a, b, t: a > b,
    e.GE: lambda a, b, t: a >= b,
    e.And: lambda a, b, t: np.logical_and(a, b),
    e.Or: lambda a, b, t: np.logical_or(a, b),
}
_DIVISIONS = (e.Div, e.Mod, e.FloorDiv, e.FloorMod)


def _binary(v: _Evaluator, x: Any) -> Any:
    a, b = v(x.a), v(x.b)
    if type(x) in _DIVISIONS and not x.dtype.is_float:
        return _typed(_integer_division(_BINARY[type(x)], a, b, x.dtype), x.dtype)
    return _typed(_BINARY[type(x)](a, b, x.a.dtype), x.dtype)


def _integer_division(function: Callable[[Any, Any, DType], Any], a: Any, b: Any, dtype: DType) -> Any:
    """`function(a, b)`, and 0 where b is 0."""
    if not isinstance(b, np.ndarray):
        return function(a, b, dtype) if b else 0
    return np.where(b == 0, b.dtype.type(0), function(a, np.where(b == 0, b.dtype.type(1), b), dtype))


def _cast(v: _Evaluator, x: e.Cast) -> Any:
    value = v(x.value)
    if x.dtype.is_bool:
        return _typed(value != 0, x.dtype)
    return _typed(np.trunc(value) if x.value.dtype.is_float and x.dtype.is_int else value, x.dtype)


def _let(v: _Evaluator, x: e.Let) -> Any:
    return _Evaluator({**v.env, x.var: v(x.value)}, v.context)(x.body)


def _select(v: _Evaluator, x: e.Select) -> Any:
    return _typed(np.where(v(x.condition), v(x.true_value), v(x.false_value))[()], x.dtype)


def _shuffle(v: _Evaluator, x: e.Shuffle) -> Any:
    lanes = np.concatenate([np.atleast_1d(v(part)) for part in x.vectors])[list(x.indices)]
    return lanes if len(x.indices) > 1 else _typed(lanes[0], x.dtype)


def _position(v: _Evaluator, buffer: Any, indices: tuple[Expr, ...], what: Any) -> tuple[Any, tuple[Any, ...]]:
    """The array of `buffer` and the checked indices into it."""
    if buffer not in v.env:
        raise InternalError(f"{buffer.name} is accessed where it does not exist: {what!r}")
    array, positions = v.env[buffer], tuple([v(i) for i in indices])
    for position, size in zip(positions, array.shape, strict=True):
        if np.any(np.asarray(position) < 0) or np.any(np.asarray(position) >= size):
            shown = position.tolist() if isinstance(position, np.ndarray) else position
            raise InternalError(f"index {shown} is outside [0, {size}) in {what!r}")
    return array, positions


def _load(v: _Evaluator, x: Any) -> Any:
    array, positions = _position(v, x.buffer if isinstance(x, e.BufferLoad) else x.producer, x.indices, x)
    return _typed(array[positions], x.dtype)


def _ramp(v: _Evaluator, x: e.Ramp) -> Any:
    return _typed(v(x.base) + v(x.stride) * np.arange(x.lanes), x.dtype)


def _call(v: _Evaluator, x: Call) -> Any:
    special = _SPECIAL.get(x.op)
    if special is not None:
        return special(v, x)
    function = _FUNCTIONS.get(x.op)
    if function is None:
        raise InternalError(f"the reference executor does not know the call {x.op!r} in {x!r}")
    # computed in float64 and rounded once, so that the result is the reference for every float type
    arguments = [np.asarray(v(a), np.float64) if a.dtype.is_float else v(a) for a in x.args]
    return _typed(function(*arguments), x.dtype)


_EXPRESSIONS: dict[type, Callable[[_Evaluator, Any], Any]] = {
    IntImm: lambda v, x: x.value,
    e.FloatImm: lambda v, x: _typed(x.value, x.dtype),
    e.StringImm: lambda v, x: x.value,
    Var: _variable,
    e.SizeVar: _variable,
    **dict.fromkeys(_BINARY, _binary),
    e.Not: lambda v, x: _typed(np.logical_not(v(x.a)), x.dtype),
    e.Cast: _cast,
    e.Select: _select,
    e.Let: _let,
    e.Ramp: _ramp,
    e.Broadcast: lambda v, x: np.full(x.lanes, v(x.value), x.dtype.numpy),
    e.Shuffle: _shuffle,
    e.BufferLoad: _load,
    e.ProducerLoad: _load,
    Call: _call,
}


# -------------------------------------------------------------------------------------------------------- calls
def _choose(v: _Evaluator, x: Call) -> Any:
    return v(x.args[1]) if v(x.args[0]) else v(x.args[2])


def _reinterpret(v: _Evaluator, x: Call) -> Any:
    bits = np.atleast_1d(np.asarray(v(x.args[0])).astype(x.args[0].dtype.numpy)).view(x.dtype.numpy)
    return bits if x.dtype.lanes > 1 else _typed(bits[0], x.dtype)


def _address_of(v: _Evaluator, x: Call) -> Any:
    load = x.args[0]
    assert isinstance(load, e.BufferLoad)
    array, positions = _position(v, load.buffer, load.indices, load)
    flat = int(np.ravel_multi_index(positions, array.shape))
    return array.reshape(-1).view(np.uint8), flat * array.itemsize


def _pointer_add(v: _Evaluator, x: Call) -> Any:
    memory, offset = _memory(v(x.args[0]))
    return memory, offset + v(x.args[1])


def _memory(handle: Any) -> tuple[Any, int]:
    """A handle as bytes and an offset into them."""
    return (handle.reshape(-1).view(np.uint8), 0) if isinstance(handle, np.ndarray) else handle


def _worker(v: _Evaluator, x: Call) -> Any:
    if v.context is None:
        return 0 if x.op == "worker_id" else 1
    return v.context.worker if x.op == "worker_id" else v.context.workers


def _barrier(v: _Evaluator, x: Call) -> Any:
    if v.context is not None and v.context.meeting is not None:
        v.context.meeting.wait()
    return 0


def _bit_count(function: Callable[[int, int], int]) -> Callable[[_Evaluator, Call], Any]:
    def run(v: _Evaluator, x: Call) -> Any:
        bits = x.dtype.bits
        values = [function(int(lane) % 2**bits, bits) for lane in np.atleast_1d(v(x.args[0]))]
        return _typed(np.array(values) if x.dtype.lanes > 1 else values[0], x.dtype)

    return run


def _shift_right(v: _Evaluator, x: Call) -> Any:
    return _typed(np.asarray(v(x.args[0])) >> np.asarray(v(x.args[1])), x.dtype)


def _lookup(v: _Evaluator, x: Call) -> Any:
    table, index = (np.asarray(v(arg)) for arg in x.args)
    start = np.arange(len(index)) // ENTRIES * ENTRIES if len(table) > ENTRIES else 0
    return _typed(np.append(table, 0)[np.where(index == NONE, len(table), start + index)], x.dtype)


_SPECIAL: dict[str, Callable[[_Evaluator, Call], Any]] = {
    "if_then_else": _choose,
    "likely": lambda v, x: v(x.args[0]),
    "reinterpret": _reinterpret,
    "address_of": _address_of,
    "pointer_add": _pointer_add,
    "worker_id": _worker,
    "num_workers": _worker,
    "barrier": _barrier,
    "prefetch": lambda v, x: 0,
    "table_lookup": _lookup,
    "mask_bits": lambda v, x: sum(int(lane) << i for i, lane in enumerate(v(x.args[0]))),
    "popcount": _bit_count(lambda value, bits: value.bit_count()),
    "clz": _bit_count(lambda value, bits: bits - value.bit_length()),
    "shift_left": lambda v, x: _typed(np.asarray(v(x.args[0])) << np.asarray(v(x.args[1])), x.dtype),
    "shift_right": _shift_right,
}


def _each(function: Callable[..., float]) -> Callable[..., Any]:
    return np.vectorize(function, otypes=[np.float64])


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "tanh", "sin", "cos", "tan", "sinh",
        "cosh", "floor", "ceil", "trunc", "fabs", "abs", "fmod", "hypot", "copysign", "isnan", "isinf", "isfinite",
        "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not",
    )},
    **{name: getattr(np, long) for name, long in {
        "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
        "atanh": "arctanh", "atan2": "arctan2", "pow": "power", "round": "rint",
        "vector_reduce_add": "sum", "vector_reduce_mul": "prod", "vector_reduce_max": "max", "vector_reduce_min": "min",
    }.items()},
    "any_lane": np.any, "exp2_approx": np.exp2, "fmax": np.fmax,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "gelu": lambda x: x * _each(math.erfc)(x * -math.sqrt(0.5)) / 2,
    "gelu_tanh": lambda x: x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "lgamma": _each(math.lgamma),
    "tgamma": _each(math.gamma),
    "fma": lambda a, b, c: a * b + c,
}  # fmt: skip


# --------------------------------------------------------------------------------------------------- statements
class _Interpreter:
    def __init__(
        self, env: dict[Any, Any], worker: int = 0, workers: int = 1, meeting: threading.Barrier | None = None
    ) -> None:
        self.env = env
        self.worker, self.workers, self.meeting = worker, workers, meeting

    def run(self, stmt: s.Stmt) -> None:
        """Run a statement under the rules of NumPy's silent floating point."""
        with np.errstate(all="ignore"):
            self.stmt(stmt)

    def value(self, x: Expr) -> Any:
        """The value of an expression now."""
        return _Evaluator(self.env, self)(x)

    def stmt(self, stmt: s.Stmt) -> None:
        """Run one statement."""
        _STATEMENTS[type(stmt)](self, stmt)


def _sequence(run: _Interpreter, stmt: s.SeqStmt) -> None:
    for item in stmt.stmts:
        run.stmt(item)


def _for(run: _Interpreter, stmt: s.For) -> None:
    first = run.value(stmt.min)
    for i in range(first, first + run.value(stmt.extent)):
        run.env[stmt.var] = i
        run.stmt(stmt.body)


def _while(run: _Interpreter, stmt: s.While) -> None:
    while run.value(stmt.condition):
        run.stmt(stmt.body)


def _store(run: _Interpreter, stmt: s.BufferStore) -> None:
    evaluator = _Evaluator(run.env, run)
    value = evaluator(stmt.value)
    array, positions = _position(evaluator, stmt.buffer, stmt.indices, stmt)
    array[positions] = value


def _allocate(run: _Interpreter, stmt: s.Allocate) -> None:
    shape = tuple(run.value(d) for d in stmt.buffer.shape)
    memory = np.full(math.prod(shape) * stmt.buffer.dtype.itemsize, 0xFF, np.uint8)  # NaN as a float
    run.env[stmt.buffer] = memory.view(stmt.buffer.dtype.numpy).reshape(shape)
    run.stmt(stmt.body)


def _declare(run: _Interpreter, stmt: s.DeclBuffer) -> None:
    shape = tuple(run.value(d) for d in stmt.buffer.shape)
    memory, offset = _memory(run.value(stmt.address))
    end = offset + math.prod(shape) * stmt.buffer.dtype.itemsize
    if offset < 0 or end > memory.size:
        raise InternalError(f"{stmt.buffer!r} lies at bytes {offset} to {end} of a memory of {memory.size}")
    run.env[stmt.buffer] = memory[offset:end].view(stmt.buffer.dtype.numpy).reshape(shape)
    run.stmt(stmt.body)


def _if(run: _Interpreter, stmt: s.IfThenElse) -> None:
    if run.value(stmt.condition):
        run.stmt(stmt.then_case)
    elif stmt.else_case is not None:
        run.stmt(stmt.else_case)


def _let_stmt(run: _Interpreter, stmt: s.LetStmt) -> None:
    run.env[stmt.var] = run.value(stmt.value)
    run.stmt(stmt.body)


def _assert(run: _Interpreter, stmt: s.AssertStmt) -> None:
    if not run.value(stmt.condition):
        raise InputError(stmt.message)
    run.stmt(stmt.body)


_STATEMENTS: dict[type, Callable[[_Interpreter, Any], None]] = {
    s.SeqStmt: _sequence,
    s.For: _for,
    s.While: _while,
    s.BufferStore: _store,
    s.Allocate: _allocate,
    s.DeclBuffer: _declare,
    s.IfThenElse: _if,
    s.LetStmt: _let_stmt,
    s.AttrStmt: lambda run, stmt: run.stmt(stmt.body),
    s.AssertStmt: _assert,
    s.Evaluate: lambda run, stmt: run.value(stmt.value),
}
