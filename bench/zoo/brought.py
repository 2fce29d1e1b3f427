"""Models in the forms in which exporters, quantizers and converters leave them, with inputs: what users bring.

Symbolic dimensions, caches as inputs, integer weights, weights of 16 bits, loops. A function returns the model and the
arrays that it is measured on; `bench/networks.py --set brought` compiles them with their sizes left open."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from zoo.blocks import basic_block, classifier
from zoo.graph import Graph, Value

Arrays = dict[str, np.ndarray[Any, Any]]
Brought = tuple[onnx.ModelProto, Arrays]

_VOCABULARY = 2048


def decoder_with_past() -> Brought:
    """GPT-2's shape, 4 layers 256 wide, as torch exports it: one token behind a cache of 64, every size open."""
    return _decoder("decoder_with_past", width=256, heads=8, past=64)


def decoder_with_past_768() -> Brought:
    """The same 768 wide, with 12 heads, behind a cache of 255: most of the time is reading weights."""
    return _decoder("decoder_with_past_768", width=768, heads=12, past=255)


def _decoder(name: str, width: int, heads: int, past: int, layers: int = 4) -> Brought:
    g = Graph(name)
    depth = width // heads
    tokens = g.input(1, 1, integers=True, open_axes={0: "batch", 1: "tokens"})
    mask = g.input(1, past + 1, integers=True, open_axes={0: "batch", 1: "past_and_tokens"})
    position = g.input(1, 1, integers=True, open_axes={0: "batch", 1: "tokens"})
    cache = [g.input(1, heads, past, depth, open_axes={0: "batch", 2: "past"}) for _ in range(2 * layers)]
    x = g.add(g.embed(tokens, _VOCABULARY, width), g.embed(position, 1024, width))
    hidden = _hidden_keys(g, mask)
    state: list[Value] = []
    for layer in range(layers):
        parts = g.split(_gemm(g, g.layer_norm(x), 3 * width), 3, axis=-1)
        split = g.constant(np.array([0, 0, heads, depth], np.int64))
        shape = (1, 1, heads, depth)
        query, key, value = (g.transpose(g.node("Reshape", [part, split], shape), 0, 2, 1, 3) for part in parts)
        key = g.concat([cache[2 * layer], key], 2)
        value = g.concat([cache[2 * layer + 1], value], 2)
        state += [key, value]
        scores = g.node("Div", [g.matmul(query, g.transpose(key, 0, 1, 3, 2)), g.number(math.sqrt(depth))],
                        (1, heads, 1, past + 1))  # fmt: skip
        scores = g.node("Where", [_causal(g, query, key), scores, g.number(-3.4e38)], scores.shape)
        y = g.transpose(g.matmul(g.softmax(g.add(scores, hidden)), value), 0, 2, 1, 3)
        y = g.node("Reshape", [y, g.integers(0, 0, width)], (1, 1, width))
        x = g.add(x, _gemm(g, y, width))
        x = g.add(x, _gemm(g, _gelu(g, _gemm(g, g.layer_norm(x), 4 * width)), width))
    model = g.model(g.linear(g.layer_norm(x), _VOCABULARY, bias=False), *state)
    rng = np.random.default_rng(0)
    inputs: Arrays = {
        tokens.name: np.array([[7]]),
        mask.name: np.ones((1, past + 1), np.int64),
        position.name: np.array([[past]]),
    }
    return model, inputs | {c.name: rng.standard_normal(c.shape, dtype=np.float32) for c in cache}


def _gemm(g: Graph, x: Value, units: int) -> Value:
    """GPT-2's Conv1D as torch exports it: rows folded by a shape read off the input, Gemm, and back."""
    batch, tokens = (_extent(g, x, axis) for axis in (0, 1))
    flat = g.node("Reshape", [x, g.integers(-1, x.shape[-1])], (1, x.shape[-1]))
    weights = g.weight(x.shape[-1], units, fan_in=x.shape[-1])
    y = g.node("Gemm", [flat, weights, g.bias(units)], (1, units))
    return g.node("Reshape", [y, g.concat([batch, tokens, g.integers(units)], 0)], (1, 1, units))


