"""The onnx package's own backend tests on `TilewrightBackend`, unmodified: their names, functions, and our exclusions.

A case is excluded only by name and with a reason; docs/onnx.md shows the table, and a test keeps the two alike.
"""

from __future__ import annotations

import unittest
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

_RANDOM = "draws random numbers; ONNX leaves open which, and the expected ones come from another generator's state"
_ROUNDED = "expects coordinates from the fractional, not the rounded, output size; onnxruntime does not give it either"
_DOWNLOAD = "its model is downloaded from the network, and is no part of the onnx package"

#: Test name (without `_cpu`) -> why it is not run.
EXCLUSIONS: dict[str, str] = {
    **dict.fromkeys(
        (
            "test_bernoulli",
            "test_bernoulli_double",
            "test_bernoulli_double_expanded",
            "test_bernoulli_expanded",
            "test_bernoulli_seed",
            "test_bernoulli_seed_expanded",
        ),
        _RANDOM,
    ),
    **dict.fromkeys(
        (
            "test_resize_downsample_scales_cubic_align_corners",
            "test_resize_downsample_scales_linear_align_corners",
        ),
        _ROUNDED,
    ),
}

CATEGORIES = (
    "OnnxBackendNodeModelTest",
    "OnnxBackendSimpleModelTest",
    "OnnxBackendPyTorchConvertedModelTest",
    "OnnxBackendPyTorchOperatorModelTest",
    "OnnxBackendRealModelTest",
)


@cache
def suite() -> dict[str, type[unittest.TestCase]]:
    """The test cases that the onnx package makes for our backend, by category."""
    from onnx.backend.test import BackendTest

    from tilewright.frontend.onnx.backend import TilewrightBackend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(BackendTest(TilewrightBackend, __name__).test_cases)


def names(category: str) -> list[str]:
    """The names of the tests of a category that run on a CPU, without their suffix."""
    return sorted(name.removesuffix("_cpu") for name in dir(suite()[category]) if name.endswith("_cpu"))


def run(category: str, name: str) -> str | None:
    """Run one test: None if it passes, else what went wrong, in one line."""
    function: Callable[[], Any] = getattr(suite()[category](f"{name}_cpu"), f"{name}_cpu")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function()
    except unittest.SkipTest as skipped:
        return f"skipped: {skipped}"
    except Exception as error:  # Whatever it is, the test has failed, and the report says why.
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return None


@cache
def operators_of_nodes() -> dict[str, set[str]]:
    """The operators that each node case uses, by test name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    return {case.name: {f"{node.domain}.{node.op_type}" for node in case.model.graph.node} for case in cases}


def sample() -> list[str]:
    """Node cases such that every operator occurs: the first by name, in turn, that has an operator not seen before.

    Cases of one operator come first, as they say most about it.
    """
    seen: set[str] = set()
    chosen = []
    for name, operators in sorted(operators_of_nodes().items(), key=lambda item: (len(item[1]), item[0])):
        if not operators <= seen and name not in EXCLUSIONS:
            seen |= operators
            chosen.append(name)
    return chosen


def failures(category: str, chosen: Iterable[str]) -> list[str]:
    """The failing ones of the tests called `chosen`, each with its reason."""
    found = []
    for name in chosen:
        reason = run(category, name)
        if reason is not None:
            found.append(f"{name}: {reason}")
    return found
