"""Energy of arithmetic and of memory accesses, from published figures: an estimate that ranks, no measurement.

Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014, figure 1.1.9: 45 nm, 0.9 V. A
processor spends several times as much on instructions around the arithmetic, alike for all types.
"""

from __future__ import annotations

#: Picojoules of a multiplication and an addition, by type; products of bytes are added in 32 bits.
MULTIPLY_ADD = {"int8": 0.2 + 0.1, "float16": 1.1 + 0.4, "float32": 3.7 + 0.9}
#: Picojoules of an access to a byte, by the bytes of the memory: 10, 20 and 100 for 64 bits of caches, 1,300 of DRAM.
ACCESS = ((8 << 10, 10 / 8), (32 << 10, 20 / 8), (1 << 20, 100 / 8))
DRAM = 1300 / 8


def joules(multiply_adds: float, dtype: str, nbytes: int) -> float:
    """The energy of products in `dtype` on `nbytes` bytes that come from the smallest memory that holds them."""
    access = next((cost for size, cost in ACCESS if nbytes <= size), DRAM)
    return (multiply_adds * MULTIPLY_ADD[dtype] + nbytes * access) * 1e-12
