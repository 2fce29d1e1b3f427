"""Tensor expressions evaluated in NumPy, without schedule or lowering: what a `te.compute` graph means.

Every stage is computed whole, on arrays of all its index values at once. Reads are checked: an index out of bounds is
an error unless an enclosing `if_then_else` does not take it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import te, tir
from tilewright.errors import InternalError
from tilewright.support.recursion import nested
from tilewright.tir.evaluate import interpret
from tilewright.topi.reference import math as ref
from tilewright.topi.util import constant_shape

Array = np.ndarray[Any, Any]


def evaluate(outputs: Sequence[te.Tensor], inputs: Mapping[te.Tensor, Array]) -> list[Array]:
    """Values of `outputs`, given those of the placeholders they depend on."""
    values: dict[te.Tensor, Array] = dict(inputs)
    stack = list(outputs)
    while stack:
        tensor = stack[-1]
        missing = [t for t in tensor.op.input_tensors if t not in values]
        if tensor in values or missing:
            stack = stack[:-1] if tensor in values else [*stack, *missing]
            continue
        if isinstance(tensor.op, te.ComputeOp):
            made = _compute(tensor.op, values)
        elif isinstance(tensor.op, te.ExternOp):
            made = _run(tensor.op, values)
        else:
            raise InternalError(f"{tensor.name} has no value")
        values.update(zip(tensor.op.outputs, made))
    return [values[t] for t in outputs]


def _compute(op: te.ComputeOp, values: Mapping[te.Tensor, Array]) -> list[Array]:
    shape = constant_shape(op.output(0))
    domains: list[Any] = [axis.dom for axis in op.reduce_axis]
    extents = [*shape, *[domain.extent.value for domain in domains]]
    starts = [*[0] * len(shape), *[domain.min.value for domain in domains]]
    env: dict[tir.Var, Array] = {}
    for d, axis in enumerate([*op.axis, *op.reduce_axis]):
        positions = np.arange(extents[d]) + starts[d]
        env[axis.var] = positions.reshape([-1 if k == d else 1 for k in range(len(extents))])
    body = _Body(env, values)
    everywhere = np.ones((), bool)
    if not op.reduce_axis:
        return [_filled(body(expr, everywhere), shape, expr.dtype) for expr in op.body]
    first = op.body[0]
    assert isinstance(first, tir.Reduce)
    kept = body(first.condition, everywhere)
    sources = [_filled(body(s, everywhere & kept), extents, s.dtype) for s in first.source]
    identity = [body(e, everywhere) for e in first.combiner.identity]
    rows = [np.where(np.broadcast_to(kept, extents), s, i).reshape(*shape, -1) for s, i in zip(sources, identity)]
    return _reduced(first.combiner, rows, identity, shape)


def _run(op: te.ExternOp, values: Mapping[te.Tensor, Array]) -> list[Array]:
    """The statement of an extern operation, one element after the other."""
    outputs = [np.empty(constant_shape(tensor), tensor.dtype.numpy) for tensor in op.outputs]
    func = tir.PrimFunc(op.name, (*op.input_buffers, *op.output_buffers), op.body)
    interpret(func, *[np.asarray(values[tensor], order="C") for tensor in op.inputs], *outputs)
    return outputs


def _reduced(combiner: Any, rows: Sequence[Array], identity: Sequence[Any], shape: Sequence[int]) -> list[Array]:
    """Combine the last axis of `rows`, in order."""
    total = [np.full(shape, start, row.dtype) for start, row in zip(identity, rows)]
    for k in range(rows[0].shape[-1]):
        operands = zip((*combiner.lhs, *combiner.rhs), (*total, *(row[..., k] for row in rows)))
        step = _Body(dict(operands), {})
        total = [_filled(step(r, np.ones((), bool)), shape, r.dtype) for r in combiner.result]
    return total


def _filled(value: Any, shape: Sequence[int], dtype: Any) -> Array:
    return np.asarray(np.broadcast_to(np.asarray(value).astype(dtype.numpy), shape), order="C").reshape(shape)


class _Body:
    """Evaluates expressions over arrays of index values; `mask` says for which of them the value is needed."""

    def __init__(self, env: Mapping[tir.Var, Array], values: Mapping[te.Tensor, Array]) -> None:
        self.env, self.values = env, values
        self.memo: dict[tuple[int, int], Any] = {}
        self.alive: list[Any] = []

    def __call__(self, expr: tir.Expr, mask: Array) -> Any:
        key = (id(expr), id(mask))
        if key not in self.memo:
            self.alive += [expr, mask]
            with np.errstate(all="ignore"):
                self.memo[key] = self.visit(expr, mask)
        return self.memo[key]

    @nested
    def visit(self, expr: tir.Expr, mask: Array) -> Any:
        if isinstance(expr, tir.Var):
            return np.asarray(self.env[expr]).astype(expr.dtype.numpy)
        if isinstance(expr, (tir.IntImm, tir.FloatImm)):
            return np.asarray(expr.value).astype(expr.dtype.numpy)
        if isinstance(expr, tir.ProducerLoad):
            return self.load(expr, mask)
        if isinstance(expr, tir.Cast):
            return ref.cast(self(expr.value, mask), expr.dtype.numpy)
        if isinstance(expr, tir.Not):
            return np.logical_not(self(expr.a, mask))
        if isinstance(expr, tir.Select):
            return np.where(*[self(part, mask) for part in (expr.condition, expr.true_value, expr.false_value)])
        if isinstance(expr, tir.Call):
            return self.call(expr, mask)
        function = _BINARY[type(expr)]
        return function(self(expr.a, mask), self(expr.b, mask))  # type: ignore[attr-defined]

    def load(self, expr: tir.ProducerLoad, mask: Array) -> Any:
        source = self.values[expr.producer]
        where = []
        for d, index in enumerate(expr.indices):
            position = np.asarray(self(index, mask))
            wrong = mask & ((position < 0) | (position >= source.shape[d]))
            if np.any(wrong):
                raise InternalError(f"{expr.producer.name} of shape {source.shape} is read out of bounds in axis {d}")
            where.append(np.clip(position, 0, source.shape[d] - 1))
        return source[tuple(where)]

    def call(self, expr: tir.Call, mask: Array) -> Any:
        if expr.op == "if_then_else":
            condition, true_value, false_value = expr.args
            taken = self(condition, mask)
            return np.where(taken, self(true_value, mask & taken), self(false_value, mask & ~taken))
        if expr.op == "likely":
            return self(expr.args[0], mask)
        arguments = [np.asarray(self(arg, mask)) for arg in expr.args]
        return np.asarray(_CALLS[expr.op](*arguments)).astype(expr.dtype.numpy)


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    tir.Add: np.add,
    tir.Sub: np.subtract,
    tir.Mul: np.multiply,
    tir.Div: ref.trunc_divide,
    tir.Mod: ref.trunc_mod,
    tir.FloorDiv: ref.floor_divide,
    tir.FloorMod: ref.floor_mod,
    tir.Min: np.minimum,
    tir.Max: np.maximum,
    tir.EQ: np.equal,
    tir.NE: np.not_equal,
    tir.LT: np.less,
    tir.LE: np.less_equal,
    tir.GT: np.greater,
    tir.GE: np.greater_equal,
    tir.And: np.logical_and,
    tir.Or: np.logical_or,
}

_CALLS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    **{name: getattr(np, name) for name in ("expm1", "log", "log1p", "log2", "log10", "sinh", "cosh")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "sigmoid": ref.sigmoid,
    **{name: getattr(ref, name) for name in ("erf", "erfc", "silu", "mish", "gelu", "gelu_tanh")},
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "fabs": np.abs,
    "pow": np.power,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}
