"""Layers of Core ML networks on single elements: functions of one number, arithmetic, comparisons, reductions."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from tilewright.frontend.builders import functions
from tilewright.frontend.builders.elements import diagonals
from tilewright.frontend.builders.reductions import REDUCTIONS
from tilewright.frontend.coreml import math
from tilewright.frontend.coreml.network_node import LayerNode, layers, operation, weights
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
    made = reduce(function, values)
    return made / len(values) if node.operator == "average" else made


@layers("unary")
def convert_unary_function(node: LayerNode) -> Expr:
    """A function of the input scaled and moved."""
    p = node.p
    epsilon = p.epsilon if p.has("epsilon") else 1e-6
    known = {
        "SQRT": op.sqrt, "EXP": op.exp, "ABS": op.abs, "RSQRT": lambda x: op.rsqrt(x + epsilon),
        "INVERSE": lambda x: 1 / (x + epsilon), "LOG": lambda x: op.log(x + epsilon),
        "POWER": lambda x: op.power(x, p.alpha), "THRESHOLD": lambda x: op.maximum(x, p.alpha),
    }  # fmt: skip
    if p.type not in known:
        node.bad(f"its function {p.type}")
    return known[p.type](functions.linear(node[0], p.scale if p.has("scale") else 1.0, p.shift))


@layers("activation")
def convert_activation(node: LayerNode) -> Expr:
    kind = next(iter(node.p.given()), "")
    if kind == "PReLU":
        slope = _per_channel(node, node.p.PReLU.alpha)
        return op.nn.relu(node[0]) + slope * op.minimum(node[0], 0.0)
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
        "linear": lambda x: functions.linear(x, p.alpha, p.beta), "ReLU": op.nn.relu, "tanh": op.tanh,
        "leakyReLU": lambda x: functions.leaky_relu(x, p.alpha), "sigmoid": op.sigmoid,
        "thresholdedReLU": lambda x: math.thresholded_relu(x, p.alpha), "ELU": lambda x: functions.elu(x, p.alpha),
        "scaledTanh": lambda x: functions.scaled_tanh(x, p.alpha, p.beta), "softsign": functions.softsign,
        "sigmoidHard": lambda x: functions.hard_linear(x, p.alpha, p.beta), "softplus": functions.softplus,
    }  # fmt: skip
    if kind not in known:
        node.unsupported(f"the activation {kind or 'of no name'}")
    return known[kind]


layers.functions({
    "clip": operation("clip", alpha="minVal", beta="maxVal"),
    "whereBroadcastable": lambda node: op.where(op.not_equal(node[0], 0), node[1], node[2]),
    "argMax": operation("reduce_argmax", keep_dims=lambda node: not node.p.removeDim),
    "argMin": operation("reduce_argmin", keep_dims=lambda node: not node.p.removeDim),
    "cumSum": operation("cumsum", exclusive="excludeFinalSum"),
    "matrixBandPart": operation("band_part", lower="numLower", upper="numUpper"),
    "lowerTriangular": lambda node: diagonals(node[0], None, int(node.p.k)),
    "upperTriangular": lambda node: diagonals(node[0], int(node.p.k), None),
})  # fmt: skip

# --------------------------------------------------------------------------------------------------------- reductions
_REDUCTIONS = {
    "Sum": "sum", "Prod": "prod", "Mean": "mean", "Max": "max", "Min": "min", "SumSquare": "sum_square",
    "L1": "l1_norm", "L2": "l2_norm", "LogSum": "log_sum", "LogSumExp": "log_sum_exp",
}  # fmt: skip
layers.functions({
    f"reduce{layer}": operation(
        f"reduce_{name}", axes=lambda node: None if node.p.reduceAll else list(node.p.axes) or None
    )
    for layer, name in _REDUCTIONS.items()
})  # fmt: skip
_OF_CHW = {name.upper(): builder for name, builder in REDUCTIONS.items()} | {
    "AVG": REDUCTIONS["mean"], "SUMSQUARE": REDUCTIONS["sum_square"],
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
    return _OF_CHW[node.p.mode](node[0], axis=axes, keepdims=True)
