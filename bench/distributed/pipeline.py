"""The bubble of a pipeline of two halves, on a throttled link: two ranks in network namespaces of their own.

    sudo python bench/distributed/pipeline.py [--rate 1000] [--layers 8] [--width 1024] [--rows 256] [--rounds 3]

A step of dense layers by 1, 2, 4, 8 and 16 microbatches of `--rows` rows. Stages are timed by themselves, then they
wait for as long as they take while the other rank is idle, as on machines of their own. The bubble is the part of a
step in which the busier rank has nothing to compute; 1 / (microbatches + 1) is that of halves that are equal and of
messages that take no time.
Needs torch, `ip` and `tc`, and root.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from throttled import Timed, Waited, link_of, run_on_link

from tilewright import relay
from tilewright.training import SGD, PipelineTrainer
from tilewright.training.distribute.connect import connect_ranks

COUNTS = (1, 2, 4, 8, 16)


def trainer(options: argparse.Namespace, ranks: Any, microbatches: int) -> PipelineTrainer:
    """A training of equal dense layers with tanh between them."""
    shape = (options.rows, options.width)
    value, target = relay.var("x", shape=shape), relay.var("y", shape=shape)
    weights = [relay.var(f"w{index}", shape=(options.width, options.width)) for index in range(options.layers)]
    result: relay.Expr = value
    for weight in weights:
        result = relay.tanh(relay.nn.dense(result, weight))
    error = result - target
    rng = np.random.default_rng(0)
    values = {w.name: rng.standard_normal((options.width, options.width), np.float32) * 0.03 for w in weights}
    given: dict[str, Any] = {"microbatches": microbatches, "ranks": ranks, "threads": 1, "link": link_of(options.rate)}
    return PipelineTrainer(relay.mean(error * error), weights, SGD(0.01), values, **given)


def stages_of(one: PipelineTrainer) -> list[Any]:
    """The compiled stages of this rank's half."""
    half: Any = one._half
    return [half._forward, half._backward] if one.rank == 0 else [half._stage]


def work(options: argparse.Namespace) -> None:
    """One rank."""
    ranks = connect_ranks("gloo", 300.0)
    rng = np.random.default_rng(0)
    seconds: list[float] = []
    for count in COUNTS:
        one = trainer(options, ranks, count)
        batch = {name: rng.standard_normal((options.rows * count, options.width), np.float32) for name in "xy"}
        stages = stages_of(one)
        if not seconds:  # microbatches are alike: one at a time, the other rank waits
            timed = [Timed(stage._executable) for stage in stages]
            for stage, found in zip(stages, timed, strict=True):
                stage._executable = found
            for _ in range(8):
                one(**batch)
            seconds = [found.seconds for found in timed]
        for stage, took in zip(stages, seconds, strict=True):
            stage._executable = Waited(took)
        least = min(step_seconds(one, ranks, batch) for _ in range(options.rounds))
        busy = np.zeros((2, 1))
        ranks.gather(np.array([sum(seconds) * count]), busy)
        if ranks.rank == 0:
            print(
                f"{count:3} microbatches: {least * 1e3:7.1f} ms, halves {busy[0, 0] * 1e3:.1f} and "
                f"{busy[1, 0] * 1e3:.1f} ms, bubble {1 - busy.max() / least:.0%} (at best {1 / (count + 1):.0%})",
                flush=True,
            )


def step_seconds(one: PipelineTrainer, ranks: Any, batch: dict[str, np.ndarray]) -> float:
    """The time of the microbatches of a step, without the update, of the slower rank."""
    both, parts = np.zeros((2, 1)), one._parts(batch)
    ranks.gather(np.zeros(1), both)  # begin together
    begun = time.perf_counter()
    one._half.run(parts, one._values)
    ranks.gather(np.array([time.perf_counter() - begun]), both)
    return float(both.max())


if __name__ == "__main__":
    run_on_link(Path(__file__), __doc__, work, rate=1000, layers=8, width=1024, rows=256, rounds=3)
