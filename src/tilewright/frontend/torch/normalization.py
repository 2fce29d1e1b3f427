"""Normalizations: over channels, groups, the last axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tilewright.frontend.builders.normalization import scaled_over, standardized
from tilewright.frontend.idioms import constant, full, product, rank_of, reshape, shape_of
from tilewright.frontend.torch.build import divisor
from tilewright.frontend.torch.computing import in_float32
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.types import is_static
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, TupleGetItem
from tilewright.relay.op.gradients.batch_norm import normalized_by_batch, through_batch_norm


def _gamma_beta(node: TorchNode, channels: Any) -> tuple[Expr, Expr]:
    """The weight and the bias, by default ones and zeros, one number a channel."""
    given = [(node.get("weight"), 1.0), (node.get("bias"), 0.0)]
    gamma, beta = (constant(np.full(channels, one), node.dtype) if made is None else made for made, one in given)
    return gamma, beta


@converts(
    "aten.batch_norm", "aten._native_batch_norm_legit_no_training", "aten.cudnn_batch_norm", "aten.native_batch_norm"
)
def convert_batch_norm(node: TorchNode) -> Expr | list[Expr]:
    """(x - mean) / sqrt(var + eps) * weight + bias with the statistics kept; in training with those of the batch."""
    data = node["input"]
    if rank_of(data) < 2:
        node.unsupported("a tensor without an axis of channels")
    epsilon = float(node["eps"])
    gamma, beta = _gamma_beta(node, shape_of(data)[1])
    if node.get("training") or node["running_mean"] is None:
        made, mean, scale, _ = normalized_by_batch(data, gamma, beta, epsilon)
        return [made, mean, scale] if isinstance(node.value, tuple | list) else made
    made = _by_kept(data, gamma, beta, node["running_mean"], node["running_var"], epsilon)
    nothing = op.zeros(shape=(0,), dtype=str(node.dtype))  # statistics of the batch, which nobody requested
    return [made, nothing, nothing] if isinstance(node.value, tuple | list) else made


def _by_kept(data: Expr, gamma: Expr, beta: Expr, mean: Expr, variance: Expr, epsilon: float) -> Expr:
    """The batch normalized by statistics kept from training."""
    return TupleGetItem(op.nn.batch_norm(data, gamma, beta, mean, variance, axis=1, epsilon=epsilon), 0)


@converts("aten.native_batch_norm_backward")
@in_float32
def convert_batch_norm_backward(node: TorchNode, grad_out: Expr, input: Expr, train: bool, eps: Any) -> list[Expr]:
    gamma, _ = _gamma_beta(node, shape_of(input)[1])
    if not train:
        scale = op.rsqrt(node["running_var"] + float(eps))
        return list(through_batch_norm(grad_out, input, gamma, node["running_mean"], scale, None))
    count = divisor(node, product(shape_of(input)) // shape_of(input)[1], 0, 1, input)
    return list(through_batch_norm(grad_out, input, gamma, node["save_mean"], node["save_invstd"], count))


@converts("aten._native_batch_norm_legit_functional", "aten._native_batch_norm_legit.no_stats")
@in_float32
def convert_batch_norm_functional(node: TorchNode, data: Expr, eps: Any, training: bool = True) -> list[Expr]:
    """Batch normalization in training, and the statistics to be kept: moved by `momentum` towards the batch's."""
    gamma, beta = _gamma_beta(node, shape_of(data)[1])
    if not training:
        running = (node["running_mean"], node["running_var"])
        made = _by_kept(data, gamma, beta, *running, float(eps))
        nothing = op.zeros(shape=(0,), dtype=str(node.dtype))
        return [made, nothing, nothing, *running]
    made, mean, scale, variance = normalized_by_batch(data, gamma, beta, float(eps))
    if "no_stats" in node.target:
        return [made, mean, scale]
    count = product(shape_of(data)) // shape_of(data)[1]
    variance = variance * (divisor(node, count, 0, 1, data) / divisor(node, count, 1, 1, data))
    momentum = node["momentum"]
    kept = [
        node[name] * (1 - momentum) + found * momentum
        for name, found in (("running_mean", mean), ("running_var", variance))
    ]
    return [made, mean, scale, *kept]


@converts("aten.layer_norm", "aten.native_layer_norm")
@in_float32
def convert_layer_norm(node: TorchNode) -> Expr | list[Expr]:
    """Normalization over the last axes; the native form returns mean and one over the deviation too."""
    data, shape = node["input"], shape_of(node["input"])
    last = len(node["normalized_shape"])
    axes = tuple(range(len(shape) - last, len(shape)))
    several = isinstance(node.value, tuple | list)
    if is_static(shape[-last:]) and (not several or {1, 2} <= node.unread):
        whole = _layer_norm(node, last)
        unread = [full(0, node.shape_at(index), node.dtype_at(index)) for index in (1, 2)] if several else []
        return [whole, *unread] if several else whole
    plain, mean, scale = standardized(data, axes, node["eps"])
    made = scaled_over(plain, axes, node["weight"], node["bias"])
    return [made, mean, scale] if several else made


