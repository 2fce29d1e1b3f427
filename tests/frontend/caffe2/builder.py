"""Caffe2 nets as bytes: the one that runs and the one that fills its weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontend.protobuf import encode
from tilewright.frontend.caffe2.load import SCHEMA


def argument(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"name": name, "s": value.encode()}
    if isinstance(value, list | tuple):
        return {"name": name, "floats" if any(isinstance(one, float) for one in value) else "ints": list(value)}
    return {"name": name, "f" if isinstance(value, float) else "i": value}


def op(kind: str, inputs: str, outputs: str, **args: Any) -> dict[str, Any]:
    listed = [argument(name, value) for name, value in args.items()]
    return {"input": inputs.split(), "output": outputs.split(), "type": kind, "arg": listed}


def nets(
    weights: dict[str, np.ndarray], *operators: dict[str, Any], inputs: str = "x", outputs: str = "y"
) -> tuple[bytes, bytes]:
    fills = [
        op("GivenTensorFill", "", name, shape=list(data.shape), values=[float(one) for one in data.ravel()])
        for name, data in weights.items()
    ]
    init = {"name": "init", "op": fills}
    external = [*inputs.split(), *weights]
    predict = {"name": "net", "op": list(operators), "external_input": external, "external_output": outputs.split()}
    return encode(SCHEMA, "NetDef", predict), encode(SCHEMA, "NetDef", init)


rng = np.random.default_rng(6)
W, B = rng.standard_normal((4, 3, 3, 3)).astype("f"), rng.standard_normal(4).astype("f")
STATS = {name: rng.uniform(0.5, 1.5, 4).astype("f") for name in ("gamma", "beta", "mean", "var")}
F_W, F_B = rng.standard_normal((5, 16)).astype("f"), rng.standard_normal(5).astype("f")
NETWORK = (
    op("Conv", "x w b", "c", kernel=3, stride=2, order="NCHW"),
    op("SpatialBN", "c gamma beta mean var", "n", epsilon=1e-3, is_test=1),
    op("Relu", "n", "n"),
    op("FC", "n fw fb", "f"),
    op("Softmax", "f", "y"),
)
WEIGHTS = {"w": W, "b": B, **STATS, "fw": F_W, "fb": F_B}
#: Both kinds of pooling, branches, and operators that change shapes.
BRANCHES = (
    op("PadImage", "x", "p", pad_t=1, pad_l=1, pad_b=1, pad_r=1, mode="reflect"),
    op("Conv", "p w b", "c", kernels=(3, 3), pads=(0, 0, 0, 0), group=1),
    op("LRN", "c", "l", size=3, alpha=0.1, beta=0.75, bias=1.0),
    op("MaxPool", "l", "m", kernel=2, stride=2),
    op("AveragePool", "l", "a", kernel=3, stride=2, pad=1, legacy_pad=3),
    op("Concat", "m a", "j extents", axis=1),
    op("ChannelShuffle", "j", "s", group=2),
    op("Split", "s", "one two", axis=1, split=(4, 4)),
    op("Mul", "one two", "product"),
    op("PRelu", "product slope", "r"),
    op("ConvTranspose", "r turned tb", "t", kernel=2, stride=2),
    op("ResizeNearest", "t", "n", height_scale=2.0, width_scale=2.0),
    op("Transpose", "n", "last", axes=(0, 2, 3, 1)),
    op("Reshape", "last", "rows old", shape=(0, -1)),
    op("Clip", "rows", "clipped", min=-1.0, max=1.0),
    op("ReduceMean", "clipped", "y", axes=(1,), keepdims=1),
)
BRANCH_WEIGHTS = {
    "w": W, "b": B, "slope": STATS["mean"], "turned": rng.standard_normal((4, 3, 2, 2)).astype("f"),
    "tb": B[:3],
}  # fmt: skip
#: Weights and operators of each network.
NETWORKS = {"plain": (WEIGHTS, NETWORK), "branches": (BRANCH_WEIGHTS, BRANCHES)}
#: What both take.
SHAPE = (2, 3, 6, 6)
