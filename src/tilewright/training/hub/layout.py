"""Keys of a training in one flat space, cut into chunks of equal size, which are shared out among the hub's threads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.memory import ALIGNMENT, Array, aligned_empty, round_up

#: Elements of a chunk at most: that of each worker with parameters and state should stay in a shared cache meanwhile,
#: and the kernel should take much longer than the message around it.
_MOST_ELEMENTS = 1 << 18
_STEP = ALIGNMENT // 4


@dataclass(frozen=True)
class Layout:
    """Keys with their shapes, in order; elements of a chunk; and over how many threads the chunks go."""

    keys: tuple[tuple[str, tuple[int, ...]], ...]
    elements: int
    chunks: int
    shards: int

    @classmethod
    def of(cls, keys: Mapping[str, tuple[int, ...]], shards: int) -> Layout:
        """The layout of keys by their shapes. Raises `InputError` where there are none."""
        if not keys:
            raise InputError("a training without keys has nothing to keep on a hub")
        total = sum(_span(shape) for shape in keys.values())
        elements = min(_MOST_ELEMENTS, round_up(-(-total // shards), _STEP))
        return cls(tuple(keys.items()), elements, -(-total // elements), shards)

    def of_shard(self, shard: int) -> range:
        """The chunks of a thread."""
        return range(shard, self.chunks, self.shards)

    def empty(self) -> Array:
        """Zeros for all chunks, [chunks, elements]."""
        flat = aligned_empty((self.chunks, self.elements), np.dtype(np.float32))
        flat[:] = 0
        return flat

    def views(self, flat: Array) -> dict[str, Array]:
        """The arrays of the keys within such an array."""
        line, found, begin = flat.reshape(-1), {}, 0
        for name, shape in self.keys:
            found[name] = line[begin : begin + math.prod(shape)].reshape(shape)
            begin += _span(shape)
        return found


def checked_keys(stated: Any) -> dict[str, tuple[int, ...]]:
    """Keys that a peer sent, as a list of names and shapes. Raises `InputError`."""
    keys: dict[str, tuple[int, ...]] = {}
    for entry in stated if isinstance(stated, list) else []:
        fits = isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and isinstance(entry[1], list)
        if not fits or not all(type(n) is int and 0 < n < 1 << 40 for n in entry[1]) or entry[0] in keys:
            raise InputError(f"a key is a name of its own with a shape, not {entry!r:.80}")
        keys[entry[0]] = tuple(entry[1])
    return keys


def require_same(ours: Mapping[str, tuple[int, ...]], theirs: Mapping[str, tuple[int, ...]], what: str) -> None:
    """Raise `InputError` naming the first key in which `theirs` differs from those of `what`."""
    for name, shape in theirs.items():
        if name not in ours:
            raise InputError(f"there is no key {name!r} in {what}; there are {', '.join(ours):.300}")
        if ours[name] != shape:
            raise InputError(f"the key {name!r} has the shape {list(shape)} here, and {list(ours[name])} in {what}")
    missing = [name for name in ours if name not in theirs]
    if missing:
        raise InputError(f"the key {missing[0]!r} of {what} is missing here")
    if [*ours] != [*theirs]:
        raise InputError(f"the keys are those of {what} in another order; it must be the same for all workers")


def _span(shape: tuple[int, ...]) -> int:
    return round_up(max(math.prod(shape), 1), _STEP)