def _extent(g: Graph, x: Value, axis: int) -> Value:
    """The extent of one axis, as a vector of one number."""
    return g.node("Unsqueeze", [_extent_number(g, x, axis), g.integers(0)], (1,))


def _extent_number(g: Graph, x: Value, axis: int) -> Value:
    shape = g.node("Shape", [x], (len(x.shape),))
    return g.node("Gather", [shape, g.constant(np.array(axis, np.int64))], (), axis=0)


def _gelu(g: Graph, x: Value) -> Value:
    """The approximation by tanh, in the operators that torch writes."""
    cube = g.mul(g.node("Pow", [x, g.number(3.0)], x.shape), g.number(0.044715))
    inner = g.mul(g.add(x, cube), g.number(math.sqrt(2 / math.pi)))
    return g.mul(g.mul(x, g.number(0.5)), g.add(g.act(inner, "tanh"), g.number(1.0)))


def _hidden_keys(g: Graph, mask: Value) -> Value:
    """0 for tokens that count and a large negative number for padding, [batch, 1, 1, past and tokens]."""
    wide = g.node("Unsqueeze", [mask, g.integers(1, 2)], (1, 1, 1, mask.shape[1]))
    numbers = g.node("Cast", [wide], wide.shape, to=TensorProto.FLOAT)
    return g.mul(g.node("Sub", [g.number(1.0), numbers], wide.shape), g.number(-3.4e38))


def _causal(g: Graph, query: Value, key: Value) -> Value:
    """Mask of the keys that each query may see: part of a triangular table, cut at sizes read off queries and keys."""
    table = g.constant(np.tril(np.ones((1, 1, 1024, 1024), bool)))
    end = _extent(g, key, 2)
    start = g.node("Sub", [end, _extent(g, query, 2)], (1,))
    rows = g.node("Slice", [table, start, end, g.integers(2)], (1, 1, query.shape[2], 1024))
    return g.node("Slice", [rows, g.integers(0), end, g.integers(3)], (1, 1, query.shape[2], key.shape[2]))


def lstm_dynamic_int8() -> Brought:
    """Two LSTM layers of 256 units over 50 steps as dynamic quantization leaves them: weights of int8."""
    return _quantized_lstm("lstm_dynamic_int8", units=256, steps=50, both=False, dtype=np.int8)


def lstm_dynamic_uint8() -> Brought:
    """Two bidirectional LSTM layers of 512 units over 20 steps, weights of uint8."""
    return _quantized_lstm("lstm_dynamic_uint8", units=512, steps=20, both=True, dtype=np.uint8)


def _quantized_lstm(name: str, units: int, steps: int, both: bool, dtype: Any) -> Brought:
    g = Graph(name)
    x = series = g.input(steps, 1, 128, open_axes={0: "steps"})
    for _ in range(2):
        features, directions = x.shape[-1], 1 + both
        w, w_scale, w_zero = _quantized(g, (directions, features, 4 * units), dtype)
        r, r_scale, r_zero = _quantized(g, (directions, units, 4 * units), dtype)
        bias = g.constant(np.zeros((directions, 8 * units), np.float32))
        operands = [x, w, r, bias, None, None, None, None, w_scale, w_zero, r_scale, r_zero]
        direction = "bidirectional" if both else "forward"
        shape = (steps, directions, 1, units)
        y = g.node(
            "DynamicQuantizeLSTM", operands, shape, domain="com.microsoft", hidden_size=units, direction=direction
        )
        whole = g.integers(0, 0, directions * units)
        x = g.node("Reshape", [g.transpose(y, 0, 2, 1, 3), whole], (steps, 1, directions * units))
    w, scale, zero = _quantized(g, (x.shape[-1], 64), dtype, directions=False)
    codes, x_scale, x_zero = g.nodes("DynamicQuantizeLinear", [x], [x.shape, (), ()])
    product = g.node("MatMulInteger", [codes, w, x_zero, zero], (steps, 1, 64))
    real = g.node("Cast", [product], product.shape, to=TensorProto.FLOAT)
    model = g.model(g.mul(real, g.mul(x_scale, scale)))
    return model, {series.name: np.random.default_rng(0).standard_normal(series.shape, dtype=np.float32)}


