"""Layers with what follows them by channel: a bias, and a batch norm; and networks rebuilt with replacements of them.

nn.batch_norm(add(nn.conv2d(%x, w), b), gamma, beta, mean, variance).0    is one group, which reads %x.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.quantize.layers import Layer, layers, prepared
from tilewright.quantize.ranges import Array
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import children, consumers, post_order, rebuild
from tilewright.relay.transform.simplify.fold_constant import fold_constant
from tilewright.relay.transform.simplify.make import is_call


@dataclass(frozen=True)
class Norm:
    """A batch norm: its constants, one number a channel, and its epsilon."""

    gamma: Array
    beta: Array
    mean: Array
    variance: Array
    epsilon: float


@dataclass(frozen=True)
class Group:
    """A layer, its bias by channel (zeros where it has none), its batch norm, and the last node of them."""

    layer: Layer
    bias: Array
    norm: Norm | None
    root: Expr


def prepared_groups(mod: IRModule, norms_stay: bool) -> tuple[Function, list[Group]]:
    """The function of a float model and its groups; batch norms are in the weights but for those that stay."""
    ready = infer_type(fold_constant(infer_type(mod))) if norms_stay else prepared(mod, fold_scales=True)
    main = ready["main"]
    users = consumers(post_order(main.body))
    return main, [_group(layer, users) for layer in layers(main) if layer.channels and _is_trained(layer)]


def _is_trained(layer: Layer) -> bool:
    """True for convolutions of images and dense layers."""
    assert isinstance(layer.call.op, Op)
    return layer.operator == "nn.dense" or layer.call.op.spatial_axes == 2


def biases(main: Function, found: Sequence[Layer]) -> dict[str, Array]:
    """The biases by channel of those layers that have weights, by name; zeros where there is none."""
    users = consumers(post_order(main.body))
    return {layer.name: _group(layer, users).bias for layer in found if layer.channels}


def _group(layer: Layer, users: Mapping[Expr, Sequence[Expr]]) -> Group:
    root: Expr = layer.call
    bias = np.zeros(len(layer.weight), np.float32)
    while (user := _only(root, users)) is not None and (more := _bias(user, root, layer)) is not None:
        root, bias = user, bias + more
    if user is None or not is_call(user, "nn.batch_norm"):
        return Group(layer, bias, None, root)
    assert isinstance(user, Call)
    result, constants = _only(user, users), user.args[1:]
    if (
        not isinstance(result, TupleGetItem)
        or result.index != 0
        or user.attrs["axis"] % tensor_type_of(root).ndim != layer.channel_axis
        or not all(isinstance(one, Constant) for one in constants)
    ):
        return Group(layer, bias, None, root)
    gamma, beta, mean, variance = (np.asarray(one.data, np.float32) for one in constants if isinstance(one, Constant))
    return Group(layer, bias, Norm(gamma, beta, mean, variance, float(user.attrs["epsilon"])), result)


def _only(node: Expr, users: Mapping[Expr, Sequence[Expr]]) -> Expr | None:
    return users[node][0] if len(users.get(node, ())) == 1 else None


def _bias(user: Expr, root: Expr, layer: Layer) -> Array | None:
    """The numbers by channel that `user` adds to `root`; None where it does something else."""
    if not isinstance(user, Call) or not is_call(user, "add", "nn.bias_add"):
        return None
    others = [arg for arg in user.args if arg is not root]
    if len(others) != 1 or not isinstance(others[0], Constant) or tensor_type_of(user) != tensor_type_of(root):
        return None
    value, ndim, channels = np.asarray(others[0].data), tensor_type_of(root).ndim, len(layer.weight)
    if is_call(user, "nn.bias_add"):
        along = user.attrs["axis"] % ndim == layer.channel_axis
        return value.astype(np.float32) if along and value.shape == (channels,) else None
    full = (1,) * (ndim - value.ndim) + value.shape
    if any(size != (channels if axis == layer.channel_axis else 1) for axis, size in enumerate(full)):
        return None
    return value.reshape(-1).astype(np.float32)


def rebuilt(main: Function, groups: Sequence[Group], replacement: Callable[[Group, Expr], Expr]) -> list[Expr]:
    """The results of `main`, one by one, with each group replaced by `replacement(group, its data)`."""
    roots = {group.root: group for group in groups}

    def operands(node: Expr) -> Sequence[Expr]:
        return (roots[node].layer.operands[0],) if node in roots else children(node)

    made: dict[Expr, Expr] = {}
    results = list(main.body.fields) if isinstance(main.body, Tuple) else [main.body]
    for root in results:
        for node in post_order(root, operands=lambda node: () if node in made else operands(node)):
            if node in made:
                continue
            fresh = tuple(made[kid] for kid in operands(node))
            made[node] = replacement(roots[node], fresh[0]) if node in roots else rebuild(node, fresh)
    return [made[root] for root in results]
