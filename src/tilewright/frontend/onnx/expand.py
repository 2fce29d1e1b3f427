"""Operators without a converter of their own: by ONNX's definition, or by their value where all inputs are constant."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, helper

from tilewright.frontend.onnx.schema import find_schema
from tilewright.frontend.onnx.value_types import type_to_proto
from tilewright.relay.ir.type import Type
from tilewright.support.memory_limit import require_memory

#: Inputs up to this size may say how large the results are.
_PROBED_BYTES = 1 << 10


def expand_node(proto: Any, domain: str, opset: int, inputs: Sequence[Type | None]) -> FunctionProto | None:
    """The body ONNX gives for an operator defined through simpler ones, with this node's attributes put in.

    None for a primitive operator, or one that ONNX does not know.
    """
    schema = find_schema(proto.op_type, domain, opset)
    if schema is None:
        return None
    if schema.has_function:
        body = FunctionProto()
        body.CopyFrom(schema.function_body)
    elif schema.has_context_dependent_function:
        types = [type_to_proto(type_).SerializeToString() for type_ in inputs]
        encoded = schema.get_context_dependent_function(proto.SerializeToString(), types)
        if not encoded:
            return None
        body = FunctionProto.FromString(encoded)
    else:
        return None
    attributes = {name: entry.default_value for name, entry in schema.attributes.items() if entry.default_value.type}
    attributes.update({entry.name: entry for entry in proto.attribute})
    _put_attributes(body.node, attributes)
    return body


def _put_attributes(nodes: Any, values: Mapping[str, Any]) -> None:
    """Replace attributes that refer to the function's own by their values; one without a value is dropped."""
    for node in nodes:
        resolved = []
        for entry in node.attribute:
            if entry.ref_attr_name:
                if entry.ref_attr_name not in values:
                    continue
                value = AttributeProto()
                value.CopyFrom(values[entry.ref_attr_name])
                value.name = entry.name
                resolved.append(value)
            else:
                if entry.type == AttributeProto.GRAPH:
                    _put_attributes(entry.g.node, values)
                resolved.append(entry)
        kept = [AttributeProto.FromString(entry.SerializeToString()) for entry in resolved]
        del node.attribute[:]
        node.attribute.extend(kept)


def evaluate_node(
    proto: Any, opsets: Mapping[str, int], inputs: Sequence[np.ndarray | None]
) -> list[np.ndarray] | None:
    """The outputs of a node on constant inputs by ONNX's reference evaluator; None if it cannot evaluate the node."""
    # the evaluator is slow to import, and few models need it
    from onnx.reference import ReferenceEvaluator

    names = [name for name in proto.input if name]
    kinds = [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names)]
    results = [onnx.ValueInfoProto(name=name) for name in proto.output if name]
    graph = helper.make_graph([proto], "constant", kinds, results)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(name, version) for name, version in opsets.items()]
    )
    feeds = {name: value for name, value in zip(proto.input, inputs) if name}
    _require_memory(model, feeds)
    try:
        values = dict(zip((name for name in proto.output if name), ReferenceEvaluator(model).run(None, feeds)))
    except (NotImplementedError, RuntimeError, TypeError, ValueError, KeyError, IndexError, AttributeError):
        return None
    arrays = [np.asarray(values[name]) if name else np.zeros(()) for name in proto.output]
    return arrays if all(array.dtype.kind in "biuf" for array in arrays) else None


def _require_memory(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray | None]) -> None:
    """Refuse a node whose results, as far as ONNX can tell their shapes, this machine has no memory for."""
    probe = onnx.ModelProto.FromString(model.SerializeToString())
    del probe.graph.input[:]
    known = [(name, value) for name, value in feeds.items() if value is not None and value.dtype.kind in "biuf"]
    probe.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name) for name, value in known if value.nbytes <= _PROBED_BYTES
    )
    try:
        outputs = onnx.shape_inference.infer_shapes(probe, data_prop=True).graph.output
    except (RuntimeError, ValueError, TypeError):  # the evaluator has an error of its own for what is wrong
        return
    for output in outputs:
        shape = output.type.tensor_type.shape.dim
        count = math.prod(dim.dim_value for dim in shape) if all(dim.dim_value for dim in shape) else 0
        require_memory(8 * count, f"the result {output.name!r} of the node {model.graph.node[0].op_type}")
