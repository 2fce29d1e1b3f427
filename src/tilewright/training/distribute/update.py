"""The update of a distributed step, compiled: of all parameters on each rank, or of each rank's part of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tilewright.compile import compile
from tilewright.errors import InputError
from tilewright.relay.ir.expr import Expr, Function, Tuple, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import calls
from tilewright.training.distribute.ranks import Ranks
from tilewright.training.distribute.reduce import Bucket
from tilewright.training.rules.optimizer import Array, Optimizer
from tilewright.training.step import require_own_names

_ELEMENTS = (OpPattern.ELEMWISE, OpPattern.BROADCAST)


class Update(Protocol):
    """Parameters and state of the optimizer, and their change by the means of gradients."""

    first: dict[str, Array]
    parameters: dict[str, Array]
    state: dict[str, Array]

    def set(self, parameters: Mapping[str, Array], state: Mapping[str, Array]) -> None:
        """Go on from copies of these."""

    def __call__(self, means: Sequence[Array]) -> None:
        """One step by this rank's parts of the means, one a bucket; the buckets' memory has all of them."""


def make_update(
    optimizer: Optimizer,
    parameters: Sequence[Var],
    groups: Sequence[Sequence[int]],
    buckets: Sequence[Bucket],
    ranks: Ranks,
    shard: bool,
    options: Mapping[str, Any],
) -> Update:
    """The update by an optimizer of parameters whose gradients, by their positions in `groups`, are in `buckets`."""
    if shard:
        return _Sharded(optimizer, parameters, groups, buckets, ranks, options)
    return _Whole(optimizer, parameters, groups, buckets, options)


def update_body(optimizer: Optimizer, parameters: Sequence[Var], gradients: Sequence[Expr]) -> tuple[Tuple, list[Var]]:
    """Parameters and state after a step, and the variables of the state."""
    initial = optimizer.initial_state(parameters)
    require_own_names(parameters, initial)
    state = [Var(name, TensorType(value.shape, str(value.dtype))) for name, value in initial.items()]
    moved, kept = optimizer.update(parameters, gradients, state)
    return Tuple([*moved, *kept]), state


def require_elements(optimizer: Optimizer, body: Expr, what: str) -> None:
    """Raise `InputError` where an update is not one of each element by itself, as parts of parameters need."""
    for call in calls(body):
        if not isinstance(call.op, Op) or call.op.pattern not in _ELEMENTS:
            raise InputError(
                f"{what} needs an optimizer that updates each element by itself; {type(optimizer).__name__} "
                f"computes {call.op} over several"
            )


class CompiledUpdate:
    """The compiled update of some parameters, by the names of what it takes."""

    def __init__(
        self, optimizer: Optimizer, parameters: Sequence[Var], options: Mapping[str, Any], shard: bool
    ) -> None:
        kinds = [tensor_type_of(parameter) for parameter in parameters]
        gradients = [Var(f"gradient of {p.name}", kind) for p, kind in zip(parameters, kinds, strict=True)]
        body, state = update_body(optimizer, parameters, gradients)
        if shard:
            require_elements(optimizer, body, "a state that is divided among ranks")
        names = [var.name for var in (*parameters, *state)]
        main = Function([*parameters, *gradients, *state], body, attrs={"output_names": [f"new {n}" for n in names]})
        self.first = optimizer.initial_state(parameters)
        self._executable = compile(infer_type(IRModule.from_expr(main)), **options)
        self._inputs = [spec.name for spec in self._executable.inputs]

    def __call__(self, parameters: list[Array], gradients: Sequence[Array], state: dict[str, Array]) -> list[Array]:
        """The parameters after a step; `state` is changed to the one after it."""
        values = dict(zip(self._inputs, (*parameters, *gradients, *state.values()), strict=True))
        results = self._executable.run(values)
        state.update(zip(state, results[len(parameters) :], strict=True))
        return list(results[: len(parameters)])


class _Whole:
    """All parameters, updated by every rank alike."""

    def __init__(
        self,
        optimizer: Optimizer,
        parameters: Sequence[Var],
        groups: Sequence[Sequence[int]],
        buckets: Sequence[Bucket],
        options: Mapping[str, Any],
    ) -> None:
        found = {i: view for group, bucket in zip(groups, buckets) for i, view in zip(group, bucket.views, strict=True)}
        self._gradients = [found[index] for index in range(len(parameters))]
        self._compiled = CompiledUpdate(optimizer, parameters, options, shard=False)
        self.first = self._compiled.first

    def set(self, parameters: Mapping[str, Array], state: Mapping[str, Array]) -> None:
        self.parameters = {name: np.array(value) for name, value in parameters.items()}
        self.state = {name: np.array(value) for name, value in state.items()}

    def __call__(self, means: Sequence[Array]) -> None:
        moved = self._compiled([*self.parameters.values()], self._gradients, self.state)
        self.parameters = dict(zip(self.parameters, moved, strict=True))


class _Sharded:
    """The part of each bucket's parameters that is this rank's, with its state; all ranks collect the parts."""

    def __init__(
        self,
        optimizer: Optimizer,
        parameters: Sequence[Var],
        groups: Sequence[Sequence[int]],
        buckets: Sequence[Bucket],
        ranks: Ranks,
        options: Mapping[str, Any],
    ) -> None:
        self._names = [[parameters[index].name for index in group] for group in groups]
        self._order = [parameter.name for parameter in parameters]
        self._buckets, self._ranks = buckets, ranks
        self._flat = [bucket.empty(ranks.size) for bucket in buckets]
        shards = [Var(f"shard{i}", TensorType((bucket.part,), "float32")) for i, bucket in enumerate(buckets)]
        self._compiled = CompiledUpdate(optimizer, shards, options, shard=True)
        self.first = self._compiled.first
        found = {
            name: view
            for names, bucket, flat in zip(self._names, buckets, self._flat, strict=True)
            for name, view in zip(names, bucket.of(flat), strict=True)
        }
        self.parameters = {name: found[name] for name in self._order}

    def set(self, parameters: Mapping[str, Array], state: Mapping[str, Array]) -> None:
        for name, view in self.parameters.items():
            np.copyto(view, parameters[name])
        self.state = {name: np.array(value) for name, value in state.items()}

    def __call__(self, means: Sequence[Array]) -> None:
        own = [flat[self._ranks.rank] for flat in self._flat]
        for moved, flat in zip(self._compiled(own, means, self.state), self._flat, strict=True):
            self._ranks.gather(moved, flat)
