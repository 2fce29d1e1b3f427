"""What a call costs: its floating-point operations and the bytes it must move, by its operators and types.

These are figures of the mathematics, not of a kernel: a convolution counts two operations for every multiply-add of its
definition, however it is computed (Winograd's does fewer, and may so exceed the peak of the machine), and bytes count
every input, weight and output once, as if caches kept them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.relay.ir.expr import Call, Function
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import TensorType, tensor_types
from tilewright.relay.ir.visitor import calls

Shapes = list[tuple[int, ...]]


def flops(call: Call) -> int:
    """Operations of one call: of an operator, or of all operators of the fused function it calls.

    Matrix products and convolutions count two for a multiply-add; elementwise operators one for each element of the
    result, whatever the function; reductions and normalizations one for each element read; moving data counts nothing.
    """
    if isinstance(call.op, Function):
        return sum(flops(inner) for inner in calls(call.op.body))
    if not isinstance(call.op, Op):
        return 0
    inputs = _tensors(call)
    (result, *_) = tensor_types(call.checked_type)
    if call.op.name in _PRODUCTS:
        return 2 * result.size * _PRODUCTS[call.op.name](call, [t.shape for t in inputs], result)
    if call.op.name in ("nn.max_pool2d", "nn.avg_pool2d"):
        return result.size * math.prod(call.attrs["pool_size"])
    if call.op.pattern in (OpPattern.ELEMWISE, OpPattern.BROADCAST):
        return result.size if inputs else 0
    if call.op.pattern is OpPattern.INJECTIVE or not inputs:
        return 0
    return max(t.size for t in inputs)


def moved_bytes(call: Call) -> int:
    """Bytes of all inputs (weights among them) and outputs of one call, each tensor once."""
    read = {arg: sum(t.nbytes for t in tensor_types(arg.checked_type)) for arg in call.args}
    return sum(read.values()) + sum(t.nbytes for t in tensor_types(call.checked_type))


def _tensors(call: Call) -> list[TensorType]:
    return [t for arg in call.args for t in tensor_types(arg.checked_type)]


def _conv2d(call: Call, shapes: Shapes, result: TensorType) -> int:
    """Multiply-adds of one output: the elements of one filter, in any layout of the kernel."""
    channels = _letter(call.attrs["kernel_layout"], shapes[1], "O")
    return math.prod(shapes[1]) // channels


def _conv2d_transpose(call: Call, shapes: Shapes, result: TensorType) -> int:
    """Each element of the data meets each element of its channel's filters; counted for one output, rounded up."""
    per_input = math.prod(shapes[1]) // _letter(call.attrs["kernel_layout"], shapes[1], "I")
    return -(-math.prod(shapes[0]) * per_input // result.size)


def _winograd(call: Call, shapes: Shapes, result: TensorType) -> int:
    """Those of the convolution it stands for; the kernel is [O/ob, P, Q, C, ob]."""
    return math.prod(call.attrs["kernel_size"]) * shapes[1][3]


def _last(call: Call, shapes: Shapes, result: TensorType) -> int:
    return shapes[0][-1]


def _matmul(call: Call, shapes: Shapes, result: TensorType) -> int:
    return shapes[0][-2] if call.attrs.get("transpose_a", False) else shapes[0][-1]


def _attention(call: Call, shapes: Shapes, result: TensorType) -> int:
    """Both products, counted for one output, rounded up; shapes are those of query, key and value."""
    (_, heads, rows, depth), (batch, _, columns, width) = shapes[0], shapes[2]
    return -(-batch * heads * rows * columns * (depth + width) // result.size)


def _recurrent(call: Call, shapes: Shapes, result: TensorType) -> int:
    """One output needs a product with the state for each gate; the gates are [T, B, D * G * H]."""
    return shapes[0][-1] // shapes[2][0]


#: Operator -> multiply-adds of one element of its result.
_PRODUCTS: dict[str, Callable[[Call, Shapes, TensorType], int]] = {
    "nn.conv2d": _conv2d,
    "nn.conv2d_transpose": _conv2d_transpose,
    "nn.contrib_conv2d_winograd_without_weight_transform": _winograd,
    "nn.dense": _last,
    "nn.matmul": _matmul,
    "nn.batch_matmul": _matmul,
    "nn.contrib_dense_int8": _last,
    "nn.contrib_batch_matmul_int8": _last,
    "nn.contrib_conv2d_int8": _conv2d,
    "nn.attention": _attention,
    "nn.lstm": _recurrent,
    "nn.gru": _recurrent,
    "nn.rnn": _recurrent,
}


def _letter(layout: str, shape: tuple[int, ...], letter: str) -> int:
    """The whole extent of an axis, its blocks included: 64 for "O" of "OIHW16i16o" and [4, 4, 3, 3, 16, 16]."""
    names = [c for c in layout if c.isalpha()]
    return math.prod(size for name, size in zip(names, shape, strict=True) if name.upper() == letter)
