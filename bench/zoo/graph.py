"""A small language to write networks in: values with shapes, one method an operator, seeded weights; out comes ONNX.

    g = Graph("tiny")
    x = g.conv(g.input(1, 3, 32, 32), 16, 3, act="relu")
    model = g.model(g.linear(g.flatten(g.global_pool(x)), 10))

Weights are normal with a variance of gain / fan-in, so that what flows stays near one however deep the network is. They
depend on the name of the graph alone. Batch normalizations of inference are parts of the convolutions before them, as
exporters leave them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17

#: Operators of one input that are activations as they stand.
_PLAIN_ACTIVATIONS = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "hard_swish": "HardSwish"}


@dataclass(frozen=True)
class Value:
    """A tensor of the graph being built."""

    name: str
    shape: tuple[int, ...]

    @property
    def channels(self) -> int:
        """Extent of axis 1."""
        return self.shape[1]


class Graph:
    """Nodes, weights, inputs; every method that computes adds a node and returns its result."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._random = np.random.default_rng(zlib.crc32(name.encode()))
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._open = False

    def model(self, *outputs: Value) -> onnx.ModelProto:
        """The whole as an ONNX model."""
        shapes = [None if self._open else v.shape for v in outputs]
        ends = [helper.make_tensor_value_info(v.name, TensorProto.FLOAT, s) for v, s in zip(outputs, shapes)]
        graph = helper.make_graph(self._nodes, self.name, self._inputs, ends, self._weights)
        domains = {"": OPSET} | {node.domain: 1 for node in self._nodes if node.domain}
        opsets = [helper.make_opsetid(*entry) for entry in domains.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def input(self, *shape: int, integers: bool = False, open_axes: Mapping[int, str] | None = None) -> Value:
        """A float32 input of the model, or one of int64 such as token numbers.

        The axes of `open_axes` have a name instead of an extent; shapes of the graph are then those of one case, and
        the model does not say those of its results.
        """
        name = f"input{len(self._inputs)}"
        kind = TensorProto.INT64 if integers else TensorProto.FLOAT
        named = [(open_axes or {}).get(axis, extent) for axis, extent in enumerate(shape)]
        self._open = self._open or bool(open_axes)
        self._inputs.append(helper.make_tensor_value_info(name, kind, named))
        return Value(name, shape)

    def constant(self, array: np.ndarray[Any, Any]) -> Value:
        """A weight with these elements."""
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return Value(name, tuple(array.shape))

    def number(self, value: float) -> Value:
        """A constant of rank 0."""
        return self.constant(np.array(value, np.float32))

    def integers(self, *values: int) -> Value:
        """A vector of int64, as shapes and axes are given."""
        return self.constant(np.array(values, np.int64))

    def weight(self, *shape: int, fan_in: int, gain: float = 1.0) -> Value:
        """Normal numbers with a variance of gain / fan_in."""
        return self.constant(self.random(*shape) * np.float32(math.sqrt(gain / fan_in)))

    def random(self, *shape: int) -> np.ndarray[Any, Any]:
        """The next normal numbers of the graph, float32."""
        return self._random.standard_normal(shape, dtype=np.float32)

    def bias(self, size: int, mean: float = 0.0) -> Value:
        """A vector of small numbers around `mean`."""
        return self.constant(self._random.standard_normal(size, dtype=np.float32) * np.float32(0.05) + np.float32(mean))

    def node(self, operator: str, inputs: Sequence[Value | None], shape: Sequence[int], **attributes: Any) -> Value:
        """The only result of one node, which has this shape."""
        return self.nodes(operator, inputs, [shape], **attributes)[0]

    def nodes(
        self, operator: str, inputs: Sequence[Value | None], shapes: Sequence[Sequence[int]], **attributes: Any
    ) -> list[Value]:
        """The results of one node."""
        number = len(self._nodes)
        made = [Value(f"{operator.lower()}{number}_{i}", tuple(shape)) for i, shape in enumerate(shapes)]
        names = ["" if value is None else value.name for value in inputs]
        made_names = [value.name for value in made]
        self._nodes.append(helper.make_node(operator, names, made_names, f"{operator}_{number}", **attributes))
        return made

    # Convolutions and products

    def conv(
        self,
        x: Value,
        filters: int,
        size: int | Sequence[int] = 1,
        stride: int | Sequence[int] = 1,
        *,
        groups: int = 1,
        dilation: int = 1,
        act: str = "",
        gain: float = 0.0,
        causal: bool = False,
        pad: int = -1,
    ) -> Value:
        """A convolution with bias over all axes behind the channels.

        The image is padded by `pad` on each side, else so that at stride 1 it keeps its size (where `causal`, in front
        only); windows that do not overlap need no padding.
        """
        axes = len(x.shape) - 2
        sizes, strides = _each(size, axes), _each(stride, axes)
        reach = [dilation * (k - 1) for k in sizes]
        pads = [*reach, *[0] * axes] if causal else [r // 2 for r in reach] + [r - r // 2 for r in reach]
        if sizes == strides or pad >= 0:
            pads = [max(pad, 0)] * (2 * axes)
        taps = x.channels // groups * math.prod(sizes)
        weights = self.weight(filters, x.channels // groups, *sizes, fan_in=taps, gain=gain or (2.0 if act else 1.0))
        spatial = [(n + pads[i] + pads[axes + i] - reach[i] - 1) // strides[i] + 1 for i, n in enumerate(x.shape[2:])]
        y = self.node(
            "Conv",
            [x, weights, self.bias(filters)],
            (x.shape[0], filters, *spatial),
            kernel_shape=sizes,
            strides=strides,
            pads=pads,
            group=groups,
            dilations=[dilation] * axes,
        )
        return self.act(y, act)

    def depthwise(self, x: Value, size: int, stride: int = 1, act: str = "") -> Value:
        """A convolution of each channel with itself."""
        return self.conv(x, x.channels, size, stride, groups=x.channels, act=act)

    def deconv(self, x: Value, filters: int, size: int = 4, stride: int = 2, act: str = "") -> Value:
        """A transposed convolution that makes the axes behind the channels `stride` times as long."""
        axes, around = len(x.shape) - 2, size - stride
        fan_in = x.channels * size**axes // stride**axes
        weights = self.weight(x.channels, filters, *[size] * axes, fan_in=fan_in, gain=2.0 if act else 1.0)
        y = self.node(
            "ConvTranspose",
            [x, weights, self.bias(filters)],
            (x.shape[0], filters, *[n * stride for n in x.shape[2:]]),
            kernel_shape=[size] * axes,
            strides=[stride] * axes,
            pads=[around // 2] * axes + [around - around // 2] * axes,
        )
        return self.act(y, act)

    def linear(self, x: Value, units: int, act: str = "", bias: bool = True, gain: float = 0.0) -> Value:
        """A product of the last axis with weights, as MatMul and Add."""
        weights = self.weight(x.shape[-1], units, fan_in=x.shape[-1], gain=gain or (2.0 if act else 1.0))
        y = self.node("MatMul", [x, weights], (*x.shape[:-1], units))
        return self.act(self.add(y, self.bias(units)) if bias else y, act)

    def matmul(self, a: Value, b: Value) -> Value:
        """A product of matrices, of equal leading axes."""
        return self.node("MatMul", [a, b], (*a.shape[:-1], b.shape[-1]))

    # Element by element

    def act(self, x: Value, kind: str) -> Value:
        """An activation by its name, "" for none; those without an operator in this opset as exporters write them."""
        if kind == "hard_sigmoid":
            return self.node("HardSigmoid", [x], x.shape, alpha=1 / 6)
        if kind in _PLAIN_ACTIVATIONS:
            return self.node(_PLAIN_ACTIVATIONS[kind], [x], x.shape)
        if kind == "relu6":
            return self.node("Clip", [x, self.number(0.0), self.number(6.0)], x.shape)
        if kind == "leaky_relu":
            return self.node("LeakyRelu", [x], x.shape, alpha=0.1)
        if kind == "silu":
            return self.mul(x, self.act(x, "sigmoid"))
        if kind == "gelu":
            scaled = self.node("Div", [x, self.number(math.sqrt(2.0))], x.shape)
            shifted = self.add(self.node("Erf", [scaled], x.shape), self.number(1.0))
            return self.mul(self.mul(x, shifted), self.number(0.5))
        if kind:
            raise ValueError(f"there is no activation {kind!r}")
        return x

    def add(self, a: Value, b: Value) -> Value:
        """a + b, broadcast."""
        return self.node("Add", [a, b], np.broadcast_shapes(a.shape, b.shape))

    def mul(self, a: Value, b: Value) -> Value:
        """a * b, broadcast."""
        return self.node("Mul", [a, b], np.broadcast_shapes(a.shape, b.shape))

    # Normalizations

    def layer_norm(self, x: Value) -> Value:
        """Over the last axis, with scale and shift."""
        size = x.shape[-1]
        operands = [x, self.bias(size, mean=1.0), self.bias(size)]
        return self.node("LayerNormalization", operands, x.shape, axis=-1, epsilon=1e-5)

    def channel_norm(self, x: Value) -> Value:
        """A layer normalization over the channels of an image, as exporters write it: there and back by transposing."""
        return self.transpose(self.layer_norm(self.transpose(x, 0, 2, 3, 1)), 0, 3, 1, 2)

    def rms_norm(self, x: Value) -> Value:
        """x / sqrt(mean(x^2) + eps) * scale over the last axis, in plain operators."""
        square = self.node("Pow", [x, self.number(2.0)], x.shape)
        mean = self.node("ReduceMean", [square], (*x.shape[:-1], 1), axes=[-1])
        root = self.node("Sqrt", [self.add(mean, self.number(1e-5))], mean.shape)
        return self.mul(self.node("Div", [x, root], x.shape), self.bias(x.shape[-1], mean=1.0))

    def group_norm(self, x: Value, groups: int) -> Value:
        """Over `groups` of channels, as exporters write it: an instance normalization of a reshaped image."""
        flat = self.reshape(x, x.shape[0], groups, -1)
        ones, zeros = self.constant(np.ones(groups, np.float32)), self.constant(np.zeros(groups, np.float32))
        y = self.reshape(self.node("InstanceNormalization", [flat, ones, zeros], flat.shape), *x.shape)
        around = (x.channels, *[1] * (len(x.shape) - 2))
        scale, shift = (self.reshape(self.bias(x.channels, mean), *around) for mean in (1.0, 0.0))
        return self.add(self.mul(y, scale), shift)

    def batch_norm(self, x: Value, act: str = "") -> Value:
        """One that no convolution before it can take up."""
        ones = self.constant(np.ones(x.channels, np.float32))
        operands = [x, self.bias(x.channels, mean=1.0), self.bias(x.channels), self.bias(x.channels), ones]
        return self.act(self.node("BatchNormalization", operands, x.shape), act)

    def softmax(self, x: Value, axis: int = -1) -> Value:
        """Along one axis."""
        return self.node("Softmax", [x], x.shape, axis=axis)

    # Pooling and sizes

    def max_pool(self, x: Value, size: int = 2, stride: int = 2, pad: int = 0) -> Value:
        """Windows of `size`, the image padded by `pad` on each side."""
        return self._pool("MaxPool", x, size, stride, pad)

    def average_pool(self, x: Value, size: int = 2, stride: int = 2) -> Value:
        """Windows of `size` without padding."""
        return self._pool("AveragePool", x, size, stride, 0)

    def _pool(self, operator: str, x: Value, size: int, stride: int, pad: int) -> Value:
        axes = len(x.shape) - 2
        shape = (*x.shape[:2], *[(n + 2 * pad - size) // stride + 1 for n in x.shape[2:]])
        windows = {"kernel_shape": [size] * axes, "strides": [stride] * axes, "pads": [pad] * (2 * axes)}
        return self.node(operator, [x], shape, **windows)

    def global_pool(self, x: Value) -> Value:
        """The mean of each channel, its axes kept."""
        return self.node("GlobalAveragePool", [x], (*x.shape[:2], *[1] * (len(x.shape) - 2)))

    def mean(self, x: Value, axis: int, keep: bool = False) -> Value:
        """The mean along one axis."""
        axis %= len(x.shape)
        shape = [1 if i == axis else n for i, n in enumerate(x.shape) if keep or i != axis]
        return self.node("ReduceMean", [x], shape, axes=[axis], keepdims=int(keep))

    def upsample(self, x: Value, height: int, width: int, mode: str = "nearest") -> Value:
        """An image resized to height x width, "nearest" or "linear"."""
        how = {"nearest": "asymmetric", "linear": "half_pixel"}[mode]
        sizes = self.integers(*x.shape[:2], height, width)
        extra = {"nearest_mode": "floor"} if mode == "nearest" else {}
        shape = (*x.shape[:2], height, width)
        return self.node(
            "Resize", [x, None, None, sizes], shape, mode=mode, coordinate_transformation_mode=how, **extra
        )

    # What moves elements

    def reshape(self, x: Value, *shape: int) -> Value:
        """One size may be -1."""
        known = math.prod(n for n in shape if n != -1)
        full = [math.prod(x.shape) // known if n == -1 else n for n in shape]
        return self.node("Reshape", [x, self.integers(*full)], full)

    def flatten(self, x: Value) -> Value:
        """Everything behind the batch in one axis."""
        return self.node("Flatten", [x], (x.shape[0], math.prod(x.shape[1:])))

    def transpose(self, x: Value, *axes: int) -> Value:
        """Axes in another order."""
        return self.node("Transpose", [x], [x.shape[a] for a in axes], perm=list(axes))

    def concat(self, values: Sequence[Value], axis: int = 1) -> Value:
        """Side by side along one axis."""
        axis %= len(values[0].shape)
        shape = list(values[0].shape)
        shape[axis] = sum(v.shape[axis] for v in values)
        return self.node("Concat", values, shape, axis=axis)

    def split(self, x: Value, parts: int | Sequence[int], axis: int = 1) -> list[Value]:
        """Equal parts of one axis, or parts of the given sizes."""
        axis %= len(x.shape)
        sizes = [x.shape[axis] // parts] * parts if isinstance(parts, int) else list(parts)
        shapes = [[size if i == axis else n for i, n in enumerate(x.shape)] for size in sizes]
        return self.nodes("Split", [x, self.integers(*sizes)], shapes, axis=axis)

    def slice(self, x: Value, axis: int, start: int, stop: int) -> Value:
        """Elements start to stop of one axis."""
        axis %= len(x.shape)
        shape = [stop - start if i == axis else n for i, n in enumerate(x.shape)]
        return self.node("Slice", [x, self.integers(start), self.integers(stop), self.integers(axis)], shape)

    def pixel_shuffle(self, x: Value, factor: int) -> Value:
        """Channels to `factor` times as many rows and columns."""
        batch, channels, height, width = x.shape
        shape = (batch, channels // factor**2, height * factor, width * factor)
        return self.node("DepthToSpace", [x], shape, blocksize=factor, mode="CRD")

    def embed(self, tokens: Value, count: int, width: int) -> Value:
        """A row of a table for each token."""
        table = self.weight(count, width, fan_in=1)
        return self.node("Gather", [table, tokens], (*tokens.shape, width), axis=0)

    def recurrent(self, x: Value, units: int, kind: str = "LSTM", both: bool = True) -> Value:
        """A layer over [steps, batch, features], in one or both directions: [steps, batch, directions * units]."""
        steps, batch, features = x.shape
        directions, gates = 1 + both, {"LSTM": 4, "GRU": 3}[kind]
        weights = [self.weight(directions, gates * units, n, fan_in=n) for n in (features, units)]
        bias = self.reshape(self.bias(2 * directions * gates * units), directions, -1)
        attributes = {"hidden_size": units, "direction": "bidirectional" if both else "forward"}
        if kind == "GRU":
            attributes["linear_before_reset"] = 1
        y = self.node(kind, [x, *weights, bias], (steps, directions, batch, units), **attributes)
        return self.reshape(self.transpose(y, 0, 2, 1, 3), steps, batch, directions * units)


def _each(value: int | Sequence[int], count: int) -> list[int]:
    return [value] * count if isinstance(value, int) else list(value)
