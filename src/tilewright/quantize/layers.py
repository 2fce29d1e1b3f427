"""The layers of a module that can be in integers: products, and what joins their results.

Products are convolutions and dense layers with constant weights, and products of two computed operands. Joins are sums,
concatenations, means of windows and resizing between such layers: in integers they read and write bytes.
prepared(mod): batch norms folded into weights, constants computed; layers(main): its layers by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import consumers, post_order
from tilewright.relay.op.transform import reshape
from tilewright.relay.transform.simplify.fold_constant import fold_constant
from tilewright.relay.transform.simplify.fold_scale_axis import fold_scale_axis
from tilewright.relay.transform.simplify.make import is_call
from tilewright.relay.transform.simplify.simplify_inference import simplify_inference

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layer:
    """A layer: `tensors` names the operands that it reads as codes, in their order."""

    name: str
    call: Call
    tensors: tuple[str, ...]

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The expressions that it reads as codes, without weights."""
        return operands_of(self.call)

    def with_operands(self, call: Call, operands: Sequence[Expr], weight: Expr | None = None) -> Call:
        """`call`, this layer's or one made of it, with other operands and weights."""
        if is_call(call, "concatenate"):
            return Call(call.op, [Tuple(operands)], call.attrs, call.span)
        return Call(call.op, [*operands, *(() if weight is None else (weight,))], call.attrs, call.span)

    @property
    def weight_axis(self) -> int | None:
        """The axis of the output channels in its weights; None without constant weights."""
        if not _is_weighted(self.call):
            return None
        return 1 if is_call(self.call, "nn.conv2d_transpose") else 0

    @property
    def weight(self) -> Array:
        """Its weights [output channels, ...]."""
        weight, axis = self.call.args[1], self.weight_axis
        assert isinstance(weight, Constant) and axis is not None
        return np.moveaxis(np.asarray(weight.data), axis, 0)

    @property
    def channels(self) -> int:
        """The number of output channels of its weights; 0 without."""
        return 0 if self.weight_axis is None else len(self.weight)

    @property
    def operator(self) -> str:
        """The operator's name."""
        assert isinstance(self.call.op, Op)
        return self.call.op.name

    @property
    def channel_axis(self) -> int:
        """The axis of the output channels in its result."""
        return 1 if self.operator.startswith("nn.conv") else tensor_type_of(self.call).ndim - 1


def operands_of(call: Call) -> tuple[Expr, ...]:
    """The operands of a layer that are no weights."""
    if is_call(call, "concatenate"):
        (parts,) = call.args
        return parts.fields if isinstance(parts, Tuple) else (parts,)
    return call.args[:1] if _is_weighted(call) else tuple(call.args)


def _is_weighted(call: Call) -> bool:
    quantized = isinstance(call.op, Op) and call.op.quantized
    return bool(quantized) and not is_call(call, "nn.batch_matmul") and isinstance(call.args[1], Constant)


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
    nodes = post_order(main.body)
    joins = _joins(nodes)
    for node in nodes:
        if not isinstance(node, Call) or not (node in joins or _is_product(node)):
            continue
        assert isinstance(node.op, Op)
        base = str(node.span or "").split(";")[0] or node.op.name
        taken[base] = taken.get(base, 0) + 1
        name = base if taken[base] == 1 else f"{base}#{taken[base]}"
        names = []
        for number, data in enumerate(read_by(node)):
            own = f"{name}:input{number or ''}"
            names.append(tensors.setdefault(data, data.name_hint if isinstance(data, Var) else own))
        found.append(Layer(name, node, tuple(names)))
    return found


def read_by(call: Call) -> tuple[Expr, ...]:
    """The tensors whose codes the operands of a layer have: those of a concatenation have the codes of its result."""
    parts = operands_of(call)
    return (call,) * len(parts) if is_call(call, "concatenate") else parts


def _is_product(call: Call) -> bool:
    if is_call(call, "nn.batch_matmul"):
        return _is_float(*call.args, call) and not any(isinstance(one, Constant) for one in call.args)
    if not _is_weighted(call) or not _is_float(*call.args, call) or call.args[1].data.size == 0:  # type: ignore[attr-defined]
        return False
    if is_call(call, "nn.dense"):
        return bool(call.attrs["weight_layout"] == "NC")
    transposed = is_call(call, "nn.conv2d_transpose")
    if transposed and (call.attrs["groups"], *call.attrs["dilation"]) != (1, 1, 1):
        return False
    orders = (call.attrs["data_layout"][:2], call.attrs["kernel_layout"][:2])
    return orders == ("NC", "IO" if transposed else "OI")


def _is_float(*exprs: Expr) -> bool:
    return all(isinstance(t := type_of(one), TensorType) and str(t.dtype) == "float32" for one in exprs)


def _joins(nodes: Sequence[Expr]) -> set[Expr]:
    """The joins whose operands come from layers and whose result leads to one, through activations and moves alone."""
    coded: set[Expr] = set()  # what is made of the results of layers
    joins: list[Call] = []
    for node in nodes:
        if not isinstance(node, Call):
            continue
        if _is_product(node):
            coded.add(node)
        elif (
            isinstance(node.op, Op)
            and node.op.joins
            and all(part in coded for part in operands_of(node))
            and _is_float(node)
        ):
            coded.add(node)
            joins.append(node)
        elif is_between(node) and all(one in coded for one in node.args if not isinstance(one, Constant)):
            coded.add(node)
    users = consumers(nodes)
    wanted: set[Expr] = set()
    for node in reversed(nodes):
        if isinstance(node, Call) and node in coded:
            readers = [one for user in users[node] for one in (users[user] if isinstance(user, Tuple) else (user,))]
            if any(one in wanted or (isinstance(one, Call) and _is_product(one)) for one in readers):
                wanted.add(node)
    return {join for join in joins if join in wanted}


def is_between(call: Call) -> bool:
    """True for what is computed element by element, or moves or picks elements: kernels of layers do that as well."""
    if not isinstance(call.op, Op) or all(isinstance(one, Constant) for one in call.args) or not _is_float(call):
        return False
    return call.op.pattern <= OpPattern.BROADCAST or call.op.rearranges or is_call(call, "nn.max_pool2d")


def along_channels(build: Callable[[Expr, Expr], Expr], result: Expr, vector: Expr, layer: Layer) -> Expr:
    """`build` of the result of `layer` and of one number for each of its output channels."""
    behind = tensor_type_of(layer.call).ndim - 1 - layer.channel_axis
    return build(result, reshape(vector, (-1, *(1,) * behind)) if behind else vector)
