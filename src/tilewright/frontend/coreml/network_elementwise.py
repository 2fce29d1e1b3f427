"""Layers of Core ML networks on single elements: functions of one number, arithmetic, comparisons, reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.builders.reductions import REDUCTIONS
from tilewright.frontend.coreml.network_node import LayerNode, layers, weights
from tilewright.frontend.idioms import cast, constant
from tilewright.frontend.messages import Record
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

layers.unary({
    "ceil": op.ceil, "floor": op.floor, "sign": op.sign, "round": op.round, "sin": op.sin, "cos": op.cos, "tan": op.tan,
    "asin": op.asin, "acos": op.acos, "atan": op.atan, "sinh": op.sinh, "cosh": op.cosh, "tanh": op.tanh,
    "asinh": op.asinh, "acosh": op.acosh, "atanh": op.atanh, "erf": op.erf,
    "exp2": lambda x: op.power(2, x), "copy": lambda x: x,
})  # fmt: skip
layers.binary({
    "addBroadcastable": op.add, "subtractBroadcastable": op.subtract, "multiplyBroadcastable": op.multiply,
    "divideBroadcastable": op.divide, "powBroadcastable": op.power, "minBroadcastable": op.minimum,
    "maxBroadcastable": op.maximum, "modBroadcastable": op.floor_mod, "floorDivBroadcastable": op.floor_divide,
})  # fmt: skip
_COMPARE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "equal": op.equal, "notEqual": op.not_equal, "lessThan": op.less, "lessEqual": op.less_equal,
    "greaterThan": op.greater, "greaterEqual": op.greater_equal,
}  # fmt: skip
_LOGIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "logicalAnd": op.logical_and, "logicalOr": op.logical_or, "logicalXor": op.logical_xor,
}  # fmt: skip
_MANY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": op.add, "multiply": op.multiply, "max": op.maximum, "min": op.minimum, "average": op.add,
}  # fmt: skip


@layers(*_COMPARE)
def convert_compare(node: LayerNode) -> Expr:
    other = node[1] if node.has(1) else constant(node.p.alpha)
    return cast(_COMPARE[node.operator](node[0], other), "float32")


@layers(*_LOGIC, "logicalNot")
def convert_logic(node: LayerNode) -> Expr:
    truths = [op.not_equal(value, 0) for value in node.given()]
    made = op.logical_not(truths[0]) if node.operator == "logicalNot" else _LOGIC[node.operator](*truths[:2])
    return cast(made, "float32")


@layers(*_MANY)
def convert_many(node: LayerNode) -> Expr:
    """All inputs combined; a single one with the layer's own number."""
    function, values = _MANY[node.operator], node.given()
    if len(values) == 1 and node.operator in ("add", "multiply"):
        return function(values[0], constant(node.p.alpha))
    made = values[0]
    for value in values[1:]:
        made = function(made, value)
    return made / constant(len(values)) if node.operator == "average" else made


@layers("unary")
def convert_unary_function(node: LayerNode) -> Expr:
    """A function of the input scaled and moved."""
    p = node.p
    x: Expr = node[0] * constant(p.scale if p.has("scale") else 1.0) + constant(p.shift)
    epsilon = constant(p.epsilon if p.has("epsilon") else 1e-6)
    kinds: dict[str, Callable[[], Expr]] = {
        "SQRT": lambda: op.sqrt(x),
        "RSQRT": lambda: op.rsqrt(x + epsilon),
        "INVERSE": lambda: constant(1.0) / (x + epsilon),
        "POWER": lambda: op.power(x, constant(p.alpha)),
        "EXP": lambda: op.exp(x),
        "LOG": lambda: op.log(x + epsilon),
        "ABS": lambda: op.abs(x),
        "THRESHOLD": lambda: op.maximum(x, constant(p.alpha)),
    }
    if p.type not in kinds:
        node.bad(f"its function {p.type}")
    return kinds[p.type]()


@layers("activation")
def convert_activation(node: LayerNode) -> Expr:
    kind = next(iter(node.p.given()), "")
    if kind == "PReLU":
        slope = _per_channel(node, node.p.PReLU.alpha)
        return op.nn.relu(node[0]) + slope * op.minimum(node[0], constant(0.0))
    if kind == "parametricSoftplus":
        alpha, beta = (_per_channel(node, getattr(node.p.parametricSoftplus, name)) for name in ("alpha", "beta"))
        return alpha * functions.softplus(beta * node[0])
    return activation(node, node.p)(node[0])


