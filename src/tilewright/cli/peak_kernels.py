"""Kernels of the loop IR that keep one unit of the processor busy; `peak` and `calibrate` time them.

Each takes a number of rounds or passes, does the same instructions in every one, and writes a result of all of them, so
that nothing can be left out. Accumulators are independent unless a chain is what is measured.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from tilewright import tir
from tilewright.target import Target
from tilewright.tir.dot_product import dot4
from tilewright.tir.op import broadcast, call_intrin
from tilewright.tir.stmt import BufferStore, Evaluate, For, ForKind, LetStmt, PrimFunc, Stmt, seq

#: Independent accumulators: more than latency times ports (4 x 2) of every processor known here, fewer than registers.
ACCUMULATORS = 12
#: Instructions of every accumulator in one iteration of the loop, so that counting the loop costs nothing.
STEPS = 8
#: Vectors in one step of the kernels that go through memory.
_STREAMS = 8
#: Vectors of the register tile that `tile_kernel` computes.
_TILE_VECTORS = 2
#: Vectors that are shuffled with one another.
_SHUFFLED = 8

#: What `stream_kernel` does with a buffer at an element, for one accumulator.
Term = Callable[[tir.Buffer, tir.Expr], tir.Expr]


def lanes() -> int:
    """Floats in a vector of this machine."""
    return Target.host().machine.lanes()


def stride() -> int:
    """Floats of one step of the memory kernels: a vector for each of eight accumulators."""
    return _STREAMS * lanes()


def fma_kernel(name: str = "fma_peak", accumulators: int = ACCUMULATORS, width: int | None = None) -> PrimFunc:
    """out[worker] = sum of accumulators, each `rounds * STEPS` times multiplied by `factor` and added to.

    With one accumulator each multiply-add waits for the one before.
    """
    width = width or lanes()
    out = _per_worker()
    rounds, factor, i = tir.Var("rounds", "int32"), tir.Var("factor", "float32"), tir.Var("i", "int32")
    local = tir.Buffer("accumulators", (accumulators * width,), scope="local")
    factors = broadcast(factor, width)
    positions = [_at(a * width, width) for a in range(accumulators)]
    step = [
        _put(local, at, call_intrin(factors.dtype, "fma", _get(local, at), factors, factors))
        for _ in range(STEPS)
        for at in positions
    ]
    body = seq(
        *(_put(local, at, broadcast(tir.const(float(a), "float32"), width)) for a, at in enumerate(positions)),
        _loop(i, 0, rounds, seq(*step)),
        _put(out, _at(_worker() * width, width), _sum(local, positions)),
    )
    return PrimFunc(name, (out, rounds, factor), tir.Allocate(local, body), {"spmd": True})


def tile_shape() -> tuple[int, int, int]:
    """Rows, vectors and depth of `tile_kernel`: as the registers of this machine and half of its L1 hold."""
    target = Target.host()
    rows = max(1, (target.vector_registers - 2 * _TILE_VECTORS) // _TILE_VECTORS)
    return rows, _TILE_VECTORS, target.machine.l1.size // 2 // (4 * (rows + _TILE_VECTORS * lanes()))


def tile_kernel() -> PrimFunc:
    """The register tile of a matrix product again and again: `rounds` times rows of `data` by vectors of `panel`.

    out[worker] = sum of all accumulators. In each step of the depth a few vectors are loaded and a number a row is
    spread over one, so that this is the peak beside the loads that a product cannot do without.
    """
    rows, vectors, depth = tile_shape()
    out, rounds = _per_worker(), tir.Var("rounds", "int32")
    i, k = tir.Var("i", "int32"), tir.Var("k", "int32")
    data, panel = tir.Buffer("data", (depth * rows,)), tir.Buffer("panel", (depth * vectors * lanes(),))
    local = tir.Buffer("accumulators", (rows * vectors * lanes(),), scope="local")
    positions = [_at(a * lanes()) for a in range(rows * vectors)]
    loaded = [tir.Var(f"v{b}", f"float32x{lanes()}") for b in range(vectors)]
    steps: list[Stmt] = []
    for row in range(rows):
        value = tir.Var(f"x{row}", f"float32x{lanes()}")
        parts = zip(positions[row * vectors :], loaded, strict=False)
        added = seq(*(_put(local, at, call_intrin(v.dtype, "fma", value, v, _get(local, at))) for at, v in parts))
        steps.append(LetStmt(value, spread_element(data, k * rows + row), added))
    step = seq(*steps)
    for b, vector in enumerate(loaded):
        step = LetStmt(vector, _vector(panel, (k * vectors + b) * lanes()), step)
    body = seq(
        *(_put(local, at, broadcast(tir.const(0.0, "float32"), lanes())) for at in positions),
        _loop(i, 0, rounds, _loop(k, 0, tir.const(depth, "int32"), step)),
        _put(out, _at(_worker() * lanes()), _sum(local, positions)),
    )
    return PrimFunc("tile_peak", (data, panel, out, rounds), tir.Allocate(local, body), {"spmd": True})


def dot_kernel() -> PrimFunc:
    """out[worker] = sum of accumulators, each `rounds * STEPS` times added the dot product of `word`'s bytes to."""
    out = _per_worker("int32")
    rounds, word, i = tir.Var("rounds", "int32"), tir.Var("word", "int32"), tir.Var("i", "int32")
    local = tir.Buffer("accumulators", (ACCUMULATORS * lanes(),), "int32", scope="local")
    data, weight = (
        call_intrin(f"{dtype}x{4 * lanes()}", "reinterpret", broadcast(word, lanes())) for dtype in ("uint8", "int8")
    )
    positions = [_at(a * lanes()) for a in range(ACCUMULATORS)]
    step = [_put(local, at, dot4(_get(local, at), data, weight)) for _ in range(STEPS) for at in positions]
    body = seq(
        *(_put(local, at, broadcast(tir.const(a, "int32"), lanes())) for a, at in enumerate(positions)),
        _loop(i, 0, rounds, seq(*step)),
        _put(out, _at(_worker() * lanes()), _sum(local, positions)),
    )
    return PrimFunc("dot_peak", (out, rounds, word), tir.Allocate(local, body), {"spmd": True})


