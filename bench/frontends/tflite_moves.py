"""Draws of TFLite's operators that move, choose or convert codes: a graph of one each, of random types and options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.frontends.tflite_operators import Case, Random, case, ints
from tests.frontend.tflite.builder import T

Draw = Callable[[Random], Case]
_BYTES, _ALL = ("int8", "uint8"), ("int8", "uint8", "int16")


def _cut(sizes: bool, r: Random) -> Case:
    """SPLIT in equal parts, or SPLIT_V in parts of any size, one of which may be -1."""
    shape, count = list(r.shape(most=5)), r.randint(1, 4)
    axis = r.randrange(len(shape))
    parts = [r.randint(1, 4) if sizes else shape[axis] for _ in range(count)]
    shape[axis] = sum(parts)
    data, given = r.codes(r.choice(_ALL), *shape), r.choice([axis, axis - len(shape)])
    results = [r.codes(data.dtype, *[n if d == axis else s for d, s in enumerate(shape)], like=data) for n in parts]
    if not sizes:
        return case("SPLIT", [ints(given), data], results, ("SplitOptions", {"numSplits": count}))
    listed = list(parts)
    if r.random() < 0.3:
        listed[r.randrange(count)] = -1
    return case("SPLIT_V", [data, ints(listed), ints(given)], results, ("SplitVOptions", {"numSplits": count}))


def _stack(r: Random) -> Case:
    """PACK."""
    shape, count = r.shape(r.choice([1, 2, 3]), 5), r.randint(1, 4)
    axis = r.randint(0, len(shape))
    first = r.codes(r.choice(_ALL), *shape)
    parts: list[T | None] = [r.codes(first.dtype, *shape, like=first) for _ in range(count)]
    result = r.codes(first.dtype, *shape[:axis], count, *shape[axis:], like=first)
    return case("PACK", parts, [result], ("PackOptions", {"valuesCount": count, "axis": axis}))


def _unstack(r: Random) -> Case:
    """UNPACK."""
    shape = r.shape(r.choice([2, 3, 4]), 4)
    axis = r.randrange(len(shape))
    data = r.codes(r.choice(_BYTES), *shape)
    left = [n for d, n in enumerate(shape) if d != axis]
    results = [r.codes(data.dtype, *left, like=data) for _ in range(shape[axis])]
    return case("UNPACK", [data], results, ("UnpackOptions", {"num": shape[axis], "axis": axis}))


def _shaped(name: str, r: Random) -> Case:
    """Operators of a tensor and a list: TILE, EXPAND_DIMS, SQUEEZE, REVERSE_V2, BROADCAST_TO."""
    shape = list(r.shape(r.choice([1, 2, 3]), 5))
    axis, dtype = r.randrange(len(shape)), r.choice(_ALL)
    given: list[T | None] = []
    options: Any = None
    if name == "TILE":
        times = [r.randint(1, 3) for _ in shape]
        given, result = [ints(times)], [n * t for n, t in zip(shape, times)]
    elif name == "EXPAND_DIMS":
        given, result = [ints(axis)], [*shape[:axis], 1, *shape[axis:]]
    elif name == "SQUEEZE":
        result = list(shape)
        shape.insert(axis, 1)
        options = ("SqueezeOptions", {"squeezeDims": [axis]})
    elif name == "REVERSE_V2":
        given, result = [ints([axis])], shape
    else:
        result = [r.randint(1, 3), *(n if r.random() < 0.5 else r.randint(2, 4) for n in shape)]
        shape = [n if n == m else 1 for n, m in zip(shape, result[1:])]
        given = [ints(result)]
    data = r.codes(dtype, *shape)
    return case(name, [data, *given], [r.codes(dtype, *result, like=data)], options)


def _strided(r: Random) -> Case:
    """STRIDED_SLICE, backwards at times, with open ends and indices."""
    shape = r.shape(r.choice([1, 2, 3, 4]), 6)
    begin, end, strides, masks, left = [], [], [], {"beginMask": 0, "endMask": 0, "shrinkAxisMask": 0}, []
    for axis, extent in enumerate(shape):
        step, low = r.choice([1, 1, 2, 3, -1, -2]), r.randrange(extent)
        high = r.randint(low + 1, extent)
        start, stop = (low, high) if step > 0 else (high - 1, low - 1)
        index = r.random() < 0.15
        if index:
            step, start, stop = 1, low, low + 1
            masks["shrinkAxisMask"] |= 1 << axis
        elif r.random() < 0.2:
            masks["beginMask"] |= 1 << axis
            start = 0 if step > 0 else extent - 1
        if not index and (stop < 0 or r.random() < 0.2):
            masks["endMask"] |= 1 << axis
            stop = extent if step > 0 else -1
        left += [] if index else [len(range(start, stop, step))]
        begin.append(start), end.append(stop), strides.append(step)
    data = r.codes(r.choice(_ALL), *shape)
    inputs: list[T | None] = [data, ints(begin), ints(end), ints(strides)]
    return case("STRIDED_SLICE", inputs, [r.codes(data.dtype, *left, like=data)], ("StridedSliceOptions", masks))


def _gather_nd(r: Random) -> Case:
    """GATHER_ND."""
    shape = r.shape(r.choice([1, 2, 3, 4]), 5)
    depth, lead = r.randint(1, len(shape)), r.shape(r.choice([1, 2]), 4)
    index = np.stack([r.numbers.integers(0, n, lead) for n in shape[:depth]], -1)
    data = r.codes(r.choice(_ALL), *shape)
    return case("GATHER_ND", [data, ints(index)], [r.codes(data.dtype, *lead, *shape[depth:], like=data)])


def _scatter_nd(r: Random) -> Case:
    """SCATTER_ND, each index once."""
    shape = r.shape(r.choice([1, 2, 3]), 5)
    depth = r.randint(1, len(shape))
    every = np.argwhere(np.ones(shape[:depth], bool))
    index = every[r.numbers.permutation(len(every))[: r.randint(1, len(every))]]
    data = r.codes(r.choice(_BYTES), len(index), *shape[depth:])
    return case("SCATTER_ND", [ints(index), data, ints(shape)], [r.codes(data.dtype, *shape, like=data)])


def _update(r: Random) -> Case:
    """DYNAMIC_UPDATE_SLICE, at times beyond the edge."""
    shape = r.shape(r.choice([1, 2, 3]), 6)
    part = [r.randint(1, n) for n in shape]
    start = [r.randint(-1, n) for n in shape]
    data = r.codes("int8", *shape)
    inputs: list[T | None] = [data, r.codes("int8", *part, like=data), ints(start)]
    return case("DYNAMIC_UPDATE_SLICE", inputs, [r.codes("int8", *shape, like=data)])


def _batches(r: Random) -> Case:
    """BATCH_TO_SPACE_ND, with crops."""
    block, (n, h, w, c) = [r.randint(1, 3), r.randint(1, 3)], r.shape(4, 4)
    size = [h * block[0], w * block[1]]
    crops = [[r.randint(0, (extent - 1) // 2), r.randint(0, (extent - 1) // 2)] for extent in size]
    left = [extent - sum(crop) for extent, crop in zip(size, crops)]
    data = r.codes(r.choice(_BYTES), n * block[0] * block[1], h, w, c)
    result = r.codes(data.dtype, n, *left, c, like=data)
    return case("BATCH_TO_SPACE_ND", [data, ints(block), ints(crops)], [result])


def _reverse_sequence(r: Random) -> Case:
    """REVERSE_SEQUENCE."""
    shape = r.shape(r.choice([2, 3, 4]), 5)
    sequence, batch = r.sample(range(len(shape)), 2)
    lengths = r.numbers.integers(1, shape[sequence], shape[batch], endpoint=True)
    data = r.codes(r.choice(["uint8", "int16"]), *shape)
    options = ("ReverseSequenceOptions", {"seqDim": sequence, "batchDim": batch})
    return case("REVERSE_SEQUENCE", [data, ints(lengths)], [r.codes(data.dtype, *shape, like=data)], options)


def _largest(r: Random) -> Case:
    """TOPK_V2, of codes of which many are alike."""
    shape = (*r.shape(r.choice([1, 2]), 4), r.randint(1, 300))
    count = r.randint(1, shape[-1])
    data = r.codes(r.choice(_BYTES), *shape)
    results = [r.codes(data.dtype, *shape[:-1], count, like=data), T((*shape[:-1], count), "int32")]
    return case("TOPK_V2", [data, ints(count)], results)


def _select(name: str, r: Random) -> Case:
    """SELECT by elements or rows, SELECT_V2 broadcast."""
    shape, dtype = r.shape(most=5), r.choice(_ALL)
    flags = shape if name == "SELECT_V2" or r.random() < 0.6 else shape[:1]
    if name == "SELECT_V2" and r.random() < 0.5:
        flags = tuple(n if r.random() < 0.5 else 1 for n in shape)
    a = r.codes(dtype, *shape)
    inputs: list[T | None] = [T(flags, "bool"), a, r.codes(dtype, *shape, like=a)]
    return case(name, inputs, [r.codes(dtype, *shape, like=a)])


def _cast(r: Random) -> Case:
    """CAST from codes to any type, and from integers to bytes."""
    kinds = ["int8", "uint8", "int16", "int32", "int64", "float32", "bool"]
    given = r.choice(["int8", "uint8", "int16", "int32"])
    wanted = r.choice(kinds if given != "int32" else kinds[:3])
    shape = r.shape()
    numbers = {name: value for value, name in enumerate(("float32", "float16", "int32", "uint8", "int64"))}
    numbers |= {"bool": 6, "int16": 7, "int8": 9}
    options = ("CastOptions", {"inDataType": numbers[given], "outDataType": numbers[wanted]})
    return case("CAST", [T(shape, given)], [T(shape, wanted)], options, low=-300, high=300)


def _whole(name: str, dtypes: tuple[str, ...], r: Random) -> Case:
    """Operators of integers without scales: FLOOR_MOD, BITWISE_XOR, RIGHT_SHIFT, divisors and shifts from 1 to 7."""
    shape, dtype = r.shape(), r.choice(dtypes)
    other = r.numbers.integers(1, 8, shape) if name != "BITWISE_XOR" else None
    return case(name, [T(shape, dtype), T(shape, dtype, other)], [T(shape, dtype)], low=-128, high=127)


def _table(r: Random) -> Case:
    """EMBEDDING_LOOKUP of a table of codes."""
    rows, width, count = r.randint(1, 9), r.randint(1, 9), r.randint(1, 5)
    table = r.constant("int8", (rows, width), scale=r.scale(), zero=0)
    index = T((count,), "int32", r.numbers.integers(0, rows, count))
    return case("EMBEDDING_LOOKUP", [index, table], [r.codes("int8", count, width, like=table)])


def _diagonal(name: str, r: Random) -> Case:
    """MATRIX_DIAG, and MATRIX_SET_DIAG of matrices."""
    shape, dtype = r.shape(r.choice([2, 3])), r.choice(_BYTES)
    data = r.codes(dtype, *shape)
    if name == "MATRIX_DIAG":
        return case(name, [data], [r.codes(dtype, *shape, shape[-1], like=data)])
    line = r.codes(dtype, *shape[:-2], min(shape[-2:]), like=data)
    return case(name, [data, line], [r.codes(dtype, *shape, like=data)])


def _dilate(r: Random) -> Case:
    """DILATE by a code."""
    shape = r.shape(r.choice([1, 2, 3]), 4)
    steps = [r.randint(1, 3) for _ in shape]
    data = r.codes("int8", *shape)
    fill = T((), "int8", np.asarray(r.randint(-128, 127)), scale=data.scale, zero=data.zero)
    result = r.codes("int8", *[(n - 1) * s + 1 for n, s in zip(shape, steps)], like=data)
    return case("DILATE", [data, ints(steps), fill], [result], ("DilateOptions", {}))


def _fill(r: Random) -> Case:
    """FILL by a code that is an input."""
    shape, value = r.shape(), r.codes(r.choice(["int8", "int16"]))
    return case("FILL", [ints(shape), value], [r.codes(value.dtype, *shape, like=value)])


def _one_hot(r: Random) -> Case:
    """ONE_HOT of two codes."""
    shape, depth, dtype = r.shape(r.choice([1, 2])), r.randint(1, 6), r.choice(_BYTES)
    on, off = (T((), dtype, np.asarray(r.randint(0, 100))) for _ in range(2))
    axis = r.choice([-1, 0, len(shape)])
    position = len(shape) if axis < 0 else axis
    inputs: list[T | None] = [T(shape, "int32"), ints(depth), on, off]
    result = T((*shape[:position], depth, *shape[position:]), dtype)
    return case("ONE_HOT", inputs, [result], ("OneHotOptions", {"axis": axis}), low=-1, high=6)


MOVES: dict[str, Draw] = {
    "SPLIT": partial(_cut, False), "SPLIT_V": partial(_cut, True), "PACK": _stack, "UNPACK": _unstack,
    **{name: partial(_shaped, name) for name in ("TILE", "EXPAND_DIMS", "SQUEEZE", "REVERSE_V2", "BROADCAST_TO")},
    "STRIDED_SLICE": _strided, "GATHER_ND": _gather_nd, "SCATTER_ND": _scatter_nd, "DYNAMIC_UPDATE_SLICE": _update,
    "BATCH_TO_SPACE_ND": _batches, "REVERSE_SEQUENCE": _reverse_sequence, "TOPK_V2": _largest,
    **{name: partial(_select, name) for name in ("SELECT", "SELECT_V2")}, "CAST": _cast,
    "FLOOR_MOD": partial(_whole, "FLOOR_MOD", ("int8", "int16")),
    "BITWISE_XOR": partial(_whole, "BITWISE_XOR", ("int8", "uint8")),
    "RIGHT_SHIFT": partial(_whole, "RIGHT_SHIFT", _ALL), "EMBEDDING_LOOKUP": _table,
    **{name: partial(_diagonal, name) for name in ("MATRIX_DIAG", "MATRIX_SET_DIAG")}, "DILATE": _dilate,
    "FILL": _fill, "ONE_HOT": _one_hot,
}  # fmt: skip
