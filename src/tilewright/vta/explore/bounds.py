"""How fast a layer can be on a configuration, by the roofline: GEMM, ALU, reads and writes each for themselves.

All tilings of a layer are looked at in one go, as arrays; what does not fit into the memories drops out. The bound is
the largest of the four figures in cycles; the estimate adds what nothing can hide: the first loads and the last stores.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilewright.vta.config import EXTENDED, Config
from tilewright.vta.explore.convs import Conv, Tiling
from tilewright.vta.hardware import Hardware

#: Rows of a tile that are tried, beside all of them.
_ROWS = (1, 2, 3, 4, 5, 7, 10, 14, 28)
#: Operations of ALU on an output, beside clearing it: bias, shift, clip; and what MOV and CLIP leave of them.
_ALU_OPS, _EXTENDED_OPS = 4, 2
#: Cycles an instruction costs its unit, beside its work.
_OVERHEAD = 6


@dataclass(frozen=True)
class Tilings:
    """All tilings of a layer at a block size, as arrays; elements of memories, and what is moved, in elements."""

    tilings: list[Tiling]
    inp_need: np.ndarray
    wgt_need: np.ndarray
    acc_need: np.ndarray
    inp_moved: np.ndarray
    wgt_moved: np.ndarray
    tiles: np.ndarray
    chunks: np.ndarray
    early: np.ndarray
    steps: int
    vectors: int
    uops: np.ndarray


@lru_cache(maxsize=1024)
def tilings_of(conv: Conv, block: int) -> Tilings:
    """What a layer's tilings need and move; two threads."""
    inner, outer = -(-conv.channels // block), -(-conv.filters // block)
    rows = sorted({r for r in _ROWS if r < conv.out_height} | {conv.out_height})
    found = list(itertools.product(rows, _powers(outer), _powers(inner), (False, True)))
    r, o, i, early = (np.array(column) for column in zip(*found))
    tall, wide = (r - 1) * conv.stride + conv.kernel, (conv.out_width - 1) * conv.stride + conv.kernel
    taps = conv.kernel**2
    down, across, deep = -(-conv.out_height // r), -(-outer // o), -(-inner // i)
    real = min(wide, conv.width)
    return Tilings(
        [Tiling(int(a), int(b), int(c), early=bool(e)) for a, b, c, e in found],
        tall * wide * i, o * i * taps, o * r * conv.out_width + outer,
        down * across * inner * tall * real, down * inner * outer * taps,
        down * across, down * across * deep, early,
        inner * outer * taps * conv.out_height * conv.out_width, outer * conv.out_height * conv.out_width,
        np.where(deep > 1, 4, 2) * o * i * taps + 4 * outer,
    )  # fmt: skip


def _powers(count: int) -> list[int]:
    return sorted({min(1 << n, count) for n in range(count.bit_length() + 1)})


def estimates(conv: Conv, config: Config, hardware: Hardware) -> tuple[np.ndarray, np.ndarray]:
    """Bound and estimate in cycles of each of `tilings_of(conv, block)`; infinite where one does not fit."""
    t = tilings_of(conv, config.block)
    fits = (t.inp_need <= 1 << config.log_inp_depth >> 1) & (t.wgt_need <= 1 << config.log_wgt_depth >> 1)
    fits &= (t.acc_need <= 1 << config.log_acc_depth >> 1) & (t.uops <= 1 << config.log_uop_depth)
    width = hardware.port_bytes
    inp, wgt = (max(1.0, config.element_bytes(memory) / width) for memory in ("inp", "wgt"))
    out = max(2.0 if config.element_bytes("out") < width else 1.0, config.element_bytes("out") / width)
    extended = config.isa_version >= EXTENDED
    ops = np.where(t.early, _EXTENDED_OPS if extended else _ALU_OPS, _ALU_OPS - int(extended)) + t.early
    reads = t.inp_moved * inp + t.wgt_moved * wgt
    gemm = t.steps + np.where(t.early, 0, t.vectors)
    bound = np.maximum.reduce([reads, gemm, ops * t.vectors, np.full(reads.shape, out * t.vectors)])
    first, last = reads / t.chunks, (ops + out) * t.vectors / t.tiles
    estimate = bound + first + last + _OVERHEAD * t.chunks + 2 * hardware.latency
    return np.where(fits, bound, np.inf), np.where(fits, estimate, np.inf)


def layer_bound(conv: Conv, config: Config, hardware: Hardware) -> float:
    """The least cycles that a layer can take; infinite where no tiling fits."""
    return float(estimates(conv, config, hardware)[0].min())


def best_tilings(conv: Conv, config: Config, hardware: Hardware, count: int) -> list[Tiling]:
    """The tilings with the least estimates, those that fit."""
    estimate = estimates(conv, config, hardware)[1]
    order = np.argsort(estimate, kind="stable")[:count]
    tilings = tilings_of(conv, config.block).tilings
    return [tilings[index] for index in order if np.isfinite(estimate[index])]
