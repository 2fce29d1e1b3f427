"""Layers of Core ML networks with weights or windows: convolution, pooling, products, normalization, recurrence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.builders import windows
from tilewright.frontend.builders.normalization import normalized
from tilewright.frontend.builders.product import linear, matmul
from tilewright.frontend.builders.recurrent_layers import unrolled
from tilewright.frontend.builders.window_rules import Edges, counts_upwards, same_edges, transposed_sizes
from tilewright.frontend.coreml.network_elementwise import activation
from tilewright.frontend.coreml.network_node import LayerNode, layers, operation, weights
from tilewright.frontend.idioms import cast, concatenate, constant, index_axis, pads, reshape, slice_axis, transpose
from tilewright.frontend.messages import Record
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

#: Steps of a recurrent layer at most: they are written out.
_MOST_STEPS = 512


def _list(values: Sequence[int], default: int, count: int = 2) -> list[int]:
    return [int(value) for value in values] or [default] * count


def _pads(node: LayerNode, extents: Sequence[int], size: list[int], strides: list[int], dilation: list[int]) -> Edges:
    """(before, behind) of the spatial axes."""
    if min((*size, *strides, *dilation), default=0) < 1:
        node.bad(f"a window of {size} with strides {strides} and dilations {dilation}")
    if node.p.has("same"):
        return same_edges(node, extents, size, strides, dilation, node.p.same.asymmetryMode == "TOP_LEFT_HEAVY")
    edges = node.p.valid.paddingAmounts.borderAmounts
    if not edges:
        return [0] * len(size), [0] * len(size)
    return [int(edge.startEdgeSize) for edge in edges], [int(edge.endEdgeSize) for edge in edges]


@layers("convolution")
def convert_convolution(node: LayerNode) -> Expr:
    p = node.p
    size, strides, dilation = _list(p.kernelSize, 3), _list(p.stride, 1), _list(p.dilationFactor, 1)
    groups, filters = int(p.nGroups) or 1, int(p.outputChannels)
    data, lead = node.folded()
    extents = node.shape(data)[2:]
    if p.isDeconvolution:
        made = _transposed(node, data, size, strides, dilation, groups, filters)
    else:
        edges = _pads(node, extents, size, strides, dilation)
        kernel = constant(node.weights("weights", (filters, int(p.kernelChannels), *size)))
        made = windows.convolution(data, kernel, strides, pads(*edges), dilation, groups)
    if p.hasBias:
        made = made + node.vector("bias", filters)
    return node.unfolded(made, lead)


def _transposed(
    node: LayerNode, data: Expr, size: list[int], strides: list[int], dilation: list[int], groups: int, filters: int
) -> Expr:
    p = node.p
    kernel = constant(node.weights("weights", (int(p.kernelChannels), filters // groups, *size)))
    extents = node.shape(data)[2:]
    full = transposed_sizes(extents, size, strides, ([0] * len(size),) * 2, dilation)
    wanted = [int(extent) for extent in p.outputShape]
    if p.has("same"):
        wanted = wanted or [n * s for n, s in zip(extents, strides)]
        cut = [max(f - w, 0) for f, w in zip(full, wanted)]
        before = [c - c // 2 if p.same.asymmetryMode == "TOP_LEFT_HEAVY" else c // 2 for c in cut]
        edges = before, [c - b for c, b in zip(cut, before)]
    else:
        edges = _pads(node, extents, size, strides, dilation)
    made = [f - b - e for f, b, e in zip(full, *edges)]
    extra = [want - got for want, got in zip(wanted or made, made)]
    if min(extra) < 0:
        node.bad(f"its result has {made}, not {wanted}")
    return windows.transposed_convolution(data, kernel, strides, pads(*edges), dilation, groups, extra)


@layers("pooling")
def convert_pooling(node: LayerNode) -> Expr:
    p = node.p
    data, lead = node.folded()
    extents = list(node.shape(data)[2:])
    size = extents if p.globalPooling else _list(p.kernelSize, 3)
    strides = [1, 1] if p.globalPooling else _list(p.stride, 1)
    kind = {"MAX": "max", "AVERAGE": "mean", "L2": "mean"}.get(p.type)
    if kind is None:
        node.bad(f"its pooling {p.type}")
    counts = None
    if p.globalPooling:
        edges = [0, 0], [0, 0]
    elif p.has("includeLastPixel"):
        edges = (_list(p.includeLastPixel.paddingAmounts, 0),) * 2
        counts = counts_upwards(node, extents, size, strides, edges, inside=True)
    else:
        edges = _pads(node, extents, size, strides, [1, 1])
    lengths = p.type == "L2"
    counting, (before, behind) = lengths or not p.avgPoolExcludePadding, edges
    data = data * data if lengths else data
    made = windows.pool(data, kind, size, strides, before, counts, behind, padding_counts=counting)
    return node.unfolded(op.sqrt(made * float(np.prod(size))) if lengths else made, lead)


def _custom_pads(
    node: LayerNode, kind: str, extents: Sequence[int], size: list[int], strides: list[int], dilation: list[int]
) -> Edges:
    if kind == "SAME":
        return same_edges(node, extents, size, strides, dilation)
    first, second = (
        [0 if kind == "VALID" else int(getattr(node.p, f"customPadding{side}")) for side in sides]
        for sides in (("Front", "Top", "Left"), ("Back", "Bottom", "Right"))
    )
    return first, second


def _three(node: LayerNode, name: str, default: int = 1) -> list[int]:
    values = [int(getattr(node.p, f"{name}{axis}")) or default for axis in ("Depth", "Height", "Width")]
    if min(values) < 1:
        node.bad(f"its {name} {values}")
    return values


@layers("convolution3d")
def convert_convolution3d(node: LayerNode) -> Expr:
    p = node.p
    size, strides, dilation = _three(node, "kernel"), _three(node, "stride"), _three(node, "dilation")
    groups, filters, taken = int(p.nGroups) or 1, int(p.outputChannels), int(p.inputChannels)
    data, lead = node.folded(kept=4)
    edges = pads(*_custom_pads(node, p.paddingType, node.shape(data)[2:], size, strides, dilation))
    if p.isDeconvolution and len(p.outputShape):
        node.unsupported("a transposed convolution over three axes with a shape of its result")
    shape = (taken, filters // groups, *size) if p.isDeconvolution else (filters, taken // groups, *size)
    convolve = windows.transposed_convolution if p.isDeconvolution else windows.convolution
    made = convolve(data, constant(node.weights("weights", shape)), strides, edges, dilation, groups)
    return node.unfolded(made + node.vector("bias", filters, 4) if p.hasBias else made, lead)


@layers("pooling3d", "globalPooling3d")
def convert_pooling3d(node: LayerNode) -> Expr:
    data, lead = node.folded(kept=4)
    extents = list(node.shape(data)[2:])
    kind = "max" if node.p.type == "MAX" else "mean"
    if node.operator == "globalPooling3d":
        return node.unfolded(windows.pool(data, kind, extents, [1] * 3, [0] * 3), lead)
    size, strides = _three(node, "kernel"), _three(node, "stride")
    before, behind = _custom_pads(node, node.p.paddingType, extents, size, strides, [1] * 3)
    counting = not node.p.countExcludePadding
    return node.unfolded(windows.pool(data, kind, size, strides, before, None, behind, padding_counts=counting), lead)


# ------------------------------------------------------------------------------------------------------------ products
@layers("innerProduct")
def convert_inner_product(node: LayerNode) -> Expr:
    """Over channels: the third axis from the end where there are four or five, else the last."""
    p = node.p
    taken, given = int(p.inputChannels), int(p.outputChannels)
    kernel = constant(node.weights("weights", (given, taken)))
    shape = node.shape()
    wide = len(shape) > 3
    if int(np.prod(shape[-3:] if wide else shape[-1:], dtype=object)) != taken:
        node.bad(f"it takes {taken} channels, not data of {list(shape)}")
    made = linear(node[0], kernel, constant(node.weights("bias", (given,))) if p.hasBias else None, -3 if wide else -1)
    return _shaped(made) if wide else made


@layers("embedding", "embeddingND")
def convert_embedding(node: LayerNode) -> Expr:
    """Rows of a table; the weights are stored column by column: [width, rows]."""
    p = node.p
    wide = node.operator == "embedding"
    rows, width = int(p.inputDim if wide else p.vocabSize), int(p.outputChannels if wide else p.embeddingSize)
    table = np.ascontiguousarray(node.weights("weights", (width, rows)).T)
    shape = node.shape()
    if (wide and shape[-3:] != (1, 1, 1) and len(shape) > 2) or (not wide and shape[-1] != 1):
        node.bad(f"it looks up data of {list(shape)}, whose last axes are not one")
    lead = (shape[:-3] if len(shape) > 2 else shape[:-1]) if wide else shape[:-1]
    made: Expr = op.take(constant(table), reshape(cast(node[0], "int32"), lead), axis=0, mode="clip")
    if p.hasBias:
        made = made + node.weights("bias", (width,))
    return reshape(made, (*lead, width, 1, 1) if wide and len(shape) > 2 else (*lead, width))


@layers("batchedMatmul")
def convert_batched_matmul(node: LayerNode) -> Expr:
    p = node.p
    if node.has(1):
        return matmul(node[0], node[1], p.transposeA, p.transposeB)
    rows, columns = int(p.weightMatrixFirstDimension), int(p.weightMatrixSecondDimension)
    # stored column by column
    kernel = node.weights("weights", (columns, rows)).T
    made = matmul(node[0], constant(np.ascontiguousarray(kernel)))
    return made + node.weights("bias", (columns,)) if p.hasBias else made


@layers("dot")
def convert_dot(node: LayerNode) -> Expr:
    """The products of two vectors along the channels."""
    axis = node.rank() - 3

    def along(a: Expr, b: Expr) -> Expr:
        return op.sum(a * b, axis=(axis,), keepdims=True)

    made = along(node[0], node[1])
    if node.p.cosineSimilarity:
        made = made / op.sqrt(along(node[0], node[0]) * along(node[1], node[1]))
    return made


@layers("scale", "bias")
def convert_scale(node: LayerNode) -> Expr:
    """Numbers of shape [1], [C], [1, H, W] or [C, H, W] times the data and added to it."""
    p = node.p

    def part(name: str, shape: Sequence[int]) -> Expr:
        extents = [int(extent) for extent in shape]
        data = node.weights(name, extents)
        return constant(data.reshape(-1, 1, 1) if len(extents) == 1 else data)

    if node.operator == "bias":
        return node[0] + part("bias", p.shape)
    made: Expr = node[0] * part("scale", p.shapeScale)
    return made + part("bias", p.shapeBias) if p.hasBias else made


# ------------------------------------------------------------------------------------------------------- normalization
def _epsilon(node: LayerNode, name: str = "epsilon") -> float:
    return float(getattr(node.p, name)) if node.p.has(name) else 1e-5


@layers("batchnorm")
def convert_batchnorm(node: LayerNode) -> Expr:
    p, channels = node.p, int(node.p.channels)
    gamma, beta = (node.weights(name, (channels, 1, 1)) for name in ("gamma", "beta"))
    if p.computeMeanVar:
        if not p.instanceNormalization:
            node.unsupported("mean and variance of the batch, computed while it runs")
        return normalized(node[0], [node.rank() - 2, node.rank() - 1], _epsilon(node)) * gamma + beta
    mean, variance = (node.weights(name, (channels, 1, 1)) for name in ("mean", "variance"))
    scale = gamma / np.sqrt(variance + np.float32(_epsilon(node)))
    return node[0] * scale + (beta - mean * scale)


@layers("mvn")
def convert_mvn(node: LayerNode) -> Expr:
    axes = list(range(node.rank() - (3 if node.p.acrossChannels else 2), node.rank()))
    if node.p.normalizeVariance:
        return normalized(node[0], axes, _epsilon(node))
    return node[0] - op.mean(node[0], axis=axes, keepdims=True)


@layers("layerNormalization")
def convert_layer_normalization(node: LayerNode) -> Expr:
    shape = [int(extent) for extent in node.p.normalizedShape]
    axes = list(range(node.rank() - len(shape), node.rank()))
    if not shape or list(node.shape()[-len(shape) :]) != shape:
        node.bad(f"it normalizes {shape} of data of {list(node.shape())}")
    made = normalized(node[0], axes, _epsilon(node, "eps"))
    return made * node.weights("gamma", shape) + node.weights("beta", shape)


@layers("lrn")
def convert_lrn(node: LayerNode) -> Expr:
    data, lead = node.folded()
    p = node.p
    made = op.nn.lrn(
        data, size=int(p.localSize) or 1, axis=1, bias=p.k if p.has("k") else 1.0, alpha=p.alpha, beta=p.beta
    )
    return node.unfolded(made, lead)


layers.functions({
    "l2normalize": operation("l2_norm", epsilon=lambda node: node.p.epsilon if node.p.has("epsilon") else 1e-6),
    # over channels, the third axis from the end, or the axis that is named
    "softmax": lambda node: op.nn.softmax(node[0], axis=node.rank() - (3 if node.rank() > 3 else 1)),
})  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- recurrence
def _rows(node: LayerNode, width: int) -> Expr:
    """The data [S, B, C, 1, 1] as [S, B, C]."""
    shape = node.shape()
    if len(shape) != 5 or shape[2] * shape[3] * shape[4] != width:
        node.bad(f"it takes [steps, batch, {width}, 1, 1], not {list(shape)}")
    if shape[0] > _MOST_STEPS:
        node.unsupported(f"{shape[0]} steps; up to {_MOST_STEPS} are written out")
    return reshape(node[0], (*shape[:2], width))


def _state(node: LayerNode, index: int, batch: int, width: int) -> Expr:
    if not node.has(index):
        return constant(np.zeros((batch, width)))
    return reshape(node[index], (batch, width))


def _matrices(node: LayerNode, fields: Sequence[Record], width: int, units: int) -> Expr:
    """Several weights [units, width] below each other."""
    parts = [weights(node, field, "weights", (units, width)) for field in fields]
    return constant(np.concatenate(parts))


def _shaped(value: Expr) -> Expr:
    """[…, C] as […, C, 1, 1]."""
    return op.expand_dims(value, axis=-1, num_newaxis=2)


@layers("simpleRecurrent", "gru")
def convert_recurrent(node: LayerNode) -> list[Expr]:
    p = node.p
    width, units = int(p.inputVectorSize), int(p.outputVectorSize)
    rows = _rows(node, width)
    steps, batch = node.shape(rows)[:2]
    hidden = _state(node, 1, batch, units)
    step = _gru_step(node, rows, width, units) if node.operator == "gru" else _rnn_step(node, rows, width, units)
    every, (hidden,) = unrolled(steps, lambda position, states: [step(position, *states)], [hidden], p.reverseInput)
    results = every if p.sequenceOutput else op.expand_dims(hidden, axis=0)
    return [_shaped(results), _shaped(op.expand_dims(hidden, axis=0))]


def _rnn_step(node: LayerNode, rows: Expr, width: int, units: int) -> Any:
    p = node.p
    fresh: Expr = matmul(rows, transpose(_matrices(node, [p.weightMatrix], width, units), (1, 0)))
    if p.hasBiasVector:
        fresh = fresh + node.weights("biasVector", (units,))
    recurrent, function = _matrices(node, [p.recursionMatrix], units, units), activation(node, p.activation)
    return lambda position, hidden: function(index_axis(fresh, 0, position) + op.nn.dense(hidden, recurrent))


def _gru_step(node: LayerNode, rows: Expr, width: int, units: int) -> Any:
    """z and r over data and state, the candidate over the data and the state times r."""
    p = node.p
    gates = ("updateGate", "resetGate", "outputGate")
    own = _matrices(node, [getattr(p, f"{gate}WeightMatrix") for gate in gates], width, units)
    fresh: Expr = matmul(rows, transpose(own, (1, 0)))
    if p.hasBiasVectors:
        biases = [node.weights(f"{gate}BiasVector", (units,)) for gate in gates]
        fresh = fresh + np.concatenate(biases)
    recurrent = [_matrices(node, [getattr(p, f"{gate}RecursionMatrix")], units, units) for gate in gates]
    if len(p.activations) != 2:
        node.bad(f"it names {len(p.activations)} activations; two are needed")
    inner, outer = (activation(node, one) for one in p.activations)

    def step(position: int, hidden: Expr) -> Expr:
        part = [slice_axis(index_axis(fresh, 0, position), 1, k * units, (k + 1) * units) for k in range(3)]
        z, r = (inner(part[k] + op.nn.dense(hidden, recurrent[k])) for k in range(2))
        candidate = outer(part[2] + op.nn.dense(r * hidden, recurrent[2]))
        return (1 - z) * candidate + z * hidden

    return step


_LSTM_GATES = ("inputGate", "forgetGate", "blockInput", "outputGate")


@layers("uniDirectionalLSTM", "biDirectionalLSTM")
def convert_lstm(node: LayerNode) -> list[Expr]:
    """Results of all steps or the last, the directions beside each other, and the last states of each direction."""
    p, both = node.p, node.operator == "biDirectionalLSTM"
    parts = list(p.weightParams) if both else [p.weightParams]
    named = [p.activationsForwardLSTM, p.activationsBackwardLSTM] if both else [p.activations]
    if len(parts) != len(named):
        node.bad(f"it has {len(parts)} sets of weights; two are needed")
    batch = node.shape()[1] if node.rank() == 5 else 1
    made = []
    for number, (one, functions) in enumerate(zip(parts, named)):
        states = [_state(node, 1 + 2 * number + index, batch, int(p.outputVectorSize)) for index in range(2)]
        made.append(_lstm(node, one, functions, states, bool(number) if both else bool(p.reverseInput)))
    if p.params.sequenceOutput:
        results = concatenate([every for every, *_ in made], 2)
    else:
        results = op.expand_dims(concatenate([hidden for _, hidden, _ in made], 1), axis=0)
    ends = [_shaped(op.expand_dims(state, axis=0)) for _, *states in made for state in states]
    return [_shaped(results), *ends]


def _lstm(node: LayerNode, w: Record, functions: Sequence[Record], states: list[Expr], backwards: bool) -> Any:
    """(results of all steps, the states behind the last)."""
    p, options = node.p, node.p.params
    width, units = int(p.inputVectorSize), int(p.outputVectorSize)
    if len(functions) != 3:
        node.bad(f"it names {len(functions)} activations; three are needed")
    inner, candidate, outer = (activation(node, one) for one in functions)
    rows = _rows(node, width)
    own = _matrices(node, [getattr(w, f"{gate}WeightMatrix") for gate in _LSTM_GATES], width, units)
    recurrent = _matrices(node, [getattr(w, f"{gate}RecursionMatrix") for gate in _LSTM_GATES], units, units)
    fresh: Expr = matmul(rows, transpose(own, (1, 0)))
    bias = np.zeros(4 * units, np.float32)
    if options.hasBiasVectors:
        bias = np.concatenate([weights(node, getattr(w, f"{g}BiasVector"), "bias", (units,)) for g in _LSTM_GATES])
    if options.forgetBias:
        bias[units : 2 * units] += 1
    fresh = fresh + bias
    peepholes: dict[str, Expr] = {}
    if options.hasPeepholeVectors:
        for name in ("inputGate", "forgetGate", "outputGate"):
            peepholes[name] = constant(weights(node, getattr(w, f"{name}PeepholeVector"), "peepholes", (units,)))

    def step(position: int, states: list[Expr]) -> list[Expr]:
        hidden, cell = states
        gates = index_axis(fresh, 0, position) + op.nn.dense(hidden, recurrent)
        part = {name: slice_axis(gates, 1, k * units, (k + 1) * units) for k, name in enumerate(_LSTM_GATES)}

        def gate(name: str, seen: Expr) -> Expr:
            value = part[name]
            return inner(value + peepholes[name] * seen if name in peepholes else value)

        forget = gate("forgetGate", cell)
        let_in = 1 - forget if options.coupledInputAndForgetGate else gate("inputGate", cell)
        cell = forget * cell + let_in * candidate(part["blockInput"])
        if options.cellClipThreshold > 0:
            cell = op.clip(cell, -options.cellClipThreshold, options.cellClipThreshold)
        return [gate("outputGate", cell) * outer(cell), cell]

    every, (hidden, cell) = unrolled(node.shape(rows)[0], step, states, backwards)
    return every, hidden, cell
