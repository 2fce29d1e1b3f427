"""A program of ranks for the tests: trains a small network on parts of the batches, and writes what came of it.

train_ranks.py ENGINE OUT [CASE]    # under torchrun or mpiexec
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.training import SGD, ClippedByNorm, Optimizer, fit
from tilewright.training.distribute.buckets import Link
from tilewright.training.distribute.connect import connect_ranks
from tilewright.training.distribute.pipeline import PipelineTrainer
from tilewright.training.distribute.ranks import RankLost, Ranks
from tilewright.training.distribute.reduce import TopK
from tilewright.training.distribute.trainer import DistributedTrainer

SHAPES = {"w1": (24, 10), "b1": (24,), "w2": (24, 24), "b2": (24,), "w3": (1, 24)}
BATCH, STEPS = 24, 4


class Congested(Link):
    """A link that large messages take very long on: each gradient is a bucket."""

    def seconds(self, nbytes: float, ranks: int) -> float:
        """The square of the bytes."""
        return nbytes**2


SLOW, FAST = Congested(), Link(1.0, 1e9)
MOMENTUM = SGD(0.1, momentum=0.9)
CASES: dict[str, tuple[Optimizer, dict[str, Any]]] = {
    "plain": (MOMENTUM, {"link": SLOW}),
    "one-bucket": (MOMENTUM, {"link": FAST}),
    "clipped": (ClippedByNorm(MOMENTUM, 0.5), {"link": SLOW}),
    "shard": (MOMENTUM, {"link": SLOW, "shard": True}),
    "bf16": (MOMENTUM, {"link": SLOW, "compression": "bf16"}),
    "bf16-shard": (MOMENTUM, {"link": SLOW, "compression": "bf16", "shard": True}),
    "top": (MOMENTUM, {"link": SLOW, "compression": TopK(0.25)}),
    "top-shard": (MOMENTUM, {"link": SLOW, "compression": TopK(0.25), "shard": True}),
}


def network(batch: int) -> tuple[relay.Expr, list[relay.Var]]:
    """The mean squared error of three dense layers on `batch` samples, and its parameters."""
    x, y = relay.var("x", shape=(batch, 10)), relay.var("y", shape=(batch, 1))
    w = {name: relay.var(name, shape=shape) for name, shape in SHAPES.items()}
    h = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, w["w1"]), w["b1"]))
    h = relay.tanh(relay.nn.bias_add(relay.nn.dense(h, w["w2"]), w["b2"]))
    error = relay.nn.dense(h, w["w3"]) - y
    return relay.mean(error * error), list(w.values())


def values() -> dict[str, np.ndarray]:
    """The first parameters."""
    rng = np.random.default_rng(1)
    return {name: (rng.standard_normal(shape) * 0.3).astype("float32") for name, shape in SHAPES.items()}


def batches() -> list[dict[str, np.ndarray]]:
    """The whole batch of each step."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((STEPS, BATCH, 10)).astype("float32")
    return [{"x": one, "y": np.sin(one[:, :1] * 2)} for one in x]


def made(case: str, ranks: Ranks) -> DistributedTrainer:
    """The trainer of a case."""
    optimizer, options = CASES[case]
    loss, parameters = network(BATCH // ranks.size)
    return DistributedTrainer(loss, parameters, optimizer, values(), ranks=ranks, threads=1, **options)


def trained(case: str, ranks: Ranks) -> dict[str, np.ndarray]:
    """Losses, parameters and the size of the state; the same parameters on all ranks, or it fails."""
    trainer = made(case, ranks)
    rows = slice(ranks.rank * BATCH // ranks.size, (ranks.rank + 1) * BATCH // ranks.size)
    losses = [float(trainer(**{key: part[rows] for key, part in batch.items()})[0]) for batch in batches()]
    flat = np.concatenate([value.reshape(-1) for value in trainer.parameters.values()])
    every = np.empty((ranks.size, flat.size), np.float32)
    ranks.gather(flat, every)
    assert (every.view(np.int32) == every[0].view(np.int32)).all(), f"{case}: ranks have different parameters"
    assert len(trainer.buckets) == (1 if case == "one-bucket" or ranks.size == 1 else 5)
    state = np.array(sum(value.size for value in trainer.state.values()))
    return {f"{case}/losses": np.array(losses), f"{case}/parameters": flat, f"{case}/state": state}


def killed(engine: str, out: str, folder: str, case: str, victim: str, step: str) -> None:
    """Train two epochs of a case with checkpoints; where there are none yet, a rank kills itself after some steps."""
    ranks = connect_ranks(engine, 60.0)
    trainer = made(case, ranks)
    rows = slice(ranks.rank * BATCH // ranks.size, (ranks.rank + 1) * BATCH // ranks.size)
    data = [{key: part[rows] for key, part in batch.items()} for batch in batches()]
    checkpoints = trainer.checkpoints(folder)
    first, done = not checkpoints.steps(), Path(out).with_suffix(f".rank{ranks.rank}")

    def count(outputs: Any, batch: Any) -> float:
        with done.open("a") as file:
            file.write("step\n")
        if first and ranks.rank == int(victim) and len(done.read_text().split()) == int(step):
            os.kill(os.getpid(), signal.SIGKILL)
        return 0.0

    fit(trainer, data, epochs=2, metrics={"count": count}, checkpoints=checkpoints, report=None)  # type: ignore[arg-type]
    if ranks.rank == 0:
        np.savez(Path(out), **trainer.parameters)


def pipeline(engine: str, out: str, folder: str, victim: str, step: str) -> None:
    """Train two epochs by a pipeline with checkpoints; where there are none yet, a rank kills itself after a step."""
    ranks = connect_ranks(engine, 60.0)
    loss, parameters = network(BATCH // 4)
    trainer = PipelineTrainer(loss, parameters, MOMENTUM, values(), microbatches=4, ranks=ranks, threads=1)
    checkpoints = trainer.checkpoints(folder)
    first, done = not checkpoints.steps(), []

    def count(outputs: Any, batch: Any) -> float:
        done.append(batch)
        if first and ranks.rank == int(victim) and len(done) == int(step):
            os.kill(os.getpid(), signal.SIGKILL)
        return 0.0

    fit(trainer, batches(), epochs=2, metrics={"count": count}, checkpoints=checkpoints, report=None)  # type: ignore[arg-type]
    found = trainer.all_parameters()
    if ranks.rank == 0:
        np.savez(Path(out), **found, steps=np.array(len(done)))


def left(engine: str, out: str) -> None:
    """Rank 1 leaves after a step; rank 0 writes the error that it gets."""
    ranks = connect_ranks(engine, 10.0)
    trainer = made("plain", ranks)
    batch = {key: part[: BATCH // 2] for key, part in batches()[0].items()}
    trainer(**batch)
    if ranks.rank == 1:
        os._exit(0)
    try:
        for _ in range(3):
            trainer(**batch)
    except RankLost as error:
        np.savez(Path(out), error=np.array(str(error)))


def main(engine: str, out: str, *cases: str) -> None:
    """Train each case, and write what came of it on rank 0."""
    ranks = connect_ranks(engine, 60.0)
    found: dict[str, np.ndarray] = {}
    for case in cases or CASES:
        found |= trained(case, ranks)
    if ranks.rank == 0:
        np.savez(Path(out), **found)


if __name__ == "__main__":
    programs = {"killed": killed, "left": left, "pipeline": pipeline}
    programs.get(sys.argv[3] if len(sys.argv) > 3 else "", main)(
        *sys.argv[1:3], *[one for one in sys.argv[3:] if one not in programs]
    )
