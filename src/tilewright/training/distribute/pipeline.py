"""A training step as a pipeline of two ranks: each has half of the network, and its parameters and their state alone.

trainer = PipelineTrainer(loss, [w1, b1, w2, b2], Adam(1e-3), {"w1": …}, microbatches=8)    # torchrun starts two ranks
for x, y in batches:    # whole ones, of 8 times the rows that `loss` is of, on both ranks
    loss, *outputs = trainer(x=x, y=y)

The cut follows from the cost model (`halves.py`), the order of the microbatches is 1F1B (`microbatches.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.relay.ir.expr import Call, Expr, Var
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import free_vars
from tilewright.runtime.threads import default_workers
from tilewright.target import Target
from tilewright.training.distribute.buckets import Link
from tilewright.training.distribute.checkpoints import RankCheckpoints
from tilewright.training.distribute.connect import connect_ranks
from tilewright.training.distribute.halves import Halves, best_cut, cuts, halve
from tilewright.training.distribute.microbatches import BackPart, FrontPart
from tilewright.training.distribute.ranks import TIMEOUT, Ranks
from tilewright.training.distribute.update import CompiledUpdate, update_body
from tilewright.training.rules.optimizer import Array, Optimizer
from tilewright.training.step import checked_results
from tilewright.training.values import fitting, write_parameters


class PipelineTrainer:
    """Calls a rank's half of a step again and again; `fit` takes it as it takes `Trainer`."""

    def __init__(
        self,
        loss: Expr,
        parameters: Sequence[Var],
        optimizer: Optimizer,
        values: Mapping[str, Array],
        *,
        microbatches: int,
        outputs: Sequence[Expr] = (),
        ranks: str | Ranks | None = "gloo",
        link: Link | None = None,
        timeout: float = TIMEOUT,
        **options: Any,
    ) -> None:
        """As `DistributedTrainer`, with the loss of one of `microbatches` parts of a batch, a mean over its rows.

        The cut is chosen by the cost model for `link`. Raises `InputError` for other than two ranks, a loss that is a
        sum, one that cannot be cut, and an optimizer that needs all gradients at once.
        """
        self._ranks, self._count = connect_ranks(ranks, timeout), microbatches
        self.rank, self.size = self._ranks.rank, self._ranks.size
        _require_two(self.size, microbatches)
        results = checked_results(loss, outputs, parameters, values)
        _require_mean(results[0])
        self._inputs = tuple(v for v in free_vars(*results) if v not in set(parameters))
        halves = self._halves(results, parameters, link or Link(), options)
        own = halves.parameters[self.rank]
        _require_own_gradients(optimizer, parameters)
        self._half = (FrontPart if self.rank == 0 else BackPart)(halves, self._ranks, options)
        self._update = CompiledUpdate(optimizer, own, options, shard=False)
        self._results = [tensor_type_of(result) for result in results]
        self._homes = {p.name: int(p not in set(halves.parameters[0])) for p in parameters}
        first = {name: np.array(values[name], np.float32, order="C") for name in self._homes}
        for value in first.values():
            self._ranks.broadcast(value, 0)
        self._shapes = {name: value.shape for name, value in first.items()}
        self._values = {p.name: first[p.name] for p in own}
        self._state = {name: np.array(value) for name, value in self._update.first.items()}

    def _halves(
        self, results: Sequence[Expr], parameters: Sequence[Var], link: Link, options: Mapping[str, Any]
    ) -> Halves:
        """The halves by the cut that rank 0 chooses, whose processor may be another."""
        target, threads = Target(str(options.get("target", "cpu"))), default_workers(options.get("threads"))
        found = cuts(results, parameters)
        chosen = np.array([best_cut(results, found, target, threads, link, self._count)])
        self._ranks.broadcast(chosen, 0)
        return halve(results, parameters, found[int(chosen[0])].sent)

    def __call__(self, **inputs: Array) -> list[Array]:
        """One step on the whole batch, by name and on both ranks: [loss, outputs …] of before the update, on both.

        Outputs are those of the microbatches one after the other. Raises `InputError` for other inputs, `RankLost`.
        """
        parts = self._parts(inputs)
        found = self._half.run(parts, self._values)
        means = [total * np.float32(1 / self._count) for total in self._half.sums()]
        moved = self._update([*self._values.values()], means, self._state)
        self._values = dict(zip(self._values, moved, strict=True))
        results = []
        for number, kind in enumerate(self._results):
            every = np.empty((self._count, *kind.shape), kind.dtype.numpy)
            if found:
                every[:] = [some[number] for some in found]
            self._ranks.broadcast(every, 1)
            results.append(every)
        whole = [array.reshape(-1, *array.shape[2:]) if array.ndim > 1 else array for array in results[1:]]
        return [np.asarray(np.mean(results[0], dtype=results[0].dtype)), *whole]

    def _parts(self, inputs: Mapping[str, Array]) -> list[dict[str, Array]]:
        """The inputs of each microbatch. Raises `InputError`."""
        if set(self.input_names) != set(inputs):
            raise InputError(
                f"the step takes the inputs {', '.join(self.input_names)}; got {', '.join(inputs) or 'none'}"
            )
        for var in self._inputs:
            rows, *rest = tensor_type_of(var).shape or (None,)
            given = np.shape(inputs[var.name])
            if rows is None or given != (self._count * rows, *rest):
                raise InputError(
                    f"{var.name} is {list(given)}; a batch of {self._count} microbatches of "
                    f"{list(tensor_type_of(var).shape)} has {self._count} times the rows"
                )
        split = {name: np.split(np.asarray(value), self._count) for name, value in inputs.items()}
        return [{name: parts[number] for name, parts in split.items()} for number in range(self._count)]

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of a step's inputs, in their order."""
        return tuple(var.name for var in self._inputs)

    @property
    def parameters(self) -> dict[str, Array]:
        """Copies of the parameters of this rank's half as they are now, by name."""
        return {name: value.copy() for name, value in self._values.items()}

    @property
    def state(self) -> dict[str, Array]:
        """This rank's state of the optimizer."""
        return dict(self._state)

    def all_parameters(self) -> dict[str, Array]:
        """Copies of the parameters of both halves by name; called by both ranks. Raises `RankLost`."""
        found = {name: self._values.get(name, np.empty(self._shapes[name], np.float32)).copy() for name in self._homes}
        for name, home in self._homes.items():
            self._ranks.broadcast(found[name], home)
        return found

    def restore(self, parameters: Mapping[str, Array], state: Mapping[str, Array]) -> None:
        """Go on from other parameters and state of this rank. Raises `InputError`, and changes nothing, for misfits."""
        given = fitting(self.parameters | self.state, {**parameters, **state})
        self._values = {name: given[name] for name in self._values}
        self._state = {name: given[name] for name in self._state}

    def checkpoints(self, folder: str | Path, every: int = 1, keep: int = 2) -> RankCheckpoints:
        """Checkpoints of both ranks for `fit`, one each `every` steps, in `folder/rank-N`; `/dev/shm` is memory."""
        return RankCheckpoints(Path(folder) / f"rank-{self.rank}", every, keep, self._ranks, alike=False)

    def save_parameters(self, path: str | Path) -> None:
        """Write the parameters of both halves to a file of safetensors, on rank 0; called by both ranks."""
        found = self.all_parameters()
        if self.rank == 0:
            write_parameters(Path(path), found)


