"""Nodes that run on the host: their values are no plain tensors, or decide the shape of the result at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any as AnyValue

import numpy as np
from onnx import TensorProto, numpy_helper

from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.schema import infer_outputs, type_from_proto
from tilewright.frontend.onnx.tensors import dtype_of
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import Any, TensorType, TupleType, Type
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op.onnx_host import has_host_operator, host_call, optional_of, parts_of, sequence_of, unranked
from tilewright.support.dtype import DType

#: Operators of onnxruntime's domain that ONNX took over as they were.
_TAKEN_OVER = frozenset({"GatherND", "Pad", "Range", "Trilu"})
#: Constants larger than this are not shown to ONNX's type inference; none that decide a shape are.
_MOST_SHAPE_ELEMENTS = 4096


def host_name(domain: str, op_type: str) -> str | None:
    """The name of the host operator for an ONNX operator, or None if there is none."""
    taken_over = domain == "com.microsoft" and op_type in _TAKEN_OVER
    name = op_type if not domain or taken_over else f"{domain}.{op_type}"
    return name if has_host_operator(name) else None


def needs_host(inputs: Sequence[Expr | None]) -> bool:
    """True if a value is text, a sequence, an optional, or a tensor of unknown rank."""
    return any(value is not None and _is_opaque(type_of(value)) for value in inputs)


def _is_opaque(type_: Type) -> bool:
    return not isinstance(type_, TensorType) or type_.dtype.is_string


def convert_on_host(node: OnnxNode, domain: str) -> list[Expr | None]:
    """The node as a call of its host operator, the types of its outputs as ONNX infers them."""
    name = host_name(domain, node.op_type)
    assert name is not None
    types = output_types(node, domain)
    attrs = node.plain_attributes()
    first = types[0]
    element = parts_of(first)[1][0] if parts_of(first)[0] == "AnyRank" else first
    if isinstance(element, TensorType):
        attrs["result_dtype"] = str(element.dtype)
    if node.op_type == "Split":
        attrs["outputs"] = len(node.proto.output)
    if any(value is None for value in node.inputs):
        attrs["given"] = tuple(value is not None for value in node.inputs)
    arguments = [value for value in node.inputs if value is not None]
    if len(types) == 1 and not _has_several_results(node.op_type):
        return [host_call(name, arguments, first, **attrs)]
    result = host_call(name, arguments, TupleType(types), **attrs)
    return [result[index] for index in range(len(types))]


#: Operators whose host function returns a tuple even where the model names one output only, with their number.
_SEVERAL = {"Unique": 4, "TopK": 2, "StringSplit": 2, "Dropout": 2, "MaxPool": 2, "DynamicQuantizeLinear": 3} | {
    "RNN": 2, "GRU": 2, "LSTM": 3
}  # fmt: skip


def _has_several_results(op_type: str) -> bool:
    return op_type in _SEVERAL or op_type == "Split"


def output_types(node: OnnxNode, domain: str) -> list[Type]:
    """The type of each output: by ONNX's inference, by the model's own declarations, by the rank rules below."""
    inputs = [None if value is None else type_of(value) for value in node.inputs]
    known = {
        name: numpy_helper.from_array(np.asarray(value.data), name)
        for name, value in zip(node.proto.input, node.inputs)
        if isinstance(value, Constant) and value.data.size <= _MOST_SHAPE_ELEMENTS and value.data.dtype.kind in "biuf"
    }
    proto = _with_all_outputs(node.proto, _SEVERAL.get(node.op_type, 0))
    inferred = infer_outputs(proto, domain, node.opset, inputs, known)
    found: list[Type] = []
    for name in proto.output:
        rule = _TYPES.get(node.op_type)
        type_ = rule(node, inputs) if rule is not None else None
        type_ = type_ or _more_exact(inferred.get(name), node.declared(name))
        if type_ is None:
            node.unsupported(f"the type of its output {name!r} is unknown before it runs")
        found.append(type_)
    return found


def _with_all_outputs(proto: AnyValue, count: int) -> AnyValue:
    """The node with a name for each of `count` outputs, so that ONNX infers the types of all."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    names = [name or f"unnamed_{index}" for index, name in enumerate(proto.output)]
    names += [f"unnamed_{index}" for index in range(len(names), count)]
    del copy.output[:]
    copy.output.extend(names)
    return copy


def _more_exact(inferred: Type | None, declared: Type | None) -> Type | None:
    """The type that says more of two about the same value."""
    if inferred is None or declared is None:
        return inferred or declared
    return declared if parts_of(inferred)[0] == "AnyRank" and isinstance(declared, TensorType) else inferred


TypeOfResult = Callable[[OnnxNode, "Sequence[Type | None]"], "Type | None"]


def _of_rank(rank: int | None, like: Type | None) -> Type | None:
    if not isinstance(like, TensorType):
        return None
    return unranked(like.dtype) if rank is None else TensorType([Any()] * rank, like.dtype)


def _length(type_: Type | None) -> int | None:
    """The number of elements of a vector, if it is known."""
    if isinstance(type_, TensorType) and type_.ndim == 1 and isinstance(type_.shape[0], int):
        return type_.shape[0]
    return None