def clock_kernel() -> PrimFunc:
    """A chain of 2 * STEPS integer additions and exclusive ors a round, of one cycle each, beside multiply-adds.

    The multiply-adds, one for each accumulator a round, take less time than the chain and make the clock that of
    vector code.
    """
    out, total = _per_worker(), tir.Buffer("total", (1,), "int32")
    rounds, word, i = tir.Var("rounds", "int32"), tir.Var("word", "int32"), tir.Var("i", "int32")
    factor = tir.Var("factor", "float32")
    local = tir.Buffer("accumulators", (STEPS * lanes(),), scope="local")
    chain = tir.Buffer("chain", (1,), "int32", scope="local")
    zero, factors = tir.const(0, "int32"), broadcast(factor, lanes())
    positions = [_at(a * lanes()) for a in range(STEPS)]
    step: list[Stmt] = []
    for at in positions:
        added = _get(chain, zero) + word
        step.append(_put(chain, zero, call_intrin("int32", "bitwise_xor", added, rounds)))
        step.append(_put(local, at, call_intrin(factors.dtype, "fma", _get(local, at), factors, factors)))
    body = seq(
        _put(chain, zero, word),
        *(_put(local, at, factors) for at in positions),
        _loop(i, 0, rounds, seq(*step)),
        _put(total, zero, _get(chain, zero)),
        _put(out, _at(0), _sum(local, positions)),
    )
    allocated = tir.Allocate(chain, tir.Allocate(local, body))
    return PrimFunc("clock", (out, total, rounds, word, factor), allocated, {"spmd": True})


def read_kernel() -> PrimFunc:
    """out[worker] = sum over this worker's share of `data`, `passes` times."""
    steps, passes, p, i = (tir.Var(name, "int32") for name in ("steps", "passes", "p", "i"))
    data, out = tir.Buffer("data", (steps * stride(),)), _per_worker()
    local = tir.Buffer("accumulators", (stride(),), scope="local")
    positions = [_at(a * lanes()) for a in range(_STREAMS)]
    add = [
        _put(local, at, _get(local, at) + _get(data, _at(i * stride() + a * lanes()))) for a, at in enumerate(positions)
    ]
    body = seq(
        *(_put(local, at, broadcast(tir.const(0.0, "float32"), lanes())) for at in positions),
        _loop(p, 0, passes, _share(i, steps, seq(*add))),
        _put(out, _at(_worker() * lanes()), _sum(local, positions)),
    )
    return PrimFunc("read_all", (data, out, steps, passes), tir.Allocate(local, body), {"spmd": True})


