"""The cost of a call: its floating-point operations and the bytes it must move, by its operators and types.

These are figures of the mathematics, not of a kernel: a convolution counts two operations for every multiply-add of its
definition, however it is computed (Winograd's does fewer, and may so exceed the peak of the machine), and bytes count
every input, weight and output once, as if caches kept them.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Function
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.ir.visitor import calls
from tilewright.tir.size_hint import size_hint


def flops(call: Call) -> int:
    """Operations of one call: of an operator, or of all operators of the fused function it calls.

    Operators with a rule of their own (`Op.flops`) follow that: products and convolutions count two for a multiply-add.
    Of the others elementwise ones count one for each element of the result, whatever the function; reductions and
    normalizations one for each element read; moving data counts nothing.
    """
    if isinstance(call.op, Function):
        return sum(flops(inner) for inner in calls(call.op.body))
    if not isinstance(call.op, Op):
        return 0
    inputs = [t for arg in call.args for t in tensor_types(arg.checked_type)]
    (result, *_) = tensor_types(call.checked_type)
    if call.op.flops is not None:
        return call.op.flops(call.attrs, inputs, result)
    if call.op.pattern in (OpPattern.ELEMWISE, OpPattern.BROADCAST):
        return result.size if inputs else 0
    if call.op.pattern is OpPattern.INJECTIVE or not inputs:
        return 0
    return max((t.size for t in inputs), key=size_hint)


def narrow_operands(call: Call) -> str:
    """The type that most multiply-adds of a call are done in, "int8" or "bfloat16"; "" for wider ones, and without any.

    Weights of a few bits are multiplied as bytes.
    """
    counts = {inner: size_hint(flops(inner)) for inner in _products(call)}
    most = max(counts, key=lambda inner: counts[inner], default=None)
    if most is None or not counts[most]:
        return ""
    types = {str(t.dtype) for arg in most.args for t in tensor_types(arg.checked_type)}
    return "bfloat16" if "bfloat16" in types else "int8" if types & {"int8", "uint8"} else ""


def _products(call: Call) -> list[Call]:
    """The calls within `call` that multiply and add."""
    if isinstance(call.op, Function):
        return [product for inner in calls(call.op.body) for product in _products(inner)]
    return [call] if isinstance(call.op, Op) and call.op.flops is not None else []


def moved_bytes(call: Call) -> int:
    """Bytes of all inputs (weights among them) and outputs of one call, each tensor once."""
    read = {arg: sum(t.nbytes for t in tensor_types(arg.checked_type)) for arg in call.args}
    return sum(read.values()) + sum(t.nbytes for t in tensor_types(call.checked_type))