def _rank(type_: Type | None) -> int | None:
    return type_.ndim if isinstance(type_, TensorType) else None


def _same_rank(_node: OnnxNode, inputs: Sequence[Type | None]) -> Type | None:
    return _of_rank(_rank(inputs[0]), inputs[0])


def _comparison(_node: OnnxNode, inputs: Sequence[Type | None]) -> Type | None:
    ranks = [_rank(given) for given in inputs]
    return _of_rank(None if None in ranks else max(map(int, ranks)), TensorType((), "bool"))  # type: ignore[arg-type]


def _gather_nd(node: OnnxNode, inputs: Sequence[Type | None]) -> Type | None:
    data, indices = inputs
    if not isinstance(data, TensorType) or not isinstance(indices, TensorType) or not indices.ndim:
        return None
    depth = indices.shape[-1]
    rank = data.ndim + indices.ndim - 1 - depth - int(node.attr("batch_dims", 0)) if isinstance(depth, int) else None
    return _of_rank(rank, data)


def _expand(_node: OnnxNode, inputs: Sequence[Type | None]) -> Type | None:
    length, rank = _length(inputs[1]), _rank(inputs[0])
    return _of_rank(None if length is None or rank is None else max(length, rank), inputs[0])


def _by_axes(sign: int) -> TypeOfResult:
    def rule(_node: OnnxNode, inputs: Sequence[Type | None]) -> Type | None:
        length, rank = _length(inputs[1]) if len(inputs) > 1 else None, _rank(inputs[0])
        return _of_rank(None if length is None or rank is None else rank + sign * length, inputs[0])

    return rule


def _constant_of_shape(node: OnnxNode, inputs: Sequence[Type | None]) -> Type | None:
    value = node.attr("value")
    return _of_rank(_length(inputs[0]), TensorType((), "float32" if value is None else DType(value.dtype)))


def _optional(node: OnnxNode, inputs: Sequence[Type | None]) -> Type | None:
    given = inputs[0] if inputs else None
    if given is None and node.attr("type") is not None:
        given = type_from_proto(node.attr("type"), node.label)
    return None if given is None else optional_of(given)


def _element(_node: OnnxNode, inputs: Sequence[Type | None]) -> Type | None:
    kind, parts = ("", ()) if inputs[0] is None else parts_of(inputs[0])
    return parts[0] if kind in ("Optional", "Sequence") else inputs[0]


def _inserted(_node: OnnxNode, inputs: Sequence[Type | None]) -> Type | None:
    """The sequence's elements and the new one under one type: an empty sequence says nothing of its elements."""
    element = inputs[1]
    return sequence_of(unranked(element.dtype)) if isinstance(element, TensorType) else None


def _compress(node: OnnxNode, inputs: Sequence[Type | None]) -> Type | None:
    data = inputs[0]
    if not isinstance(data, TensorType):
        return None
    axis = node.attr("axis")
    if axis is None:
        return TensorType([Any()], data.dtype)
    at = int(axis) % data.ndim
    return TensorType([Any() if i == at else extent for i, extent in enumerate(data.shape)], data.dtype)


def _of_output(node: OnnxNode) -> Type:
    return TensorType((), dtype_of(int(node.attr("output_datatype", TensorProto.FLOAT)), node.label))


def _reduced(node: OnnxNode, inputs: Sequence[Type | None]) -> Type | None:
    length = _length(inputs[1]) if len(inputs) > 1 else None
    rank = _rank(inputs[0])
    if rank is not None and not node.attr("keepdims", 1):
        every = 0 if not node.attr("noop_with_empty_axes", 0) else rank
        rank = None if length is None else rank - length if length else every
    return _of_rank(rank, inputs[0])


_RULES: dict[str, TypeOfResult] = {
    "ReduceSum ReduceMean ReduceProd ReduceMax ReduceMin ReduceL1 ReduceL2": _reduced,
    "ReduceSumSquare ReduceLogSum ReduceLogSumExp": _reduced,
    "CenterCropPad DFT MaxUnpool Pad Resize Slice Split Tile Upsample": _same_rank,
    "Greater GreaterOrEqual Less LessOrEqual Equal": _comparison, "GatherND": _gather_nd, "Expand": _expand,
    "AffineGrid Reshape": lambda node, inputs: _of_rank(_length(inputs[1]), inputs[0]),
    "NonMaxSuppression": lambda node, inputs: TensorType([Any(), 3], "int64"),
    "STFT": lambda node, inputs: _of_rank(4, inputs[0]), "Range": lambda node, inputs: _of_rank(1, inputs[0]),
    "Squeeze": _by_axes(-1), "Unsqueeze": _by_axes(1), "ConstantOfShape": _constant_of_shape, "Compress": _compress,
    "BlackmanWindow HammingWindow HannWindow": lambda node, inputs: _of_rank(1, _of_output(node)),
    "MelWeightMatrix": lambda node, inputs: _of_rank(2, _of_output(node)),
    "Trilu SequenceErase Identity": lambda node, inputs: inputs[0], "SequenceInsert": _inserted,
    "SequenceAt OptionalGetElement": _element, "Optional": _optional,
}  # fmt: skip
_TYPES = {name: rule for names, rule in _RULES.items() for name in names.split()}
