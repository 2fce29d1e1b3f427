"""Small networks as ONNX, and inputs for them."""

import numpy as np
from onnx import TensorProto, helper

from tests.onnx_models import make_model
from tilewright.topi.reference import histogram as reference

SAMPLES = 12


def network(opset=17, batch=1):
    """Conv, BatchNormalization, Relu, depthwise Conv, pooling, Gemm, MatMul with bias: x [1, 3, 8, 8] to y [1, 5]."""
    rng = np.random.default_rng(0)

    def normal(*shape):
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    weights = {
        "w1": normal(8, 3, 3, 3), "b1": normal(8), "gain": normal(8) + 2, "shift": normal(8), "mean": normal(8),
        "variance": np.abs(normal(8)) + 0.5, "w2": normal(8, 1, 3, 3), "b2": normal(8), "w3": normal(16, 8),
        "b3": normal(16), "w4": normal(16, 5), "b4": normal(5),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c1", "gain", "shift", "mean", "variance"], ["n1"]),
        helper.make_node("Relu", ["n1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], name="depthwise", pads=[1, 1, 1, 1], group=8),
        helper.make_node("Add", ["c2", "r1"], ["s2"], name="residual"),
        helper.make_node("GlobalAveragePool", ["s2"], ["p2"], name="pool"),
        helper.make_node("Flatten", ["p2"], ["f2"], name="flat"),
        helper.make_node("Gemm", ["f2", "w3", "b3"], ["g3"], name="wide", transB=1),
        helper.make_node("Relu", ["g3"], ["r3"], name="relu3"),
        helper.make_node("MatMul", ["r3", "w4"], ["m4"], name="classes"),
        helper.make_node("Add", ["m4", "b4"], ["y"], name="bias4"),
    ]
    kind = TensorProto.FLOAT
    return make_model(nodes, {"x": (kind, (batch, 3, 8, 8))}, {"y": (kind, (batch, 5))}, weights, opset)


def perceptron(rows=1, wide=16):
    """Gemm, Relu, MatMul: x [rows, 8] to y [rows, 5]."""
    rng = np.random.default_rng(2)
    weights = {
        "w": rng.standard_normal((wide, 8)) / 3,
        "b": rng.standard_normal(wide),
        "v": rng.standard_normal((wide, 5)),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"], name="inner", transB=1),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "v"], ["y"], name="outer"),
    ]
    kind = TensorProto.FLOAT
    values = {name: value.astype(np.float32) for name, value in weights.items()}
    return make_model(nodes, {"x": (kind, (rows, 8))}, {"y": (kind, (rows, 5))}, values)


def rows(count=200):
    """Standard normal rows, by the name of the input."""
    return {"x": np.random.default_rng(3).standard_normal((count, 8)).astype(np.float32)}


def images(count=SAMPLES):
    """Standard normal images, by the name of the input."""
    return {"x": np.random.default_rng(1).standard_normal((count, 3, 8, 8)).astype(np.float32)}


def add(histogram, values):
    """Enter values into a histogram, by NumPy."""
    ends = reference.extremes(values)
    counts = reference.histogram(values, ends, np.float32(histogram.limit), len(histogram.counts))
    histogram.merge(float(ends[0]), float(ends[1]), counts)
