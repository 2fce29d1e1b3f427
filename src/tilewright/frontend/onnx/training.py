"""The optimizers of ai.onnx.preview.training: one step on several tensors, in plain arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import ModelError
from tilewright.frontend.idioms import cast, constant, like
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.op.gradients.adjoint import adjoints

_DOMAIN = "ai.onnx.preview.training"


@converts("Gradient", domain=_DOMAIN)
def convert_gradient(node: OnnxNode) -> list[Expr]:
    """The derivatives of the sum of the value `y` by the values `xs`, all named as the graph around names them."""
    node.ignore("zs")
    names = [*node.require("xs"), node.require("y")]
    found = [node.env.get(name) for name in names]
    if any(not isinstance(value, Expr) for value in found):
        raise ModelError(
            f"{node.label}: its attributes xs and y name {', '.join(names)}, which are not all in the graph"
        )
    *sources, result = [value for value in found if isinstance(value, Expr)]
    return list(adjoints(result, sources))


def _groups(node: OnnxNode, kinds: int) -> list[list[Expr]]:
    """The inputs after rate and step count: all tensors of one kind, then all of the next."""
    rest = node.given()[2:]
    count = len(rest) // kinds
    return [rest[i * count : (i + 1) * count] for i in range(kinds)]


def _laid_out(columns: Sequence[Sequence[Expr]]) -> list[Expr]:
    """Outputs by kind, from one row for each tensor."""
    return [value for kind in zip(*columns) for value in kind]


def _regularized(node: OnnxNode, x: Expr, gradient: Expr, coefficient: float) -> Expr:
    return like(coefficient, x) * x + gradient if coefficient else gradient


@converts("Adagrad", domain=_DOMAIN)
def convert_adagrad(node: OnnxNode) -> list[Expr]:
    decay, epsilon = float(node.attr("decay_factor", 0.0)), float(node.attr("epsilon", 0.0))
    norm = float(node.attr("norm_coefficient", 0.0))
    step = op.cast(node[1], dtype="float32")
    rate = node[0] / (constant(1.0, "float32") + step * constant(decay, "float32"))
    rows = []
    for x, gradient, squares in zip(*_groups(node, 3)):
        g = _regularized(node, x, gradient, norm)
        total = squares + g * g
        root = op.sqrt(total) + epsilon
        rows.append([x - cast(rate, node.dtype(x)) * g / root, total])
    return _laid_out(rows)


@converts("Adam", domain=_DOMAIN)
def convert_adam(
    node: OnnxNode, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 0.0, norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> list[Expr]:  # fmt: skip
    """Momentum and squared gradients averaged over time; a rate corrected for their start at zero."""
    rate = _corrected_rate(node, alpha, beta)
    rows = []
    for x, gradient, moment, squares in zip(*_groups(node, 4)):
        g = _regularized(node, x, gradient, norm_coefficient)
        v = _mixed(node, moment, g, alpha)
        h = _mixed(node, squares, g * g, beta)
        root = op.sqrt(h) + epsilon
        moved = x - cast(rate, node.dtype(x)) * v / root
        rows.append([moved * (1 - norm_coefficient_post) if norm_coefficient_post else moved, v, h])
    return _laid_out(rows)


def _mixed(node: OnnxNode, old: Expr, new: Expr, share: float) -> Expr:
    return old * share + new * (1 - share)


def _corrected_rate(node: OnnxNode, alpha: float, beta: float) -> Expr:
    """The learning rate times sqrt(1 - beta^T) / (1 - alpha^T), for steps T above zero."""
    one = constant(1.0, "float32")
    steps = op.cast(node[1], dtype="float32")
    remaining = [one - op.power(constant(factor, "float32"), steps) for factor in (beta, alpha)]
    corrected = node[0] * op.sqrt(remaining[0]) / remaining[1]
    return op.where(steps > constant(0.0, "float32"), corrected, node[0])


@converts("Momentum", domain=_DOMAIN)
def convert_momentum(node: OnnxNode, alpha: float, beta: float, norm_coefficient: float = 0.0) -> list[Expr]:
    """Gradient descent along an average of the gradients, or with Nesterov's look ahead."""
    nesterov = node.choice("mode", "standard", ("standard", "nesterov")) == "nesterov"
    share = op.where(node[1] > constant(0, "int64"), constant(beta, "float32"), constant(1.0, "float32"))
    rows = []
    for x, gradient, moment in zip(*_groups(node, 3)):
        dtype = node.dtype(x)
        g = _regularized(node, x, gradient, norm_coefficient)
        v = alpha * moment + cast(share, dtype) * g
        direction = g + alpha * v if nesterov else v
        rows.append([x - cast(node[0], dtype) * direction, v])
    return _laid_out(rows)