def _require_two(ranks: int, microbatches: int) -> None:
    """Raise `InputError` for other than two ranks, and for no microbatch."""
    if microbatches < 1:
        raise InputError(f"microbatches={microbatches}: a batch has one at least")
    if ranks != 2:
        raise InputError(f"a pipeline has two halves, on two ranks; {ranks} {'is' if ranks == 1 else 'are'} started")


def _require_mean(loss: Expr) -> None:
    """Raise `InputError` for a loss that is a sum: the mean over microbatches is not that of the batch then."""
    name = getattr(loss.op, "name", "") if isinstance(loss, Call) else ""
    if "sum" in (name, getattr(loss, "attrs", {}).get("reduction")):
        raise InputError(
            f"the loss is a sum ({name}); with microbatches it must be a mean over rows, of which the mean is taken"
        )


def _require_own_gradients(optimizer: Optimizer, parameters: Sequence[Var]) -> None:
    """Raise `InputError` where an update of a parameter reads gradients of others, which may be the other rank's."""
    gradients = [Var(f"gradient of {p.name}", tensor_type_of(p)) for p in parameters]
    body, _ = update_body(optimizer, parameters, gradients)
    for moved, own in zip(body.fields, gradients, strict=False):
        odd = [var.name for var in free_vars(moved) if var in set(gradients) and var is not own]
        if odd:
            raise InputError(
                f"a pipeline needs an optimizer that updates each parameter by its own gradient; "
                f"{type(optimizer).__name__} needs the {odd[0]} for {own.name.removeprefix('gradient of ')}"
            )