def copy_kernel() -> PrimFunc:
    """destination = source over this worker's share, `passes` times."""
    steps, passes, p, i = (tir.Var(name, "int32") for name in ("steps", "passes", "p", "i"))
    source, destination = (tir.Buffer(name, (steps * stride(),)) for name in ("source", "destination"))
    positions = [_at(i * stride() + a * lanes()) for a in range(_STREAMS)]
    body = _loop(p, 0, passes, _share(i, steps, seq(*(_put(destination, at, _get(source, at)) for at in positions))))
    return PrimFunc("copy_all", (source, destination, steps, passes), body, {"spmd": True})


def store_kernel() -> PrimFunc:
    """`data` filled with `factor` by one worker, `passes` times."""
    steps, passes, p, i = (tir.Var(name, "int32") for name in ("steps", "passes", "p", "i"))
    factor, data = tir.Var("factor", "float32"), tir.Buffer("data", (steps * stride(),))
    positions = [_at(i * stride() + a * lanes()) for a in range(_STREAMS)]
    body = _loop(
        p, 0, passes, _loop(i, 0, steps, seq(*(_put(data, at, broadcast(factor, lanes())) for at in positions)))
    )
    return PrimFunc("store", (data, factor, steps, passes), body, {"spmd": True})


def stream_kernel(name: str, term: Term) -> PrimFunc:
    """out = exclusive or of `term(data, i)` as integers over the vectors of `data`, one worker, `passes` times."""
    steps, passes, p, i = (tir.Var(n, "int32") for n in ("steps", "passes", "p", "i"))
    data, out = tir.Buffer("data", (steps * stride(),)), tir.Buffer("out", (lanes(),), "int32")
    made = [term(data, i * stride() + a * lanes()) for a in range(_STREAMS)]
    width = made[0].dtype.lanes
    integers = "int32" if width == 1 else f"int32x{width}"
    bits = [value if value.dtype == integers else call_intrin(integers, "reinterpret", value) for value in made]
    local = tir.Buffer("accumulators", (_STREAMS * width,), "int32", scope="local")
    positions = [_at(a * width, width) for a in range(_STREAMS)]
    take = [
        _put(local, at, call_intrin(value.dtype, "bitwise_xor", _get(local, at), value))
        for at, value in zip(positions, bits, strict=True)
    ]
    body = seq(
        *(_put(local, at, at) for at in positions),
        _loop(p, 0, passes, _loop(i, 0, steps, seq(*take))),
        _put(out, _at(0, width), _sum(local, positions)),
    )
    return PrimFunc(name, (data, out, steps, passes), tir.Allocate(local, body), {"spmd": True})


def shuffle_kernel() -> PrimFunc:
    """`rounds` times eight vectors are interleaved in pairs: one round of a transposition in registers."""
    width = lanes()
    out, rounds, i = tir.Buffer("out", (stride(),)), tir.Var("rounds", "int32"), tir.Var("i", "int32")
    local = tir.Buffer("vectors", (stride(),), scope="local")
    positions = [_at(a * width) for a in range(_SHUFFLED)]
    picks = [lane + which * width for lane in range(width) for which in range(2)]
    values = [tir.Var(f"v{a}", f"float32x{width}") for a in range(_SHUFFLED)]
    half = _SHUFFLED // 2
    mixed = [
        tir.Shuffle((values[a], values[a + half]), tuple(part))
        for a in range(half)
        for part in (picks[:width], picks[width:])
    ]
    step = seq(*(_put(local, at, value) for at, value in zip(positions, mixed, strict=True)))
    for at, value in zip(positions, values, strict=True):
        step = LetStmt(value, _get(local, at), step)
    body = seq(
        *(_put(local, at, _get(out, at)) for at in positions),
        _loop(i, 0, rounds, step),
        *(_put(out, at, _get(local, at)) for at in positions),
    )
    return PrimFunc("shuffle", (out, rounds), tir.Allocate(local, body), {"spmd": True})


