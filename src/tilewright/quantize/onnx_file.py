"""ONNX models with a recipe in them: QuantizeLinear and DequantizeLinear nodes, which other engines read.

Before: Conv(x, w, b)
After:  Conv(DequantizeLinear(QuantizeLinear(x)), DequantizeLinear(w8), DequantizeLinear(b32))

Products of computed operands, sums and other joins have such nodes before each operand.

Weights are int8 codes along the output channels, biases int32 at the scale of data times weights.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, version_converter

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.onnx.load import load_model
from tilewright.quantize.ranges import Codes, bias_codes
from tilewright.quantize.recipe import Choice, Recipe

Array = np.ndarray[Any, Any]
#: The first version of the operators in which scales run along an axis.
_OPSET = 13
_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_JOINS = ("Add", "Concat", "AveragePool", "GlobalAveragePool", "Resize")


def read_for_recipe(model: Any, to_write: bool) -> onnx.ModelProto:
    """A copy of an ONNX model (path, bytes or message) with batch norms in the weights and a name for each node.

    With `to_write`, operators older than version 13 become that. Raises `UnsupportedError` where they cannot.
    """
    opsets = load_model(model).opsets  # the errors of files that are none
    if isinstance(model, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(model)
    elif isinstance(model, str | os.PathLike):
        proto = onnx.load(os.fspath(model))
    else:
        proto = onnx.load_model_from_string(bytes(model))
    if to_write and opsets.get("", _OPSET) < _OPSET:
        proto = _newer(proto, opsets[""])
    _constants_to_initializers(proto.graph)
    _read_through_identities(proto.graph)
    if to_write:
        _transposed_to_initializers(proto.graph)
    _fold_batch_norms(proto.graph)
    taken = {node.name for node in proto.graph.node}
    for number, node in enumerate(proto.graph.node):
        if not node.name:
            node.name = next(
                name for i in range(len(taken) + 1) if (name := f"{node.op_type}_{number + i}") not in taken
            )
            taken.add(node.name)
    return proto


def _newer(proto: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    try:
        return version_converter.convert_version(proto, _OPSET)
    except Exception as error:  # of many classes: it is C++
        raise UnsupportedError(
            f"scales by channel need operator set {_OPSET}, the model has {opset}, and onnx cannot convert it: {error}"
            "; export it anew with a newer operator set"
        ) from None


def _constants_to_initializers(graph: onnx.GraphProto) -> None:
    for node in [node for node in graph.node if node.op_type == "Constant" and not node.domain]:
        if len(node.attribute) == 1 and node.attribute[0].name == "value":
            tensor = onnx.TensorProto()
            tensor.CopyFrom(node.attribute[0].t)
            tensor.name = node.output[0]
            graph.initializer.append(tensor)
            graph.node.remove(node)


def _read_through_identities(graph: onnx.GraphProto) -> None:
    """Read constants themselves where an Identity of them is read: exporters share equal constants that way."""
    origin = {tensor.name: tensor.name for tensor in graph.initializer}
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = origin.get(name, name)
        if node.op_type == "Identity" and node.input[0] in origin:
            origin[node.output[0]] = node.input[0]


def _transposed_to_initializers(graph: onnx.GraphProto) -> None:
    """Transpose constant matrices here: a head whose weights are the table of the embedding reads them through that."""
    constants = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) == 2}
    for node in [node for node in graph.node if node.op_type == "Transpose" and node.input[0] in constants]:
        if list(_attribute(node, "perm", [1, 0])) == [1, 0]:
            value = numpy_helper.to_array(constants[node.input[0]])
            graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value.T), node.output[0]))
            graph.node.remove(node)


def _fold_batch_norms(graph: onnx.GraphProto) -> None:
    """Put the factors and sums of a BatchNormalization into the Conv before it, where nothing else reads its result."""
    weights = {tensor.name: tensor for tensor in graph.initializer}
    producers = {name: node for node in graph.node for name in node.output}
    for norm in [node for node in graph.node if node.op_type == "BatchNormalization"]:
        conv = producers.get(norm.input[0])
        own = list(norm.input[1:5])
        if conv is None or conv.op_type != "Conv" or len(_readers(graph, norm.input[0])) != 1:
            continue
        if any(name not in weights for name in (*own, *conv.input[1:])) or len([o for o in norm.output if o]) > 1:
            continue
        epsilon = next((a.f for a in norm.attribute if a.name == "epsilon"), 1e-5)
        gain, shift, mean, variance = (numpy_helper.to_array(weights[name]).astype(np.float64) for name in own)
        factor = gain / np.sqrt(variance + epsilon)
        weight = numpy_helper.to_array(weights[conv.input[1]])
        bias = numpy_helper.to_array(weights[conv.input[2]]) if len(conv.input) > 2 else 0.0
        scaled = weight * factor.reshape(-1, *(1,) * (weight.ndim - 1))
        _set_input(graph, conv, 1, scaled.astype(weight.dtype))
        _set_input(graph, conv, 2, ((bias - mean) * factor + shift).astype(weight.dtype))
        conv.output[0] = norm.output[0]
        graph.node.remove(norm)


def _readers(graph: onnx.GraphProto, value: str) -> list[str]:
    """The nodes that read a value, and "" for the graph where it is a result."""
    found = [node.name for node in graph.node for name in node.input if name == value]
    return found + ["" for output in graph.output if output.name == value]


def _set_input(graph: onnx.GraphProto, node: onnx.NodeProto, index: int, value: Array) -> str:
    """Make a constant of its own the input `index` of `node`; its name."""
    name = f"{node.output[0]}:input{index}"
    graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
    while len(node.input) <= index:
        node.input.append("")
    node.input[index] = name
    return name


def quantizable(proto: onnx.ModelProto) -> dict[str, str]:
    """The nodes that can have a recipe's codes, by name: "" or why they cannot."""
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    return {node.name: _obstacle(node, constants) for node in proto.graph.node}


