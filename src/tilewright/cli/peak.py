"""Peak rates of this machine: fused multiply-add throughput and memory bandwidth, measured by compiled loop IR.

    fma_peak(threads=1)                  # GFLOP/s
    tile_peak(threads=1)                 # the same beside the loads of a matrix product
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

from tilewright.backend.build import build
from tilewright.cli.peak_kernels import (
    ACCUMULATORS,
    STEPS,
    copy_kernel,
    dot_kernel,
    fma_kernel,
    lanes,
    read_kernel,
    stride,
    tile_kernel,
    tile_shape,
)
from tilewright.runtime.memory import Array, aligned_empty
from tilewright.runtime.module import Module
from tilewright.target import Target

#: Iterations of a call: about a third of a millisecond, so that some calls of many are not interrupted.
_ROUNDS = 20_000
#: Bytes that one call of a memory kernel reads, in several passes where the level is small.
_BYTES_PER_CALL = 64 << 20
#: Bounds of what is read to measure memory beyond every cache.
_LEAST_MEMORY, _MOST_MEMORY = 256 << 20, 1 << 30
#: Calls are made for so long at a stretch, and then none for so long.
_SPELL_SECONDS, _REST_SECONDS = 0.01, 0.002


def fma_peak(threads: int = 1, seconds: float = 0.1) -> float:
    """GFLOP/s of independent multiply-adds in the widest vectors on `threads` threads (2 flops a multiply-add)."""
    out = np.zeros(threads * lanes(), np.float32)
    flops = 2.0 * lanes() * ACCUMULATORS * STEPS * _ROUNDS * threads
    best = fastest(_module(threads), "fma_peak", (out, _ROUNDS, 0.5), seconds)
    return flops / best / 1e9


def tile_peak(threads: int = 1, seconds: float = 0.1) -> float:
    """GFLOP/s of a matrix product's register tile whose operands lie in the first-level cache.

    No product can be faster. On some processors the loads beside the multiply-adds lower the clock, so that this is
    less than `fma_peak` though the arithmetic is never waiting.
    """
    rows, vectors, depth = tile_shape()
    data = aligned_empty((depth * rows,), np.dtype(np.float32))
    panel, out = aligned_empty((depth * vectors * lanes(),), data.dtype), np.zeros(threads * lanes(), np.float32)
    data[:], panel[:] = 0.5, 0.5
    rounds = max(1, STEPS * ACCUMULATORS * _ROUNDS // (rows * vectors * depth))
    best = fastest(_module(threads), "tile_peak", (data, panel, out, rounds), seconds)
    return 2.0 * lanes() * rows * vectors * depth * rounds * threads / best / 1e9


def dot_peak(threads: int = 1, seconds: float = 0.1) -> float:
    """10^9 operations a second of dot products of four bytes (2 for each product), as int8 kernels use them."""
    out = np.zeros(threads * lanes(), np.int32)
    operations = 8.0 * lanes() * ACCUMULATORS * STEPS * _ROUNDS * threads
    best = fastest(_module(threads), "dot_peak", (out, _ROUNDS, 1), seconds)
    return operations / best / 1e9


def read_bandwidth(nbytes: int, threads: int = 1, seconds: float = 0.1) -> float:
    """GB/s (10^9 bytes) at which `threads` threads read, in equal shares, the same `nbytes` bytes again and again."""
    data = aligned_empty((max(threads, nbytes // (4 * stride())) * stride(),), np.dtype(np.float32))
    data[:] = 1.0
    return read_rate(data, threads, seconds)


def read_rate(data: Array, threads: int = 1, seconds: float = 0.1) -> float:
    """The same of an array of float32, whose length is a multiple of `stride()`."""
    out = np.zeros(threads * lanes(), np.float32)
    passes = _passes(data.nbytes)
    best = fastest(_module(threads), "read_all", (data, out, data.size // stride(), passes), seconds)
    return data.nbytes * passes / best / 1e9


def copy_bandwidth(nbytes: int, threads: int = 1, seconds: float = 0.1) -> float:
    """GB/s of copying between two halves of `nbytes` bytes: what is read plus what is written, both counted once."""
    steps = max(threads, nbytes // 2 // (4 * stride()))
    source, destination = (aligned_empty((steps * stride(),), np.dtype(np.float32)) for _ in range(2))
    source[:], destination[:] = 1.0, 0.0
    passes = _passes(nbytes // 2)
    best = fastest(_module(threads), "copy_all", (source, destination, steps, passes), seconds)
    return 2 * source.nbytes * passes / best / 1e9


def memory_sizes(target: Target | None = None) -> dict[str, int]:
    """Bytes to measure each level of memory with: half of one core's L2, what lies well in the L3, more than the L3.

    A virtual machine may report an L3 that it shares with many others: eight times the L2 is a part it can have.
    No more than a gigabyte stands for memory.
    """
    machine = (target or Target.host()).machine
    third = max(min(machine.l3.size // 2, 8 * machine.l2.size), machine.l2.size // 2)
    return {"L2": machine.l2.size // 2, "L3": third, "DRAM": max(_LEAST_MEMORY, min(8 * machine.l3.size, _MOST_MEMORY))}


def fastest(module: Module, name: str, args: tuple[object, ...], seconds: float) -> float:
    """The least time of a call of `name`, over calls that take about `seconds` together.

    They come in spells with a rest between: threads that a busy system has put on one core get a new position when
    woken."""
    function = module[name]
    deadline = time.perf_counter() + seconds
    best = min(function.time(*args, repeat=2))
    while time.perf_counter() < deadline:
        time.sleep(_REST_SECONDS)
        best = min(best, *function.time(*args, repeat=max(2, int(_SPELL_SECONDS / best))))
    return best


def _passes(nbytes: int) -> int:
    """Passes over `nbytes` that make one call about a millisecond."""
    return max(1, _BYTES_PER_CALL // max(nbytes, 1))


@functools.lru_cache(maxsize=8)
def _module(threads: int) -> Module:
    return build([fma_kernel(), tile_kernel(), dot_kernel(), read_kernel(), copy_kernel()], Target.host(), threads)
