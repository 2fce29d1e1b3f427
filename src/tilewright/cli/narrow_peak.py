"""Peak rates of products of narrow numbers: dot products of bytes and of bfloat16, and products of matrix registers.

    narrow_peak("int8", threads=1)        # 10^9 operations a second, 2 for each product
    narrow_peak("bfloat16", threads=1)

What the processor has of both counts, the faster of them. Without instructions of bfloat16 that peak is the one of
float32, in which the products are then computed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from tilewright import tir
from tilewright.backend.build import build
from tilewright.cli.peak import dot_peak, fastest, fma_peak
from tilewright.cli.peak_kernels import ACCUMULATORS, STEPS, lanes
from tilewright.runtime.memory import aligned_empty
from tilewright.runtime.module import Module
from tilewright.target import Target
from tilewright.tir.dot_product import SUMS, dot2
from tilewright.tir.matrix_tiles import PRODUCTS, ROW_BYTES, ROWS, tile_load, tile_product, tile_store, tile_zero
from tilewright.tir.op import broadcast, call_intrin
from tilewright.tir.stmt import BufferStore, For, ForKind, LetStmt, PrimFunc, Stmt, seq

#: Operand types of products that have a peak of their own; the second is that of weights.
NARROW = {"int8": ("uint8", "int8"), "bfloat16": ("bfloat16", "bfloat16")}
#: Iterations of a call, as those of `peak`.
_ROUNDS = 20_000
#: Matrix registers of sums, of data and of weights, two by two.
_SUMS, _LEFT, _RIGHT = 4, 4, 6


def narrow_peak(kind: str, threads: int = 1, seconds: float = 0.1) -> float:
    """10^9 operations a second of products of `kind`, one of `NARROW`, on `threads` threads."""
    target = Target.host()
    rates = [dot_peak(threads, seconds) if kind == "int8" else _pair_peak(target, threads, seconds)]
    if target.machine.tile_product and target.supports("amx-bf16" if kind == "bfloat16" else "amx-int8"):
        rates.append(_tile_peak(kind, threads, seconds))
    return max(rates)


def _pair_peak(target: Target, threads: int, seconds: float) -> float:
    if not target.machine.pair_dot_per_cycle:
        return fma_peak(threads, seconds)
    out = np.zeros(threads * lanes(), np.float32)
    operations = 4.0 * lanes() * ACCUMULATORS * STEPS * _ROUNDS * threads
    return operations / fastest(_module("pair", threads), "pair_peak", (out, _ROUNDS, 1), seconds) / 1e9


def _tile_peak(kind: str, threads: int, seconds: float) -> float:
    out = aligned_empty((threads * _SUMS * ROWS * ROWS,), np.dtype(SUMS[NARROW[kind][0]][1]))
    data = aligned_empty((ROWS * ROW_BYTES,), np.dtype(np.uint8))
    data[:] = 0
    operations = 2.0 * ROWS * ROWS * ROW_BYTES / (2 if kind == "bfloat16" else 1) * _SUMS * _ROUNDS * threads
    return operations / fastest(_module(kind, threads), "tile_products", (out, data, _ROUNDS), seconds) / 1e9


@functools.lru_cache(maxsize=8)
def _module(kind: str, threads: int) -> Module:
    return build([pair_kernel() if kind == "pair" else tiles_kernel(kind)], Target.host(), threads)


def pair_kernel() -> PrimFunc:
    """out[worker] = sum of accumulators, each `rounds * STEPS` times added the products of pairs of bfloat16 to."""
    out = tir.Buffer("out", (tir.Var("length", "int32"),))
    rounds, word, i = (tir.Var(name, "int32") for name in ("rounds", "word", "i"))
    local = tir.Buffer("accumulators", (ACCUMULATORS * lanes(),), scope="local")
    pairs = call_intrin(f"bfloat16x{2 * lanes()}", "reinterpret", broadcast(word, lanes()))
    at = [tir.Ramp(tir.const(a * lanes(), "int32"), tir.const(1, "int32"), lanes()) for a in range(ACCUMULATORS)]
    held = tir.Var("pairs", f"bfloat16x{2 * lanes()}")
    steps: list[Stmt] = [
        BufferStore(local, dot2(tir.BufferLoad(local, (p,)), held, held), (p,)) for _ in range(STEPS) for p in at
    ]
    accumulated: list[tir.Expr] = [tir.BufferLoad(local, (p,)) for p in at]
    total = functools.reduce(tir.add, accumulated)
    mine = tir.Ramp(call_intrin("int32", "worker_id") * lanes(), tir.const(1, "int32"), lanes())
    body = seq(
        *(BufferStore(local, broadcast(tir.const(float(a), "float32"), lanes()), (p,)) for a, p in enumerate(at)),
        LetStmt(held, pairs, _repeated(i, rounds, steps)),
        BufferStore(out, total, (mine,)),
    )
    return PrimFunc("pair_peak", (out, rounds, word), tir.Allocate(local, body), {"spmd": True})


def tiles_kernel(kind: str) -> PrimFunc:
    """out[worker] = four matrix registers of sums, each `rounds` times added the product of `data` with itself to."""
    data_type, weight_type = NARROW[kind]
    _, wide = SUMS[data_type]
    rounds, i = tir.Var("rounds", "int32"), tir.Var("i", "int32")
    out = tir.Buffer("out", (tir.Var("length", "int32"),), wide)
    data = tir.Buffer("data", (ROWS * ROW_BYTES,), "uint8")
    rows = [tir.BufferLoad(data, (tir.const(row * ROW_BYTES, "int32"),)) for row in (0, 1)]
    loads = [tile_load(register, ROWS, rows[0], rows[1]) for register in range(_LEFT, _RIGHT + 2)]
    name = PRODUCTS[data_type, weight_type]
    products = [tile_product(n, _LEFT + n // 2, _RIGHT + n % 2, name) for n in range(_SUMS)]
    stores: list[Stmt] = []
    for n in range(_SUMS):
        first = (call_intrin("int32", "worker_id") * _SUMS + n) * ROWS * ROWS
        stores.append(tile_store(n, ROWS, *(tir.BufferLoad(out, (first + row * ROWS,)) for row in (0, 1))))
    body = seq(*(tile_zero(n, ROWS) for n in range(_SUMS)), *loads, _repeated(i, rounds, products), *stores)
    return PrimFunc("tile_products", (out, data, rounds), body, {"spmd": True})


def _repeated(var: tir.Var, extent: tir.Expr, steps: Sequence[Stmt]) -> Stmt:
    return For(var, tir.const(0, "int32"), extent, ForKind.SERIAL, seq(*steps))
