"""What of a network is work for GEMM: its convolutions and dense layers as `Conv`, each with how often it occurs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tilewright.compile import import_model
from tilewright.relay.ir.expr import Call, Function, Operator
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import post_order
from tilewright.vta.config import Config
from tilewright.vta.explore.convs import Conv

_CONVOLUTIONS, _DENSE = ("nn.conv2d", "qnn.conv2d"), ("nn.dense", "qnn.dense")


@dataclass
class Work:
    """Layers with their number, and in words what was left out."""

    layers: Counter[Conv] = field(default_factory=Counter)
    left_out: list[str] = field(default_factory=list)

    @property
    def macs(self) -> int:
        """Products of all layers."""
        return sum(conv.macs * count for conv, count in self.layers.items())

    def for_blocks(self, config: Config) -> Counter[Conv]:
        """The layers as they run: those with fewer channels than a block as products of patches (im2col)."""
        found: Counter[Conv] = Counter()
        for conv, count in self.layers.items():
            if conv.channels < config.block and conv.kernel > 1:
                channels = conv.channels * conv.kernel**2
                conv = Conv(conv.out_height, conv.out_width, channels, conv.filters, 1, 1, 0)
            found[conv] += count
        return found


def work_of(model: Any) -> Work:
    """The layers of a model file or module, for a batch of one."""
    mod = infer_type(import_model(model, None))
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
        found.left_out.append(f"{name} with an open size; fix the input's shape")
        return
    data, weight = shapes
    if name in _DENSE:
        found.layers[Conv(1, 1, data[-1], weight[0], 1, 1, 0)] += 1
        return
    attrs = call.attrs
    strides, padding = tuple(attrs["strides"]), tuple(attrs["padding"])
    layout = attrs["data_layout"], attrs["kernel_layout"]
    even = len(set(padding)) == 1 and len(set(strides)) == 1 and weight[2] == weight[3]
    if layout != ("NCHW", "OIHW") or attrs["groups"] != 1 or tuple(attrs["dilation"]) != (1, 1) or not even:
        what = f"groups={attrs['groups']}, weights {weight}, strides {strides}, padding {padding}, {layout[0]}"
        found.left_out.append(f"{name} with {what}")
        return
    found.layers[Conv(data[2], data[3], data[1], weight[0], weight[2], strides[0], padding[0])] += 1
