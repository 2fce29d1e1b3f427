"""Operators that move elements, make tensors of sizes, or tell sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto as T
from onnx import numpy_helper

from bench.fuzz.draft import Draft, Rejected, Value
from bench.fuzz.reductions import axes_of
from bench.fuzz.values import ELEMENTS, FLOATS, draw_array, is_float, numpy_type, type_text


def factors(draw: Draft, count: int, parts: int) -> list[int]:
    """Sizes, `parts` of them, whose product is `count`."""
    sizes = [1] * parts
    rest, divisor = count, 2
    while rest > 1:
        if rest % divisor:
            divisor += 1
            continue
        sizes[draw.integer(0, parts - 1)] *= divisor
        rest //= divisor
    return sizes


def reshape(draw: Draft, operator: str) -> None:
    """Reshape to any shape of as many elements, with 0 for a size that stays and -1 for one that is left."""
    data = draw.operand([draw.element(operator)])
    zero_kept = draw.chance(0.8)
    if data.array.size == 0:
        sizes = [0 if zero_kept else size for size in data.shape] if data.shape.count(0) == 1 else list(data.shape)
    elif data.array.size == 1 and draw.chance(0.3):
        sizes = []
    else:
        sizes = factors(draw, data.array.size, draw.integer(1, 4))
        if draw.chance(0.3):
            sizes[draw.integer(0, len(sizes) - 1)] = -1
        sizes = [0 if zero_kept and i < data.rank and s == data.shape[i] else s for i, s in enumerate(sizes)]
    shape = draw.known(np.array(sizes, np.int64))
    draw.emit(operator, [data, shape], allowzero=None if zero_kept else 1)


def flatten(draw: Draft, operator: str) -> None:
    """Flatten before any axis."""
    data = draw.operand([draw.element(operator)])
    least = -data.rank if draw.since(operator) >= 11 else 0
    draw.emit(operator, [data], axis=draw.integer(least, data.rank) if draw.chance(0.8) or data.rank < 1 else None)


def squeeze(draw: Draft, operator: str) -> None:
    """Squeeze some axes of size 1, or all."""
    data = draw.operand([draw.element(operator)], fits=lambda v: 1 in v.shape or v.rank == 0)
    ones = [i for i, size in enumerate(data.shape) if size == 1]
    chosen = draw.rng.sample(ones, draw.integer(min(1, len(ones)), len(ones)))
    axes = [a - data.rank if draw.since(operator) >= 11 and draw.chance(0.3) else a for a in chosen]
    inputs, attributes = axes_of(draw, operator, data, axes if axes and draw.chance(0.7) else None)
    draw.emit(operator, inputs, **attributes)


def unsqueeze(draw: Draft, operator: str) -> None:
    """Unsqueeze at one axis of the result or more."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank < 5)
    count = draw.integer(1, 2)
    axes = draw.axes(data.rank + count, count)
    if draw.since(operator) < 11:
        axes = sorted(a % (data.rank + count) for a in axes)
    inputs, attributes = axes_of(draw, operator, data, axes)
    draw.emit(operator, inputs, **attributes)


def transpose(draw: Draft, operator: str) -> None:
    """Transpose in any order, or in the opposite one."""
    data = draw.operand([draw.element(operator)])
    perm = draw.rng.sample(range(data.rank), data.rank) if draw.chance(0.8) and data.rank else None
    draw.emit(operator, [data], perm=perm)


def expand(draw: Draft, operator: str) -> None:
    """Expand in both directions."""
    data = draw.operand([draw.element(operator)])
    shape = [draw.integer(1, 4) if size == 1 else draw.choice([size, 1]) for size in data.shape]
    shape = [draw.integer(1, 3) for _ in range(draw.integer(0, 2))] + shape
    cut = draw.integer(0, len(shape)) if draw.chance(0.2) else 0
    draw.emit(operator, [data, draw.known(np.array(shape[cut:], np.int64))])


def tile(draw: Draft, operator: str) -> None:
    """Tile, at times no times."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0)
    repeats = [draw.choice([0, 1, 1, 2, 2, 3, 1, 2, 3, 1]) for _ in data.shape]
    draw.emit(operator, [data, draw.known(np.array(repeats, np.int64))])


def slice_(draw: Draft, operator: str) -> None:
    """Slice with bounds in and out of the data, either way, at any step."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0)
    axes = draw.axes(data.rank, draw.integer(1, data.rank))
    starts, ends, steps = [], [], []
    for axis in axes:
        size = data.shape[axis]
        starts.append(draw.integer(-size - 2, size + 1))
        ends.append(draw.choice([draw.integer(-size - 2, size + 2), 2**31 - 1, -(2**31)]))
        steps.append(draw.choice([1, 1, 2, 3, -1, -2]))
    if draw.since(operator) < 10:
        axes = [a % data.rank for a in axes]
        draw.emit(operator, [data], starts=starts, ends=ends, axes=axes)
        return
    kind = draw.choice([np.int32, np.int64])
    given: list[Value | None] = [draw.known(np.array(entry, kind)) for entry in (starts, ends)]
    every = axes == list(range(data.rank)) and draw.chance(0.5)
    given.append(None if every else draw.known(np.array(axes, kind)))
    given.append(draw.known(np.array(steps, kind)) if draw.chance(0.6) else None)
    draw.emit(operator, [data, *given])


