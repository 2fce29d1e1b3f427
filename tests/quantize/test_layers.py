"""Layers beyond convolutions and dense ones: products of two computed operands, other convolutions, joins."""

import functools

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import make_model
from tilewright.driver.optimize import optimize
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import calls
from tilewright.target import Target

NORMAL = np.random.default_rng(5).standard_normal


def made(nodes, shape, out, **weights):
    values = {
        name: (NORMAL(size) / np.sqrt(np.prod(size[1:]))).astype(np.float32) if isinstance(size, tuple) else size
        for name, size in weights.items()
    }
    kind = TensorProto.FLOAT
    return make_model([helper.make_node(*one[:3], name=one[2][0], **one[3]) for one in nodes],
                      {"x": (kind, shape)}, {"y": (kind, out)}, values)  # fmt: skip


def attention():
    """Queries, keys and values of 6 tokens, scores, softmax, sums, a last product."""
    nodes = [
        *[("MatMul", ["x", name], [name + "x"], {}) for name in "qkv"],
        ("Transpose", ["kx"], ["kt"], {"perm": [0, 2, 1]}),
        ("MatMul", ["qx", "kt"], ["scores"], {}),
        ("Softmax", ["scores"], ["p"], {"axis": -1}),
        ("MatMul", ["p", "vx"], ["mixed"], {}),
        ("MatMul", ["mixed", "o"], ["y"], {}),
    ]
    return made(nodes, (1, 6, 16), (1, 6, 8), q=(16, 16), k=(16, 16), v=(16, 16), o=(16, 8))


def upsampling():
    """A strided convolution, a transposed one back, a resized copy beside it, a last convolution."""
    nodes = [
        ("Conv", ["x", "w1"], ["c1"], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("Relu", ["c1"], ["r1"], {}),
        ("ConvTranspose", ["r1", "w2", "b2"], ["t2"], {"strides": [2, 2]}),
        ("Resize", ["r1", "", "factors"], ["z2"], {"mode": "nearest"}),
        ("Concat", ["t2", "z2"], ["j2"], {"axis": 1}),
        ("Conv", ["j2", "w3"], ["y"], {}),
    ]
    return made(nodes, (1, 4, 8, 8), (1, 4, 8, 8), w1=(8, 4, 3, 3), w2=(8, 8, 2, 2), b2=(8,), w3=(4, 16, 1, 1),
                factors=np.array([1, 1, 2, 2], np.float32))  # fmt: skip


def sequence():
    """Convolutions along one axis, with a residual sum and a mean of windows."""
    nodes = [
        ("Conv", ["x", "w1"], ["c1"], {"pads": [1, 1]}),
        ("Relu", ["c1"], ["r1"], {}),
        ("Conv", ["r1", "w2"], ["c2"], {"pads": [1, 1], "group": 8}),
        ("Add", ["c2", "r1"], ["s2"], {}),
        ("Conv", ["s2", "w3"], ["y"], {}),
    ]
    return made(nodes, (1, 4, 12), (1, 4, 12), w1=(8, 4, 3), w2=(8, 1, 3), w3=(4, 8, 1))


def volume():
    """A convolution along three axes."""
    return made([("Conv", ["x", "w"], ["y"], {"pads": [1] * 6})], (1, 4, 4, 5, 6), (1, 8, 4, 5, 6), w=(8, 4, 3, 3, 3))


def residual():
    """A block of a residual network behind a pooled stem."""
    pad = {"pads": [1, 1, 1, 1]}
    nodes = [
        ("Conv", ["x", "w0"], ["c0"], pad),
        ("Relu", ["c0"], ["r0"], {}),
        ("MaxPool", ["r0"], ["p0"], {"kernel_shape": [3, 3], "strides": [2, 2], **pad}),
        ("Conv", ["p0", "w1", "b1"], ["c1"], pad),
        ("Relu", ["c1"], ["r1"], {}),
        ("Conv", ["r1", "w2"], ["c2"], pad),
        ("Add", ["c2", "p0"], ["s2"], {}),
        ("Relu", ["s2"], ["r2"], {}),
        ("GlobalAveragePool", ["r2"], ["g2"], {}),
        ("Flatten", ["g2"], ["f2"], {}),
        ("Gemm", ["f2", "w3"], ["y"], {"transB": 1}),
    ]
    return made(nodes, (1, 4, 12, 12), (1, 10), w0=(16, 4, 3, 3), w1=(16, 16, 3, 3), b1=(16,), w2=(16, 16, 3, 3),
                w3=(10, 16))  # fmt: skip


MODELS = {
    attention: ["qx", "kx", "vx", "scores", "mixed", "y"],
    upsampling: ["c1", "t2", "z2", "j2", "y"],
    sequence: ["c1", "c2", "s2", "y"],
    volume: ["y"],
    residual: ["c0", "c1", "c2", "s2", "g2", "y"],
}


def inputs(model, count=8):
    shape = [dim.dim_value for dim in model().graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(6).standard_normal((count, *shape)).astype(np.float32)


@functools.cache
def quantized(model):
    return tw.quantize(model(), {"x": inputs(model)}, threads=1, for_onnx=True, objective=None)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.sample(2)
def test_layers_agree_with_exact_arithmetic_and_onnxruntime(model):
    found = quantized(model)
    assert sorted(found.recipe.quantized) == sorted(MODELS[model])
    assert 1e-3 < found.recipe.losses["relative"] < 0.1
    exe = found.compile(threads=1)
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    file = found.to_onnx().SerializeToString()
    session = onnxruntime.InferenceSession(file, settings, providers=["CPUExecutionProvider"])
    for x in inputs(model, 3):
        y, exact = exe(x), interpret(found.module, {"x": x})[0]
        # where a rounding decides otherwise, a tensor is one of 255 steps off
        bound = np.abs(exact).max() / 255
        assert np.abs(y - exact).max() <= bound
        assert np.abs(y - session.run(None, {"x": x})[0]).max() <= bound


@pytest.mark.sample(2)
@pytest.mark.parametrize("model", MODELS)
def test_the_onnx_file_compiled_is_the_artifact(model):
    found = quantized(model)
    ours, again = found.compile(threads=1), tw.compile(found.to_onnx(), threads=1)
    assert all(np.array_equal(ours(x), again(x)) for x in inputs(model, 3))


@pytest.mark.parametrize("model", [residual, upsampling, sequence])
def test_what_is_stored_between_layers_is_bytes(model):
    optimized = optimize(quantized(model).module, Target("llvm -mcpu=cascadelake"))["main"]
    types = [tensor_type_of(call) for call in calls(optimized.body)]
    floats = [type_.size for type_ in types if type_.dtype == "float32"]
    # beside the result the means of whole images alone, which a division makes
    assert len(floats) <= 3
    assert max(floats) <= max(16, tensor_type_of(optimized.body).size)