def _layer_norm(node: TorchNode, last: int) -> Expr:
    """Normalization over the `last` axes, whose extents are known, as one operator."""
    data, shape = node["input"], shape_of(node["input"])
    extent = product(shape[-last:])
    gamma, beta = (reshape(part, (extent,)) for part in _gamma_beta(node, extent))
    flat = reshape(data, (*shape[:-last], extent))
    return reshape(op.nn.layer_norm(flat, gamma, beta, axis=-1, epsilon=float(node["eps"])), shape)


@converts("aten.rms_norm", "aten._fused_rms_norm")
@in_float32
def convert_rms_norm(node: TorchNode) -> Expr | list[Expr]:
    data = node["input"]
    axes = tuple(range(rank_of(data) - len(node["normalized_shape"]), rank_of(data)))
    eps = node["eps"]
    if eps is None:
        eps = float(np.finfo(node.dtype.numpy).eps)
    scale = op.rsqrt(op.mean(data * data, axis=axes, keepdims=True) + eps)
    made = scaled_over(data * scale, axes, node["weight"], None)
    return [made, scale] if isinstance(node.value, tuple | list) else made


@converts("aten.group_norm", "aten.native_group_norm", "aten.instance_norm")
@in_float32
def convert_group_norm(node: TorchNode, data: Expr, eps: Any) -> Expr | list[Expr]:
    """Normalization over groups of channels of each sample; over each channel for instance_norm."""
    batch, channels, *rest = shape_of(data)
    groups = node.get("num_groups", node.get("group", channels))
    if "instance_norm" in node.target and not node["use_input_stats"]:
        return _by_kept(data, *_gamma_beta(node, channels), node["running_mean"], node["running_var"], float(eps))
    grouped = reshape(data, (batch, groups, product([channels // groups, *rest])))
    plain, mean, scale = standardized(grouped, (2,), eps)
    made = scaled_over(reshape(plain, shape_of(data)), (1,), node["weight"], node["bias"])
    if not isinstance(node.value, tuple | list):
        return made
    return [made, reshape(mean, (batch, groups)), reshape(scale, (batch, groups))]


# ------------ Operators on lists of tensors (`torch._foreach_…`), as optimizers and the clipping of gradients call them
_PREFIX = "_foreach_"

#: Those whose operator of one tensor has another name.
_NAMES = {"norm": "linalg_vector_norm", "max": "max"}


@cache
def foreach_rules() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions of the operators of lists, of those that write into nothing."""
    # torch is optional
    import torch

    rules = {}
    for name in dir(torch._C._VariableFunctions):
        if not name.startswith(_PREFIX) or name.endswith("_"):
            continue
        packet = getattr(torch.ops.aten, name)
        single = _NAMES.get(name.removeprefix(_PREFIX), name.removeprefix(_PREFIX))
        function = getattr(torch.ops.aten, single, None)
        for overload in packet.overloads() if function is not None else ():
            schema = getattr(packet, overload)._schema
            if not schema.is_mutable and len(schema.returns) == 1:
                rules[getattr(packet, overload)] = _one_by_one(function, schema)
    return rules


def _one_by_one(function: Any, schema: Any) -> Callable[..., Any]:
    """Calls of `function` for each of the tensors of the lists that an operator of this schema gets."""
    lists = [str(declared.type).startswith("List[") for declared in schema.arguments]
    first = lists.index(True)
    positions = {declared.name: position for position, declared in enumerate(schema.arguments)}
    by_name = _named_only(function)

    def run(*args: Any, **kwargs: Any) -> list[Any]:
        results = []
        for index in range(len(args[first])):
            given = [value[index] if lists[position] else value for position, value in enumerate(args)]
            named = {name: value[index] if lists[positions[name]] else value for name, value in kwargs.items()}
            for position in range(len(given) - 1, 0, -1):  # such as the factor of addcmul
                if schema.arguments[position].name in by_name:
                    named[schema.arguments[position].name] = given.pop(position)
            results.append(function(*given, **named))
        return results

    return run


def _named_only(function: Any) -> set[str]:
    """The arguments of an operator that are given by name only, in every overload that has them."""
    schemas = [getattr(function, overload)._schema for overload in function.overloads()]
    arguments = [declared for schema in schemas for declared in schema.arguments]
    taken = {declared.name for declared in arguments if not declared.kwarg_only}
    return {declared.name for declared in arguments if declared.kwarg_only} - taken
