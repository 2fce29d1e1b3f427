"""Inexact products of the engines beside ours: unsigned by signed bytes on x86 without VNNI.

There onnxruntime and OpenVINO multiply by `pmaddubsw`, which adds two products of a uint8 by an int8 in 16 bits and
saturates: 255 * 127 + 255 * 127 becomes 32767. onnxruntime has a precise mode, which
makes stored weights unsigned. With AVX-512 VNNI or AVX-VNNI, and on other architectures, the sums are of 32 bits. Ours
are everywhere (docs/codegen.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.frontend.onnx.reference.submodel import read_onnx

if TYPE_CHECKING:
    from tilewright.target import Target

#: Products of stored bytes: the inputs that are multiplied. A first one of floats is quantized to uint8 by the node.
_STORED = {
    "MatMulInteger": (0, 1), "ConvInteger": (0, 1), "QLinearMatMul": (0, 3), "QLinearConv": (0, 3),
    "MatMulIntegerToFloat": (0, 1), "DynamicQuantizeMatMul": (0, 1), "QGemm": (0, 3), "QAttention": (0, 1),
    "DynamicQuantizeLSTM": (0, 1),
}  # fmt: skip
#: Products of floats, which engines compute in bytes where both inputs are dequantized.
_REAL = ("Conv", "MatMul", "Gemm")
#: What may stand between a dequantized value and its use.
_MOVES = ("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze")


def saturates(target: Target) -> bool:
    """True if engines add products of bytes in 16 bits on the processor `target`."""
    return target.architecture == "x86_64" and not (target.supports("avx512vnni") or target.supports("avxvnni"))


@dataclass(frozen=True)
class _Product:
    """A node that multiplies uint8 by int8: written so, or by floats that were bytes; by stored weights or not."""

    label: str
    written: bool
    constant: bool


def saturating_nodes(path: str, target: Target | None = None, against: str = "") -> list[str]:
    """The nodes of the ONNX model at `path` whose sums engines saturate on `target` (None: this machine), in order.

    These multiply uint8 by int8. Branches are not looked into. With `against` "onnxruntime", those that its precise
    mode does not make exact: products by what is no stored weight.
    """
    if not _saturates_here(target):
        return []
    products = list(_products(read_onnx(path, load_external_data=False)))
    if against == "onnxruntime":  # operator by operator it computes dequantized values in floats
        products = [one for one in products if not one.constant] if any(one.written for one in products) else []
    return [one.label for one in products]


def inexact_nodes(path: str, engine: str) -> list[str]:
    """The nodes that `engine` does not compute exactly on this machine; none of ONNX's own evaluator."""
    return [] if engine == "reference" else saturating_nodes(path, against=engine)


def stored_products(model: Any, target: Target | None = None) -> list[str]:
    """The nodes of an `onnx.ModelProto` that say themselves that they multiply bytes, where engines saturate those."""
    return [one.label for one in _products(model) if one.written] if _saturates_here(target) else []


def _saturates_here(target: Target | None) -> bool:
    # the command reads this module to run artifacts too, which takes no target
    from tilewright.target import Target

    return saturates(target or Target.host())


def _products(model: Any) -> Iterator[_Product]:
    import onnx  # optional, and slow to import: only models that may hold bytes need it

    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except onnx.shape_inference.InferenceError:
        graph = model.graph  # the types of inputs and weights are known without
    types = {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.value_info)}
    weights = {tensor.name: tensor.data_type for tensor in graph.initializer}
    types |= weights
    producers = {output: node for node in graph.node for output in node.output}
    unsigned, signed = onnx.TensorProto.UINT8, onnx.TensorProto.INT8
    for node in graph.node:
        if node.op_type in _STORED:
            names = [node.input[index] for index in _STORED[node.op_type]]
            left, right = (types.get(name) for name in names)
            left = unsigned if left in (None, onnx.TensorProto.FLOAT) else left
        elif node.op_type in _REAL:
            names = [_stored_name(name, producers) for name in node.input[:2]]
            left, right = (types.get(name) for name in names)
        else:
            continue
        if (left, right) == (unsigned, signed):
            label = f"{node.name or node.output[0]} ({node.op_type})"
            yield _Product(label, node.op_type in _STORED, names[1] in weights)


def _stored_name(name: str, producers: Mapping[str, Any]) -> str:
    """The name of what was dequantized to the value `name`; empty where nothing was."""
    node = producers.get(name)
    while node is not None and node.op_type in _MOVES:
        node = producers.get(node.input[0])
    return str(node.input[0]) if node is not None and node.op_type == "DequantizeLinear" else ""