def pad(draw: Draft, operator: str) -> None:
    """Pad in every mode; negative amounts take away, never all."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0)
    modes = ["constant", "constant", "reflect", "edge", *(["wrap"] if draw.since(operator) >= 19 else [])]
    mode = draw.choice(modes)
    axes = draw.axes(data.rank) if draw.takes(operator, "axes") and draw.chance(0.3) else None
    amounts = []
    for axis in range(data.rank) if axes is None else axes:
        size = data.shape[axis]
        limit = {"constant": 3, "reflect": size - 1, "edge": 3 if size else 0, "wrap": size}[mode]
        least = -1 if mode == "constant" and size > 2 and draw.chance(0.3) else 0
        amounts.append((draw.integer(least, max(limit, 0)), draw.integer(least, max(limit, 0))))
    pads = [before for before, _ in amounts] + [after for _, after in amounts]
    if draw.since(operator) < 11:
        draw.emit(operator, [data], mode=mode, pads=pads, value=float(draw.integer(-2, 2)))
        return
    value = draw.leaf(data.element, ()) if mode == "constant" and draw.chance(0.5) else None
    where = None if axes is None else draw.known(np.array(axes, np.int64))
    draw.emit(operator, [data, draw.known(np.array(pads, np.int64)), value, where], mode=mode)


def center_crop_pad(draw: Draft, operator: str) -> None:
    """CenterCropPad to sizes near those of the data."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0)
    axes = draw.axes(data.rank, draw.integer(1, data.rank)) if draw.chance(0.6) else None
    sizes = [max(1, data.shape[a] + draw.integer(-3, 3)) for a in (range(data.rank) if axes is None else axes)]
    draw.emit(operator, [data, draw.known(np.array(sizes, draw.choice([np.int32, np.int64])))], axes=axes)


def shape_of(draw: Draft, operator: str) -> None:
    """Shape, whole or in part, and Size."""
    data = draw.operand([draw.element(operator)])
    ends = {name: draw.integer(-data.rank - 1, data.rank + 1) for name in ("start", "end") if draw.chance(0.3)}
    draw.emit(operator, [data], **ends)


def constant_of_shape(draw: Draft, operator: str) -> None:
    """ConstantOfShape of any element type; no sizes make a scalar."""
    shape = draw.known(np.array(draw.shape(), np.int64))
    texts = draw.schema(operator).outputs[0].types
    element = draw.choice(e for e in ELEMENTS if type_text(e) in texts and e != T.STRING)
    filled = draw_array(draw.rng, element, (1,))
    draw.emit(operator, [shape], value=numpy_helper.from_array(filled) if draw.chance(0.8) else None)


def range_(draw: Draft, operator: str) -> None:
    """Range of numbers that are exact in each type, up or down; at times it is empty."""
    element = draw.element(operator)
    start, step = draw.integer(-4, 4), draw.choice([1, 1, 2, 3, -1, -2])
    limit = start + step * draw.integer(-1, 9)
    draw.emit(operator, [draw.known(np.array(n).astype(numpy_type(element))) for n in (start, limit, step)])


def eye_like(draw: Draft, operator: str) -> None:
    """EyeLike of a matrix."""
    data = draw.operand([draw.element(operator)], rank=2)
    kinds = (T.FLOAT, T.DOUBLE, T.INT64, T.INT32, T.UINT8, T.BOOL, T.FLOAT16)
    draw.emit(operator, [data], dtype=draw.choice([None, *kinds]), k=draw.choice([None, draw.integer(-3, 3)]))


