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
_ROUNDED = (
    "expects coordinates from the fractional, not the rounded, output size; onnxruntime does not return it either"
)
_NOISE = "expects the rounding errors of one transform: 1.9e-7 where 0 is exact, with a tolerance of 1e-7"
_SCALAR = "the package's comparison cannot take the length of a scalar inside a sequence, whatever an engine returns"

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
    "test_dft_inverse_opset19": _NOISE,
    "test_loop16_seq_none": _SCALAR,
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

    from tilewright.onnx_backend import TilewrightBackend

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


def exclusion_table() -> str:
    """The table of exclusions as docs/onnx.md shows it."""
    rows = [f"| `{name}` | {reason} |" for name, reason in sorted(EXCLUSIONS.items())]
    return "\n".join(["| case | why it is excluded |", "|---|---|", *rows])


def operator_table() -> str:
    """The number of supported operators of each domain of the onnx package, as docs/onnx.md shows it."""
    counts: dict[str, list[str]] = {}
    totals: dict[str, int] = {}
    for (domain, name), schema in sorted(_latest_schemas().items()):
        totals[domain] = totals.get(domain, 0) + 1
        if not _is_supported(domain, name, schema):
            counts.setdefault(domain, []).append(name)
    rows = [
        f"| {domain or 'ai.onnx'} | {total - len(counts.get(domain, []))} of {total} | "
        f"{', '.join(counts.get(domain, [])) or 'none'} |"
        for domain, total in totals.items()
    ]
    return "\n".join(["| domain | supported | missing |", "|---|---|---|", *rows])


def _latest_schemas() -> dict[tuple[str, str], Any]:
    from onnx import defs

    latest: dict[tuple[str, str], Any] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain and not schema.domain.startswith("ai.onnx"):
            continue  # registered by another test (bench/fuzz/contrib_schemas.py), not by the package
        key = (schema.domain, schema.name)
        if key not in latest or schema.since_version > latest[key].since_version:
            latest[key] = schema
    return latest


def _is_supported(domain: str, name: str, schema: Any) -> bool:
    from tilewright.frontend.onnx import convert  # noqa: F401  (registers the converters)
    from tilewright.frontend.onnx.host import host_name
    from tilewright.frontend.onnx.registry import converts

    defined = schema.has_function or schema.has_context_dependent_function
    return bool(converts.find(name, schema.since_version, domain) or host_name(domain, name) or defined)
