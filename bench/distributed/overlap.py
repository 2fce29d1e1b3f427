"""Overlap of exchange and backward pass on a throttled link: two ranks in network namespaces of their own.

    sudo python bench/distributed/overlap.py [--rate 1000] [--layers 8] [--width 1024] [--batch 768] [--rounds 4]

`ip` makes two namespaces joined by a link that `tc` throttles to `--rate` Mbit/s each way, and removes them at the end.
A step of dense layers is timed in turns: by buckets that the cost model chooses for this link, by one bucket, which is
exchanged after the backward pass, and without an exchange. Hidden is the part of the exchange's time that the buckets
save. Both ranks share this machine's processor with the exchange, unlike ranks on machines of their own; so it is timed
again with stages that wait, without computing, for as long as they take while the other rank is idle. Then the model:
the time of a step on up to 64 ranks by that of one, for this link and for 10 Gbit/s.
Needs torch, `ip` and `tc`, and root.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from throttled import Timed, Waited, link_of, run_on_link

from tilewright import relay
from tilewright.training import SGD, DistributedTrainer, Link
from tilewright.training.distribute.buckets import choose_buckets, exchange_end
from tilewright.training.distribute.connect import connect_ranks
from tilewright.training.distribute.ranks import Ranks


def trainer(options: argparse.Namespace, ranks: Ranks | None, link: Link) -> DistributedTrainer:
    """A training of equal dense layers with tanh between them."""
    shape = (options.batch, options.width)
    value, target = relay.var("x", shape=shape), relay.var("y", shape=shape)
    weights = [relay.var(f"w{index}", shape=(options.width, options.width)) for index in range(options.layers)]
    result: relay.Expr = value
    for weight in weights:
        result = relay.tanh(relay.nn.dense(result, weight))
    error = result - target
    rng = np.random.default_rng(0)
    scale = np.float32(1 / np.sqrt(options.width))
    values = {w.name: rng.standard_normal((options.width, options.width), np.float32) * scale for w in weights}
    loss = relay.mean(error * error)
    return DistributedTrainer(loss, weights, SGD(0.01), values, ranks=ranks, link=link, threads=1, timeout=300.0)


class Idle:
    """The first of two ranks without the other: nothing is exchanged."""

    rank, size = 0, 2

    def send(self, array: np.ndarray, to: int) -> Idle:
        """Nothing."""
        return self

    receive = gather = broadcast = send

    def wait(self) -> None:
        """Nothing."""


def stage_seconds(
    options: argparse.Namespace, links: dict[str, Link], batch: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The least time of each stage, for each link, in turns, while the other rank waits."""
    ones = {name: trainer(options, Idle(), link) for name, link in links.items()}
    timed = {name: [Timed(stage._executable) for stage in one._stages] for name, one in ones.items()}
    for name, one in ones.items():
        for stage, found in zip(one._stages, timed[name], strict=True):
            stage._executable = found
    for _ in range(2 * options.rounds):
        for one in ones.values():
            one(**batch)
    return {name: np.array([found.seconds for found in some]) for name, some in timed.items()}


def work(options: argparse.Namespace) -> None:
    """One rank."""
    ranks = connect_ranks("gloo", 300.0)
    links = {"buckets": link_of(options.rate), "one bucket": Link(10.0, 1e12)}
    links["alone"] = links["buckets"]
    kinds = {name: trainer(options, None if name == "alone" else ranks, link) for name, link in links.items()}
    rng = np.random.default_rng(ranks.rank)
    batch = {name: rng.standard_normal((options.batch, options.width), np.float32) for name in "xy"}
    for waited in (False, True):
        if waited:
            timed = {name: links[name] for name in ("buckets", "one bucket")}
            seconds = {name: np.empty(len(kinds[name]._stages)) for name in timed}
            if ranks.rank == 0:
                seconds = stage_seconds(options, timed, batch)
            for found in seconds.values():
                ranks.broadcast(found, 0)
            seconds["alone"] = seconds["one bucket"]
            for name, one in kinds.items():
                for stage, took in zip(one._stages, seconds[name], strict=True):
                    stage._executable = Waited(float(took))
        least = least_times(kinds, ranks, batch, options.rounds)
        if ranks.rank == 0:
            print("each stage waits for the time it takes alone" if waited else "both ranks compute on this machine")
            report(options, kinds["buckets"], least)
            if waited:
                gradients = {name: float(took.sum()) for name, took in seconds.items()}
                model(options, gradients, least["alone"] - gradients["alone"])


def least_times(
    kinds: dict[str, DistributedTrainer], ranks: Ranks, batch: dict[str, np.ndarray], rounds: int
) -> dict[str, float]:
    """The least time of a step of each kind, that of the slower rank, in turns."""
    times: dict[str, list[float]] = {name: [] for name in kinds}
    both = np.zeros((ranks.size, 1))
    for _ in range(rounds + 1):
        for name, one in kinds.items():
            ranks.gather(np.zeros(1), both)  # begin together
            begun = time.perf_counter()
            one(**batch)
            ranks.gather(np.array([time.perf_counter() - begun]), both)
            times[name].append(float(both.max()))
    return {name: min(some[1:]) for name, some in times.items()}


def report(options: argparse.Namespace, trained: DistributedTrainer, least: dict[str, float]) -> None:
    """Print what was measured."""
    nbytes = options.layers * options.width**2 * 4
    print(f"{nbytes / 1e6:.1f} MB of gradients, {len(trained.buckets)} buckets, {options.rate} Mbit/s")
    for name, seconds in least.items():
        print(f"{name:10} {seconds * 1e3:8.1f} ms")
    exchange = least["one bucket"] - least["alone"]
    hidden = (least["one bucket"] - least["buckets"]) / exchange
    print(f"exchange {exchange * 1e3:.1f} ms, of which {hidden:.0%} hidden")


def model(options: argparse.Namespace, gradients: dict[str, float], update: float) -> None:
    """Print the time of a step on more ranks, of the seconds that stages took together, and the update behind them."""
    print("stages", *[f"{name} {seconds * 1e3:.1f} ms" for name, seconds in gradients.items()])
    sizes = [options.width**2 * 4] * options.layers
    # a layer's backward pass is two products, its forward pass one; the first layer needs no gradient of its data
    part = gradients["alone"] / (3 * options.layers - 1)
    ready = [part * (options.layers + 2 * (index + 1)) for index in range(options.layers)]
    ready[-1] -= part
    for rate in (options.rate, 10_000):
        link = link_of(rate)
        for count in (1, 2, 4, 8, 16, 32, 64):
            ends = choose_buckets(ready, sizes, link, count)
            end = exchange_end(ready, sizes, ends, link, count) + update
            one = gradients["alone"] + update
            print(f"model {rate:6} Mbit/s {count:3} ranks: {end * 1e3:8.1f} ms, {one / end:.0%} of linear, {ends}")


if __name__ == "__main__":
    run_on_link(Path(__file__), __doc__, work, rate=1000, layers=8, width=1024, batch=768, rounds=4)