def trilu(draw: Draft, operator: str) -> None:
    """Trilu of matrices, about any diagonal."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank >= 2)
    k = draw.known(np.array(draw.integer(-6, 6), np.int64)) if draw.chance(0.6) else None
    draw.emit(operator, [data, k], upper=draw.choice([None, 0, 1]))


def blocks(draw: Draft, operator: str) -> None:
    """DepthToSpace and SpaceToDepth."""
    size = draw.integer(1, 3)
    batch, channels, height, width = draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 3), draw.integer(1, 3)
    deep = operator == "DepthToSpace"
    shape = (batch, channels * size**2, height, width) if deep else (batch, channels, height * size, width * size)
    data = draw.operand([draw.element(operator)], shape=shape)
    mode = draw.choice([None, "DCR", "CRD"]) if deep or draw.since(operator) > 13 else None
    draw.emit(operator, [data], blocksize=size, mode=mode)


def concat(draw: Draft, operator: str) -> None:
    """Concat of tensors that are alike but for one axis."""
    first = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0)
    axis = draw.axis(first.rank)
    if draw.since(operator) < 11:
        axis %= first.rank

    def alike(other: Value) -> bool:
        rest = [size for i, size in enumerate(first.shape) if i != axis % first.rank]
        return other.rank == first.rank and rest == [s for i, s in enumerate(other.shape) if i != axis % first.rank]

    parts = [first]
    for _ in range(draw.integer(0, 3)):
        shape = list(first.shape)
        shape[axis] = draw.integer(0 if draw.chance(0.1) else 1, 4)
        found = draw.tensors([first.element], alike)
        parts.append(draw.choice(found) if draw.chance(0.6) else draw.leaf(first.element, tuple(shape)))
    draw.rng.shuffle(parts)
    draw.emit(operator, parts, axis=axis)


def split(draw: Draft, operator: str) -> None:
    """Split into equal parts or into given ones, one of which may be empty."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0 and max(v.shape) > 1)
    axis = draw.axis(data.rank)
    size = data.shape[axis]
    cuts = sorted(draw.integer(0, size) for _ in range(draw.integer(0, 3)))
    parts = [b - a for a, b in zip([0, *cuts], [*cuts, size])]
    axis = axis % data.rank if draw.since(operator) < 11 else axis
    if draw.chance(0.3) and size:
        count = draw.choice(n for n in range(1, size + 1) if draw.since(operator) >= 18 or size % n == 0)
        draw.emit(operator, [data], count, axis=axis, num_outputs=count)
    elif draw.since(operator) < 13:
        draw.emit(operator, [data], len(parts), axis=axis, split=parts)
    else:
        draw.emit(operator, [data, draw.known(np.array(parts, np.int64))], len(parts), axis=axis)


def non_zero(draw: Draft, operator: str) -> None:
    """NonZero of anything but a scalar."""
    draw.emit(operator, [draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0)])


def col2im(draw: Draft, operator: str) -> None:
    """Col2Im of as many columns as its blocks make."""
    spatial = draw.integer(1, 2)
    block = [draw.integer(1, 3) for _ in range(spatial)]
    dilations, strides = ([draw.integer(1, 2) for _ in block] for _ in range(2))
    pads = [draw.integer(0, 1) for _ in range(2 * spatial)]
    image = [(b - 1) * d + 1 + draw.integer(0, 4) for b, d in zip(block, dilations)]
    counts = [
        (size + pads[i] + pads[i + spatial] - (block[i] - 1) * dilations[i] - 1) // strides[i] + 1
        for i, size in enumerate(image)
    ]
    shape = (draw.integer(1, 2), draw.integer(1, 3) * int(np.prod(block)), int(np.prod(counts)))
    data = draw.operand([draw.element(operator, only=FLOATS)], shape=shape)
    sizes = [draw.known(np.array(entry, np.int64)) for entry in (image, block)]
    draw.emit(operator, [data, *sizes], dilations=dilations, pads=pads, strides=strides)


def constant(draw: Draft, operator: str) -> None:
    """Constant in each of its forms."""
    element = draw.element("Identity", only=[e for e in draw.elements("Identity") if e != T.STRING])
    forms: list[dict[str, object]] = [
        {"value_float": 1.5}, {"value_floats": [1.5, -2.0]}, {"value_int": -3}, {"value_ints": [4, 5, 6]},
    ]  # fmt: skip
    if draw.since(operator) < 12 or draw.chance(0.5):
        if is_float(element) and element not in FLOATS:
            raise Rejected("drawn elsewhere")
        draw.constant(draw_array(draw.rng, element, draw.shape()))
        return
    draw.emit(operator, [], **draw.choice(forms))


FAMILY: dict[str, Callable[[Draft, str], None]] = {
    "Reshape": reshape, "Flatten": flatten, "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Transpose": transpose,
    "Expand": expand, "Tile": tile, "Slice": slice_, "Pad": pad, "CenterCropPad": center_crop_pad, "Shape": shape_of,
    "Size": shape_of, "ConstantOfShape": constant_of_shape, "Range": range_, "EyeLike": eye_like, "Trilu": trilu,
    "DepthToSpace": blocks, "SpaceToDepth": blocks, "Concat": concat, "Split": split, "NonZero": non_zero,
    "Col2Im": col2im, "Constant": constant,
}  # fmt: skip