def _per_channel(node: LayerNode, field: Record) -> Expr:
    count = max(len(field.floatValue), len(field.float16Value) // 2)
    return constant(weights(node, field, "parameter", (count,)).reshape(-1, 1, 1))


def activation(node: LayerNode, params: Record) -> Callable[[Expr], Expr]:
    """The function that `ActivationParams` name."""
    kind = next(iter(params.given()), "")
    p = getattr(params, kind) if kind else params
    known: dict[str, Callable[[Expr], Expr]] = {
        "linear": lambda x: x * constant(p.alpha) + constant(p.beta),
        "ReLU": op.nn.relu,
        "leakyReLU": lambda x: op.nn.leaky_relu(x, alpha=p.alpha),
        "thresholdedReLU": lambda x: op.where(x >= constant(p.alpha), x, constant(0.0)),
        "tanh": op.tanh,
        "scaledTanh": lambda x: op.tanh(x * constant(p.beta)) * constant(p.alpha),
        "sigmoid": op.sigmoid,
        "sigmoidHard": lambda x: op.clip(x * constant(p.alpha) + constant(p.beta), 0.0, 1.0),
        "ELU": lambda x: functions.elu(x, p.alpha),
        "softsign": functions.softsign,
        "softplus": functions.softplus,
    }
    if kind not in known:
        node.unsupported(f"the activation {kind or 'of no name'}")
    return known[kind]


@layers("clip", "clampedReLU", "gelu")
def convert_bounded(node: LayerNode) -> Expr:
    p = node.p
    if node.operator == "clip":
        return op.clip(node[0], p.minVal, p.maxVal)
    if node.operator == "clampedReLU":
        return op.minimum(op.nn.leaky_relu(node[0], alpha=p.alpha), constant(p.beta))
    if p.mode == "SIGMOID_APPROXIMATION":
        return node[0] * op.sigmoid(node[0] * constant(1.702))
    return functions.gelu(node[0], approximate=p.mode == "TANH_APPROXIMATION")


@layers("whereBroadcastable")
def convert_where(node: LayerNode) -> Expr:
    return op.where(op.not_equal(node[0], 0), node[1], node[2])


# --------------------------------------------------------------------------------------------------------- reductions
_REDUCTIONS = {
    "Sum": "sum", "Prod": "prod", "Mean": "mean", "Max": "max", "Min": "min", "SumSquare": "sum_square", "L1": "l1",
    "L2": "l2", "LogSum": "log_sum", "LogSumExp": "log_sum_exp",
}  # fmt: skip


@layers(*[f"reduce{name}" for name in _REDUCTIONS])
def convert_reduction(node: LayerNode) -> Expr:
    axes = [node.axis(int(axis)) for axis in node.p.axes]
    if node.p.reduceAll or not axes:
        axes = list(range(node.rank()))
    return REDUCTIONS[_REDUCTIONS[node.operator.removeprefix("reduce")]](
        node[0], axis=axes, keepdims=bool(node.p.keepDims)
    )


_OF_CHW = {
    "SUM": "sum", "AVG": "mean", "PROD": "prod", "SUMSQUARE": "sum_square", "L1": "l1", "L2": "l2", "MAX": "max",
    "MIN": "min",
}  # fmt: skip


@layers("reduce")
def convert_reduce(node: LayerNode) -> Expr:
    """Over channels, height, width, or several of them; the axes stay."""
    rank = node.rank()
    if rank < 3:
        node.bad(f"it takes at least three axes, not {list(node.shape())}")
    axes = {"CHW": [-3, -2, -1], "HW": [-2, -1], "C": [-3], "H": [-2], "W": [-1]}.get(node.p.axis, [])
    axes = [axis + rank for axis in axes]
    if node.p.mode == "LOGSUM":
        epsilon = constant(node.p.epsilon if node.p.has("epsilon") else 1e-6)
        return op.sum(op.log(node[0] + epsilon), axis=axes, keepdims=True)
    if node.p.mode == "ARGMAX" and len(axes) == 1:
        return cast(op.argmax(node[0], axis=axes[0], keepdims=True), "float32")
    if node.p.mode not in _OF_CHW or not axes:
        node.bad(f"its reduction {node.p.mode} of {node.p.axis}")
    return REDUCTIONS[_OF_CHW[node.p.mode]](node[0], axis=axes, keepdims=True)


@layers("argMax", "argMin")
def convert_arg(node: LayerNode) -> Expr:
    function = op.argmax if node.operator == "argMax" else op.argmin
    axis = node.axis(int(node.p.axis))
    return cast(function(node[0], axis=axis, keepdims=not node.p.removeDim), "float32")


@layers("cumSum")
def convert_cumsum(node: LayerNode) -> Expr:
    axis = node.axis(int(node.p.axis))
    data = op.reverse(node[0], axis=axis) if node.p.reverse else node[0]
    made = op.cumsum(data, axis=axis, exclusive=bool(node.p.excludeFinalSum))
    return op.reverse(made, axis=axis) if node.p.reverse else made


@layers("matrixBandPart", "lowerTriangular", "upperTriangular")
def convert_band(node: LayerNode) -> Expr:
    """The elements near the diagonal of the last two axes; zeros elsewhere."""
    rows, columns = node.fixed()[-2:]
    away = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    p = node.p
    if node.operator == "lowerTriangular":
        kept = away <= p.k
    elif node.operator == "upperTriangular":
        kept = away >= p.k
    else:
        kept = ((p.numLower < 0) | (-away <= p.numLower)) & ((p.numUpper < 0) | (away <= p.numUpper))
    return op.where(constant(kept, "bool"), node[0], constant(0.0))
