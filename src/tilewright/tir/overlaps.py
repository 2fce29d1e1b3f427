"""The bytes that a function's result may share with an input: found from the order of its loads and stores.

    for i in range(100):                     B may begin where A does, or before: when B[i] is stored, only
        B[i] = A[i] + A[i + 1]               elements of A behind i are still to be loaded

The loops are walked for one worker, all iterations of a loop at once as arrays of bounds. Where there are more than
`_MOST` points, or a body's extent varies, several iterations become one, whose loads come last and whose stores first:
what is found then is never too small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir import stmt as s
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, Var

#: Iterations of all loops around a statement that are looked at one by one.
_MOST = 1 << 12

#: Bounds of what is not known: below the least and above the greatest index, small enough to be added up.
_FAR = 1 << 40

_Ints: TypeAlias = NDArray[np.int64]
_Bounds: TypeAlias = tuple[_Ints, _Ints]


def overlaps(func: s.PrimFunc, inputs: Sequence[int], first: int, outputs: int) -> dict[tuple[int, int], int]:
    """By (input, output) the bytes by which the output has to begin before the input if they share memory.

    Negative ones say how far behind its start it may begin. `inputs` are numbers of parameters; the `outputs` are those
    from the `first` on, numbered from 0, and scratch memory what is left. Pairs without an entry must not share bytes.
    """
    buffers = [param for param in func.params if isinstance(param, Buffer)]
    results = buffers[first : first + outputs]
    walker = _Walker({*results, *(buffers[i] for i in inputs)}, set(buffers[first + outputs :]))
    try:
        walker.walk(func.body, _Domain())
    except _Unknown:
        return {}
    found = {}
    for i in inputs:
        for o, result in enumerate(results):
            distance = _distance(walker.loads.get(buffers[i], []), walker.stores.get(result, []))
            if buffers[i] not in walker.stores and distance < _bytes_of(result):
                found[i, o] = max(distance, -_bytes_of(buffers[i]))
    return found


class _Unknown(Exception):
    """A statement whose order of accesses is not known."""


def _bytes_of(buffer: Buffer) -> int:
    """The bytes of a buffer; none where they are not known."""
    sizes = [size.value if isinstance(size, e.IntImm) else 0 for size in buffer.shape]
    return int(np.prod(sizes, dtype=np.int64)) * buffer.dtype.itemsize


@dataclass(frozen=True)
class _Access:
    """Times, and a byte for each: the least that a load reads, the greatest that a store writes."""

    times: _Ints
    bytes: _Ints


def _distance(loads: list[_Access], stores: list[_Access]) -> int:
    """The least distance at which no store writes a byte that is loaded later."""
    if not loads or not stores:
        return -_FAR
    times = np.concatenate([access.times for access in loads])
    order = np.argsort(times, kind="stable")
    least = np.concatenate([access.bytes for access in loads])[order]
    later = np.append(np.minimum.accumulate(least[::-1])[::-1], _FAR)
    found = -_FAR
    for access in stores:
        at = np.searchsorted(times[order], access.times, side="right")
        if len(at):
            found = max(found, int((access.bytes - later[at]).max()) + 1)
    return found


@dataclass(frozen=True)
class _Domain:
    """The iterations of the loops around a statement: when each begins, bounds of variables, which are not run.

    A `block` is several iterations in one: of what they do, loads come at the end and stores at the start.
    """

    start: _Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    values: dict[Var, _Bounds] = field(default_factory=dict)
    runs: NDArray[np.bool_] = field(default_factory=lambda: np.ones(1, bool))
    block: bool = False
    known: dict[Expr, _Bounds] = field(default_factory=dict)
    seen: set[tuple[Expr, bool]] = field(default_factory=set)

    @nested
    def bounds(self, expr: Expr) -> _Bounds:
        """The least and the greatest value of an integer expression; `_FAR` where nothing is known."""
        if expr not in self.known:
            low, high = self._bounds(expr)
            self.known[expr] = np.asarray(low, np.int64), np.asarray(high, np.int64)
        return self.known[expr]

    def _bounds(self, expr: Expr) -> tuple[Any, Any]:
        size = len(self.start)
        if isinstance(expr, e.IntImm):
            return (np.full(size, expr.value),) * 2
        if isinstance(expr, e.Var):
            return self.values.get(expr, (np.full(size, -_FAR), np.full(size, _FAR)))
        rule = _RULES.get(type(expr))
        if rule is not None and isinstance(expr, e.BinaryExpr) and expr.a.dtype.is_int:
            return rule(*self.bounds(expr.a), *self.bounds(expr.b))
        if isinstance(expr, e.Cast) and expr.dtype in ("int32", "int64") and expr.value.dtype in ("int32", "int64"):
            return self.bounds(expr.value)
        if isinstance(expr, e.Call) and expr.op in _ONE_WORKER:
            return (np.full(size, _ONE_WORKER[expr.op]),) * 2
        if isinstance(expr, e.Call) and expr.op == "likely":
            return self.bounds(expr.args[0])
        if str(expr.dtype) == "bool":
            return np.zeros(size, np.int64), np.ones(size, np.int64)
        return np.full(size, -_FAR), np.full(size, _FAR)

    def moved(self, start: _Ints, **values: Any) -> _Domain:
        """The same iterations at other times; with `runs` only some of them."""
        return _Domain(start, self.values, values.get("runs", self.runs), self.block)


#: Values of calls where there is one worker.
_ONE_WORKER = {"worker_id": 0, "num_workers": 1}


def _duration(stmt: s.Stmt) -> int:
    """The times that a statement takes at most: two for each that loads or stores, for each iteration."""
    if isinstance(stmt, s.SeqStmt):
        return sum(map(_duration, stmt.stmts))
    if isinstance(stmt, s.For):
        if not isinstance(stmt.extent, e.IntImm):
            return 4 + _duration(stmt.body)  # one block
        return 4 + stmt.extent.value * _duration(stmt.body)
    if isinstance(stmt, s.IfThenElse):
        return 2 + _duration(stmt.then_case) + (_duration(stmt.else_case) if stmt.else_case else 0)
    if isinstance(stmt, s.Allocate | s.DeclBuffer | s.AttrStmt | s.LetStmt | s.AssertStmt):
        return 2 + _duration(stmt.body)
    return 4


class _Walker:
    """The accesses of statements, in order."""

    def __init__(self, tracked: set[Buffer], scratch: set[Buffer]) -> None:
        self.tracked, self.scratch = tracked, scratch
        self.loads: dict[Buffer, list[_Access]] = {}
        self.stores: dict[Buffer, list[_Access]] = {}
        self.ends: _Ints | None = None  # of the block at hand

    @nested
    def walk(self, stmt: s.Stmt, domain: _Domain) -> None:
        """Note the accesses of `stmt`."""
        if isinstance(stmt, s.SeqStmt):
            start = domain.start
            for one in stmt.stmts:
                self.walk(one, domain.moved(start))
                start = start + _duration(one)
        elif isinstance(stmt, s.For):
            self._loop(stmt, domain)
        elif isinstance(stmt, s.IfThenElse):
            self._branch(stmt, domain)
        elif isinstance(stmt, s.LetStmt):
            self._read(stmt.value, domain)
            values = {**domain.values, stmt.var: domain.bounds(stmt.value)}
            self.walk(stmt.body, _Domain(domain.start + 2, values, domain.runs, domain.block))
        elif isinstance(stmt, s.DeclBuffer) and not _is_part_of(stmt.address, self.scratch):
            raise _Unknown
        elif isinstance(stmt, s.Allocate | s.DeclBuffer | s.AttrStmt):
            self.walk(stmt.body, domain.moved(domain.start + 2))
        elif isinstance(stmt, s.BufferStore):
            for part in (stmt.value, *stmt.indices):
                self._read(part, domain)
            if stmt.buffer in self.tracked:
                _, high = self._index(stmt.buffer, stmt.indices, domain)
                self._note(self.stores, stmt.buffer, high + stmt.buffer.dtype.itemsize - 1, domain, 1)
        elif isinstance(stmt, s.Evaluate):
            self._read(stmt.value, domain, called=True)
        else:
            raise _Unknown

    def _loop(self, stmt: s.For, domain: _Domain) -> None:
        self._read(stmt.extent, domain)
        (first, _), (low, high) = (domain.bounds(part) for part in (stmt.min, stmt.extent))
        extent = int(high.max(initial=0))
        if extent <= 0:
            return
        fixed = isinstance(stmt.extent, e.IntImm) or bool((low == high).all())
        points = max(1, min(extent, _MOST // max(len(domain.start), 1))) if fixed and not domain.block else 1
        count = -(-extent // points)
        begins = np.tile(np.arange(0, extent, count, dtype=np.int64), len(domain.start))
        times = len(begins) // len(domain.start)
        begin = np.repeat(first, times) + begins
        limit = np.repeat(first + high, times) - 1
        values = {var: (np.repeat(a, times), np.repeat(b, times)) for var, (a, b) in domain.values.items()}
        values[stmt.var] = begin, np.minimum(begin + count - 1, limit)
        body = _duration(stmt.body)
        start = np.repeat(domain.start, times) + 2 + (begins * body if fixed else 0)
        runs = np.repeat(domain.runs, times) & (begin <= limit)
        inner = _Domain(start, values, runs, domain.block or count > 1)
        if not inner.block or domain.block:
            self.walk(stmt.body, inner)
            return
        self.ends = start + body * (count if fixed else 1) + 1
        self.walk(stmt.body, inner)
        self.ends = None

    def _branch(self, stmt: s.IfThenElse, domain: _Domain) -> None:
        self._read(stmt.condition, domain)
        low, high = domain.bounds(stmt.condition)
        after = domain.start + 2
        self.walk(stmt.then_case, domain.moved(after, runs=domain.runs & (high != 0)))
        if stmt.else_case is not None:
            after = after + _duration(stmt.then_case)
            self.walk(stmt.else_case, domain.moved(after, runs=domain.runs & (low == 0)))

    def _read(self, expr: Expr, domain: _Domain, called: bool = False) -> None:
        """Note the loads of an expression; an address is read, and written, from there to the buffer's end."""
        if (expr, called) in domain.seen:
            return
        domain.seen.add((expr, called))
        if isinstance(expr, e.Let):
            raise _Unknown
        if isinstance(expr, e.BufferLoad) and expr.buffer in self.tracked:
            low, _ = self._index(expr.buffer, expr.indices, domain)
            self._note(self.loads, expr.buffer, low, domain, 2 if called else 0)
        if isinstance(expr, e.Call) and expr.op in ("address_of", "access_region"):
            only_read = any(isinstance(arg, e.StringImm) and arg.value == "r" for arg in expr.args)
            for load in expr.args:
                if isinstance(load, e.BufferLoad) and load.buffer in self.tracked and not only_read:
                    end = np.full(len(domain.start), _bytes_of(load.buffer) - 1)
                    self._note(self.stores, load.buffer, end, domain, 1)
            called = True
        chosen = _alternatives(expr)
        if chosen is not None:
            condition, first, second = chosen
            self._read(condition, domain, called)
            low, high = domain.bounds(condition)
            for part, runs in ((first, high != 0), (second, low == 0)):
                self._read(part, domain.moved(domain.start, runs=domain.runs & runs), called)
            return
        for part in _parts(expr):
            self._read(part, domain, called)

    def _index(self, buffer: Buffer, indices: tuple[Expr, ...], domain: _Domain) -> _Bounds:
        """Bounds of the bytes at which elements start."""
        if len(indices) != 1:
            raise _Unknown
        low, high = domain.bounds(indices[0])
        size = buffer.dtype.itemsize
        last = _bytes_of(buffer) - size
        return np.clip(low * size, 0, last), np.clip(high * size, 0, last)

    def _note(self, table: dict[Buffer, list[_Access]], buffer: Buffer, where: _Ints, domain: _Domain, at: int) -> None:
        times = domain.start + at
        if domain.block:
            assert self.ends is not None
            times = np.repeat(self.ends, len(times) // len(self.ends)) if table is self.loads else domain.start
        if domain.runs.any():
            table.setdefault(buffer, []).append(_Access(times[domain.runs], where[domain.runs]))


def _is_part_of(address: Expr, buffers: set[Buffer]) -> bool:
    """True for the address of an element of one of `buffers`."""
    loads = address.args if isinstance(address, e.Call) and address.op == "address_of" else ()
    return bool(loads) and isinstance(loads[0], e.BufferLoad) and loads[0].buffer in buffers


def _alternatives(expr: Expr) -> tuple[Expr, Expr, Expr] | None:
    """Condition and values of a choice."""
    if isinstance(expr, e.Select):
        return expr.condition, expr.true_value, expr.false_value
    if isinstance(expr, e.Call) and expr.op == "if_then_else":
        condition, first, second = expr.args
        return condition, first, second
    return None


def _parts(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, e.BufferLoad):
        return expr.indices
    if isinstance(expr, e.BinaryExpr):
        return expr.a, expr.b
    if isinstance(expr, e.Call):
        return expr.args
    if isinstance(expr, e.Cast):
        return (expr.value,)
    if isinstance(expr, e.Not):
        return (expr.a,)
    if isinstance(expr, e.Var | e.IntImm | e.FloatImm | e.StringImm):
        return ()
    raise _Unknown  # vectors among them: C has none


_Rule: TypeAlias = Callable[[_Ints, _Ints, _Ints, _Ints], tuple[Any, Any]]


def _products(a: _Ints, b: _Ints, c: _Ints, d: _Ints) -> _Bounds:
    corners = [np.clip(x, -_FAR, _FAR).astype(float) * y for x in (a, b) for y in (c, d)]
    low, high = (np.clip(part, -_FAR, _FAR) for part in (np.minimum.reduce(corners), np.maximum.reduce(corners)))
    return low.astype(np.int64), high.astype(np.int64)


def _quotients(a: _Ints, b: _Ints, c: _Ints, d: _Ints) -> _Bounds:
    known = (c == d) & (c > 0)
    divisor = np.where(known, c, 1)
    return np.where(known, a // divisor, -_FAR), np.where(known, b // divisor, _FAR)


def _remainders(a: _Ints, b: _Ints, c: _Ints, d: _Ints) -> _Bounds:
    known = (c == d) & (c > 0)
    divisor = np.where(known, c, 1)
    same = known & (a // divisor == b // divisor)
    whole = np.where(known, divisor - 1, _FAR)
    return np.where(same, a % divisor, np.where(known, 0, -_FAR)), np.where(same, b % divisor, whole)


def _truncating(rule: _Rule) -> _Rule:
    """Of numbers that may be negative nothing is known."""

    def bounds(a: _Ints, b: _Ints, c: _Ints, d: _Ints) -> _Bounds:
        low, high = rule(a, b, c, d)
        return np.where(a >= 0, low, -_FAR), np.where(a >= 0, high, _FAR)

    return bounds


_RULES: dict[type, _Rule] = {
    e.Add: lambda a, b, c, d: (a + c, b + d),
    e.Sub: lambda a, b, c, d: (a - d, b - c),
    e.Mul: _products,
    e.FloorDiv: _quotients,
    e.FloorMod: _remainders,
    e.Div: _truncating(_quotients),
    e.Mod: _truncating(_remainders),
    e.Min: lambda a, b, c, d: (np.minimum(a, c), np.minimum(b, d)),
    e.Max: lambda a, b, c, d: (np.maximum(a, c), np.maximum(b, d)),
    e.LT: lambda a, b, c, d: (b < c, a < d),
    e.LE: lambda a, b, c, d: (b <= c, a <= d),
    e.GT: lambda a, b, c, d: (a > d, b > c),
    e.GE: lambda a, b, c, d: (a >= d, b >= c),
    e.EQ: lambda a, b, c, d: ((a == d) & (b == c), (a <= d) & (b >= c)),
    e.NE: lambda a, b, c, d: ((a > d) | (b < c), (a != d) | (b != c)),
    e.And: lambda a, b, c, d: ((a != 0) & (c != 0), (b != 0) & (d != 0)),
    e.Or: lambda a, b, c, d: ((a != 0) | (c != 0), (b != 0) | (d != 0)),
}
