"""The ONNX backend: its interface, and the onnx package's own tests through it.

By default every operator is tested once, in four parts; `--long` runs all cases of all kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontend.onnx.backend_suite import (
    CATEGORIES,
    EXCLUSIONS,
    exclusion_table,
    failures,
    names,
    operator_table,
    run,
    sample,
)
from tilewright import onnx_backend as backend

VERSION = tuple(int(part) for part in onnx.__version__.split(".")[:2])
PARTS = 4

needs_known_cases = pytest.mark.skipif(
    VERSION != (1, 23), reason=f"the table of exclusions is that of onnx 1.23; this is {onnx.__version__}"
)


@needs_known_cases
@pytest.mark.parametrize("part", range(PARTS))
def test_every_operator_once(part: int) -> None:
    assert failures("OnnxBackendNodeModelTest", sample()[part::PARTS]) == []


@needs_known_cases
@pytest.mark.long
@pytest.mark.parametrize("category", CATEGORIES[:4])
@pytest.mark.parametrize("part", range(PARTS))
def test_all_cases_of_the_onnx_package_pass(category: str, part: int) -> None:
    assert failures(category, [name for name in names(category) if name not in EXCLUSIONS][part::PARTS]) == []


@needs_known_cases
@pytest.mark.long
def test_what_is_excluded_fails() -> None:
    assert [name for name in EXCLUSIONS if run("OnnxBackendNodeModelTest", name) is None] == []


@needs_known_cases
def test_exclusions_are_few_and_exist() -> None:
    known = names("OnnxBackendNodeModelTest")
    assert set(EXCLUSIONS) <= set(known)
    assert len(EXCLUSIONS) < 0.01 * len(known)


@needs_known_cases
@pytest.mark.parametrize("table", [exclusion_table, operator_table])
def test_the_documentation_shows_the_tables(table: Callable[[], str]) -> None:
    page = (Path(__file__).parents[1] / "docs" / "onnx.md").read_text(encoding="utf-8")
    assert table() in page, f"put this into docs/onnx.md:\n{table()}"


def _sum_model(rank_known: bool = True) -> onnx.ModelProto:
    shape: Any = [2, 3] if rank_known else None
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Relu", ["sum"], ["out"])],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "ab"],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("sum", "out")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("rank_known", [True, False])
def test_a_prepared_model_takes_lists_and_names(rank_known: bool) -> None:
    a, b = np.float32([[1, -2, 3], [4, 5, -6]]), np.float32([[1, 1, 1], [-9, 1, 1]])
    prepared = backend.prepare(_sum_model(rank_known), "CPU")
    for inputs in ([a, b], (a, b), {"a": a, "b": b}):
        outputs = prepared.run(inputs)
        np.testing.assert_array_equal(outputs[0], a + b)
        np.testing.assert_array_equal(outputs["out"], np.maximum(a + b, 0))


def test_a_model_and_a_node_run_at_once() -> None:
    a = np.float32([[1, -2, 3], [4, 5, -6]])
    np.testing.assert_array_equal(backend.run_model(_sum_model(), [a, a])[1], np.maximum(2 * a, 0))
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
    np.testing.assert_array_equal(backend.run_node(node, [a], opset_version=13)[0], a.T)


def test_only_the_cpu_is_supported() -> None:
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA:0")
