"""Floating-point operations of operators that take more than one for each element: the field `Op.flops`.

Products and convolutions count two for every multiply-add of their definition, however they are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilewright.relay.ir.expr import Attrs
from tilewright.relay.ir.registry import Flops
from tilewright.relay.ir.type import TensorType

Types = Sequence[TensorType]


def multiply_adds(per_element: Callable[[Attrs, Types, TensorType], int]) -> Flops:
    """The rule of an operator that takes `per_element(attrs, types, result)` multiply-adds for one of its result."""
    return lambda attrs, types, result: 2 * result.size * per_element(attrs, types, result)


def _convolution(attrs: Attrs, types: Types, _result: TensorType) -> int:
    """The elements of one filter, in any layout of the kernel."""
    return math.prod(types[1].shape) // _letter(attrs["kernel_layout"], types[1].shape, "O")


def _transposed(attrs: Attrs, types: Types, result: TensorType) -> int:
    """Each element of the data meets each element of its channel's filters; counted for one output, rounded up."""
    per_input = math.prod(types[1].shape) // _letter(attrs["kernel_layout"], types[1].shape, "I")
    return -(-types[0].size * per_input // result.size)


def _winograd(attrs: Attrs, types: Types, _result: TensorType) -> int:
    """Those of the convolution it stands for; the kernel is [O/ob, P, Q, C, ob], of int16 [O/ob, P, Q, C/2, ob, 2]."""
    return math.prod(attrs["kernel_size"]) * types[1].shape[3] * math.prod(types[1].shape[5:])


def _product(attrs: Attrs, types: Types, _result: TensorType) -> int:
    """The elements of a row of the first operand, or of a column if it is read transposed."""
    return types[0].shape[-2] if attrs.get("transpose_a", False) else types[0].shape[-1]


def _attention(_attrs: Attrs, types: Types, result: TensorType) -> int:
    """Both products, counted for one output, rounded up; the operands are query, key and value."""
    (_, heads, rows, depth), (batch, _, columns, width) = types[0].shape, types[2].shape
    return -(-batch * heads * rows * columns * (depth + width) // result.size)


def _attention_backward(_attrs: Attrs, types: Types, _result: TensorType) -> int:
    """Five products, each of as many terms or results for an element of the query's gradient as there are rows."""
    return 5 * types[0].shape[2]


def _recurrent(_attrs: Attrs, types: Types, _result: TensorType) -> int:
    """One output needs a product with the state for each gate; the gates are [T, B, D * G * H]."""
    return types[0].shape[-1] // types[2].shape[0]


def _weight_gradient(_attrs: Attrs, types: Types, _result: TensorType) -> int:
    """The pixels of one channel of the result, in all images; the operands are its gradient and the data."""
    return types[0].size // types[0].shape[1]


def _letter(layout: str, shape: tuple[int, ...], letter: str) -> int:
    """The whole extent of an axis, its blocks included: 64 for "O" of "OIHW16i16o" and [4, 4, 3, 3, 16, 16]."""
    names = [c for c in layout if c.isalpha()]
    return math.prod(size for name, size in zip(names, shape, strict=True) if name.upper() == letter)


convolution = multiply_adds(_convolution)
transposed_convolution = multiply_adds(_transposed)
winograd = multiply_adds(_winograd)
product = multiply_adds(_product)
attention = multiply_adds(_attention)
attention_backward = multiply_adds(_attention_backward)
weight_gradient = multiply_adds(_weight_gradient)
recurrent = multiply_adds(_recurrent)


def window(attrs: Attrs, _types: Types, result: TensorType) -> int:
    """One for each element of each window."""
    return result.size * math.prod(attrs["pool_size"])
