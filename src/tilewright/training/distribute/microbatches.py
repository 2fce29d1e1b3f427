"""The microbatches of a step through two halves of a network, each on a rank, in the order 1F1B.

The second rank computes forward and backward pass of a microbatch at once, the first goes backward as soon as it can
(Narayanan et al., PipeDream, 2019, as PipeDream-Flush). So the first keeps values of three microbatches, however many
there are; two would do if messages took no time. GPipe, which goes forward with all before it goes back, takes as long
and keeps values of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.compile import compile
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.runtime.memory import Array, aligned_empty
from tilewright.training.distribute.cut import Stage
from tilewright.training.distribute.halves import Halves, sum_name
from tilewright.training.distribute.ranks import Message, Ranks

#: Microbatches that the first rank keeps values of, and that the second has memory for messages of.
_AHEAD, _BUFFERS = 3, 2


class Part:
    """A rank's half of a step, with the sums of its parameters' gradients."""

    def __init__(self, halves: Halves, ranks: Ranks, last: _Stage) -> None:
        """`last` is the stage that adds to the sums, its last results: one memory is read while it writes the other."""
        self._halves, self._ranks = halves, ranks
        self._names = [sum_name(p.name) for p in halves.parameters[ranks.rank]]
        self._sums, self._spare = (last.memory()[-len(self._names) :] for _ in range(2))

    def run(self, batches: Sequence[Mapping[str, Array]], parameters: Mapping[str, Array]) -> list[list[Array]]:
        """Compute all microbatches; the loss and outputs of each on rank 1, none on rank 0. Raises `RankLost`."""
        raise NotImplementedError

    def sums(self) -> list[Array]:
        """The sums of the last run, in the order of the parameters."""
        return self._sums

    def _begin(self) -> None:
        for array in self._sums:
            array[...] = 0

    def _added(self) -> dict[str, Array]:
        return dict(zip(self._names, self._sums, strict=True))

    def _turn(self) -> None:
        self._sums, self._spare = self._spare, self._sums


class FrontPart(Part):
    """The first half, on rank 0."""

    def __init__(self, halves: Halves, ranks: Ranks, options: Mapping[str, Any]) -> None:
        self._forward, self._backward = _Stage(halves.forward, options), _Stage(halves.backward, options)
        super().__init__(halves, ranks, self._backward)
        self._values = [self._forward.memory() for _ in range(_AHEAD)]
        self._gradients = [[_array(var) for var in halves.gradients] for _ in range(_AHEAD)]

    def run(self, batches: Sequence[Mapping[str, Array]], parameters: Mapping[str, Array]) -> list[list[Array]]:
        self._begin()
        count, sent, coming = len(batches), {}, {}
        for number in range(count + _AHEAD - 1):
            if number < count:
                slot = number % _AHEAD
                self._forward.run({**batches[number], **parameters}, self._values[slot])
                coming[number] = [self._ranks.receive(array, 1) for array in self._gradients[slot]]
                values = self._values[slot][: len(self._halves.values)]
                sent[number] = [self._ranks.send(array, 1) for array in values]
            back = number - _AHEAD + 1
            if 0 <= back < count:
                _wait([*sent.pop(back), *coming.pop(back)])
                self._go_back(back % _AHEAD, {**batches[back], **parameters})
        return []

    def _go_back(self, slot: int, known: Mapping[str, Array]) -> None:
        kept = self._values[slot][len(self._halves.values) :]
        gradients = zip((var.name for var in self._halves.gradients), self._gradients[slot], strict=True)
        values = {**known, **dict(gradients), **dict(zip(self._halves.forward.kept, kept, strict=True))}
        self._backward.run(values | self._added(), self._spare)
        self._turn()


class BackPart(Part):
    """The second half, on rank 1."""

    def __init__(self, halves: Halves, ranks: Ranks, options: Mapping[str, Any]) -> None:
        self._stage = _Stage(halves.back, options)
        super().__init__(halves, ranks, self._stage)
        self._values = [[_array(var) for var in halves.values] for _ in range(_BUFFERS)]
        memory = [self._stage.memory()[: -len(self._names)] for _ in range(_BUFFERS)]
        split = len(memory[0]) - len(halves.gradients)
        self._results = [some[:split] for some in memory]
        self._gradients = [some[split:] for some in memory]

    def run(self, batches: Sequence[Mapping[str, Array]], parameters: Mapping[str, Array]) -> list[list[Array]]:
        self._begin()
        found, names = [], [var.name for var in self._halves.values]
        sent: list[list[Message]] = [[] for _ in range(_BUFFERS)]
        coming = [self._receive(number) for number in range(min(_BUFFERS, len(batches)))]
        for number, batch in enumerate(batches):
            slot = number % _BUFFERS
            _wait([*coming[number], *sent[slot]])
            known = {**batch, **parameters, **dict(zip(names, self._values[slot], strict=True)), **self._added()}
            self._stage.run(known, [*self._results[slot], *self._gradients[slot], *self._spare])
            self._turn()
            if number + _BUFFERS < len(batches):
                coming.append(self._receive(slot))
            sent[slot] = [self._ranks.send(array, 0) for array in self._gradients[slot]]
            found.append([array.copy() for array in self._results[slot]])
        _wait([message for some in sent for message in some])
        return found

    def _receive(self, slot: int) -> list[Message]:
        return [self._ranks.receive(array, 0) for array in self._values[slot]]


class _Stage:
    """A compiled stage."""

    def __init__(self, stage: Stage, options: Mapping[str, Any]) -> None:
        self._executable: Any = compile(stage.module, **options)
        self._takes = stage.takes

    def memory(self) -> list[Array]:
        """Memory for what it returns."""
        return [aligned_empty(spec.shape, spec.dtype.numpy) for spec in self._executable.outputs]

    def run(self, known: Mapping[str, Array], results: Sequence[Array]) -> None:
        """Run on the values by name that it takes, of `known`."""
        self._executable.run({name: known[name] for name in self._takes}, results)


def _array(var: Any) -> Array:
    """Memory for the value of a variable."""
    kind = tensor_type_of(var)
    return aligned_empty(kind.concrete_shape, kind.dtype.numpy)


def _wait(messages: Sequence[Message]) -> None:
    for message in messages:
        message.wait()
