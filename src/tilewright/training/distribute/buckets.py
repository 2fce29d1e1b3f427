"""Gradients in buckets, such that their exchange is over soonest: a cost model of the backward pass and of the link.

A bucket is exchanged while the gradients behind it are computed. Few large ones leave the link idle at first, many
small ones wait for it again and again, and each cut of the backward pass keeps values that would have stayed in caches.
The figures are the compiler's own, never measured: buckets, and so a training's bits, are those of the run before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op.cost import flops, moved_bytes
from tilewright.target import Target
from tilewright.training.distribute.reduce import piece_bytes

#: Seconds that one more call of compiled code takes, with its thread woken for the exchange: what a cut costs at least.
_CUT_SECONDS = 100e-6

#: The part of a core's arithmetic that products of a step reach: 61 of 160 GFLOP/s for 768x1024x1024 (Cascade Lake).
_OF_PEAK = 0.4

#: What an exchange takes of a processor, for each byte that is sent, with one received and added up, and for each
#: message: the slopes of 34 MB between two processes by gloo, in pieces of 64 KiB to 4 MiB (Cascade Lake, Linux 6).
_BYTE_SECONDS, _MESSAGE_SECONDS = 1.8e-9, 100e-6


@dataclass(frozen=True)
class Link:
    """The network between ranks: seconds before the first byte, and bytes a second in each direction.

    By default that of 10 Gbit/s Ethernet through the sockets of an operating system.
    """

    latency: float = 100e-6
    rate: float = 1.25e9

    def seconds(self, nbytes: float, ranks: int) -> float:
        """The time to sum `nbytes` over the ranks: each sends the others their parts in pieces, then its part's sums.

        Messages follow each other without a pause (`reduce.py`), while the processor copies and adds up others.
        """
        if ranks == 1:
            return 0.0
        part = nbytes / ranks
        sent = 2 * (ranks - 1) * part
        messages = 2 * (ranks - 1) * math.ceil(part / piece_bytes(part))
        return 2 * self.latency + max(sent / self.rate, sent * _BYTE_SECONDS + messages * _MESSAGE_SECONDS)


def seconds_of(node: Expr, target: Target, threads: int) -> float:
    """The estimated time of a node on a processor: that of its arithmetic or of its bytes, whichever is longer."""
    if not isinstance(node, Call):
        return 0.0
    type_of(node)
    tensor_types(node.checked_type)
    machine = target.machine
    arithmetic = flops(node) / (machine.peak_gflops * 1e9 * threads * _OF_PEAK)
    memory = machine.seconds(moved_bytes(node) / machine.read_memory.share(threads)) / threads
    return max(arithmetic, memory)


def choose_buckets(
    ready: Sequence[float], nbytes: Sequence[int], link: Link, ranks: int, cut_seconds: float = _CUT_SECONDS
) -> list[int]:
    """The ends of the buckets of gradients that come in this order: [3, 5] for gradients 0, 1, 2 and 3, 4.

    `ready` are the seconds after which each is computed, in ascending order. Dynamic programming over the last
    bucket's beginning: what ends soonest is best, as buckets are exchanged one after the other.
    """
    count = len(ready)
    best: list[tuple[float, int, int]] = [(0.0, 0, 0)]  # the end of the exchanges, the cuts so far, the bucket's begin
    for end in range(1, count + 1):
        options = []
        for begin in range(end):
            over, cuts, _ = best[begin]
            start = max(over, ready[end - 1] + cut_seconds * (cuts + 1))
            options.append((start + link.seconds(sum(nbytes[begin:end]), ranks), cuts + 1, begin))
        best.append(min(options))
    ends = [count]
    while (begin := best[ends[-1]][2]) > 0:
        ends.append(begin)
    return ends[::-1]


def exchange_end(ready: Sequence[float], nbytes: Sequence[int], ends: Sequence[int], link: Link, ranks: int) -> float:
    """The seconds until the last of these buckets is exchanged, by the model of `choose_buckets`."""
    over, begin = 0.0, 0
    for number, end in enumerate(ends):
        start = max(over, ready[end - 1] + _CUT_SECONDS * (number + 1))
        over, begin = start + link.seconds(sum(nbytes[begin:end]), ranks), end
    return over
