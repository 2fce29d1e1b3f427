"""Batches for a training: from arrays, from Arrow tables, and from whatever yields them, such as PyTorch's loaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tilewright.errors import InputError
from tilewright.training.rules.optimizer import Array

Batch = Mapping[str, Array]


@runtime_checkable
class Source(Protocol):
    """Batches whose order in an epoch is known, so that a training resumes in its middle."""

    def epoch(self, number: int, start: int) -> Iterator[Batch]:
        """The batches of an epoch from the batch `start` on."""


class Arrays:
    """Whole batches of arrays with a common first dimension, in an order of its own for each epoch.

    What is left over at the end of an epoch, less than a batch, is another's in the next. `seed` None keeps the order.
    """

    def __init__(self, arrays: Mapping[str, Array], batch: int, seed: int | None = 0) -> None:
        """Raises `InputError` where the arrays differ in their number of samples, or have less than one batch."""
        counts = {name: len(array) for name, array in arrays.items()}
        if len(set(counts.values())) != 1:
            raise InputError(f"arrays of one training have equally many samples; these have {counts or 'none'}")
        self._count = next(iter(counts.values()))
        if not 1 <= batch <= self._count:
            raise InputError(f"{self._count} samples make no batch of {batch}")
        self._arrays, self._batch, self._seed = dict(arrays), batch, seed

    @classmethod
    def of_arrow(cls, table: Any, batch: int, seed: int | None = 0) -> Arrays:
        """The columns of an Arrow table; lists of equal length become dimensions. Raises `InputError`."""
        return cls({name: _column(name, table.column(name)) for name in table.column_names}, batch, seed)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return self._count // self._batch

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from the batch `start` on."""
        order = np.arange(self._count)
        if self._seed is not None:
            order = np.random.default_rng((self._seed, number)).permutation(self._count)
        for index in range(start, len(self)):
            rows = order[index * self._batch : (index + 1) * self._batch]
            yield {name: array[rows] for name, array in self._arrays.items()}


def epoch_of(data: Source | Iterable[Any], names: Sequence[str], number: int, start: int) -> Iterator[Batch]:
    """The batches of an epoch from the batch `start` on, as arrays by name.

    An iterable yields mappings, or values in the order of `names`; what comes before `start` is passed over.
    """
    if isinstance(data, Source):
        yield from data.epoch(number, start)
        return
    for item in islice(iter(data), start, None):
        if isinstance(item, Mapping):
            values = dict(item)
        elif isinstance(item, Sequence) and len(item) == len(names):
            values = dict(zip(names, item, strict=True))
        else:
            raise InputError(
                f"a batch is a mapping or has the {len(names)} values {', '.join(names)}; got {_kind(item)}"
            )
        yield {name: np.asarray(value) for name, value in values.items()}


def _kind(item: Any) -> str:
    return f"{type(item).__name__} of {len(item)}" if isinstance(item, Sequence) else type(item).__name__


def _column(name: str, column: Any) -> Array:
    """A column of an Arrow table as an array."""
    joined = column.combine_chunks()
    if joined.null_count:
        raise InputError(f"the column {name} has {joined.null_count} values that are null")
    if not hasattr(joined, "flatten"):
        return np.asarray(joined.to_numpy(zero_copy_only=False))
    count, values = len(joined), joined.flatten()
    if not count or len(values) % count or any(len(part) != len(values) // count for part in joined):
        raise InputError(f"the lists of the column {name} differ in length; those of a training have one")
    inner = values
    shape = [count, len(values) // count]
    while hasattr(inner, "flatten") and len(inner):
        deeper = inner.flatten()
        shape.append(len(deeper) // len(inner))
        inner = deeper
    return np.asarray(inner.to_numpy(zero_copy_only=False)).reshape(shape)