def _quantized(g: Graph, shape: tuple[int, ...], dtype: Any, directions: bool = True) -> tuple[Value, Value, Value]:
    """Normal weights as codes with a scale and a zero point (for each direction)."""
    real = g.random(*shape) / math.sqrt(shape[-2])
    low, high = (-127, 127) if dtype is np.int8 else (0, 255)
    span = np.abs(real).max() if dtype is np.int8 else real.max() - real.min()
    scale = span / (127 if dtype is np.int8 else 255)
    zero = 0 if dtype is np.int8 else int(np.rint(-real.min() / scale))
    codes = np.clip(np.rint(real / scale) + zero, low, high).astype(dtype)
    around = (shape[0],) if directions else ()
    return (
        g.constant(codes),
        g.constant(np.full(around, scale, np.float32)),
        g.constant(np.full(around, zero, dtype)),
    )


def convolutions_qdq() -> Brought:
    """Separable convolutions of a 32x32 image as static quantization leaves them (QDQ), int8 weights by channel."""
    g = Graph("convolutions_qdq")
    image = g.input(1, 3, 32, 32)
    x = _through_codes(g, image, 128)
    for filters, size, stride, groups in ((16, 3, 2, 1), (16, 3, 1, 16), (32, 1, 1, 1), (32, 3, 2, 32), (64, 1, 1, 1)):
        shape = (1, filters, x.shape[2] // stride, x.shape[3] // stride)
        weights, bias = _coded_weights(g, filters, x.channels // groups, size, size)
        pads = [(size - 1) // 2] * 4
        x = g.node("Conv", [x, weights, bias], shape, strides=[stride] * 2, pads=pads, group=groups)
        x = _through_codes(g, g.act(x, "relu"), 0)
    x = _through_codes(g, g.global_pool(x), 0)
    weights, bias = _coded_weights(g, 10, 64)
    y = g.node("Gemm", [g.node("Flatten", [x], (1, 64)), weights, bias], (1, 10), transB=1)
    return g.model(_through_codes(g, y, 128)), {
        image.name: np.random.default_rng(0).standard_normal(image.shape, dtype=np.float32)
    }


#: What a step of the activations' codes is worth.
_STEP = 1 / 32


def _through_codes(g: Graph, x: Value, zero: int) -> Value:
    """Values that are quantized to uint8 and back."""
    parameters = [g.number(_STEP), g.constant(np.array(zero, np.uint8))]
    codes = g.node("QuantizeLinear", [x, *parameters], x.shape)
    return g.node("DequantizeLinear", [codes, *parameters], x.shape)


def _coded_weights(g: Graph, filters: int, *taps: int) -> tuple[Value, Value]:
    """Weights of int8 with a scale for each filter, and the bias in the products' int32, both dequantized."""
    real = (g.random(filters, *taps) * math.sqrt(2 / math.prod(taps))).astype(np.float32)
    scales = (np.abs(real).reshape(filters, -1).max(axis=1) / 127).astype(np.float32)
    codes = np.rint(real / scales.reshape(-1, *[1] * len(taps))).astype(np.int8)
    bias = np.rint(g.random(filters) * 0.1 / (scales * _STEP)).astype(np.int32)
    made = []
    for array, scale in ((codes, scales), (bias, (scales * _STEP).astype(np.float32))):
        operands = [g.constant(array), g.constant(scale), g.constant(np.zeros(filters, array.dtype))]
        made.append(g.node("DequantizeLinear", operands, array.shape, axis=0))
    return made[0], made[1]


def resnet18_fp16() -> Brought:
    """ResNet-18 in half precision as a converter leaves it: weights, inputs and results of 16 bits."""
    g = Graph("resnet18_fp16")
    image = g.input(1, 3, 224, 224)
    x = g.max_pool(g.conv(image, 64, 7, 2, act="relu"), 3, 2, 1)
    for filters, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        x = basic_block(g, basic_block(g, x, filters, stride), filters)
    return _halved(g.model(classifier(g, x)), image)


def mobile_fp16() -> Brought:
    """Inverted residual blocks in half precision, at 112x112."""
    g = Graph("mobile_fp16")
    image = g.input(1, 3, 112, 112)
    x = g.conv(image, 32, 3, 2, act="relu6")
    for filters, stride in ((32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
        y = g.conv(g.depthwise(g.conv(x, 4 * x.channels, act="relu6"), 3, stride, act="relu6"), filters)
        x = g.add(x, y) if x.shape == y.shape else y
    return _halved(g.model(classifier(g, x)), image)


def _halved(model: onnx.ModelProto, image: Value) -> Brought:
    """The model with every float of 16 bits."""
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            half = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return model, {image.name: np.random.default_rng(0).standard_normal(image.shape).astype(np.float16)}


def loop_recurrent() -> Brought:
    """A recurrent cell of 64 units in a Loop of 100 turns, as torch.jit.script exports loops: its count is an input."""
    g = Graph("loop_recurrent")
    steps, units = 100, 64
    series = g.input(steps, 1, 32, open_axes={0: "steps"})
    state = g.constant(np.zeros((1, units), np.float32))
    weights = {"w": g.random(32, units) / 8, "u": g.random(units, units) / 8, "b": g.random(units) / 8}
    nodes = [
        helper.make_node("Gather", [series.name, "i"], ["x"], axis=0),
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("MatMul", ["state", "u"], ["hu"]),
        helper.make_node("Add", ["xw", "hu"], ["sum"]),
        helper.make_node("Add", ["sum", "b"], ["biased"]),
        helper.make_node("Tanh", ["biased"], ["next"]),
        helper.make_node("Identity", ["next"], ["each"]),
        helper.make_node("Identity", ["goes"], ["goes_on"]),
    ]
    last, every = _loop(g, _extent_number(g, series, 0), state, nodes, weights, (TensorProto.FLOAT, [1, units]))
    model = g.model(g.linear(last, 16), every)
    return model, {series.name: np.random.default_rng(0).standard_normal(series.shape, dtype=np.float32)}


def loop_decode() -> Brought:
    """A generating loop: each turn takes the likeliest token, looks it up and steps a cell, 60 turns at most."""
    g = Graph("loop_decode")
    units, words = 64, 100
    state = g.input(1, units)
    weights = {
        "table": g.random(words, units),
        "u": g.random(units, units) / 5,
        "out": g.random(units, words),
        "end": np.array([words], np.int64),
        "first": np.array(0, np.int64),
    }
    nodes = [
        helper.make_node("MatMul", ["state", "out"], ["logits"]),
        helper.make_node("ArgMax", ["logits"], ["each"], axis=-1, keepdims=0),
        helper.make_node("Gather", ["table", "each"], ["x"], axis=0),
        helper.make_node("MatMul", ["state", "u"], ["hu"]),
        helper.make_node("Add", ["x", "hu"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["next"]),
        helper.make_node("Equal", ["each", "end"], ["ended"]),
        helper.make_node("Not", ["ended"], ["not_ended"]),
        helper.make_node("Gather", ["not_ended", "first"], ["goes_on"], axis=0),
    ]
    most = g.constant(np.array(60, np.int64))
    last, _ = _loop(g, most, state, nodes, weights, (TensorProto.INT64, [1]))
    return g.model(g.linear(last, 16)), {
        state.name: np.random.default_rng(0).standard_normal(state.shape, dtype=np.float32)
    }


def loop_branches() -> Brought:
    """A loop of 500 turns that chooses by its data: halves a state whose sum is large, else steps it by a product."""
    g = Graph("loop_branches")
    units = 32
    state = g.input(1, units)
    scalars = {"most": np.array(4.0, np.float32), "half": np.array(0.5, np.float32)}
    weights: Arrays = {"u": g.random(units, units) / 8, **scalars}
    info = helper.make_tensor_value_info
    halved = helper.make_graph(
        [helper.make_node("Mul", ["state", "half"], ["smaller"])],
        "halved",
        [],
        [info("smaller", TensorProto.FLOAT, state.shape)],
    )
    stepped = helper.make_graph(
        [helper.make_node("MatMul", ["state", "u"], ["turned"]), helper.make_node("Add", ["turned", "half"], ["more"])],
        "stepped",
        [],
        [info("more", TensorProto.FLOAT, state.shape)],
    )
    nodes = [
        helper.make_node("ReduceSum", ["state"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "most"], ["large"]),
        helper.make_node("If", ["large"], ["next"], then_branch=halved, else_branch=stepped),
        helper.make_node("Identity", ["sum"], ["each"]),
        helper.make_node("Identity", ["goes"], ["goes_on"]),
    ]
    turns = g.constant(np.array(500, np.int64))
    last, every = _loop(g, turns, state, nodes, weights, (TensorProto.FLOAT, []), 500)
    return g.model(g.linear(last, 16), every), {
        state.name: np.random.default_rng(0).standard_normal(state.shape, dtype=np.float32)
    }


def _loop(
    g: Graph,
    turns: Value,
    state: Value,
    nodes: list[onnx.NodeProto],
    weights: Arrays,
    each: tuple[int, list[int]],
    most: int = 0,
) -> list[Value]:
    """A Loop whose body makes "next" of "state", "goes_on" and its result of "each" turn, of a type and a shape."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        nodes,
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("goes", TensorProto.BOOL, []),
            info("state", TensorProto.FLOAT, state.shape),
        ],
        [info("goes_on", TensorProto.BOOL, []), info("next", TensorProto.FLOAT, state.shape), info("each", *each)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    go = g.constant(np.array(True))
    return g.nodes("Loop", [turns, go, state], [state.shape, (most, *each[1])], body=body)


def text_recognizer_open() -> Brought:
    """A recognizer of lines of text 32 high and of any width: convolutions, two bidirectional LSTM layers (CRNN)."""
    g = Graph("text_recognizer_open")
    image = g.input(1, 1, 32, 160, open_axes={3: "width"})
    x = g.max_pool(g.conv(image, 32, 3, act="relu"))
    x = g.max_pool(g.conv(x, 64, 3, act="relu"))
    for filters in (128, 256):
        x = g.conv(g.conv(x, filters, 3, act="relu"), filters, 3, act="relu")
        shape = (*x.shape[:2], x.shape[2] // 2, x.shape[3])
        x = g.node("MaxPool", [x], shape, kernel_shape=[2, 1], strides=[2, 1])
    x = g.conv(x, 256, (2, 1), (2, 1), act="relu")
    x = g.transpose(g.node("Squeeze", [x, g.integers(2)], (1, 256, x.shape[3])), 2, 0, 1)
    for _ in range(2):
        y = _both_ways(g, x, 128)
        x = g.node("Reshape", [g.transpose(y, 0, 2, 1, 3), g.integers(0, 0, -1)], (x.shape[0], 1, 256))
    model = g.model(g.softmax(g.linear(x, 97)))
    return model, {image.name: np.random.default_rng(0).standard_normal(image.shape, dtype=np.float32)}


def _both_ways(g: Graph, x: Value, units: int) -> Value:
    weights = [g.weight(2, 4 * units, n, fan_in=n) for n in (x.shape[-1], units)]
    bias = g.reshape(g.bias(16 * units), 2, -1)
    shape = (x.shape[0], 2, 1, units)
    return g.node("LSTM", [x, *weights, bias], shape, hidden_size=units, direction="bidirectional")


#: Name -> the function of the model and its inputs.
BROUGHT: dict[str, Callable[[], Brought]] = {
    build.__name__: build
    for build in (
        decoder_with_past, decoder_with_past_768, lstm_dynamic_int8, lstm_dynamic_uint8, convolutions_qdq,
        resnet18_fp16, mobile_fp16, loop_recurrent, loop_decode, loop_branches, text_recognizer_open,
    )
}  # fmt: skip
