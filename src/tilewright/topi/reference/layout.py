"""Reference: `layout_transform` in NumPy."""

from __future__ import annotations

import numpy as np

from tilewright.topi.layout import parse_layout, transform_shape


def layout_transform(data: np.ndarray, src_layout: str, dst_layout: str) -> np.ndarray:
    """`data` rearranged from `src_layout` to `dst_layout`, such as ``"NCHW"`` to ``"NCHW16c"``.

    Raises TypeMismatchError where the axes differ or an extent is not a multiple of its block.
    """
    if src_layout == dst_layout:
        return data
    shape = transform_shape(data.shape, src_layout, dst_layout)
    plain = _to_primal(data, src_layout)
    source, target = parse_layout(src_layout), parse_layout(dst_layout)
    plain = plain.transpose([source.primal.index(letter) for letter in target.primal])
    split_shape: list[int] = []
    position: dict[str, int] = {}
    for letter, extent in zip(target.primal, plain.shape):
        position[letter] = len(split_shape)
        split_shape += [extent // target.block_of(letter), *target.blocks[letter]]
    order = []
    used = dict.fromkeys(target.primal, 0)
    for letter, block in target.axes:
        used[letter] += 1 if block else 0
        order.append(position[letter] + (used[letter] if block else 0))
    return np.ascontiguousarray(plain.reshape(split_shape).transpose(order)).reshape(shape)


def _to_primal(data: np.ndarray, layout: str) -> np.ndarray:
    """`data` with the blocks of each axis merged back into it, axes in the order of the layout's capital letters."""
    parsed = parse_layout(layout)
    extents = parsed.primal_extents(data.shape)
    order: list[int] = []
    for letter in parsed.primal:
        order += [i for i, (name, block) in enumerate(parsed.axes) if name == letter and block == 0]
        order += [i for i, (name, block) in enumerate(parsed.axes) if name == letter and block]
    return data.transpose(order).reshape([extents[letter] for letter in parsed.primal])
