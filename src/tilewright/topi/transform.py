"""Operators that move elements: reshape, transpose, slices, joins, gathers. All are injective."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir.size_hint import size_hint
from tilewright.topi import layout as layouts
from tilewright.topi import tag
from tilewright.topi.shapes import simplified, slice_bounds
from tilewright.topi.util import as_index, extents, flatten_index, normalize_axis, unflatten_index


def injective(shape: Sequence[Any], body: Callable[..., Any], name: str, **attrs: Any) -> Tensor:
    """A tensor of `shape` whose elements `body` picks from other tensors."""
    return te.compute(shape, body, name=f"T_{name}", tag=tag.INJECTIVE, attrs=attrs)


def matching_groups(source: Sequence[Any], target: Sequence[Any]) -> list[tuple[list[int], list[int]]]:
    """Runs of dimensions of two shapes of one size that hold the same number of elements, as short as possible.

    >>> matching_groups((2, 12, 5), (2, 3, 4, 5))
    [([0], [0]), ([1], [1, 2]), ([2], [3])]
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        left: list[int] = []
        right: list[int] = []
        a: Any = 1
        b: Any = 1
        if i < len(source):
            left, a, i = [i], source[i], i + 1
        if j < len(target):
            right, b, j = [j], target[j], j + 1
        while not _is_equal(a, b) and (i < len(source) or j < len(target)):
            if (size_hint(a) < size_hint(b) or j == len(target)) and i < len(source):
                left.append(i)
                a, i = a * source[i], i + 1
            else:
                right.append(j)
                b, j = b * target[j], j + 1
        groups.append((left, right))
    return groups


def _is_equal(a: Any, b: Any) -> bool:
    """True if two numbers of elements are known to be equal."""
    return a == b if isinstance(a, int) and isinstance(b, int) else simplified(a) is simplified(b)


def reshape(x: Tensor, newshape: Sequence[int]) -> Tensor:
    """x with its elements in row-major order under another shape; index arithmetic only where dimensions change."""
    shape = extents(x)
    if 0 in shape:
        return te.compute(newshape, lambda *_: tir.const(0, x.dtype), name="T_reshape", tag=tag.INJECTIVE)
    groups = matching_groups(shape, newshape)

    def body(*indices: Any) -> Any:
        where: list[Any] = [0] * len(shape)
        for left, right in groups:
            flat = flatten_index([indices[d] for d in right], [newshape[d] for d in right])
            for d, index in zip(left, unflatten_index(flat, [shape[d] for d in left])):
                where[d] = index
        return x(*where)

    return injective(newshape, body, "reshape")


