"""Broadcasting where only a run can tell whether a size is 1: the host brings the operands to sizes that agree.

Compiled code takes sizes that meet to be equal. Where both are the same size of one value that holds, and nothing is
done; where one may be 1 and the other not, the host operator `Stretched` repeats what is 1, and hands on what fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.frontend.onnx.node import OnnxNode
from tilewright.relay.ir.expr import Call, Constant, Expr, TupleGetItem
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import Dim, TensorType, TupleType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.op.onnx_host import host_call

#: Operators whose inputs are broadcast against each other.
_BROADCASTS = frozenset(
    ("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual",
     "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow", "PRelu", "Sub", "Sum", "Where", "Xor")
)  # fmt: skip
#: The first opset in which they broadcast as NumPy does.
_FIRST_OPSET = 7


def stretched(node: OnnxNode, domain: str) -> list[Expr | None]:
    """The inputs of a node, as they are or brought to sizes that agree."""
    given = node.inputs
    if domain or node.op_type not in _BROADCASTS or node.opset < _FIRST_OPSET or None in given:
        return given
    values = [value for value in given if value is not None]
    types = [type_ for type_ in map(type_of, values) if isinstance(type_, TensorType)]
    if len(types) < len(values) or not any(type_.has_any for type_ in types):
        return given
    shapes = [list(type_.shape) for type_ in types]
    axes = _agree(values, shapes)
    if not any(axes):
        return given
    results = TupleType([TensorType(shape, type_.dtype) for type_, shape in zip(types, shapes)])
    call = host_call("Stretched", values, results, axes=tuple(map(tuple, axes)))
    return [call[index] if axes[index] else value for index, value in enumerate(values)]


def _agree(values: Sequence[Expr], shapes: list[list[Dim]]) -> list[list[int]]:
    """The axes of each value that may have to be repeated, from the back; `shapes` become those that they then have."""
    found: list[list[int]] = [[] for _ in values]
    for axis in range(1, max(map(len, shapes)) + 1):
        here = [index for index, shape in enumerate(shapes) if len(shape) >= axis and not _is_one(shape[-axis])]
        if not any(isinstance(shapes[index][-axis], AnyDim) for index in here):
            continue
        if len({_size_of(values[index], len(shapes[index]) - axis) for index in here}) == 1:
            continue
        fixed = [size for index in here if isinstance(size := shapes[index][-axis], int)]
        for index in here:
            if not isinstance(shapes[index][-axis], int):
                found[index].append(-axis)
                shapes[index][-axis] = fixed[0] if fixed else AnyDim()
    return found


def _is_one(size: Dim) -> bool:
    return isinstance(size, int) and size == 1


def _size_of(value: Expr, axis: int) -> tuple[Any, int]:
    """A value and an axis of it that `axis` of `value` is as long as: of operators by elements, those of an operand."""
    while True:
        origin = next(_origins(value, axis), None)
        if origin is None:
            return value, axis
        value, axis = origin


def _origins(value: Expr, axis: int) -> Iterator[tuple[Expr, int]]:
    """The operands of which `axis` has the size that it has in `value`."""
    if isinstance(value, TupleGetItem) and isinstance(value.tuple_value, Call):
        made = value.tuple_value
        if getattr(made.op, "name", "") == "onnx.Stretched":  # all results agree: the last axis of all is the same
            yield made, axis - tensor_type_of(value).ndim
    if not isinstance(value, Call) or not isinstance(value.op, Op) or value.op.pattern > OpPattern.COMM_REDUCE:
        return
    if value.op.pattern == OpPattern.COMM_REDUCE:
        kept = value.attrs.get("keepdims") and not _is_one(tensor_type_of(value).shape[axis])
        yield from [(value.args[0], axis)] if kept else []
    if value.op.pattern > OpPattern.BROADCAST:
        return
    rank = tensor_type_of(value).ndim
    for operand in value.args:
        type_ = type_of(operand)
        if not isinstance(operand, Constant) and isinstance(type_, TensorType):
            at = axis - rank + type_.ndim
            if at >= 0 and not _is_one(type_.shape[at]):
                yield operand, at
