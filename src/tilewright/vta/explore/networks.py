"""GEMM work of a network: its convolutions and dense layers, each with its count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tilewright.relay.ir.expr import Call, Function, Operator
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import post_order
from tilewright.vta.config import Config
from tilewright.vta.network.network import convolution
from tilewright.vta.schedule.geometry import Conv2D
from tilewright.vta.schedule.layout import blocks_of

_CONVOLUTIONS, _DENSE = ("nn.conv2d", "qnn.conv2d"), ("nn.dense", "qnn.dense")
_NO_PAD = (0, 0, 0, 0)


@dataclass(frozen=True)
class Layer:
    """A layer before it is cut into tiles: shapes of image and weights, (above, left, below, right) of padding."""

    image: tuple[int, int, int, int]
    weight: tuple[int, int, int, int]
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = _NO_PAD
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    def on(self, config: Config) -> Conv2D:
        """The layer as a configuration runs it: with few channels as a product of patches, which the host gathers."""
        how = self.strides, self.padding, self.dilation
        plain = convolution(config, self.image, self.weight, *how, self.groups)
        channels, taps = self.weight[1], self.weight[2] * self.weight[3]
        if self.groups != 1 or 2 * blocks_of(channels * taps, config) > blocks_of(channels, config) * taps:
            return plain
        image = self.image[0], channels * taps, plain.out_height, plain.out_width
        return convolution(config, image, (self.weight[0], channels * taps, 1, 1))

    @property
    def macs(self) -> int:
        """Products that it adds up."""
        rows = convolution(Config(), self.image, self.weight, self.strides, self.padding, self.dilation, self.groups)
        pixels = self.image[0] * rows.out_height * rows.out_width
        return pixels * self.weight[0] * self.weight[1] * self.weight[2] * self.weight[3]


@dataclass
class Work:
    """Layers with their number, and in words what was left out."""

    layers: Counter[Layer] = field(default_factory=Counter)
    left_out: list[str] = field(default_factory=list)

    @property
    def macs(self) -> int:
        """Products of all layers."""
        return sum(layer.macs * count for layer, count in self.layers.items())

    def on(self, config: Config) -> Counter[Conv2D]:
        """The layers as a configuration runs them."""
        found: Counter[Conv2D] = Counter()
        for layer, count in self.layers.items():
            found[layer.on(config)] += count
        return found


def work_of(mod: IRModule) -> Work:
    """The layers of a module, for a batch of one."""
    mod = infer_type(mod)
    found = Work()
    for function in mod.functions.values():
        if not isinstance(function, Function):
            continue
        for expr in post_order(function):
            if isinstance(expr, Call) and isinstance(expr.op, Operator):
                _note(expr, expr.op.name, found)
    return found


def _note(call: Call, name: str, found: Work) -> None:
    if name not in _CONVOLUTIONS + _DENSE:
        return
    shapes = [tuple(tensor_type_of(arg).shape) for arg in call.args[:2]]
    if not all(isinstance(size, int) for shape in shapes for size in shape):
        found.left_out.append(f"{name} with a symbolic dimension; fix the input's shape")
        return
    data, weight = shapes
    if name in _DENSE:
        found.layers[Layer((data[0], data[-1], 1, 1), (*weight, 1, 1))] += 1
        return
    attrs = call.attrs
    layout = attrs["data_layout"], attrs["kernel_layout"]
    strides, padding, dilation = (tuple(attrs[key]) for key in ("strides", "padding", "dilation"))
    padding = padding * (4 // len(padding))
    layer = Layer(data, weight, strides, padding, dilation, attrs["groups"])
    refusal = layer.on(Config()).refusal() if layout == ("NCHW", "OIHW") else f"the layouts are {layout}"
    if refusal:
        found.left_out.append(f"{name} of {data} by {weight}: {refusal}")
        return
    found.layers[layer] += 1
