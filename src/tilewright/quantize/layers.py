"""The layers of a module that can be in integers: convolutions and dense layers with constant weights.

prepared(mod): batch norms folded into weights, constants computed; layers(main): its layers by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.op.transform import reshape
from tilewright.relay.transform.simplify.fold_constant import fold_constant
from tilewright.relay.transform.simplify.fold_scale_axis import fold_scale_axis
from tilewright.relay.transform.simplify.make import is_call
from tilewright.relay.transform.simplify.simplify_inference import simplify_inference

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layer:
    """A convolution or dense layer: `tensor` names its data, `weight` has the output channels first."""

    name: str
    call: Call
    tensor: str

    @property
    def data(self) -> Expr:
        """The data that it reads."""
        return self.call.args[0]

    @property
    def weight(self) -> Array:
        """Its weights [output channels, ...]."""
        weight = self.call.args[1]
        assert isinstance(weight, Constant)
        return np.asarray(weight.data)

    @property
    def operator(self) -> str:
        """The operator's name."""
        assert isinstance(self.call.op, Op)
        return self.call.op.name

    @property
    def channel_axis(self) -> int:
        """The axis of the output channels in its result."""
        return 1 if is_call(self.call, "nn.conv2d") else tensor_type_of(self.call).ndim - 1


def prepared(mod: IRModule, fold_scales: bool) -> IRModule:
    """The module as layers are looked for in: inference only, constants computed, scales in weights if asked."""
    passes = (
        (simplify_inference, fold_scale_axis, fold_constant) if fold_scales else (simplify_inference, fold_constant)
    )
    for one in passes:
        mod = infer_type(one(infer_type(mod)))
    return mod


def layers(main: Function) -> list[Layer]:
    """The layers in order of computation. A name is that of the model's node, made unique, or the operator's."""
    found: list[Layer] = []
    tensors: dict[Expr, str] = {}
    taken: dict[str, int] = {}
    for node in post_order(main.body):
        if not isinstance(node, Call) or not _fits(node):
            continue
        assert isinstance(node.op, Op)
        base = str(node.span or "").split(";")[0] or node.op.name
        taken[base] = taken.get(base, 0) + 1
        name = base if taken[base] == 1 else f"{base}#{taken[base]}"
        data = node.args[0]
        tensor = tensors.setdefault(data, data.name_hint if isinstance(data, Var) else f"{name}:input")
        found.append(Layer(name, node, tensor))
    return found


def _fits(call: Call) -> bool:
    if not is_call(call, "nn.conv2d", "nn.dense") or not isinstance(call.args[1], Constant):
        return False
    if is_call(call, "nn.conv2d") and (call.attrs["data_layout"], call.attrs["kernel_layout"]) != ("NCHW", "OIHW"):
        return False
    if is_call(call, "nn.dense") and call.attrs["weight_layout"] != "NC":
        return False
    return all(str(tensor_type_of(one).dtype) == "float32" for one in (*call.args, call)) and call.args[1].data.size > 0


def along_channels(build: Callable[[Expr, Expr], Expr], result: Expr, vector: Expr, layer: Layer) -> Expr:
    """`build` of the result of `layer` and of one number for each of its output channels."""
    behind = tensor_type_of(layer.call).ndim - 1 - layer.channel_axis
    return build(result, reshape(vector, (-1, *(1,) * behind)) if behind else vector)
