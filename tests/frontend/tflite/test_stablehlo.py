"""Operators of StableHLO against NumPy: the interpreter has kernels for few of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.tflite.builder import T, single
from tilewright.frontend.tflite import from_tflite

X = np.linspace(0.3, 2.5, 12, dtype=np.float32).reshape(3, 4)
Y = np.linspace(2.0, -1.0, 12, dtype=np.float32).reshape(3, 4)
I, J = np.arange(12, dtype=np.int32).reshape(3, 4), np.full((3, 4), 3, np.int32)

DIRECTIONS = (np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less)

CASES: list[tuple[str, list[np.ndarray], np.ndarray, Any]] = [
    ("ABS", [Y], np.abs(Y), None),
    ("NEGATE", [Y], -Y, None),
    ("LOGISTIC", [Y], 1 / (1 + np.exp(-Y)), None),
    ("COSINE", [Y], np.cos(Y), None),
    ("EXPONENTIAL", [Y], np.exp(Y), None),
    ("FLOOR", [Y], np.floor(Y), None),
    ("LOG", [X], np.log(X), None),
    ("RSQRT", [X], 1 / np.sqrt(X), None),
    ("TANH", [Y], np.tanh(Y), None),
    ("CBRT", [Y], np.cbrt(Y), None),
    ("ADD", [X, Y], X + Y, None),
    ("SUBTRACT", [X, Y], X - Y, None),
    ("MULTIPLY", [X, Y], X * Y, None),
    ("DIVIDE", [Y, X], Y / X, None),
    ("MAXIMUM", [X, Y], np.maximum(X, Y), None),
    ("MINIMUM", [X, Y], np.minimum(X, Y), None),
    ("POWER", [X, Y], X**Y, None),
    ("REMAINDER", [Y, X], np.fmod(Y, X), None),
    ("SHIFT_LEFT", [I, J], I << J, None),
    ("AND", [I, J], I & J, None),
    ("OR", [I > 5, J > I], (I > 5) | (J > I), None),
    ("SELECT", [I > 5, X, Y], np.where(I > 5, X, Y), None),
    ("CLAMP", [np.full_like(X, 0.5), X, np.full_like(X, 2)], np.clip(X, 0.5, 2), None),
    ("CONVERT", [X], X.astype(np.int32), None),
    ("RESHAPE", [X], X.reshape(2, 6), None),
    ("CONCATENATE", [X, Y], np.concatenate([X, Y], 1), ("StablehloConcatenateOptions", {"dimension": 1})),
    ("TRANSPOSE", [X], X.T, ("StablehloTransposeOptions", {"permutation": [1, 0]})),
    ("IOTA", [], np.broadcast_to(np.arange(3, dtype=np.int32)[:, None], (3, 4)), ("StablehloIotaOptions", {})),
    ("BROADCAST_IN_DIM", [X[:, 0].copy()], np.broadcast_to(X[:, :1], (3, 4)),
     ("StablehloBroadcastInDimOptions", {"broadcastDimensions": [0]})),
    ("SLICE", [X], X[1:3, 0:4:2],
     ("StablehloSliceOptions", {"startIndices": [1, 0], "limitIndices": [3, 4], "strides": [1, 2]})),
    *[("COMPARE", [X, Y], function(X, Y), ("StablehloCompareOptions", {"comparisonDirection": number}))
      for number, function in enumerate(DIRECTIONS)],
]  # fmt: skip


@pytest.mark.parametrize(("name", "inputs", "wanted", "options"), CASES)
def test_each_operator_agrees_with_numpy(name: str, inputs: list[np.ndarray], wanted: np.ndarray, options: Any) -> None:
    tensors = [T(value.shape, str(value.dtype)) for value in inputs]
    model = single(f"STABLEHLO_{name}", tensors, [T(wanted.shape, str(wanted.dtype))], options)
    module, specs = from_tflite(model)
    found = tw.compile(module, cache=False).run({spec.name: value for spec, value in zip(specs, inputs)})
    result = np.asarray(found[0])
    assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(result, wanted, rtol=2e-6, atol=2e-6)
