"""What this machine can do: its fused multiply-add peak and its memory bandwidth, measured by compiled loop IR.

    fma_peak(threads=1)                  # GFLOP/s
    dot_peak(threads=1)                  # the same of dot products of bytes
    read_bandwidth(1 << 30, threads=2)   # GB/s
    copy_bandwidth(1 << 30, threads=2)   # GB/s, bytes read plus bytes written

The kernels are functions of the loop IR, compiled and run by the same code generator and thread pool as every model, so
a share of these figures is a share of what a kernel of this compiler could reach.
"""

from __future__ import annotations

import functools
import time

import numpy as np

from tilewright import tir
from tilewright.codegen.build import build
from tilewright.runtime.memory import aligned_empty
from tilewright.runtime.module import Module
from tilewright.target import Target
from tilewright.tir.dot_product import dot4
from tilewright.tir.op import broadcast, call_intrin
from tilewright.tir.stmt import BufferStore, For, ForKind, LetStmt, PrimFunc, Stmt, seq

#: Independent accumulators: more than latency times ports (4 x 2) of every processor known here, fewer than registers.
_ACCUMULATORS = 12
#: Multiply-adds of every accumulator in one iteration of the loop, so that counting the loop costs nothing.
_STEPS = 8
#: Iterations of a call: about a third of a millisecond, so that some calls of many are not interrupted.
_ROUNDS = 20_000
#: Bytes that one call of a memory kernel reads, in several passes where the level is small.
_BYTES_PER_CALL = 64 << 20
#: Calls are made for so long at a stretch, and then none for so long.
_SPELL_SECONDS, _REST_SECONDS = 0.01, 0.002


def fma_peak(threads: int = 1, seconds: float = 0.1) -> float:
    """GFLOP/s of independent multiply-adds in the widest vectors on `threads` threads (2 flops a multiply-add)."""
    lanes = _lanes()
    out = np.zeros(threads * lanes, np.float32)
    flops = 2.0 * lanes * _ACCUMULATORS * _STEPS * _ROUNDS * threads
    best = _fastest(_module(threads), "fma_peak", (out, _ROUNDS, 0.5), seconds)
    return flops / best / 1e9


def dot_peak(threads: int = 1, seconds: float = 0.1) -> float:
    """10^9 operations a second of dot products of four bytes (2 for each product), as int8 kernels use them."""
    out = np.zeros(threads * _lanes(), np.int32)
    operations = 8.0 * _lanes() * _ACCUMULATORS * _STEPS * _ROUNDS * threads
    best = _fastest(_module(threads), "dot_peak", (out, _ROUNDS, 1), seconds)
    return operations / best / 1e9


def read_bandwidth(nbytes: int, threads: int = 1, seconds: float = 0.1) -> float:
    """GB/s (10^9 bytes) at which `threads` threads read, in equal shares, the same `nbytes` bytes again and again."""
    steps, passes = _sizes(nbytes, threads)
    data = aligned_empty((steps * _stride(),), np.dtype(np.float32))
    data[:] = 1.0
    out = np.zeros(threads * _lanes(), np.float32)
    best = _fastest(_module(threads), "read_all", (data, out, steps, passes), seconds)
    return data.nbytes * passes / best / 1e9


