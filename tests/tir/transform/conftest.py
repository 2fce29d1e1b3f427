"""An interpreter of loop IR functions: what a pass must keep. Slow, plain, and run by any number of pretend workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tilewright.tir import expr as e
from tilewright.tir import stmt as s
from tilewright.tir.buffer import Buffer


def _trunc_div(a: Any, b: Any) -> Any:
    return np.trunc(a / b).astype(np.asarray(a).dtype) if np.asarray(a).dtype.kind in "iu" else a / b


_BINARY: dict[type, Callable[..., Any]] = {
    e.Add: lambda a, b: a + b,
    e.Sub: lambda a, b: a - b,
    e.Mul: lambda a, b: a * b,
    e.Div: _trunc_div,
    e.Mod: np.fmod,
    e.FloorDiv: lambda a, b: a // b,
    e.FloorMod: lambda a, b: a % b,
    e.Min: lambda a, b: np.where(a < b, a, b),
    e.Max: lambda a, b: np.where(a > b, a, b),
    e.EQ: lambda a, b: a == b,
    e.NE: lambda a, b: a != b,
    e.LT: lambda a, b: a < b,
    e.LE: lambda a, b: a <= b,
    e.GT: lambda a, b: a > b,
    e.GE: lambda a, b: a >= b,
    e.And: np.logical_and,
    e.Or: np.logical_or,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "sqrt": np.sqrt,
    "fma": lambda a, b, c: a * b + c,
    "fabs": np.abs,
    "likely": lambda a: a,
    "vector_reduce_add": np.sum,
    "vector_reduce_mul": np.prod,
    "vector_reduce_max": np.max,
    "vector_reduce_min": np.min,
    "shift_left": lambda a, b: (np.asarray(a, np.int64) << b).astype(np.int32),
    "shift_right": lambda a, b: a >> b,
}


class Worker:
    """Runs a function as one worker; `run` yields at each barrier."""

    def __init__(self, memory: dict[Buffer, np.ndarray], scalars: dict[e.Var, Any], worker: int, workers: int) -> None:
        self.memory, self.env = memory, dict(scalars)
        self.shared = memory
        self.private: dict[Buffer, np.ndarray] = {}
        self.worker, self.workers = worker, workers

    def array(self, buffer: Buffer) -> np.ndarray:
        found = self.private.get(buffer)
        return self.memory[buffer] if found is None else found

    def position(self, buffer: Buffer, indices: tuple[e.Expr, ...]) -> tuple[Any, ...]:
        where = tuple(self.value(i) for i in indices)
        for index, size in zip(where, self.array(buffer).shape, strict=True):
            assert np.all(np.asarray(index) >= 0) and np.all(np.asarray(index) < size), f"{buffer.name}{where}"
        return where

    def value(self, x: Any) -> Any:
        kind = type(x)
        if kind in _BINARY:
            return _BINARY[kind](self.value(x.a), self.value(x.b))
        if isinstance(x, e.Var):
            return self.env[x]
        if kind is e.IntImm or kind is e.FloatImm:
            return x.dtype.numpy.type(x.value)
        if kind is e.Not:
            return np.logical_not(self.value(x.a))
        if kind is e.Cast:
            return np.asarray(self.value(x.value)).astype(x.dtype.numpy)
        if kind is e.Select:
            return np.where(self.value(x.condition), self.value(x.true_value), self.value(x.false_value))
        if kind is e.Ramp:
            return self.value(x.base) + self.value(x.stride) * np.arange(x.lanes, dtype=np.int32)
        if kind is e.Broadcast:
            return np.full(x.lanes, self.value(x.value), x.dtype.numpy)
        if kind is e.Shuffle:
            return np.concatenate([np.atleast_1d(self.value(v)) for v in x.vectors])[list(x.indices)]
        if kind is e.Let:
            self.env[x.var] = self.value(x.value)
            return self.value(x.body)
        if kind is e.BufferLoad:
            return self.array(x.buffer)[self.position(x.buffer, x.indices)]
        assert kind is e.Call, kind
        return self.call(x)

    def call(self, x: e.Call) -> Any:
        if x.op == "if_then_else":
            return self.value(x.args[1] if self.value(x.args[0]) else x.args[2])
        if x.op == "worker_id":
            return self.worker
        if x.op == "num_workers":
            return self.workers
        if x.op == "reinterpret":
            return np.asarray(self.value(x.args[0])).view(x.dtype.numpy)
        if x.op == "address_of":
            load: Any = x.args[0]
            return self.array(load.buffer), int(self.value(load.indices[0]))
        return _CALLS[x.op](*[self.value(a) for a in x.args])

    def run(self, t: Any) -> Iterator[None]:
        kind = type(t)
        if kind is s.SeqStmt:
            for part in t.stmts:
                yield from self.run(part)
        elif kind is s.For:
            low = int(self.value(t.min))
            for i in range(low, low + int(self.value(t.extent))):
                self.env[t.var] = np.int32(i)
                yield from self.run(t.body)
        elif kind is s.BufferStore:
            value = self.value(t.value)
            self.array(t.buffer)[self.position(t.buffer, t.indices)] = value
        elif kind is s.IfThenElse:
            branch = t.then_case if self.value(t.condition) else t.else_case
            if branch is not None:
                yield from self.run(branch)
        elif kind is s.LetStmt:
            self.env[t.var] = self.value(t.value)
            yield from self.run(t.body)
        elif kind is s.Allocate:
            table = self.shared if t.buffer.scope == "global" else self.private
            table.setdefault(t.buffer, np.zeros(t.buffer.constant_shape(), t.buffer.dtype.numpy))
            yield from self.run(t.body)
        elif kind is s.DeclBuffer:
            array, offset = self.value(t.address)
            count = t.buffer.constant_size() * t.buffer.dtype.itemsize
            self.private[t.buffer] = array[offset : offset + count].view(t.buffer.dtype.numpy)
            yield from self.run(t.body)
        elif kind is s.Evaluate:
            if isinstance(t.value, e.Call) and t.value.op == "barrier":
                yield
        else:
            assert kind in (s.AttrStmt, s.AssertStmt), kind
            yield from self.run(t.body)


def _interpret(func: s.PrimFunc, *args: np.ndarray | int, workers: int = 1, backwards: bool = False) -> None:
    """Run `func` on arrays (changed in place, reshaped to the parameters) and integers.

    The workers run one after another from barrier to barrier, the last one first if `backwards`.
    """
    memory: dict[Buffer, np.ndarray] = {}
    scalars: dict[e.Var, Any] = {}
    spare = [p for p in func.params[len(args) :] if isinstance(p, Buffer)]
    for param, arg in zip(func.params, args, strict=False):
        if isinstance(param, Buffer):
            assert isinstance(arg, np.ndarray)
            memory[param] = arg.reshape(param.constant_shape())
        else:
            scalars[param] = arg
    team = [Worker(memory, scalars, w, workers) for w in range(workers)]
    for buffer in spare:
        if buffer.name == "workspace":
            memory[buffer] = np.zeros(math.prod(buffer.constant_shape()), np.uint8)
        for worker in team if buffer.name == "worker_workspace" else []:
            worker.private[buffer] = np.zeros(math.prod(buffer.constant_shape()), np.uint8)
    running = [worker.run(func.body) for worker in (reversed(team) if backwards else team)]
    while running:
        arrived = [next(r, "done") for r in running]
        done = [a == "done" for a in arrived]
        assert all(done) or not any(done), "some workers wait at a barrier that others never reach"
        running = [] if all(done) else running


@pytest.fixture
def interpret() -> Callable[..., None]:
    """The interpreter: interpret(func, *arrays_and_integers, workers=1, backwards=False)."""
    return _interpret
