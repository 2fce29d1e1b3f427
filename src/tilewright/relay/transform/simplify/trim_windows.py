"""Taps of a convolution's window that only ever meet the padding are left out.

Before: nn.conv2d(%x, w, padding=[12, 12, 12, 12], dilation=[12, 12])        (%x: [1, C, 6, 6], w: [O, C, 3, 3])
After:  nn.conv2d(%x, w[:, :, 1:2, 1:2])

On small maps that is most of the work of a widely dilated convolution (the pyramid of DeepLab), and of a padded one at
1×1 (the last layers of a detector). Weights that are not finite stay: of them even the padding makes NaN.
"""

from __future__ import annotations

import math

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.following import LETTERS
from tilewright.relay.transform.simplify.make import is_call


def trim_windows(mod: IRModule) -> IRModule:
    """Trim the constant weights of every convolution of static size; see the module's docstring."""
    return infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, _rule)))


def _rule(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not is_call(node, "nn.conv1d", "nn.conv2d", "nn.conv3d"):
        return None
    data, weight = node.args
    letters = LETTERS[len(node.attrs.strides)][2:]
    layout, kernel_layout = node.attrs.data_layout, node.attrs.kernel_layout
    if not isinstance(weight, Constant) or not any(node.attrs.padding) or not (layout + kernel_layout).isalpha():
        return None
    shape = tensor_type_of(data).shape
    padding, kept = list(node.attrs.padding), [slice(None)] * len(kernel_layout)
    for axis, letter in enumerate(letters):
        extent = shape[layout.index(letter)]
        if not isinstance(extent, int):
            continue
        step, dilation = node.attrs.strides[axis], node.attrs.dilation[axis]
        before, after = padding[axis], padding[axis + len(letters)]
        taps = weight.data.shape[kernel_layout.index(letter)]
        first, last = _live_taps(extent, taps, step, dilation, before, after)
        kept[kernel_layout.index(letter)] = slice(first, last + 1)
        padding[axis], padding[axis + len(letters)] = before - first * dilation, after - (taps - 1 - last) * dilation
    return _trimmed(node, weight, tuple(kept), tuple(padding), letters)


def _live_taps(extent: int, taps: int, step: int, dilation: int, before: int, after: int) -> tuple[int, int]:
    """The first and last tap along an axis that meet the data at some position, or that no padding makes room to cut.

    All taps where none meets it.
    """
    positions = (extent + before + after - (taps - 1) * dilation - 1) // step + 1
    live = [tap for tap in range(taps) if _meets(extent, positions, step, tap * dilation - before)]
    if not live:
        return 0, taps - 1
    return min(live[0], max(0, before) // dilation), max(live[-1], taps - 1 - max(0, after) // dilation)


def _meets(extent: int, positions: int, step: int, offset: int) -> bool:
    """True if one of the positions `offset`, `offset + step`, … (`positions` of them) lies within [0, `extent`)."""
    earliest = max(0, math.ceil(-offset / step))
    return earliest < positions and earliest * step + offset < extent


def _trimmed(
    node: Call, weight: Constant, kept: tuple[slice, ...], padding: tuple[int, ...], letters: str
) -> Expr | None:
    """The convolution by the taps that are `kept`; None if that is all of them, or others make NaN of zeros."""
    part = weight.data[kept]
    if part.shape == weight.data.shape or not np.isfinite(weight.data.astype(np.float32)).all():
        return None
    attrs = node.attrs.replace(padding=padding)
    if attrs.get("kernel_size") is not None:
        layout = node.attrs.kernel_layout
        attrs = attrs.replace(kernel_size=tuple([part.shape[layout.index(letter)] for letter in letters]))
    return Call(node.op, [node.args[0], Constant(np.ascontiguousarray(part))], attrs, node.span)
