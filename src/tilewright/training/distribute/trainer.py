"""A training step on several ranks: each computes the gradients of its part of the batch, all take the same update.

trainer = DistributedTrainer(loss, [w1, b1, w2, b2], Adam(1e-3), {"w1": …}, ranks="gloo")    # torchrun starts the ranks
for x, y in batches_of(trainer.rank, trainer.size):
    loss, *outputs = trainer(x=x, y=y)    # the loss is the mean over the ranks, outputs are this rank's

The backward pass is cut at buckets of gradients (`cut.py`, `buckets.py`); a thread exchanges one while the next is
computed. Then the optimizer runs, on all parameters or, with `shard`, on this rank's part of them (ZeRO, Rajbhandari et
al., 2020).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.compile import compile
from tilewright.errors import InputError
from tilewright.relay.ir.expr import Expr, Var
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import free_vars
from tilewright.relay.op.gradients.adjoint import adjoints
from tilewright.runtime.threads import default_workers
from tilewright.target import Target
from tilewright.training.distribute.buckets import Link, choose_buckets
from tilewright.training.distribute.checkpoints import RankCheckpoints
from tilewright.training.distribute.connect import connect_ranks
from tilewright.training.distribute.cut import Stage, by_readiness, cut
from tilewright.training.distribute.ranks import TIMEOUT, Ranks
from tilewright.training.distribute.reduce import Bucket, Compression, Reducer
from tilewright.training.distribute.update import Update, make_update
from tilewright.training.rules.optimizer import Array, Optimizer
from tilewright.training.step import checked_results, limit_attrs
from tilewright.training.values import fitting, write_parameters


class DistributedTrainer:
    """Calls the stages and the update of a step again and again; it has what `Trainer` has, so that `fit` takes it."""

    def __init__(
        self,
        loss: Expr,
        parameters: Sequence[Var],
        optimizer: Optimizer,
        values: Mapping[str, Array],
        *,
        outputs: Sequence[Expr] = (),
        ranks: str | Ranks | None = "gloo",
        shard: bool = False,
        compression: Compression = None,
        link: Link | None = None,
        timeout: float = TIMEOUT,
        memory_limit: int | None = None,
        **options: Any,
    ) -> None:
        """As `training_step`, with the first values of the parameters: those of rank 0 count.

        `ranks` is the engine, "gloo", "mpi" or None for one rank; `shard` divides the optimizer's state among them;
        `compression` is "bf16" or `TopK(share)`; by `link` buckets are chosen; `timeout` are the seconds that a rank
        waits for the others. With `memory_limit` the backward pass is not cut, so that values can be computed again
        wherever they are read: gradients are exchanged behind it. `options` are those of `compile`. Raises
        `InputError`, and what compiling raises.
        """
        self._ranks = connect_ranks(ranks, timeout)
        self.rank, self.size = self._ranks.rank, self._ranks.size
        results = checked_results(loss, outputs, parameters, values)
        self._inputs = tuple(v for v in free_vars(*results) if v not in set(parameters))
        self._names = [p.name for p in parameters]
        self._results, self._shard = len(results), shard
        groups, stages = self._cut(results, parameters, link or Link(), limit_attrs(memory_limit), options)
        shapes = [[tensor_type_of(parameters[i]).shape for i in group] for group in groups]
        self.buckets = [Bucket(some, self.size) for some in shapes]
        self._reducers = [Reducer(bucket, self._ranks, compression, shard) for bucket in self.buckets]
        self._stages = [_Compiled(stage, compile(stage.module, **options)) for stage in stages]
        self._update: Update = make_update(optimizer, parameters, groups, self.buckets, self._ranks, shard, options)
        self._sender = _Sender()
        self._begin(values)

    def _cut(
        self,
        results: list[Expr],
        parameters: Sequence[Var],
        link: Link,
        limit: Mapping[str, int],
        options: Mapping[str, Any],
    ) -> tuple[list[list[int]], list[Stage]]:
        """The positions of the parameters of each bucket, and the stages; rank 0 decides. One of each with a limit."""
        gradients = adjoints(results[0], parameters)
        target = Target(str(options.get("target", "cpu")))
        order, ready = by_readiness(results, gradients, target, default_workers(options.get("threads")))
        nbytes = [tensor_type_of(parameters[index]).nbytes for index in order]
        decided = np.zeros((2, len(order) + 1), np.int64)
        ends = [len(order)] if limit else choose_buckets(ready, nbytes, link, self.size)
        decided[0, : len(order)], decided[1, : len(ends)] = order, ends
        self._ranks.broadcast(decided, 0)
        order, ends = decided[0, : len(order)].tolist(), [end for end in decided[1].tolist() if end]
        groups = [order[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        roots = [[gradients[index] for index in group] for group in groups]
        return groups, cut([results + roots[0], *roots[1:]], limit)

    def _begin(self, values: Mapping[str, Array]) -> None:
        own = [np.array(values[name], np.float32, order="C") for name in self._names]
        for value in own:
            self._ranks.broadcast(value, 0)
        self._update.set(dict(zip(self._names, own, strict=True)), self._update.first)

    def __call__(self, **inputs: Array) -> list[Array]:
        """One step on this rank's `inputs`, by name: [loss, outputs …] of before the update.

        Raises `InputError` for other inputs, `RankLost` where a rank is gone.
        """
        wanted = self.input_names
        if set(wanted) != set(inputs):
            raise InputError(f"the step takes the inputs {', '.join(wanted)}; got {', '.join(inputs) or 'none'}")
        known: dict[str, Array] = {**inputs, **self._update.parameters}
        first, *later = zip(self._stages, self.buckets, self._reducers, strict=True)
        own = first[0].results[: self._results]
        pending = [self._stage(*first, known, own)]
        loss, *results = [np.array(value) for value in own]
        losses = np.empty((self.size, 1), loss.dtype)
        collected = self._sender.do(lambda: self._ranks.gather(loss, losses))
        pending += [self._stage(*some, known, []) for some in later]
        means = [future.result() for future in pending]
        collected.result()
        self._update(means)
        return [np.mean(losses, dtype=loss.dtype), *results]

    def _stage(
        self, stage: _Compiled, bucket: Bucket, reducer: Reducer, known: dict[str, Array], own: Sequence[Array]
    ) -> Future[Array]:
        """Compute a stage, and have its bucket summed from then on."""
        stage.run(known, own, bucket.views)
        return self._sender.do(reducer)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of a step's inputs, in their order."""
        return tuple(var.name for var in self._inputs)

    @property
    def parameters(self) -> dict[str, Array]:
        """Copies of the parameters as they are now, by name; the same on all ranks."""
        return {name: value.copy() for name, value in self._update.parameters.items()}

    @property
    def state(self) -> dict[str, Array]:
        """This rank's state of the optimizer, and the elements of gradients that it has not sent yet."""
        rests = {f"rest{i}": reducer.rest for i, reducer in enumerate(self._reducers) if hasattr(reducer, "rest")}
        return self._update.state | rests

    def restore(self, parameters: Mapping[str, Array], state: Mapping[str, Array]) -> None:
        """Go on from other parameters and this rank's state. Raises `InputError`, and changes nothing, for misfits."""
        given = fitting(self.parameters | self.state, {**parameters, **state})
        for index, reducer in enumerate(self._reducers):
            if f"rest{index}" in given:
                np.copyto(reducer.rest, given[f"rest{index}"])
        self._update.set({name: given[name] for name in self._names}, {n: given[n] for n in self._update.state})

    def checkpoints(self, folder: str | Path, every: int = 1, keep: int = 2) -> RankCheckpoints:
        """Checkpoints of all ranks for `fit`, one each `every` steps, in `folder/rank-N`; `/dev/shm` is memory."""
        alike = not self._shard and not any(hasattr(reducer, "rest") for reducer in self._reducers)
        return RankCheckpoints(Path(folder) / f"rank-{self.rank}", every, keep, self._ranks, alike)

    def save_parameters(self, path: str | Path) -> None:
        """Write the parameters to a file of safetensors, as `Trainer` does."""
        write_parameters(Path(path), self.parameters)


class _Compiled:
    """A compiled stage with memory for what it returns beside gradients."""

    def __init__(self, stage: Stage, executable: Any) -> None:
        self._executable, self._stage = executable, stage
        self.results = [np.empty(spec.shape, spec.dtype) for spec in executable.outputs]

    def run(self, known: dict[str, Array], own: Sequence[Array], gradients: Sequence[Array]) -> None:
        """Run on the values by name, of `known`, into results and gradients; `known` gets what later stages take."""
        kept = self.results[len(own) + len(gradients) :]
        self._executable.run({name: known[name] for name in self._stage.takes}, [*own, *gradients, *kept])
        known.update(zip(self._stage.kept, kept, strict=True))


class _Sender:
    """A thread that makes the exchanges, in the order in which they are handed to it."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="ranks", daemon=True).start()

    def do(self, work: Callable[[], Any]) -> Future[Any]:
        """The result of a piece of work, once it is done."""
        done: Future[Any] = Future()
        self._work.put((work, done))
        return done

    def _run(self) -> None:
        while True:
            work, done = self._work.get()
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)
