"""Discrete Fourier transforms as products with a constant matrix of cosines and sines."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tilewright.errors import ModelError
from tilewright.frontend.builders.fourier import real_inverse
from tilewright.frontend.idioms import cast, concatenate, constant, index_axis, move_axis, slice_axis
from tilewright.frontend.onnx.node import OnnxNode, reshape, transpose
from tilewright.frontend.onnx.registry import converts
from tilewright.frontend.onnx.tensors import dtype_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.runtime.host_ops.signals import WINDOWS, cosine_window
from tilewright.support.memory_limit import require_memory

# The axis is an attribute before opset 20, and an input from then on, by default the last of the signal.
converts.functions({"DFT": lambda node: _dft(node, int(node.attr("axis", 1)))}, since=17)
converts.functions({
    "DFT": lambda node: _dft(node, int(node.static(2, "axis").reshape(-1)[0]) if node.has(2) else -2),
}, since=20)  # fmt: skip


def _dft(node: OnnxNode, axis: int) -> Expr:
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    axis = node.axis(axis, node.rank())
    shape = node.shape()
    length = int(node.static(1, "dft_length").reshape(-1)[0]) if node.has(1) else shape[axis]
    if inverse and onesided and not node.has(1):
        length = 2 * (shape[axis] - 1)
    if inverse and onesided:
        return _real_inverse(node, axis, length)
    turns = transform(node, node[0], axis, length, inverse)
    kept = length // 2 + 1 if onesided else length
    return slice_axis(turns, axis, 0, kept)


def transform(node: OnnxNode, data: Expr, axis: int, length: int, inverse: bool = False) -> Expr:
    """The transform along `axis` of signals, cut or padded to `length`; the last axis holds real (and imaginary) parts.

    Summed in float64: the error of a plain sum grows with its length, unlike that of a fast transform.
    """
    shape = node.shape(data)
    if shape[-1] not in (1, 2):
        raise ModelError(f"{node.label}: the last axis holds real and imaginary parts, and so 1 or 2, not {shape[-1]}")
    used = min(shape[axis], length)
    require_memory(2 * 8 * length * used, f"{node.label}: its matrix of {length} by {used} cosines and sines")
    data = slice_axis(data, axis, 0, used)
    angles = 2 * np.pi * np.outer(np.arange(length), np.arange(used)) / length
    cosine, sine = np.cos(angles), np.sin(angles) * (1 if inverse else -1)
    scale = 1 / length if inverse else 1.0
    real = index_axis(data, len(shape) - 1, 0)
    parts = [_along(node, real, axis, cosine * scale), _along(node, real, axis, sine * scale)]
    if shape[-1] == 2:
        imaginary = index_axis(data, len(shape) - 1, 1)
        parts[0] = parts[0] - _along(node, imaginary, axis, sine * scale)
        parts[1] = parts[1] + _along(node, imaginary, axis, cosine * scale)
    return concatenate([op.expand_dims(part, axis=len(shape) - 1, num_newaxis=1) for part in parts], len(shape) - 1)


def _real_inverse(node: OnnxNode, axis: int, length: int) -> Expr:
    """The real signal of `length` whose transform begins with the lines given: the others mirror them."""
    lines, last = min(node.shape()[axis], length // 2 + 1), node.rank() - 2
    require_memory(2 * 8 * length * lines, f"{node.label}: its matrix of {length} by {lines} cosines and sines")
    real, imaginary = (move_axis(index_axis(node[0], last + 1, part), axis, last) for part in (0, 1))
    return op.expand_dims(move_axis(real_inverse(real, imaginary, length), last, axis), axis=last + 1)


def _along(node: OnnxNode, data: Expr, axis: int, matrix: np.ndarray) -> Expr:
    """`matrix` [out, in] applied along an axis."""
    rank = node.rank(data)
    order = [*(other for other in range(rank) if other != axis), axis]
    moved = transpose(data, order)
    rows = cast(moved if rank > 1 else reshape(node, moved, (1, node.shape(moved)[0])), "float64")
    result = cast(op.nn.dense(rows, constant(matrix, "float64"), units=matrix.shape[0]), node.dtype(data))
    result = result if rank > 1 else reshape(node, result, (matrix.shape[0],))
    return transpose(result, np.argsort(order).tolist())


@converts("STFT", since=17)
def convert_stft(node: OnnxNode, onesided: int = 1) -> Expr:
    """Transforms of windowed frames: (batch, frames, lines, 2) of a signal (batch, length, 1 or 2)."""
    step = int(node.static(1, "frame_step").reshape(-1)[0])
    shape = node.shape()
    if node.has(3):
        length = int(node.static(3, "frame_length").reshape(-1)[0])
    elif node.has(2):
        length = node.shape(2)[0]
    else:
        raise ModelError(f"{node.label} has neither a window nor a frame length")
    count = (shape[1] - length) // step + 1
    require_memory(8 * count * length, f"{node.label}: its {count} frames of {length} samples")
    positions = np.arange(count)[:, None] * step + np.arange(length)
    frames = op.take(node[0], Constant(positions), axis=1, mode="clip")
    if node.has(2):
        frames = frames * reshape(node, node[2], (1, 1, length, 1))
    turned = transform(node, frames, 2, length)
    return slice_axis(turned, 2, 0, length // 2 + 1 if onesided else length)


@converts(*WINDOWS, since=17)
def convert_window(node: OnnxNode, periodic: bool = True) -> Expr:
    """A window as a sum of cosines, computed in float64 and rounded once."""
    size = node.ints(0, "size")[0]
    dtype = dtype_of(int(node.attr("output_datatype", TensorProto.FLOAT)), node.label)
    require_memory(8 * size, f"{node.label}: a window of {size} values")
    return constant(cosine_window(node.op_type, size, periodic), dtype)