def barrier_kernel() -> PrimFunc:
    """All workers meet `rounds` times."""
    rounds, i = tir.Var("rounds", "int32"), tir.Var("i", "int32")
    meet = Evaluate(tir.Call("int32", "barrier", ()))
    return PrimFunc("barriers", (rounds,), _loop(i, 0, rounds, meet), {"spmd": True})


def _share(var: tir.Var, extent: tir.Var, body: Stmt) -> Stmt:
    """`body` for this worker's part of `range(extent)`."""
    workers = call_intrin("int32", "num_workers")
    low, high = tir.Var("low", "int32"), tir.Var("high", "int32")
    loop = _loop(var, low, high - low, body)
    first = tir.floordiv(extent * _worker(), workers)
    return LetStmt(low, first, LetStmt(high, tir.floordiv(extent * (_worker() + 1), workers), loop))


def _per_worker(dtype: str = "float32") -> tir.Buffer:
    """One vector of results for each worker, of whom the caller alone knows the number."""
    return tir.Buffer("out", (tir.Var("length", "int32"),), dtype)


def _worker() -> tir.Expr:
    return call_intrin("int32", "worker_id")


def _loop(var: tir.Var, low: object, extent: tir.Expr, body: Stmt) -> Stmt:
    return For(var, tir.const(low) if isinstance(low, int) else low, extent, ForKind.SERIAL, body)  # type: ignore[arg-type]


def _at(index: int | tir.Expr, width: int | None = None) -> tir.Expr:
    """The elements of a vector (by default a whole one) from `index` on."""
    base = tir.const(index, "int32") if isinstance(index, int) else index
    width = width or lanes()
    return base if width == 1 else tir.Ramp(base, tir.const(1, "int32"), width)


def _get(buffer: tir.Buffer, index: tir.Expr) -> tir.Expr:
    return tir.BufferLoad(buffer, (index,))


def _put(buffer: tir.Buffer, index: tir.Expr, value: tir.Expr) -> Stmt:
    return BufferStore(buffer, value, (index,))


def _sum(local: tir.Buffer, positions: list[tir.Expr]) -> tir.Expr:
    return functools.reduce(tir.add, [_get(local, at) for at in positions])


# --------------------------------------------------------------------------------------------- terms of a stream
def whole_vectors(data: tir.Buffer, index: tir.Expr) -> tir.Expr:
    """Two vectors, as they lie in memory: with one, arithmetic ports would be as busy as those that load."""
    return _both(_vector(data, index), _vector(data, index + stride()))


def spread_element(data: tir.Buffer, index: tir.Expr) -> tir.Expr:
    """One element in all lanes of a vector."""
    return broadcast(_get(data, index), lanes())


def _both(a: tir.Expr, b: tir.Expr) -> tir.Expr:
    bits = [call_intrin(f"int32x{lanes()}", "reinterpret", x) for x in (a, b)]
    return call_intrin(bits[0].dtype, "bitwise_xor", *bits)


def _vector(data: tir.Buffer, index: tir.Expr) -> tir.Expr:
    return _get(data, _at(index))


def gathered_vector(data: tir.Buffer, index: tir.Expr) -> tir.Expr:
    """Every third element: loads of single elements, as LLVM cannot do otherwise for most strides."""
    return _get(data, tir.Ramp(index, tir.const(3, "int32"), lanes()))


def sum_of_lanes(data: tir.Buffer, index: tir.Expr) -> tir.Expr:
    """The sum of one vector's lanes."""
    return call_intrin("float32", "vector_reduce_add", _vector(data, index))


def quotient(data: tir.Buffer, index: tir.Expr) -> tir.Expr:
    """One divided by each lane of a vector."""
    return tir.div(broadcast(tir.const(1.0, "float32"), lanes()), _vector(data, index))


def exponential(data: tir.Buffer, index: tir.Expr) -> tir.Expr:
    """The exponential of each lane, as kernels compute it."""
    vector = _vector(data, index)
    return call_intrin(vector.dtype, "exp", vector)
