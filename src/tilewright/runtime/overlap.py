"""Memory that must not be shared: that of outputs which a caller passes, and of results with what stays behind."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tilewright.errors import InputError
from tilewright.runtime.signature import TensorSpec


def apart(arrays: Sequence[Any], outputs: Sequence[Any], specs: Sequence[TensorSpec]) -> list[Any]:
    """The inputs `arrays`, copies in place of those that share memory with one of `outputs`, which a run will fill.

    Raises `InputError` where two of `outputs`, described by `specs`, share memory.
    """
    spans = sorted((*byte_bounds(a), i) for i, a in enumerate(outputs) if isinstance(a, np.ndarray) and a.size)
    latest = -1  # the position among `spans` of the one that ends last
    for position, (start, end, index) in enumerate(spans):
        if latest >= 0 and start < spans[latest][1]:
            _refuse_shared(outputs, spans[: position + 1], index, specs)
        if latest < 0 or end > spans[latest][1]:
            latest = position
    return [_copied_where_shared(array, outputs, spans) for array in arrays]


def _refuse_shared(
    outputs: Sequence[Any], earlier: Sequence[tuple[int, int, int]], index: int, specs: Sequence[TensorSpec]
) -> None:
    """Refuse output `index` where it shares elements with one before it; strided ones may lie between each other."""
    for _, _, other in earlier:
        if other != index and np.shares_memory(outputs[other], outputs[index]):
            names = [specs[i].name if i < len(specs) else str(i) for i in sorted((other, index))]
            raise InputError(
                f"the arrays given for the outputs {names[0]!r} and {names[1]!r} share memory, so that one result "
                "would overwrite the other: pass each output an array of its own"
            )


def _copied_where_shared(array: Any, outputs: Sequence[Any], spans: Sequence[tuple[int, int, int]]) -> Any:
    if not isinstance(array, np.ndarray) or not array.size:
        return array
    low, high = byte_bounds(array)
    near = (outputs[index] for start, end, index in spans if start < high and low < end)
    return array.copy() if any(np.shares_memory(array, output) for output in near) else array


def fresh(results: Sequence[Any], kept: Iterable[Any]) -> list[Any]:
    """`results`, copies in place of arrays that share memory with one of `kept` or with one before them."""
    spans: list[tuple[int, int]] = []  # apart from each other, in order
    for span in sorted(byte_bounds(array) for array in kept if isinstance(array, np.ndarray) and array.size):
        if spans and span[0] < spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], span[1])
        else:
            spans.append(span)
    return [_own(result, spans) for result in results]


def _own(result: Any, spans: list[tuple[int, int]]) -> Any:
    if not isinstance(result, np.ndarray) or not result.size or result.dtype == object:
        return result
    low, high = byte_bounds(result)
    position = bisect_right(spans, (low, high))
    before = position > 0 and spans[position - 1][1] > low
    behind = position < len(spans) and spans[position][0] < high
    if before or behind:
        return result.copy()
    insort(spans, (low, high))
    return result