def transpose(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Dimension d of the result is dimension axes[d] of x; reversed by default."""
    order = [normalize_axis(a, x.ndim) for a in axes] if axes else list(reversed(range(x.ndim)))

    def body(*indices: Any) -> Any:
        where: list[Any] = [None] * x.ndim
        for d, axis in enumerate(order):
            where[axis] = indices[d]
        return x(*where)

    return injective([x.shape[a] for a in order], body, "transpose", axes=tuple(order))


def layout_transform(x: Tensor, src_layout: str, dst_layout: str) -> Tensor:
    """x rearranged between layouts such as ``"NCHW"`` and ``"NCHW16c"``."""
    shape = layouts.transform_shape(extents(x), src_layout, dst_layout)
    return injective(
        shape,
        lambda *i: x(*layouts.transform_indices(i, src_layout, dst_layout)),
        "layout_transform",
        src_layout=src_layout,
        dst_layout=dst_layout,
    )


def expand_dims(x: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """x with `num_newaxis` dimensions of size 1 put in before `axis`."""
    at = normalize_axis(axis, x.ndim + 1)
    shape = [*x.shape[:at], *[1] * num_newaxis, *x.shape[at:]]
    return injective(shape, lambda *i: x(*i[:at], *i[at + num_newaxis :]), "expand_dims")


def squeeze(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """x without the dimensions `axis` of size 1 (all such dimensions by default)."""
    shape = extents(x)
    given = [d for d, s in enumerate(shape) if s == 1] if axis is None else [axis] if isinstance(axis, int) else axis
    dropped = {normalize_axis(a, x.ndim) for a in given}

    def body(*indices: Any) -> Any:
        free = iter(indices)
        return x(*[0 if d in dropped else next(free) for d in range(x.ndim)])

    return injective([s for d, s in enumerate(x.shape) if d not in dropped], body, "squeeze")


#: Parts that are looked for one after another; schedules split a loop where the next one begins.
_MOST_IN_TURN = 8


def _pick(parts: Sequence[tuple[int, Callable[[Any], Any]]], index: Any) -> Any:
    """The value of the part that `index` falls into; `parts` are (first index, value as a function of the offset).

    One of many parts is looked for by halves, so that no condition stands within a thousand others.
    """
    if len(parts) > _MOST_IN_TURN:
        half = len(parts) // 2
        return tir.if_then_else(index < parts[half][0], _pick(parts[:half], index), _pick(parts[half:], index))
    start, value = parts[-1]
    result = value(index - start)
    for (start, value), (end, _) in reversed(list(pairwise(parts))):
        result = tir.if_then_else(index < end, value(index - start), result)
    return result


def concatenate(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after another along `axis`."""
    first = tensors[0]
    at = normalize_axis(axis, first.ndim)
    sizes = [extents(t)[at] for t in tensors]
    starts = list(accumulate(sizes[:-1], initial=0))

    def body(*i: Any) -> Any:
        def reader(t: Tensor) -> Callable[[Any], Any]:
            return lambda offset: t(*i[:at], offset, *i[at + 1 :])

        return _pick([(start, reader(t)) for start, t in zip(starts, tensors)], i[at])

    shape = [*first.shape[:at], sum(sizes), *first.shape[at + 1 :]]
    return injective(shape, body, "concatenate", concatenate_axis=at)


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors as slices along a new `axis`."""
    at = normalize_axis(axis, tensors[0].ndim + 1)

    def body(*i: Any) -> Any:
        rest = (*i[:at], *i[at + 1 :])

        def reader(t: Tensor) -> Callable[[Any], Any]:
            return lambda _: t(*rest)

        return _pick([(k, reader(t)) for k, t in enumerate(tensors)], i[at])

    shape = [*tensors[0].shape[:at], len(tensors), *tensors[0].shape[at:]]
    return injective(shape, body, "stack")


def split(x: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """x cut along `axis` into equal sections or at the given indices."""
    at = normalize_axis(axis, x.ndim)
    size = extents(x)[at]
    if isinstance(indices_or_sections, int):
        step = size // indices_or_sections
        edges = [*[k * step for k in range(indices_or_sections)], size]
    else:
        edges = [0, *indices_or_sections, size]

    def part(start: int, end: int) -> Tensor:
        shape = [*x.shape[:at], end - start, *x.shape[at + 1 :]]
        return injective(shape, lambda *i: x(*i[:at], i[at] + start, *i[at + 1 :]), "split")

    return [part(a, b) for a, b in pairwise(edges)]


def strided_slice(
    x: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> Tensor:
    """Python slicing along `axes` (the leading ones by default)."""
    bounds = slice_bounds(extents(x), begin, end, strides, axes)

    def body(*indices: Any) -> Any:
        return x(*[i * step + start for i, (start, step, _) in zip(indices, bounds)])

    return injective([count for _, _, count in bounds], body, "strided_slice")


def _safe_index(index: Any, size: int, mode: str) -> Any:
    """`index` made valid for an axis of `size`: modulo for wrap, unchecked for fast, else clipped.

    In the mode from_back negative ones count from the end before that.
    """
    if mode == "fast":
        return as_index(index)
    if index.dtype != "int64":  # a wider index is an index type only when it is known to be in range
        index = as_index(index)
    bound = size if isinstance(size, int) else size.astype(index.dtype)
    if mode == "wrap":
        return as_index(index % bound)
    if mode == "from_back":
        index = tir.select(index < 0, index + bound, index)
    return as_index(tir.minimum(tir.maximum(index, 0), bound - 1))


def take(x: Tensor, indices: Tensor, axis: int | None = None, mode: str = "clip") -> Tensor:
    """Slices of x along `axis` (of the flattened x if None) at `indices`; mode clip, from_back, wrap or fast."""
    shape = extents(x)
    if axis is None:
        total = math.prod(shape)

        def flat(*i: Any) -> Any:
            return x(*unflatten_index(_safe_index(indices(*i), total, mode), shape))

        return injective(indices.shape, flat, "take")
    at, rank = normalize_axis(axis, x.ndim), indices.ndim

    def body(*i: Any) -> Any:
        index = _safe_index(indices(*i[at : at + rank]), shape[at], mode)
        return x(*i[:at], index, *i[at + rank :])

    return injective([*x.shape[:at], *indices.shape, *x.shape[at + 1 :]], body, "take")


#: How many bytes there are.
BYTES = 1 << 8


def lookup_byte(x: Tensor, table: Tensor) -> Tensor:
    """Elements of `table`, one of 256, by the bytes of x read as unsigned."""
    return te.compute(x.shape, lambda *i: table(x(*i).astype("uint8").astype("int32")), "T_lookup_byte", tag.ELEMWISE)


def gather(x: Tensor, axis: int, indices: Tensor) -> Tensor:
    """out[i, j, …] = x[i, …, indices[i, j, …], …] with the index on `axis`."""
    at = normalize_axis(axis, x.ndim)
    size = extents(x)[at]

    def body(*i: Any) -> Any:
        return x(*i[:at], _safe_index(indices(*i), size, "from_back"), *i[at + 1 :])

    return injective(indices.shape, body, "gather")


def gather_nd(x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Slices of x at the coordinates in the first axis of `indices`, after `batch_dims` shared leading axes."""
    shape = extents(x)
    depth, rank = extents(indices)[0], indices.ndim - 1

    def body(*i: Any) -> Any:
        found = [_safe_index(indices(k, *i[:rank]), shape[batch_dims + k], "from_back") for k in range(depth)]
        return x(*i[:batch_dims], *found, *i[rank:])

    return injective([*indices.shape[1:], *x.shape[batch_dims + depth :]], body, "gather_nd")


def tile(x: Tensor, reps: Sequence[int]) -> Tensor:
    """x repeated as a whole, reps[d] times along dimension d (aligned at the last)."""
    rank = max(len(reps), x.ndim)
    shape = [1] * (rank - x.ndim) + list(extents(x))
    times = [1] * (rank - len(reps)) + list(reps)

    def body(*indices: Any) -> Any:
        own = [i if r == 1 else i % s for i, s, r in zip(indices, shape, times)]
        return x(*own[rank - x.ndim :])

    return injective([s * r for s, r in zip(shape, times)], body, "tile")


def repeat(x: Tensor, repeats: int, axis: int = 0) -> Tensor:
    """Each slice of x along `axis` repeated `repeats` times."""
    at = normalize_axis(axis, x.ndim)
    shape = [*x.shape[:at], extents(x)[at] * repeats, *x.shape[at + 1 :]]
    return injective(shape, lambda *i: x(*i[:at], i[at] // repeats, *i[at + 1 :]), "repeat")


def reverse(x: Tensor, axis: int = 0) -> Tensor:
    """x with its slices along `axis` in the opposite order."""
    at = normalize_axis(axis, x.ndim)
    last = extents(x)[at] - 1
    return injective(x.shape, lambda *i: x(*i[:at], last - i[at], *i[at + 1 :]), "reverse")


def one_hot(indices: Tensor, on_value: Tensor, off_value: Tensor, depth: int, axis: int, dtype: str) -> Tensor:
    """`on_value` where the new `axis` of size `depth` equals the index (negatives from the back), else `off_value`."""
    at = normalize_axis(axis, indices.ndim + 1)

    def body(*i: Any) -> Any:
        index = as_index(indices(*i[:at], *i[at + 1 :]))
        wanted = tir.select(index < 0, index + depth, index)
        return tir.select(tir.eq(wanted, i[at]), on_value().astype(dtype), off_value().astype(dtype))

    return injective([*indices.shape[:at], depth, *indices.shape[at:]], body, "one_hot")


def depth_to_space(x: Tensor, block_size: int, mode: str = "DCR") -> Tensor:
    """[N, C, H, W] to [N, C/b², H·b, W·b]; the channel is (row, column, depth), or (depth, row, column) for CRD."""
    n, c, h, w = extents(x)
    b, depth = block_size, c // (block_size * block_size)

    def body(i: Any, ch: Any, y: Any, z: Any) -> Any:
        inner = (y % b) * b + z % b
        return x(i, inner * depth + ch if mode == "DCR" else ch * (b * b) + inner, y // b, z // b)

    return injective((n, depth, h * b, w * b), body, "depth_to_space")


def space_to_depth(x: Tensor, block_size: int) -> Tensor:
    """The inverse of `depth_to_space` in DCR mode."""
    n, c, h, w = extents(x)
    b = block_size

    def body(i: Any, ch: Any, y: Any, z: Any) -> Any:
        return x(i, ch % c, y * b + ch // (c * b), z * b + (ch // c) % b)

    return injective((n, c * b * b, h // b, w // b), body, "space_to_depth")