def copy_bandwidth(nbytes: int, threads: int = 1, seconds: float = 0.1) -> float:
    """GB/s of copying between two halves of `nbytes` bytes: what is read plus what is written, both counted once."""
    steps, passes = _sizes(nbytes // 2, threads)
    source, destination = (aligned_empty((steps * _stride(),), np.dtype(np.float32)) for _ in range(2))
    source[:], destination[:] = 1.0, 0.0
    best = _fastest(_module(threads), "copy_all", (source, destination, steps, passes), seconds)
    return 2 * source.nbytes * passes / best / 1e9


def memory_sizes(target: Target | None = None) -> dict[str, int]:
    """Bytes to measure each level of memory with: half of one core's L2, half of the L3, and far more than the L3."""
    target = target or Target.host()
    return {"L2": target.l2 // 2, "L3": target.l3 // 2, "DRAM": max(8 * target.l3, 256 << 20)}


def _fastest(module: Module, name: str, args: tuple[object, ...], seconds: float) -> float:
    """The least time of a call of `name`, over calls that take about `seconds` together.

    They come in spells with a rest between: threads that a busy system has put on one core get a new place when woken.
    """
    function = module[name]
    deadline = time.perf_counter() + seconds
    best = min(function.time(*args, repeat=2))
    while time.perf_counter() < deadline:
        time.sleep(_REST_SECONDS)
        best = min(best, *function.time(*args, repeat=max(2, int(_SPELL_SECONDS / best))))
    return best


def _sizes(nbytes: int, threads: int) -> tuple[int, int]:
    """Steps of all lanes of all accumulators that cover `nbytes`, and passes that make one call about a millisecond."""
    steps = max(threads, nbytes // (4 * _stride()))
    return steps, max(1, _BYTES_PER_CALL // max(nbytes, 1))


def _lanes() -> int:
    return Target.host().vector_bits // 32


def _stride() -> int:
    """Floats of one step of the memory kernels: a vector for each of eight accumulators."""
    return 8 * _lanes()


@functools.lru_cache(maxsize=8)
def _module(threads: int) -> Module:
    return build([_fma_kernel(), _dot_kernel(), _read_kernel(), _copy_kernel()], Target.host(), threads)


def _fma_kernel() -> PrimFunc:
    """out[worker] = sum of accumulators, each `rounds * _STEPS` times multiplied by `factor` and added to."""
    lanes = _lanes()
    out = _per_worker()
    rounds, factor, i = tir.Var("rounds", "int32"), tir.Var("factor", "float32"), tir.Var("i", "int32")
    local = tir.Buffer("accumulators", (_ACCUMULATORS * lanes,), scope="local")
    factors = broadcast(factor, lanes)
    step = [
        _store(local, a * lanes, call_intrin(factors.dtype, "fma", _load(local, a * lanes), factors, factors))
        for _ in range(_STEPS)
        for a in range(_ACCUMULATORS)
    ]
    body = seq(
        *(_store(local, a * lanes, broadcast(tir.const(float(a), "float32"), lanes)) for a in range(_ACCUMULATORS)),
        _loop(i, 0, rounds, seq(*step)),
        _store(out, _worker() * lanes, _sum(local, _ACCUMULATORS)),
    )
    return PrimFunc("fma_peak", (out, rounds, factor), tir.Allocate(local, body), {"spmd": True})


def _dot_kernel() -> PrimFunc:
    """out[worker] = sum of accumulators, each `rounds * _STEPS` times added the dot product of `word`'s bytes to."""
    lanes = _lanes()
    out = _per_worker("int32")
    rounds, word, i = tir.Var("rounds", "int32"), tir.Var("word", "int32"), tir.Var("i", "int32")
    local = tir.Buffer("accumulators", (_ACCUMULATORS * lanes,), "int32", scope="local")
    data, weight = (
        call_intrin(f"{dtype}x{4 * lanes}", "reinterpret", broadcast(word, lanes)) for dtype in ("uint8", "int8")
    )
    step = [
        _store(local, a * lanes, dot4(_load(local, a * lanes), data, weight))
        for _ in range(_STEPS)
        for a in range(_ACCUMULATORS)
    ]
    body = seq(
        *(_store(local, a * lanes, broadcast(tir.const(a, "int32"), lanes)) for a in range(_ACCUMULATORS)),
        _loop(i, 0, rounds, seq(*step)),
        _store(out, _worker() * lanes, _sum(local, _ACCUMULATORS)),
    )
    return PrimFunc("dot_peak", (out, rounds, word), tir.Allocate(local, body), {"spmd": True})


def _read_kernel() -> PrimFunc:
    """out[worker] = sum over this worker's share of `data`, `passes` times."""
    lanes = _lanes()
    steps, passes, p, i = (tir.Var(name, "int32") for name in ("steps", "passes", "p", "i"))
    data, out = tir.Buffer("data", (steps * _stride(),)), _per_worker()
    local = tir.Buffer("accumulators", (8 * lanes,), scope="local")
    add = [_store(local, a * lanes, _load(local, a * lanes) + _load(data, i * _stride() + a * lanes)) for a in range(8)]
    body = seq(
        *(_store(local, a * lanes, broadcast(tir.const(0.0, "float32"), lanes)) for a in range(8)),
        _loop(p, 0, passes, _share(i, steps, seq(*add))),
        _store(out, _worker() * lanes, _sum(local, 8)),
    )
    return PrimFunc("read_all", (data, out, steps, passes), tir.Allocate(local, body), {"spmd": True})


def _copy_kernel() -> PrimFunc:
    """destination = source over this worker's share, `passes` times."""
    lanes = _lanes()
    steps, passes, p, i = (tir.Var(name, "int32") for name in ("steps", "passes", "p", "i"))
    source, destination = (tir.Buffer(name, (steps * _stride(),)) for name in ("source", "destination"))
    copy = [_store(destination, i * _stride() + a * lanes, _load(source, i * _stride() + a * lanes)) for a in range(8)]
    body = _loop(p, 0, passes, _share(i, steps, seq(*copy)))
    return PrimFunc("copy_all", (source, destination, steps, passes), body, {"spmd": True})


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


def _at(index: int | tir.Expr) -> tir.Expr:
    base = tir.const(index, "int32") if isinstance(index, int) else index
    return tir.Ramp(base, tir.const(1, "int32"), _lanes())


def _load(buffer: tir.Buffer, index: int | tir.Expr) -> tir.Expr:
    return tir.BufferLoad(buffer, (_at(index),))


def _store(buffer: tir.Buffer, index: int | tir.Expr, value: tir.Expr) -> Stmt:
    return BufferStore(buffer, value, (_at(index),))


def _sum(local: tir.Buffer, count: int) -> tir.Expr:
    return functools.reduce(tir.add, [_load(local, a * _lanes()) for a in range(count)])
