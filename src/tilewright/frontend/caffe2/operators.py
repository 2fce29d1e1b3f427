"""The operators of Caffe2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders import functions
from tilewright.frontend.builders.elements import padded, reshaped, shuffled_channels, split_axis
from tilewright.frontend.builders.product import linear, matmul
from tilewright.frontend.builders.reductions import REDUCTIONS
from tilewright.frontend.builders.window_rules import biased, repeated_pixels
from tilewright.frontend.builders.windows import convolution, pool, transposed_convolution
from tilewright.frontend.converters import Converters
from tilewright.frontend.graph_node import GraphNode
from tilewright.frontend.signature import Axis
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

converts = Converters("caffe2")


class Caffe2Node(GraphNode):
    """Arguments by name."""

    def __init__(self, operator: str, name: str, inputs: Sequence[Expr], args: dict[str, Any], count: int) -> None:
        super().__init__(operator, name, inputs)
        self.args = args
        self.count = count

    def attribute(self, name: str) -> Any:
        return self.args.get(name)

    def integer(self, name: str, default: int) -> int:
        """An argument that is a whole number."""
        return int(self.args.get(name, default))

    def pair(self, name: str, default: int) -> list[int]:
        """An argument of a window for both axes: `name_h` and `name_w`, a list `names`, or one number."""
        if f"{name}_h" in self.args:
            return [self.integer(f"{name}_h", default), self.integer(f"{name}_w", default)]
        given = [int(value) for value in self.args.get(f"{name}s", [])]
        return given or [self.integer(name, default)] * 2


def _window(node: Caffe2Node) -> tuple[list[int], list[int], list[int]]:
    """Kernel, strides and padding (before, then behind)."""
    if node.args.get("order", "NCHW") != "NCHW":
        node.unsupported(f"the layout {node.args['order']} is not supported")
    kernel, strides = node.pair("kernel", 1), node.pair("stride", 1)
    edges = [f"pad_{side}" for side in "tlbr"]
    if any(edge in node.args for edge in edges):
        pads = [node.integer(edge, 0) for edge in edges]
    else:
        pads = [int(value) for value in node.args.get("pads", [])] or [node.integer("pad", 0)] * 4
    if len(pads) != 4 or len(kernel) != 2 or len(strides) != 2 or min(*kernel, *strides) < 1 or min(pads) < 0:
        node.bad(f"kernel {kernel}, strides {strides} and padding {pads}")
    return kernel, strides, pads


@converts("Conv", "ConvTranspose")
def convert_conv(node: Caffe2Node, x: Expr, y: Expr, bias: Expr | None = None, group: int = 1) -> Expr:
    _, strides, pads = _window(node)
    if node.operator == "Conv":
        return biased(convolution(x, y, strides, pads, node.pair("dilation", 1), group), bias)
    return biased(transposed_convolution(x, y, strides, pads, [1, 1], group, node.pair("adj", 0)), bias)


@converts("MaxPool", "AveragePool")
def convert_pool(node: Caffe2Node, global_pooling: int = 0, count_include_pad: bool = False) -> Expr:
    kind = "max" if node.operator == "MaxPool" else "mean"
    if global_pooling:
        return (op.max if kind == "max" else op.mean)(node[0], axis=(2, 3), keepdims=True)
    kernel, strides, pads = _window(node)
    return pool(node[0], kind, kernel, strides, pads[:2], None, pads[2:], padding_counts=count_include_pad)


# Functions of one operand.
converts.unary({
    "Relu": op.nn.relu, "Sigmoid": op.sigmoid, "Tanh": op.tanh, "Exp": op.exp, "Log": op.log, "Sqrt": op.sqrt,
    "Abs": op.abs, "Negative": op.negative, "Floor": op.floor, "Ceil": op.ceil, "Sin": op.sin, "Cos": op.cos,
    "Softsign": functions.softsign, "Softplus": functions.softplus, "Swish": functions.silu,
    "Sqr": lambda x: x * x, "Copy": lambda x: x, "StopGradient": lambda x: x, "Alias": lambda x: x,
    "Dropout": lambda x: x, "EnsureCPUOutput": lambda x: x,
})  # fmt: skip


_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Add": op.add, "Sub": op.subtract, "Mul": op.multiply, "Div": op.divide, "Pow": op.power, "Max": op.maximum,
    "Min": op.minimum, "Sum": op.add, "EQ": op.equal, "LT": op.less, "GT": op.greater, "LE": op.less_equal,
    "GE": op.greater_equal, "And": op.logical_and, "Or": op.logical_or,
}  # fmt: skip


@converts(*_BINARY)
def convert_binary(node: Caffe2Node, axis: int = -1, broadcast: int = 0, exponent: float = 1.0) -> Expr:
    """Functions of two operands, or of more, one after another; the second may begin at an axis of the first."""
    total, *rest = node.given()
    for value in rest:
        behind = node.rank() - axis - len(idioms.shape_of(value))
        if broadcast and axis >= 0 and behind > 0:
            value = idioms.reshape(value, (*idioms.shape_of(value), *[1] * behind))
        total = _BINARY[node.operator](total, value)
    if node.operator == "Pow" and not rest:
        return op.power(total, exponent)
    return total


converts.functions({"LeakyRelu": functions.leaky_relu, "Elu": functions.elu})
converts.schemas({
    "Clip": lambda x, min_=-3.4e38, max_=3.4e38: op.clip(x, min_, max_),
    "InstanceNorm": lambda x, y, z, epsilon=1e-5: op.nn.instance_norm(x, y, z, axis=1, epsilon=epsilon),
    "LRN": lambda x, size=5, bias=1.0, alpha=1e-4, beta=0.75: op.nn.lrn(
        x, size=size, axis=1, bias=bias, alpha=alpha, beta=beta
    ),
    "MatMul BatchMatMul": lambda x, y, trans_a=False, trans_b=False: matmul(x, y, trans_a, trans_b),
    "FC": lambda x, y, z, axis=1: linear(x, y, z, axis),  # all axes from `axis` on times a matrix
    "PRelu": lambda x, y: idioms.prelu(x, y),
    "ChannelShuffle": lambda node, x, group=1: shuffled_channels(node, x, group),
    "Gather": lambda x, y, axis=0: op.take(x, idioms.cast(y, "int32"), axis=axis),
})  # fmt: skip


@converts("SpatialBN")
def convert_spatial_bn(node: Caffe2Node, x: Expr, epsilon: float = 1e-5) -> Expr:
    """By the statistics of training."""
    gamma, beta, mean, variance = (node.static(index, "statistics") for index in range(1, 5))
    scale = gamma / np.sqrt(np.maximum(variance, 0) + epsilon)
    return idioms.scale_shift(x, scale, beta - mean * scale)


@converts("Softmax", "LogSoftmax")
def convert_softmax(node: Caffe2Node, x: Expr, axis: Axis = 1) -> Expr:
    """Over all axes from one on."""
    flat = idioms.flatten(x, axis)
    return idioms.reshape(
        (op.nn.softmax if node.operator == "Softmax" else op.nn.log_softmax)(flat, axis=-1), node.shape()
    )


@converts("Concat")
def convert_concat(node: Caffe2Node, axis: Axis = 1, add_axis: int = 0) -> list[Expr]:
    """And the extents of its parts, a second result."""
    extents = np.array([idioms.shape_of(value)[axis] for value in node.given()], np.int32)
    if add_axis:
        return [op.stack(node.given(), axis=axis), Constant(np.ones_like(extents))]
    return [idioms.concatenate(node.given(), axis), Constant(extents)]


@converts("Split")
def convert_split(node: Caffe2Node, axis: Axis = 1) -> list[Expr]:
    return split_axis(node, node[0], axis, [int(value) for value in node.args.get("split", [])] or node.count)


@converts("Reshape")
def convert_reshape(node: Caffe2Node) -> Expr:
    given = node.static(1, "shape") if node.has(1) else node.args.get("shape", [])
    return reshaped(node, node[0], [int(extent) for extent in given])


@converts("Transpose")
def convert_transpose(node: Caffe2Node) -> Expr:
    order = [int(axis) for axis in node.args.get("axes", [])] or list(range(node.rank()))[::-1]
    return idioms.transpose(node[0], [node.axis(axis) for axis in order])


@converts("Flatten", "FlattenToVec")
def convert_flatten(node: Caffe2Node, axis: int = 1) -> Expr:
    return idioms.as_vector(node[0]) if node.operator == "FlattenToVec" else idioms.as_matrix(node[0], axis)


@converts("ExpandDims", "Squeeze")
def convert_dims(node: Caffe2Node) -> Expr:
    axes = tuple(int(axis) for axis in node.args.get("dims", []))
    if node.operator == "Squeeze":
        return op.squeeze(node[0], axis=axes)
    return idioms.with_axes(node[0], axes)


@converts("ResizeNearest")
def convert_resize(node: Caffe2Node, x: Expr, height_scale: float = 1.0, width_scale: float = 1.0) -> Expr:
    _, _, height, width = node.fixed()
    size = (int(height * height_scale), int(width * width_scale))
    if min(size) < 1 or max(size) > 1 << 16:
        node.bad(f"an image of {size}")
    return repeated_pixels(x, size)


@converts("PadImage")
def convert_pad_image(node: Caffe2Node, value: float = 0.0) -> Expr:
    _, _, pads = _window(node)
    pairs = ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3]))
    return padded(node, node[0], pairs, node.args.get("mode", "constant"), value)


@converts("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
def convert_reduction(node: Caffe2Node, x: Expr, keepdims: bool = True) -> Expr:
    axes = tuple(node.axis(int(axis)) for axis in node.args.get("axes", [])) or tuple(range(node.rank()))
    name = node.operator.removeprefix("Reduce").lower()
    return REDUCTIONS[name](x, axis=axes, keepdims=keepdims)
