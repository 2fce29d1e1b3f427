"""ONNX models with weights of a few bits: MatMulNBits and GatherBlockQuantized of onnxruntime's domain.

Before: MatMul(x, w)
After:  MatMulNBits(x, codes, scales)                        codes: uint8[N, blocks, bytes], scales: float32[N, blocks]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilewright.errors import UnsupportedError
from tilewright.quantize.onnx_file import quantizable, with_nodes
from tilewright.quantize.weight_codes import CodedWeights, block_for
from tilewright.topi.reference.blockwise import packed_codes

Array = np.ndarray[Any, Any]
_DOMAIN = "com.microsoft"
#: Bits that the operators have.
_BITS = (2, 4, 8)


def obstacles(proto: onnx.ModelProto, bits: int, block: int) -> dict[str, str]:
    """The nodes whose weights can be codes, by name: "" or why they cannot.

    Raises `UnsupportedError` for bits that the operators do not have.
    """
    if bits not in _BITS:
        raise UnsupportedError(f"MatMulNBits has codes of 2, 4 and 8 bits, not {bits}; write an artifact (.tw)")
    found = quantizable(proto)
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type == "Gather" and not node.domain:
            table = constants.get(node.input[0])
            fits = table is not None and len(table.dims) == 2 and not table.dims[1] % block_for(table.dims[1], block)
            found[node.name] = "" if fits else "Gather whose rows are no whole number of blocks"
    return found


def with_weights(proto: onnx.ModelProto, coded: Mapping[str, CodedWeights], accuracy_level: int) -> onnx.ModelProto:
    """A model of `read_for_recipe` with the codes `coded`, by the names of nodes.

    Raises `UnsupportedError` for a layer that has no such form in ONNX.
    """
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    reasons = quantizable(made)
    tables = {node.name for node in made.graph.node if node.op_type == "Gather"}
    for name, weights in coded.items():
        why = "" if name in tables else reasons.get(name, "no node of that name")
        why = why or ("" if weights.bits in _BITS else f"the operators have no codes of {weights.bits} bits")
        if why:
            raise UnsupportedError(
                f"layer {name!r} cannot be written to ONNX: {why}; quantize with an output that ends in .onnx "
                "(for_onnx=True), which leaves such layers in float"
            )
    nodes: list[onnx.NodeProto] = []
    for node in made.graph.node:
        if node.name in coded:
            build = _table if node.op_type == "Gather" else _product
            nodes += build(made.graph, node, coded[node.name], accuracy_level)
        else:
            nodes.append(node)
    if all(one.domain != _DOMAIN for one in made.opset_import):
        made.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    return with_nodes(made, nodes)


def _product(
    graph: onnx.GraphProto, node: onnx.NodeProto, weights: CodedWeights, accuracy_level: int
) -> list[onnx.NodeProto]:
    bias = node.input[2] if len(node.input) > 2 else ""
    result = f"{node.output[0]}:product" if bias else node.output[0]
    points = None if weights.zeros is None else packed_codes(weights.zeros, weights.bits)
    packed = packed_codes(weights.codes, weights.bits)
    inputs = [node.input[0], *_constants(graph, node, packed, weights.scales, points)]
    attributes: dict[str, Any] = {
        "K": weights.depth, "N": len(weights.codes), "bits": weights.bits, "block_size": weights.block,
        "accuracy_level": accuracy_level,
    }  # fmt: skip
    product = helper.make_node("MatMulNBits", inputs, [result], node.name, domain=_DOMAIN, **attributes)
    if not bias:
        return [product]
    return [product, helper.make_node("Add", [result, bias], [node.output[0]], f"{node.name}:bias")]


def _table(
    graph: onnx.GraphProto, node: onnx.NodeProto, weights: CodedWeights, accuracy_level: int
) -> list[onnx.NodeProto]:
    points = None if weights.zeros is None else packed_codes(weights.zeros, weights.bits)
    packed = packed_codes(weights.codes.reshape(len(weights.codes), -1), weights.bits)
    codes, *rest = _constants(graph, node, packed, weights.scales, points)
    attributes: dict[str, Any] = {
        "bits": weights.bits,
        "block_size": weights.block,
        "gather_axis": 0,
        "quantize_axis": 1,
    }
    inputs = [codes, node.input[1], *rest]
    return [
        helper.make_node("GatherBlockQuantized", inputs, list(node.output), node.name, domain=_DOMAIN, **attributes)
    ]


def _constants(graph: onnx.GraphProto, node: onnx.NodeProto, *values: Array | None) -> list[str]:
    """Constants of the node's own; their names."""
    names = []
    for kind, value in zip(("codes", "scales", "zero_points"), values, strict=True):
        if value is not None:
            names.append(f"{node.output[0]}:{kind}")
            graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), names[-1]))
    return names
