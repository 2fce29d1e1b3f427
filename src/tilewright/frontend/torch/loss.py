"""Losses: a number for each element, then their mean or sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.frontend.builders.functions import softplus
from tilewright.frontend.idioms import cast, constant, full, like, on_axis, rank_of, reshape, shape_of
from tilewright.frontend.signature import Typed
from tilewright.frontend.torch.activation import softmax
from tilewright.frontend.torch.build import element_type
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.reduce import p_norm
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.types import is_empty
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

#: PyTorch's numbers of the ways to reduce.
_NONE, _MEAN, _SUM = 0, 1, 2


def reduced(value: Expr, reduction: int) -> Expr:
    """`value` as it is (0), its mean (1) or its sum (2)."""
    if reduction == _NONE or not rank_of(value):
        return value
    return (op.mean if reduction == _MEAN else op.sum)(value, axis=tuple(range(rank_of(value))))


@converts("aten.mse_loss", "aten.l1_loss", "aten.smooth_l1_loss", "aten.huber_loss")
def convert_distance(node: TorchNode, data: Typed, target: Typed, reduction: Any, delta: Any = 0.0) -> Expr:
    """The square of the difference, its size, or the square near zero and the size further out."""
    difference = data - target
    size, square = op.abs(difference), difference * difference
    if "mse" in node.target:
        return reduced(square, reduction)
    bound = node.get("beta", delta)
    if ".l1" in node.target or ("smooth" in node.target and bound == 0):
        return reduced(size, reduction)
    half, outside = square * 0.5, size - 0.5 * bound
    near, far = (half / bound, outside) if "smooth" in node.target else (half, bound * outside)
    return reduced(op.where(size < bound, near, far), reduction)


@converts("aten.binary_cross_entropy")
def convert_binary_cross_entropy(data: Typed, target: Typed, reduction: Any, weight: Expr | None = None) -> Expr:
    """-(target * log x + (1 - target) * log(1 - x)), the logarithms -100 at least."""
    logs = [op.maximum(op.log(value), -100) for value in (data, 1 - data)]
    found = -(target * logs[0] + (1 - target) * logs[1])
    return reduced(found if weight is None else found * weight, reduction)


@converts("aten.binary_cross_entropy_with_logits")
def convert_binary_cross_entropy_with_logits(node: TorchNode) -> Expr:
    """(1 - target) * x + (1 + (pos_weight - 1) * target) * softplus(-x)."""
    data, target = node.tensor("self"), node.tensor("target")
    above = softplus(-data)
    if node["pos_weight"] is not None:
        above = (1 + (node["pos_weight"] - 1) * target) * above
    found = (1 - target) * data + above
    return reduced(found if node["weight"] is None else found * node["weight"], node["reduction"])


@converts("aten.kl_div")
def convert_kl_div(data: Typed, target: Typed, log_target: bool, reduction: Any) -> Expr:
    """target * (log target - x)."""
    if log_target:
        return reduced(op.exp(target) * (target - data), reduction)
    entropy = op.where(op.equal(target, 0), 0, target * op.log(target))
    return reduced(entropy - target * data, reduction)


@converts("aten.soft_margin_loss")
def convert_soft_margin(data: Typed, target: Typed, reduction: Any) -> Expr:
    """log(1 + exp(-target x))."""
    return reduced(softplus(-(data * target)), reduction)


@converts("aten.cosine_similarity")
def convert_cosine_similarity(node: TorchNode, x1: Typed, x2: Typed, dim: Any, eps: Any) -> Expr:
    """The product of two vectors, each over its length, which counts as `eps` at least."""
    rank = max(rank_of(x1), rank_of(x2))
    if not rank:
        x1, x2, rank = reshape(x1, (1,)), reshape(x2, (1,)), 1
    spread = x1 + x2
    from_end = node.axis(dim, rank_of(spread)) - rank_of(spread)
    units = []
    for value in (x1, x2):
        value = op.broadcast_to_like(value, spread)
        norm = p_norm(value, (from_end + rank_of(value),), 2, True)
        units.append(value / op.maximum(norm, like(eps, norm)))
    return op.sum(op.multiply(*units), axis=(from_end + rank,))


@dataclass(frozen=True)
class Likelihood:
    """Common parameters of classification losses: weights of classes, the ignored class, the reduction."""

    weight: Expr | None
    ignored: int
    reduction: int


@converts("aten.nll_loss", "aten.nll_loss_nd", "aten.nll_loss2d", "aten.nll_loss_forward", "aten.nll_loss2d_forward")
def convert_nll(node: TorchNode) -> Expr | list[Expr]:
    """Minus the number of the class that each target names; the mean is over the weights of these classes."""
    options = Likelihood(node["weight"], node["ignore_index"], node["reduction"])
    value, total = _nll(node["self"], node["target"], options)
    return [value, total] if "forward" in node.target else value


def _nll(data: Expr, target: Expr, options: Likelihood) -> tuple[Expr, Expr]:
    """The loss, reduced, and the weight of all targets."""
    alone = rank_of(data) == 1
    data, target = (op.expand_dims(value, axis=0) if alone else value for value in (data, target))
    ignored = op.equal(target, like(options.ignored, target))
    chosen = op.where(ignored, 0, target)
    if is_empty(shape_of(data)):
        weights = losses = full(0, shape_of(target), element_type(data))
    else:
        picked = op.squeeze(op.gather(data, axis=1, indices=op.expand_dims(chosen, axis=1)), axis=(1,))
        weights = full(1, shape_of(target), element_type(data))
        if options.weight is not None:
            vector = reshape(options.weight, (shape_of(data)[1],))
            weights = op.take(vector, chosen, axis=0, mode="clip")
        weights = op.where(ignored, 0, weights)
        losses = op.where(ignored, 0, -(picked * weights))
    axes = tuple(range(rank_of(weights)))
    total = op.sum(weights, axis=axes)
    if options.reduction == _NONE:
        return (op.squeeze(losses, axis=(0,)) if alone else losses), constant(0, element_type(data))
    summed = op.sum(losses, axis=axes)
    return (summed / total if options.reduction == _MEAN else summed), total


@converts("aten.cross_entropy_loss")
def convert_cross_entropy(node: TorchNode) -> Expr:
    """The negative log likelihood of a softmax, of classes or of their probabilities, smoothed over all classes."""
    options = Likelihood(node["weight"], node["ignore_index"], node["reduction"])
    return _cross_entropy(node["self"], node["target"], options, float(node["label_smoothing"]))


def _cross_entropy(data: Expr, target: Expr, options: Likelihood, smoothing: float) -> Expr:
    axis = 0 if rank_of(data) == 1 else 1
    logs = softmax(data, axis, logarithm=True)
    weighted = logs if options.weight is None else logs * on_axis(options.weight, axis, rank_of(data))
    if element_type(target).is_float:
        if smoothing:
            even = smoothing / shape_of(logs)[axis]
            target = target * (1 - smoothing) + even
        return reduced(-op.sum(weighted * target, axis=(axis,)), options.reduction)
    found, total = _nll(logs, target, options)
    if not smoothing:
        return found
    whole = -op.sum(weighted, axis=(axis,))
    kept = op.where(op.equal(target, like(options.ignored, target)), 0, whole)
    even = reduced(kept, _NONE if options.reduction == _NONE else _SUM)
    if options.reduction == _MEAN:
        even = even / (total if rank_of(data) > 1 else _nll(logs, target, options)[1])
    return found * (1 - smoothing) + even * (smoothing / shape_of(data)[axis])


@converts("torch_nn._linear_cross_entropy_batch_chunked", "torch_nn._linear_cross_entropy_batch_chunked_no_reduction")
def convert_linear_cross_entropy(node: TorchNode) -> Expr | list[Expr]:
    """The cross entropy of a product with a weight, which PyTorch computes in parts; without its gradients."""
    if any(node.get(name) for name in ("compute_input_grad", "compute_linear_weight_grad", "compute_linear_bias_grad")):
        node.unsupported("computing gradients in the forward pass")
    data, weight = node["input"], node["linear_weight"]
    scores = op.nn.dense(data, weight, units=shape_of(weight)[0])
    if node["linear_bias"] is not None:
        scores = scores + node["linear_bias"]
    reduction = {"none": _NONE, "mean": _MEAN, "sum": _SUM}[node.get("reduction", "none")]
    options = Likelihood(node["weight"], node["ignore_index"], reduction)
    made = cast(_cross_entropy(scores, node["target"], options, node.get("label_smoothing", 0.0)), node.dtype)
    if not isinstance(node.value, tuple | list):
        return made
    return [made, *(full(0, node.shape_at(index), node.dtype_at(index)) for index in (1, 2, 3))]


@converts("aten.margin_ranking_loss", "aten.hinge_embedding_loss")
def convert_margin_loss(node: TorchNode, target: Typed, margin: Any, reduction: Any) -> Expr:
    """max(0, margin - target * (input1 - input2)); of one input, or if the target is -1 max(0, margin - it)."""
    if "ranking" in node.target:
        distance = node.tensor("input1") - node.tensor("input2")
        return reduced(op.maximum(-(target * distance) + margin, 0), reduction)
    data = node.tensor("self")
    near = op.where(op.not_equal(target, -1), data, 0)
    return reduced(near + op.where(op.not_equal(target, 1), op.maximum(margin - data, 0), 0), reduction)
