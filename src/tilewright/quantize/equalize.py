"""Ranges of channels made alike: factors move from the data of layers into their weights, exactly in floats.

Before: %1 = nn.relu(nn.conv2d(%x, w1)); nn.conv2d(%1, w2)
After:  %1 = nn.relu(nn.conv2d(%x, w1 / s)); nn.conv2d(%1, w2 * s)                         (s: a factor a channel of %1)

One scale stands for all channels of a tensor, so a channel with outliers takes the codes of the others. Between
convolutions this is cross-layer equalization (Nagel et al., ICCV 2019), behind a layer normalization SmoothQuant (Xiao
et al., ICML 2023): s = X^a / W^(1 - a), of the largest magnitudes X of the data and W of the weights of a channel.
Factors are powers of two: what floats compute stays the same, bit for bit, but for numbers too small to be normal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.quantize.layers import Layer
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import children, consumers, post_order, rebuild
from tilewright.relay.op.nn import relu
from tilewright.relay.op.tensor import minimum, multiply
from tilewright.relay.transform.simplify.make import is_call

Array = np.ndarray[Any, Any]
#: Shares of the ranges of data that move into weights, each tried on all sites.
ALPHAS = (0.35, 0.5, 0.65, 0.8, 1.0)


@dataclass(frozen=True)
class Site:
    """A tensor whose channels can have factors: `layers` read it, and what computes it takes them in."""

    expr: Expr
    axis: int
    layers: tuple[Layer, ...]

    @property
    def channels(self) -> int:
        """The number of its factors."""
        return int(tensor_type_of(self.expr).shape[self.axis])

    def factors(self, largest: Array, alpha: float) -> Array:
        """A power of two for each channel, of the largest magnitudes of its data."""
        weights = np.max([_met_by_channel(layer) for layer in self.layers], axis=0)
        used = (largest > 0) & (weights > 0)
        logs = np.where(used, alpha * np.log2(np.where(used, largest, 1)), 0.0)
        logs -= np.where(used, (1 - alpha) * np.log2(np.where(used, weights, 1)), 0.0)
        middle = np.median(logs[used]) if used.any() else 0.0
        return np.exp2(np.where(used, np.rint(logs - middle), 0.0)).astype(np.float32)


def sites(nodes: Sequence[Expr], layers: Sequence[Layer]) -> list[Site]:
    """The tensors of a function, its nodes in order, whose channels can have factors."""
    readers: dict[Expr, list[Layer]] = {}
    for layer in layers:
        for data in layer.operands:
            readers.setdefault(data, []).append(layer)
    users = consumers(nodes)
    found = []
    for data, own in readers.items():
        axis = data_axis(own[0])
        alone = len(users[data]) == len(own)
        takes = all(input_axis(layer) is not None for layer in own)
        behind_norm = is_call(data, "nn.layer_norm")
        if takes and (alone or behind_norm) and _takes_in(data, axis, users, first=True):
            found.append(Site(data, axis, tuple(own)))
    return found


def data_axis(layer: Layer) -> int:
    """The axis of the channels in the data of a layer."""
    return 1 if layer.operator.startswith("nn.conv") else tensor_type_of(layer.operands[0]).ndim - 1


def input_axis(layer: Layer) -> int | None:
    """The axis of the weights of a layer along the channels of its data; None where there is none."""
    assert isinstance(layer.call.op, Op)
    if not layer.channels or not (layer.operator == "nn.dense" or layer.call.op.spatial_axes in (1, 2)):
        return None
    if not isinstance(tensor_type_of(layer.operands[0]).shape[data_axis(layer)], int):
        return None
    if layer.operator == "nn.dense" or layer.call.attrs["groups"] == 1:
        return 1
    depthwise = layer.weight.shape[:2] == (layer.call.attrs["groups"], 1)
    return 0 if depthwise else None


def _met_by_channel(layer: Layer) -> Array:
    """The largest magnitude of the weights that each channel of the data meets; 1 where each has a scale of its own."""
    axis = input_axis(layer)
    assert axis is not None
    magnitudes = np.abs(layer.weight)
    if axis == 0:
        return np.ones(len(magnitudes))
    return np.asarray(magnitudes.max(axis=tuple(i for i in range(magnitudes.ndim) if i != axis)), np.float64)


def scaled_weight(layer: Layer, factors: Array) -> Array:
    """The weights of a layer for data whose channels are divided by `factors`."""
    axis = input_axis(layer)
    assert axis is not None
    return layer.weight * _along(factors, axis, layer.weight.ndim)


def equalize(
    mod: IRModule, layers: Sequence[Layer], factors: Mapping[str, Sequence[float]]
) -> tuple[IRModule, dict[str, Array]]:
    """The module with the data of layers divided by their `factors`, by name, and their weights multiplied.

    The second result is what the results of layers, by name, are divided by in it.
    """
    main = mod["main"]
    nodes = post_order(main.body)
    wanted = sites(nodes, [layer for layer in layers if layer.name in factors])
    _check(wanted, factors)
    users = consumers(nodes)
    at = {site.expr: site for site in wanted}
    readers = {layer.call: layer for site in wanted for layer in site.layers}
    made: dict[Expr, Expr] = {}
    divided: dict[Expr, Expr] = {}
    taken: dict[Expr, Array] = {}
    for node in nodes:
        if node in readers:
            assert isinstance(node, Call)
            own = np.asarray(factors[readers[node].name], np.float32)
            weight = Constant(scaled_weight(readers[node], own))
            made[node] = Call(node.op, [divided[node.args[0]], weight], node.attrs, node.span)
        else:
            made[node] = rebuild(node, tuple([made[kid] for kid in children(node)]))
        if node in at:
            site = at[node]
            own = np.asarray(factors[site.layers[0].name], np.float32)
            divided[node] = _divided(node, made[node], own, site.axis, taken, users)
            column = Constant(_along(own, site.axis, tensor_type_of(node).ndim))
            made[node] = multiply(divided[node], column)
    by_name = {layer.name: taken[layer.call] for layer in layers if layer.call in taken}
    return infer_type(mod.with_function("main", main.with_body(made[main.body]))), by_name


def _check(wanted: Sequence[Site], factors: Mapping[str, Sequence[float]]) -> None:
    """Raise `InputError` where `factors` do not fit the sites: as many as channels, the same for all that read them."""
    fitting = {
        layer.name
        for site in wanted
        for layer in site.layers
        if len(factors[layer.name]) == site.channels and factors[layer.name] == factors[site.layers[0].name]
    }
    for name in factors:
        if name not in fitting:
            raise InputError(
                f"the recipe has factors for the channels that the layer {name!r} reads, which do not fit the model; "
                "it is another model's recipe"
            )


def _along(factors: Array, axis: int, ndim: int) -> Array:
    return factors.reshape([-1 if i == axis else 1 for i in range(ndim)])


# ------------------------------------------------------------------------------------- what takes factors in
def _takes_in(expr: Expr, axis: int, users: Mapping[Expr, list[Expr]], first: bool = False) -> bool:
    """True if `expr` divided by a factor for each channel of `axis` costs no operation; no other reads its parts."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Op) or (not first and len(users[expr]) != 1):
        return False
    if is_call(expr, "nn.layer_norm"):
        own = expr.attrs["axis"] % tensor_type_of(expr).ndim == axis
        return own and all(isinstance(one, Constant) for one in expr.args[1:])
    if expr.op.quantized and not is_call(expr, "nn.batch_matmul", "nn.conv2d_transpose"):
        return isinstance(expr.args[1], Constant) and axis == (1 if expr.op.spatial_axes else len(_shape(expr)) - 1)
    if is_call(expr, "add", "nn.bias_add"):
        data, other = expr.args
        return isinstance(other, Constant) and _shape(data) == _shape(expr) and _takes_in(data, axis, users)
    if is_call(expr, "multiply"):
        return _factor_taker(expr, axis, users) is not None
    if is_call(expr, "clip"):
        return expr.attrs["a_min"] == 0 and _takes_in(expr.args[0], axis, users)
    moved = _axis_before(expr, axis)
    return moved is not None and _takes_in(expr.args[0], moved, users)


