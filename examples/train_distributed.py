"""Train the digits on several processes of this machine, in one command, with checkpoints that survive a killed one.

    python examples/train_distributed.py [--ranks 2] [--engine gloo|mpi] [--epochs 3] [--shard] [--folder FOLDER]

It starts itself again by torchrun or by mpiexec. Each process trains the network of `train_digits.py` on its part of
the batches. With `--folder` (in /dev/shm to keep checkpoints in memory) kill one of the processes meanwhile: torchrun
starts them again, and they go on from the step before. Needs `pip install 'tilewright[train,ranks]'` or `[train,mpi]`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from train_digits import CLASSES, NETWORKS, OPTIMIZERS, ROWS, SHAPES, initial_weights

from tilewright import relay
from tilewright.training import Arrays, DistributedTrainer, fit

BATCH = 64


class Part:
    """A rank's rows of each batch."""

    def __init__(self, batches: Arrays, rank: int, size: int) -> None:
        self.batches, self.rows = batches, slice(rank * BATCH // size, (rank + 1) * BATCH // size)

    def epoch(self, number: int, start: int) -> Iterator[dict[str, np.ndarray]]:
        """The batches of an epoch from the batch `start` on."""
        for batch in self.batches.epoch(number, start):
            yield {name: value[self.rows] for name, value in batch.items()}


def train(options: argparse.Namespace) -> None:
    """One rank."""
    from sklearn.datasets import load_digits

    batch = BATCH // options.ranks
    x, y = relay.var("x", shape=(batch, ROWS, 8)), relay.var("y", shape=(batch,), dtype="int64")
    w = {name: relay.var(name, shape=shape) for name, shape in SHAPES["cnn"].items()}
    scores = relay.nn.log_softmax(NETWORKS["cnn"](x, w))
    loss = relay.nn.nll_loss(scores, y, relay.const(np.ones(CLASSES, "float32")))
    trainer = DistributedTrainer(
        loss, [*w.values()], OPTIMIZERS["adam"], initial_weights("cnn"),
        ranks=options.engine, shard=options.shard, threads=1,
    )  # fmt: skip
    digits = load_digits()
    images = (digits.images / 16).astype("float32")
    data = Part(Arrays({"x": images, "y": digits.target.astype("int64")}, BATCH), trainer.rank, trainer.size)
    checkpoints = trainer.checkpoints(options.folder) if options.folder else None
    report = print if trainer.rank == 0 else None
    fit(trainer, data, epochs=options.epochs, checkpoints=checkpoints, report=report)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--engine", choices=("gloo", "mpi"), default="gloo")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--shard", action="store_true", help="divide the optimizer's state among the ranks")
    parser.add_argument("--folder", default="", help="checkpoints, one a step")
    options = parser.parse_args()
    if BATCH % options.ranks:
        parser.error(f"a batch of {BATCH} cannot be divided among {options.ranks} ranks")
    if "TILEWRIGHT_EXAMPLE_RANK" in os.environ:
        train(options)
        return
    mpiexec = Path(sys.executable).parent / "mpiexec"  # of the package mpich or openmpi, else the system's
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--max-restarts", "3", "--nproc-per-node"]
    launchers = {
        "gloo": [sys.executable, *torchrun, str(options.ranks)],
        "mpi": [str(mpiexec) if mpiexec.exists() else "mpiexec", "-n", str(options.ranks), sys.executable],
    }
    command = [*launchers[options.engine], __file__, *sys.argv[1:]]
    raise SystemExit(subprocess.call(command, env=os.environ | {"TILEWRIGHT_EXAMPLE_RANK": "1"}))


if __name__ == "__main__":
    main()