def _obstacle(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> str:
    if node.op_type not in (*_PRODUCTS, *_JOINS) or node.domain:
        return f"ONNX has no quantized {node.op_type}"
    if node.op_type in _JOINS or (node.op_type == "MatMul" and not constants.keys() & set(node.input)):
        return ""
    weight = constants.get(node.input[1])
    if weight is None or weight.data_type != onnx.TensorProto.FLOAT:
        return f"{node.op_type} whose weights are no float32 constant"
    if node.op_type == "MatMul" and len(weight.dims) != 2:
        return f"MatMul whose weights have {len(weight.dims)} dimensions"
    if node.op_type == "Gemm" and _attribute(node, "transA", 0):
        return "Gemm with a transposed input"
    if node.op_type == "Gemm" and (_attribute(node, "alpha", 1.0), _attribute(node, "beta", 1.0)) != (1.0, 1.0):
        return "Gemm with factors"
    bias = node.input[2] if len(node.input) > 2 else ""
    return f"{node.op_type} whose bias is no constant" if bias and bias not in constants else ""


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    return next((helper.get_attribute_value(one) for one in node.attribute if one.name == name), default)


def with_recipe(proto: onnx.ModelProto, recipe: Recipe) -> onnx.ModelProto:
    """The model of `read_for_recipe` with the layers of `recipe` in integers.

    Raises `UnsupportedError` for a layer that has no quantized form in ONNX.
    """
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    obstacles = quantizable(made)
    for name in recipe.quantized:
        if obstacles.get(name, "no node"):
            raise UnsupportedError(
                f"layer {name!r} cannot be written to ONNX: {obstacles.get(name, 'no node of that name')}; quantize "
                "with an output that ends in .onnx (for_onnx=True), which leaves such layers in float"
            )
    nodes: list[onnx.NodeProto] = []
    coded: dict[tuple[Any, ...], str] = {}
    for node in made.graph.node:
        choice = recipe.choices.get(node.name)
        if choice is not None and not choice.in_float:
            nodes += _coded_inputs(made.graph, node, choice, coded)
        nodes.append(node)
        if choice is not None and not choice.in_float and choice.correction and node.op_type == "MatMul":
            nodes.append(_corrected(made.graph, node, choice))
    return with_nodes(made, nodes)


def with_nodes(made: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    """`made` with other nodes and what these read alone. Raises `ModelError` where that is no valid model."""
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    drop_unread(made.graph)
    try:
        onnx.checker.check_model(made)
    except onnx.checker.ValidationError as error:
        raise ModelError(f"the quantized model is malformed: {error}") from None
    except ValueError:
        pass  # over two gigabytes: the checker takes no such message
    return made


def _coded_inputs(
    graph: onnx.GraphProto, node: onnx.NodeProto, choice: Choice, coded: dict[tuple[Any, ...], str]
) -> list[onnx.NodeProto]:
    """Make the inputs of `node` dequantized codes; the nodes before it."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    found: list[onnx.NodeProto] = []
    if choice.factors:
        found += _divided(graph, node, choice, len(constants[node.input[1]].dims), coded)
        constants[node.input[1]] = _multiplied(node, constants[node.input[1]], np.asarray(choice.factors, np.float32))
    for index, codes in enumerate(choice.codes):
        key = node.input[index], codes
        if key not in coded:
            pair, coded[key] = _data_codes(graph, node, index, codes)
            found += pair
        node.input[index] = coded[key]
    if not choice.weight_scales:
        return found
    axis = _channel_axis(node)
    weight = np.moveaxis(numpy_helper.to_array(constants[node.input[1]]), axis, 0)
    scales = np.asarray(choice.weight_scales, np.float32)
    codes8 = np.moveaxis(choice.codes_of(weight), 0, axis)
    bias = numpy_helper.to_array(constants[node.input[2]]) if len(node.input) > 2 and node.input[2] else None
    found.append(_dequantized(graph, node, 1, codes8, scales, axis))
    if node.op_type == "MatMul" or (bias is None and not choice.correction):
        return found
    unit = np.float32(choice.codes[0].scale) * scales
    whole = bias_codes(
        np.zeros(len(scales)) if bias is None else np.broadcast_to(bias, len(scales)), choice.correction, unit
    )
    found.append(_dequantized(graph, node, 2, whole, unit, 0))
    return found


def _divided(
    graph: onnx.GraphProto, node: onnx.NodeProto, choice: Choice, ndim: int, made: dict[tuple[Any, ...], str]
) -> list[onnx.NodeProto]:
    """Make the input of `node` divided by the factors of its channels; the multiplication that does, if it is new."""
    key = node.input[0], choice.factors
    if key in made:
        node.input[0] = made[key]
        return []
    name = made[key] = f"{node.input[0]}:{node.name}:divided"
    inverse = 1 / np.asarray(choice.factors, np.float32)
    if node.op_type == "Conv":
        inverse = inverse.reshape(-1, *(1,) * (ndim - 2))
    graph.initializer.append(numpy_helper.from_array(inverse, f"{name}:by"))
    product = helper.make_node("Mul", [node.input[0], f"{name}:by"], [name], name=name)
    node.input[0] = name
    return [product]


def _multiplied(node: onnx.NodeProto, weight: onnx.TensorProto, factors: Array) -> onnx.TensorProto:
    """The weights of a node, their input channels multiplied by `factors`."""
    values = numpy_helper.to_array(weight)
    axis = 1 - _channel_axis(node)
    if node.op_type == "Conv" and values.shape[axis] != len(factors):  # depthwise
        axis = 0
    column = factors.reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    return numpy_helper.from_array(values * column, weight.name)


def _corrected(graph: onnx.GraphProto, node: onnx.NodeProto, choice: Choice) -> onnx.NodeProto:
    """The correction of a MatMul, which has no bias, as an Add of floats behind it."""
    result, product = node.output[0], f"{node.output[0]}:product"
    node.output[0] = product
    values = np.asarray(choice.correction, np.float32)
    graph.initializer.append(numpy_helper.from_array(values, f"{product}:correction"))
    return helper.make_node("Add", [product, f"{product}:correction"], [result], name=f"{product}:corrected")


def _channel_axis(node: onnx.NodeProto) -> int:
    """The axis of the output channels in the weights of a node."""
    second = node.op_type in ("MatMul", "ConvTranspose")
    return int(second or (node.op_type == "Gemm" and not _attribute(node, "transB", 0)))


def _data_codes(
    graph: onnx.GraphProto, node: onnx.NodeProto, index: int, choice: Codes
) -> tuple[list[onnx.NodeProto], str]:
    base = f"{node.input[index]}:{node.name}:{index}"
    scale, zero = f"{base}:scale", f"{base}:zero_point"
    graph.initializer.append(numpy_helper.from_array(np.asarray(choice.scale, np.float32), scale))
    graph.initializer.append(numpy_helper.from_array(np.asarray(choice.zero_point, choice.dtype), zero))
    codes, result = f"{base}:codes", f"{base}:dequantized"
    pair = [
        helper.make_node("QuantizeLinear", [node.input[index], scale, zero], [codes], name=codes),
        helper.make_node("DequantizeLinear", [codes, scale, zero], [result], name=result),
    ]
    return pair, result


def _dequantized(
    graph: onnx.GraphProto, node: onnx.NodeProto, index: int, codes: Array, scales: Array, axis: int
) -> onnx.NodeProto:
    """Constant codes for an input of `node`, dequantized along `axis`."""
    name = _set_input(graph, node, index, codes)
    names = [name, f"{name}:scales", f"{name}:zero_points"]
    graph.initializer.append(numpy_helper.from_array(scales, names[1]))
    graph.initializer.append(numpy_helper.from_array(np.zeros(len(scales), codes.dtype), names[2]))
    node.input[index] = f"{name}:dequantized"
    return helper.make_node("DequantizeLinear", names, [node.input[index]], name=node.input[index], axis=axis)


def drop_unread(graph: onnx.GraphProto) -> None:
    """Remove the constants that nothing reads any more; an older file lists constants among its inputs too."""
    read = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
    read |= {name for node in graph.node for one in node.attribute for name in _inner_reads(one)}
    gone = {tensor.name for tensor in graph.initializer} - read
    for field in (graph.initializer, graph.input):
        kept = [one for one in field if one.name not in gone]
        del field[:]
        field.extend(kept)


def _inner_reads(attribute: onnx.AttributeProto) -> set[str]:
    """The names that graphs in an attribute read."""
    graphs = [attribute.g, *attribute.graphs]
    found = {name for graph in graphs for node in graph.node for name in node.input}
    found |= {output.name for graph in graphs for output in graph.output}
    return found | {
        name for graph in graphs for node in graph.node for one in node.attribute for name in _inner_reads(one)
    }
