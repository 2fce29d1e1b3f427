"""ONNX's own node tests: what imports must give the expected values, and no fewer cases may pass than do now."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tilewright.errors import UnsupportedError
from tilewright.frontend.onnx import from_onnx
from tilewright.relay.interpreter import interpret

VERSION = tuple(int(part) for part in onnx.__version__.split(".")[:2])
#: Cases that pass with onnx 1.23; a newer package has more of them, an older one fewer.
PASSING = 1446
#: Cases whose expected value onnxruntime does not give either.
DISPUTED = {
    "test_resize_downsample_scales_linear_align_corners": "coordinates from the fractional, not the rounded size",
    "test_resize_downsample_scales_cubic_align_corners": "coordinates from the fractional, not the rounded size",
}
#: Half floats are compared to a few units in the last place: the order of rounding is not specified.
TOLERANCE = {"float16": 4e-3, "bfloat16": 2e-2}


@cache
def cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return [case for case in load_model_tests(kind="node") if not _has_sequences(case)]


def _has_sequences(case: Any) -> bool:
    inputs, outputs = case.data_sets[0]
    return any(isinstance(value, list) or value is None for value in [*inputs, *outputs])


def _array(value: Any) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def _outputs(case: Any, fed: int) -> list[np.ndarray]:
    """The outputs with the first `fed` inputs given at run time and the others as initializers."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    feeds = {entry.name: _array(value) for entry, value in zip(model.graph.input, case.data_sets[0][0])}
    for name in list(feeds)[fed:]:
        model.graph.initializer.append(numpy_helper.from_array(feeds.pop(name), name))
    module, specs = from_onnx(model, {name: value.shape for name, value in feeds.items() if 0 not in value.shape})
    return interpret(module, {spec.name: feeds[spec.name] for spec in specs})


def _agree(got: list[np.ndarray], expected: list[np.ndarray], case: Any) -> bool:
    for ours, theirs in zip(got, expected, strict=True):
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return False
        if theirs.dtype.kind in "biu":
            if not np.array_equal(ours, theirs):
                return False
            continue
        bound = TOLERANCE.get(theirs.dtype.name, 1e-3)
        pair = (ours.astype(np.float64), theirs.astype(np.float64))
        if not np.allclose(*pair, rtol=max(case.rtol, bound), atol=max(case.atol, bound / 100), equal_nan=True):
            return False
    return True


def _run(case: Any) -> str:
    """``"pass"``, ``"unsupported"`` or ``"wrong"``; inputs that must be static are made constant, last resort all."""
    empty = [index for index, value in enumerate(case.data_sets[0][0]) if 0 in _array(value).shape]
    attempts = [fed for fed in (99, 1, 0) if not empty or fed <= empty[0]]
    for fed in attempts:
        try:
            got = _outputs(case, fed)
        except UnsupportedError as error:
            if "compile time" in str(error):
                continue
            return "unsupported"
        return "pass" if _agree(got, [_array(value) for value in case.data_sets[0][1]], case) else "wrong"
    return "unsupported"


def test_node_cases() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = {case.name: _run(case) for case in cases()}
    wrong = [name for name, result in results.items() if result == "wrong" and name not in DISPUTED]
    assert wrong == []
    if VERSION < (1, 23):
        pytest.skip(f"the count of passing cases is that of onnx 1.23; this is {onnx.__version__}")
    assert Counter(results.values())["pass"] >= PASSING