def _factor_taker(product: Call, axis: int, users: Mapping[Expr, list[Expr]]) -> int | None:
    """The number of the operand of a product that takes factors in: a constant, such as the gain of an RMSNorm."""
    whole = [_shape(one) == _shape(product) for one in product.args]
    for number, one in enumerate(product.args):
        if isinstance(one, Constant) and whole[1 - number]:
            return number
    takers = [i for i, one in enumerate(product.args) if whole[i] and _takes_in(one, axis, users)]
    return takers[0] if takers and product.args[0] is not product.args[1] else None


def _shape(expr: Expr) -> tuple[Any, ...]:
    return tuple(tensor_type_of(expr).shape)


def _axis_before(call: Call, axis: int) -> int | None:
    """The axis of the channels in the operand of what keeps them: transposes, pooling, what no factor changes."""
    assert isinstance(call.op, Op)
    if is_call(call, "transpose"):
        ndim = tensor_type_of(call).ndim
        return int((call.attrs["axes"] or range(ndim)[::-1])[axis]) % ndim
    return axis if call.op.homogeneous else None


def _divided(
    old: Expr, fresh: Expr, factors: Array, axis: int, taken: dict[Expr, Array], users: Mapping[Expr, list[Expr]]
) -> Expr:
    """`fresh`, made of `old`, whose channels of `axis` are divided by `factors`; `taken` gets those of products."""
    assert isinstance(old, Call) and isinstance(fresh, Call) and isinstance(old.op, Op)
    ndim = tensor_type_of(old).ndim
    if is_call(old, "nn.layer_norm"):
        data, gain, shift = fresh.args
        parts = [Constant(one.data / factors) for one in (gain, shift) if isinstance(one, Constant)]
        return Call(fresh.op, [data, *parts], fresh.attrs, fresh.span)
    if old.op.quantized:
        data, weight = fresh.args
        assert isinstance(weight, Constant)
        taken[old] = factors
        rows = Constant(weight.data / _along(factors, 0, weight.data.ndim))
        return Call(fresh.op, [data, rows], fresh.attrs, fresh.span)
    if is_call(old, "multiply"):
        number = _factor_taker(old, axis, users)
        assert number is not None
        kids: list[Expr] = list(fresh.args)
        if isinstance(old.args[number], Constant):
            kids[number] = _divided_constant(kids[number], factors, axis, ndim)
        else:
            kids[number] = _divided(old.args[number], kids[number], factors, axis, taken, users)
        return Call(fresh.op, kids, fresh.attrs, fresh.span)
    before = axis if is_call(old, "nn.bias_add", "add", "clip") else _axis_before(old, axis)
    assert before is not None
    inner = _divided(old.args[0], fresh.args[0], factors, before, taken, users)
    if is_call(old, "clip"):
        return minimum(relu(inner), Constant(np.float32(old.attrs["a_max"]) / _along(factors, axis, ndim)))
    operands = [inner]
    if is_call(old, "nn.bias_add"):
        operands.append(_divided_constant(fresh.args[1], factors, 0, 1))
    elif is_call(old, "add"):
        operands.append(_divided_constant(fresh.args[1], factors, axis, ndim))
    return Call(fresh.op, operands, fresh.attrs, fresh.span)


def _divided_constant(expr: Expr, factors: Array, axis: int, ndim: int) -> Constant:
    """A constant that broadcasts to `ndim` dimensions, divided along `axis` of these; it keeps its shape if it can."""
    assert isinstance(expr, Constant)
    data = expr.data
    own = axis - (ndim - data.ndim)
    if own < 0 or data.shape[own] == 1:
        data, own = data.reshape((1,) * (ndim - data.ndim) + data.shape), axis
    return Constant(data / _along(factors, own, data.ndim))
