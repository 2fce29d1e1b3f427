"""The fuzzer of symbolic sizes: what it draws, and that it tells what is wrong from what is not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime", reason="the fuzzer compares with onnxruntime")

from bench.fuzz import symbolic
from bench.fuzz import symbolic_worker as worker
from bench.fuzz.case import Case, Settings
from bench.fuzz.graphs import Record
from bench.fuzz.symbolic_worker import SymbolicCase


def case(text: str, sizes: list[dict[str, int]], dims: dict[str, tuple[Any, ...]], **feeds: Any) -> SymbolicCase:
    """A case of a model in ONNX's text form, to be run at `sizes`."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> {text}')
    return SymbolicCase(Case(0, model, feeds, Settings()), dims, tuple(sizes))


def gather(sizes: list[dict[str, int]]) -> SymbolicCase:
    """Rows 0 and 1 of n."""
    text = "g (float[n, 2] x) => (float[a, b] y) <int64[2] i = {0, 1}> { y = Gather <axis = 0> (x, i) }"
    return case(text, sizes, {"x": ("n", 2)}, x=np.arange(6, dtype=np.float32).reshape(3, 2))


def test_sizes_are_drawn_with_0_and_1_among_them() -> None:
    drawn = [found for found in map(worker.draw_symbolic, range(30)) if found.sizes]
    assert len(drawn) > 10
    for found in drawn:
        values = [set(sizes.values()) for sizes in found.sizes]
        assert {0} in values and {1} in values and 3 <= len(found.sizes) <= worker.SIZES
        again = worker.draw_symbolic(found.case.seed)
        assert again.sizes == found.sizes and again.dims == found.dims
        for sizes in found.sizes[:3]:
            feeds = found.feeds(sizes)
            for name, dims in found.dims.items():
                wanted = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in dims)
                assert feeds[name].shape == wanted and feeds[name].dtype == found.case.feeds[name].dtype


def test_refused_by_all_and_right() -> None:
    outcome = worker.judge(gather([{"n": 3}, {"n": 2}, {"n": 1}, {"n": 0}]))
    assert outcome.counts == {worker.RIGHT: 2, worker.NO_MEANING: 2}


@pytest.mark.parametrize(
    ("answer", "sizes", "expected"),
    [
        (lambda x: x[[0, 0]], {"n": 3}, worker.WRONG),
        (lambda x: np.zeros((2, 2), np.float32), {"n": 0}, worker.MEANINGLESS),
        (lambda x: x[{}], {"n": 3}, worker.RAW),
    ],
)
def test_what_is_wrong_is_told(answer: Any, sizes: dict[str, int], expected: str) -> None:
    broken = SimpleNamespace(run=lambda feeds: [answer(feeds["x"])])
    assert worker.judge_sizes(gather([sizes]), broken, sizes)[0] == expected  # type: ignore[arg-type]


def test_a_few_seeds(tmp_path: Path) -> None:
    record = Record(tmp_path)
    symbolic.run(range(3), record)
    assert set(record.outcomes) == {0, 1, 2}
    assert not Counter(outcome.outcome for outcome in record.outcomes.values()).keys() & set(symbolic.FINDINGS)
    assert symbolic.table(record.outcomes.values()).startswith("| outcome |")
