"""Registration of quantized operators: as composites, by their definition in plain operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.call_reference import reference_value
from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr, Tuple
from tilewright.relay.ir.registry import TypeRule
from tilewright.relay.ir.type import TensorType, TupleType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.op.common import Types, call, require, same_dim, tensor
from tilewright.relay.op.composite import register_composite
from tilewright.relay.op.tensor import cast
from tilewright.relay.op.transform import reshape
from tilewright.support.dtype import DType

Canonical = Callable[[Attrs, Sequence[Expr]], Expr]


def register_quantized(
    name: str,
    num_inputs: int,
    type_rule: TypeRule,
    canonical: Canonical,
    *,
    follows: Any = None,
    **attributes: attr.Attribute,
) -> None:
    """Enter a quantized operator; its reference evaluates what `canonical(attrs, args)` builds."""

    def reference(attrs: Attrs, *values: np.ndarray) -> Any:
        constants: list[Expr] = [Constant(np.asarray(value)) for value in values]
        if len(values) > num_inputs:
            count = (len(values) - 2) // 3
            constants = [Tuple(constants[i : i + count]) for i in (0, count, 2 * count)] + constants[3 * count :]
        return reference_value(canonical(attrs, constants))

    register_composite(
        name,
        num_inputs=num_inputs,
        expansion=lambda args, attrs: canonical(attrs, args),
        reference=reference,
        type_rule=type_rule,
        attributes=attributes,
        follows=follows,
    )


def quantized_call(name: str, *args: Any, **attrs: Any) -> Call:
    """A call of a quantized operator: Python numbers become float32 scales or int32 zero points."""
    return call(name, *[as_parameter(arg) for arg in args], **attrs)


def as_parameter(value: Any) -> Any:
    """A scale (float) or zero point (int) given as a number, as a constant."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, list | tuple):
        return Tuple([as_parameter(item) for item in value])
    data = np.asarray(value)
    return Constant(data.astype(np.float32 if data.dtype.kind == "f" else np.int32))


def along(value: Expr, axis: int, ndim: int) -> Expr:
    """A scale or zero point so that it broadcasts: a scalar as it is, a vector along `axis`, a full tensor as it is."""
    type_ = tensor_type_of(value)
    if type_.ndim != 1 or ndim == 1:
        return reshape(value, ()) if type_.ndim == 1 and type_.shape == (1,) and ndim != 1 else value
    axis = axis % ndim
    shape = (type_.shape[0], *(1,) * (ndim - 1 - axis))
    return Constant(value.data.reshape(shape)) if isinstance(value, Constant) else reshape(value, shape)


def as_type(value: Expr, dtype: str) -> Expr:
    """`value` in `dtype`; itself when it already has it. Constants stay constants, which other passes then see."""
    if isinstance(value, Constant):
        return Constant(value.data.astype(DType(dtype).numpy))
    return value if tensor_type_of(value).dtype == DType(dtype) else cast(value, dtype)


def check_parameters(types: Types, axis: int, data: TensorType) -> None:
    """Scales and zero points are scalars, vectors along `axis` of the data, or tensors that broadcast to it."""
    for type_ in map(tensor, types):
        vector = type_.ndim == 1 and data.ndim > 0
        fits = not vector or type_.shape[0] == 1 or same_dim(type_.shape[0], data.shape[axis % data.ndim])
        require(
            fits and type_.ndim <= max(data.ndim, 1),
            f"a scale or zero point of shape {type_.shape} does not fit axis {axis} of data of shape {data.shape}",
        )


def fields_of(value: Expr) -> list[Expr]:
    """The fields of a tuple-valued expression."""
    if isinstance(value, Tuple):
        return list(value.fields)
    found = type_of(value)
    assert isinstance(found, TupleType)
    return [value[i] for i in range(len(found.fields))]
