"""The operators of `com.microsoft` as ONNX's library sees them: from onnxruntime's own table, and by its inference.

ONNX knows nothing of other domains. So each operator that is drawn is declared to it, and the types and sizes of its
results are asked of an onnxruntime session of that one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import onnx
import onnxruntime
from onnx import defs, helper
from onnx.defs import OpSchema
from onnxruntime.capi import onnxruntime_pybind11_state as engine

from bench.fuzz.values import ELEMENTS, type_text

DOMAIN = "com.microsoft"
VERSION = 1
_TEXTS = {type_text(element): element for element in ELEMENTS}
_OPTIONS = ("Single", "Optional", "Variadic")


def declare(names: Iterable[str]) -> None:
    """Tell ONNX of the operators `names`, each once."""
    table = {schema.name: schema for schema in engine.get_all_operator_schema() if schema.domain == DOMAIN}
    for name in names:
        if not defs.has(name, VERSION, DOMAIN):
            defs.register_schema(_schema(table[name]))


def _schema(given: Any) -> OpSchema:
    schema = OpSchema(
        given.name,
        DOMAIN,
        VERSION,
        inputs=_parameters(given.inputs),
        outputs=_parameters(given.outputs),
        type_constraints=[
            (entry.type_param_str, _known(entry.allowed_type_strs), "") for entry in given.type_constraints
        ],
        attributes=[
            OpSchema.Attribute(name, getattr(OpSchema.AttrType, str(entry.type).split(".")[-1]), "", required=False)
            for name, entry in given.attributes.items()
        ],
    )
    schema.set_type_and_shape_inference_function(_Inference(given.name))
    return schema


def _known(types: Iterable[str]) -> list[str]:
    return [text for text in types if text in _TEXTS]


def _parameters(given: Sequence[Any]) -> list[OpSchema.FormalParameter]:
    return [
        OpSchema.FormalParameter(
            entry.name,
            entry.typeStr,
            param_option=getattr(OpSchema.FormalParameterOption, str(entry.option).split(".")[-1]),
        )
        for entry in given
    ]


class _Inference:
    """The function that ONNX calls to learn the types of a node's results."""

    def __init__(self, operator: str) -> None:
        self._operator = operator

    def __call__(self, context: Any) -> None:
        names = [f"x{i}" if context.has_input(i) else "" for i in range(context.get_num_inputs())]
        outputs = [f"y{i}" for i in range(context.get_num_outputs())]
        node = helper.make_node(self._operator, names, outputs, domain=DOMAIN)
        node.attribute.extend(self._attributes(context))
        types = {name: context.get_input_type(i) for i, name in enumerate(names) if name}
        if None in types.values():  # a result of an operator that ONNX infers nothing of
            return
        inputs = [helper.make_value_info(name, type_) for name, type_ in types.items()]
        for i, (type_, shape) in enumerate(inferred(node, inputs)):
            context.set_output_type(i, helper.make_tensor_type_proto(type_, shape))

    def _attributes(self, context: Any) -> list[onnx.AttributeProto]:
        declared = defs.get_schema(self._operator, VERSION, DOMAIN).attributes
        return [found for name in declared if (found := context.get_attribute(name)) is not None]


def inferred(node: onnx.NodeProto, inputs: Sequence[onnx.ValueInfoProto]) -> list[tuple[int, list[Any]]]:
    """(element type, sizes) of each result of a node of this domain; raises `InferenceError` where it is not valid."""
    graph = helper.make_graph([node], "node", inputs, [onnx.ValueInfoProto(name=name) for name in node.output])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, VERSION)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # whatever it is, the node is not one that onnxruntime takes
        raise onnx.shape_inference.InferenceError(f"{node.op_type}: {error}") from error
    return [
        (_TEXTS[output.type], [s if isinstance(s, int) else None for s in output.shape])
        for output in session.get_outputs()
    ]
