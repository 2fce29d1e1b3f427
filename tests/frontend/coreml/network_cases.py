"""Layers of Core ML networks with their parameters and inputs, and what they give by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

rng = np.random.default_rng(9)


def numbers(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def w(data: Any) -> dict[str, Any]:
    return {"floatValue": np.asarray(data, np.float32).ravel().tolist()}


X, Y = numbers(2, 3, 4), numbers(2, 1, 4)
POSITIVE = np.abs(X) + np.float32(0.5)


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


SIMPLE: list[tuple[str, Any, list[np.ndarray], Any]] = [
    ("ceil", None, [X], np.ceil(X)),
    ("floor", None, [X], np.floor(X)),
    ("sin", None, [X], np.sin(X)),
    ("exp2", None, [X], 2**X),
    ("erf", None, [np.zeros((2, 2), np.float32)], np.zeros((2, 2))),
    ("atan", None, [X], np.arctan(X)),
    ("asinh", None, [X], np.arcsinh(X)),
    ("sign", None, [X], np.sign(X)),
    ("addBroadcastable", None, [X, Y], X + Y),
    ("subtractBroadcastable", None, [X, Y], X - Y),
    ("divideBroadcastable", None, [X, POSITIVE], X / POSITIVE),
    ("powBroadcastable", None, [POSITIVE, Y], POSITIVE**Y),
    ("modBroadcastable", None, [X, POSITIVE], np.mod(X, POSITIVE)),
    ("floorDivBroadcastable", None, [X, POSITIVE], np.floor_divide(X, POSITIVE)),
    ("maxBroadcastable", None, [X, Y], np.maximum(X, Y)),
    ("lessThan", {"alpha": 0.25}, [X], X < 0.25),
    ("greaterEqual", None, [X, Y], X >= Y),
    ("logicalXor", None, [X > 0, Y > 0], (X > 0) ^ (Y > 0)),
    ("logicalNot", None, [X > 0], X <= 0),
    ("add", {"alpha": 1.5}, [X], X + 1.5),
    ("average", None, [X, X * 3], X * 2),
    ("multiply", None, [X, X, X], X**3),
    ("unary", {"type": "RSQRT", "epsilon": 0.1}, [POSITIVE], 1 / np.sqrt(POSITIVE + 0.1)),
    ("unary", {"type": "POWER", "alpha": 2.0, "shift": 1.0, "scale": 2.0}, [X], (2 * X + 1) ** 2),
    ("unary", {"type": "THRESHOLD", "alpha": 0.2}, [X], np.maximum(X, 0.2)),
    ("unary", {"type": "INVERSE", "epsilon": 0.5}, [POSITIVE], 1 / (POSITIVE + 0.5)),
    ("activation", {"leakyReLU": {"alpha": 0.1}}, [X], np.where(X > 0, X, 0.1 * X)),
    ("activation", {"scaledTanh": {"alpha": 2.0, "beta": 0.5}}, [X], 2 * np.tanh(0.5 * X)),
    ("activation", {"sigmoidHard": {"alpha": 0.3, "beta": 0.4}}, [X], np.clip(0.3 * X + 0.4, 0, 1)),
    ("activation", {"ELU": {"alpha": 0.7}}, [X], np.where(X > 0, X, 0.7 * np.expm1(X))),
    ("activation", {"softplus": {}}, [X], softplus(X)),
    ("activation", {"linear": {"alpha": 2.0, "beta": 1.0}}, [X], 2 * X + 1),
    ("activation", {"PReLU": {"alpha": w([0.1, 0.2])}}, [X], np.where(X > 0, X, np.float32([[[0.1]], [[0.2]]]) * X)),
    ("activation", {"parametricSoftplus": {"alpha": w([2.0]), "beta": w([0.5])}}, [X], 2 * softplus(0.5 * X)),
    ("clip", {"minVal": -0.5, "maxVal": 0.7}, [X], np.clip(X, -0.5, 0.7)),
    ("clampedReLU", {"alpha": 0.2, "beta": 0.6}, [X], np.minimum(np.where(X > 0, X, 0.2 * X), 0.6)),
    ("whereBroadcastable", None, [X > 0, X, Y], np.where(X > 0, X, Y)),
    ("reduceSum", {"axes": [1], "keepDims": True}, [X], X.sum(1, keepdims=True)),
    ("reduceL2", {"axes": [-1]}, [X], np.sqrt((X * X).sum(-1))),
    ("reduceMax", {"reduceAll": True}, [X], X.max()),
    ("reduceLogSumExp", {"axes": [0, 2]}, [X], np.log(np.exp(X).sum((0, 2)))),
    ("reduce", {"mode": "AVG", "axis": "HW"}, [X], X.mean((1, 2), keepdims=True)),
    ("reduce", {"mode": "ARGMAX", "axis": "W"}, [X], X.argmax(2, keepdims=True)),
    ("argMin", {"axis": 1, "removeDim": True}, [X], X.argmin(1)),
    ("cumSum", {"axis": 2, "reverse": True}, [X], X[..., ::-1].cumsum(2)[..., ::-1]),
    ("cumSum", {"axis": 1, "excludeFinalSum": True}, [X], np.concatenate([X[:, :1] * 0, X[:, :-1].cumsum(1)], 1)),
    ("lowerTriangular", {"k": 1}, [X], np.tril(X, 1)),
    ("upperTriangular", {"k": 0}, [X], np.triu(X)),
    ("matrixBandPart", {"numLower": 1, "numUpper": -1}, [X], np.triu(X, -1)),
    ("transpose", {"axes": [2, 0, 1]}, [X], X.transpose(2, 0, 1)),
    ("reshapeStatic", {"targetShape": [4, -1]}, [X], X.reshape(4, 6)),
    ("rankPreservingReshape", {"targetShape": [0, 6, 2]}, [X], X.reshape(2, 6, 2)),
    ("flattenTo2D", {"axis": 1}, [X], X.reshape(2, 12)),
    ("squeeze", {"axes": [1]}, [Y], Y[:, 0]),
    ("squeeze", {"squeezeAll": True}, [Y], Y[:, 0]),
    ("expandDims", {"axes": [0, -1]}, [X], X[None, ..., None]),
    ("getShape", None, [X], np.array([2, 3, 4])),
    ("concatND", {"axis": 1}, [X, Y], np.concatenate([X, Y], 1)),
    ("concatND", {"axis": 0, "interleave": True}, [X, -X], np.stack([X, -X], 1).reshape(4, 3, 4)),
    ("stack", {"axis": -1}, [X, X], np.stack([X, X], -1)),
    ("tile", {"reps": [1, 2, 1]}, [X], np.tile(X, (1, 2, 1))),
    ("slice", {"startIndex": 1, "endIndex": -1, "axis": "WIDTH_AXIS"}, [X], X[..., 1:]),
    (
        "sliceStatic",
        {"beginIds": [1, 2, 0], "endIds": [2, 0, 4], "strides": [1, -1, 2], "squeezeMasks": [True, False, False]},
        [X],
        X[1, 2:0:-1, ::2],
    ),
    ("sliceBySize", {"size": 2, "axis": 2}, [X, np.float32([1])], X[..., 1:3]),
    ("slidingWindows", {"axis": 2, "windowSize": 2, "step": 1}, [X], np.lib.stride_tricks.sliding_window_view(X, 2, 2)),
    ("reverse", {"reverseDim": [True, False, True]}, [X], X[::-1, :, ::-1]),
    (
        "padding",
        {
            "reflection": {},
            "paddingAmounts": {
                "borderAmounts": [{"startEdgeSize": 1, "endEdgeSize": 0}, {"startEdgeSize": 2, "endEdgeSize": 1}]
            },
        },
        [X],
        np.pad(X, [(0, 0), (1, 0), (2, 1)], "reflect"),
    ),
    (
        "constantPad",
        {"value": 0.5, "padAmounts": [1, 0, 0, 2]},
        [X],
        np.pad(X, [(0, 0), (1, 0), (0, 2)], constant_values=0.5),
    ),
    (
        "crop",
        {
            "cropAmounts": {
                "borderAmounts": [{"startEdgeSize": 1, "endEdgeSize": 0}, {"startEdgeSize": 0, "endEdgeSize": 2}]
            }
        },
        [X],
        X[:, 1:, :2],
    ),
    ("crop", {"offset": [1, 1]}, [X, numbers(1, 2, 2)], X[:, 1:3, 1:3]),
    ("upsample", {"scalingFactor": [2, 3]}, [X], X.repeat(2, 1).repeat(3, 2)),
    (
        "reorganizeData",
        {"mode": "PIXEL_SHUFFLE", "blockSize": 2},
        [numbers(8, 1, 1) * 0 + np.arange(8, dtype=np.float32)[:, None, None]],
        np.arange(8).reshape(2, 2, 2),
    ),
    ("fillLike", {"value": 2.5}, [X], np.full_like(X, 2.5)),
    ("broadcastToStatic", {"targetShape": [2, 3, 4]}, [Y], np.broadcast_to(Y, X.shape)),
    (
        "oneHot",
        {"oneHotVectorSize": 3, "axis": -1, "onValue": 2.0, "offValue": -1.0},
        [np.float32([0, 2])],
        np.float32([[2, -1, -1], [-1, -1, 2]]),
    ),
    ("gather", {"axis": 2}, [X, np.float32([3, -4])], X[..., [3, 0]]),
    ("gatherND", None, [X, np.float32([[1, 2], [0, 0]])], X[[1, 0], [2, 0]]),
    ("gatherAlongAxis", {"axis": 2}, [X, X.argsort(2).astype(np.float32)], np.sort(X, 2)),
    (
        "scatterND",
        {"mode": "SCATTER_ADD"},
        [X, np.float32([[1, 2]]), X[:1, 0]],
        X + np.pad(X[:1, :1], [(1, 0), (2, 0), (0, 0)]),
    ),
    ("scatterAlongAxis", {"axis": 2}, [X * 0, X.argsort(2).astype(np.float32), np.sort(X, 2)], X),
    ("argSort", {"axis": 2, "descending": True}, [X], (-X).argsort(2)),
    ("softmaxND", {"axis": 1}, [X], np.exp(X) / np.exp(X).sum(1, keepdims=True)),
    ("softmax", None, [X[None]], np.exp(X) / np.exp(X).sum(0)[None]),
    ("batchedMatmul", {"transposeB": True}, [X, X], X @ X.transpose(0, 2, 1)),
    (
        "batchedMatmul",
        {
            "weightMatrixFirstDimension": 4,
            "weightMatrixSecondDimension": 2,
            "hasBias": True,
            "weights": w([[1, 2, 3, 4], [5, 6, 7, 8]]),
            "bias": w([0.5, -0.5]),
        },
        [X],
        X @ np.float32([[1, 5], [2, 6], [3, 7], [4, 8]]) + np.float32([0.5, -0.5]),
    ),
    (
        "innerProduct",
        {"inputChannels": 4, "outputChannels": 2, "weights": w(np.arange(8)), "hasBias": True, "bias": w([1, 2])},
        [X],
        X @ np.arange(8, dtype=np.float32).reshape(2, 4).T + np.float32([1, 2]),
    ),
    (
        "embeddingND",
        {"vocabSize": 3, "embeddingSize": 2, "weights": w([[1, 2, 3], [4, 5, 6]])},
        [np.float32([[2], [0]])],
        np.float32([[3, 6], [1, 4]]),
    ),
    (
        "batchnorm",
        {
            "channels": 2,
            "epsilon": 0.01,
            "gamma": w([1, 2]),
            "beta": w([0.5, 0]),
            "mean": w([0.1, 0.2]),
            "variance": w([1, 4]),
        },
        [X],
        (X - np.float32([0.1, 0.2])[:, None, None])
        / np.sqrt(np.float32([1.01, 4.01]))[:, None, None]
        * np.float32([1, 2])[:, None, None]
        + np.float32([0.5, 0])[:, None, None],
    ),
    ("mvn", {"acrossChannels": False, "normalizeVariance": False}, [X], X - X.mean((1, 2), keepdims=True)),
    (
        "layerNormalization",
        {"normalizedShape": [4], "eps": 0.1, "gamma": w([1, 2, 3, 4]), "beta": w([0, 0, 1, 1])},
        [X],
        (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 0.1) * np.float32([1, 2, 3, 4])
        + np.float32([0, 0, 1, 1]),
    ),
    ("l2normalize", {"epsilon": 0.1}, [X], X / np.sqrt((X * X).sum() + 0.1)),
    (
        "scale",
        {"shapeScale": [2], "scale": w([2, 3]), "hasBias": True, "shapeBias": [1], "bias": w([1])},
        [X],
        X * np.float32([2, 3])[:, None, None] + 1,
    ),
    ("bias", {"shape": [1, 3, 4], "bias": w(np.arange(12))}, [X], X + np.arange(12).reshape(1, 3, 4)),
    ("dot", {"cosineSimilarity": True}, [X, X * 2], np.ones((1, 3, 4))),
]
