"""Losses: a number for each element, then their mean or sum."""

from __future__ import annotations

from tilewright.frontend.torch.activation import softplus
from tilewright.frontend.torch.build import like, rank_of
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.reduce import p_norm
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

#: PyTorch's numbers of the ways to reduce.
_NONE, _MEAN = 0, 1


def reduced(value: Expr, reduction: int) -> Expr:
    """`value` as it is (0), its mean (1) or its sum (2)."""
    if reduction == _NONE or not rank_of(value):
        return value
    return (op.mean if reduction == _MEAN else op.sum)(value, axis=tuple(range(rank_of(value))))


@converts("aten.mse_loss", "aten.l1_loss", "aten.smooth_l1_loss", "aten.huber_loss")
def convert_distance(node: TorchNode) -> Expr:
    """The square of the difference, its size, or the square near zero and the size further out."""
    difference = op.subtract(node.tensor("self"), node.tensor("target"))
    size, square = op.abs(difference), op.multiply(difference, difference)
    if "mse" in node.target:
        return reduced(square, node["reduction"])
    bound = node.get("beta", node.get("delta", 0.0))
    if ".l1" in node.target or ("smooth" in node.target and bound == 0):
        return reduced(size, node["reduction"])
    half, edge = op.multiply(square, like(0.5, size)), like(bound, size)
    outside = op.subtract(size, like(0.5 * bound, size))
    near, far = (op.divide(half, edge), outside) if "smooth" in node.target else (half, op.multiply(edge, outside))
    return reduced(op.where(op.less(size, edge), near, far), node["reduction"])


@converts("aten.binary_cross_entropy")
def convert_binary_cross_entropy(node: TorchNode) -> Expr:
    """-(target * log x + (1 - target) * log(1 - x)), the logarithms -100 at least."""
    data, target = node.tensor("self"), node.tensor("target")
    one, least = like(1, data), like(-100, data)
    logs = [op.maximum(op.log(value), least) for value in (data, op.subtract(one, data))]
    both = op.add(op.multiply(target, logs[0]), op.multiply(op.subtract(one, target), logs[1]))
    found = op.negative(both)
    if node["weight"] is not None:
        found = op.multiply(found, node["weight"])
    return reduced(found, node["reduction"])


@converts("aten.binary_cross_entropy_with_logits")
def convert_binary_cross_entropy_with_logits(node: TorchNode) -> Expr:
    """(1 - target) * x + (1 + (pos_weight - 1) * target) * softplus(-x)."""
    data, target = node.tensor("self"), node.tensor("target")
    one, above = like(1, data), softplus(op.negative(data))
    if node["pos_weight"] is not None:
        factor = op.add(one, op.multiply(op.subtract(node["pos_weight"], one), target))
        above = op.multiply(factor, above)
    found = op.add(op.multiply(op.subtract(one, target), data), above)
    if node["weight"] is not None:
        found = op.multiply(found, node["weight"])
    return reduced(found, node["reduction"])


@converts("aten.kl_div")
def convert_kl_div(node: TorchNode) -> Expr:
    """target * (log target - x)."""
    data, target = node.tensor("self"), node.tensor("target")
    if node["log_target"]:
        found = op.multiply(op.exp(target), op.subtract(target, data))
    else:
        zero = op.equal(target, like(0, target))
        entropy = op.where(zero, like(0, target), op.multiply(target, op.log(target)))
        found = op.subtract(entropy, op.multiply(target, data))
    return reduced(found, node["reduction"])


@converts("aten.soft_margin_loss")
def convert_soft_margin(node: TorchNode) -> Expr:
    """log(1 + exp(-target x))."""
    found = softplus(op.negative(op.multiply(node.tensor("self"), node.tensor("target"))))
    return reduced(found, node["reduction"])


@converts("aten.cosine_similarity")
def convert_cosine_similarity(node: TorchNode) -> Expr:
    """The product of two vectors, each over its length, which counts as `eps` at least."""
    left, right = node.tensor("x1"), node.tensor("x2")
    rank = max(rank_of(left), rank_of(right))
    if not rank:
        node.unsupported("scalars")
    spread = op.add(left, right)
    from_end = node.normalize(node["dim"], rank_of(spread)) - rank_of(spread)
    units = []
    for value in (left, right):
        value = op.broadcast_to_like(value, spread)
        norm = p_norm(value, (from_end + rank_of(value),), 2, True)
        units.append(op.divide(value, op.maximum(norm, like(node["eps"], norm))))
    return op.sum(op.multiply(*units), axis=(from_end + rank,))
